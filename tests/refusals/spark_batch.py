"""Rejected combinations for batch DataFrames on Spark."""

from tests.refusals.case import Case

TITLE = "Spark, batch"
CASES = (
    Case('pattern("match A").match(df, horizon=START)', "horizon= (a fixed watermark) is unsupported on Spark DataFrames", "remove the rows after it, and the matches with a later `end`", spark=True),
    Case('pattern("match A").match(rows, rejected=True)', "rejected= requires a Spark DataFrame, and these rows are local", "remove `rejected=`"),
    Case('pattern("match A").match(ps.events(df), rejected=True)', "rejected=True requires a streaming DataFrame: a batch DataFrame has no late rows", "`observation=…`", spark=True),
    Case('pattern("match A").match(ps.events(df), checkpoint="there")', "checkpoint= requires a streaming DataFrame, got a batch DataFrame", "remove `checkpoint=`", spark=True),
    Case('pattern("match A a -> A b within 1 hour partition by user return a.host as host suppress 1 hour by host").match(ps.events(df))', "Pattern p suppresses by host, across keys; on Spark, matches of different keys are found in different tasks", "suppress by the key too", spark=True),
    Case('pattern("match A a -> A b where b.v = a.v within 1 second").match(ps.events(df.selectExpr("*", "parse_json(\'1\') as v")))', "Column 'v' has type variant, which cannot be sent to Python", "cast the column", spark=True),
)  # fmt: skip
