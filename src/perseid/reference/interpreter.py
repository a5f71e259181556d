"""Reference interpreter of compiled plans, event by event; every kernel is compared with it.

Unlike the oracle it never looks ahead: events are fed in order, time advances, and decided matches are emitted at once.
A run is one list of *items* in order of preference: options that wait for an event, acceptances that wait for a
deadline, and matches that wait until all preferred items have failed. An event replaces an option in place by the items
that follow from it, so the list stays in order of preference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from perseid.compile import program as p
from perseid.compile.plan import PatternPlan, Plan, forgetful
from perseid.errors import SearchBudgetError
from perseid.lang import ast
from perseid.lang.ast import Contiguity
from perseid.lang.expressions import Expr
from perseid.reference.threads import (
    CLEAR,
    AcceptedThread,
    Complete,
    ListItem,
    OpenZone,
    Pending,
    PendingBranch,
    SearchRun,
    Thread,
    TimedOutOption,
    Wait,
    WatchedProgram,
)
from perseid.semantics import core as c
from perseid.semantics.contexts import END_OF_TIME, Simulation
from perseid.semantics.detection import RawMatch
from perseid.semantics.events import Event, is_of_kind
from perseid.semantics.scope import Bindings, MatchScope, holds, unify
from perseid.semantics.values import Relation, identity, plain

STEP_WORK = 8
"""Work units of an event taken by a partial match; comparing an event with a partial match is 1 unit."""


class Machine:
    """One pattern over one partition, fed in order."""

    def __init__(
        self, plan: Plan, pattern: PatternPlan, strictly_later: bool, relations: Mapping[str, Relation]
    ) -> None:
        self.plan = pattern
        self.predicates: list[Expr] = [predicate.expr for predicate in plan.predicates]
        self.local = [predicate.event_local for predicate in plan.predicates]
        self.pattern = pattern.pattern
        self.strictly_later = strictly_later if self.pattern.strictly_later is None else self.pattern.strictly_later
        self.relations = relations
        self.names = frozenset(s.name for s in self.pattern.steps if s.name is not None)
        self.events: list[Event] = []
        self.horizon: int | None = None
        self.attempts: list[SearchRun] = []
        self.resume = 0
        self.out: list[RawMatch] = []
        self.forgetful = forgetful(plan, pattern)
        self.one = self.pattern.skip.mode != "none"
        self.capped = 0
        """Runs dropped because more than the plan's cap were open."""
        self.work = 0
        """Work since the counter was reset, in eighths of a step of the search budget."""
        self.max_work: int | None = None
        """Work limit, beyond which a search raises :class:`SearchBudgetError`; None for no limit."""
        self.simulation = Simulation(self) if self.pattern.context is not None else None

    def _spend(self, eighths: int) -> None:
        self.work += eighths
        if self.max_work is not None and self.work > self.max_work:
            raise SearchBudgetError(self.pattern.name, "steps", self.max_work // STEP_WORK, len(self.events))

    # public interface

    def feed(self, event: Event) -> None:
        """Process the next event of the partition."""
        position = len(self.events)
        self.events.append(event)
        if self.simulation is not None:
            self.simulation.offer(position)
            self._cap(self.simulation.partials)
            return
        for attempt in self.attempts:
            attempt.items = self._on_event(attempt.items, position, attempt.start, False)
        if position >= self.resume:
            items = [i for thread in self.begin(position) for i in self._expand(thread, position, False)]
            if items:
                self.attempts.append(SearchRun(position, self._count_out(items, position + 1)))
        self._resolve()
        self._cap(self.attempts)

    def _cap(self, runs: list[SearchRun] | list[Thread]) -> None:
        cap = self.plan.retention.cap
        if cap is not None and len(runs) > cap:
            self.capped += len(runs) - cap
            del runs[: len(runs) - cap]

    def advance(self, watermark: int) -> None:
        """Advance the time: all events up to the watermark have been fed."""
        if self.simulation is not None:
            self.simulation.emit_decided(len(self.events), watermark + 1)
            return
        for attempt in self.attempts:
            attempt.items = self._on_time(attempt.items, watermark + 1)
        self._resolve()

    def finish(self) -> None:
        """End the input: there is no further event."""
        if self.simulation is not None:
            self.simulation.emit_decided(len(self.events), END_OF_TIME)
            return
        for attempt in self.attempts:
            attempt.items = [
                i for i in self._on_time(attempt.items, END_OF_TIME) if not isinstance(i, (PendingBranch, Pending))
            ]
        self._resolve()

    def collect(self) -> list[RawMatch]:
        """Return the matches decided since the last call."""
        if self.simulation is not None:
            found = self.simulation.found
            self.simulation.found = []
            return [RawMatch(f.path.bound_events, f.end, f.kind, f.path.unified) for f in found]
        out, self.out = self.out, []
        return out

    def undecided_ends(self) -> list[int]:
        """Return the end times of matches that are found or still possible, but not decided."""
        if self.simulation is not None:
            return self.simulation.acceptance_times()
        ends = [
            item.end
            for attempt in self.attempts
            for item in attempt.items
            if isinstance(item, Complete) and item.thread.combination not in attempt.emitted
        ]
        if self.attempts and self.pattern.skip.mode not in ("none", "to next"):
            ends.append(self.events[self.attempts[0].start].time)
        return ends

    # items

    def _expand(self, thread: Thread, start: int, inner: bool) -> list[ListItem]:
        """Return the items of a thread that has just taken an event."""
        items: list[ListItem] = []
        for option in self.options(thread):
            if isinstance(option, AcceptedThread):
                items.extend(self._accept(option.path, start, inner))
            else:
                closing = self.closing(option, start, inner)
                items.append(PendingBranch(thread, option, closing, tuple(self._limits(option, start, inner))))
        return items

    def _accept(self, thread: Thread, start: int, inner: bool) -> Iterator[ListItem]:
        if inner:
            yield Complete(thread, thread.clock)
            return
        end = self.accepted_end(thread, start)
        if end is not None:
            yield Pending(thread, end) if thread.watches else Complete(thread, end)

    def accepted_end(self, path: Thread, start: int) -> int | None:
        """Return the end time of a match accepted here; None if its bounds or guards fail."""
        closing = self.window_end(start)
        end = max([path.clock, *(closing if w.until is None else w.until for w in path.watches)])
        is_long_enough = self.pattern.holds_for is None or end - self.events[start].time >= self.pattern.holds_for
        allowed = end <= closing and is_long_enough and all(self.check(guard, path) for guard in self.plan.guards)
        return end if allowed else None

    def broken(self, path: Thread, start: int, seen: int) -> bool:
        """Return True if the first ``seen`` events violate an absence at the end."""
        closing = self.window_end(start)
        for watch in path.watches:
            limit = closing if watch.until is None else watch.until
            high = seen
            while high > 0 and self.events[high - 1].time > limit:
                high -= 1
            if self.occurs(watch.program, path, watch.position + 1, high, watch.since):
                return True
        return False

    def _breaks(self, path: Thread, start: int, position: int) -> bool:
        """Return True if this event violates an absence at the end."""
        moment, closing = self.events[position].time, self.window_end(start)
        return any(
            moment <= (closing if w.until is None else w.until)
            and self.occurs(w.program, path, self._from(w, position), position + 1, w.since)
            for w in path.watches
        )

    def option(self, step: int, path: Thread) -> Wait:
        return Wait(step, path)

    def state(self, path: Thread) -> object:
        """Return the state of a thread: its last step, iterations done, members of conjunctions done."""
        return path.bound_events[-1][0], tuple(register[0] for register in path.registers)

    def tested(self, step: int, path: Thread, position: int) -> bool:
        """Return True if the event passes the step's ``must``."""
        bound = self._bound(path, step, position, path.unified)
        return all(self.check(test, bound, self.events[position]) for test in self.plan.steps[step].must)

    def _on_event(self, items: list[ListItem], position: int, start: int, inner: bool) -> list[ListItem]:
        self._spend(len(items))
        items = self._on_time(items, self.events[position].time)
        fitting: set[int] = set()
        committed: set[int] = set()
        for item in items:
            if isinstance(item, PendingBranch) and self._may_take(item, position):
                fitting.add(id(item))
                if not item.wait.any and not item.wait.path.spare:
                    committed.add(id(item.thread))
        reached: set[object] = set()
        out: list[ListItem] = []
        for item in items:
            if isinstance(item, Pending):
                if not self._breaks(item.thread, start, position):
                    out.append(item)
                continue
            if not isinstance(item, PendingBranch):
                # A thread that is extended did not time out, even if one of its options did.
                if not (isinstance(item, TimedOutOption) and id(item.thread) in committed):
                    out.append(item)
                continue
            wait = item.wait
            took = id(item) in fitting
            if took:
                thread = self.extend(wait, position)
                if thread is not None and self._is_new(thread, reached):
                    out.extend(self._expand(thread, start, inner))
            over = wait.next or (not wait.any and (took or id(item.thread) in committed))
            if not over and not self._stopped(wait, position):
                out.extend(self._unbroken(item, position, start, inner))
        return self._count_out(out, position + 1)

    def _is_new(self, thread: Thread, reached: set[object]) -> bool:
        """Return True unless a preferred thread has reached the same state with this event.

        If no condition reads earlier bindings, threads in one state have the same future, so the less preferred one is
        redundant: (A+)+ has one thread, not one for each grouping of its iterations.
        """
        if not self.forgetful:
            return True
        rounds = tuple(register[0] for register in thread.registers)
        unified = tuple(sorted((name, repr(identity(plain(value)))) for name, value in thread.unified.items()))
        key = (thread.program, thread.pc, rounds, thread.watches, thread.zones, thread.combination, unified)
        if key in reached:
            return False
        reached.add(key)
        return True

    def _unbroken(self, item: PendingBranch, position: int, start: int, inner: bool) -> Iterator[PendingBranch]:
        """Yield the option unless this event violates its absence; it may then still take events of the same time."""
        if item.broken is not None or not self.violated(item.wait, position, start, inner):
            yield item
        elif self.strictly_later:
            yield replace(item, broken=self.events[position].time)

    def _may_take(self, item: PendingBranch, position: int) -> bool:
        """Return True if this option may take this event; all earlier events have been processed."""
        return self.live(item.wait, item.thread, position, 0, True) and self.fits(item.wait, position)

    def _on_time(self, items: list[ListItem], now: int) -> list[ListItem]:
        """Close the windows that end before ``now``; all events before it have been processed."""
        out: list[ListItem] = []
        for item in items:
            if isinstance(item, PendingBranch) and item.broken is not None and item.broken < now:
                continue
            if isinstance(item, PendingBranch) and item.closing is not None and item.closing < now:
                out.append(TimedOutOption(item.thread, item.closing))
            elif isinstance(item, Pending) and item.end < now:
                out.append(Complete(item.thread, item.end))
            else:
                out.append(item)
        return out

    def _count_out(self, items: list[ListItem], count: int) -> list[ListItem]:
        """Time out options with a count window that is exhausted after ``count`` events."""
        out: list[ListItem] = []
        for item in items:
            if isinstance(item, PendingBranch) and any(count - first >= n for n, first in item.limits):
                if item.broken is None:
                    out.append(TimedOutOption(item.thread, self.events[count - 1].time))
            else:
                out.append(item)
        return out

    # decisions

    def _resolve(self) -> None:
        if self.pattern.skip.mode in ("none", "to next"):
            self.attempts = [a for a in self.attempts if not self._decide(a)]
            return
        while self.attempts:
            attempt = self.attempts[0]
            if attempt.start >= self.resume:
                before = len(self.out)
                if not self._decide(attempt):
                    return
                if len(self.out) > before and self.out[-1].kind == "match":
                    self.resume = self._resume(self.out[-1], attempt.start)
            self.attempts.pop(0)

    def _decide(self, attempt: SearchRun) -> bool:
        """Emit decided matches; return True if the run is over."""
        blocked: set[tuple[int, ...]] = set()
        is_open = False
        for item in attempt.items:
            if isinstance(item, (PendingBranch, Pending)):
                is_open = True
                if self.one:
                    return False
                if isinstance(item, Pending) or not item.wait.any:
                    blocked.add(item.thread.combination)
            elif isinstance(item, Complete):
                combination = item.thread.combination
                if combination not in blocked and combination not in attempt.emitted:
                    attempt.emitted.add(combination)
                    if item.thread.bound_events not in attempt.matched:
                        attempt.matched.add(item.thread.bound_events)
                        self._emit(item.thread, item.end, "match")
                    if self.one:
                        return True
                blocked.add(combination)
        if is_open:
            return False
        if not attempt.emitted and self.pattern.report_timeouts:
            for item in attempt.items:
                if isinstance(item, TimedOutOption):
                    self._emit(item.thread, item.end, "timed out")
                    break
        return True

    def _emit(self, thread: Thread, end: int, kind: str) -> None:
        self.out.append(RawMatch(thread.bound_events, end, kind, thread.unified))

    def _resume(self, found: RawMatch, start: int) -> int:
        skip = self.pattern.skip
        if skip.mode == "past last":
            return found.bound_events[-1][1] + 1
        assert skip.step is not None
        target = self.pattern.step_named(skip.step)
        assert target is not None
        positions = [position for step, position in found.bound_events if step == target.id]
        if not positions:
            return start + 1
        return max(start + 1, positions[0] if skip.mode == "to first" else positions[-1])

    # instructions

    def begin(self, position: int) -> Iterator[Thread]:
        """Yield the threads in which this event is the first of a match."""
        seed = Thread(0, 0, (CLEAR,) * self.plan.programs[0].registers)
        for option in self.options(seed):
            if isinstance(option, Wait) and self.fits(option, position):
                thread = self.extend(option, position)
                if thread is not None and not self._violates_leading_absence(thread, position):
                    yield thread

    def _violates_leading_absence(self, thread: Thread, position: int) -> bool:
        moment = self.events[position].time
        for program, duration in self.plan.leads:
            low = position
            while low > 0 and self.events[low - 1].time >= moment - duration:
                low -= 1
            high = position
            while self.strictly_later and high > low and self.events[high - 1].time == moment:
                high -= 1
            if self.occurs(program, thread, low, high):
                return True
        return False

    def options(self, thread: Thread) -> Iterator[Wait | AcceptedThread]:
        """Yield the next options of the thread in order of preference, without duplicates."""
        yield from self._follow(thread, set())

    def _follow(self, thread: Thread, seen: set[object]) -> Iterator[Wait | AcceptedThread]:
        """Follow instructions that need no event. The key has all fields that may change on the way."""
        key = (
            thread.pc, thread.registers, thread.hop, thread.together, thread.clock, thread.barrier, thread.watches,
            thread.zones, thread.untils, thread.spare, tuple(thread.current),
        )  # fmt: skip
        if key in seen:
            return
        seen.add(key)
        instruction = self.plan.programs[thread.program].instructions[thread.pc]
        after = thread._replace(pc=thread.pc + 1)
        match instruction:
            case p.TakeEvent():
                yield Wait(instruction.step, after)
            case p.AcceptMatch():
                yield AcceptedThread(thread)
            case p.SetHop():
                yield from self._follow(after._replace(hop=instruction.hop, together=False), seen)
            case p.Split():
                for target in instruction.targets:
                    yield from self._follow(thread._replace(pc=target), seen)
            case p.Jump():
                yield from self._follow(thread._replace(pc=instruction.target), seen)
            case p.LoopEnter():
                registers = thread.set(instruction.register, (0, len(thread.bound_events), len(thread.bound_events)))
                yield from self._follow(after._replace(registers=registers), seen)
            case p.LoopTurn():
                yield from self._turn(thread, instruction, seen)
            case p.LoopBack():
                rounds, mark, entered = thread.registers[instruction.register]
                turn = self.plan.programs[thread.program].instructions[instruction.target]
                assert isinstance(turn, p.LoopTurn)
                if len(thread.bound_events) == mark and rounds >= turn.low:
                    return  # An empty iteration counts as all missing ones; none is missing here.
                # Without an upper bound, the count is capped at the lower one.
                rounds = rounds + 1 if turn.high is not None else min(rounds + 1, max(turn.low, 1))
                registers = thread.set(instruction.register, (rounds, mark, entered))
                yield from self._follow(thread._replace(pc=instruction.target, registers=registers), seen)
            case p.AllEnter():
                watches = tuple(
                    WatchedProgram(b, thread.last, self._since(thread), None, len(thread.zones), instruction.register)
                    for b in instruction.barred
                )
                registers = thread.set(instruction.register, (0, 0, len(thread.bound_events)))
                yield from self._follow(after._replace(registers=registers, watches=thread.watches + watches), seen)
            case p.AllTurn():
                yield from self._any_order(thread, instruction, seen)
            case p.AllBack():
                done, _, entered = thread.registers[instruction.register]
                registers = thread.set(instruction.register, (done | 1 << instruction.member, 0, entered))
                yield from self._follow(thread._replace(pc=instruction.target, registers=registers), seen)
            case p.WatchFor():
                yield from self._follow(self._watch(after, instruction), seen)
            case p.ZoneEnter():
                zone = OpenZone(instruction.within, instruction.holds_for, None)
                yield from self._follow(after._replace(zones=(*thread.zones, zone)), seen)
            case p.ZoneLeave():
                closed = self._close(after)
                if closed is not None:
                    yield from self._follow(closed, seen)

    def _turn(self, thread: Thread, turn: p.LoopTurn, seen: set[object]) -> Iterator[Wait | AcceptedThread]:
        rounds, mark, entered = thread.registers[turn.register]
        idle = rounds > 0 and len(thread.bound_events) == mark
        leave = (idle or rounds >= turn.low) and all(self.check(guard, thread) for guard in turn.guards)
        repeat = not idle and (turn.high is None or rounds < turn.high)
        if repeat and turn.until is not None and len(thread.bound_events) > entered:
            first = thread.bound_events[entered][1]
            repeat = not any(self.stops(turn.until, thread, at) for at in range(first + 1, thread.last + 1))
        branches: list[Thread] = []
        if repeat:
            current = {s: at for s, at in thread.current.items() if s not in turn.inside}
            registers = thread.set(turn.register, (rounds, len(thread.bound_events), entered))
            spare = (turn.reluctant and leave) or (thread.spare and len(thread.bound_events) == entered)
            branch = thread._replace(pc=turn.body, current=current, registers=registers, spare=spare)
            if rounds > 0:
                untils = () if turn.until is None else (*thread.untils, turn.until)
                branch = branch._replace(hop=turn.hop, together=False, untils=untils)
            branches.append(branch)
        if leave:
            branch = thread._replace(pc=turn.exit, registers=thread.set(turn.register, CLEAR))
            branches.append(branch._replace(untils=(), spare=False) if idle else branch)
        for branch in reversed(branches) if turn.reluctant else branches:
            yield from self._follow(branch, seen)

    def _any_order(self, thread: Thread, turn: p.AllTurn, seen: set[object]) -> Iterator[Wait | AcceptedThread]:
        done, _, entered = thread.registers[turn.register]
        first = len(thread.bound_events) == entered
        if done == (1 << len(turn.members)) - 1:
            if all(self.check(guard, thread) for guard in turn.guards):
                watches = tuple(w for w in thread.watches if w.conjunction != turn.register)
                registers = thread.set(turn.register, CLEAR)
                yield from self._follow(thread._replace(pc=turn.exit, watches=watches, registers=registers), seen)
            return
        for i, target in enumerate(turn.members):
            if done >> i & 1:
                continue
            branch = thread._replace(pc=target)
            yield from self._follow(branch if first else branch._replace(hop=turn.hop, together=True), seen)

    def _watch(self, thread: Thread, watch: p.WatchFor) -> Thread:
        until = None if watch.duration is None else thread.clock + watch.duration
        watched = WatchedProgram(watch.program, thread.last, self._since(thread), until, len(thread.zones))
        thread = thread._replace(watches=(*thread.watches, watched))
        return thread if until is None else thread._replace(clock=until, barrier=until)

    def _since(self, thread: Thread) -> int | None:
        return thread.clock if self.strictly_later else thread.barrier

    def _close(self, thread: Thread) -> Thread | None:
        zone = thread.zones[-1]
        thread = thread._replace(zones=thread.zones[:-1])
        if zone.first is None:
            return thread
        begin = self.events[zone.first].time
        if isinstance(zone.within, ast.TimeWindow):
            closing = begin + _fixed(zone.within)
            if thread.clock > closing:
                return None
            is_pending = [
                w.depth > len(thread.zones) and w.until is None and w.conjunction is None for w in thread.watches
            ]
            if any(is_pending):
                watches = tuple(
                    replace(w, until=closing) if pending else w
                    for w, pending in zip(thread.watches, is_pending, strict=True)
                )
                thread = thread._replace(watches=watches, clock=closing, barrier=closing)
        if zone.holds_for is not None and thread.clock - begin < zone.holds_for:
            return None
        return thread

    # events

    def fits(self, option: Wait, position: int) -> bool:
        """Return True if the event has the step's kind and its conditions hold."""
        self.work += 1
        step = self.pattern.steps[option.step]
        event = self.events[position]
        if not is_of_kind(event, step.kind):
            return False
        thread = option.path
        unified = unify(step.unify, event, thread.unified)
        if unified is None:
            return False
        bound = self._bound(thread, option.step, position, unified)
        return all(
            any(n not in thread.current for n in needs) or self.check(predicate, bound, event)
            for predicate, needs in self.plan.steps[option.step].choose
        )

    def extend(self, option: Wait, position: int) -> Thread | None:
        """Return the thread extended with the event; None if ``must`` fails."""
        self._spend(STEP_WORK)
        thread, event = option.path, self.events[position]
        unified = unify(self.pattern.steps[option.step].unify, event, thread.unified)
        assert unified is not None
        bound = self._bound(thread, option.step, position, unified)
        if not all(self.check(test, bound, event) for test in self.plan.steps[option.step].must):
            return None
        return bound._replace(
            hop=None,
            together=False,
            clock=event.time,
            barrier=None,
            watches=tuple(w for w in thread.watches if w.conjunction is not None),
            zones=tuple(replace(z, first=position) if z.first is None else z for z in thread.zones),
            untils=(),
            combination=(*thread.combination, position) if option.any else thread.combination,
            spare=False,
        )

    @staticmethod
    def _bound(thread: Thread, step: int, position: int, unified: Mapping[str, object]) -> Thread:
        return thread._replace(
            bound_events=(*thread.bound_events, (step, position)),
            current={**thread.current, step: position},
            unified=unified,
        )

    def live(self, option: Wait, path: Thread, position: int, start: int, inner: bool) -> bool:
        """Return True if the option may take any event at this position. Windows of items are checked elsewhere."""
        extended, moment = option.path, self.events[position].time
        assert extended.hop is not None
        if option.next and position != path.last + 1:
            return False
        if self.strictly_later and (moment < extended.clock or (moment == extended.clock and not extended.together)):
            return False
        if extended.barrier is not None and moment <= extended.barrier:
            return False
        if extended.hop.after is not None and moment < extended.clock + extended.hop.after:
            return False
        if self._stopped(option, position):
            return False
        if inner:
            return True
        closing = self.closing(option, start, False)
        return closing is None or moment <= closing

    def closing(self, option: Wait, start: int, inner: bool) -> int | None:
        """Return the last time at which the option could take an event."""
        path = option.path
        ends = [] if inner or not isinstance(self.pattern.within, ast.TimeWindow) else [self.window_end(start)]
        for zone in path.zones:
            if zone.first is not None and isinstance(zone.within, ast.TimeWindow):
                ends.append(self.events[zone.first].time + _fixed(zone.within))
        if path.hop is not None and path.hop.within is not None:
            ends.append(path.clock + path.hop.within)
        return min(ends, default=None)

    def _limits(self, option: Wait, start: int, inner: bool) -> Iterator[tuple[int, int]]:
        if not inner and isinstance(self.pattern.within, ast.CountWindow):
            yield self.pattern.within.events, start
        for zone in option.path.zones:
            if zone.first is not None and isinstance(zone.within, ast.CountWindow):
                yield zone.within.events, zone.first

    def window_end(self, start: int) -> int:
        if isinstance(self.pattern.within, ast.TimeWindow):
            return self.events[start].time + _fixed(self.pattern.within)
        return END_OF_TIME

    def stops(self, until: int, thread: Thread, position: int) -> bool:
        return self.fits(Wait(until, thread), position)

    def _stopped(self, wait: Wait, position: int) -> bool:
        return any(self.stops(until, wait.path, position) for until in wait.path.untils)

    # absence

    def violated(self, option: Wait, position: int, start: int, inner: bool) -> bool:
        """Return True if this event completes something negated before the option's own event."""
        moment = self.events[position].time
        closing = self.closing(option, start, inner)
        if closing is not None and moment > closing:
            return False
        return any(
            (w.until is None or moment <= w.until)
            and self.occurs(w.program, option.path, self._from(w, position), position + 1, w.since)
            for w in option.path.watches
        )

    def _from(self, watch: WatchedProgram, position: int) -> int:
        """Return the first position to search: only the event itself can complete a single-step program."""
        single = len(self.plan.programs[watch.program].instructions) == 2
        return position if single and position > watch.position else watch.position + 1

    def occurs(self, program: int, outer: Thread, low: int, high: int, since: int | None = None) -> bool:
        """Return True if the program matches some events from ``low`` to before ``high``."""
        registers = (CLEAR,) * self.plan.programs[program].registers
        seed = Thread(
            program, 0, registers, hop=c.Hop(Contiguity.SKIP), bound_events=outer.bound_events, current=outer.current,
            unified=outer.unified,
        )  # fmt: skip
        bound_positions = {position for _, position in outer.bound_events}
        for start in range(low, high):
            if start in bound_positions or (since is not None and self.events[start].time <= since):
                continue
            for option in self.options(seed):
                if isinstance(option, AcceptedThread) or not self.fits(option, start):
                    continue
                thread = self.extend(option, start)
                if thread is not None and self._completes(thread, start, high):
                    return True
        return False

    def _completes(self, thread: Thread, start: int, high: int) -> bool:
        items = self._expand(thread, start, True)
        bound_positions = {position for _, position in thread.bound_events}
        for position in range(start + 1, high):
            if position in bound_positions:
                continue
            if any(isinstance(item, Complete) for item in items):
                return True
            items = self._on_event(items, position, start, True)
        return any(isinstance(item, Complete) for item in items)

    # expressions

    def check(self, predicate: int, thread: Thread, event: Event | None = None) -> bool:
        if self.local[predicate]:
            # A local predicate refers to no step: every name in it is a column, even one that equals a step name.
            return holds(self.predicates[predicate], MatchScope(frozenset(), Bindings(), event, self.relations))
        return self.holds(self.predicates[predicate], thread, event)

    def holds(self, expr: Expr, thread: Thread, event: Event | None = None) -> bool:
        return holds(expr, self.scope(thread, event))

    def scope(self, thread: Thread, event: Event | None) -> MatchScope:
        """Return the expression scope of a thread and the current event."""
        events: dict[str, list[Event]] = {}
        current: dict[str, Event] = {}
        for step, position in thread.bound_events:
            name = self.pattern.steps[step].name
            if name is not None:
                events.setdefault(name, []).append(self.events[position])
        for step, position in thread.current.items():
            name = self.pattern.steps[step].name
            if name is not None:
                current[name] = self.events[position]
        return MatchScope(self.names, Bindings(events, current, thread.unified), event, self.relations)


def _fixed(window: ast.TimeWindow) -> int:
    assert isinstance(window.duration, int), "parameters are bound before a pattern is compiled"
    return window.duration
