"""Split the rows of a batch into matches and rejected rows, and count them by pattern and kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as f

from perseid.spark.inputs import literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVATION_TIMEOUT_S = 10.0
"""Time for an observation to arrive before the rows are counted again."""
MAX_OBSERVED_PATTERNS = 16
"""Up to this many patterns are counted by an observation; more are counted by grouping, which shuffles."""
REJECTED = ("late", "bad", "ahead")
"""Kinds of rejected rows."""
KINDS = ("match", "timed out")
"""Kinds of matches that are counted by an observation."""


def split_rejected(rows: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Return matches and rejected rows; None instead of the latter if the columns show that there are none."""
    if "reason" not in rows.columns or "row" not in rows.columns:
        return rows, None
    rejected = f"kind in ({', '.join(map(repr, REJECTED))})"
    return rows.where(f"not {rejected}").drop("reason", "row"), rows.where(rejected)


def materialize(rows: DataFrame) -> None:
    """Materialize the DataFrame with a no-op sink."""
    rows.write.format("noop").mode("overwrite").save()


class MatchCounter:
    """Counts the rows of batches by pattern and kind; counting runs the search.

    Patterns in ``named`` are counted by an observation while rows are read; other rows are counted by grouping. One counter
    serves all batches of a query, because creating its expressions takes longer than counting.
    """

    uses_observation: bool
    """True if the last batch was counted by an observation; then the next one can be, too."""

    def __init__(self, named: Collection[str] = ()) -> None:
        self._groups = [(name, kind) for name in named for kind in KINDS] + [("None", kind) for kind in REJECTED]
        self._is_observable = 0 < len(named) <= MAX_OBSERVED_PATTERNS
        self.uses_observation = False
        self._counts: list[Column] | None = None

    def __call__(self, rows: DataFrame) -> dict[tuple[str, str], int]:
        by = [name for name in ("pattern", "kind") if name in rows.columns]
        if not by:
            return {("", ""): count} if (count := rows.count()) else {}
        self.uses_observation = False
        if len(by) > 1 and self._is_observable and (counted := self.count_during(rows, materialize)) is not None:
            self.uses_observation = True
            return counted
        found = rows.groupBy(*by).count().collect()
        return {(str(row.asDict().get("pattern")), str(row.asDict().get("kind"))): int(row["count"]) for row in found}

    def count_during(self, rows: DataFrame, action: Callable[[DataFrame], None]) -> dict[tuple[str, str], int] | None:
        """Count the rows that an action reads, without a shuffle; None if a pattern or kind of them is not observed."""
        if self._counts is None:
            conditions = (
                f"count_if(kind = {literal(kind)} and pattern {'is null' if name == 'None' else f'= {literal(name)}'})"
                for name, kind in self._groups
            )
            self._counts = [
                f.expr("count(1) as rows"),
                *(f.expr(f"{text} as n{i}") for i, text in enumerate(conditions)),
            ]
        observation = Observation()
        action(rows.observe(observation, *self._counts))
        found = read_observation(observation)
        if found is None:
            return None
        counted = {of: int(found[f"n{i}"]) for i, of in enumerate(self._groups) if found[f"n{i}"]}
        return counted if sum(counted.values()) == int(found["rows"]) else None


def read_observation(observation: Observation) -> dict[str, Any] | None:
    """Return the observed metrics; None if they do not arrive in time, because Spark's listeners may lose events."""
    found: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: found.append(observation.get), daemon=True)
    reader.start()
    reader.join(OBSERVATION_TIMEOUT_S)
    return found[0] if found else None
