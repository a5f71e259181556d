"""Texts of documents and of subscriptions, as numbers; and what is known of each text because somebody asks for it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from perseid.lang.tree_patterns import Constant
from perseid.semantics.trees import number_of


class Values:
    """Every text once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        self._needles: dict[str, int] = {}
        self._thresholds: dict[Constant, int] = {}
        self._asked: list[str] = []
        """Texts that others are compared with, in order."""
        self._known = np.zeros((0, 2))
        self._contained: list[list[int]] = []
        self._changed = False

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """The number of a text, a new one if need be."""
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def numbers(self, texts: Sequence[str]) -> Any:
        return np.fromiter(map(self.number, texts), np.int64, len(texts))

    def needle(self, text: str) -> int:
        """The number of a text that others may contain."""
        found = self._needles.setdefault(text, len(self._needles))
        self._changed |= found == len(self._needles) - 1
        return found

    def threshold(self, value: Constant) -> int:
        """The number of a constant that others compare with; a text and a number are two."""
        found = self._thresholds.setdefault(value, len(self._thresholds))
        self._changed |= found == len(self._thresholds) - 1
        return found

    def thresholds(self) -> Any:
        """By number: constants as what values compare with, numbers as they are and texts as their places."""
        self._asked = sorted(one for one in self._thresholds if isinstance(one, str))
        places = {text: 2 * i + 1 for i, text in enumerate(self._asked)}
        return np.array([places[one] if isinstance(one, str) else float(one) for one in self._thresholds], np.float64)

    def known(self) -> tuple[Any, Any, Any]:
        """By value: the number it is and its place among texts; and which needles it contains, as a list of lists."""
        if self._changed:
            self._known, self._contained, self._changed = np.zeros((0, 2)), [], False
        new = self.texts[len(self._known) :]
        if new:
            self._known = np.concatenate([self._known, [(number_of(text), self._place(text)) for text in new]])
            self._contained += [[n for needle, n in self._needles.items() if needle in text] for text in new]
        at = np.zeros(len(self.texts) + 1, np.int64)
        at[1:] = np.cumsum([len(one) for one in self._contained])
        return self._known, at, np.array([n for one in self._contained for n in one], np.int64)

    def _place(self, text: str) -> int:
        """Between the texts that are asked for, or that of one."""
        at = bisect_left(self._asked, text)
        return 2 * at + (at < len(self._asked) and self._asked[at] == text)
