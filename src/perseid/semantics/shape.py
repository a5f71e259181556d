"""Reject patterns that, by their structure, can never match, never end, or have no meaning."""

from __future__ import annotations

from collections.abc import Iterator

from perseid.errors import PatternError, SemanticError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_duration, print_expr
from perseid.lang.tree_types import describe_kind
from perseid.semantics import core as c
from perseid.semantics.contradictions import find_contradiction
from perseid.semantics.structure import longer_than_window


def check_shape(core: c.CorePattern, pattern: ast.PatternDefinition) -> None:
    if c.can_be_empty(core.body):
        raise SemanticError(
            "The pattern can match without any event.",
            span=pattern.match.span,
            hint="Require at least one event: use + instead of *, or remove a '?'.",
        )
    _check_negations(core, core.body)
    for lead in core.lead:
        _check_negated(core, lead.body)
        _check_negations(core, lead.body)
    _check_window(core, pattern)
    _check_durations(core, pattern)
    _check_reachable(core)
    _check_context(core, pattern)
    for step in core.steps:
        _check_ranges(step)
        clash = find_contradiction([condition.expr for condition in step.choose] + list(step.must))
        if clash is not None:
            raise SemanticError(
                f"These conditions contradict each other: {clash.text}.",
                span=clash.span or step.span,
                hint="Remove one of them, or use 'or': no event satisfies both.",
            )


def _check_ranges(step: c.CoreStep) -> None:
    for part in (p for e in (*(x.expr for x in step.choose), *step.must) for p in ex.conjuncts(e)):
        if isinstance(part, ex.Between) and find_contradiction([part]) is not None:
            low, high = print_expr(part.low), print_expr(part.high)
            raise SemanticError(
                f"No value is between {low} and {high}: the lower bound must come first.",
                span=part.span,
                hint=f"Write {print_expr(part.value)} between {high} and {low}.",
            )


def _span(core: c.CorePattern, element: c.Core) -> ex.Span | None:
    steps = c.takes(element)
    return core.steps[steps[0]].span if steps else None


def _kind(core: c.CorePattern, element: c.Core) -> str:
    return describe_kind(core.steps[c.takes(element)[0]].kind)


def _check_negated(core: c.CorePattern, body: c.Core) -> None:
    if c.can_be_empty(body):
        raise SemanticError(
            "This 'not' is never true: what it negates also matches zero events.",
            span=_span(core, body),
            hint=f"Write 'not {_kind(core, body)}' for no event, 'not {_kind(core, body)}{{3}}' for fewer than three.",
        )
    ends = [e for e in c.ends(body) if isinstance(e, c.Absent)]
    if ends:
        raise SemanticError(
            "A 'not' at the end of a 'not' has no deadline.",
            span=_span(core, ends[0].body),
            hint="Match it in a separate pattern and use that pattern as a step.",
        )


def _check_negations(core: c.CorePattern, body: c.Core) -> None:
    for element in c.each(body):
        if isinstance(element, c.Absent):
            _check_negated(core, element.body)
        if isinstance(element, c.All):
            for barred in element.barred:
                _check_negated(core, barred)


def _check_window(core: c.CorePattern, pattern: ast.PatternDefinition) -> None:
    open_end = [e for e in c.ends(core.body) if isinstance(e, c.Absent) and e.duration is None]
    zones = {id(a) for z in c.each(core.body) if isinstance(z, c.Zone) and isinstance(z.within, ast.TimeWindow)
             for a in c.ends(z.body)}  # fmt: skip
    unlimited = [e for e in open_end if id(e) not in zones]
    if unlimited and not isinstance(core.within, ast.TimeWindow):
        raise SemanticError(
            "'not' at the end of a pattern needs a deadline.",
            span=_absence_span(pattern, core, unlimited[0]),
            hint=f"Write not {_kind(core, unlimited[0].body)} for 30 seconds, "
            "or add a time window to the pattern: within 10 minutes.",
        )
    for zone in c.each(core.body):
        if isinstance(zone, c.Zone) and isinstance(zone.within, ast.CountWindow):
            trailing = [e for e in c.ends(zone.body) if isinstance(e, c.Absent) and e.duration is None]
            if trailing:
                raise SemanticError(
                    "'not' at the end of a group with a count window has no deadline.",
                    span=_absence_span(pattern, core, trailing[0]),
                    hint=f"Write not {_kind(core, trailing[0].body)} for 30 seconds, "
                    "or use a time window for the group: within 10 seconds.",
                )
    if core.within is None and core.context is None and not _bounded(core.body):
        raise _no_window(pattern)
    if core.within is None and core.context is not None and len(core.steps) > 1:
        raise _no_window(pattern)
    if isinstance(core.within, ast.Forever):
        for element in c.ends(core.body):
            if _endless(element):
                raise SemanticError(
                    f"{_repetition(core, element)} at the end of the pattern never completes: it is greedy, has no upper "
                    "bound, and the pattern has no window.",
                    span=_span(core, element),
                    hint="Use the reluctant +?, add 'until …', or add a window.",
                )


def _endless(element: c.Core) -> bool:
    return isinstance(element, c.Loop) and element.high is None and not element.reluctant and element.until is None


def _no_window(pattern: ast.PatternDefinition) -> PatternError:
    return SemanticError(
        "The pattern is unbounded: it has no 'within'.",
        span=pattern.match.span,
        hint="Add a line such as: within 10 minutes. For a pattern without a bound, write: within forever.",
    )


