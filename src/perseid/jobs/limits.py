"""Limits on the number of matches in a batch. They are deterministic: a retry selects the same matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perseid.errors import LimitError
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Policy: TypeAlias = Literal["fail", "drop_oldest", "dead_letter"]
CAPPED = "capped"
"""Kind of a dead letter that is a match beyond a limit."""
_RANK = "_perseid_rank"


@dataclass(frozen=True)
class Caps:
    """Maximum number of matches of a batch: in total, per pattern, per pattern and key."""

    batch: int | None = None
    pattern: int | None = None
    key: int | None = None
    policy: Policy = "fail"

    def __bool__(self) -> bool:
        return (self.batch, self.pattern, self.key) != (None, None, None)


@dataclass(frozen=True)
class CappedBatch:
    """Rows of a batch within its caps."""

    rows: DataFrame
    beyond: DataFrame | None
    """Matches beyond the caps, as dead letters; None if there are none, or if they are dropped."""
    dropped: int


def apply_caps(rows: DataFrame, caps: Caps, keys: Sequence[str], counted: Mapping[tuple[str, str], int]) -> CappedBatch:
    """Return the matches of a batch within its caps; ``counted`` has their number by pattern and kind."""
    for cap, group, scope in (
        (caps.key, ["pattern", *keys], "of one pattern for one key"),
        (caps.pattern, ["pattern"], "of one pattern"),
        (caps.batch, [], "in total"),
    ):
        if cap is None or not _exceeds(rows, cap, group, keys, counted):
            continue
        if caps.policy == "fail":
            raise LimitError(
                f"The batch has more than {cap:,} matches {scope}.",
                hint="Narrow the pattern, raise the limit, or use policy: dead_letter or policy: drop_oldest.",
            )
        return _cut(rows, caps, keys)
    return CappedBatch(rows, None, 0)


def _exceeds(
    rows: DataFrame, cap: int, group: list[str], keys: Sequence[str], counted: Mapping[tuple[str, str], int]
) -> bool:
    total = sum(counted.values())
    if total <= cap:
        return False
    if not group:
        return True
    if group == ["pattern"] or not keys:
        by_pattern: dict[str, int] = {}
        for (pattern, _), count in counted.items():
            by_pattern[pattern] = by_pattern.get(pattern, 0) + count
        return max(by_pattern.values(), default=0) > cap
    exceeding = rows.groupBy(*map(quoted, group)).count().where(f"count > {cap}").limit(1)
    return not exceeding.isEmpty()


def _cut(rows: DataFrame, caps: Caps, keys: Sequence[str]) -> CappedBatch:
    """Cut to the first matches, or with drop_oldest the last: per pattern and key, then per pattern, then in total."""
    newest = caps.policy == "drop_oldest"
    direction = "desc" if newest else "asc"
    place = ", ".join(f"{quoted(name)} {direction}" for name in ("end", "start", "match_id") if name in rows.columns)
    columns = rows.columns
    within = rows
    beyond: DataFrame | None = None
    for cap, group, scope in (
        (caps.key, ["pattern", *keys], "of one pattern for one key"),
        (caps.pattern, ["pattern"], "of one pattern"),
        (caps.batch, [], "in total"),
    ):
        if cap is None:
            continue
        by = f"partition by {', '.join(map(quoted, group))} " if group else ""
        ranked = within.selectExpr("*", f"row_number() over ({by}order by {place}) as {_RANK}")
        over = ranked.where(f"{_RANK} > {cap}").drop(_RANK)
        reason = f"The batch has more than {cap} matches {scope}."
        letters = over.selectExpr(
            f"'{CAPPED}' as kind", f"'{reason}' as reason", f"to_json(struct({', '.join(map(quoted, columns))})) as row"
        )
        beyond = letters if beyond is None else beyond.unionByName(letters)
        within = ranked.where(f"{_RANK} <= {cap}").drop(_RANK)
    assert beyond is not None
    return CappedBatch(within, beyond if caps.policy == "dead_letter" else None, beyond.count())
