"""Diagnosis of missing matches: the progress of each run, the step that it was waiting for, and the reason it ended.

An instrumented interpreter traces the runs start by start, and records the ending of every option.
It is for finite events of a few keys; the work is bounded, and the result reports if the bound was reached.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from perseid.compile.plan import PatternPlan, Plan
from perseid.errors import BindingError, EventDataError, nearest
from perseid.lang.tree_types import describe_kind, describe_type
from perseid.reference.plan_matcher import plan_matcher
from perseid.runtime.explanation import LINE_WIDTH
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.detection import Partition, detect
from perseid.semantics.events import Event
from perseid.semantics.scope import attribute_path
from perseid.semantics.values import clock
from perseid.tables.html import text_html
from perseid.viz.attempts import Reason, TracedRun, step_label, step_name
from perseid.viz.data_notes import Census, data_notes, positive_steps, unknown_key
from perseid.viz.starts import CandidateStarts
from perseid.viz.walk import MAX_WORK, TracingInterpreter
from perseid.viz.words import cut, pairs, pluralize, wrapped

MAX_EVENTS = 100_000
"""Limit of events; with more, the caller must narrow them."""
SHOWN = 3

_HIDDEN: tuple[Reason, ...] = ("matched", "skipped", "used", "not traced")
"""Reasons that explain nothing by themselves; runs that ended with them are shown last."""


class _Waiting(TypedDict):
    step: str
    event: str
    bound: int | None


class FunnelRow(_Waiting):
    """Number of runs that ended at a step for one reason."""

    ended: int
    reason: Reason | None
    why: str


@dataclass(frozen=True)
class WhyNot:
    """Progress and endings of the runs of a pattern; its ``repr`` is the report for users."""

    pattern: str
    key: Mapping[str, object] | None
    matches: int
    """Number of matches of these partitions, without suppressed ones."""
    suppressed: int
    events: int
    partitions: int
    attempts: tuple[TracedRun, ...]
    funnel: list[FunnelRow]
    """A row for each step and each reason that ended runs there: step, event, bound, ended, reason, why."""
    notes: tuple[str, ...]
    """Faults in the data or the names, as far as they are detected."""
    steps: int
    columns: Mapping[str, tuple[str, ...]] = field(repr=False)
    """Columns that conditions read, by step name, for showing events."""
    shown: int = SHOWN
    types: Mapping[str, int] = field(default_factory=dict, repr=False)

    def _repr_html_(self) -> str:
        """The report with its layout, for notebooks."""
        return text_html(repr(self))

    @property
    def best(self) -> tuple[TracedRun, ...]:
        """The runs without a match that got furthest, one for each step and reason."""
        failed = [a for a in self.attempts if not a.matched]
        failed.sort(key=lambda a: (a.reason in _HIDDEN, -a.steps, -len(a.bound)))
        chosen: dict[tuple[str | None, str], TracedRun] = {}
        for attempt in failed:
            chosen.setdefault((attempt.waited_for, attempt.why), attempt)
        return tuple(chosen.values())[: self.shown]

    def __repr__(self) -> str:
        lines = wrapped(self._head(), "")
        for note in self.notes:
            lines += wrapped(note, "  ! ")
        if self.funnel and self.events:
            lines += ["", *self._table()]
        for number, attempt in enumerate(self.best, 1):
            lines += ["", *self._attempt(number, attempt)]
        return "\n".join(lines)

    def _head(self) -> str:
        subject = self.pattern + ("" if not self.key else ", " + pairs(self.key))
        found = "no match"
        if self.matches or self.suppressed:
            starts = sum(a.matched for a in self.attempts)
            more = f" ({self.suppressed} more suppressed)" if self.suppressed else ""
            others = "; the others are below" if starts < len(self.attempts) else ""
            found = f"{pluralize(self.matches, 'match', 'matches')}{more} from {pluralize(starts, 'candidate')}{others}"
        kinds = ", ".join(f"{n} {kind}" for kind, n in list(self.types.items())[:8])
        more = ", …" if len(self.types) > 8 else ""
        inside = f"{pluralize(self.events, 'event')}" + (f" ({kinds}{more})" if kinds else "")
        split = "" if self.partitions == 1 or self.key is None else f" in {pluralize(self.partitions, 'partition')}"
        if self.key is None and self.partitions > 1:
            split = f" in {self.partitions} partitions"
        return f"{subject}: {found}. {inside}{split}, {pluralize(len(self.attempts), 'candidate')} for the first step."

    def _table(self) -> list[str]:
        labels = [_label(row["step"], row["event"]) for row in self.funnel]
        wide = min(max(len("step"), *map(len, labels)), 34)
        head = f"{'step':<{wide}}  {'matched':>7}  {'stopped':>7}  why candidates stopped before this step"
        lines = [head, "─" * min(len(head) + 14, LINE_WIDTH)]
        before = None
        for label, row in zip(labels, self.funnel, strict=True):
            first = row["step"] != before
            before = row["step"]
            name = cut(label, wide) if first else ""
            bound = str(row["bound"]) if first and row["bound"] is not None else ""
            ended = str(row["ended"]) if row["ended"] else ""
            lead = f"{name:<{wide}}  {bound:>7}  {ended:>7}  "
            text = textwrap.wrap(row["why"], LINE_WIDTH - len(lead)) or [""]
            lines.append((lead + text[0]).rstrip())
            lines.extend(" " * len(lead) + more for more in text[1:])
        return lines

    def _attempt(self, number: int, attempt: TracedRun) -> list[str]:
        key = "" if self.key is not None and self.partitions == 1 else pairs(attempt.key)
        head = f"{number}. candidate at {clock(attempt.start.time)}" + (f", {key}" if key else "")
        lines = wrapped(f"{head}: {attempt.steps} of {pluralize(self.steps, 'step')} matched", "")
        shown = attempt.bound if len(attempt.bound) <= 6 else (*attempt.bound[:4], None, attempt.bound[-1])
        for bound in shown:
            if bound is None:
                lines.append(f"   … {len(attempt.bound) - 5} more")
                continue
            name, event = bound
            values = {n: event.attributes.get(n) for n in self.columns.get(name, ())}
            text = f"{name}: {describe_type(event.type)} {clock(event.time)}  {pairs(values)}".rstrip()
            lines.append(cut(f"   {text}", LINE_WIDTH))
        if not attempt.bound:
            lines.append(cut(f"   {describe_type(attempt.start.type)} {clock(attempt.start.time)}", LINE_WIDTH))
        if attempt.waited_for is not None:
            another = "another " if any(attempt.waited_for.startswith(f"{name}: ") for name, _ in attempt.bound) else ""
            lines += wrapped(f"waiting for {another}{attempt.waited_for}", "   → ")
        for sentence in attempt.details:
            lines += wrapped(sentence, "     ")
        return lines


# evaluation


def why_not(
    plan: Plan,
    name: str,
    events: Sequence[Event],
    *,
    key: object = None,
    strictly_later: bool = False,
    dedupe: bool = False,
    relations: Mapping[str, Iterable[Iterable[object]]] | None = None,
    shown: int = SHOWN,
    max_work: int = MAX_WORK,
    earlier_notes: Sequence[str] = (),
) -> WhyNot:
    """Trace every start of one pattern of a plan over the given events; ``earlier_notes`` has earlier notes on the data."""
    pattern_plan = next(pattern for pattern in plan.patterns if pattern.name == name)
    requested_key = key_of(pattern_plan.pattern, key)
    if len(events) > MAX_EVENTS:
        raise event_limit_error(requested_key is None)
    question = _Question(plan, pattern_plan, events, requested_key, max_work)
    detection = detect(
        [pattern.pattern for pattern in plan.patterns],
        events,
        question.matcher,
        strictly_later=strictly_later,
        dedupe=dedupe,
        relations=relations,
    )
    attempts = sorted(question.attempts, key=lambda a: (a.start.time, a.start.rank))
    reported = [m for m in detection.matches if m.pattern == name and m.kind == "match"]
    return WhyNot(
        pattern=name,
        key=requested_key,
        matches=len(reported),
        suppressed=question.found - len(reported),
        events=question.events,
        partitions=question.partitions,
        attempts=tuple(attempts),
        funnel=_funnel(pattern_plan, attempts, question.reached),
        notes=(*earlier_notes, *question.notes()),
        steps=len([s for s in pattern_plan.pattern.steps if not s.negated]),
        columns=_condition_columns(pattern_plan),
        shown=shown,
        types=dict(question.types.most_common()),
    )


def key_of(pattern: c.CorePattern, key: object) -> dict[str, object] | None:
    """Return a user's key (a value, a tuple or a dict) by the names of ``partition by``; None if ``key`` is None."""
    if key is None:
        return None
    names = [".".join(path.parts) for path in pattern.partition]
    if not names:
        raise BindingError(
            f"Pattern {pattern.name} has no 'partition by', so its events have no key.",
            hint="Remove the key, or declare one: ps.events(data, key=…).",
        )
    if isinstance(key, Mapping):
        for name in key:
            if name not in names:
                raise BindingError(
                    f"Pattern {pattern.name} is not partitioned by {name!r}.",
                    nearest=nearest(str(name), names),
                    hint=f"Available: {', '.join(names)}.",
                )
        return {str(name): v.plain(value) for name, value in key.items()}
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        raise BindingError(
            f"Key of pattern {pattern.name}, partitioned by {', '.join(names)}: "
            f"expected {pluralize(len(names), 'value')}, got {len(values)}.",
            hint=f"Use a tuple in that order, or a dict: key={{{names[0]!r}: …}}.",
        )
    return {name: v.plain(value) for name, value in zip(names, values, strict=True)}


