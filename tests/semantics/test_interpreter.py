"""The interpreter over the plan equals the oracle: at the end, at every horizon, and in any batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.compile.compiler import compile_set
from perseid.lang.parser import parse_pattern
from perseid.reference.interpreter import Machine
from perseid.reference.oracle import oracle_matcher
from perseid.reference.plan_matcher import plan_matcher
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import Detection, detect
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve
from tests.generators.random_patterns import core_patterns, event_streams, make_pair

DEEP_PAIRS = 20_000


def rows(detection: Detection) -> list[tuple[object, ...]]:
    """Returns the comparable parts of matches, sorted because several may have the same start and end."""
    return sorted((m.kind, m.match_id, m.end_us, tuple(m.values.items())) for m in detection.matches)


def agree(
    pattern: CorePattern, events: list[Event], horizon: int | None, strictly_later: bool, seed: int | None = None
) -> None:
    options = {"horizon": horizon, "strictly_later": strictly_later}
    expected = detect([pattern], events, oracle_matcher(), **options)
    given_ = detect([pattern], events, plan_matcher(compile_set([pattern])), **options)
    assert rows(given_) == rows(expected), f"seed {seed}, horizon {horizon}"


@given(core_patterns(), event_streams(), st.booleans(), st.data())
def test_equals_the_oracle(
    pattern: CorePattern, events: list[Event], strictly_later: bool, data: st.DataObject
) -> None:
    agree(pattern, events, None, strictly_later)
    if events:
        agree(pattern, events, data.draw(st.sampled_from([e.time for e in events])), strictly_later)


@pytest.mark.parametrize("block", range(10))
def test_equals_the_oracle_on_seeds(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        pattern, events = make_pair(seed)
        agree(pattern, events, None, seed % 3 == 0, seed)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_deep() -> None:
    """20,000 pairs, each at the end of time and at several horizons."""
    for seed in range(1_000_000, 1_000_000 + DEEP_PAIRS):
        pattern, events = make_pair(seed, longest=11)
        for horizon in [None, *sorted({e.time for e in events})[::3]]:
            agree(pattern, events, horizon, seed % 3 == 0, seed)


@pytest.mark.parametrize("selection", ["", "selection chronicle"])
def test_without_a_bound_the_oldest_runs_are_dropped_and_counted(selection: str) -> None:
    pattern = resolve(parse_pattern(f"pattern p match A a -> B b within forever {selection}"))
    plan = compile_set([pattern])
    own = replace(plan.patterns[0], retention=replace(plan.patterns[0].retention, cap=3))
    events = [Event("A", i, {}, f"a{i}", 0, (0, i)) for i in range(10)] + [Event("B", 10, {}, "b", 0, (0, 10))]
    found = detect([pattern], events, plan_matcher(replace(plan, patterns=(own,))))
    assert found.capped == 7
    assert [m.start_us for m in found.matches] == ([7] if selection else [7, 8, 9])


def test_column_may_have_the_name_of_its_step() -> None:
    pattern = resolve(parse_pattern("pattern p match A load -> A b within 1 hour where load.load > 3"))
    agree(pattern, [Event("A", i, {"load": load}, f"a{i}") for i, load in enumerate((1, 5, 2))], None, False)


@given(core_patterns(), event_streams(), st.lists(st.booleans(), min_size=12, max_size=12))
def test_matches_do_not_depend_on_when_time_advances(
    pattern: CorePattern, events: list[Event], cuts: list[bool]
) -> None:
    """Time may advance after any event that ends its instant; matches emitted so far are never retracted."""
    plan = compile_set([pattern])
    whole, cut = (Machine(plan, plan.patterns[0], False, {}) for _ in range(2))
    out = []
    for i, event in enumerate(events):
        whole.feed(event)
        cut.feed(event)
        last_of_instant = i + 1 == len(events) or events[i + 1].time > event.time
        if cuts[i] and last_of_instant:
            cut.advance(event.time)
        out += cut.collect()
    whole.finish()
    cut.finish()
    out += cut.collect()
    key = sorted
    assert key((m.kind, m.bound_events, m.end) for m in out) == key(
        (m.kind, m.bound_events, m.end) for m in whole.collect()
    )


@given(core_patterns(), event_streams())
def test_decided_matches_are_final(pattern: CorePattern, events: list[Event]) -> None:
    """A later horizon has all matches of an earlier one."""
    known: set[tuple[object, ...]] = set()
    for horizon in [*sorted({e.time for e in events}), None]:
        now = set(rows(detect([pattern], events, oracle_matcher(), horizon=horizon)))
        assert known <= now
        known = now
