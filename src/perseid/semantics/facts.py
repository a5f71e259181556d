"""Static analysis of patterns: properties that planning uses and ``explain`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.ast import Contiguity
from perseid.semantics import core as c
from perseid.semantics.names import references

EngineName = Literal["sequence", "disorder", "trees", "joins", "uncertain", "models"]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One step: conditions decidable from one event, conditions on earlier events, and the columns read."""

    id: int
    local: tuple[ex.Expr, ...]
    cross: tuple[ex.Expr, ...]
    tests: tuple[ex.Expr, ...]
    columns: tuple[str, ...]
    retained: tuple[str, ...]
    """Columns that later conditions, outputs or unification read after the event is taken."""


Known = Literal["event", "deadline", "window"]


@dataclass(frozen=True, slots=True)
class Facts:
    steps: tuple[StepFacts, ...]
    all_columns: bool
    """True if every column is read, as events are returned as evidence."""
    droppable: bool
    droppable_why: str
    """Reason why events that match no step may or may not be dropped unread."""
    bound: int | None
    """Maximum time from first to last part, in microseconds; None if unbounded."""
    count_bound: int | None
    """Maximum number of events from first to last; None if unbounded."""
    lookback: int
    """Time before its first event on which a match depends, in microseconds."""
    retention: Literal["empty", "window", "unbounded"]
    growth: Literal["one per start", "polynomial", "exponential"]
    growth_why: str
    known: tuple[Known, ...]
    """Possible deciders of a match: its last event, the deadline of an absence, the end of a window."""
    engines: tuple[EngineName, ...]
    engines_why: str


def event_local(expr: ex.Expr, step: c.CoreStep, pattern: c.CorePattern) -> bool:
    """Return True if the event alone decides this condition."""
    refs = references(expr)
    if refs.aggregated:
        return False
    names = {s.name for s in pattern.steps if s.name is not None}
    for ref in refs.plain:
        head = ref.parts[0]
        if (head in names and head != step.name) or (head not in names and head in pattern.unified):
            return False
    return all(ref.parts[0] == step.name for _, ref in refs.steps)


def facts_of(pattern: c.CorePattern) -> Facts:
    droppable, why = _droppable(pattern)
    bound, count_bound = _bounds(pattern)
    growth, growth_why = _growth(pattern)
    engines, engines_why = _engines(pattern)
    return Facts(
        steps=tuple(_step(s, pattern) for s in pattern.steps),
        all_columns=pattern.evidence is not None,
        droppable=droppable,
        droppable_why=why,
        bound=bound,
        count_bound=count_bound,
        lookback=max((lead.duration for lead in pattern.lead), default=0),
        retention=_retention(pattern, bound, count_bound),
        growth=growth,
        growth_why=growth_why,
        known=_known(pattern),
        engines=engines,
        engines_why=engines_why,
    )


def _retention(
    pattern: c.CorePattern, bound: int | None, count_bound: int | None
) -> Literal["empty", "window", "unbounded"]:
    alone = len([s for s in pattern.steps if not s.negated]) == 1 and not _loops(pattern)
    has_deadline = pattern.lead or any(isinstance(e, c.Absent) for e in c.each(pattern.body))
    if alone and not has_deadline:
        return "empty" if pattern.suppress is None else "window"
    return "unbounded" if bound is None and count_bound is None else "window"


def _loops(pattern: c.CorePattern) -> list[c.Loop]:
    return [e for e in c.each_of(pattern) if isinstance(e, c.Loop) and e.high != 1]


def _hops(pattern: c.CorePattern) -> Iterator[c.Hop]:
    for element in c.each_of(pattern):
        if isinstance(element, c.Seq):
            pairs = zip(element.hops, element.items[1:], strict=True)
            yield from (hop for hop, item in pairs if not isinstance(item, c.Absent))
        elif (isinstance(element, c.Loop) and element.high != 1) or (
            isinstance(element, c.All) and len(element.members) > 1
        ):
            yield element.hop


