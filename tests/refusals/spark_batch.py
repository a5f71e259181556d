"""Finished DataFrames on Spark."""

from tests.refusals.case import Case

TITLE = "Spark, batch"
CASES = (
    Case('pattern("match A").match(df, horizon=START)', "horizon= is not supported over Spark DataFrames", "remove the rows after it", spark=True),
    Case('pattern("match A").match(rows, rejected=True)', "rejected= requires a Spark DataFrame", "remove `rejected=`"),
    Case('pattern("match A").match(ps.events(df), rejected=True)', "no row of a finished one is late", "`observation=…`", spark=True),
    Case('pattern("match A").match(ps.events(df), checkpoint="there")', "checkpoint= requires a streaming DataFrame", "remove `checkpoint=`", spark=True),
    Case('pattern("match A a -> A b within 1 hour partition by user return a.host as host suppress 1 hour by host").match(ps.events(df))', "matches of different keys are found in different tasks", "suppress by the key too", spark=True),
    Case('pattern("match A a -> A b where b.v = a.v within 1 second").match(ps.events(df.selectExpr("*", "parse_json(\'1\') as v")))', "cannot be sent to Python", "cast the column", spark=True),
)  # fmt: skip
