"""Reasons why an option did not take an event: conditions, unified values, ``must``, time, or a leading absence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perseid.compile import program as p
from perseid.lang import expressions as ex
from perseid.lang.printer import print_duration, print_expr
from perseid.lang.tree_types import describe_kind
from perseid.reference import threads as th
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.events import Event, is_of_kind
from perseid.semantics.scope import attribute, holds, unify
from perseid.semantics.values import clock
from perseid.viz.attempts import Refusal
from perseid.viz.untrue import describe_untrue
from perseid.viz.walk import TracingInterpreter
from perseid.viz.words import format_value, span

_FITS = 9
"""Score of an event that fits, in conditions held: more than most steps have."""


def why_unfit(walk: TracingInterpreter, wait: th.Wait, position: int) -> Refusal | None:
    """Return the reason why an event of the step's kind does not fit; None if it fits or is of another kind."""
    walk.spend()
    step, event = walk.pattern.steps[wait.step], walk.events[position]
    if not is_of_kind(event, step.kind):
        return None
    unified = unify(step.unify, event, wait.path.unified)
    if unified is None:
        return _not_unified(step, event, wait.path.unified, walk.event_text(position))
    scope = walk.scope_at(wait, position, unified)
    passed, refused = 1, None
    for predicate, needs in walk.plan.steps[wait.step].choose:
        if any(n not in wait.path.current for n in needs):
            continue
        for part in ex.conjuncts(walk.predicates[predicate]):
            if holds(part, scope):
                passed += 1
            elif refused is None:
                refused = part
    if refused is None:
        return None
    return describe_untrue(refused, scope, walk.vocabulary, walk.event_text(position), passed)


def _not_unified(step: c.CoreStep, event: Event, unified: Mapping[str, object], when: str) -> Refusal:
    for path, name in step.unify:
        value = v.plain(attribute(event, path.parts))
        column = ".".join(path.parts)
        if value is None:
            return Refusal(f"{column} as {name}: null", f"{when}: {column} is null, and null equals no value.", 0)
        if name in unified and v.equal(v.plain(unified[name]), value) is not True:
            details = f"{when}: {column} = {format_value(value)}, and {name} = {format_value(unified[name])}."
            return Refusal(f"{column} as {name}: another value", details, 0)
    return Refusal("values differ", f"{when}: values differ.", 0)


def why_not_live(walk: TracingInterpreter, wait: th.Wait, position: int) -> Refusal | None:
    """Return the reason why the option cannot take a fitting event at its time; None if it can."""
    path, moment = wait.path, walk.events[position].time
    when = walk.event_text(position)
    if walk.strictly_later and moment == path.clock and not path.together:
        details = f"{when} matches, but has the time of the previous event; a later step needs a later time."
        return Refusal("same time as the previous event", details, _FITS)
    if path.barrier is not None and moment <= path.barrier:
        why = "not after the end of the 'not'"
        return Refusal(why, f"{when} matches, but is {why} at {clock(path.barrier)}.", _FITS)
    if path.hop is not None and path.hop.after is not None and moment < path.clock + path.hop.after:
        early, after = span(path.clock + path.hop.after - moment), f"after {print_duration(path.hop.after)}"
        return Refusal(f"too early for {after}", f"{when} matches, but is {early} too early for {after}.", _FITS)
    return None


def why_must_rejected(walk: TracingInterpreter, wait: th.Wait, position: int) -> Refusal | None:
    event = walk.events[position]
    unified = unify(walk.pattern.steps[wait.step].unify, event, wait.path.unified)
    if unified is None:
        return None
    scope = walk.scope_at(wait, position, unified)
    for test in (walk.predicates[number] for number in walk.plan.steps[wait.step].must):
        if not holds(test, scope):
            found = describe_untrue(test, scope, walk.vocabulary, walk.event_text(position), _FITS - 1)
            details = f"{found.details} The event matched, and 'must' ends the partial match unless it is true."
            return replace(found, why=f"must ({print_expr(test)}) was not true", details=details)
    return None


def why_leading_absence_violated(walk: TracingInterpreter, start: int) -> Refusal:
    """Return the refusal of a start with a violated leading absence."""
    whats = [f"not {negated_text(walk, program)} for {print_duration(d)}" for program, d in walk.plan.leads]
    text = " and ".join(whats)
    earlier = _earlier_event(walk, start)
    which = "an event before it" if earlier is None else walk.event_text(earlier)
    details = f"{walk.event_text(start)}: {which} occurred; '{text}' forbids it."
    return Refusal(f"'{text}' was violated", details, _FITS)


def _earlier_event(walk: TracingInterpreter, start: int) -> int | None:
    """Return the last event that violates a leading absence of one step without conditions; None if there are others."""
    if len(walk.plan.leads) != 1:
        return None
    program, duration = walk.plan.leads[0]
    steps = [i.step for i in walk.plan.programs[program].instructions if isinstance(i, p.TakeEvent)]
    if len(steps) != 1 or walk.pattern.steps[steps[0]].choose or walk.pattern.steps[steps[0]].unify:
        return None
    first = walk.events[start].time - duration
    found = [at for at in walk.of_kind(steps[0], 0, start) if walk.events[at].time >= first]
    return found[-1] if found else None


def negated_text(walk: TracingInterpreter, program: int) -> str:
    """Return the steps of a negated program in pattern syntax."""
    parts = []
    for instruction in walk.plan.programs[program].instructions:
        if isinstance(instruction, p.TakeEvent):
            step = walk.pattern.steps[instruction.step]
            conditions = " and ".join(print_expr(condition.expr) for condition in step.choose)
            parts.append(describe_kind(step.kind) + (f" [{conditions}]" if conditions else ""))
    return " … ".join(parts)
