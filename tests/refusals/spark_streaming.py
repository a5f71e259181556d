"""Rejected combinations for streaming DataFrames on Spark."""

from tests.refusals.case import Case

TITLE = "Spark, streaming"
_TWO = "pattern p match A a -> B b within 1 minute partition by user pattern q match A a -> B b within 1 minute partition by host"
_FED = "pattern p match A a partition by user pattern q match p x -> p y within 1 minute partition by user"
CASES = (
    Case('pattern("match A").match(ps.events(stream), observation=Observation())', "observation= requires a batch DataFrame: a streaming query reports its counts for each batch", "`ps.progress(query)`", spark=True),
    Case('pattern("match A").why_not(ps.events(stream))', "why_not expects a batch DataFrame, got a streaming DataFrame", "the same rows as a batch", spark=True),
    Case(f'pattern("{_TWO}").match(ps.events(stream, order="arrival"))', "order='arrival' relies on the order within a key, but these patterns have 2 partitionings", "a query for each key", spark=True),
    Case(f'pattern("{_FED}").match(ps.events(stream, order="arrival"))', "Pattern q consumes matches of p; with order='arrival', a match that is emitted after a later event would be ordered after it", "`order='watermark'`", spark=True),
    Case('ps.events(stream, max_ahead="1 hour", lateness="1 minute")', "The streaming DataFrame already has a watermark on 'ts'; max_ahead requires a DataFrame without one", "`lateness=` without `withWatermark`", error="EventDataError", spark=True),
    Case('ps.events(unmarked, max_ahead="1 hour")', "max_ahead requires lateness, which sets the watermark", "`lateness='10 minutes'` beside it", error="EventDataError", spark=True),
    Case('ps.events(unmarked, max_ahead="0 seconds", lateness="1 minute")', "max_ahead='0 seconds': expected a duration above zero and of at most 10,000 days, such as '1 hour'", "`max_ahead='1 hour'`", error="EventDataError", spark=True),
    Case('ps.xml.tree_patterns("//a->a").match(ps.documents(unmarked, body="xml", max_ahead="1 hour", lateness="1 minute"))', "max_ahead is only supported for documents that patterns or subscriptions relate by time; tree patterns alone match within each document", "no `max_ahead`", spark=True),
)  # fmt: skip
