"""The automaton of a pattern that triggers rules: it processes single events and decides matches as early as possible.

Rules act in the iteration with the event that decides a match, so an engine that decides up to a watermark is too late.
A run has all partial matches that begin with one event. After each event a partial match is replaced, in place, by the
branches that the program allows from there, in order of preference; deadlines of windows and absences are timers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from perseid.compile.plan import PatternPlan, Plan, forgetful
from perseid.engines.models.partial_match import (
    NO_DEADLINE,
    Acceptance,
    Branch,
    PartialMatch,
    PatternRun,
    RunItem,
    TimedOutBranch,
)
from perseid.engines.models.program_executor import ProgramExecutor, micros
from perseid.lang import ast
from perseid.lang.ast import Contiguity
from perseid.semantics.contexts import END_OF_TIME
from perseid.semantics.core import Hop
from perseid.semantics.detection import RawMatch
from perseid.semantics.events import Event
from perseid.semantics.values import identity, plain

T = TypeVar("T")
_ANYWHERE = Hop(Contiguity.SKIP)


class PatternAutomaton(ProgramExecutor):
    """One pattern over one partition. Exceeding the budget raises :class:`SearchBudgetError`."""

    def __init__(self, plan: Plan, pattern: PatternPlan) -> None:
        super().__init__(plan, pattern)
        skip = pattern.pattern.skip.mode
        self.runs: list[PatternRun] = []
        self.capped = 0
        """Partial matches dropped because the limit of the plan was reached."""
        self._merges = forgetful(plan, pattern)
        self._one_match = skip != "none"
        self._one_by_one = skip not in ("none", "to next")
        self._next_start = 0
        self._found: list[RawMatch] = []
        self._openings = self.closure(PartialMatch(0, pattern.programs[0].registers))

    # input and output

    def feed(self, event: Event) -> None:
        """Add the next event of the partition."""
        position = self.events.append(event)
        for run in self.runs:
            if run.deadline < event.time or run.reads_all or any(self.admits(step, position) for step in run.steps):
                run.replace_items(self._consume(run.items, position, run.start, False))
            else:
                self.spend(1)
        if position >= self._next_start:
            items: list[RunItem] = [
                item for first in self.begin(position) for item in self.expand(first, position, False)
            ]
            if items:
                run = PatternRun(position, [])
                run.replace_items(self._end_counted(items, position))
                self.runs.append(run)
        self._decide_runs()
        self._drop_oldest(self.runs)

    def advance(self, watermark: int) -> None:
        """Decide matches, given that no further event has a time up to the watermark."""
        for run in self.runs:
            if run.deadline <= watermark:
                run.replace_items(self._end_closed(run.items, watermark + 1))
        self._decide_runs()

    def finish(self) -> None:
        """Decide matches, given that no further event follows."""
        for run in self.runs:
            closed = self._end_closed(run.items, END_OF_TIME)
            run.replace_items([item for item in closed if not self._is_open(item)])
        self._decide_runs()

    def collect(self) -> list[RawMatch]:
        """Return the matches decided since the last call."""
        found, self._found = self._found, []
        return found

    def deadlines(self) -> Iterator[int]:
        """Return the times that, once passed without a further event, may decide a match."""
        return (run.deadline for run in self.runs)

    def starts(self) -> list[int]:
        """Return the positions at which partial matches begin."""
        return [run.start for run in self.runs]

    def evict(self, done: int | None) -> bool:
        """Evict events not needed once matches up to ``done`` are emitted; return whether any are needed."""
        needed = min(self.starts(), default=None)
        lookback = max((duration for _, duration in self.plan.leads), default=None)
        if lookback is not None and self.events.retained:
            # A leading absence reads back to the first event that is too old: that one is retained.
            last = position = len(self.events) - 1
            while position > self.events.first and (done is None or self.events[position].time > done - lookback):
                position -= 1
            too_old = position == last and done is not None and self.events[position].time <= done - lookback
            if needed is not None or not too_old:
                needed = position if needed is None else min(position, needed)
        if needed is None:
            return False
        self.events.evict(needed)
        self.forget_conditions()
        return True

    def emit(self, found: PartialMatch, end: int, kind: str) -> None:
        self._found.append(RawMatch(found.bound_events, end, kind, found.unified))

    def _drop_oldest(self, partials: list[T]) -> None:
        cap = self.plan.retention.cap
        if cap is not None and len(partials) > cap:
            self.capped += len(partials) - cap
            del partials[: len(partials) - cap]

    @staticmethod
    def _is_open(item: RunItem) -> bool:
        return isinstance(item, Branch) or (isinstance(item, Acceptance) and not item.decided)

    # decisions

    def _decide_runs(self) -> None:
        if not self._one_by_one:
            self.runs = [run for run in self.runs if not (run.changed and self._decide(run))]
            return
        done = 0
        for run in self.runs:
            if run.start >= self._next_start:
                before = len(self._found)
                if not (run.changed and self._decide(run)):
                    break
                if len(self._found) > before and self._found[-1].kind == "match":
                    self._next_start = self._start_after(self._found[-1], run.start)
            done += 1
        del self.runs[:done]

    def _decide(self, run: PatternRun) -> bool:
        """Emit matches that no preferred match can replace; return whether the run is over."""
        run.changed = False
        undecided: set[tuple[int, ...]] = set()
        left: list[RunItem] = []
        is_open = False
        for item in run.items:
            if isinstance(item, TimedOutBranch):
                left.append(item)
                continue
            if isinstance(item, Branch) or not item.decided:
                if self._one_match:
                    return False
                is_open = True
                left.append(item)
                if isinstance(item, Acceptance):
                    undecided.add(item.accepted.combination)
                elif not item.any:
                    undecided.add(item.origin.combination)
                continue
            combination = item.accepted.combination
            if combination in run.emitted:
                continue
            if combination in undecided:
                left.append(item)
                continue
            run.emitted.add(combination)
            if item.accepted.bound_events not in run.matched:
                run.matched.add(item.accepted.bound_events)
                self.emit(item.accepted, item.end, "match")
            if self._one_match:
                return True
        if is_open:
            run.items = left
            return False
        if not run.emitted and self.pattern.report_timeouts:
            timed_out = next((item for item in left if isinstance(item, TimedOutBranch)), None)
            if timed_out is not None:
                self.emit(timed_out.origin, timed_out.end, "timed out")
        return True

    def _start_after(self, match: RawMatch, start: int) -> int:
        """Return the first position at which the next match may begin."""
        skip = self.pattern.skip
        if skip.mode == "past last":
            return match.bound_events[-1][1] + 1
        target = None if skip.step is None else self.pattern.step_named(skip.step)
        assert target is not None
        positions = [position for step, position in match.bound_events if step == target.id]
        if not positions:
            return start + 1
        return max(start + 1, positions[0] if skip.mode == "to first" else positions[-1])

    # events

    def begin(self, position: int) -> Iterator[PartialMatch]:
        """Yield the partial matches that begin with this event."""
        for target, step in self._openings:
            if step is not None and self.fits(step, target, position):
                first = self.extend(target, step, position)
                if first is not None and not self._follows_forbidden(first, position):
                    yield first

    def _follows_forbidden(self, first: PartialMatch, position: int) -> bool:
        """Return whether an absence before the first event is violated."""
        moment, oldest = self.events[position].time, self.events.first
        for program, duration in self.plan.leads:
            low = position
            while low > oldest and self.events[low - 1].time >= moment - duration:
                low -= 1
            high = position
            while self.increasing and high > low and self.events[high - 1].time == moment:
                high -= 1
            if self._occurs(program, first, low, high, None):
                return True
        return False

    def _consume(self, items: list[RunItem], position: int, start: int, negated: bool) -> list[RunItem]:
        """Return the items after the event at this position."""
        self.spend(len(items))
        moment = self.events[position].time
        items = self._end_closed(items, moment)
        accepting: set[int] = set()
        continued: set[int] = set()
        for item in items:
            if isinstance(item, Branch) and self._can_consume(item, position, moment):
                accepting.add(id(item))
                if not item.any and not item.target.optional:
                    continued.add(id(item.origin))
        reached: set[object] = set()
        out: list[RunItem] = []
        for item in items:
            if isinstance(item, Acceptance):
                if item.decided or not self.violates_end(item.accepted, position, start):
                    out.append(item)
            elif isinstance(item, TimedOutBranch):
                if id(item.origin) not in continued:
                    out.append(item)
            else:
                took = id(item) in accepting
                if took:
                    after = self.extend(item.target, item.step, position)
                    if after is not None and self._is_first_at(after, reached):
                        out.extend(self.expand(after, start, negated))
                if item.next or (not item.any and (took or id(item.origin) in continued)):
                    continue
                if not self.is_stopped(item.target, position) and self._outlasts_absences(item, position, moment):
                    out.append(item)
        return self._end_counted(out, position)

    def _can_consume(self, branch: Branch, position: int, moment: int) -> bool:
        return (
            branch.opens <= moment
            and (not branch.next or position == branch.target.last + 1)
            and self.fits(branch.step, branch.target, position)
            and not self.is_stopped(branch.target, position)
        )

    def _is_first_at(self, after: PartialMatch, reached: set[object]) -> bool:
        """Return whether no preferred partial match took this event and reached the same state.

        If no condition reads earlier events, equal states have equal futures, and the others are never needed.
        """
        if not self._merges:
            return True
        counts = tuple(counter[0] for counter in after.counters)
        unified = frozenset((name, repr(identity(plain(value)))) for name, value in after.unified.items())
        state = (after.pc, after.program, counts, after.combination, after.zones, after.absences, unified)
        if state in reached:
            return False
        reached.add(state)
        return True

    def _outlasts_absences(self, branch: Branch, position: int, moment: int) -> bool:
        """Return whether the absences of the branch let it continue; record the time of a violation."""
        if branch.target.absences and branch.broken is None and self.violates(branch, position):
            if not self.increasing:
                return False
            branch.broken = moment
        return True

    def _end_closed(self, items: list[RunItem], now: int) -> list[RunItem]:
        """Return the items at time ``now``: earlier deadlines time out branches and decide acceptances."""
        out: list[RunItem] = []
        for item in items:
            if isinstance(item, Branch):
                if item.broken is not None and item.broken < now:
                    continue
                if item.closes < now:
                    if self.pattern.report_timeouts:
                        out.append(TimedOutBranch(item.origin, item.closes))
                    continue
                out.append(item)
            elif isinstance(item, Acceptance) and not item.decided and item.end < now:
                out.append(Acceptance(item.accepted, item.end, True))
            else:
                out.append(item)
        return out

    def _end_counted(self, items: list[RunItem], position: int) -> list[RunItem]:
        """Return the items after this position: branches with a count window that it fills time out."""
        out: list[RunItem] = []
        for item in items:
            if isinstance(item, Branch) and item.last_position is not None and position >= item.last_position:
                if item.broken is None and self.pattern.report_timeouts:
                    out.append(TimedOutBranch(item.origin, self.events[position].time))
                continue
            out.append(item)
        return out

    # branches

    def expand(self, after: PartialMatch, start: int, negated: bool) -> Iterator[Branch | Acceptance]:
        """Yield the items of a partial match that has just taken an event."""
        for target, step in self.closure(after):
            if step is not None:
                yield self.branch(after, target, step, start, negated)
            elif negated:
                yield Acceptance(target, target.clock, True)
            else:
                end = self._accepted_end(target, start)
                if end is not None:
                    yield Acceptance(target, end, not target.absences)

    def branch(self, origin: PartialMatch, target: PartialMatch, step: int, start: int, negated: bool) -> Branch:
        """Return a branch with its time and count bounds; the window of the pattern does not bound negated parts."""
        hop, within = target.hop, self.pattern.within
        assert hop is not None
        opens = -NO_DEADLINE
        if self.increasing:
            opens = target.clock if target.together else target.clock + 1
        if target.not_before is not None:
            opens = max(opens, target.not_before + 1)
        if hop.after is not None:
            opens = max(opens, target.clock + hop.after)
        closes = NO_DEADLINE if hop.within is None else target.clock + hop.within
        counted: list[tuple[int, int]] = []
        if not negated and isinstance(within, ast.CountWindow):
            counted.append((within.events, start))
        if not negated and isinstance(within, ast.TimeWindow):
            closes = min(closes, self._window_end(start))
        for zone in target.zones:
            if zone.first is None:
                continue
            if isinstance(zone.within, ast.TimeWindow):
                closes = min(closes, self.events[zone.first].time + micros(zone.within))
            elif isinstance(zone.within, ast.CountWindow):
                counted.append((zone.within.events, zone.first))
        return Branch(origin, target, step, opens, closes, tuple(counted))

    def _window_end(self, start: int) -> int:
        window = self.pattern.within
        return self.events[start].time + micros(window) if isinstance(window, ast.TimeWindow) else END_OF_TIME

    def _accepted_end(self, accepted: PartialMatch, start: int) -> int | None:
        """Return the time at which the match ends, or None if its bounds or guards reject it."""
        closing = self._window_end(start)
        end = accepted.clock
        for absence in accepted.absences:
            end = max(end, closing if absence.until is None else absence.until)
        if end > closing:
            return None
        shortest = self.pattern.holds_for
        if shortest is not None and end - self.events[start].time < shortest:
            return None
        return end if all(self.guard(guard, accepted) for guard in self.plan.guards) else None

    # absences

    def violates(self, branch: Branch, position: int) -> bool:
        """Return whether this event violates an absence of the branch before it closes."""
        return self.events[position].time <= branch.closes and self._any_occurs(branch.target, position, NO_DEADLINE)

    def violates_end(self, accepted: PartialMatch, position: int, start: int) -> bool:
        """Return whether this event violates an absence at the end of a match."""
        return self._any_occurs(accepted, position, self._window_end(start))

    def _any_occurs(self, at: PartialMatch, position: int, closing: int) -> bool:
        moment = self.events[position].time
        for absence in at.absences:
            if moment > (closing if absence.until is None else absence.until):
                continue
            # A negation of a single event is complete with the newest event or not at all.
            is_single = len(self.programs[absence.program]) == 2
            low = position if is_single and position > absence.position else absence.position + 1
            if self._occurs(absence.program, at, low, position + 1, absence.since):
                return True
        return False

    def _occurs(self, program: int, outer: PartialMatch, low: int, high: int, since: int | None) -> bool:
        """Return whether the negated program matches among the events from ``low`` to before ``high``."""
        bound = {position for _, position in outer.bound_events}
        seed = PartialMatch(program, self.plan.programs[program].registers)
        seed.hop, seed.bound_events, seed.current, seed.unified = (
            _ANYWHERE,
            outer.bound_events,
            outer.current,
            outer.unified,
        )
        openings = [(target, step) for target, step in self.closure(seed) if step is not None]
        for first in range(low, high):
            if first in bound or (since is not None and self.events[first].time <= since):
                continue
            for target, step in openings:
                if self.fits(step, target, first):
                    after = self.extend(target, step, first)
                    if after is not None and self._completes(after, first, high):
                        return True
        return False

    def _completes(self, after: PartialMatch, first: int, high: int) -> bool:
        """Return whether a negated program that has begun matches before ``high``."""
        bound = {position for _, position in after.bound_events}
        items: list[RunItem] = list(self.expand(after, first, True))
        for position in range(first + 1, high):
            if not items or any(isinstance(item, Acceptance) for item in items):
                break
            if position not in bound:
                items = self._consume(items, position, first, True)
        return any(isinstance(item, Acceptance) for item in items)
