"""Encodes the partial matches of a pattern automaton as plain numbers, and decodes them.

The values of unified names are not encoded: they are read from the events again. Neither is the position from which the
next match may begin, because between calls no partial match begins before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from perseid.engines.models.partial_match import (
    NO_DEADLINE,
    Acceptance,
    Branch,
    PartialMatch,
    PatternRun,
    RequiredAbsence,
    RetainedEvents,
    RunItem,
    TimedOutBranch,
    ZoneBounds,
)
from perseid.engines.models.pattern_automaton import PatternAutomaton
from perseid.engines.models.pattern_contexts import ContextAutomaton
from perseid.lang import ast
from perseid.semantics.core import Hop
from perseid.semantics.events import Event
from perseid.semantics.scope import unify

MAX_NUMBER = 2**62
_TIMES = -(2**65), 2**65
"""Bounds of all times, including the ends of windows that close after all time."""


def encode_automaton(automaton: PatternAutomaton, events: dict[int, tuple[int, Event]]) -> dict[str, object]:
    """Encode an automaton as numbers. ``events`` maps ``id(event)`` to number and event; new events are added to it."""
    retained = automaton.events
    numbers = [events.setdefault(id(event), (len(events), event))[0] for event in retained.retained]
    matches: dict[int, tuple[int, PartialMatch]] = {}

    def number(match: PartialMatch) -> int:
        # Branches share the identity of their partial match, so it is encoded once.
        return matches.setdefault(id(match), (len(matches), match))[0]

    encoded: dict[str, object] = {"first": retained.first, "events": numbers}
    if isinstance(automaton, ContextAutomaton):
        encoded["partials"] = [number(one.match) for one in automaton.partials]
        encoded["went on"] = [number(one.match) for one in automaton.partials if one.has_successor]
    else:
        encoded["attempts"] = [
            {
                "start": run.start,
                "items": [_encode_item(item, number) for item in run.items],
                "emitted": sorted(run.emitted),
                "taken": sorted(run.matched),
            }
            for run in automaton.runs
        ]
    encoded["threads"] = [_encode_match(match) for _, match in matches.values()]
    return encoded


def _encode_item(item: RunItem, number: Callable[[PartialMatch], int]) -> list[object]:
    match item:
        case Branch():
            closes = None if item.closes == NO_DEADLINE else item.closes
            numbers = number(item.origin), item.step, number(item.target)
            return ["waiting", *numbers, closes, item.count_limits, item.broken]
        case Acceptance():
            return ["complete" if item.decided else "pending", number(item.accepted), item.end]
        case TimedOutBranch():
            return ["given up", number(item.origin), item.end]


def _encode_match(match: PartialMatch) -> list[object]:
    hop = match.hop
    return [
        match.program,
        match.pc,
        match.counters,
        None if hop is None else [hop.contiguity.value, hop.after, hop.within],
        match.together,
        match.bound_events,
        list(match.current.items()),
        match.clock,
        match.not_before,
        [list(absence) for absence in match.absences],
        [[_encode_window(zone.within), zone.holds_for, zone.first] for zone in match.zones],
        match.untils,
        match.combination,
        match.optional,
    ]


def _encode_window(window: ast.Window | None) -> list[object] | None:
    match window:
        case ast.TimeWindow():
            return ["time", window.duration]
        case ast.CountWindow():
            return ["events", window.events]
    return None  # a zone without a window never closes


def decode_automaton(automaton: PatternAutomaton, events: Sequence[Event], encoded: Mapping[str, Any]) -> None:
    """Restore partial matches into a new automaton; raise ValueError or a similar error if they are invalid."""
    first = number_in(encoded["first"], 0, MAX_NUMBER)
    automaton.events = RetainedEvents(first, events)
    _AutomatonDecoder(automaton, encoded).decode()


class _AutomatonDecoder:
    """Decodes the partial matches of one automaton; every number is checked before it is used."""

    def __init__(self, automaton: PatternAutomaton, encoded: Mapping[str, Any]) -> None:
        self.automaton = automaton
        self.first, self.end = automaton.events.first, len(automaton.events)
        self.encoded = encoded
        self.matches = [self._match(*one) for one in encoded["threads"]]

    def decode(self) -> None:
        automaton, encoded = self.automaton, self.encoded
        if not isinstance(automaton, ContextAutomaton):
            automaton.runs = [self._run(**one) for one in encoded["attempts"]]
            return
        numbers = dict.fromkeys(encoded["partials"])
        continued = set(encoded["went on"])
        if not continued <= numbers.keys():
            _reject()
        for number in numbers:
            automaton.add_partial(self._at(number), number in continued)

    def _at(self, number: object) -> PartialMatch:
        return self.matches[number_in(number, 0, len(self.matches))]

    def _position(self, position: object) -> int:
        return number_in(position, self.first, self.end)

    def _step(self, step: object) -> int:
        return number_in(step, 0, len(self.automaton.pattern.steps))

    def _bound_events(self, pairs: Iterable[tuple[object, object]]) -> tuple[tuple[int, int], ...]:
        return tuple((self._step(step), self._position(position)) for step, position in pairs)

    def _run(
        self,
        start: object,
        items: Iterable[Sequence[Any]],
        emitted: Iterable[Iterable[object]],
        taken: Iterable[Iterable[tuple[object, object]]],
    ) -> PatternRun:
        combinations = {tuple(map(self._position, positions)) for positions in emitted}
        position = self._position(start)
        run = PatternRun(position, [], combinations, set(map(self._bound_events, taken)))
        run.replace_items([self._item(position, *item) for item in items])
        return run

    def _item(self, start: int, name: str, number: object, *rest: Any) -> RunItem:
        match = self._at(number)
        if name == "waiting":
            step, target, closes, limits, broken = rest
            branch = self.automaton.branch(match, self._at(target), self._step(step), start, False)
            counted = [(number_in(n, 0, MAX_NUMBER), self._position(first)) for n, first in limits]
            bound = NO_DEADLINE if closes is None else number_in(closes, *_TIMES)
            if bound != branch.closes or counted != [*branch.count_limits]:
                _reject()
            branch.broken = time_or_none(broken)
            return branch
        (end,) = rest
        time = number_in(end, *_TIMES)
        if name == "given up":
            return TimedOutBranch(match, time)
        return Acceptance(match, time, {"complete": True, "pending": False}[name])

    def _match(
        self, program: int, pc: object, counters: Iterable[tuple[object, object, object]],
        hop: tuple[str, object, object] | None, together: object, taken: Iterable[tuple[object, object]],
        current: Iterable[tuple[object, object]], clock: object, not_before: object, absences: Iterable[Iterable[object]],
        zones: Iterable[tuple[tuple[str, object] | None, object, object]], untils: Iterable[object],
        combination: Iterable[object], optional: object,
    ) -> PartialMatch:  # fmt: skip
        programs = self.automaton.plan.programs
        compiled = programs[number_in(program, 0, len(programs))]
        match = PartialMatch(program, compiled.registers)
        match.pc = number_in(pc, 0, len(compiled.instructions))
        match.counters = tuple(
            (number_in(a, 0, MAX_NUMBER), number_in(b, 0, MAX_NUMBER), number_in(c, 0, MAX_NUMBER))
            for a, b, c in counters
        )
        match.bound_events = self._bound_events(taken)
        if len(match.counters) != compiled.registers or not match.bound_events:
            _reject()
        if hop is not None:
            match.hop = Hop(ast.Contiguity(hop[0]), time_or_none(hop[1]), time_or_none(hop[2]))
        match.together, match.optional = together is True, optional is True
        match.current = {self._step(step): self._position(position) for step, position in current}
        match.unified = self._unified(match.bound_events)
        match.clock, match.not_before = number_in(clock, *_TIMES), time_or_none(not_before)
        match.absences = tuple(self._absence(*one) for one in absences)
        match.zones = tuple(self._zone(*one) for one in zones)
        match.untils = tuple(map(self._step, untils))
        match.combination = tuple(map(self._position, combination))
        return match

    def _unified(self, bound_events: Iterable[tuple[int, int]]) -> Mapping[str, object]:
        unified: Mapping[str, object] = {}
        for step, position in bound_events:
            found = unify(self.automaton.pattern.steps[step].unify, self.automaton.events[position], unified)
            unified = _reject() if found is None else found
        return unified

    def _absence(
        self, program: object, position: object, since: object, until: object, depth: object, conjunction: object
    ) -> RequiredAbsence:
        return RequiredAbsence(
            number_in(program, 0, len(self.automaton.plan.programs)),
            self._position(position),
            time_or_none(since),
            time_or_none(until),
            number_in(depth, 0, 2**31),
            None if conjunction is None else number_in(conjunction, 0, 2**31),
        )

    def _zone(self, within: tuple[str, object] | None, holds_for: object, first: object) -> ZoneBounds:
        window: ast.Window | None = None
        if within is not None:
            kind, size = within
            windows: dict[str, Callable[[int], ast.Window]] = {"time": ast.TimeWindow, "events": ast.CountWindow}
            window = windows[kind](number_in(size, 0, 2**63))
        return ZoneBounds(window, time_or_none(holds_for), None if first is None else self._position(first))


def number_in(number: object, low: int, end: int) -> int:
    """Return the number if it is an int in [``low``, ``end``); raise ValueError otherwise."""
    return number if type(number) is int and low <= number < end else _reject()


def time_or_none(time: object) -> int | None:
    """Return None or a valid time; raise ValueError otherwise."""
    return None if time is None else number_in(time, *_TIMES)


def _reject() -> NoReturn:
    raise ValueError("not a state that was encoded")
