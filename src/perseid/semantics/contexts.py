"""Event contexts: the partial matches that may use an event (Dávid et al. 2016, Section 4.4; three are from Snoop).

A partial match is one path, stored in a list per partition; each event is offered to the list in order. A partial match
with several options for an event takes the preferred one and does not backtrack.

  chronicle         an event goes to the oldest partial match that can use it, otherwise it may start one;
  immediate         chronicle, and an event that none can use and that starts none ends them all;
  strict immediate  at most one partial match; an event it cannot use ends it and may itself start another;
  continuous        every start opens a partial match, and an event goes to all that can use it;
  recent            a partial match is not consumed, and a newer one at the same state replaces it. Of two partial
                    matches, the newer is the one that took its last event later; if both took the same event, the
                    events before it are compared in the same way, and one without an event before it is the older;
  cumulative        one partial match, which also collects every further event of the steps it has passed.

Under chronicle and immediate, an optional iteration of a reluctant repetition does not take an event that could start a
new partial match: ``A+? -> B`` on A A B B gives two matches, ``A+ -> B`` one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from perseid.lang.ast import Selection
from perseid.semantics.core import CorePattern
from perseid.semantics.events import Event

END_OF_TIME = 2**63

Path: TypeAlias = Any
"""A path of the bench; it has ``bound_events``, ``last``, ``clock``, ``watches``, ``current``."""
Option: TypeAlias = Any
"""A step that may follow (with ``step``), or an acceptance (without); both have ``path``."""


class Bench(Protocol):
    """Interface between a context and the interpreter of paths: the oracle, or the interpreter of a plan."""

    @property
    def pattern(self) -> CorePattern: ...
    @property
    def events(self) -> Sequence[Event]: ...
    def begin(self, start: int) -> Iterator[Path]: ...
    def options(self, path: Path) -> Iterator[Option]: ...
    def option(self, step: int, path: Path) -> Option: ...
    def state(self, path: Path) -> object: ...
    def tested(self, step: int, path: Path, position: int) -> bool: ...
    def fits(self, option: Option, position: int) -> bool: ...
    def extend(self, option: Option, position: int) -> Path | None: ...
    def live(self, option: Option, path: Path, position: int, start: int, inner: bool) -> bool: ...
    def closing(self, option: Option, start: int, inner: bool) -> int | None: ...
    def violated(self, option: Option, position: int, start: int, inner: bool) -> bool: ...
    def broken(self, path: Path, start: int, seen: int) -> bool: ...
    def stops(self, until: int, path: Path, position: int) -> bool: ...
    def window_end(self, start: int) -> int: ...
    def accepted_end(self, path: Path, start: int) -> int | None: ...
    @property
    def strictly_later(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A partial match that became a match, or timed out."""

    path: Path
    end: int
    kind: str = "match"


def contextual_matches(bench: Bench, horizon: int | None) -> Simulation:
    """Process a whole partition under the pattern's context."""
    simulation = Simulation(bench)
    for position in range(len(bench.events)):
        simulation.offer(position)
    simulation.emit_decided(len(bench.events), END_OF_TIME if horizon is None else horizon + 1)
    return simulation


