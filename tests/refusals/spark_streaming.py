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
)  # fmt: skip
