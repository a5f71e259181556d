"""Strategies for streams out of order."""

from tests.refusals.case import Case

TITLE = "Disorder strategies"
_ASSEMBLED = {
    "match A a -> B b within 10 seconds": ("take the next event", "`->>`"),
    "match A+ a ->> B b within 10 seconds": ("a repetition", "`disorder='aggressive'`"),
    "match A a ->> B b within 10 seconds suppress 3 seconds": ("suppressed", "`disorder='aggressive'`"),
    "match A a ->> B b within 5 events": ("counts events", "a window in time"),
    "match A a ->> B b within 10 seconds report timeouts": ("come to nothing", "`disorder='aggressive'`"),
    "match A a ->> B b within 10 seconds after match skip past last": ("matches before it", "`disorder='aggressive'`"),
    "match not C for 2 seconds -> A a ->> B b within 10 seconds": ("looks back", "`disorder='aggressive'`"),
    "match A a -> not (C c -> D d) ->> B b within 10 seconds": ("more than one event", "rule out one step"),
    "match A a ->> B b within forever": ("nothing bounds it", "a window in time"),
}
CASES = (
    *(
        Case(f'pattern("{text}").detect(ps.events(stream, disorder="assemble"))', reason, instead, spark=True)
        for text, (reason, instead) in _ASSEMBLED.items()
    ),
    Case('pattern("pattern p match A a ->> B b within 5 seconds partition by user pattern q match A a ->> B b within 5 seconds").detect(ps.events(stream, disorder="conservative"))', "partitioned in 2 ways", "a query for each key", spark=True),
    Case('ps.fold(pattern("match A a -> B b within 5 seconds").detect(ps.events(stream, disorder="aggressive")))', "has no last change", "`ps.fold_into(table)`", spark=True),
    Case('ps.fold_into("plain", using="parquet")', "do not take MERGE", "`using='delta'`", spark=True),
    Case('ps.events(stream, order="arrival", disorder="aggressive")', "trusts that events arrive in order", "one of the two", error="EventDataError", spark=True),
)  # fmt: skip
