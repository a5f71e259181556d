"""Encode and decode automaton configurations as plain data, because their numbers are valid in one process only.

The rest of a pattern is a list of positions in the pattern's syntax tree. Equal subtrees share one position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perseid.engines.uncertain.pattern_nfa import (
    BoundEvent,
    Configuration,
    Continuation,
    Iteration,
    Negation,
    NfaThread,
    PatternNFA,
    Symbol,
    Task,
    ZoneEnd,
    rests_after_events,
)
from perseid.engines.uncertain.plain import read_value, write_value
from perseid.errors import StateError
from perseid.semantics import core as c


class Encoding:
    """Encoder and decoder of the configurations of one pattern."""

    def __init__(self, nfa: PatternNFA) -> None:
        self.nfa = nfa
        body = nfa.pattern.body
        self.elements: list[c.Core] = list(dict.fromkeys(c.each(body)))
        hops: list[c.Hop] = []
        for element in self.elements:
            if isinstance(element, c.Seq):
                hops += element.hops
            elif isinstance(element, c.Loop):
                hops.append(element.hop)
        self.hops = list(dict.fromkeys(hops))
        self._positions = {element: i for i, element in enumerate(self.elements)}
        self._hops = {hop: i for i, hop in enumerate(self.hops)}
        self._valid_rests = {_without_counts(self._write_rest(rest)) for rest in rests_after_events(body)}

    def write(self, configuration: Configuration) -> list[object]:
        """Encode a configuration as nested lists of numbers."""
        thread = configuration.thread
        return [
            self._write_rest(thread.rest),
            list(configuration.waiting),
            thread.first_time,
            thread.last_time,
            thread.clock,
            thread.barrier,
            [[self._positions[one.body], one.since, one.until, one.depth] for one in thread.negations],
            [[self._positions[zone], first] for zone, first in thread.zones],
            *([self._write_events(thread)] if self.nfa.refers_back else []),
        ]

    def read(self, written: Any) -> Configuration:
        """Decode a configuration; raise :class:`StateError` if this pattern cannot have it."""
        try:
            rest, waiting, first_time, last_time, clock, barrier, negations, zones, *events = written
            numbers = [*waiting, first_time, last_time, clock, *([] if barrier is None else [barrier])]
            if any(type(number) is not int or abs(number) >= 1 << 62 for number in numbers):
                raise ValueError("numbers")
            step, bound, unified = self._read_events(*events) if self.nfa.refers_back or events else (-1, {}, {})
            thread = NfaThread(
                rest=self._read_rest(rest),
                first_time=first_time,
                last_time=last_time,
                last_step=step,
                bound=bound,
                unified=unified,
                clock=clock,
                barrier=barrier,
                negations=tuple(self._read_negation(*one) for one in negations),
                zones=tuple(self._read_zone(*one) for one in zones),
            )
            if [zone for zone, _ in thread.zones] != [*reversed(_zones_left(thread.rest))]:
                raise ValueError("zones")
            count = len(list(self.nfa.closure(thread)))
            if not waiting or sorted(set(waiting)) != list(waiting) or waiting[0] < 0 or waiting[-1] >= count:
                raise ValueError("waiting")
            configuration = self.nfa.configuration(thread, tuple(waiting))
            hash(configuration.key)
        except (
            ValueError,
            TypeError,
            IndexError,
            KeyError,
            AttributeError,
            AssertionError,
            RecursionError,
            OverflowError,
        ):
            raise StateError("The state contains a partial match that this pattern cannot have.") from None
        return configuration

    def _write_events(self, thread: NfaThread) -> list[object]:
        """Encode the events that conditions refer to: last step, bound events, and values of variables."""
        bound = [
            [step, time, bits, [[name, write_value(value)] for name, value in columns]]
            for step, (time, (bits, columns)) in sorted(thread.bound.items())
        ]
        unified = [[name, write_value(value)] for name, value in sorted(thread.unified.items())]
        return [thread.last_step, bound, unified]

    def _read_events(self, written: Any) -> tuple[int, dict[int, BoundEvent], dict[str, object]]:
        step, events, variables = written
        steps = len(self.nfa.pattern.steps)
        if type(step) is not int or not -1 <= step < steps or not self.nfa.refers_back:
            raise ValueError("step")
        bound: dict[int, BoundEvent] = {}
        for owner, time, bits, columns in events:
            numbers = (owner, time, bits)
            if any(type(number) is not int for number in numbers) or not (0 <= owner < steps and abs(time) < 1 << 62):
                raise ValueError("event")
            if not 0 < bits < 4 << (2 * steps):
                raise ValueError("event")
            symbol: Symbol = (bits, tuple((_name(name), read_value(value)) for name, value in columns))
            hash(symbol)
            bound[owner] = time, symbol
        unified = {_name(name): read_value(value) for name, value in variables}
        if not unified.keys() <= set(self.nfa.pattern.unified):
            raise ValueError("variable")
        return step, bound, unified

    def _write_rest(self, rest: Continuation) -> list[list[object]]:
        out: list[list[object]] = []
        while rest is not None:
            task, rest = rest
            if isinstance(task, c.Hop):
                out.append(["hop", self._hops[task]])
            elif isinstance(task, Iteration):
                out.append(["round", self._positions[task.loop], task.count])
            elif isinstance(task, ZoneEnd):
                out.append(["close", self._positions[task.zone]])
            else:
                out.append(["do", self._positions[task]])
        return out

    def _read_rest(self, written: list[Any]) -> Continuation:
        if _without_counts(written) not in self._valid_rests:
            raise ValueError("rest")
        rest: Continuation = None
        for kind, position, *counts in reversed(written):
            rest = self._read_task(kind, position, counts), rest
        return rest

    def _read_task(self, kind: object, position: int, counts: list[object]) -> Task:
        if kind == "hop":
            return self.hops[position]
        element = self.elements[position]
        if kind == "do":
            return element
        if kind == "close" and isinstance(element, c.Zone):
            return ZoneEnd(element)
        (count,) = counts
        if kind != "round" or not isinstance(element, c.Loop) or type(count) is not int or not 0 < count < 1 << 31:
            raise ValueError("task")
        if element.high is not None and count > element.high:
            raise ValueError("iterations")
        return Iteration(element, count, False)

    def _read_negation(self, position: int, since: int | None, until: int | None, depth: int) -> Negation:
        body = self.elements[position]
        times = [time for time in (since, until) if time is not None]
        if not isinstance(body, c.Take) or any(
            type(number) is not int or abs(number) >= 1 << 62 for number in (*times, depth)
        ):
            raise ValueError("negation")
        return Negation(body, since, until, depth)

    def _read_zone(self, position: int, first: int | None) -> tuple[c.Zone, int | None]:
        zone = self.elements[position]
        if not isinstance(zone, c.Zone) or not (first is None or (type(first) is int and abs(first) < 1 << 62)):
            raise ValueError("zone")
        return zone, first


def _without_counts(written: Sequence[Sequence[object]]) -> tuple[tuple[object, ...], ...]:
    """Drop the iteration counts from an encoded rest."""
    return tuple((kind, position) for kind, position, *_ in written)


def _zones_left(rest: Continuation) -> list[c.Zone]:
    """Zones that end in the rest of a pattern, innermost first."""
    out = []
    while rest is not None:
        task, rest = rest
        out += [task.zone] if isinstance(task, ZoneEnd) else []
    return out


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("name")
    return value
