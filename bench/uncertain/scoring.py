"""Scores of detected events against labels: precision, recall and F1, as the paper counts them.

A detection is right if a label of its key lies within the tolerance, and a label is found if a detection of its key
does: so one label may make many detections right, and one detection may find many labels. Labels are people's notes,
late by some seconds, so the default tolerance is 30 s in both directions, bounds included. Without detections,
precision is 1; without labels, recall is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

TOLERANCE = 30


@dataclass(frozen=True)
class Moments:
    """Events by key and second, in any order; keys are names or numbers."""

    key: Any
    second: Any

    @classmethod
    def of(cls, table: pa.Table) -> Moments:
        """Convert a table of labels."""
        return cls(np.array(table["person"].to_pylist(), str), np.asarray(table["second"], np.int64))

    def __len__(self) -> int:
        return len(self.second)


@dataclass(frozen=True)
class Score:
    """Precision and recall, each a number, or an array with one for each threshold."""

    precision: Any
    recall: Any
    detections: Any
    """Number of detections."""

    @property
    def f1(self) -> Any:
        """The harmonic mean of both, 0 if both are."""
        both = np.add(self.precision, self.recall)
        return 2 * np.multiply(self.precision, self.recall) / np.where(both > 0, both, 1)


def score(detected: Moments, labels: Moments, tolerance: int = TOLERANCE, *, merge: bool = False) -> Score:
    """Score detections against labels; ``merge`` combines detections that follow each other closely."""
    detections = merged(detected, tolerance) if merge else detected
    right, found = near(detections, labels, tolerance), near(labels, detections, tolerance)
    return Score(_share(right.sum(), len(detections)), _share(found.sum(), len(labels)), len(detections))


def curve(
    moments: Moments,
    probabilities: Any,
    labels: Moments,
    thresholds: Sequence[float] | Any,
    tolerance: int = TOLERANCE,
    *,
    merge: bool = False,
) -> Score:
    """Scores by threshold: an event is detected at each moment with a probability above it."""
    rho, chance = np.asarray(thresholds, float), np.asarray(probabilities, float)
    if merge:
        each = [score(_chosen(moments, chance > least), labels, tolerance, merge=True) for least in rho]
        return Score(
            *(np.array([getattr(one, name) for one in each]) for name in ("precision", "recall", "detections"))
        )
    detections = _above(chance, rho)
    right = _above(chance[near(moments, labels, tolerance)], rho)
    found = _above(_highest(moments, chance, labels, tolerance), rho)
    return Score(_share(right, detections), _share(found, len(labels)), detections)


def merged(detected: Moments, tolerance: int = TOLERANCE) -> Moments:
    """Combine detections of a key, each closer to the previous one than the tolerance, into one alert at the first."""
    order = np.lexsort((detected.second, detected.key))
    key, second = np.asarray(detected.key)[order], np.asarray(detected.second)[order]
    first = np.ones(len(order), bool)
    first[1:] = (key[1:] != key[:-1]) | (second[1:] - second[:-1] >= tolerance)
    return Moments(key[first], second[first])


def near(moments: Moments, others: Moments, tolerance: int) -> Any:
    """By moment: True if another moment of its key lies within the tolerance."""
    mine, theirs = _lined_up(moments, others, tolerance)
    theirs = np.sort(theirs)
    return np.searchsorted(theirs, mine - tolerance) < np.searchsorted(theirs, mine + tolerance, side="right")


def interval(values: Sequence[float] | Any) -> tuple[float, float]:
    """Mean of some runs, and the half width of its 95 % confidence interval.

    By Student's t: with t = √f · tan θ its density is proportional to cos(θ)^(f - 1), which is summed on a fine grid.
    """
    given = np.asarray(values, float)
    freedom = len(given) - 1
    if freedom < 1:
        return float(given.mean()), float("inf")
    angle = np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    total = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    quantile = np.sqrt(freedom) * np.tan(np.interp(0.95, total / total[-1], angle))
    return float(given.mean()), float(quantile * given.std(ddof=1) / np.sqrt(len(given)))


def _lined_up(moments: Moments, others: Moments, tolerance: int) -> tuple[Any, Any]:
    """Map both to one time axis, on which keys are further apart than the tolerance."""
    keys = np.concatenate([np.asarray(moments.key), np.asarray(others.key)])
    seconds = np.concatenate([np.asarray(moments.second), np.asarray(others.second)]).astype(np.int64)
    if not len(seconds):
        return seconds, seconds
    codes = np.unique(keys, return_inverse=True)[1].reshape(-1)
    line = codes * (np.ptp(seconds) + 2 * tolerance + 1) + seconds
    return line[: len(moments)], line[len(moments) :]


def _highest(moments: Moments, chance: Any, labels: Moments, tolerance: int) -> Any:
    """By label: the highest probability within the tolerance, or, without one, a value below any threshold."""
    mine, line = _lined_up(labels, moments, tolerance)
    order = np.argsort(line, kind="stable")
    first = np.searchsorted(line[order], mine - tolerance)
    end = np.searchsorted(line[order], mine + tolerance, side="right")
    if not len(mine):
        return np.zeros(0)
    bounded = np.append(chance[order], -np.inf)  # so that an end may lie after the last
    highest = np.maximum.reduceat(bounded, np.column_stack([first, end]).ravel())[::2]
    return np.where(first < end, highest, -np.inf)


def _above(chance: Any, thresholds: Any) -> Any:
    """By threshold: number of values above it."""
    return len(chance) - np.searchsorted(np.sort(chance), thresholds, side="right")


def _chosen(moments: Moments, which: Any) -> Moments:
    return Moments(np.asarray(moments.key)[which], np.asarray(moments.second)[which])


def _share(some: Any, of: Any) -> Any:
    """Fraction, which is 1 for an empty total."""
    return np.where(np.asarray(of) > 0, np.divide(some, np.maximum(of, 1)), 1.0)[()]
