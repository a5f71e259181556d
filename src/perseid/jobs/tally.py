"""The rows of a batch: answers, those that were rejected, and how many there are of each pattern and kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from perseid.spark.inputs import literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

HEARD = 10.0
"""Seconds that counts of a batch may take to arrive before they are counted again."""
NAMED = 16
"""Patterns whose answers are counted one by one, on the way; those of more are grouped, and grouping shuffles."""
REJECTED = ("late", "bad", "ahead")
"""The kinds of rows that are no answers."""
KINDS = ("match", "timed out")
"""Those of answers of most patterns."""


def split(rows: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Answers, and beside them rows that were rejected; None where there are none by their columns."""
    if "reason" not in rows.columns or "row" not in rows.columns:
        return rows, None
    rejected = f"kind in ({', '.join(map(repr, REJECTED))})"
    return rows.where(f"not {rejected}").drop("reason", "row"), rows.where(rejected)


def search(rows: DataFrame) -> None:
    """Make every row, for nobody."""
    rows.write.format("noop").mode("overwrite").save()


class Tally:
    """How many rows there are of each pattern and kind; asking for it is what searches.

    Patterns that are ``named`` are counted while rows go by; whatever else there is has to be grouped. One counts every batch of a
    query: its expressions are made once, since making them takes longer than counting.
    """

    goes_by: bool
    """Whether the last count was made while rows went by: then so is the next."""

    def __init__(self, named: Collection[str] = ()) -> None:
        self._groups = [(name, kind) for name in named for kind in KINDS] + [("None", kind) for kind in REJECTED]
        self._few = 0 < len(named) <= NAMED
        self.goes_by = False
        self._counts: list[Column] | None = None

    def __call__(self, rows: DataFrame) -> dict[tuple[str, str], int]:
        by = [name for name in ("pattern", "kind") if name in rows.columns]
        if not by:
            return {("", ""): count} if (count := rows.count()) else {}
        self.goes_by = False
        if len(by) > 1 and self._few and (counted := self.along(rows, search)) is not None:
            self.goes_by = True
            return counted
        found = rows.groupBy(*by).count().collect()
        return {(str(row.asDict().get("pattern")), str(row.asDict().get("kind"))): int(row["count"]) for row in found}

    def along(self, rows: DataFrame, action: Callable[[DataFrame], None]) -> dict[tuple[str, str], int] | None:
        """The same without a shuffle, by the rows that an action asks for; None where one is of what nobody named."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        if self._counts is None:
            here = (
                f"count_if(kind = {literal(kind)} and pattern {'is null' if name == 'None' else f'= {literal(name)}'})"
                for name, kind in self._groups
            )
            self._counts = [f.expr("count(1) as rows"), *(f.expr(f"{text} as n{i}") for i, text in enumerate(here))]
        seen = Observation()
        action(rows.observe(seen, *self._counts))
        found = heard(seen)
        if found is None:
            return None
        counted = {of: int(found[f"n{i}"]) for i, of in enumerate(self._groups) if found[f"n{i}"]}
        return counted if sum(counted.values()) == int(found["rows"]) else None


def heard(seen: Observation) -> dict[str, Any] | None:
    """What was observed; None where Spark's listeners, which may lose an event, do not say it in time."""
    found: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: found.append(seen.get), daemon=True)
    asking.start()
    asking.join(HEARD)
    return found[0] if found else None
