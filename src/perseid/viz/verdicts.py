"""Verdicts on ended runs: they select the most informative ending of a run and describe it."""

from __future__ import annotations

from dataclasses import replace

from perseid.lang.tree_types import describe_kind, describe_type
from perseid.reference import threads as th
from perseid.semantics.events import is_of_kind
from perseid.viz.attempts import Ending, Reason, Refusal, Verdict, step_label
from perseid.viz.in_vain import closed_text, explain_unmatched_wait
from perseid.viz.refusals import negated_text, why_leading_absence_violated, why_must_rejected, why_not_live, why_unfit
from perseid.viz.walk import OutOfWorkError, TracingInterpreter


def explain_rejected_start(walk: TracingInterpreter, start: int) -> Verdict:
    """Explain why a candidate event began no run: a condition, ``must``, or a leading absence rejected it."""
    walk.more_work()
    best: tuple[th.Wait, Refusal, Reason] | None = None
    for option in walk.openings:
        if not is_of_kind(walk.events[start], walk.pattern.steps[option.step].kind):
            continue
        reason: Reason = "condition"
        refusal = why_unfit(walk, option, start)
        if refusal is None:
            reason, refusal = "must", why_must_rejected(walk, option, start)
        if refusal is None:
            reason, refusal = "absence", why_leading_absence_violated(walk, start)
        if best is None or refusal.passed > best[1].passed:
            best = option, refusal, reason
    assert best is not None
    option, refusal, reason = best
    return Verdict(reason, refusal.why, (refusal.details,), option.step)


def explain_ending(walk: TracingInterpreter, start: int) -> tuple[tuple[tuple[int, int], ...], Verdict]:
    """Return the events of the run that was traced last, and the verdict on its most informative ending."""
    walk.more_work()
    if not walk.endings:
        return (), _no_continuation()
    ending = max(walk.endings, key=_weight)
    try:
        verdict = _verdict(walk, ending, start)
    except OutOfWorkError:
        verdict = Verdict("not traced", "too much work to find the reason")
    return ending.thread.bound_events, verdict


def _weight(ending: Ending) -> tuple[int, ...]:
    """Rank an ending: an option for an unbound step is more informative than one for another iteration."""
    if ending.wait is None:
        return (1, 0, 0)
    bound = {step for step, _ in ending.thread.bound_events}
    return (int(ending.wait.step not in bound), int(ending.cause not in ("until", "end")), ending.wait.step)


def _verdict(walk: TracingInterpreter, ending: Ending, start: int) -> Verdict:
    wait = ending.wait
    refused = walk.refused_at(ending.thread, start)
    if refused and (wait is None or ending.cause in ("window", "end", "count", "until", "unused")):
        details = [refused[0].details]
        if wait is not None:
            step = step_label(walk.pattern.steps[wait.step])
            details.append(f"The partial match was also waiting for {step}; {closed_text(walk, ending)}.")
        return Verdict("at the end", refused[0].why, tuple(details))
    if ending.cause == "absence":
        return replace(_absence(walk, ending), step=None if wait is None else wait.step)
    if wait is None or ending.cause == "refused":
        return _no_continuation()
    if ending.cause in ("window", "count", "end"):
        return replace(explain_unmatched_wait(walk, ending, wait), step=wait.step)
    assert ending.position is not None
    return replace(_by_event(walk, ending, wait, ending.position), step=wait.step)


def _no_continuation() -> Verdict:
    return Verdict("at the end", "no continuation was possible")


def _absence(walk: TracingInterpreter, ending: Ending) -> Verdict:
    assert ending.position is not None
    negated = "" if ending.watch is None else negated_text(walk, ending.watch)
    occurred = f"{walk.event_text(ending.position)} occurred; 'not {negated}' forbids it."
    return Verdict("absence", f"'not {negated}' was violated", (occurred,))


def _by_event(walk: TracingInterpreter, ending: Ending, wait: th.Wait, at: int) -> Verdict:
    """Return the verdict on an ending caused by the event at this position."""
    event = walk.event_text(at)
    context = "" if walk.pattern.context is None else f"selection {walk.pattern.context.value}"
    match ending.cause:
        case "must":
            refusal = why_must_rejected(walk, wait, at) or Refusal("must was not true", "", 0)
            return Verdict("must", refusal.why, (refusal.details,))
        case "strict":
            return _not_next(walk, wait, at)
        case "until":
            kinds = ", ".join(describe_kind(walk.pattern.steps[u].kind) for u in wait.path.untils)
            details = f"{event} ended the repetition (until {kinds})."
            return Verdict("until", f"until {kinds} ended the repetition", (details,))
        case "replaced":
            why = f"{context}: a newer partial match replaced it"
            return Verdict("replaced", why, (f"{event} created the newer one.",))
    unfit = why_unfit(walk, wait, at)
    details = f"{event} did not match" + (f": {unfit.details}" if unfit else ".")
    return Verdict("strict order", f"{context}: an event that did not match ended it", (details,))


def _not_next(walk: TracingInterpreter, wait: th.Wait, at: int) -> Verdict:
    """Return the verdict on an option that accepts only the very next event."""
    event, kind = walk.events[at], walk.pattern.steps[wait.step].kind
    unfit = why_unfit(walk, wait, at)
    if not is_of_kind(event, kind):
        details = f"{walk.event_text(at)} is in between; {describe_kind(kind)} must be the immediately following event."
        return Verdict("strict order", f"the immediately following event was {describe_type(event.type)}", (details,))
    refusal = unfit or why_not_live(walk, wait, at)
    if refusal is None:
        details = f"{walk.event_text(at)} was rejected."
        return Verdict("strict order", "the immediately following event was rejected", (details,))
    details = f"The immediately following event is {refusal.details}"
    return Verdict("strict order", f"the immediately following event: {refusal.why}", (details,))
