"""The rows of a batch: answers, those that were rejected, and how many there are of each pattern and kind."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from perseid.spark.inputs import literal

HEARD = 10.0
"""Seconds that counts of a batch may take to arrive before they are counted again."""
NAMED = 16
"""Patterns whose answers are counted one by one, on the way; those of more are grouped, and grouping shuffles."""
REJECTED = ("late", "bad")
"""The kinds of rows that are no answers."""
KINDS = ("match", "timed out")
"""Those of answers of most patterns."""


def split(rows: Any) -> tuple[Any, Any]:
    """Answers, and beside them rows that were rejected; None where there are none by their columns."""
    if "reason" not in rows.columns or "row" not in rows.columns:
        return rows, None
    rejected = "kind in ('late', 'bad')"
    return rows.where(f"not {rejected}").drop("reason", "row"), rows.where(rejected)


def tally(rows: Any, named: Collection[str] = ()) -> dict[tuple[str, str], int]:
    """How many rows there are of each pattern and kind; asking for it is what searches.

    Patterns that are ``named`` are counted while rows go by; whatever else there is has to be grouped.
    """
    by = [name for name in ("pattern", "kind") if name in rows.columns]
    if not by:
        return {("", ""): count} if (count := rows.count()) else {}
    if len(by) > 1 and 0 < len(named) <= NAMED and (counted := _counted(rows, named)) is not None:
        return counted
    found = rows.groupBy(*by).count().collect()
    return {(str(row.asDict().get("pattern")), str(row.asDict().get("kind"))): int(row["count"]) for row in found}


def _counted(rows: Any, named: Collection[str]) -> dict[tuple[str, str], int] | None:
    """The same without a shuffle; None where there is something that nobody named."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    groups = [(name, kind) for name in named for kind in KINDS] + [("None", kind) for kind in REJECTED]
    seen = Observation()
    here = (
        f"count_if(kind = {literal(kind)} and pattern {'is null' if name == 'None' else f'= {literal(name)}'})"
        for name, kind in groups
    )
    counts = [f.expr(text).alias(f"n{i}") for i, text in enumerate(here)]
    rows.observe(seen, f.count(f.lit(1)).alias("rows"), *counts).write.format("noop").mode("overwrite").save()
    found = _heard(seen)
    if found is None:
        return None
    counted = {of: int(found[f"n{i}"]) for i, of in enumerate(groups) if found[f"n{i}"]}
    return counted if sum(counted.values()) == int(found["rows"]) else None


def _heard(seen: Any) -> dict[str, Any] | None:
    """What was observed; None where Spark's listeners, which may lose an event, do not say it in time."""
    found: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: found.append(seen.get), daemon=True)
    asking.start()
    asking.join(HEARD)
    return found[0] if found else None
