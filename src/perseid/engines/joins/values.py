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
        self._asked: list[str] = []
        """Text thresholds, sorted."""
        self._numeric = False
        """True if a subscription compares texts as numbers."""
        self._looked_for: Needles | None = None
        self._changed = True
        self._forget()

    def _forget(self) -> None:
        """Discard the features of values, which depend on the registered constants."""
        self._looked_at = 0
        self._known, self._are = np.zeros((16, 2)), np.zeros(16, np.int64)
        self._at, self._contained = np.zeros(17, np.int64), np.zeros(16, np.int64)

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """Return the number of a text, assigning a new one if necessary."""
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def numbers(self, texts: Sequence[str]) -> IntArray:
        return np.fromiter(map(self.number, texts), np.int64, len(texts))

    def constant(self, text: str) -> int:
        """Return the number of a constant for equality."""
        many = len(self._constants)
        found = self._constants.setdefault(text, many)
        self._changed |= found == many
        return found

    def needle(self, text: str) -> int:
        """Return the number of a text to search for in other texts."""
        many = len(self._needles)
        found = self._needles.setdefault(text, many)
        self._changed |= found == many
        return found

    def threshold(self, value: Constant) -> int:
        """Return the number of a constant for order comparisons; a string and a number are distinct."""
        many = len(self._thresholds)
        found = self._thresholds.setdefault(value, many)
        self._changed |= found == many
        if not isinstance(value, str):
            self.compare_as_numbers()
        return found

    def compare_as_numbers(self) -> None:
        """Enable the numeric feature of values."""
        self._changed |= not self._numeric
        self._numeric = True

    def thresholds(self) -> FloatArray:
        """By threshold: the comparison key, which is the value of a number and the rank of a text."""
        self._asked = sorted(one for one in self._thresholds if isinstance(one, str))
        places = {text: 2 * i + 1 for i, text in enumerate(self._asked)}
        return np.array([places[one] if isinstance(one, str) else float(one) for one in self._thresholds], np.float64)

    def known(self) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """By value: its numeric value and its rank among texts; the constant it equals, or -1; offsets and list of needles.

        Features are computed incrementally, and recomputed if a constant was registered.
        """
        if self._changed:
            self.thresholds()
            self._looked_for = Needles(list(self._needles)) if self._needles else None
            self._changed = False
            self._forget()
        new = self.texts[self._looked_at :]
        if new:
            more = np.zeros((len(new), 2))
            if self._numeric:
                more[:, 0] = np.fromiter(map(number_of, new), np.float64, len(new))
            if self._asked:
                more[:, 1] = np.fromiter(map(self._place, new), np.float64, len(new))
            self._known = extended(self._known, self._looked_at, more)
            are = np.fromiter((self._constants.get(text, -1) for text in new), np.int64, len(new))
            self._are = extended(self._are, self._looked_at, are)
            counts, contained = np.zeros(len(new), np.int64), np.zeros(0, np.int64)
            if self._looked_for is not None:
                counts, contained = self._looked_for.contained(new)
            used = int(self._at[self._looked_at])
            self._contained = extended(self._contained, used, contained)
            self._at = extended(self._at, self._looked_at + 1, used + np.cumsum(counts))
            self._looked_at += len(new)
        return self._known, self._are, self._at, self._contained

    def keep(self, used: IntArray) -> None:
        """Evict all texts except those in ``used``, which are renumbered in that order."""
        self.texts = [self.texts[number] for number in used.tolist()]
        self._numbers = {text: number for number, text in enumerate(self.texts)}
        self._forget()

    def _place(self, text: str) -> int:
        """Return the rank of a text: odd for a threshold, even between two thresholds."""
        at = bisect_left(self._asked, text)
        return 2 * at + (at < len(self._asked) and self._asked[at] == text)


def roomy(had: NDArray[T], count: int) -> NDArray[T]:
    """Return an array with capacity for ``count`` rows; it grows by at least half, so that appends are amortized."""
    if count <= len(had):
        return had
    more = max(count - len(had), len(had) // 2)
    return np.concatenate([had, np.zeros((more, *had.shape[1:]), had.dtype)])


def extended(had: NDArray[T], used: int, new: NDArray[T]) -> NDArray[T]:
    """Return an array with rows appended after those in use."""
    had = roomy(had, used + len(new))
    had[used : used + len(new)] = new
    return had
