"""Repairs of a model as users get them: a short list of quick fixes, in words and as rows of changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import overload

from perseid.engines.models.repair import Found
from perseid.engines.models.stream import Models, change_row
from perseid.semantics.model_repair import Fix


class QuickFix:
    """Steps that make a model valid, what they cost, and the changes that they are."""

    def __init__(self, fix: Fix, models: Models, key: tuple[object, ...]) -> None:
        self.cost = fix.cost
        self.soft = fix.soft
        """How many matches the soft objectives have after it."""
        self.steps = tuple(step.said for step in fix.steps)
        """What is done, in words."""
        self._fix = fix
        self._models = models
        self._key = key

    def rows(self, moment: dt.datetime) -> list[dict[str, object]]:
        """Its changes as rows of the model's stream, at a moment: add them to it, and the model is valid from then on."""
        place = {self._models.time: moment, **dict(zip(self._models.key, self._key, strict=True))}
        return [change_row(self._models, place, change) for change in self._fix.changes]

    def __repr__(self) -> str:
        return "; ".join(self.steps)


class QuickFixes(Sequence[QuickFix]):
    """Quick fixes, the best first: by cost, then soft objectives, then steps. Make them with :func:`perseid.repairs`."""

    def __init__(self, found: Found, models: Models, key: tuple[object, ...], most: int) -> None:
        self._fixes = [QuickFix(fix, models, key) for fix in found.fixes[:most]]
        self.found = len(found.fixes)
        """How many there are, with those that are not shown."""
        self.complete = found.complete
        """Was every sequence of steps within the bounds looked at?"""
        self.states = found.states
        """How many different models were looked at."""
        self.valid = found.valid
        """Was the model valid as it was, so that there is nothing to repair?"""

    @overload
    def __getitem__(self, index: int) -> QuickFix: ...
    @overload
    def __getitem__(self, index: slice) -> list[QuickFix]: ...
    def __getitem__(self, index: int | slice) -> QuickFix | list[QuickFix]:
        return self._fixes[index]

    def __len__(self) -> int:
        return len(self._fixes)

    def __repr__(self) -> str:
        if self.valid:
            return "nothing to repair: no objective has a match"
        lines = [f"{self.found} quick fix" + ("" if self.found == 1 else "es")]
        lines += [f"{place}. {fix!r} (cost {fix.cost})" for place, fix in enumerate(self, 1)]
        if self.found > len(self):
            lines.append(f"… and {self.found - len(self)} more")
        if not self.complete:
            lines.append(f"({self.states} models were looked at, not all there are: there may be other fixes)")
        return "\n".join(lines)
