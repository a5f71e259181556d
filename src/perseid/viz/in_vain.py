"""Diagnosis of options that took no event until their window closed or the events ended, with the nearest events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_duration, print_window
from perseid.lang.tree_types import describe_kind
from perseid.reference import threads as th
from perseid.semantics.values import clock
from perseid.viz.attempts import Ending, Refusal, Verdict
from perseid.viz.refusals import why_not_live, why_unfit
from perseid.viz.walk import TracingInterpreter
from perseid.viz.words import pluralize, span

MAX_SCAN = 50
"""Limit of events of a step's kind that are checked for the nearest one, and for one too late or too early."""


def explain_unmatched_wait(walk: TracingInterpreter, ending: Ending, wait: th.Wait) -> Verdict:
    kind = describe_kind(walk.pattern.steps[wait.step].kind)
    closing = ending.closing
    last = len(walk.events) if ending.position is None else ending.position + 1
    if closing is not None:
        last = min(last, bisect_right(walk.times, closing))
    arrived = walk.of_kind(wait.step, ending.thread.last + 1, last)
    nearest = _nearest(walk, wait, arrived)
    best = [] if nearest is None else [_nearest_text(nearest, len(arrived), kind)]
    late = _late(walk, wait, ending.thread, last)
    over = closed_text(walk, ending)
    too_late: list[str] = []
    if late is not None and closing is not None:
        window, after = _window_name(walk, wait, closing), walk.events[late].time - closing
        closed = f"{span(after)} after {window} closed at {clock(closing)}"
        too_late = [f"{walk.event_text(late)} would match, but it is {closed}."]
        if nearest is None or after <= _length(walk, ending, closing):
            return Verdict("window", f"{kind} occurred after {window} closed", (*too_late, *best))
    if nearest is not None:
        return Verdict("condition", nearest.why, (*best, *too_late, _sentence(over)))
    if ending.cause == "count" and ending.position is not None:
        late = _late(walk, wait, ending.thread, ending.position + 1)
        more = (
            [f"{walk.event_text(late)} would match, but it is {pluralize(late - ending.position, 'event')} too late."]
            if late is not None
            else []
        )
        return Verdict("count", over, (_sentence(over), *more))
    return _no_event(walk, ending, wait)


def _no_event(walk: TracingInterpreter, ending: Ending, wait: th.Wait) -> Verdict:
    kind = describe_kind(walk.pattern.steps[wait.step].kind)
    no_event = f"No later {kind} occurred; {closed_text(walk, ending)}."
    first = ending.thread.bound_events[0][1]
    for at in reversed(walk.of_kind(wait.step, 0, first)[-MAX_SCAN:]):
        before = walk.events[first].time - walk.events[at].time
        if ending.closing is not None and before > _length(walk, ending, ending.closing):
            break
        # If both events have the same type, an earlier one that fits is expected.
        if walk.events[at].type != walk.events[first].type and walk.fits(wait, at):
            gap = "at the same time" if before == 0 else f"{span(before)} before the first event of the partial match"
            earlier = f"{walk.event_text(at)} would match, but it occurred {gap}"
            details = (no_event, f"{earlier}. Check the order of the steps and of the times.")
            return Verdict("too early", f"{kind} occurred only before the first event of the partial match", details)
    if ending.closing is None:
        return Verdict("no event", f"no later {kind} occurred", (no_event,))
    over = "the events ended" if ending.cause == "end" else f"{_window_name(walk, wait, ending.closing)} closed"
    return Verdict("no event", f"no later {kind} occurred before {over}", (no_event,))


def _nearest(walk: TracingInterpreter, wait: th.Wait, arrived: Sequence[int]) -> Refusal | None:
    """Return the refusal of the arrived event that satisfied the most conditions."""
    best: Refusal | None = None
    most = sum(len(ex.conjuncts(walk.predicates[n])) for n, _ in walk.plan.steps[wait.step].choose)
    for at in arrived[:MAX_SCAN]:
        refusal = why_unfit(walk, wait, at) or why_not_live(walk, wait, at)
        if refusal is not None and (best is None or refusal.passed > best.passed):
            best = refusal
            if best.passed >= most:
                break
    return best


def _nearest_text(refusal: Refusal, number: int, kind: str) -> str:
    if number == 1:
        return f"One later {kind} occurred in the window. {refusal.details}"
    return f"{number} later {kind} events; the nearest: {refusal.details}"


def _late(walk: TracingInterpreter, wait: th.Wait, thread: th.Thread, low: int) -> int | None:
    """Return the first event past the window that would have fitted."""
    if wait.next:
        return None
    late = walk.of_kind(wait.step, low, len(walk.events))[:MAX_SCAN]
    return next((at for at in late if walk.live(wait, thread, at, 0, True) and walk.fits(wait, at)), None)


# windows


def closed_text(walk: TracingInterpreter, ending: Ending) -> str:
    """Return the reason why the wait ended, as the second half of a sentence."""
    if ending.cause == "count":
        return f"the window of {_window_text(walk)} was full"
    if ending.cause in ("until", "unused") and ending.position is not None:
        return f"{walk.event_text(ending.position)} ended the wait"
    if ending.cause == "end" or ending.closing is None:
        text = f"the events end at {clock(walk.last_time)}"
        return text if ending.closing is None else f"{text}, before the window closes at {clock(ending.closing)}"
    return f"the window closed at {clock(ending.closing)}"


def _window_name(walk: TracingInterpreter, wait: th.Wait, closing: int) -> str:
    """Name the window that closes at this time: that of the arrow, of a group, or of the pattern."""
    hop = wait.path.hop
    if hop is not None and hop.within is not None and wait.path.clock + hop.within == closing:
        return f"the arrow's window (within {print_duration(hop.within)})"
    for zone in wait.path.zones:
        if zone.first is not None and isinstance(zone.within, ast.TimeWindow):
            assert isinstance(zone.within.duration, int)
            if walk.events[zone.first].time + zone.within.duration == closing:
                return f"the group's window (within {print_window(zone.within)})"
    return f"the window (within {_window_text(walk)})"


def _window_text(walk: TracingInterpreter) -> str:
    return "events" if walk.pattern.within is None else print_window(walk.pattern.within)


def _length(walk: TracingInterpreter, ending: Ending, closing: int) -> int:
    """Return the time from the start of the run to the closing time, at least 1."""
    return max(closing - walk.events[ending.thread.bound_events[0][1]].time, 1)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
