"""How many answers a batch may have, and what becomes of the rest: deterministic, so a batch that comes again ends alike."""

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
"""The kind of a dead letter that is an answer too many."""
_RANK = "_perseid_rank"


@dataclass(frozen=True)
class Caps:
    """The most answers of one batch: in all, of a pattern, of a pattern and key."""

    batch: int | None = None
    pattern: int | None = None
    key: int | None = None
    policy: Policy = "fail"

    def __bool__(self) -> bool:
        return (self.batch, self.pattern, self.key) != (None, None, None)


@dataclass(frozen=True)
class Kept:
    """What a batch is under its caps."""

    rows: DataFrame
    beyond: DataFrame | None
    """Answers too many, as dead letters; None where there are none, or nobody wants them."""
    dropped: int


def within(rows: DataFrame, caps: Caps, keys: Sequence[str], counted: Mapping[tuple[str, str], int]) -> Kept:
    """The answers of a batch within its caps; ``counted`` says how many there are of each pattern and kind."""
    for cap, group, what in (
        (caps.key, ["pattern", *keys], "of one pattern and key"),
        (caps.pattern, ["pattern"], "of one pattern"),
        (caps.batch, [], "of one batch"),
    ):
        if cap is None or not _above(rows, cap, group, keys, counted):
            continue
        if caps.policy == "fail":
            raise LimitError(
                f"There are more than {cap:,} answers {what}.",
                hint="Narrow the pattern, raise the cap, or choose the policy dead_letter or drop_oldest.",
            )
        return _cut(rows, caps, keys)
    return Kept(rows, None, 0)


def _above(
    rows: DataFrame, cap: int, group: list[str], keys: Sequence[str], counted: Mapping[tuple[str, str], int]
) -> bool:
    whole = sum(counted.values())
    if whole <= cap:
        return False
    if not group:
        return True
    if group == ["pattern"] or not keys:
        by_pattern: dict[str, int] = {}
        for (pattern, _), count in counted.items():
            by_pattern[pattern] = by_pattern.get(pattern, 0) + count
        return max(by_pattern.values(), default=0) > cap
    found = rows.groupBy(*map(quoted, group)).count().where(f"count > {cap}").limit(1)
    return not found.isEmpty()


def _cut(rows: DataFrame, caps: Caps, keys: Sequence[str]) -> Kept:
    """The first, or with drop_oldest the last, of each pattern and key, then of each pattern, then of all."""
    newest = caps.policy == "drop_oldest"
    way = "desc" if newest else "asc"
    place = ", ".join(f"{quoted(name)} {way}" for name in ("end", "start", "match_id") if name in rows.columns)
    own = rows.columns
    kept = rows
    beyond: DataFrame | None = None
    for cap, group, what in (
        (caps.key, ["pattern", *keys], "of one pattern and key"),
        (caps.pattern, ["pattern"], "of one pattern"),
        (caps.batch, [], "of one batch"),
    ):
        if cap is None:
            continue
        by = f"partition by {', '.join(map(quoted, group))} " if group else ""
        ranked = kept.selectExpr("*", f"row_number() over ({by}order by {place}) as {_RANK}")
        over = ranked.where(f"{_RANK} > {cap}").drop(_RANK)
        reason = f"More than {cap} answers {what} in a batch."
        said = over.selectExpr(
            f"'{CAPPED}' as kind", f"'{reason}' as reason", f"to_json(struct({', '.join(map(quoted, own))})) as row"
        )
        beyond = said if beyond is None else beyond.unionByName(said)
        kept = ranked.where(f"{_RANK} <= {cap}").drop(_RANK)
    assert beyond is not None
    return Kept(kept, beyond if caps.policy == "dead_letter" else None, beyond.count())
