"""Instrumented interpreter over one partition, which records why each option ends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property

from perseid.compile import program as p
from perseid.compile.plan import PatternPlan, Plan
from perseid.lang import ast
from perseid.lang.printer import print_duration, print_window
from perseid.lang.tree_types import describe_type
from perseid.reference import threads as th
from perseid.reference.interpreter import Machine
from perseid.semantics import values as v
from perseid.semantics.contexts import END_OF_TIME
from perseid.semantics.detection import RawMatch
from perseid.semantics.events import Event, is_of_kind
from perseid.semantics.scope import MatchScope
from perseid.semantics.values import clock
from perseid.viz.attempts import Cause, Ending, Refusal
from perseid.viz.untrue import Vocabulary, describe_untrue
from perseid.viz.words import span

MAX_WORK = 100_000
"""Limit of work units in total, each about one event offered to an option; takes some seconds."""
MAX_WORK_OF_ONE = MAX_WORK // 10
_KEPT_ENDINGS = 64


class OutOfWorkError(Exception):
    """The work limit is exceeded."""


class TracingInterpreter(Machine):
    """The interpreter over all events of a partition, run start by start, with a record of endings."""

    def __init__(
        self,
        plan: Plan,
        pattern: PatternPlan,
        strictly_later: bool,
        relations: Mapping[str, v.Relation],
        events: list[Event],
        columns: Set[str],
    ) -> None:
        super().__init__(plan, pattern, strictly_later, relations)
        self.last_time = events[-1].time
        if plan.event_types is not None and pattern.facts.droppable:
            # As in every engine: events that no step takes are dropped, so they never break strict contiguity.
            events = [event for event in events if event.type in plan.event_types]
        self.events = events
        self.times = [event.time for event in events]
        self.places: dict[str | None, list[int]] = {}
        for position, event in enumerate(events):
            self.places.setdefault(event.type, []).append(position)
        self.watched = [
            {i.step for i in program.instructions if isinstance(i, p.TakeEvent)}
            | {i.until for i in program.instructions if isinstance(i, p.LoopTurn) and i.until is not None}
            for program in pattern.programs
        ]
        self.vocabulary = Vocabulary(self.names, self.pattern.unified, columns)
        self.known: dict[tuple[int, int], bool] = {}
        self.work = self.limit = 0
        self.listening = False
        self.refused: list[Refusal] = []
        """Reasons why a thread could not leave or be accepted; recorded while ``listening``."""
        self.fresh()

    def fresh(self) -> None:
        """Clear the records, and grant the work limit of one run."""
        self.out = []
        self.endings: list[Ending] = []
        self.furthest = (-1, -1)
        self.bound_steps: set[int] = set()
        self.inside = 0
        """Above zero during the search for a negated part: endings there end no run."""
        self.more_work()

    def more_work(self) -> None:
        self.limit = self.work + MAX_WORK_OF_ONE

    def spend(self) -> None:
        self.work += 1
        if self.work > self.limit:
            raise OutOfWorkError

    # positions

    @cached_property
    def openings(self) -> list[th.Wait]:
        """The options at the start of a run."""
        seed = th.Thread(0, 0, (th.CLEAR,) * self.plan.programs[0].registers)
        return [option for option in self.options(seed) if isinstance(option, th.Wait)]

    def is_candidate(self, position: int) -> bool:
        return any(is_of_kind(self.events[position], self.pattern.steps[o.step].kind) for o in self.openings)

    def begins(self, position: int) -> bool:
        return any(True for _ in self.begin(position))

    def of_kind(self, step: int, low: int, high: int) -> list[int]:
        """Return the positions of events of a step's kind, from ``low`` to before ``high``."""
        kind = self.pattern.steps[step].kind
        if not isinstance(kind, ast.EventType):
            return list(range(low, high))
        places = self.places.get(kind.name, [])
        return places[bisect_left(places, low) : bisect_left(places, high)]

    def resumes_at(self, match: RawMatch, start: int) -> int:
        """Return the position of the next possible start, by ``after match skip``."""
        return self._resume(match, start)

    def scope_at(self, wait: th.Wait, position: int, unified: Mapping[str, object]) -> MatchScope:
        """Return the scope of conditions when the option takes this event."""
        return self.scope(self._bound(wait.path, wait.step, position, unified), self.events[position])

    def event_text(self, position: int) -> str:
        event = self.events[position]
        return f"{describe_type(event.type)} at {clock(event.time)}"

    # one start

    def follow(self, start: int) -> bool:
        """Trace one run from its first event to its end; return False if it does not begin."""
        threads = list(self.begin(start))
        if not threads:
            return False
        items = [i for thread in threads for i in self._expand(thread, start, False)]
        attempt = th.SearchRun(start, self._count_out(items, start + 1))
        position = start
        while not self._decide(attempt):
            position = self._next_of_interest(attempt.items, position)
            if position == len(self.events):
                self._close_down(attempt)
                break
            attempt.items = self._on_event(attempt.items, position, start, False)
        return True

    def _next_of_interest(self, items: Sequence[th.ListItem], position: int) -> int:
        """Return the next event that can change an item: of a kind an option or absence takes, or past a bound."""
        following = position + 1
        bound = len(self.events)
        kinds: set[str] = set()
        for item in items:
            if isinstance(item, (th.Complete, th.TimedOutOption)):
                continue
            if isinstance(item, th.PendingBranch):
                if item.wait.next:
                    return following
                path = item.wait.path
                moments = [m for m in (item.closing, item.broken) if m is not None]
                bound = min([bound, *(first + n - 1 for n, first in item.limits)])
                steps = {item.wait.step, *path.untils}
            else:
                path, moments, steps = item.thread, [item.end], set()
            for watch in path.watches:
                steps |= self.watched[watch.program]
            for step in steps:
                kind = self.pattern.steps[step].kind
                if not isinstance(kind, ast.EventType):
                    return following
                kinds.add(kind.name)
            if moments:
                bound = min(bound, bisect_right(self.times, min(moments)))
        for name in kinds:
            places = self.places.get(name, [])
            at = bisect_right(places, position)
            if at < len(places):
                bound = min(bound, places[at])
        return max(bound, following)

    def _close_down(self, attempt: th.SearchRun) -> None:
        for item in attempt.items:
            if isinstance(item, th.PendingBranch) and item.broken is None:
                self._end(item.thread, item.wait, "end", closing=item.closing)
        self.inside += 1  # the endings of open items are already recorded
        items = self._on_time(attempt.items, END_OF_TIME)
        self.inside -= 1
        attempt.items = [i for i in items if not isinstance(i, (th.PendingBranch, th.Pending))]
        self._decide(attempt)

    # recorded endings

    def fits(self, option: th.Wait, position: int) -> bool:
        self.spend()
        return super().fits(option, position)

    def check(self, predicate: int, thread: th.Thread, event: Event | None = None) -> bool:
        if event is not None and self.local[predicate]:
            key = (predicate, id(event))
            if key not in self.known:
                self.known[key] = super().check(predicate, thread, event)
            return self.known[key]
        is_true = super().check(predicate, thread, event)
        if self.listening and event is None and not is_true:
            scope = self.scope(thread, None)
            self.refused.append(describe_untrue(self.predicates[predicate], scope, self.vocabulary, "", 0))
        return is_true

    def occurs(self, program: int, outer: th.Thread, low: int, high: int, since: int | None = None) -> bool:
        self.inside += 1
        found = super().occurs(program, outer, low, high, since)
        self.inside -= 1
        return found

    def extend(self, option: th.Wait, position: int) -> th.Thread | None:
        after = super().extend(option, position)
        if after is None and not self.inside:
            self._end(option.path, option, "must", position)
        return after

    def _expand(self, thread: th.Thread, start: int, inner: bool) -> list[th.ListItem]:
        items = super()._expand(thread, start, inner)
        if not self.inside:
            self.bound_steps.update(step for step, _ in thread.bound_events)
            if not items:
                self._end(thread, None, "refused")
        return items

    def _on_event(self, items: list[th.ListItem], position: int, start: int, inner: bool) -> list[th.ListItem]:
        self.spend()
        return super()._on_event(items, position, start, inner)

    def _on_time(self, items: list[th.ListItem], now: int) -> list[th.ListItem]:
        if not self.inside:
            for item in items:
                if not isinstance(item, th.PendingBranch) or item.broken is not None:
                    continue
                if item.closing is not None and item.closing < now:
                    self._end(item.thread, item.wait, "window", closing=item.closing)
        return super()._on_time(items, now)

    def _count_out(self, items: list[th.ListItem], count: int) -> list[th.ListItem]:
        if not self.inside:
            for item in items:
                if isinstance(item, th.PendingBranch) and any(count - first >= n for n, first in item.limits):
                    self._end(item.thread, item.wait, "count", count - 1)
        return super()._count_out(items, count)

    def _may_take(self, item: th.PendingBranch, position: int) -> bool:
        may = super()._may_take(item, position)
        if not may and item.wait.next and not self.inside:
            self._end(item.thread, item.wait, "strict", position)
        return may

    def _unbroken(self, item: th.PendingBranch, position: int, start: int, inner: bool) -> Iterator[th.PendingBranch]:
        left = list(super()._unbroken(item, position, start, inner))
        if not self.inside and item.broken is None and (not left or left[0].broken is not None):
            self._end_by_absence(item.thread, item.wait, item.wait.path, position)
        return iter(left)

    def _breaks(self, path: th.Thread, start: int, position: int) -> bool:
        broken = super()._breaks(path, start, position)
        if broken and not self.inside:
            self._end_by_absence(path, None, path, position)
        return broken

    def _stopped(self, wait: th.Wait, position: int) -> bool:
        stopped = super()._stopped(wait, position)
        if stopped and not self.inside:
            self._end(wait.path, wait, "until", position)
        return stopped

    def violated(self, option: th.Wait, position: int, start: int, inner: bool) -> bool:
        return bool(option.path.watches) and super().violated(option, position, start, inner)

    def _end(
        self,
        thread: th.Thread,
        wait: th.Wait | None,
        cause: Cause,
        position: int | None = None,
        closing: int | None = None,
        watch: int | None = None,
    ) -> None:
        """Record an ending; endings with less progress than the furthest are dropped."""
        progress = (len({step for step, _ in thread.bound_events}), len(thread.bound_events))
        if progress > self.furthest:
            self.furthest, self.endings = progress, []
        if progress == self.furthest and len(self.endings) < _KEPT_ENDINGS:
            self.endings.append(Ending(thread, wait, cause, position, closing, watch))

    def _end_by_absence(self, thread: th.Thread, wait: th.Wait | None, path: th.Thread, position: int) -> None:
        occurred = (
            w.program
            for w in path.watches
            if self.occurs(w.program, path, self._from(w, position), position + 1, w.since)
        )
        self._end(thread, wait, "absence", position, watch=next(occurred, None))

    def end_in_context(self, path: th.Thread, position: int) -> None:
        """Record the reasons why the event at this position ended a partial match of a context."""
        start = path.bound_events[0][1]
        self.bound_steps.update(step for step, _ in path.bound_events)
        over = position >= len(self.events)
        for option in self.options(path):
            if isinstance(option, th.AcceptedThread):
                passed = range(path.last + 1, min(position + 1, len(self.events)))
                for at in passed:
                    if self._breaks(option.path, start, at):
                        break
                continue
            closing = self.closing(option, start, False)
            if over:
                self._end(path, option, "end", closing=closing)
                continue
            if closing is not None and closing < self.events[position].time:
                self._end(path, option, "window", closing=closing)
                continue
            passed = range(path.last + 1, position + 1)
            stopped = next((at for at in passed if self._stopped(option, at)), None)
            broken = next((at for at in passed if self.violated(option, at, start, False)), None)
            if broken is not None:
                self._end_by_absence(path, option, option.path, broken)
            elif stopped is None and self.fits(option, position):
                self.extend(option, position)
                self._end(path, option, "replaced", position)
            elif stopped is None:
                replaced = self.pattern.context is ast.Selection.RECENT
                self._end(path, option, "replaced" if replaced else "unused", position)
        if not self.endings:
            self._end(path, None, "refused")

    # rejected completions

    def refused_at(self, thread: th.Thread, start: int) -> list[Refusal]:
        """Return the reasons why the thread could not leave a repetition or be accepted."""
        self.refused, self.listening = [], True
        for option in self.options(thread):
            if isinstance(option, th.AcceptedThread):
                self.accepted_end(option.path, start)
        self.listening = False
        return self.refused

    def accepted_end(self, path: th.Thread, start: int) -> int | None:
        end = super().accepted_end(path, start)
        if self.listening and end is None:
            last = max([path.clock, *(w.until for w in path.watches if w.until is not None)])
            length, least = last - self.events[start].time, self.pattern.holds_for
            if least is not None and length < least:
                self.refused.append(_too_short("the match", length, least))
            closing = self.window_end(start)
            if last > closing:
                text = f"the 'not' at its end would end {span(last - closing)} after the window closes"
                self.refused.append(Refusal(text, text + ".", 0))
        return end

    def _close(self, thread: th.Thread) -> th.Thread | None:
        closed = super()._close(thread)
        zone = thread.zones[-1]
        if self.listening and closed is None and zone.first is not None:
            length = thread.clock - self.events[zone.first].time
            if zone.holds_for is not None and length < zone.holds_for:
                self.refused.append(_too_short("the group", length, zone.holds_for))
            elif zone.within is not None:
                why = f"the group took longer than {print_window(zone.within)}"
                self.refused.append(Refusal(why, f"{why}: {span(length)}.", 0))
        return closed


def _too_short(subject: str, length: int, least: int) -> Refusal:
    why = f"{subject} held for less than {print_duration(least)}"
    return Refusal(why, f"{subject} held for {span(length)}; the minimum is {print_duration(least)}.", 0)
