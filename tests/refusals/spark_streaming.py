"""Streaming DataFrames on Spark."""

from tests.refusals.case import Case

TITLE = "Spark, streaming"
_TWO = "pattern p match A a -> B b within 1 minute partition by user pattern q match A a -> B b within 1 minute partition by host"
_FED = "pattern p match A a partition by user pattern q match p x -> p y within 1 minute partition by user"
CASES = (
    Case('pattern("match A").detect(ps.events(stream), observation=Observation())', "An Observation is for one action", "`ps.progress(query)`", spark=True),
    Case('pattern("match A").why_not(ps.events(stream))', "this DataFrame is a stream", "the same rows as a batch", spark=True),
    Case(f'pattern("{_TWO}").detect(ps.events(stream, order="arrival"))', "trusts the order of one key", "a query for each key", spark=True),
    Case(f'pattern("{_FED}").detect(ps.events(stream, order="arrival"))', "takes what comes later for later", "`order='watermark'`", spark=True),
    Case('ps.events(stream, max_ahead="1 hour", lateness="1 minute")', "has a watermark on 'ts' already", "`lateness=` without `withWatermark`", error="EventDataError", spark=True),
    Case('ps.events(unmarked, max_ahead="1 hour")', "the watermark is set with it", "`lateness='10 minutes'` beside it", error="EventDataError", spark=True),
    Case('ps.events(unmarked, max_ahead="0 seconds", lateness="1 minute")', "it is a duration above zero", "`max_ahead='1 hour'`", error="EventDataError", spark=True),
    Case('ps.trees("//a->a").detect(ps.documents(unmarked, body="xml", max_ahead="1 hour", lateness="1 minute"))', "max_ahead is for documents that patterns or subscriptions relate", "no `max_ahead`", spark=True),
)  # fmt: skip
