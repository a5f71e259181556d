"""Finished DataFrames on Spark."""

from tests.refusals.case import Case

TITLE = "Spark, batch"
CASES = (
    Case('pattern("match A").detect(ps.events(df), rejected=True)', "nothing of a finished DataFrame is late", "`observation=…`", spark=True),
    Case('pattern("match A").detect(ps.events(df), checkpoint="there")', "A checkpoint is a stream's", "leave it out", spark=True),
    Case('pattern("match A a -> A b within 1 hour partition by user return a.host as host suppress 1 hour by host").detect(ps.events(df))', "matches of different keys have in common", "suppress by the key too", spark=True),
    Case('pattern("match A a -> A b where b.v = a.v within 1 second").detect(ps.events(df.selectExpr("*", "parse_json(\'1\') as v")))', "cannot cross to Python", "cast the column", spark=True),
)  # fmt: skip