def _step(step: c.CoreStep, pattern: c.CorePattern) -> StepFacts:
    local: list[ex.Expr] = []
    cross: list[ex.Expr] = []
    for condition in step.choose:
        (local if event_local(condition.expr, step, pattern) else cross).append(condition.expr)
    columns: list[str] = []
    for expr in (*local, *cross, *step.must):
        columns.extend(_columns_of_step(expr, step, pattern, bare=True))
    columns.extend(path.parts[0] for path, _ in step.unify)
    retained = [path.parts[0] for path, _ in step.unify if not step.negated]
    for other in _later_expressions(step, pattern):
        retained.extend(_columns_of_step(other, step, pattern, bare=False))
    if not step.negated:
        for _, expr in pattern.returns:
            retained.extend(_columns_of_step(expr, step, pattern, bare=True))
    return StepFacts(
        step.id,
        tuple(local),
        tuple(cross),
        step.must,
        tuple(sorted(set(columns + retained))),
        tuple(sorted(set(retained))),
    )


def _later_expressions(step: c.CoreStep, pattern: c.CorePattern) -> Iterator[ex.Expr]:
    for other in pattern.steps:
        if other.id != step.id or step.repeated:
            yield from (condition.expr for condition in other.choose)
            yield from other.must
    yield from c.guards_of(pattern)


def _columns_of_step(expr: ex.Expr, step: c.CoreStep, pattern: c.CorePattern, *, bare: bool) -> Iterator[str]:
    names = {s.name for s in pattern.steps if s.name is not None}
    refs = references(expr)
    for ref in [*refs.plain, *(r for _, r in refs.aggregated)]:
        head = ref.parts[0]
        if head == step.name and len(ref.parts) > 1:
            yield ref.parts[1]
        elif bare and head not in names and head not in pattern.unified:
            yield head


def _droppable(pattern: c.CorePattern) -> tuple[bool, str]:
    if pattern.context in (ast.Selection.IMMEDIATE, ast.Selection.STRICT_IMMEDIATE):
        return False, f"selection {pattern.context.value} ends partial matches at events that match no step"
    if isinstance(pattern.within, ast.CountWindow):
        return False, "the window counts every event"
    for element in c.each_of(pattern):
        if isinstance(element, c.Zone) and isinstance(element.within, ast.CountWindow):
            return False, "the window of a group counts every event"
    if any(isinstance(s.kind, ast.AnyEvent) for s in pattern.steps):
        return False, "a step matches events of any type"
    if any(hop.contiguity is Contiguity.NEXT for hop in _hops(pattern)):
        return False, "a step must match the next event, so every event counts"
    return True, "only events that match a step affect matches"


def _bounds(pattern: c.CorePattern) -> tuple[int | None, int | None]:
    if isinstance(pattern.within, ast.TimeWindow) and isinstance(pattern.within.duration, int):
        return pattern.within.duration, None
    if isinstance(pattern.within, ast.CountWindow):
        return None, pattern.within.events
    if isinstance(pattern.within, ast.Forever):
        return None, None
    return _length(pattern.body), _events(pattern.body)


def _events(element: c.Core) -> int | None:
    """Return the number of events of an element if all its arrows are strict and its repetitions bounded."""
    match element:
        case c.Take():
            return 1
        case c.Absent():
            return None
        case c.Seq():
            if any(hop.contiguity is not Contiguity.NEXT for hop in element.hops):
                return None
            return _sum([_events(item) for item in element.items])
        case c.Alt():
            spans = [_events(branch) for branch in element.branches]
            return None if None in spans else max(n for n in spans if n is not None)
        case c.All():
            strict = element.hop.contiguity is Contiguity.NEXT and not element.barred
            return _sum([_events(member) for member in element.members]) if strict else None
        case c.Loop():
            inner = _events(element.body)
            strict = element.high == 1 or element.hop.contiguity is Contiguity.NEXT
            return None if inner is None or element.high is None or not strict else inner * element.high
        case c.Zone():
            return _events(element.body)


def _sum(parts: list[int | None]) -> int | None:
    return None if None in parts else sum(n for n in parts if n is not None)


def _length(element: c.Core) -> int | None:
    """Return the maximum duration of an element without a pattern window, or None."""
    match element:
        case c.Take():
            return 0
        case c.Absent():
            return element.duration
        case c.Zone() if isinstance(element.within, ast.TimeWindow) and isinstance(element.within.duration, int):
            return element.within.duration
        case c.Seq():
            total = 0
            for i, item in enumerate(element.items):
                inner = _length(item)
                gap = 0 if i == 0 or isinstance(item, c.Absent) else element.hops[i - 1].within
                if inner is None or gap is None:
                    return None
                total += inner + gap
            return total
        case c.Alt():
            lengths = [_length(branch) for branch in element.branches]
            return None if None in lengths else max(length for length in lengths if length is not None)
        case _:
            return None