def _bounded(element: c.Core) -> bool:
    """Return True if every wait inside the element is bounded by the element itself."""
    match element:
        case c.Take() | c.Absent():
            return True
        case c.Zone() if element.within is not None:
            return True
        case c.Zone():
            return _bounded(element.body)
        case c.Seq():
            hops = [
                h for h, item in zip(element.hops, element.items[1:], strict=True) if not isinstance(item, c.Absent)
            ]
            return all(map(_ends_soon, hops)) and all(map(_bounded, element.items))
        case c.Alt():
            return all(map(_bounded, element.branches))
        case c.All():
            return (_ends_soon(element.hop) or len(element.members) == 1) and all(map(_bounded, element.members))
        case c.Loop():
            return (_ends_soon(element.hop) or element.high == 1) and _bounded(element.body)


def _ends_soon(hop: c.Hop) -> bool:
    return hop.contiguity is ast.Contiguity.NEXT or hop.within is not None


def _check_durations(core: c.CorePattern, pattern: ast.PatternDefinition) -> None:
    limit = core.within.duration if isinstance(core.within, ast.TimeWindow) else None
    if not isinstance(limit, int):
        return
    if core.holds_for is not None and core.holds_for > limit:
        span = (core.within.span if isinstance(core.within, ast.TimeWindow) else None) or pattern.span
        raise longer_than_window(f"holds for {print_duration(core.holds_for)}", limit, span)
    for element in c.each(core.body):
        if isinstance(element, c.Absent) and element.duration is not None and element.duration > limit:
            negated = f"not {_kind(core, element.body)} for {print_duration(element.duration)}"
            raise longer_than_window(negated, limit, _absence_span(pattern, core, element))
    for link in _links(pattern.match):
        if isinstance(link.after, int) and link.after > limit:
            raise longer_than_window(f"after {print_duration(link.after)}", limit, link.span)


def _links(element: ast.Element) -> Iterator[ast.Link]:
    if isinstance(element, ast.Sequence):
        yield from element.links
    for part in ast.parts(element):
        yield from _links(part)


def _check_reachable(core: c.CorePattern) -> None:
    for element in c.ends(core.body):
        if isinstance(element, c.Loop) and element.reluctant and element.low == 0:
            raise SemanticError(
                f"{_repetition(core, element)} at the end of a pattern always matches zero events.",
                span=_span(core, element),
                hint="Remove the last '?', or require an event: +? in place of *?.",
            )
    for element in c.each(core.body):
        if isinstance(element, c.Alt):
            _check_branches(core, element)


def _repetition(core: c.CorePattern, loop: c.Core) -> str:
    """A repetition as in the pattern if it repeats one step."""
    if not isinstance(loop, c.Loop) or not isinstance(loop.body, c.Take):
        return "A repetition"
    bounds = {(0, 1): "?", (0, None): "*", (1, None): "+"}.get((loop.low, loop.high))
    quantifier = bounds or f"{{{loop.low or ''},{loop.high or ''}}}"
    return f"{_kind(core, loop)}{quantifier}{'?' if loop.reluctant else ''}"


def _noun(element: c.Core) -> str:
    match element:
        case c.Loop():
            return "the repetition"
        case c.All():
            return "'&'"
        case c.Alt():
            return "'|'"
    return "the inner window"


def _absence_span(pattern: ast.PatternDefinition, core: c.CorePattern, absent: c.Absent) -> ex.Span | None:
    """The span of a whole ``not …``, found by the steps in it."""
    inner = _span(core, absent.body)
    for absence in _absences(pattern.match):
        if inner is not None and absence.span is not None and absence.span.start < inner.start <= absence.span.end:
            inside = [s.span for s in ast.steps(absence.element)]
            if inside and inside[0] == inner:
                return absence.span
    return inner


def _absences(element: ast.Element) -> Iterator[ast.Absence]:
    if isinstance(element, ast.Absence):
        yield element
    for part in ast.parts(element):
        yield from _absences(part)


def _check_branches(core: c.CorePattern, alternation: c.Alt) -> None:
    """Reject a branch that an earlier one always preempts."""
    open_kinds: set[ast.StepKind] = set()
    for branch in alternation.branches:
        if not isinstance(branch, c.Take):
            continue
        step = core.steps[branch.step]
        if step.kind in open_kinds or (ast.AnyEvent() in open_kinds):
            raise SemanticError(
                "This branch is never reached: an earlier branch matches all of its events.",
                span=step.span,
                hint="Put the branch with the narrower condition first.",
            )
        if not step.choose and not step.unify and not step.must:
            open_kinds.add(step.kind)


def _check_context(core: c.CorePattern, pattern: ast.PatternDefinition) -> None:
    if core.context is None:
        return
    name = core.context.value
    windows = [core.within, *(e.within for e in c.each(core.body) if isinstance(e, c.Zone))]
    counted = next((window for window in windows if isinstance(window, ast.CountWindow)), None)
    if counted is not None:
        raise SemanticError(
            f"'selection {name}' does not support a count window.",
            span=counted.span or pattern.span,
            hint="Use a time window.",
        )
    if core.context is ast.Selection.CUMULATIVE:
        for element in c.each(core.body):
            if isinstance(element, (c.Loop, c.All, c.Alt, c.Zone)):
                raise SemanticError(
                    "'selection cumulative' already collects every event of a step: it supports only plain sequences.",
                    span=_span(core, element),
                    hint=f"Remove {_noun(element)}, or use another selection.",
                )
