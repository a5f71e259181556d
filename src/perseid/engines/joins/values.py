"""A dictionary of the texts of documents, and the features of each text that subscriptions evaluate."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perseid.engines.joins.needles import Needles
from perseid.lang.tree_patterns import Constant
from perseid.runtime.arrays import FloatArray, IntArray
from perseid.semantics.trees import number_of

T = TypeVar("T", bound=np.generic)


class Values:
    """Texts by number, each once, and the constants, needles and thresholds of subscriptions."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        self._constants: dict[str, int] = {}
        self._needles: dict[str, int] = {}
        self._thresholds: dict[Constant, int] = {}
        self._text_thresholds: list[str] = []
        """Text thresholds, sorted."""
        self._numeric = False
        """True if a subscription compares texts as numbers."""
        self._automaton: Needles | None = None
        self._changed = True
        self._discard_features()

    def _discard_features(self) -> None:
        """Discard the features of values, which depend on the registered constants."""
        self._computed = 0
        self._numeric_values, self._equal_constants = np.zeros((16, 2)), np.zeros(16, np.int64)
        self._at, self._contained = np.zeros(17, np.int64), np.zeros(16, np.int64)

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """Return the number of a text, assigning a new one if necessary."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def numbers(self, texts: Sequence[str]) -> IntArray:
        return np.fromiter(map(self.number, texts), np.int64, len(texts))

    def constant(self, text: str) -> int:
        """Return the number of a constant for equality."""
        count = len(self._constants)
        number = self._constants.setdefault(text, count)
        self._changed |= number == count
        return number

    def needle(self, text: str) -> int:
        """Return the number of a text to search for in other texts."""
        count = len(self._needles)
        number = self._needles.setdefault(text, count)
        self._changed |= number == count
        return number

    def threshold(self, value: Constant) -> int:
        """Return the number of a constant for order comparisons; a string and a number are distinct."""
        count = len(self._thresholds)
        number = self._thresholds.setdefault(value, count)
        self._changed |= number == count
        if not isinstance(value, str):
            self.compare_as_numbers()
        return number

    def compare_as_numbers(self) -> None:
        """Enable the numeric feature of values."""
        self._changed |= not self._numeric
        self._numeric = True

    def thresholds(self) -> FloatArray:
        """By threshold: the comparison key, which is the value of a number and the rank of a text."""
        self._text_thresholds = sorted(threshold for threshold in self._thresholds if isinstance(threshold, str))
        ranks = {text: 2 * i + 1 for i, text in enumerate(self._text_thresholds)}
        return np.array(
            [ranks[threshold] if isinstance(threshold, str) else float(threshold) for threshold in self._thresholds],
            np.float64,
        )

    def features(self) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """By value: its numeric value and its rank among texts; the constant it equals, or -1; offsets and list of needles.

        Features are computed incrementally, and recomputed if a constant was registered.
        """
        if self._changed:
            self.thresholds()
            self._automaton = Needles(list(self._needles)) if self._needles else None
            self._changed = False
            self._discard_features()
        new = self.texts[self._computed :]
        if new:
            new_values = np.zeros((len(new), 2))
            if self._numeric:
                new_values[:, 0] = np.fromiter(map(number_of, new), np.float64, len(new))
            if self._text_thresholds:
                new_values[:, 1] = np.fromiter(map(self._rank, new), np.float64, len(new))
            self._numeric_values = extended(self._numeric_values, self._computed, new_values)
            are = np.fromiter((self._constants.get(text, -1) for text in new), np.int64, len(new))
            self._equal_constants = extended(self._equal_constants, self._computed, are)
            counts, contained = np.zeros(len(new), np.int64), np.zeros(0, np.int64)
            if self._automaton is not None:
                counts, contained = self._automaton.contained(new)
            used = int(self._at[self._computed])
            self._contained = extended(self._contained, used, contained)
            self._at = extended(self._at, self._computed + 1, used + np.cumsum(counts))
            self._computed += len(new)
        return self._numeric_values, self._equal_constants, self._at, self._contained

    def retain(self, used: IntArray) -> None:
        """Evict all texts except those in ``used``, which are renumbered in that order."""
        self.texts = [self.texts[number] for number in used.tolist()]
        self._numbers = {text: number for number, text in enumerate(self.texts)}
        self._discard_features()

    def _rank(self, text: str) -> int:
        """Return the rank of a text: odd for a threshold, even between two thresholds."""
        at = bisect_left(self._text_thresholds, text)
        return 2 * at + (at < len(self._text_thresholds) and self._text_thresholds[at] == text)


def reserved(had: NDArray[T], count: int) -> NDArray[T]:
    """Return an array with capacity for ``count`` rows; it grows by at least half, so that appends are amortized."""
    if count <= len(had):
        return had
    added = max(count - len(had), len(had) // 2)
    return np.concatenate([had, np.zeros((added, *had.shape[1:]), had.dtype)])


def extended(had: NDArray[T], used: int, new: NDArray[T]) -> NDArray[T]:
    """Return an array with rows appended after those in use."""
    had = reserved(had, used + len(new))
    had[used : used + len(new)] = new
    return had