def _growth(pattern: c.CorePattern) -> tuple[Literal["one per start", "polynomial", "exponential"], str]:
    if pattern.context is ast.Selection.RECENT:
        return (
            "polynomial",
            "selection recent does not consume partial matches: each later event that fits is a match",
        )
    if pattern.context is not None:
        return "one per start", f"selection {pattern.context.value} defines which partial match an event extends"
    if pattern.skip.mode != "none":
        return "one per start", f"'after match skip {pattern.skip.mode}' allows no more"
    for loop in _loops(pattern):
        inner = [loop.hop, *(h for e in c.each(loop.body) if isinstance(e, c.Seq) for h in e.hops)]
        if any(h.contiguity is Contiguity.ANY for h in inner):
            return "exponential", "a repetition matches every combination of matching events"
    count = sum(1 for hop in _hops(pattern) if hop.contiguity is Contiguity.ANY)
    if count:
        times = "once" if count == 1 else f"{count} times"
        return "polynomial", f"->> is used {times}: every later matching event gives a separate match"
    return "one per start", "the most preferred match"


def _known(pattern: c.CorePattern) -> tuple[Known, ...]:
    last = list(c.ends(pattern.body))
    known: list[Known] = []
    if any(isinstance(e, c.Absent) for e in last):
        known.append("deadline")
    greedy = any(isinstance(e, c.Loop) and not e.reluctant and e.high != e.low for e in last)
    queued = pattern.skip.mode in ("past last", "to first", "to last")
    if greedy or queued or pattern.report_timeouts or ambiguous(pattern):
        known.append("window")
    if not known or any(isinstance(e, c.Take) for e in _last_of_all(pattern.body)):
        known.insert(0, "event")
    return tuple(known)


def _last_of_all(element: c.Core) -> Iterator[c.Core]:
    """Yield the parts that can end a match; a trailing absence replaces the parts before it."""
    if isinstance(element, c.Seq) and isinstance(element.items[-1], c.Absent):
        yield element.items[-1]
    elif isinstance(element, c.Seq):
        for item in reversed(element.items):
            yield from _last_of_all(item)
            if not c.can_be_empty(item):
                return
    elif isinstance(element, (c.Take, c.Absent)):
        yield element
    else:
        for part in c.core_parts(element):
            yield from _last_of_all(part)


def ambiguous(pattern: c.CorePattern) -> bool:
    """Return True if a preferred path may still be open when a less preferred one is complete.

    This requires a choice, and an event that matches two of its alternatives or an iteration that is not required.
    """
    choices = [
        e for e in c.each(pattern.body) if isinstance(e, (c.Alt, c.All)) or (isinstance(e, c.Loop) and e.high != e.low)
    ]
    if not choices:
        return False
    if any(isinstance(e, c.Loop) and e.reluctant for e in choices):
        return True
    if any(isinstance(e, c.Absent) for e in c.each(pattern.body)):
        return True
    kinds = [s.kind for s in pattern.steps if not s.negated]
    return len(set(kinds)) < len(kinds) or any(isinstance(kind, ast.AnyEvent) for kind in kinds)


def _engines(pattern: c.CorePattern) -> tuple[tuple[EngineName, ...], str]:
    kinds = {type(s.kind) for s in pattern.steps}
    if kinds & {ast.QueryEvent, ast.ModelChange}:
        return ("models",), "a step is a model query or a model change"
    if ast.TreeMatch in kinds:
        trees = [s for s in pattern.steps if isinstance(s.kind, ast.TreeMatch) and not s.negated]
        joined = any(
            condition.expr for s in trees for condition in s.choose if not event_local(condition.expr, s, pattern)
        )
        if len(trees) == 2 and joined and len(pattern.steps) == 2:
            return ("joins", "trees"), "two tree steps are joined by values: a subscription"
        return ("trees",), "a step is a tree pattern over documents"
    names: tuple[EngineName, ...] = ("sequence", "disorder", "uncertain")
    if pattern.context is not None or pattern.skip.mode != "none":
        clause = "a skip strategy" if pattern.context is None else f"'selection {pattern.context.value}'"
        return names[:2], f"ordered or out-of-order events, not uncertain ones, because of {clause}"
    return names, "ordered, out-of-order or uncertain events, depending on the stream"
