"""Rejected combinations for out-of-order strategies."""

from tests.refusals.case import Case

TITLE = "Disorder strategies"
_ASSEMBLED = {
    "match A a -> B b within 10 seconds": (
        "Pattern p cannot be assembled from out-of-order events: '->' and ',' take the next event, and an earlier event may still arrive; use '->>' to take every event",
        "`disorder='aggressive'`, or `->>` (this finds more matches)",
    ),
    "match A+ a ->> B b within 10 seconds": (
        "Pattern p cannot be assembled from out-of-order events: it has a repetition, '|' or '&', and a later arrival can change its match",
        "`disorder='aggressive'`",
    ),
    "match A a ->> B b within 10 seconds suppress 3 seconds": (
        "Pattern p cannot be assembled from out-of-order events: it suppresses matches, and an earlier match may still be found",
        "`disorder='aggressive'`",
    ),
    "match A a ->> B b within 5 events": (
        "Pattern p cannot be assembled from out-of-order events: its window counts events, and more events may still arrive",
        "a time window",
    ),
    "match A a ->> B b within 10 seconds report timeouts": (
        "Pattern p cannot be assembled from out-of-order events: it reports timeouts, and a partial match cannot time out while its events may still arrive",
        "`disorder='aggressive'`",
    ),
    "match A a ->> B b within 10 seconds after match skip past last": (
        "Pattern p cannot be assembled from out-of-order events: 'selection' or 'after match skip' makes a match depend on earlier matches",
        "`disorder='aggressive'`",
    ),
    "match not C for 2 seconds -> A a ->> B b within 10 seconds": (
        "Pattern p cannot be assembled from out-of-order events: it reads events before its first event",
        "`disorder='aggressive'`",
    ),
    "match A a -> not (C c -> D d) ->> B b within 10 seconds": (
        "Pattern p cannot be assembled from out-of-order events: a negation has more than one event",
        "negate a single step",
    ),
    "match A a ->> B b within forever": (
        "Pattern p cannot be assembled from out-of-order events: its duration is unbounded",
        "a time window",
    ),
}
CASES = (
    *(
        Case(f'pattern("{text}").match(ps.events(stream, disorder="assemble"))', reason, instead, spark=True)
        for text, (reason, instead) in _ASSEMBLED.items()
    ),
    Case('pattern("pattern p match A a ->> B b within 5 seconds partition by user pattern q match A a ->> B b within 5 seconds").match(ps.events(stream, disorder="conservative"))', "disorder='conservative' reads punctuations per key, but these patterns have 2 partitionings", "a query for each key", spark=True),
    Case('ps.disorder.current_matches(pattern("match A a -> B b within 5 seconds").match(ps.events(stream, disorder="aggressive")))', "A streaming changelog has no last change, so current_matches is unsupported on it", "`ps.disorder.merge_into(table)`", spark=True),
    Case('ps.disorder.merge_into("plain", using="parquet")', "Tables in the format 'parquet' do not support MERGE, which retractions require", "`using='delta'`", spark=True),
    Case('ps.events(stream, order="arrival", disorder="aggressive")', "order='arrival' requires events in order, and disorder='aggressive' is for events out of order", "one of the two", error="EventDataError", spark=True),
)  # fmt: skip
