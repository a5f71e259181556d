"""The event types that the steps of a plan name, and those that a match requires."""

from __future__ import annotations

from collections.abc import Mapping

from perseid.compile.plan import Plan
from perseid.lang import ast
from perseid.semantics import core


def named_types(plan: Plan) -> tuple[str, ...]:
    """The event types that steps name, including negated steps; names of patterns of the set are left out."""
    patterns = {pattern.name for pattern in plan.patterns}
    kinds = (step.kind for pattern in plan.patterns for step in pattern.pattern.steps)
    named = dict.fromkeys(kind.name for kind in kinds if isinstance(kind, ast.EventType))
    return tuple(name for name in named if name not in patterns)


def required_types(plan: Plan) -> dict[str, tuple[str, ...]]:
    """By pattern: the event types that each of its matches requires."""
    named = named_types(plan)
    found: dict[str, tuple[str, ...]] = {}
    for pattern in plan.patterns:
        kinds = {step.id: step.kind for step in pattern.pattern.steps}
        required = _required(pattern.pattern.body, kinds)
        found[pattern.name] = tuple(name for name in named if name in required)
    return found


def _required(part: core.Core, kinds: Mapping[int, ast.StepKind]) -> set[str]:
    """The event types that every match of a part contains; of an alternation, those that every branch requires."""
    match part:
        case core.Take():
            kind = kinds[part.step]
            return {kind.name} if isinstance(kind, ast.EventType) else set()
        case core.Seq():
            return set[str]().union(*(_required(one, kinds) for one in part.items))
        case core.All():
            return set[str]().union(*(_required(one, kinds) for one in part.members))
        case core.Loop() if part.low:
            return _required(part.body, kinds)
        case core.Zone():
            return _required(part.body, kinds)
        case core.Alt():
            return set[str].intersection(*(_required(one, kinds) for one in part.branches))
    return set()  # an absence has no event
