"""Attempts followed one by one: the interpreter's walk, with an ear at every place where an option ends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from perseid.compile import program as p
from perseid.compile import threads as th
from perseid.compile.interpreter import Machine
from perseid.compile.plan import PatternPlan, Plan
from perseid.errors import nearest
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_duration, print_expr, print_kind, print_window
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.contexts import END_OF_TIME, Simulation
from perseid.semantics.detection import RawMatch
from perseid.semantics.evaluate import evaluate, truth
from perseid.semantics.events import Event
from perseid.semantics.oracle import of_kind
from perseid.semantics.scope import MatchScope, attribute, unify
from perseid.semantics.values import clock
from perseid.viz.words import shown, span

MAX_WORK = 100_000
"""How many times an event is offered to an option, in all; some seconds."""
MAX_WORK_OF_ONE = MAX_WORK // 10
MAX_SCAN = 50
"""How many events of a step's kind are looked at for the one that came nearest, too late or too early."""
_KEPT_ENDINGS = 64

Reason = Literal[
    "matched", "condition", "must", "absence", "window", "count", "strict order", "until", "at the end",
    "no event", "too early", "skipped", "used", "replaced", "not followed",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start, how far it came and why no further."""

    key: Mapping[str, Any]
    start: Event
    bound: tuple[tuple[str, Event], ...]
    """The steps it found events for, by their names, in order."""
    waited_for: str | None
    """The step it waited for in vain; None where it matched, or where the end refused it."""
    reason: Reason
    why: str
    """The reason in a few words, the same for attempts that ended alike."""
    details: tuple[str, ...]
    """What happened, with the events and values it happened to."""
    steps: int
    """How many different steps it bound."""

    @property
    def matched(self) -> bool:
        return self.reason == "matched"


def step_name(step: c.CoreStep) -> str:
    return step.name or f"step {step.id + 1}"


def step_label(step: c.CoreStep) -> str:
    return f"{step_name(step)}: {print_kind(step.kind)}"


class _OutOfWorkError(Exception):
    """More questions were asked than are allowed."""


Cause = Literal["must", "window", "count", "strict", "until", "absence", "end", "refused", "unused", "replaced"]


@dataclass(frozen=True, slots=True)
class _Ending:
    """Where a thread, or one of its options, came to its end."""

    thread: th.Thread
    wait: th.Wait | None
    cause: Cause
    position: int | None = None
    closing: int | None = None
    watch: int | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why an event was not taken: in short, and with the values that were seen."""

    why: str
    details: str
    passed: int
    """How many conditions held, to find the candidate that came nearest."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    reason: Reason
    why: str
    details: tuple[str, ...] = ()


class Walk(Machine):
    """The interpreter over one partition, with all events at hand, start by start, hearing what ends."""

    def __init__(
        self,
        plan: Plan,
        pattern: PatternPlan,
        strictly_later: bool,
        relations: Mapping[str, v.Relation],
        events: list[Event],
        columns: Mapping[str | None, set[str]],
    ) -> None:
        super().__init__(plan, pattern, strictly_later, relations)
        self.last_time = events[-1].time
        if plan.event_types is not None and pattern.facts.droppable:
            # As in every engine: what no step wants is not even in between.
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
        self.columns = columns
        self.local = [predicate.event_local for predicate in plan.predicates]
        self.known: dict[tuple[int, int], bool] = {}
        self.work = self.left = 0
        self.allowed = MAX_WORK
        self.limit = 0
        self.inside = 0
        """Above zero while something negated is looked for: what ends there ends no attempt."""
        self.listening = False
        self.refused: list[_Refusal] = []
        """What kept a thread from leaving or being accepted, while somebody listens."""
        self.endings: list[_Ending] = []
        self.furthest = (-1, -1)
        self.bound_steps: set[int] = set()
        self.heard: list[Attempt] = []
        self.reached: Counter[int] = Counter()
        self.key: Mapping[str, Any] = {}

    # starts

    def run(self, key: Mapping[str, Any]) -> list[RawMatch]:
        """Follow the starts of the partition; what matched comes back."""
        self.key = key
        if self.simulation is not None:
            return self._run_context(self.simulation)
        heard: list[RawMatch] = []
        candidates = [at for at in range(len(self.events)) if self._is_candidate(at)]
        dependent = self.pattern.skip.mode not in ("none", "to next")
        if not dependent:
            # Should the work not suffice for all, those that are followed come from everywhere.
            candidates = [candidates[i] for i in sorted(range(len(candidates)), key=_spread)]
        resume, covering = 0, None
        for number, start in enumerate(candidates):
            if self.work >= self.allowed:
                self.left = len(candidates) - number
                break
            if start < resume and covering is not None:
                self._skipped(start, covering)
                continue
            found = self._follow_start(start)
            heard += found
            match = next((m for m in found if m.kind == "match"), None)
            if dependent and match is not None:
                resume, covering = self._resume(match, start), match
        return heard

    def _is_candidate(self, position: int) -> bool:
        return any(of_kind(self.pattern.steps[s].kind, self.events[position]) for s in self._first_steps())

    def _first_steps(self) -> list[int]:
        return [option.step for option in self._openings()]

    def _openings(self) -> list[th.Wait]:
        seed = th.Thread(0, 0, (th.CLEAR,) * self.plan.programs[0].registers)
        return [option for option in self.options(seed) if isinstance(option, th.Wait)]

    def _fresh(self) -> None:
        self.out = []
        self.endings, self.furthest, self.bound_steps = [], (-1, -1), set()
        self.limit = self.work + MAX_WORK_OF_ONE

    def _follow_start(self, start: int) -> list[RawMatch]:
        """One attempt from its first event to its end."""
        self._fresh()
        try:
            attempt = th.Attempt(start, [])
            threads = list(self.begin(start))
            if not threads:
                self._never_began(start)
                return []
            items = [i for thread in threads for i in self._expand(thread, start, False)]
            attempt.items = self._count_out(items, start + 1)
            position = start
            while not self._decide(attempt):
                position = self._next_of_interest(attempt.items, position)
                if position == len(self.events):
                    self._close_down(attempt)
                    break
                attempt.items = self._on_event(attempt.items, position, start, False)
        except _OutOfWorkError:
            self.inside = 0
            if not any(m.kind == "match" for m in self.out):
                self.left += 1
                text = "its ways were too many to follow them all"
                self._note(start, (), None, _Verdict("not followed", text))
                return self.out
        if any(m.kind == "match" for m in self.out):
            self._note(start, self.out[0].taken, None, _Verdict("matched", "matched"))
        else:
            self._report(start)
        return self.out

    def _next_of_interest(self, items: Sequence[th.ListItem], position: int) -> int:
        """The next event that can change anything: of a kind some option or absence asks for, or behind a bound."""
        following = position + 1
        bound = len(self.events)
        kinds: set[str] = set()
        for item in items:
            if isinstance(item, (th.Complete, th.GivenUp)):
                continue
            path, moments = item.thread, []
            if isinstance(item, th.Waiting):
                path = item.wait.path
                if item.wait.next:
                    return following
                moments = [m for m in (item.closing, item.broken) if m is not None]
                bound = min([bound, *(first + n - 1 for n, first in item.limits)])
                asked = {item.wait.step, *path.untils}
            else:
                moments, asked = [item.end], set()
            for watch in path.watches:
                asked |= self.watched[watch.program]
            for step in asked:
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

    def _close_down(self, attempt: th.Attempt) -> None:
        for item in attempt.items:
            if isinstance(item, th.Waiting) and item.broken is None:
                self._end(item.thread, item.wait, "end", closing=item.closing)
        self.inside += 1  # what is still open has been heard
        items = self._on_time(attempt.items, END_OF_TIME)
        self.inside -= 1
        attempt.items = [i for i in items if not isinstance(i, (th.Waiting, th.Pending))]
        self._decide(attempt)

    def _never_began(self, start: int) -> None:
        """The event is of the kind, and was refused: by a condition, by ``must``, or by what came before it."""
        self.limit = self.work + MAX_WORK_OF_ONE
        best: tuple[th.Wait, _Refusal, Reason] | None = None
        for option in self._openings():
            if not of_kind(self.pattern.steps[option.step].kind, self.events[start]):
                continue
            reason: Reason = "condition"
            refusal = self._refusal(option, start)
            if refusal is None:
                reason, refusal = "must", self._must(option, start)
            if refusal is None:
                reason, refusal = "absence", self._led_by(start)
            if best is None or refusal.passed > best[1].passed:
                best = option, refusal, reason
        assert best is not None
        option, refusal, reason = best
        self._note(start, (), option.step, _Verdict(reason, refusal.why, (refusal.details,)))

    def _led_by(self, start: int) -> _Refusal:
        whats = [f"not {self._negated(program)} for {print_duration(d)}" for program, d in self.plan.leads]
        text = " and ".join(whats)
        return _Refusal(f"{text} before it was broken", f"{self._event(start)}: {text} was broken before it.", 9)

    def _skipped(self, start: int, covering: RawMatch) -> None:
        self._fresh()
        try:
            if not any(True for _ in self.begin(start)):
                self._never_began(start)
                return
        except _OutOfWorkError:
            self.inside = 0
        first, last = covering.taken[0][1], covering.taken[-1][1]
        span = f"{clock(self.events[first].time)} to {clock(self.events[last].time)}"
        mode = self.pattern.skip.mode + (f" {self.pattern.skip.step}" if self.pattern.skip.step else "")
        details = (f"after match skip {mode}: the match from {span} covers this start.",)
        step = self._first_steps()[0]
        self._note(start, (), step, _Verdict("skipped", f"an earlier match covers it (skip {mode})", details))

    def _note(self, start: int, taken: Sequence[tuple[int, int]], step: int | None, verdict: _Verdict) -> None:
        bound = tuple((step_name(self.pattern.steps[s]), self.events[at]) for s, at in taken)
        steps = {s for s, _ in taken}
        self.reached.update(self.bound_steps | steps)
        waited = None if step is None else step_label(self.pattern.steps[step])
        self.heard.append(
            Attempt(
                self.key, self.events[start], bound, waited, verdict.reason, verdict.why, verdict.details, len(steps)
            )
        )

    # what is heard on the way

    def fits(self, option: th.Wait, position: int) -> bool:
        self._count()
        return super().fits(option, position)

    def _count(self) -> None:
        self.work += 1
        if self.work > self.limit:
            raise _OutOfWorkError

    def check(self, predicate: int, thread: th.Thread, own: Event | None = None) -> bool:
        if own is not None and self.local[predicate]:
            key = (predicate, id(own))
            if key not in self.known:
                self.known[key] = super().check(predicate, thread, own)
            return self.known[key]
        held = super().check(predicate, thread, own)
        if self.listening and own is None and not held:
            self.refused.append(self._of_condition(self.predicates[predicate], self.scope(thread, None), "", 0))
        return held

    def occurs(self, program: int, outer: th.Thread, low: int, high: int, since: int | None = None) -> bool:
        self.inside += 1
        found = super().occurs(program, outer, low, high, since)
        self.inside -= 1
        return found

    def take(self, option: th.Wait, position: int) -> th.Thread | None:
        taken = super().take(option, position)
        if taken is None and not self.inside:
            self._end(option.path, option, "must", position)
        return taken

    def _expand(self, thread: th.Thread, start: int, inner: bool) -> list[th.ListItem]:
        items = super()._expand(thread, start, inner)
        if not self.inside:
            self.bound_steps.update(step for step, _ in thread.taken)
            if not items:
                self._end(thread, None, "refused")
        return items

    def _on_event(self, items: list[th.ListItem], position: int, start: int, inner: bool) -> list[th.ListItem]:
        self._count()
        return super()._on_event(items, position, start, inner)

    def _on_time(self, items: list[th.ListItem], now: int) -> list[th.ListItem]:
        if not self.inside:
            for item in items:
                if not isinstance(item, th.Waiting) or item.broken is not None:
                    continue
                if item.closing is not None and item.closing < now:
                    self._end(item.thread, item.wait, "window", closing=item.closing)
        return super()._on_time(items, now)

    def _count_out(self, items: list[th.ListItem], count: int) -> list[th.ListItem]:
        if not self.inside:
            for item in items:
                if isinstance(item, th.Waiting) and any(count - first >= n for n, first in item.limits):
                    self._end(item.thread, item.wait, "count", count - 1)
        return super()._count_out(items, count)

    def _may_take(self, item: th.Waiting, position: int) -> bool:
        may = super()._may_take(item, position)
        if not may and item.wait.next and not self.inside:
            self._end(item.thread, item.wait, "strict", position)
        return may

    def _unbroken(self, item: th.Waiting, position: int, start: int, inner: bool) -> Iterator[th.Waiting]:
        left = list(super()._unbroken(item, position, start, inner))
        if not self.inside and item.broken is None and (not left or left[0].broken is not None):
            self._end(item.thread, item.wait, "absence", position, watch=self._broken_watch(item.wait.path, position))
        return iter(left)

    def _breaks(self, path: th.Thread, start: int, position: int) -> bool:
        broken = super()._breaks(path, start, position)
        if broken and not self.inside:
            self._end(path, None, "absence", position, watch=self._broken_watch(path, position))
        return broken

    def _stopped(self, wait: th.Wait, position: int) -> bool:
        stopped = super()._stopped(wait, position)
        if stopped and not self.inside:
            self._end(wait.path, wait, "until", position)
        return stopped

    def violated(self, option: th.Wait, position: int, start: int, inner: bool) -> bool:
        return bool(option.path.watches) and super().violated(option, position, start, inner)

    def accepted_end(self, path: th.Thread, start: int) -> int | None:
        end = super().accepted_end(path, start)
        if self.listening and end is None:
            ends = [path.clock, *(w.until for w in path.watches if w.until is not None)]
            length, least = max(ends) - self.events[start].time, self.pattern.holds_for
            if least is not None and length < least:
                self.refused.append(_too_short("it", length, least))
            closing = self.window_end(start)
            if max(ends) > closing:
                late = span(max(ends) - closing)
                text = f"the absence at its end would be over {late} after the window closes"
                self.refused.append(_Refusal(text, text + ".", 0))
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
                self.refused.append(_Refusal(why, f"{why}: {span(length)}.", 0))
        return closed

    def _end(
        self,
        thread: th.Thread,
        wait: th.Wait | None,
        cause: Cause,
        position: int | None = None,
        closing: int | None = None,
        watch: int | None = None,
    ) -> None:
        """An ending counts where nothing came further."""
        progress = (len({step for step, _ in thread.taken}), len(thread.taken))
        if progress > self.furthest:
            self.furthest, self.endings = progress, []
        if progress == self.furthest and len(self.endings) < _KEPT_ENDINGS:
            self.endings.append(_Ending(thread, wait, cause, position, closing, watch))

    def _broken_watch(self, path: th.Thread, position: int) -> int | None:
        for w in path.watches:
            if self.occurs(w.program, path, self._from(w, position), position + 1, w.since):
                return w.program
        return None

    # contexts

    def _run_context(self, simulation: Simulation) -> list[RawMatch]:
        """All partial matches together: under a context they decide among themselves who uses an event."""
        ended: dict[int, tuple[th.Thread, int]] = {}
        began: dict[int, th.Thread] = {}
        refusals: list[tuple[int, str]] = []
        seen = len(self.events)
        for position in range(len(self.events)):
            self._fresh()
            before = list(simulation.partials)
            try:
                if self.work >= self.allowed:
                    raise _OutOfWorkError
                opens = self._is_candidate(position) and any(True for _ in self.begin(position))
                simulation.offer(position)
            except _OutOfWorkError:
                self.inside, seen = 0, position
                self.left = sum(self._is_candidate(at) for at in range(position, len(self.events)))
                break
            there = {path.taken[0][1] for path in simulation.partials}
            for path in simulation.partials:
                began[path.taken[0][1]] = path
            for path in before:
                if path.taken[0][1] not in there:
                    ended.setdefault(path.taken[0][1], (path, position))
            started = position in there or any(f.path.taken[0][1] == position for f in simulation.found)
            if not started and self._is_candidate(position):
                refusals.append((position, "used" if opens else "refused"))
        if seen == len(self.events):
            self.limit = self.work + MAX_WORK_OF_ONE
            simulation.settle(seen, END_OF_TIME)
        heard = [RawMatch(f.path.taken, f.end, f.kind, f.path.unified) for f in simulation.found]
        matched = {m.taken[0][1]: m for m in heard if m.kind == "match"}
        for start, match in matched.items():
            self._fresh()
            self._note(start, match.taken, None, _Verdict("matched", "matched"))
        for start, path in began.items():
            if start not in matched:
                self._fresh()
                last, position = ended.get(start, (path, seen))
                self._end_in_context(last, position)
                self._report(start)
        for position, how in refusals:
            self._fresh()
            if how == "refused":
                self._never_began(position)
                continue
            assert self.pattern.context is not None
            text = f"{self.pattern.context.value} context: an older partial match used it, or keeps new ones out"
            self._note(position, (), self._first_steps()[0], _Verdict("used", text))
        return heard

    def _end_in_context(self, path: th.Thread, position: int) -> None:
        """Find out what ended a partial match with the event at this position."""
        start = path.taken[0][1]
        self.bound_steps.update(step for step, _ in path.taken)
        over = position >= len(self.events)
        for option in self.options(path):
            if isinstance(option, th.Done):
                for at in range(path.last + 1, min(position + 1, len(self.events))):
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
                watch = self._broken_watch(option.path, broken)
                self._end(path, option, "absence", broken, watch=watch)
            elif stopped is None and self.fits(option, position):
                self.take(option, position)
                self._end(path, option, "replaced", position)
            elif stopped is None:
                replaced = self.pattern.context is ast.Selection.RECENT
                self._end(path, option, "replaced" if replaced else "unused", position)
        if not self.endings:
            self._end(path, None, "refused")

    # explaining

    def _report(self, start: int) -> None:
        """The attempt by the ending that says most."""
        self.limit = self.work + MAX_WORK_OF_ONE
        if not self.endings:
            self._note(start, (), None, _Verdict("at the end", "no way led on"))
            return
        ending = max(self.endings, key=self._weight)
        try:
            step, verdict = self._verdict(ending, start)
        except _OutOfWorkError:
            self.inside = 0
            step, verdict = None, _Verdict("not followed", "its end was too long to look into")
        self._note(start, ending.thread.taken, step, verdict)

    @staticmethod
    def _weight(ending: _Ending) -> tuple[int, ...]:
        """An option for a step that has no event yet says more than one for another round."""
        if ending.wait is None:
            return (1, 0, 0)
        bound = {step for step, _ in ending.thread.taken}
        return (int(ending.wait.step not in bound), int(ending.cause not in ("until", "end")), ending.wait.step)

    def _verdict(self, ending: _Ending, start: int) -> tuple[int | None, _Verdict]:
        wait, at = ending.wait, ending.position
        step = None if wait is None else wait.step
        left_refused = self._refused_at(ending.thread, start)
        if left_refused and (wait is None or ending.cause in ("window", "end", "count", "until", "unused")):
            refusal = left_refused[0]
            details = [refusal.details]
            if wait is not None:
                details.append(
                    f"It went on waiting for {step_label(self.pattern.steps[wait.step])}: {self._close_text(ending)}."
                )
            return None, _Verdict("at the end", refusal.why, tuple(details))
        if ending.cause == "absence":
            assert at is not None
            what = "" if ending.watch is None else self._negated(ending.watch)
            when = self._event(at)
            return step, _Verdict("absence", f"not {what}: one came", (f"{when} came, which not {what} rules out.",))
        if wait is None or ending.cause == "refused":
            return None, _Verdict("at the end", "no way led on")
        kind = print_kind(self.pattern.steps[wait.step].kind)
        if ending.cause == "must":
            assert at is not None
            refusal = self._must(wait, at) or _Refusal("must refused it", "", 0)
            return step, _Verdict("must", refusal.why, (refusal.details,))
        if ending.cause == "strict":
            assert at is not None
            return step, self._strict(wait, ending.thread, at, kind)
        if ending.cause == "until":
            assert at is not None
            kinds = ", ".join(print_kind(self.pattern.steps[u].kind) for u in wait.path.untils)
            return step, _Verdict(
                "until", f"until {kinds}: it came", (f"{self._event(at)} came, and until {kinds} ends the repetition.",)
            )
        if ending.cause in ("unused", "replaced"):
            assert at is not None
            assert self.pattern.context is not None
            word = self.pattern.context.value
            if ending.cause == "replaced":
                why = f"{word} context: a newer partial match took its place"
                return step, _Verdict("replaced", why, (f"{self._event(at)} made the newer one.",))
            why = f"{word} context: an event it could not use ended it"
            unfit = self._refusal(wait, at)
            text = f"{self._event(at)} could not be used" + (f": {unfit.details}" if unfit else ".")
            return step, _Verdict("strict order", why, (text,))
        return step, self._in_vain(ending, wait, start, kind)

    def _refused_at(self, thread: th.Thread, start: int) -> list[_Refusal]:
        """What kept the thread from leaving a repetition or being accepted."""
        self.refused, self.listening = [], True
        for option in self.options(thread):
            if isinstance(option, th.Done):
                self.accepted_end(option.path, start)
        self.listening = False
        return self.refused

    def _strict(self, wait: th.Wait, thread: th.Thread, at: int, kind: str) -> _Verdict:
        event = self.events[at]
        refusal = self._refusal(wait, at)
        if not of_kind(self.pattern.steps[wait.step].kind, event):
            details = f"{self._event(at)} came in between, and only the very next event may be {kind}."
            return _Verdict("strict order", f"the very next event was {event.type}", (details,))
        text = refusal or self._not_live(wait, at)
        if text is None:
            return _Verdict("strict order", "the very next event was refused", (f"{self._event(at)} was refused.",))
        return _Verdict("strict order", f"the very next event: {text.why}", (f"The very next event is {text.details}",))

    def _in_vain(self, ending: _Ending, wait: th.Wait, start: int, kind: str) -> _Verdict:
        """The option waited until its window closed or the events were over: what came near?"""
        closing = ending.closing
        first_time = self.events[start].time
        length = None if closing is None else max(closing - first_time, 1)
        last = len(self.events) if ending.position is None else ending.position + 1
        if closing is not None:
            last = min(last, bisect_right(self.times, closing))
        came = self._of_kind(wait.step, ending.thread.last + 1, last)
        nearest_one, number = self._nearest(wait, came), len(came)
        late = self._late(wait, ending.thread, last, closing)
        over = self._close_text(ending)
        lines: list[str] = []
        if late is not None and closing is not None:
            too_late = span(self.events[late].time - closing)
            fits = f"{self._event(late)} would fit, {too_late} after {self._window_name(wait, closing, start)} closed at {clock(closing)}."
            near = length is not None and self.events[late].time - closing <= length
            if nearest_one is None or near:
                if nearest_one is not None:
                    lines.append(self._nearest_text(nearest_one, number, kind))
                why = f"{kind} came after {self._window_name(wait, closing, start)} closed"
                return _Verdict("window", why, (fits, *lines))
            lines.append(fits)
        if ending.cause == "count" and ending.position is not None and nearest_one is None:
            late = self._late(wait, ending.thread, ending.position + 1, None)
            text = f"{over[0].upper()}{over[1:]}."
            more = (
                () if late is None else (f"{self._event(late)} would fit, {late - ending.position} events too late.",)
            )
            return _Verdict("count", f"the window of {self._window_text()} was used up", (text, *more))
        if nearest_one is not None:
            details = (self._nearest_text(nearest_one, number, kind), *lines, f"{over[0].upper()}{over[1:]}.")
            return _Verdict("condition", nearest_one.why, details)
        return self._nothing_came(ending, wait, kind, length, over)

    def _nothing_came(self, ending: _Ending, wait: th.Wait, kind: str, length: int | None, over: str) -> _Verdict:
        details = [f"No {kind} came after it; {over}."]
        first = ending.thread.taken[0][1]
        for at in reversed(self._of_kind(wait.step, 0, first)[-MAX_SCAN:]):
            before = self.events[first].time - self.events[at].time
            if length is not None and before > length:
                break
            # Among events of one type an earlier one that fits is no surprise.
            if self.events[at].type != self.events[first].type and self.fits(wait, at):
                gap = "at the same time" if before == 0 else f"{span(before)} before it"
                details.append(
                    f"{self._event(at)} would fit, but it came {gap}: are the steps, or the times, in the wrong order?"
                )
                return _Verdict("too early", f"{kind} came only before it", tuple(details))
        if ending.closing is not None:
            within = self._window_name(wait, ending.closing, first)
            return _Verdict("no event", f"no {kind} came before {within} closed", tuple(details))
        return _Verdict("no event", f"no {kind} came", tuple(details))

    @staticmethod
    def _nearest_text(refusal: _Refusal, number: int, kind: str) -> str:
        if number == 1:
            return f"The only {kind} that came: {refusal.details}"
        return f"Of {number} {kind} that came, the nearest: {refusal.details}"

    def _of_kind(self, step: int, low: int, high: int) -> list[int]:
        """Where events of a step's kind are, from ``low`` to before ``high``."""
        kind = self.pattern.steps[step].kind
        if not isinstance(kind, ast.EventType):
            return list(range(low, high))
        places = self.places.get(kind.name, [])
        return places[bisect_left(places, low) : bisect_left(places, high)]

    def _nearest(self, wait: th.Wait, came: Sequence[int]) -> _Refusal | None:
        """Of the events that came, the one that all but the fewest conditions let pass."""
        best: _Refusal | None = None
        most = sum(len(_conjuncts(self.predicates[n])) for n, _ in self.plan.steps[wait.step].choose)
        for at in came[:MAX_SCAN]:
            refusal = self._refusal(wait, at) or self._not_live(wait, at)
            if refusal is not None and (best is None or refusal.passed > best.passed):
                best = refusal
                if best.passed >= most:
                    break
        return best

    def _late(self, wait: th.Wait, thread: th.Thread, low: int, closing: int | None) -> int | None:
        """The first event behind the window that would have fitted."""
        if wait.next:
            return None
        for at in self._of_kind(wait.step, low, len(self.events))[:MAX_SCAN]:
            if self.live(wait, thread, at, 0, True) and self.fits(wait, at):
                return at
        return None

    def _close_text(self, ending: _Ending) -> str:
        """What ended the waiting, as the second half of a sentence."""
        if ending.cause == "count":
            return f"the window of {self._window_text()} was used up"
        if ending.cause == "until" and ending.position is not None:
            return f"{self._event(ending.position)} ended that"
        if ending.cause == "unused" and ending.position is not None:
            return f"{self._event(ending.position)} ended that"
        if ending.cause == "end" or ending.closing is None:
            last = clock(self.last_time)
            text = f"the events end at {last}"
            return text if ending.closing is None else f"{text}, before the window closes at {clock(ending.closing)}"
        return f"the window closed at {clock(ending.closing)}"

    def _window_text(self) -> str:
        return "events" if self.pattern.within is None else print_window(self.pattern.within)

    def _window_name(self, wait: th.Wait, closing: int, start: int) -> str:
        """Which of the bounds that hold here closes first."""
        hop = wait.path.hop
        if hop is not None and hop.within is not None and wait.path.clock + hop.within == closing:
            return f"the arrow's window (within {print_duration(hop.within)})"
        for zone in wait.path.zones:
            if zone.first is not None and isinstance(zone.within, ast.TimeWindow):
                assert isinstance(zone.within.duration, int)
                if self.events[zone.first].time + zone.within.duration == closing:
                    return f"the group's window (within {print_window(zone.within)})"
        return f"the window (within {self._window_text()})"

    # refusals

    def _refusal(self, wait: th.Wait, position: int) -> _Refusal | None:
        """Why an event of the step's kind does not fit; None where it does, or is of another kind."""
        self._count()
        step, event = self.pattern.steps[wait.step], self.events[position]
        if not of_kind(step.kind, event):
            return None
        unified = unify(step.unify, event, wait.path.unified)
        if unified is None:
            return self._not_unified(step, event, wait.path.unified, position)
        bound = self._bound(wait.path, wait.step, position, unified)
        scope = self.scope(bound, event)
        passed, refused = 1, None
        for predicate, needs in self.plan.steps[wait.step].choose:
            if any(n not in wait.path.current for n in needs):
                continue
            for part in _conjuncts(self.predicates[predicate]):
                if truth(evaluate(part, scope)):
                    passed += 1
                elif refused is None:
                    refused = part
        if refused is None:
            return None
        return self._of_condition(refused, scope, self._event(position), passed)

    def _not_unified(self, step: c.CoreStep, event: Event, unified: Mapping[str, object], at: int) -> _Refusal:
        for path, name in step.unify:
            value = v.plain(attribute(event, path.parts))
            written = f"{'.'.join(path.parts)} as {name}"
            if value is None:
                return _Refusal(
                    f"{written}: null",
                    f"{self._event(at)}: {'.'.join(path.parts)} is null, which unifies with nothing.",
                    0,
                )
            if name in unified and v.equal(v.plain(unified[name]), value) is not True:
                details = (
                    f"{self._event(at)}: {'.'.join(path.parts)} = {shown(value)}, and {name} = {shown(unified[name])}."
                )
                return _Refusal(f"{written}: another value", details, 0)
        return _Refusal("values do not unify", f"{self._event(at)}: values do not unify.", 0)

    def _must(self, wait: th.Wait, position: int) -> _Refusal | None:
        event = self.events[position]
        unified = unify(self.pattern.steps[wait.step].unify, event, wait.path.unified)
        if unified is None:
            return None
        scope = self.scope(self._bound(wait.path, wait.step, position, unified), event)
        for test in self.plan.steps[wait.step].must:
            if not truth(evaluate(self.predicates[test], scope)):
                found = self._of_condition(self.predicates[test], scope, self._event(position), 8)
                text = print_expr(self.predicates[test])
                details = f"{found.details} It had been chosen, so must ended the attempt."
                return replace(found, why=f"must ({text}) refused it", details=details)
        return None

    def _not_live(self, wait: th.Wait, position: int) -> _Refusal | None:
        """The event fits, and came at a time when the option could not take it."""
        way, moment = wait.path, self.events[position].time
        when = self._event(position)
        if self.strictly_later and moment == way.clock and not way.together:
            return _Refusal(
                "came at the same time",
                f"{when} fits, but has the time of the event before it: later steps must be strictly later.",
                9,
            )
        if way.barrier is not None and moment <= way.barrier:
            return _Refusal(
                "came before the absence was over",
                f"{when} fits, but came before the absence was over at {clock(way.barrier)}.",
                9,
            )
        if way.hop is not None and way.hop.after is not None and moment < way.clock + way.hop.after:
            soon = span(way.clock + way.hop.after - moment)
            return _Refusal(
                f"came too soon for after {print_duration(way.hop.after)}",
                f"{when} fits, but came {soon} too soon for after {print_duration(way.hop.after)}.",
                9,
            )
        return None

    def _of_condition(self, expr: ex.Expr, scope: MatchScope, who: str, passed: int) -> _Refusal:
        """A condition that was not true: its text, the values it saw, and why it is null where it is."""
        lead = f"{who}: " if who else ""
        parts = [part for part in _conjuncts(expr) if not truth(evaluate(part, scope))]
        part = parts[0] if parts else expr
        text = print_expr(part)
        result = evaluate(part, scope)
        seen = {print_expr(e): evaluate(e, scope) for e in _operands(part)}
        values = "; ".join(f"{name} = {shown(value)}" for name, value in seen.items())
        if result is not None:
            return _Refusal(f"{text} was not true", f"{lead}{text} is not true: {values or 'never'}.", passed)
        nulls = [self._null_text(e) for e in _operands(part) if evaluate(e, scope) is None]
        because = "; ".join(n for n in nulls if n)
        if not any(value is None for value in seen.values()):
            because = "the two are of kinds that do not compare"
        details = f"{lead}{text} is null: {values}."
        if because:
            details += f" {because[0].upper()}{because[1:]}" + ("" if because.endswith("?") else ".")
        return _Refusal(f"{text} was null", details, passed)

    def _null_text(self, expr: ex.Expr) -> str:
        """Whether a column is null here, or nowhere to be found."""
        everywhere = set().union(*self.columns.values()) if self.columns else set()
        for ref in (e for e in ex.walk(expr) if isinstance(e, ex.Ref)):
            if ref.parts[0] in self.pattern.unified:
                continue
            named = ref.parts[0] in self.names and len(ref.parts) > 1
            column = ref.parts[1] if named else ref.parts[0]
            if column not in everywhere:
                near = nearest(column, everywhere)
                return f"no event has a column {column!r}" + (f", did you mean {near!r}?" if near else "")
        return ""

    # words

    def _event(self, position: int) -> str:
        event = self.events[position]
        return f"{event.type} at {clock(event.time)}"

    def _negated(self, program: int) -> str:
        """What a negated program looks for, as it would be written."""
        parts = []
        for instruction in self.plan.programs[program].instructions:
            if isinstance(instruction, p.TakeEvent):
                step = self.pattern.steps[instruction.step]
                conditions = " and ".join(print_expr(condition.expr) for condition in step.choose)
                parts.append(print_kind(step.kind) + (f" [{conditions}]" if conditions else ""))
        return " … ".join(parts)


def _spread(number: int) -> int:
    """A place by which numbers from all of a range come early: the number's bits from the other end."""
    return int(f"{number:020b}"[::-1], 2)


def _too_short(what: str, length: int, least: int) -> _Refusal:
    why = f"{what} held for less than {print_duration(least)}"
    return _Refusal(why, f"{what} held for {span(length)}, and {print_duration(least)} are asked.", 0)


def _conjuncts(expr: ex.Expr) -> list[ex.Expr]:
    if isinstance(expr, ex.Binary) and expr.op == "and":
        return _conjuncts(expr.left) + _conjuncts(expr.right)
    return [expr]


_JOINING = frozenset({"and", "or", "=", "<>", "<", "<=", ">", ">=", "<=>"})


def _operands(expr: ex.Expr) -> list[ex.Expr]:
    """What a condition compares: the parts whose values explain it, constants left out."""
    match expr:
        case ex.Binary() if expr.op in _JOINING:
            found = [*_operands(expr.left), *_operands(expr.right)]
        case ex.Unary(op="not"):
            found = _operands(expr.operand)
        case ex.Between():
            found = [*_operands(expr.value), *_operands(expr.low), *_operands(expr.high)]
        case ex.InList() | ex.Is():
            found = _operands(expr.value)
        case ex.Like():
            found = [*_operands(expr.value), *_operands(expr.pattern)]
        case ex.InRelation():
            found = [e for value in expr.values for e in _operands(value)]
        case ex.Literal() | ex.Param():
            found = []
        case _:
            found = [expr]
    return list({print_expr(e): e for e in found}.values())
