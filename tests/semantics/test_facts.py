"""Static facts are guarantees: random patterns and streams try to violate them."""

from __future__ import annotations

import pytest
from hypothesis import given

from perseid.lang import ast
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import Detection, detect
from perseid.semantics.events import Event
from perseid.semantics.facts import Facts, facts_of
from perseid.semantics.resolve import resolve
from tests.generators.random_patterns import core_patterns, event_streams


def facts(text: str) -> Facts:
    return facts_of(resolve(parse_pattern(f"pattern p {text}")))


def rows(detection: Detection) -> list[tuple[object, ...]]:
    return sorted((m.kind, m.match_id, m.end_us) for m in detection.matches)


@given(core_patterns(), event_streams())
def test_droppable_events_can_be_dropped(pattern: CorePattern, events: list[Event]) -> None:
    if not facts_of(pattern).droppable:
        return
    wanted = {s.kind.name for s in pattern.steps if isinstance(s.kind, ast.EventType)}
    kept = [e for e in events if e.type in wanted]
    for horizon in (None, *(e.time for e in events[-1:])):
        whole = detect([pattern], events, oracle_matcher(), horizon=horizon)
        thinned = detect([pattern], kept, oracle_matcher(), horizon=horizon)
        assert rows(thinned) == rows(whole)


@given(core_patterns(), event_streams())
def test_no_match_is_longer_than_the_bound(pattern: CorePattern, events: list[Event]) -> None:
    known = facts_of(pattern)
    for match in detect([pattern], events, oracle_matcher()).matches:
        if known.bound is not None and match.kind == "match":
            assert match.end_us - match.start_us <= known.bound
        if known.count_bound is not None:
            assert len(match.contributing) <= known.count_bound


@given(core_patterns(), event_streams())
def test_columns_not_read_do_not_matter(pattern: CorePattern, events: list[Event]) -> None:
    """Only the columns that a pattern reads, and those of its key, affect its matches."""
    known = facts_of(pattern)
    read = {c for step in known.steps for c in step.columns} | {p.parts[0] for p in pattern.partition}
    bare = [
        Event(e.type, e.time, {k: v for k, v in e.attributes.items() if k in read}, e.id, e.occurrence, e.rank)
        for e in events
    ]
    assert rows(detect([pattern], bare, oracle_matcher())) == rows(detect([pattern], events, oracle_matcher()))


@given(core_patterns(), event_streams())
def test_one_per_start(pattern: CorePattern, events: list[Event]) -> None:
    known = facts_of(pattern)
    if known.growth != "one per start" or pattern.context is not None:
        return
    matches = detect([pattern], events, oracle_matcher()).matches
    starts = [(tuple(m.key.values()), m.contributing[0][1].id) for m in matches]
    assert len(starts) == len(set(starts))


@given(core_patterns(), event_streams())
def test_match_decided_by_its_last_event_is_emitted_with_it(pattern: CorePattern, events: list[Event]) -> None:
    """Unless a deadline or a window decides it, a match is emitted with its last event."""
    if facts_of(pattern).known != ("event",):
        return
    final = detect([pattern], events, oracle_matcher())
    for horizon in {e.time for e in events}:
        now = detect([pattern], events, oracle_matcher(), horizon=horizon)
        assert rows(now) == sorted((m.kind, m.match_id, m.end_us) for m in final.matches if m.end_us <= horizon)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("match A -> B within 1 minute", ("event",)),
        ("match A -> B+ -> C within 1 minute", ("event",)),
        ("match A -> B+ within 1 minute", ("event", "window")),
        ("match A -> B+? within 1 minute", ("event", "window")),
        ("match A -> not B for 5 seconds", ("deadline",)),
        ("match A -> B -> not C for 5 seconds within 1 minute report timeouts", ("deadline", "window")),
        ("match A -> ((B -> C) | B) within 5 seconds", ("event", "window")),
        ("match A -> B within 1 minute after match skip past last", ("event", "window")),
    ],
)
def test_known(text: str, known: tuple[str, ...]) -> None:
    assert facts(text).known == known


def test_columns() -> None:
    assert facts("match A a return amount").steps[0].retained == ("amount",)
    assert facts("match A(user as u) a -> A(user as u) b within 1 minute").steps[0].retained == ("user",)
    assert facts("match A a return evidence").all_columns


def test_leading_absences_count() -> None:
    assert not facts("match not (A, C) for 10 seconds -> B b").droppable


@pytest.mark.parametrize(
    ("text", "droppable"),
    [
        ("match A -> B within 1 minute", True),
        ("match A, B", False),
        ("match A -> B within 5 events", False),
        ("match A -> (B -> C within 5 events) within 1 minute", False),
        ("match A -> any b within 1 minute", False),
        ("match A -> B within 1 minute selection immediate", False),
        ("match A -> B within 1 minute selection chronicle", True),
        ("match A -> B+ consecutive within 1 minute", False),
    ],
)
def test_droppable(text: str, droppable: bool) -> None:
    assert facts(text).droppable is droppable


@pytest.mark.parametrize(
    ("text", "growth"),
    [
        ("match A -> B within 1 minute", "one per start"),
        ("match A ->> B within 1 minute", "polynomial"),
        ("match A ->> B within 1 minute after match skip past last", "one per start"),
        ("match A -> B+ combinations -> C within 1 minute", "exponential"),
        ("match A -> B within 1 minute selection any", "polynomial"),
        ("match A -> B+ -> C within 1 minute selection any", "exponential"),
    ],
)
def test_growth(text: str, growth: str) -> None:
    assert facts(text).growth == growth


@pytest.mark.parametrize(
    ("text", "retention", "bound"),
    [
        ("match A [v > 1]", "empty", 0),
        ("match A -> B within 1 minute", "window", 60_000_000),
        ("match A -> within 5 seconds B -> within 6 seconds C", "window", 11_000_000),
        ("match A -> not B for 30 seconds", "window", 30_000_000),
        ("match A -> B within forever", "unbounded", None),
        ("match A, B+, C", "unbounded", None),
        ("match A, B{2}, C", "window", None),
        ("match A a suppress 1 hour", "window", 0),
    ],
)
def test_retention(text: str, retention: str, bound: int | None) -> None:
    known = facts(text)
    assert (known.retention, known.bound) == (retention, bound)


@pytest.mark.parametrize(
    ("text", "local", "cross"),
    [
        ("match A a [v > 1 and a.w = 2] -> B b [v > a.v] within 1 minute", 2, 1),
        ("match A(k as u) a -> B b [w = u] within 1 minute", 0, 1),
        ("match A+ a [sum(a.v) < 5] -> B within 1 minute", 0, 1),
        ("match A a [hour(time(a)) > 5] -> B within 1 minute", 1, 0),
        ("match A a [x in Office] -> B within 1 minute", 1, 0),
    ],
)
def test_event_local(text: str, local: int, cross: int) -> None:
    known = facts(text)
    assert sum(len(s.local) for s in known.steps) == local
    assert sum(len(s.cross) for s in known.steps) == cross


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("match A -> B within 1 minute", "sequence"),
        ("match Orders << //order->o >> a", "trees"),
        ("match F << //a->x >> a ->> F << //b->y >> b where a.x = b.y within 1 day", "joins"),
        ("match found Overloaded", "models"),
        ("match change set Host.cpu", "models"),
    ],
)
def test_engines(text: str, engine: str) -> None:
    assert facts(text).engines[0] == engine
