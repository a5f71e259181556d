"""Situations as plain data and back: for states, which outlive a process and its numbers.

What is left to do in a situation is a list of places in the pattern's tree; equal parts of it are one place, and mean the same.
"""

from __future__ import annotations

from typing import Any

from perseid.engines.uncertain.plain import read_value, write_value
from perseid.engines.uncertain.situations import POSITION, Situation, Situations, Symbol
from perseid.errors import StateError
from perseid.semantics import core as c
from perseid.semantics.paths import Close, Path, Round, Todo, Watch


class Encoding:
    """How the situations of one pattern are written."""

    def __init__(self, meaning: Situations) -> None:
        self.meaning = meaning
        body = meaning.pattern.body
        self.elements: list[c.Core] = list(dict.fromkeys(c.each(body)))
        hops: list[c.Hop] = []
        for element in self.elements:
            if isinstance(element, c.Seq):
                hops += element.hops
            elif isinstance(element, c.Loop):
                hops.append(element.hop)
        self.hops = list(dict.fromkeys(hops))
        self._places = {element: i for i, element in enumerate(self.elements)}
        self._hops = {hop: i for i, hop in enumerate(self.hops)}

    def write(self, situation: Situation) -> list[Any]:
        """A situation as lists and numbers."""
        path = situation.path
        return [
            self._todo(path.todo),
            list(situation.waiting),
            path.taken[0][1] // POSITION,
            path.taken[1][1] // POSITION,
            path.clock,
            path.barrier,
            [[self._places[w.body], w.since, w.until, w.depth] for w in path.watches],
            [[self._places[zone], None if first is None else first // POSITION] for zone, first in path.zones],
            *([self._events(path)] if self.meaning.looks_back else []),
        ]

    def read(self, written: Any) -> Situation:
        """What was written; whatever cannot have been is a :class:`StateError`."""
        try:
            todo, waiting, start, last, clock, barrier, watches, zones, *more = written
            numbers = [*waiting, start, last, clock, *([] if barrier is None else [barrier])]
            if any(type(number) is not int or abs(number) >= 1 << 62 for number in numbers):
                raise ValueError("numbers")
            step, current, unified = self._read_events(*more) if self.meaning.looks_back or more else (-1, {}, {})
            path = Path(
                todo=self._read_todo(todo),
                taken=((-1, start * POSITION), (step, last * POSITION)),
                current=current,
                unified=unified,
                clock=clock,
                barrier=barrier,
                watches=tuple(self._watch(*one) for one in watches),
                zones=tuple(self._zone(*one) for one in zones),
            )
            count = len(list(self.meaning.options(path)))
            if not waiting or sorted(set(waiting)) != list(waiting) or waiting[0] < 0 or waiting[-1] >= count:
                raise ValueError("waiting")
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
            raise StateError("The state has a partial match that this pattern cannot have.") from None
        return self.meaning.situation(path, tuple(waiting))

    def _events(self, path: Path) -> list[Any]:
        """What conditions look back at: the last step, the events of others, and what variables stand for."""
        symbols = self.meaning.moments.symbols
        current = []
        for step, position in sorted(path.current.items()):
            bits, columns = symbols[position % POSITION]
            current.append([step, position // POSITION, bits, [[name, write_value(value)] for name, value in columns]])
        unified = [[name, write_value(value)] for name, value in sorted(path.unified.items())]
        return [path.taken[1][0], current, unified]

    def _read_events(self, written: Any) -> tuple[int, dict[int, int], dict[str, object]]:
        step, events, variables = written
        steps = len(self.meaning.pattern.steps)
        if type(step) is not int or not -1 <= step < steps or not self.meaning.looks_back:
            raise ValueError("step")
        current: dict[int, int] = {}
        for owner, time, bits, columns in events:
            numbers = (owner, time, bits)
            if any(type(number) is not int for number in numbers) or not (0 <= owner < steps and abs(time) < 1 << 62):
                raise ValueError("event")
            if not 0 < bits < 4 << (2 * steps):
                raise ValueError("event")
            symbol: Symbol = (bits, tuple((_name(name), read_value(value)) for name, value in columns))
            current[owner] = time * POSITION + self.meaning.moments.number(symbol)
        unified = {_name(name): read_value(value) for name, value in variables}
        if not unified.keys() <= set(self.meaning.pattern.unified):
            raise ValueError("variable")
        return step, current, unified

    def _todo(self, todo: Todo) -> list[Any]:
        out: list[Any] = []
        while todo is not None:
            task, todo = todo
            if isinstance(task, c.Hop):
                out.append(["hop", self._hops[task]])
            elif isinstance(task, Round):
                out.append(["round", self._places[task.loop], task.count])
            elif isinstance(task, Close):
                out.append(["close", self._places[task.zone]])
            else:
                out.append(["do", self._places[task]])
        return out

    def _read_todo(self, written: list[Any]) -> Todo:
        todo: Todo = None
        if not isinstance(written, list) or len(written) > 10_000:
            raise ValueError("todo")
        for kind, place, *rest in reversed(written):
            if type(place) is not int or place < 0:
                raise ValueError("place")
            task: Any
            if kind == "hop":
                task = self.hops[place]
            else:
                element = self.elements[place]
                task = element
                if kind == "round":
                    (count,) = rest
                    if not isinstance(element, c.Loop) or type(count) is not int or not 0 < count < 1 << 31:
                        raise ValueError("round")
                    task = Round(element, count, -1, -1)
                elif kind == "close":
                    if not isinstance(element, c.Zone):
                        raise ValueError("close")
                    task = Close(element)
                elif kind != "do":
                    raise ValueError("kind")
            todo = (task, todo)
        return todo

    def _watch(self, place: int, since: int | None, until: int | None, depth: int) -> Watch:
        body = self.elements[place]
        times = [time for time in (since, until) if time is not None]
        if not isinstance(body, c.Take) or any(
            type(number) is not int or abs(number) >= 1 << 62 for number in (*times, depth)
        ):
            raise ValueError("watch")
        return Watch(body, -POSITION, since, until, depth)

    def _zone(self, place: int, first: int | None) -> tuple[c.Zone, int | None]:
        zone = self.elements[place]
        if not isinstance(zone, c.Zone) or not (first is None or (type(first) is int and abs(first) < 1 << 62)):
            raise ValueError("zone")
        return zone, None if first is None else first * POSITION


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("name")
    return given
