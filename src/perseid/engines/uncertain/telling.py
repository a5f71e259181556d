"""What is told of answers: every step, those above a bound, alerts, spans of time, or how many matches to expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from perseid.runtime.arrays import FloatArray, IntArray

How = Literal["steps", "alerts", "spans", "expected"]


@dataclass(frozen=True)
class Telling:
    """How answers are told.

    ``steps``: a row for each step whose probability is above ``rise``. ``alerts``: a row when it rises to ``rise``, and no other
    until it has fallen below ``fall``. ``spans``: a row for each longest run of steps at ``rise`` or above, with its highest.
    ``expected``: a row for each step at which more than ``rise`` matches are expected, with their number.
    """

    how: How = "steps"
    rise: float = 0.0
    fall: float = 0.0

    @property
    def counts(self) -> bool:
        """Are numbers of matches asked for?"""
        return self.how == "expected"

    @property
    def carries(self) -> tuple[bool, ...]:
        """What is carried of a pattern: probabilities, and where numbers are asked for its ways."""
        return (False, True) if self.counts else (False,)

    @property
    def lasts(self) -> bool:
        """Does what is told of a step depend on the steps before it?"""
        return self.how in ("alerts", "spans")


EVERY = Telling()


class Ongoing(NamedTuple):
    """By group: since which step an alert or a span lasts, or that none does; its highest, how far that may be off; and the last
    step that was answered."""

    since: IntArray
    peak: FloatArray
    error: FloatArray
    last: IntArray


def nothing_ongoing(count: int, off: int) -> Ongoing:
    """Of so many groups, that nothing lasts."""
    return Ongoing(np.full(count, off), np.zeros(count), np.zeros(count), np.full(count, off))


class Ended(NamedTuple):
    """What is told of a group: from which step to which, and the highest probability of them."""

    group: int
    first: int
    last: int
    peak: float
    error: float


class Answered(Protocol):
    """Probabilities by group and step, in this order."""

    @property
    def group(self) -> IntArray: ...
    @property
    def step(self) -> IntArray: ...
    @property
    def probability(self) -> FloatArray: ...
    @property
    def error(self) -> FloatArray: ...


def go_on(
    telling: Telling, before: Ongoing, answers: Answered, numbered: bool, done: int | None, ended: bool, off: int
) -> tuple[list[Ended], Ongoing]:
    """Alerts and spans of a stream: those that are told now, and those that go on.

    ``done`` is the last step that counted: of numbered steps it is known that those without an answer had none. ``off`` is since when
    nothing lasts.
    """
    since, peak, error, last = before.since.copy(), before.peak.copy(), before.error.copy(), before.last.copy()
    told: list[Ended] = []
    alerts = telling.how == "alerts"

    def close(group: int) -> None:
        if since[group] != off and not alerts:
            told.append(Ended(group, int(since[group]), int(last[group]), float(peak[group]), float(error[group])))
        since[group] = off

    for group, step, p, wrong in zip(answers.group, answers.step, answers.probability, answers.error, strict=True):
        if since[group] != off and (p < telling.fall or (numbered and step != last[group] + 1)):
            close(group)
        if since[group] == off and p >= telling.rise:
            since[group], peak[group], error[group] = step, p, wrong
            if alerts:
                told.append(Ended(int(group), int(step), int(step), float(p), float(wrong)))
        elif since[group] != off and p > peak[group]:
            peak[group], error[group] = p, wrong
        last[group] = step
    for group in np.flatnonzero(since != off):
        if ended or (numbered and done is not None and last[group] < done):
            close(int(group))
    return sorted(told), Ongoing(since, peak, error, last)
