"""What a machine that follows a pattern holds, as plain numbers, and a machine that holds it again.

Its partial matches, and the events that these, or others to come, may look at. What unified names stand for is not
written, it is read from the events again; nor is where the search goes on: between events no partial match begins before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from perseid.compile.interpreter import Machine
from perseid.compile.threads import (
    Attempt,
    Complete,
    GivenUp,
    ListItem,
    OpenZone,
    Pending,
    Thread,
    Wait,
    Waiting,
    Watched,
)
from perseid.lang import ast
from perseid.semantics.core import Hop
from perseid.semantics.events import Event
from perseid.semantics.scope import unify

MANY = 2**62
_TIMES = -(2**65), 2**65
"""Between these lie all times, the ends of windows that end after all time too."""
_ENDED: tuple[tuple[str, type[Pending | Complete | GivenUp]], ...] = (
    ("pending", Pending),
    ("complete", Complete),
    ("given up", GivenUp),
)


class Tail(list[Event]):
    """The events of a partition from some place on, by the places they had: what came before is forgotten."""

    def __init__(self, first: int, events: Iterable[Event]) -> None:
        super().__init__(events)
        self.first = first

    def __len__(self) -> int:
        return self.first + super().__len__()

    def __getitem__(self, place: Any) -> Any:
        assert place >= self.first, "An event is asked for that nothing could need."
        return super().__getitem__(place - self.first)

    def held(self) -> Iterator[Event]:
        return super().__iter__()


def forget(machine: Machine, done: int | None) -> bool:
    """Let go of events that nothing can need any more, all being told up to ``done``; is there anything left?"""
    needed = _needed(machine, done)
    if needed is None:
        return False
    first, held = _held(machine)
    machine.events = Tail(needed, held[needed - first :])
    return True


def _held(machine: Machine) -> tuple[int, list[Event]]:
    events = machine.events
    return (events.first, list(events.held())) if isinstance(events, Tail) else (0, events)


def _needed(machine: Machine, done: int | None) -> int | None:
    """The place of the first event that may be looked at again; None where none will be."""
    if machine.simulation is None:
        starts = [attempt.start for attempt in machine.attempts]
    else:
        starts = [path.taken[0][1] for path in machine.simulation.partials]
    leads = max((duration for _, duration in machine.plan.leads), default=None)
    if leads is None or not len(machine.events):
        return min(starts, default=None)
    first, _ = _held(machine)
    place = last = len(machine.events) - 1
    # Whoever looks back stops at the first event that is too old: one of these is kept.
    while place > first and (done is None or machine.events[place].time > done - leads):
        place -= 1
    if place == last and not starts and done is not None and machine.events[place].time <= done - leads:
        return None
    return min([place, *starts])


def numbers_of(machine: Machine, events: dict[int, tuple[int, Event]]) -> dict[str, object]:
    """A machine in numbers; ``events`` are those that are written already, each with its number."""
    first, held = _held(machine)
    numbers = [events.setdefault(id(event), (len(events), event))[0] for event in held]
    threads: dict[int, tuple[int, Thread]] = {}

    def number(thread: Thread) -> int:
        # Options of one thread know each other by it: there is one of each.
        return threads.setdefault(id(thread), (len(threads), thread))[0]

    said: dict[str, object] = {"first": first, "events": numbers}
    if machine.simulation is not None:
        said["partials"] = [number(path) for path in machine.simulation.partials]
        said["went on"] = [number(path) for path in machine.simulation.went_on]
    else:
        said["attempts"] = [
            {
                "start": attempt.start,
                "items": [_item(item, number) for item in attempt.items],
                "emitted": sorted(attempt.emitted),
                "taken": sorted(attempt.taken),
            }
            for attempt in machine.attempts
        ]
    said["threads"] = [_thread(thread) for _, thread in threads.values()]
    return said


def _item(item: ListItem, number: Callable[[Thread], int]) -> list[object]:
    if isinstance(item, Waiting):
        own = [number(item.thread), item.wait.step, number(item.wait.path), item.closing, item.limits, item.broken]
        return ["waiting", *own]
    name = next(name for name, kind in _ENDED if isinstance(item, kind))
    return [name, number(item.thread), item.end]


def _thread(thread: Thread) -> list[object]:
    hop = thread.hop
    return [
        thread.program,
        thread.pc,
        thread.registers,
        None if hop is None else [hop.contiguity.value, hop.after, hop.within],
        thread.together,
        thread.taken,
        list(thread.current.items()),
        thread.clock,
        thread.barrier,
        [[w.program, w.position, w.since, w.until, w.depth, w.conjunction] for w in thread.watches],
        [[_window(zone.within), zone.holds_for, zone.first] for zone in thread.zones],
        thread.untils,
        thread.combination,
        thread.spare,
    ]


def _window(window: ast.Window | None) -> list[object] | None:
    match window:
        case ast.TimeWindow():
            return ["time", window.duration]
        case ast.CountWindow():
            return ["events", window.events]
    return None  # for ever, as none: nothing closes


# and back


def restore(machine: Machine, events: Sequence[Event], said: Mapping[str, Any]) -> None:
    """Make a new machine what another was that ``said`` is of; ValueError and its like where no machine can be so."""
    first = number_in(said["first"], 0, MANY)
    machine.events = Tail(first, events)
    _Reader(machine, first, said).restore()


class _Reader:
    """A machine from what is said of it: every number is looked at before anything goes by it."""

    def __init__(self, machine: Machine, first: int, said: Mapping[str, Any]) -> None:
        self.machine = machine
        self.first, self.end = first, len(machine.events)
        self.said = said
        self.threads = [self._thread(*one) for one in said["threads"]]

    def restore(self) -> None:
        machine, said = self.machine, self.said
        if machine.simulation is None:
            machine.attempts = [self._attempt(**one) for one in said["attempts"]]
            return
        partials = {n: self._of(n) for n in said["partials"]}
        machine.simulation.partials = list(partials.values())
        machine.simulation.went_on = [partials[n] for n in said["went on"]]

    def _of(self, number: object) -> Thread:
        return self.threads[number_in(number, 0, len(self.threads))]

    def _position(self, place: object) -> int:
        return number_in(place, self.first, self.end)

    def _step(self, step: object) -> int:
        return number_in(step, 0, len(self.machine.pattern.steps))

    def _taken(self, pairs: Iterable[tuple[object, object]]) -> tuple[tuple[int, int], ...]:
        return tuple((self._step(step), self._position(place)) for step, place in pairs)

    def _attempt(
        self,
        start: object,
        items: Iterable[Sequence[Any]],
        emitted: Iterable[Iterable[object]],
        taken: Iterable[Iterable[tuple[object, object]]],
    ) -> Attempt:
        combinations = {tuple(map(self._position, places)) for places in emitted}
        made = [self._item(*item) for item in items]
        return Attempt(self._position(start), made, combinations, set(map(self._taken, taken)))

    def _item(self, name: str, thread: object, *rest: Any) -> ListItem:
        if name == "waiting":
            step, path, closing, limits, broken = rest
            counted = tuple((number_in(n, 0, MANY), self._position(first)) for n, first in limits)
            wait = Wait(self._step(step), self._of(path))
            return Waiting(self._of(thread), wait, time_or_none(closing), counted, time_or_none(broken))
        (end,) = rest
        return dict(_ENDED)[name](self._of(thread), number_in(end, *_TIMES))

    def _thread(
        self, program: int, pc: object, registers: Iterable[tuple[object, object, object]],
        hop: tuple[str, object, object] | None, together: object, taken: Iterable[tuple[object, object]],
        current: Iterable[tuple[object, object]], clock: object, barrier: object, watches: Iterable[Iterable[object]],
        zones: Iterable[tuple[tuple[str, object] | None, object, object]], untils: Iterable[object],
        combination: Iterable[object], spare: object,
    ) -> Thread:  # fmt: skip
        programs = self.machine.plan.programs
        own = programs[number_in(program, 0, len(programs))]
        places = self._taken(taken)
        rounds = tuple((number_in(a, 0, MANY), number_in(b, 0, MANY), number_in(c, 0, MANY)) for a, b, c in registers)
        if len(rounds) != own.registers or not places:
            _wrong()
        return Thread(
            program,
            number_in(pc, 0, len(own.instructions)),
            rounds,
            None if hop is None else Hop(ast.Contiguity(hop[0]), time_or_none(hop[1]), time_or_none(hop[2])),
            together is True,
            places,
            {self._step(step): self._position(place) for step, place in current},
            self._unified(places),
            number_in(clock, *_TIMES),
            time_or_none(barrier),
            tuple(self._watch(*one) for one in watches),
            tuple(self._zone(*one) for one in zones),
            tuple(map(self._step, untils)),
            tuple(map(self._position, combination)),
            spare is True,
        )

    def _unified(self, taken: Iterable[tuple[int, int]]) -> Mapping[str, object]:
        unified: Mapping[str, object] = {}
        for step, place in taken:
            found = unify(self.machine.pattern.steps[step].unify, self.machine.events[place], unified)
            unified = _wrong() if found is None else found
        return unified

    def _watch(
        self, program: object, position: object, since: object, until: object, depth: object, conjunction: object
    ) -> Watched:
        number = number_in(program, 0, len(self.machine.plan.programs))
        member = None if conjunction is None else number_in(conjunction, 0, 2**31)
        return Watched(
            number,
            self._position(position),
            time_or_none(since),
            time_or_none(until),
            number_in(depth, 0, 2**31),
            member,
        )

    def _zone(self, within: tuple[str, object] | None, holds_for: object, first: object) -> OpenZone:
        window: ast.Window | None = None
        if within is not None:
            kind, size = within
            made: dict[str, Callable[[int], ast.Window]] = {"time": ast.TimeWindow, "events": ast.CountWindow}
            window = made[kind](number_in(size, 0, 2**63))
        return OpenZone(window, time_or_none(holds_for), None if first is None else self._position(first))


def number_in(number: object, low: int, end: int) -> int:
    """A number that is one, and in its bounds."""
    return number if type(number) is int and low <= number < end else _wrong()


def time_or_none(time: object) -> int | None:
    """A time that is one, or none."""
    return None if time is None else number_in(time, *_TIMES)


def _wrong() -> NoReturn:
    raise ValueError("not what was written")