class Simulation:
    """The list of partial matches, updated event by event."""

    def __init__(self, bench: Bench) -> None:
        assert bench.pattern.context is not None
        self.bench = bench
        self.partials: list[Path] = []
        self.found: list[Completed] = []
        self.went_on: list[Path] = []
        """Partial matches that another was extended from (recent); they do not count as timed out."""
        self.rule = {
            Selection.CHRONICLE: self._chronicle,
            Selection.IMMEDIATE: self._immediate,
            Selection.STRICT_IMMEDIATE: self._strict_immediate,
            Selection.CONTINUOUS: self._continuous,
            Selection.RECENT: self._recent,
            Selection.CUMULATIVE: self._cumulative,
        }[bench.pattern.context]

    def offer(self, position: int) -> None:
        moment = self.bench.events[position].time
        self.emit_decided(position, moment)
        self.rule(position)
        self.emit_decided(position + 1, moment)

    # completion

    def emit_decided(self, seen: int, now: int) -> None:
        """Complete or drop partial matches that are decided after the events before ``seen`` at time ``now``."""
        undecided = []
        for path in self.partials:
            verdict = self._verdict(path, seen, now)
            if verdict is None:
                undecided.append(path)
            elif isinstance(verdict, Completed):
                self.found.append(verdict)
        self.partials = undecided

    def _verdict(self, path: Path, seen: int, now: int) -> Completed | bool | None:
        """Return a match; False if the partial match is over; None if it is still open."""
        start = path.bound_events[0][1]
        is_pending = False
        late: int | None = None
        for option in self.bench.options(path):
            if not hasattr(option, "step"):
                done = self._accept(option.path, start, seen, now)
                if done is None:
                    is_pending = True
                elif isinstance(done, Completed) and not is_pending:
                    return done
            elif not self._is_dead(option, path, seen, now):
                closing = self.bench.closing(option, start, False)
                if closing is not None and closing < now:
                    late = closing if late is None else late
                elif now < END_OF_TIME:  # At the end of the stream no option is pending.
                    is_pending = True
        if is_pending:
            return None
        if late is not None and self.bench.pattern.report_timeouts and not any(path is p for p in self.went_on):
            return Completed(path, late, "timed out")
        return False

    def _accept(self, path: Path, start: int, seen: int, now: int) -> Completed | bool | None:
        """Return a match; False if it can never be one; None while an absence is pending."""
        end = self.bench.accepted_end(path, start)
        if end is None or self.bench.broken(path, start, seen):
            return False
        return Completed(path, end) if not path.watches or end < now else None

    def _is_dead(self, option: Option, path: Path, seen: int, now: int) -> bool:
        """Return True if an earlier event prevents this option from taking an event now or later."""
        bench = self.bench
        passed = range(path.last + 1, seen)
        if any(bench.stops(until, option.path, p) for until in option.path.untils for p in passed):
            return True
        return any(
            bench.violated(option, p, path.bound_events[0][1], False)
            for p in passed
            if not bench.strictly_later or bench.events[p].time < now
        )

    def acceptance_times(self) -> list[int]:
        """Return the end times of partial matches that could be accepted but wait for more events."""
        ends = []
        for path in self.partials:
            for option in self.bench.options(path):
                if not hasattr(option, "step"):
                    end = self.bench.accepted_end(option.path, path.bound_events[0][1])
                    if end is not None:
                        ends.append(end)
        return ends

    def timers(self) -> Iterator[int]:
        """Yield timers: times that may decide something when they pass without a further event."""
        for path in self.partials:
            start = path.bound_events[0][1]
            for option in self.bench.options(path):
                if hasattr(option, "step"):
                    end = self.bench.closing(option, start, False)
                else:
                    end = self.bench.accepted_end(option.path, start)
                if end is not None:
                    yield end

    # use

    def _usable(self, path: Path, position: int) -> Option | None:
        """Return the preferred option with which this partial match can use the event."""
        start = path.bound_events[0][1]
        for option in self.bench.options(path):
            if (
                hasattr(option, "step")
                and self.bench.live(option, path, position, start, False)
                and not self._is_dead(option, path, position, self.bench.events[position].time)
                and self.bench.fits(option, position)
            ):
                return option
        return None

    def _start(self, position: int) -> Path | None:
        return next(self.bench.begin(position), None)

    def _extend(self, path: Path, option: Option, position: int) -> None:
        """Replace a partial match by itself extended with the event; ``must`` may end it instead."""
        after = self.bench.extend(option, position)
        at = self.partials.index(path)
        self.partials[at : at + 1] = [] if after is None else [after]

    # the contexts

    def _chronicle(self, position: int) -> bool:
        """Return True if the event was used or started a partial match."""
        fresh = self._start(position)
        for path in self.partials:
            option = self._usable(path, position)
            if option is not None and not (option.path.spare and fresh is not None):
                self._extend(path, option, position)
                return True
        if fresh is not None:
            self.partials.append(fresh)
        return fresh is not None

    def _immediate(self, position: int) -> bool:
        used = self._chronicle(position)
        if not used:
            self._end_all(position)
        return used

    def _end_all(self, position: int) -> None:
        """End all partial matches; those that the event completes, such as by ending a repetition, are matches."""
        self.emit_decided(position + 1, self.bench.events[position].time)
        self.partials.clear()

    def _strict_immediate(self, position: int) -> bool:
        for path in self.partials:
            option = self._usable(path, position)
            if option is not None:
                self._extend(path, option, position)
                return True
        self._end_all(position)
        fresh = self._start(position)
        if fresh is not None:
            self.partials.append(fresh)
        return fresh is not None

    def _continuous(self, position: int) -> bool:
        used = False
        for path in list(self.partials):
            option = self._usable(path, position)
            if option is not None:
                self._extend(path, option, position)
                used = True
        fresh = self._start(position)
        if fresh is not None:
            self.partials.append(fresh)
        return used or fresh is not None

    def _recent(self, position: int) -> bool:
        newer = []
        fresh = self._start(position)
        if fresh is not None:
            newer.append(fresh)
        for path in self.partials:
            option = self._usable(path, position)
            after = None if option is None else self.bench.extend(option, position)
            if after is not None:
                newer.append(after)
                self.went_on.append(path)
        # The list is in order of recency: a partial match that replaces another is the newest and goes last.
        states: dict[object, Path] = {}
        for path in [*self.partials, *newer]:
            state = self.bench.state(path)
            states.pop(state, None)
            states[state] = path
        moment = self.bench.events[position].time
        for path in self.partials:
            # A partial match that the event replaces may be complete with it, as if the event ends a repetition.
            verdict = None if path in states.values() else self._verdict(path, position + 1, moment)
            if isinstance(verdict, Completed):
                self.found.append(verdict)
        self.partials = list(states.values())
        self.went_on = [p for p in self.went_on if any(p is path for path in self.partials)]
        return bool(newer)

    def _cumulative(self, position: int) -> bool:
        if not self.partials:
            fresh = self._start(position)
            self.partials = [] if fresh is None else [fresh]
            return fresh is not None
        path = self.partials[0]
        option = self._usable(path, position)
        if option is not None:
            self._extend(path, option, position)
            return True
        for step in dict.fromkeys(step for step, _ in reversed(path.bound_events)):
            fits = self.bench.fits(self.bench.option(step, path), position)
            if fits and self.bench.tested(step, path, position):
                bound_events = (*path.bound_events, (step, position))
                moment = self.bench.events[position].time
                gathered = path._replace(
                    bound_events=bound_events, current={**path.current, step: position}, clock=moment
                )
                self.partials = [gathered]
                return True
        return False
