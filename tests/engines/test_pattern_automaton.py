"""The automaton of the rule engine equals the interpreter and the oracle, call by call."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from perseid.compile.compiler import compile_set
from perseid.compile.plan import Plan
from perseid.engines.models.automaton_codec import decode_automaton, encode_automaton
from perseid.engines.models.pattern_automaton import PatternAutomaton
from perseid.engines.models.pattern_contexts import make_automaton
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.contexts import END_OF_TIME
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import RawMatch
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve
from tests.blocks import blocks
from tests.engines.interpreted_automaton import InterpretedAutomaton
from tests.generators.random_patterns import SECOND, make_pair

SEEDS = 100
Found = list[tuple[object, ...]]


def search(one: PatternAutomaton | InterpretedAutomaton, events: list[Event]) -> tuple[list[Found], list[int | None]]:
    """Returns the matches decided by each event, by the time after it and by the end, and the deadline after each
    event."""
    found: list[Found] = []
    deadlines: list[int | None] = []

    def collect() -> None:
        # Positions count all events of the partition, evicted ones too.
        found.append([(raw.kind, raw.end, raw.bound_events, dict(raw.unified)) for raw in one.collect()])

    for position, event in enumerate(events):
        one.feed(event)
        collect()
        if is_last_of_its_time(events, position):
            one.advance(event.time)
            collect()
            deadlines.append(min((end for end in one.deadlines() if event.time < end < END_OF_TIME), default=None))
    one.finish()
    collect()
    return found, deadlines


def is_last_of_its_time(events: list[Event], position: int) -> bool:
    return position + 1 == len(events) or events[position + 1].time > events[position].time


def pair(seed: int, longest: int) -> tuple[CorePattern, list[Event], Plan]:
    core, events = make_pair(seed, longest)
    if seed % 3 == 0 and core.strictly_later is None:
        core = replace(core, strictly_later=True)
    return core, events, compile_set([core])


def compare(seed: int, longest: int) -> int:
    """Compare automaton, interpreter and oracle; returns the number of matches."""
    core, events, plan = pair(seed, longest)
    found, deadlines = search(make_automaton(plan, plan.patterns[0]), events)
    expected, expected_deadlines = search(InterpretedAutomaton(plan, plan.patterns[0]), events)
    assert found == expected, seed
    assert deadlines == expected_deadlines, seed
    partition = oracle_matcher()(core, events, horizon=None, strictly_later=False, relations={})
    assert sorted(map(key_of, partition.found)) == sorted(row[:3] for rows in found for row in rows), seed
    return sum(map(len, found))


def key_of(raw: RawMatch) -> tuple[object, ...]:
    return raw.kind, raw.end, raw.bound_events


@pytest.mark.parametrize("block", blocks(6, 60))
def test_equals_the_interpreter_and_the_oracle(block: int) -> None:
    matches = sum(compare(seed, 10) for seed in range(block * SEEDS, block * SEEDS + SEEDS))
    assert matches > SEEDS // 4


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_equals_the_interpreter_and_the_oracle_deep() -> None:
    for seed in range(2_000_000, 2_020_000):
        compare(seed, 14)


# encoded and decoded


@pytest.mark.parametrize("block", blocks(5, 10))
def test_decoded_automaton_continues(block: int) -> None:
    """Encoding and decoding after any event does not change the matches of patterns of every form."""
    for seed in range(block * 60, block * 60 + 60):
        _, events, plan = pair(seed, 12)
        chance = random.Random(seed)
        straight, automaton = (make_automaton(plan, plan.patterns[0]) for _ in range(2))
        expected: list[tuple[Any, ...]] = []
        found: list[tuple[Any, ...]] = []
        for position, event in enumerate(events):
            for one, out in ((straight, expected), (automaton, found)):
                one.feed(event)
                out.extend(collected(one))
            if is_last_of_its_time(events, position):
                for one, out in ((straight, expected), (automaton, found)):
                    one.advance(event.time)
                    out.extend(collected(one))
                if chance.random() < 0.6:
                    automaton = encoded_and_decoded(automaton, event.time, plan)
        for one, out in ((straight, expected), (automaton, found)):
            one.finish()
            out.extend(collected(one))
        assert found == expected, seed


def test_extended_partial_match_does_not_time_out() -> None:
    """Under `recent`, the first B is superseded by the run that extends it and is not emitted, with or without a
    restart."""
    core = resolve(parse_pattern("pattern p match A a -> B b -> C c within 5 seconds selection recent report timeouts"))
    plan = compile_set([core])
    for cut_after in (None, 0, 1, 2):
        automaton = make_automaton(plan, plan.patterns[0])
        found: list[tuple[str, int]] = []
        for i, kind in enumerate("ABC"):
            automaton.feed(Event(kind, i * SECOND, {}, f"{kind}{i}"))
            if cut_after == i:
                found += [(raw.kind, len(raw.bound_events)) for raw in automaton.collect()]
                automaton = encoded_and_decoded(automaton, i * SECOND, plan)
        automaton.finish()
        assert [*found, *((raw.kind, len(raw.bound_events)) for raw in automaton.collect())] == [("match", 3)]


def test_every_combination_of_a_match_stays_one() -> None:
    core = resolve(parse_pattern("pattern p match A a ->> B b ->> C c within 1 hour"))
    plan = compile_set([core])
    automaton = make_automaton(plan, plan.patterns[0])
    for i, kind in enumerate("ABBCC"):
        automaton.feed(Event(kind, i * SECOND, {}, f"{kind}{i}"))
        if i < 4:
            automaton = encoded_and_decoded(automaton, i * SECOND, plan)
    assert len(automaton.collect()) == 2


@pytest.mark.parametrize("selection", ["", "selection chronicle"])
def test_oldest_partial_matches_are_dropped_and_counted(selection: str) -> None:
    core = resolve(parse_pattern(f"pattern p match A a -> B b within forever {selection}"))
    plan = compile_set([core])
    own = replace(plan.patterns[0], retention=replace(plan.patterns[0].retention, cap=3))
    automaton = make_automaton(plan, own)
    for i in range(10):
        automaton.feed(Event("A", i, {}, f"a{i}"))
    automaton.feed(Event("B", 10, {}, "b"))
    assert automaton.capped == 7
    assert [raw.bound_events[0][1] for raw in automaton.collect()] == ([7] if selection else [7, 8, 9])


def test_column_may_have_the_name_of_its_step() -> None:
    """``load.load`` of one event is a condition on that event alone, whatever the step is called."""
    core = resolve(parse_pattern("pattern p match Host load -> Host b within 1 hour where load.load > 3"))
    plan = compile_set([core])
    events = [Event("Host", i * SECOND, {"load": load}, f"h{i}") for i, load in enumerate((1, 5, 2))]
    automaton = make_automaton(plan, plan.patterns[0])
    for event in events:
        automaton.feed(event)
    partition = oracle_matcher()(core, events, horizon=None, strictly_later=False, relations={})
    found = [raw.bound_events for raw in automaton.collect()]
    assert found == [raw.bound_events for raw in partition.found] == [((0, 1), (1, 2))]


def collected(automaton: PatternAutomaton) -> list[tuple[Any, ...]]:
    return [
        (
            raw.kind,
            raw.end,
            dict(raw.unified),
            [(step, automaton.events[position].id) for step, position in raw.bound_events],
        )
        for raw in automaton.collect()
    ]


def encoded_and_decoded(automaton: PatternAutomaton, done: int, plan: Plan) -> PatternAutomaton:
    decoded = make_automaton(plan, plan.patterns[0])
    if not automaton.evict(done):
        return decoded
    events: dict[int, tuple[int, Event]] = {}
    encoded = json.loads(json.dumps(encode_automaton(automaton, events)))
    listed = [event for _, event in events.values()]
    decode_automaton(decoded, [listed[number] for number in encoded["events"]], encoded)
    return decoded
