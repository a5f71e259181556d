"""Patterns that are rows of slots: what can be put together from events in any order, and why other things cannot."""

from __future__ import annotations

from perseid.compile import program as p
from perseid.compile.plan import PatternPlan
from perseid.errors import UnsupportedError
from perseid.lang.ast import Contiguity, CountWindow

MAX_SLOTS = 60


def refuse_unassembled(pattern: PatternPlan) -> None:
    """Only rows of slots whose matches do not depend on one another can be put together in any order."""
    why = why_not_assembled(pattern)
    if why is not None:
        raise UnsupportedError(
            f"Pattern {pattern.name} cannot be assembled from events in any order: {why}.",
            hint="disorder='aggressive' tells its matches at once and may take them back; 'buffer' waits for the watermark.",
        )


def why_not_assembled(pattern: PatternPlan) -> str | None:
    """What about a pattern depends on more than the events of a match and what lies between them."""
    core = pattern.pattern
    body, *negated = pattern.programs
    linear = (p.TakeEvent, p.SetHop, p.WatchFor, p.ZoneEnter, p.ZoneLeave, p.AcceptMatch)
    windows = [one.within for one in body.instructions if isinstance(one, p.ZoneEnter)] + [core.within]
    if not all(isinstance(one, linear) for one in body.instructions):
        return "it has a repetition, an alternation or a conjunction, and which way it takes depends on what may still come"
    hops = [one.hop for one in body.instructions if isinstance(one, p.SetHop)]
    if any(hop.contiguity is not Contiguity.ANY for hop in hops):
        return "-> and , take the next event, and an earlier one may still come; write ->> for every one"
    if any(sum(isinstance(one, p.TakeEvent) for one in program.instructions) != 1 for program in negated):
        return "it negates more than one event"
    if core.context is not None or core.skip.mode != "none":
        return "which events a match may use depends on matches before it"
    if core.suppress is not None:
        return "a match is suppressed by one before it, which may still come"
    if "timed out" in pattern.row_kinds:
        return "nobody knows that an attempt has come to nothing while events may still come"
    if pattern.leads or pattern.facts.lookback:
        return "it looks back before its first event"
    if pattern.feeds_on:
        return f"it takes matches of {', '.join(pattern.feeds_on)}"
    if any(isinstance(window, CountWindow) for window in windows):
        return "its window counts events, and more of them may still come"
    if pattern.facts.bound is None:
        return "nothing bounds it in time"
    if len(core.steps) > MAX_SLOTS:
        return f"it has more than {MAX_SLOTS} steps"
    return None
