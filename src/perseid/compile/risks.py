"""Find patterns with a search that can explode, from their structure alone."""

from __future__ import annotations

from collections.abc import Iterator

from perseid.compile.plan import PatternPlan, Plan, forgetful
from perseid.lang.ast import Contiguity
from perseid.lang.tree_types import describe_kind
from perseid.semantics import core as c
from perseid.semantics.facts import ambiguous

SAFE_ITERATIONS = 10
"""The number of optional iterations up to which a repetition is bounded."""
SAFE_COMBINATIONS = 100_000
"""Combinations in a window by count up to which ``->>`` is bounded."""
_RISK = "the search can grow exponentially and end with SearchBudgetError. Shorten 'within', "


def search_risks(plan: Plan) -> Iterator[str]:
    """A sentence for each pattern with a search, or a number of matches, that no condition bounds."""
    for pattern in plan.patterns:
        risk = _risk(plan, pattern)
        if risk is not None:
            yield f"Pattern {pattern.name}: {risk}"


def _risk(plan: Plan, pattern: PatternPlan) -> str | None:
    core, facts = pattern.pattern, pattern.facts
    if core.context is not None:
        return None  # an event goes to the partial matches that the context names
    combining = _combining(pattern)
    if facts.growth == "exponential":
        return (
            f"a repetition with '->>' matches every combination of events, so {_RISK}"
            "bound the repetition, as in {1,5}, or use '->', which finds fewer matches."
        )
    is_bounded = facts.count_bound is not None and facts.count_bound ** len(combining) <= SAFE_COMBINATIONS
    manifold = facts.growth == "polynomial" or not forgetful(plan, pattern)
    if manifold and len(combining) > 1 and not is_bounded:
        return (
            f"{_listed(combining)} follow by '->>' without a condition on an earlier step, so {_RISK}"
            "add such conditions, or use '->', which finds fewer matches."
        )
    loops = _open_loops(core)
    if len(loops) > 1 and ambiguous(core) and not forgetful(plan, pattern):
        return (
            f"{_listed(loops)} can take the same events, so {_RISK}"
            "bound the repetitions, as in {1,5}, or make the conditions of these steps exclude each other."
        )
    return None


def _combining(pattern: PatternPlan) -> list[str]:
    """Steps that follow by ``->>``, are decided by their own event, and are not unified with another."""
    found = []
    for element in c.each_of(pattern.pattern):
        if not isinstance(element, c.Seq):
            continue
        for hop, item in zip(element.hops, element.items[1:], strict=True):
            if hop.contiguity is not Contiguity.ANY or isinstance(item, c.Absent):
                continue
            steps = [pattern.pattern.steps[one.step] for one in c.each(item) if isinstance(one, c.Take)]
            if not any(step.unify or pattern.facts.steps[step.id].cross for step in steps):
                found += [_named(step) for step in steps[:1]]
    return found


def _open_loops(core: c.CorePattern) -> list[str]:
    """The first step of each repetition with an unbounded or large number of optional iterations."""
    found = []
    for element in c.each(core.body):
        if isinstance(element, c.Loop) and (element.high is None or element.high - element.low > SAFE_ITERATIONS):
            steps = [core.steps[one.step] for one in c.each(element.body) if isinstance(one, c.Take)]
            found += [_named(step) for step in steps[:1]]
    return found


def _named(step: c.CoreStep) -> str:
    return step.name or describe_kind(step.kind)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