def event_limit_error(keyless: bool) -> EventDataError:
    """Return the error for more events than ``MAX_EVENTS``."""
    return EventDataError(
        f"why_not accepts at most {MAX_EVENTS:,} events, got more.",
        hint="Use a key: why_not(stream, key=…)."
        if keyless
        else "Filter the data to the time range of interest before you declare the stream.",
    )


class _Question:
    """One diagnosis: the requested pattern and key, and the results so far."""

    def __init__(
        self,
        plan: Plan,
        pattern_plan: PatternPlan,
        events: Sequence[Event],
        requested_key: Mapping[str, object] | None,
        max_work: int,
    ) -> None:
        self.plan, self.pattern_plan, self.requested_key = plan, pattern_plan, requested_key
        self.census = Census(events)
        self.others = plan_matcher(plan)
        self.attempts: list[TracedRun] = []
        self.reached: Counter[int] = Counter()
        self.types: Counter[str] = Counter()
        self.keys: dict[object, dict[str, object]] = {}
        self.events = self.partitions = self.found = self.bounded = 0
        self.work = max_work

    def matcher(
        self,
        pattern: c.CorePattern,
        events: Sequence[Event],
        *,
        horizon: int | None,
        strictly_later: bool,
        relations: Mapping[str, v.Relation],
    ) -> Partition:
        """Match one partition for ``detect``; only those of the requested pattern and key are traced."""
        if pattern.name != self.pattern_plan.name:
            return self.others(pattern, events, horizon=horizon, strictly_later=strictly_later, relations=relations)
        key = {".".join(x.parts): v.plain(attribute_path(events[0].attributes, x.parts)) for x in pattern.partition}
        self.keys.setdefault(tuple(v.identity(value) for value in key.values()), key)
        if self.requested_key is not None and any(
            v.identity(key[name]) != v.identity(value) for name, value in self.requested_key.items()
        ):
            return Partition([], horizon)
        rows = list(events)
        self.partitions += 1
        self.events += len(rows)
        self.types.update(event.type or "null" for event in rows)
        walk = TracingInterpreter(self.plan, self.pattern_plan, strictly_later, relations, rows, self.census.known)
        # Without a key, later partitions need a part of the budget too; they also get the rest of this one.
        starts = CandidateStarts(walk, key, self.work if self.requested_key is not None else max(self.work // 4, 2_000))
        matches = starts.follow()
        self.work = max(self.work - walk.work, 2_000)
        self.attempts += starts.attempts
        self.reached.update(starts.reached)
        self.found += sum(m.kind == "match" for m in matches)
        self.bounded += starts.untraced
        return Partition(matches, horizon)

    def notes(self) -> Iterator[str]:
        if self.requested_key is not None and not self.partitions:
            yield unknown_key(self.requested_key, self.keys.values())
            return
        yield from data_notes(self.plan, self.pattern_plan, self.census, self.types)
        if self.bounded:
            yield (
                f"limit exceeded: {pluralize(self.bounded, 'candidate')} not traced, because tracing all would take too long. "
                "Use one key, or a shorter time range."
            )


def _funnel(pattern_plan: PatternPlan, attempts: Sequence[TracedRun], reached: Counter[int]) -> list[FunnelRow]:
    ended: dict[str | None, Counter[tuple[Reason, str]]] = {}
    for attempt in attempts:
        if not attempt.matched:
            ended.setdefault(attempt.waited_for, Counter())[attempt.reason, attempt.why] += 1
    rows: list[FunnelRow] = []

    def add(label: str | None, step: str, event: str, bound: int | None) -> None:
        base: _Waiting = {"step": step, "event": event, "bound": bound}
        reasons = ended.pop(label, Counter()).most_common()
        rows.extend({**base, "ended": number, "reason": reason, "why": why} for (reason, why), number in reasons)
        if not reasons:
            rows.append({**base, "ended": 0, "reason": None, "why": ""})

    seen: set[str] = set()
    for core_step in positive_steps(pattern_plan.pattern):
        label = step_label(core_step)
        if label not in seen:
            seen.add(label)
            add(label, step_name(core_step), describe_kind(core_step.kind), reached[core_step.id])
    if ended.get(None):
        add(None, "end", "", None)
    return rows


def _condition_columns(pattern_plan: PatternPlan) -> dict[str, tuple[str, ...]]:
    keys = {path.parts[0] for path in pattern_plan.pattern.partition}
    return {
        step_name(s): tuple(n for n in pattern_plan.facts.steps[s.id].columns if n not in keys)
        for s in pattern_plan.pattern.steps
    }


def _label(step: str, event: str) -> str:
    return f"{step}: {event}" if event else step
