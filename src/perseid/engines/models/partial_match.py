"""Data of the pattern automaton of rules: retained events, partial matches, and their branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, overload

from perseid.lang import ast
from perseid.lang.ast import Contiguity
from perseid.semantics.core import Hop
from perseid.semantics.events import Event

NO_DEADLINE = 2**80
"""Later than every time, including the end of a window that closes after all time."""
Counter: TypeAlias = tuple[int, int, int]
"""Loop: iterations, events taken before this iteration, events taken before the loop.
Conjunction: a bit for each complete member, 0, events taken before it."""
UNUSED: Counter = (0, 0, 0)


class RetainedEvents(Sequence[Event]):
    """The events of a partition by position; positions below ``first`` are evicted."""

    def __init__(self, first: int = 0, events: Iterable[Event] = ()) -> None:
        self.first = first
        self.retained = list(events)

    def append(self, event: Event) -> int:
        """Add an event and return its position."""
        self.retained.append(event)
        return self.first + len(self.retained) - 1

    def evict(self, first: int) -> None:
        """Evict the events before this position."""
        if first > self.first:
            del self.retained[: first - self.first]
            self.first = first

    def __len__(self) -> int:
        return self.first + len(self.retained)

    @overload
    def __getitem__(self, position: int) -> Event: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Event]: ...
    def __getitem__(self, position: int | slice) -> Event | Sequence[Event]:
        if isinstance(position, slice):
            raise TypeError("Retained events do not support slices.")
        if position < self.first:
            raise IndexError(f"event {position} is evicted")
        return self.retained[position - self.first]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.retained)


class RequiredAbsence(NamedTuple):
    """A negated program that must not match after ``position`` and ``since``, until a time or the next event."""

    program: int
    position: int
    since: int | None
    until: int | None
    depth: int
    """Number of zones open where the absence began."""
    conjunction: int | None = None
    """The register of the conjunction during which it must not match."""


class ZoneBounds(NamedTuple):
    """A part of a pattern with its own window or minimum duration; ``first`` is the position of its first event."""

    within: ast.Window | None
    holds_for: int | None
    first: int | None


class PartialMatch:
    """A program counter with the bindings made on the way to it. It is immutable once it has branches."""

    __slots__ = (
        "absences", "bindings", "bound_events", "clock", "combination", "counters", "current", "hop", "not_before",
        "optional", "pc", "program", "together", "unified", "untils", "zones",
    )  # fmt: skip

    def __init__(self, program: int, counters: int) -> None:
        self.program = program
        self.pc = 0
        self.counters: tuple[Counter, ...] = (UNUSED,) * counters
        self.hop: Hop | None = None
        self.together = False
        """True if the next event may have the time of the last one although times must increase."""
        self.bound_events: tuple[tuple[int, int], ...] = ()
        """Step and position of each event, in order."""
        self.current: Mapping[int, int] = {}
        """Position of the event of each step in the current iteration."""
        self.unified: Mapping[str, object] = {}
        self.clock = 0
        self.not_before: int | None = None
        """The next event must be later than this time."""
        self.absences: tuple[RequiredAbsence, ...] = ()
        self.zones: tuple[ZoneBounds, ...] = ()
        self.untils: tuple[int, ...] = ()
        """Steps with events that end an enclosing repetition."""
        self.combination: tuple[int, ...] = ()
        """Positions chosen by ``->>``: each choice is a separate match."""
        self.optional = False
        """True if the match could omit the next event (a reluctant repetition)."""
        self.bindings: tuple[dict[str, list[Event]], dict[str, Event]] | None = None

    def copy(self, pc: int) -> PartialMatch:
        other = PartialMatch.__new__(PartialMatch)
        other.program, other.pc, other.counters = self.program, pc, self.counters
        other.hop, other.together, other.bound_events = self.hop, self.together, self.bound_events
        other.current, other.unified, other.clock = self.current, self.unified, self.clock
        other.not_before, other.absences, other.zones = self.not_before, self.absences, self.zones
        other.untils, other.combination, other.optional = self.untils, self.combination, self.optional
        other.bindings = None
        return other

    @property
    def last(self) -> int:
        """Position of the last event taken."""
        return self.bound_events[-1][1]

    def set_counter(self, register: int, value: Counter) -> None:
        self.counters = (*self.counters[:register], value, *self.counters[register + 1 :])


@dataclass(slots=True, eq=False)
class Branch:
    """One way for ``origin``, which has just taken an event, to continue: ``target`` waits for an event of ``step``."""

    origin: PartialMatch
    target: PartialMatch
    step: int
    opens: int
    """The first time at which it may take an event."""
    closes: int
    """The last time at which it may take one."""
    count_limits: tuple[tuple[int, int], ...]
    """Count windows: size and position of the first event."""
    broken: int | None = None
    """Time at which its absence was violated; events of that time may still be taken."""
    any: bool = field(init=False)
    next: bool = field(init=False)
    last_position: int | None = field(init=False)

    def __post_init__(self) -> None:
        contiguity = None if self.target.hop is None else self.target.hop.contiguity
        self.any = contiguity is Contiguity.ANY
        self.next = contiguity is Contiguity.NEXT
        self.last_position = min((first + size - 1 for size, first in self.count_limits), default=None)

    @property
    def deadline(self) -> int:
        """The earliest time that, once passed, may end the branch."""
        return self.closes if self.broken is None else min(self.closes, self.broken)


@dataclass(slots=True, eq=False)
class Acceptance:
    """An accepted partial match; it is a match once the absences at its end are over (``decided``)."""

    accepted: PartialMatch
    end: int
    decided: bool


@dataclass(slots=True, eq=False)
class TimedOutBranch:
    """A branch with a closed window, at its place in the order of preference."""

    origin: PartialMatch
    end: int


RunItem: TypeAlias = Branch | Acceptance | TimedOutBranch


@dataclass(slots=True, eq=False)
class PatternRun:
    """All partial matches that begin with one event, in order of preference."""

    start: int
    items: list[RunItem]
    emitted: set[tuple[int, ...]] = field(default_factory=set)
    """Combinations with an emitted match."""
    matched: set[tuple[tuple[int, int], ...]] = field(default_factory=set)
    """The events of those matches."""
    changed: bool = True
    """True if items changed since matches were last decided."""
    deadline: int = NO_DEADLINE
    """The earliest time that, once passed, may change items."""
    steps: frozenset[int] = frozenset()
    """Steps that branches wait for."""
    reads_all: bool = False
    """True if events of other steps may change items as well."""

    def replace_items(self, items: list[RunItem]) -> None:
        self.items = items
        self.changed = True
        self.deadline, self.reads_all = NO_DEADLINE, False
        steps = set()
        for item in items:
            if type(item) is Branch:
                steps.add(item.step)
                self.deadline = min(self.deadline, item.deadline)
                target = item.target
                if item.next or item.count_limits or target.untils or target.absences:
                    self.reads_all = True
            elif type(item) is Acceptance and not item.decided:
                self.deadline = min(self.deadline, item.end)
                self.reads_all = True
        self.steps = frozenset(steps)
