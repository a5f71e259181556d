"""The specification: the meaning of a pattern, by exhaustive search.

The input is the core form of a pattern, the events of one partition in order, and a *horizon*, the time up to which the
stream is complete; the output is every match that no later event can change. It is slow and written to be read. An
engine that disagrees with it is wrong until proven right.

Matching
  Every event that matches the pattern's first step starts a *run*. A run follows *paths*. After each event a path
  has *options*, in order of preference: steps that may follow, or to accept. Greedy repetition prefers another
  iteration, reluctant prefers to leave, and an earlier branch is preferred to a later one.

  ``,``    the option may take only the very next event of the partition;
  ``->``   the path takes the first later event that matches one of its ``,`` or ``->`` options, and never skips
           it; the options that match it are tried in order of preference. An optional iteration of a reluctant
           repetition does not commit the path: it takes the first event that matches it, and is tried after the
           options that skip that event;
  ``->>``  the option may take every later event that matches, each a separate *combination*.

  For each start and each combination, the most preferred path that reaches acceptance is a match. The skip strategy
  then selects the starts. Contexts, which select the partial matches that may use an event, are in
  :mod:`perseid.semantics.contexts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perseid.lang import ast
from perseid.lang.ast import Contiguity
from perseid.lang.expressions import Expr
from perseid.reference.paths import (
    Accept,
    Close,
    Found,
    NegationWatch,
    Open,
    Option,
    Outcome,
    Path,
    RepetitionState,
    Rest,
    Stuck,
    Todo,
)
from perseid.semantics import core as c
from perseid.semantics.contexts import END_OF_TIME, contextual_matches
from perseid.semantics.detection import Matcher, Partition, RawMatch
from perseid.semantics.events import Event, is_of_kind
from perseid.semantics.scope import Bindings, MatchScope, holds, unify
from perseid.semantics.values import Relation


@dataclass(frozen=True, slots=True)
class Judged:
    """Matches of one partition, sorted by end, and the time up to which they are complete."""

    found: list[Found]
    frontier: int | None


def judge(
    pattern: c.CorePattern,
    events: Sequence[Event],
    *,
    horizon: int | None = None,
    strictly_later: bool = False,
    relations: Mapping[str, Relation] | None = None,
) -> Judged:
    """Return all matches of one partition that are decided at the horizon (None: the stream has ended).

    Timed-out runs are included, with that kind, if the pattern reports them.
    """
    if pattern.strictly_later is not None:
        strictly_later = pattern.strictly_later
    known = [e for e in events if horizon is None or e.time <= horizon]
    bench = Judge(pattern, known, horizon, strictly_later, relations or {})
    if pattern.context is not None:
        simulation = contextual_matches(bench, horizon)
        found = [Found(f.path, f.end, f.kind) for f in simulation.found]
        bench.undecided_ends = simulation.acceptance_times()
    else:
        found = list(_attempts(bench))
    found.sort(key=lambda f: (f.end, f.path.last, f.path.bound_events[0][1]))
    frontier = horizon if horizon is None else min([horizon, *(end - 1 for end in bench.undecided_ends)])
    return Judged(found, frontier)


def completions(
    pattern: c.CorePattern, events: Sequence[Event], relations: Mapping[str, Relation] | None = None
) -> list[Found]:
    """Return every way in which the events of one partition complete a pattern, preferred or not, sorted by end.

    Uncertain streams use this: they need the times and the number of completions, not the selected match. Every
    continuation waits for its own event: leaving a repetition and repeating it are two. Later means strictly later, and
    events of one time are alternatives: a step takes each matching event at the first time that has one (Ré et al.
    2008, Figure 2).
    """
    bench = Judge(pattern, events, None, True, relations or {}, every_continuation=True)
    outcomes = (o for start in range(len(events)) for o in bench.attempt(start) if isinstance(o, Found))
    return sorted({o.path.bound_events: o for o in outcomes}.values(), key=lambda f: (f.end, f.path.bound_events))


def _attempts(judge: Judge) -> Iterator[Found]:
    skip = judge.pattern.skip
    resume = 0
    for start in range(len(judge.events)):
        if start < resume:
            continue
        outcomes = list(judge.attempt(start))
        decided = _decide(outcomes, one=skip.mode != "none")
        undecided = any(isinstance(o, Open) for o in outcomes)
        if undecided and (skip.mode == "none" or not decided):
            known = {f.path.combination for f in decided}
            judge.undecided_ends.extend(
                o.end for o in outcomes if isinstance(o, Found) and o.path.combination not in known
            )
        if decided:
            yield from decided
        elif judge.pattern.report_timeouts and not undecided:
            stuck = next((o for o in outcomes if isinstance(o, Stuck)), None)
            if stuck is not None:
                yield Found(stuck.path, stuck.end, "timed out")
        if skip.mode in ("none", "to next"):
            continue
        if decided:
            resume = _resume(judge, decided[0], start)
        elif undecided:
            judge.undecided_ends.append(judge.events[start].time)
            return  # Its match, if any, decides which later starts count.


def _decide(outcomes: list[Outcome], *, one: bool) -> list[Found]:
    """Select matches from outcomes in order of preference: a match counts if no preferred outcome is open."""
    found: dict[tuple[int, ...], Found | None] = {}
    for outcome in outcomes:
        if isinstance(outcome, Found):
            found.setdefault(outcome.path.combination, outcome)
        elif isinstance(outcome, Open):
            if one:
                found.setdefault((), None)
            elif outcome.combination is not None:
                found.setdefault(outcome.combination, None)
        if one and found:
            break
    # Two combinations may reach the same events on different paths: that is one match.
    return list({f.path.bound_events: f for f in reversed(found.values()) if f is not None}.values())[::-1]


def _resume(judge: Judge, found: Found, start: int) -> int:
    """Return the first position at which the next run may start."""
    skip = judge.pattern.skip
    if skip.mode == "past last":
        return found.path.last + 1
    assert skip.step is not None
    target = judge.pattern.step_named(skip.step)
    assert target is not None
    positions = [p for step, p in found.path.bound_events if step == target.id]
    if not positions:
        return start + 1
    return max(start + 1, positions[0] if skip.mode == "to first" else positions[-1])


class Judge:
    """One pattern over the events of one partition."""

    def __init__(
        self,
        pattern: c.CorePattern,
        events: Sequence[Event],
        horizon: int | None,
        strictly_later: bool,
        relations: Mapping[str, Relation],
        every_continuation: bool = False,
    ) -> None:
        self.pattern = pattern
        self.events = events
        self.horizon = horizon
        self.strictly_later = strictly_later
        self.relations = relations
        self.every_continuation = every_continuation
        """True if continuations are independent and take every matching event of the first time that has one."""
        self.undecided_ends: list[int] = []
        """End times of matches that are found or still possible, but not decided at the horizon."""
        self.names = frozenset(s.name for s in pattern.steps if s.name is not None)

    # runs

    def attempt(self, start: int) -> Iterator[Outcome]:
        """Yield every outcome of the run that starts with this event, in order of preference."""
        for path in self.begin(start):
            yield from self.explore(path, start, len(self.events))

    def begin(self, start: int) -> Iterator[Path]:
        """Yield the paths in which this event is the first of a match."""
        for option in self.options(Path((self.pattern.body, None))):
            if isinstance(option, Option) and self.fits(option, start):
                path = self.extend(option, start)
                if path is not None and not self._broken_lead(path, start):
                    yield path

    def _broken_lead(self, path: Path, start: int) -> bool:
        moment = self.events[start].time
        for lead in self.pattern.lead:
            low = next(p for p in range(start + 1) if p == start or self.events[p].time >= moment - lead.duration)
            high = next(p for p in range(start + 1) if p == start or self._simultaneous(p, start))
            if self.occurs(lead.body, path, low, high):
                return True
        return False

    def explore(self, path: Path, start: int, end: int, *, inner: bool = False) -> Iterator[Outcome]:
        """Extend a path with the events before ``end``; ``inner`` is the search for something negated."""
        options = list(self.options(path))
        pending = [o for o in options if isinstance(o, Option)]
        found: dict[int, list[int]] = {id(o): [] for o in pending}
        is_taken = False
        checked = path.last + 1
        bound_positions = {p for _, p in path.bound_events} if inner else set()
        for position in range(path.last + 1, end):
            if position in bound_positions:
                continue  # Events of the match itself are not part of a negated match.
            while checked < position and not self._simultaneous(checked, position):
                pending = [o for o in pending if not self.violated(o, checked, start, inner)]
                checked += 1
            fitting = [o for o in pending if self.live(o, path, position, start, inner) and self.fits(o, position)]
            for option in fitting:
                if option.any or not (is_taken or self._has_found(found[id(option)], position)):
                    found[id(option)].append(position)
            is_taken = is_taken or not (self.every_continuation or all(o.any or o.path.spare for o in fitting))
        for position in range(checked, end):
            pending = [o for o in pending if not self.violated(o, position, start, inner)]
        for continuation in options:
            if isinstance(continuation, Accept):
                yield from self._accept(continuation.path, start, inner)
                continue
            for position in found[id(continuation)]:
                after = self.extend(continuation, position)
                if after is not None:
                    yield from self.explore(after, start, end, inner=inner)
            is_settled = not continuation.any and (is_taken or bool(found[id(continuation)]))
            if continuation not in pending or inner or is_settled:
                continue
            if self._may_match_later(continuation, path, start):
                yield Open(None if continuation.any else path.combination)
            else:
                timeout = self._timeout_of(continuation, path, start)
                if timeout is not None:
                    yield Stuck(path, timeout)

    def _has_found(self, before: Sequence[int], position: int) -> bool:
        """Return True if an option has found its event; with ``every_continuation``, it takes all those of one time."""
        return bool(before) and not (
            self.every_continuation and self.events[before[0]].time == self.events[position].time
        )

    def _simultaneous(self, earlier: int, later: int) -> bool:
        """Return True if two events of one time do not order each other, as later steps must be strictly later."""
        return self.strictly_later and self.events[earlier].time == self.events[later].time

    def _accept(self, path: Path, start: int, inner: bool) -> Iterator[Outcome]:
        if inner:
            yield Found(path, path.clock)
            return
        end = self.accepted_end(path, start)
        if end is None or self.broken(path, start, len(self.events)):
            return
        if path.watches and self.horizon is not None and self.horizon < end:
            yield Open(path.combination)
        else:
            yield Found(path, end)

    def accepted_end(self, path: Path, start: int) -> int | None:
        """Return the end time of a match accepted here, including absences; None if its bounds or guards fail."""
        closing = self.window_end(start)
        end = max([path.clock, *(closing if w.until is None else w.until for w in path.watches)])
        if end > closing:
            return None
        if self.pattern.holds_for is not None and end - self.events[start].time < self.pattern.holds_for:
            return None
        return end if all(self.holds(guard, path) for guard in self.pattern.guards) else None

    def broken(self, path: Path, start: int, seen: int) -> bool:
        """Return True if the first ``seen`` events violate an absence at the end."""
        for watch in path.watches:
            limit = self.window_end(start) if watch.until is None else watch.until
            high = sum(1 for e in self.events[:seen] if e.time <= limit)
            if self.occurs(watch.body, path, watch.position + 1, high, watch.since):
                return True
        return False

    def option(self, step: int, path: Path) -> Option:
        return Option(step, path)

    def state(self, path: Path) -> object:
        """Return the state of a path: its last step, iterations done, pending members of conjunctions."""
        counts: list[tuple[int, ...]] = []
        todo = path.todo
        while todo is not None:
            task, todo = todo
            if isinstance(task, RepetitionState):
                done = task.count - 1  # The current iteration is not done.
                enough = done if task.loop.high is not None else min(done, max(task.loop.low, 1))
                counts.append((task.loop.id, enough))
            elif isinstance(task, Rest):
                counts.append((task.all.id, *task.members))
        return path.bound_events[-1][0], tuple(counts)

    # options

    def options(self, path: Path) -> Iterator[Option | Accept]:
        """Yield the next options of the path in order of preference."""
        if path.todo is None:
            yield Accept(path)
            return
        task, rest = path.todo
        match task:
            case c.Take():
                yield Option(task.step, path._replace(todo=rest))
            case c.Hop():
                yield from self.options(path._replace(todo=rest, hop=task, together=False))
            case c.Seq():
                todo: Todo = rest
                for item, hop in zip(reversed(task.items[1:]), reversed(task.hops), strict=True):
                    # An absence has no event of its own: the arrow after it is the one that counts.
                    todo = (item, todo) if isinstance(item, c.Absent) else (hop, (item, todo))
                yield from self.options(path._replace(todo=(task.items[0], todo)))
            case c.Alt():
                for branch in task.branches:
                    yield from self.options(path._replace(todo=(branch, rest)))
            case c.All():
                watches = tuple(
                    NegationWatch(b, path.last, self._since(path), None, len(path.zones), task.id) for b in task.barred
                )
                members = tuple(range(len(task.members)))
                yield from self.options(
                    path._replace(
                        todo=(Rest(task, members, len(path.bound_events)), rest), watches=path.watches + watches
                    )
                )
            case Rest():
                yield from self._conjunction(path, task, rest)
            case c.Loop():
                yield from self.options(
                    path._replace(todo=(RepetitionState(task, 0, len(path.bound_events), len(path.bound_events)), rest))
                )
            case RepetitionState():
                yield from self._repetition(path, task, rest)
            case c.Absent():
                yield from self.options(self._watch(path._replace(todo=rest), task))
            case c.Zone():
                todo = (task.body, (Close(task), rest))
                yield from self.options(path._replace(todo=todo, zones=(*path.zones, (task, None))))
            case Close():
                closed = self._close(path._replace(todo=rest))
                if closed is not None:
                    yield from self.options(closed)

    def _conjunction(self, path: Path, task: Rest, rest: Todo) -> Iterator[Option | Accept]:
        conjunction = task.all
        if not task.members:
            if all(self.holds(guard, path) for guard in conjunction.guards):
                watches = tuple(w for w in path.watches if w.conjunction != conjunction.id)
                yield from self.options(path._replace(todo=rest, watches=watches))
            return
        first = len(path.bound_events) == task.entered
        for member in task.members:
            others = Rest(conjunction, tuple(m for m in task.members if m != member), task.entered)
            todo = (conjunction.members[member], (others, rest))
            if first:
                yield from self.options(path._replace(todo=todo))
            else:
                yield from self.options(path._replace(todo=todo, hop=conjunction.hop, together=True))

    def _repetition(self, path: Path, task: RepetitionState, rest: Todo) -> Iterator[Option | Accept]:
        loop, count = task.loop, task.count
        idle = count > 0 and len(path.bound_events) == task.mark
        repeat = not idle and (loop.high is None or count < loop.high) and not self._over(path, task)
        # An empty iteration counts as all missing iterations; if none is missing, it adds nothing.
        enough = count - 1 < loop.low if idle else count >= loop.low
        leave = enough and all(self.holds(guard, path) for guard in loop.guards)
        for way in ("leave", "again") if loop.reluctant else ("again", "leave"):
            if way == "leave" and leave:
                left = path._replace(todo=rest, untils=(), spare=False) if idle else path._replace(todo=rest)
                yield from self.options(left)
            elif way == "again" and repeat:
                todo = (loop.body, (RepetitionState(loop, count + 1, len(path.bound_events), task.entered), rest))
                fresh = {s: p for s, p in path.current.items() if s not in loop.inside}
                spare = (loop.reluctant and leave) or (path.spare and len(path.bound_events) == task.entered)
                repeated = path._replace(todo=todo, current=fresh, spare=spare)
                if count > 0:
                    untils = () if loop.until is None else (*path.untils, loop.until)
                    repeated = repeated._replace(hop=loop.hop, together=False, untils=untils)
                yield from self.options(repeated)

    def _over(self, path: Path, task: RepetitionState) -> bool:
        """Return True if the stop event has occurred since the repetition's first event."""
        if task.loop.until is None or len(path.bound_events) == task.entered:
            return False
        first = path.bound_events[task.entered][1]
        return any(self.stops(task.loop.until, path, p) for p in range(first + 1, path.last + 1))

    def _watch(self, path: Path, absent: c.Absent) -> Path:
        until = None if absent.duration is None else path.clock + absent.duration
        watch = NegationWatch(absent.body, path.last, self._since(path), until, len(path.zones))
        path = path._replace(watches=(*path.watches, watch))
        return path if until is None else path._replace(clock=until, barrier=until)

    def _since(self, path: Path) -> int | None:
        """Return the time that negated events must exceed: the end of a timed absence or, if strict, the last clock."""
        return path.clock if self.strictly_later else path.barrier

    def _close(self, path: Path) -> Path | None:
        """Leave the innermost zone, which may end with an absence that lasts until its window closes."""
        zone, first = path.zones[-1]
        path = path._replace(zones=path.zones[:-1])
        if first is None:
            return path
        begin = self.events[first].time
        if isinstance(zone.within, ast.TimeWindow):
            closing = begin + _fixed(zone.within.duration)
            if path.clock > closing:
                return None  # A timed absence at its end lasts longer than the zone.
            lasting = [
                w for w in path.watches if w.depth > len(path.zones) and w.until is None and w.conjunction is None
            ]
            if lasting:
                watches = tuple(replace(w, until=closing) if w in lasting else w for w in path.watches)
                path = path._replace(watches=watches, clock=closing, barrier=closing)
        if zone.holds_for is not None and path.clock - begin < zone.holds_for:
            return None
        return path

    # events

    def fits(self, option: Option, position: int) -> bool:
        """Return True if the event has the step's kind and its conditions hold."""
        step = self.pattern.steps[option.step]
        event = self.events[position]
        if not is_of_kind(event, step.kind):
            return False
        path = option.path
        unified = unify(step.unify, event, path.unified)
        if unified is None:
            return False
        if not step.choose:
            return True
        bound = path._replace(
            bound_events=(*path.bound_events, (option.step, position)),
            unified=unified,
            current={**path.current, option.step: position},
        )
        return all(
            any(n not in path.current for n in condition.needs) or self.holds(condition.expr, bound, event)
            for condition in step.choose
        )

    def extend(self, option: Option, position: int) -> Path | None:
        """Return the path extended with the event; None if the step's ``must`` fails."""
        step = self.pattern.steps[option.step]
        event = self.events[position]
        path = option.path
        unified = unify(step.unify, event, path.unified)
        assert unified is not None
        combination = path.combination
        if path.hop is not None and path.hop.contiguity is Contiguity.ANY:
            combination = (*combination, position)
        path = Path(
            todo=path.todo,
            hop=None,
            bound_events=(*path.bound_events, (option.step, position)),
            current={**path.current, option.step: position},
            unified=unified,
            clock=event.time,
            watches=tuple(w for w in path.watches if w.conjunction is not None),
            zones=tuple((z, position if first is None else first) for z, first in path.zones),
            combination=combination,
        )
        return path if all(self.holds(test, path, event) for test in step.must) else None

    def tested(self, step: int, path: Path, position: int) -> bool:
        """Return True if the event passes the step's ``must``."""
        event = self.events[position]
        bound = path._replace(
            bound_events=(*path.bound_events, (step, position)), current={**path.current, step: position}
        )
        return all(self.holds(test, bound, event) for test in self.pattern.steps[step].must)

    def live(self, option: Option, path: Path, position: int, start: int, inner: bool) -> bool:
        """Return True if the option may take any event at this position."""
        extended = option.path
        hop = extended.hop
        assert hop is not None
        moment = self.events[position].time
        if option.next and not self._is_next(path.last, position):
            return False
        if self.strictly_later and not (moment >= extended.clock if extended.together else moment > extended.clock):
            return False
        if extended.barrier is not None and moment <= extended.barrier:
            return False
        if hop.after is not None and moment - extended.clock < hop.after:
            return False
        closing = self.closing(option, start, inner)
        if closing is not None and moment > closing:
            return False
        if any(position - first >= n for n, first in self._count_limits(extended, start, inner)):
            return False
        return not any(
            self.stops(until, extended, p) for until in extended.untils for p in range(path.last + 1, position + 1)
        )

    def _is_next(self, last: int, position: int) -> bool:
        """Return True for the very next event; with ``every_continuation``, for all events of the next time."""
        if not self.every_continuation:
            return position == last + 1
        between = range(last + 1, position)
        return not any(self.events[last].time < self.events[p].time < self.events[position].time for p in between)

    def stops(self, until: int, path: Path, position: int) -> bool:
        return self.fits(Option(until, path), position)

    def closing(self, option: Option, start: int, inner: bool) -> int | None:
        """Return the last time at which the option could take an event; None if unbounded."""
        path = option.path
        ends = []
        if not inner and isinstance(self.pattern.within, ast.TimeWindow):
            ends.append(self.window_end(start))
        for zone, first in path.zones:
            if first is not None and isinstance(zone.within, ast.TimeWindow):
                ends.append(self.events[first].time + _fixed(zone.within.duration))
        if path.hop is not None and path.hop.within is not None:
            ends.append(path.clock + path.hop.within)
        return min(ends) if ends else None

    def _count_limits(self, path: Path, start: int, inner: bool) -> Iterator[tuple[int, int]]:
        if not inner and isinstance(self.pattern.within, ast.CountWindow):
            yield self.pattern.within.events, start
        for zone, first in path.zones:
            if first is not None and isinstance(zone.within, ast.CountWindow):
                yield zone.within.events, first

    def window_end(self, start: int) -> int:
        within = self.pattern.within
        if isinstance(within, ast.TimeWindow):
            return self.events[start].time + _fixed(within.duration)
        return END_OF_TIME

    def _may_match_later(self, option: Option, path: Path, start: int) -> bool:
        """Return True if this option could take an event after the horizon."""
        if self.horizon is None:
            return False
        count = len(self.events)
        if option.next and path.last + 1 < count:
            return False
        closing = self.closing(option, start, False)
        if closing is not None and closing <= self.horizon:
            return False
        if any(count - first >= n for n, first in self._count_limits(option.path, start, False)):
            return False
        return not any(
            self.stops(until, option.path, p) for until in option.path.untils for p in range(path.last + 1, count)
        )

    def _timeout_of(self, option: Option, path: Path, start: int) -> int | None:
        """Return the time at which the option's window closed without a match; None if it ended in another way."""
        closing = self.closing(option, start, False)
        limits = list(self._count_limits(option.path, start, False))
        inside = [
            p
            for p in range(path.last + 1, len(self.events))
            if (closing is None or self.events[p].time <= closing) and all(p - first < n for n, first in limits)
        ]
        if option.next and inside:
            return None
        if any(self.stops(until, option.path, p) for until in option.path.untils for p in inside):
            return None
        ends = [self.events[first + n - 1].time for n, first in limits if first + n <= len(self.events)]
        if closing is not None and (self.horizon is None or closing <= self.horizon):
            ends.append(closing)
        return min(ends, default=None)

    # absence

    def violated(self, option: Option, position: int, start: int, inner: bool) -> bool:
        """Return True if this event completes something that must not occur before the option's event."""
        moment = self.events[position].time
        closing = self.closing(option, start, inner)
        if closing is not None and moment > closing:
            return False  # The option has already timed out.
        if any(position - first >= n for n, first in self._count_limits(option.path, start, inner)):
            return False
        return any(
            self.occurs(w.body, option.path, w.position + 1, position + 1, w.since)
            for w in option.path.watches
            if w.until is None or moment <= w.until
        )

    def occurs(self, body: c.Core, outer: Path, low: int, high: int, since: int | None = None) -> bool:
        """Return True if the body matches some events from ``low`` to before ``high``."""
        bound_positions = {p for _, p in outer.bound_events}
        for start in range(low, high):
            if start in bound_positions or (since is not None and self.events[start].time <= since):
                continue
            seed = Path((body, None), current=outer.current, unified=outer.unified, bound_events=outer.bound_events)
            for option in self.options(seed._replace(hop=c.Hop(Contiguity.SKIP))):
                if isinstance(option, Accept) or not self.fits(option, start):
                    continue
                path = self.extend(option, start)
                if path is not None and any(isinstance(o, Found) for o in self.explore(path, start, high, inner=True)):
                    return True
        return False

    # expressions

    def holds(self, expr: Expr, path: Path, event: Event | None = None) -> bool:
        return holds(expr, MatchScope(self.names, self.bindings(path), event, self.relations))

    def bindings(self, path: Path) -> Bindings:
        events: dict[str, list[Event]] = {}
        for step, position in path.bound_events:
            name = self.pattern.steps[step].name
            if name is not None:
                events.setdefault(name, []).append(self.events[position])
        current = {}
        for step, position in path.current.items():
            name = self.pattern.steps[step].name
            if name is not None:
                current[name] = self.events[position]
        return Bindings(events, current, path.unified)


def _fixed(duration: ast.Duration) -> int:
    assert isinstance(duration, int), "parameters are bound before a pattern is matched"
    return duration


def oracle_matcher() -> Matcher:
    """Return the specification as a matcher."""

    def run(
        pattern: c.CorePattern,
        events: Sequence[Event],
        *,
        horizon: int | None,
        strictly_later: bool,
        relations: Mapping[str, Relation],
    ) -> Partition:
        judged = judge(pattern, events, horizon=horizon, strictly_later=strictly_later, relations=relations)
        raw = [RawMatch(f.path.bound_events, f.end, f.kind, f.path.unified) for f in judged.found]
        return Partition(raw, judged.frontier)

    return run
