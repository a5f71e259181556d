"""Strategies for streams out of order."""

from tests.refusals.case import Case

TITLE = "Disorder strategies"
_ASSEMBLED = {
    "match A a -> B b within 10 seconds": ("take the next event", "`->>`"),
    "match A+ a ->> B b within 10 seconds": ("a repetition", "`disorder='aggressive'`"),
    "match A a ->> B b within 10 seconds suppress 3 seconds": ("it suppresses matches", "`disorder='aggressive'`"),
    "match A a ->> B b within 5 events": ("counts events", "a time window"),
    "match A a ->> B b within 10 seconds report timeouts": ("it reports timeouts", "`disorder='aggressive'`"),
    "match A a ->> B b within 10 seconds after match skip past last": (
        "depend on earlier matches",
        "`disorder='aggressive'`",
    ),
    "match not C for 2 seconds -> A a ->> B b within 10 seconds": (
        "events before its first event",
        "`disorder='aggressive'`",
    ),
    "match A a -> not (C c -> D d) ->> B b within 10 seconds": ("more than one event", "negate a single step"),
    "match A a ->> B b within forever": ("its duration is unbounded", "a time window"),
}
CASES = (
    *(
        Case(f'pattern("{text}").match(ps.events(stream, disorder="assemble"))', reason, instead, spark=True)
        for text, (reason, instead) in _ASSEMBLED.items()
    ),
    Case('pattern("pattern p match A a ->> B b within 5 seconds partition by user pattern q match A a ->> B b within 5 seconds").match(ps.events(stream, disorder="conservative"))', "these patterns have 2 partitionings", "a query for each key", spark=True),
    Case('ps.disorder.current_matches(pattern("match A a -> B b within 5 seconds").match(ps.events(stream, disorder="aggressive")))', "has no last change", "`ps.disorder.merge_into(table)`", spark=True),
    Case('ps.disorder.merge_into("plain", using="parquet")', "do not support MERGE", "`using='delta'`", spark=True),
    Case('ps.events(stream, order="arrival", disorder="aggressive")', "order='arrival' requires events in order", "one of the two", error="EventDataError", spark=True),
)  # fmt: skip
