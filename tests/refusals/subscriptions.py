"""Rejected combinations for subscriptions."""

from tests.refusals.case import Case

TITLE = "Subscriptions"


def _of(predicate: str, left: str = "S//a->x[/b->z]", right: str = "S//a->y") -> str:
    return f'ps.xscl.subscriptions("{left} FOLLOWED BY{{{{{predicate}, 1 hour}}}} {right}").match(documents)'.replace(
        "{{", "{"
    ).replace("}}", "}")


CASES = (
    Case(_of("x < y"), "A subscription needs at least one equality between nodes of the two documents; without one, every document is compared with every other", "add an equality"),
    Case(_of("x = y AND z != y"), "!= between nodes of two documents is unsupported: nearly all pairs differ", "compare with `=`, `<`, `>`"),
    Case(_of("x = y AND x = z"), "x = z compares two nodes of one document", "compare with the other block"),
    Case(_of("x = y", left="S//r(/a->x::/b)"), "'x' is in a run of siblings, which can contain any number of such nodes", "a node in a path or in brackets"),
    Case('ps.xscl.subscription_table("s3://bucket/readers")', "s3://bucket/readers: subscriptions need a folder in a file system that the driver and the executors share", "a mounted path"),
    Case('ps.xscl.subscriptions({"a": "S//a->x FOLLOWED BY{x = y, 1 hour} S//a->y PUBLISH P", "b": "P//a->x FOLLOWED BY{x = y, 1 hour} S//a->y"}).match(ps.documents(df, body="xml", type="type", time="ts", id="user"))', "On Spark, a subscription cannot read a stream that another subscription of the same set publishes", "two queries", spark=True),
)  # fmt: skip
