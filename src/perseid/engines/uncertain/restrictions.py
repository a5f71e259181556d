"""Patterns that are unsupported over uncertain streams."""

from __future__ import annotations

from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics import core as c
from perseid.semantics.facts import event_local
from perseid.semantics.names import references


def reject_unsupported(pattern: c.CorePattern) -> None:
    """Raise :class:`UnsupportedError` for a pattern that has no probability, or that this engine does not support."""
    reason = _reason(pattern)
    if reason is not None:
        what, hint = reason
        raise UnsupportedError(f"Pattern {pattern.name} {what}, which is unsupported on uncertain streams.", hint=hint)


def _reason(pattern: c.CorePattern) -> tuple[str, str] | None:
    if pattern.context is not None or pattern.skip.mode != "none":
        return (
            "has 'after match skip' or 'selection' with consumption",
            "Remove it: a probability includes all matches.",
        )
    if pattern.suppress is not None:
        return "suppresses matches", "Use emit=ps.uncertain.alerts(rise=…, fall=…)."
    if pattern.report_timeouts:
        return "reports timeouts", "Remove 'report timeouts'."
    if pattern.lead:
        return "begins with 'not'", "Begin with an event."
    if isinstance(pattern.within, ast.CountWindow):
        return "has a window in events", "Use a duration, such as within 1 minute: a step may have no event."
    if pattern.guards or any(isinstance(e, (c.Loop, c.All)) and e.guards for e in c.each(pattern.body)):
        return (
            "has a condition over all iterations of a repetition",
            "Use a condition on each iteration: A+ a must (…).",
        )
    for element in c.each(pattern.body):
        if isinstance(element, c.All):
            return "has steps in any order", "Write both orders: (A -> B | B -> A)."
        if isinstance(element, c.Loop) and element.until is not None:
            return "has a repetition with 'until'", "Use a condition on each iteration: A+ a must (…)."
        if isinstance(element, c.Absent) and not isinstance(element.body, c.Take):
            return "negates more than one event", "Negate one step: not B."
        if isinstance(element, c.Zone) and isinstance(element.within, ast.CountWindow):
            return "has a window in events", "Use a duration, such as within 1 minute."
    if any(isinstance(end, c.Absent) for end in c.ends(pattern.body)):
        return "ends with 'not'", "End with an event."
    for step in pattern.steps:
        if not isinstance(step.kind, (ast.EventType, ast.AnyEvent)):
            return "has tree patterns or model queries", "Use steps of events."
        for expr in (*(k.expr for k in step.choose), *step.must):
            refs = references(expr)
            if refs.aggregated:
                return (
                    "has a condition over all iterations of a repetition",
                    "Use a condition on each iteration: A+ a must (…).",
                )
            if any(ref.parts[0] != step.name for _, ref in refs.steps) or (
                not event_local(expr, step, pattern) and _reads_time(expr)
            ):
                return "compares times of events", "Use a time bound: A -> within 5 seconds B."
    return None


def _reads_time(expr: ex.Expr) -> bool:
    return any(isinstance(part, ex.Call) and part.name in ("time", "now") for part in ex.walk(expr))
