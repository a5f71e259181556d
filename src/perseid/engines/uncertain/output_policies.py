"""Output policies: every step, steps above a threshold, alerts, spans of time, or expected numbers of matches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from perseid.errors import EventDataError
from perseid.runtime.arrays import FloatArray, IntArray

PolicyKind = Literal["steps", "alerts", "spans", "expected"]


@dataclass(frozen=True)
class OutputPolicy:
    """Output policy.

    ``steps``: a row for each step with a probability above ``rise``. ``alerts``: a row when the probability rises to
    ``rise``, and no other until it has fallen below ``fall``. ``spans``: a row for each maximal run of steps at
    ``rise`` or above, with its highest probability. ``expected``: a row for each step at which more than ``rise``
    matches are expected, with their expected number.
    """

    how: PolicyKind = "steps"
    rise: float = 0.0
    fall: float = 0.0

    @property
    def counts(self) -> bool:
        """True if expected numbers of matches are required."""
        return self.how == "expected"

    @property
    def carries(self) -> tuple[bool, ...]:
        """The states that a pattern needs: False for probabilities, True for counted partial matches."""
        return (False, True) if self.counts else (False,)

    @property
    def lasts(self) -> bool:
        """True if the output of a step depends on earlier steps."""
        return self.how in ("alerts", "spans")


EVERY = OutputPolicy()


class OpenAlerts(NamedTuple):
    """By group: first step of the open alert or span, or ``off``; its highest probability and error bound; and the last
    step with a result."""

    since: IntArray
    peak: FloatArray
    error: FloatArray
    last: IntArray


def no_open_alerts(count: int, off: int) -> OpenAlerts:
    """Return the state of groups without an open alert or span."""
    return OpenAlerts(np.full(count, off), np.zeros(count), np.zeros(count), np.full(count, off))


class EmittedSpan(NamedTuple):
    """An output row: group, first and last step, highest probability and its error bound."""

    group: int
    first: int
    last: int
    peak: float
    error: float


class GroupProbabilities(Protocol):
    """Probabilities, sorted by group and step."""

    @property
    def group(self) -> IntArray: ...
    @property
    def step(self) -> IntArray: ...
    @property
    def probability(self) -> FloatArray: ...
    @property
    def error(self) -> FloatArray: ...


def advance_alerts(
    policy: OutputPolicy,
    before: OpenAlerts,
    results: GroupProbabilities,
    numbered: bool,
    done: int | None,
    ended: bool,
    off: int,
) -> tuple[list[EmittedSpan], OpenAlerts]:
    """Advance alerts and spans; return those to emit now, and those that stay open.

    ``done`` is the last evaluated step; if steps are numbered, steps without a result up to it have probability 0.
    ``off`` marks groups without an open alert or span.
    """
    since, peak, error, last = before.since.copy(), before.peak.copy(), before.error.copy(), before.last.copy()
    emitted: list[EmittedSpan] = []
    alerts = policy.how == "alerts"

    def close(group: int) -> None:
        if since[group] != off and not alerts:
            emitted.append(
                EmittedSpan(group, int(since[group]), int(last[group]), float(peak[group]), float(error[group]))
            )
        since[group] = off

    for group, step, p, error_bound in zip(
        results.group, results.step, results.probability, results.error, strict=True
    ):
        if since[group] != off and (p < policy.fall or (numbered and step != last[group] + 1)):
            close(group)
        if since[group] == off and p >= policy.rise:
            since[group], peak[group], error[group] = step, p, error_bound
            if alerts:
                emitted.append(EmittedSpan(int(group), int(step), int(step), float(p), float(error_bound)))
        elif since[group] != off and p > peak[group]:
            peak[group], error[group] = p, error_bound
        last[group] = step
    for group in np.flatnonzero(since != off):
        if ended or (numbered and done is not None and last[group] < done):
            close(int(group))
    return sorted(emitted), OpenAlerts(since, peak, error, last)


def above(p: float) -> OutputPolicy:
    """Emit every step at which a pattern is completed with a probability above ``p``."""
    return OutputPolicy("steps", _bound(p, "p"), 0.0)


def alerts(rise: float, fall: float | None = None) -> OutputPolicy:
    """Emit a step when the probability rises to ``rise``, and not again until it has fallen below ``fall``.

    Without ``fall`` a step is emitted whenever the probability rises to ``rise`` again.
    """
    high = _bound(rise, "rise")
    low = high if fall is None else _bound(fall, "fall")
    if not 0 < low <= high:
        raise EventDataError(f"fall={fall!r}, rise={rise!r}: expected fall above 0 and rise of at least fall.")
    return OutputPolicy("alerts", high, low)


def spans(p: float) -> OutputPolicy:
    """Emit the spans of time in which the probability is at least ``p``, each with its maximum."""
    bound = _bound(p, "p")
    if bound <= 0:
        raise EventDataError(f"p={p!r}: expected a probability above 0.")
    return OutputPolicy("spans", bound, bound)


def expected(above: float = 0.0) -> OutputPolicy:
    """Emit each step at which more than ``above`` matches are expected, with the probability and the expected number.

    Matches that take different events, or the same events in other steps, count separately. The number is exact, also where the probability is sampled.
    """
    if isinstance(above, bool) or not isinstance(above, (int, float)) or not 0 <= above < math.inf:
        raise EventDataError(f"above={above!r}: expected a number of matches of at least 0.")
    return OutputPolicy("expected", float(above), 0.0)


def _bound(number: float, name: str) -> float:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise EventDataError(f"{name}={number!r}: expected a probability from 0 to 1.")
    return float(number)
