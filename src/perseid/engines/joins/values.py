"""Texts of documents and of subscriptions, as numbers; and what is known of each text because somebody asks for it."""

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
    """Every text once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        self._constants: dict[str, int] = {}
        self._needles: dict[str, int] = {}
        self._thresholds: dict[Constant, int] = {}
        self._asked: list[str] = []
        """Texts that others are compared with, in order."""
        self._numeric = False
        """Somebody compares texts as numbers."""
        self._looked_for: Needles | None = None
        self._changed = True
        self._forget()

    def _forget(self) -> None:
        """What is known of values depends on what is asked for."""
        self._looked_at = 0
        self._known, self._are = np.zeros((16, 2)), np.zeros(16, np.int64)
        self._at, self._contained = np.zeros(17, np.int64), np.zeros(16, np.int64)

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """The number of a text, a new one if need be."""
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def numbers(self, texts: Sequence[str]) -> IntArray:
        return np.fromiter(map(self.number, texts), np.int64, len(texts))

    def constant(self, text: str) -> int:
        """The number of a text that others may be."""
        many = len(self._constants)
        found = self._constants.setdefault(text, many)
        self._changed |= found == many
        return found

    def needle(self, text: str) -> int:
        """The number of a text that others may contain."""
        many = len(self._needles)
        found = self._needles.setdefault(text, many)
        self._changed |= found == many
        return found

    def threshold(self, value: Constant) -> int:
        """The number of a constant that others compare with; a text and a number are two."""
        many = len(self._thresholds)
        found = self._thresholds.setdefault(value, many)
        self._changed |= found == many
        if not isinstance(value, str):
            self.compare_as_numbers()
        return found

    def compare_as_numbers(self) -> None:
        """Somebody will."""
        self._changed |= not self._numeric
        self._numeric = True

    def thresholds(self) -> FloatArray:
        """By number: constants as what values compare with, numbers as they are and texts as their places."""
        self._asked = sorted(one for one in self._thresholds if isinstance(one, str))
        places = {text: 2 * i + 1 for i, text in enumerate(self._asked)}
        return np.array([places[one] if isinstance(one, str) else float(one) for one in self._thresholds], np.float64)

    def known(self) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """By value: the number it is and its place among texts; the constant it is, or -1; the needles it contains, as a list of lists."""
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
        """Forget all texts but some, which are numbered anew in the order given."""
        self.texts = [self.texts[number] for number in used.tolist()]
        self._numbers = {text: number for number, text in enumerate(self.texts)}
        self._forget()

    def _place(self, text: str) -> int:
        """Between the texts that are asked for, or that of one."""
        at = bisect_left(self._asked, text)
        return 2 * at + (at < len(self._asked) and self._asked[at] == text)


def roomy(had: NDArray[T], count: int) -> NDArray[T]:
    """An array with room for so many rows; it grows by half at least, so that many small steps cost little."""
    if count <= len(had):
        return had
    more = max(count - len(had), len(had) // 2)
    return np.concatenate([had, np.zeros((more, *had.shape[1:]), had.dtype)])


def extended(had: NDArray[T], used: int, new: NDArray[T]) -> NDArray[T]:
    """An array with rows behind those in use."""
    had = roomy(had, used + len(new))
    had[used : used + len(new)] = new
    return had
