"""Exact numbers of matches: for a chain of ``->>`` without making them, else by finding them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.contract import Rows
from perseid.engines.order import arrange
from perseid.engines.sequence.columns import Batch, column_type, kernel_arrays, value_at
from perseid.engines.sequence.counting import Chain, chain_of, count_matches
from perseid.engines.sequence.engine import find_all, make_plan
from perseid.engines.sequence.plan import Numbered
from perseid.engines.sequence.run import make_space
from perseid.local.inputs import row_pieces
from perseid.local.rows import Events
from perseid.semantics import values as v
from perseid.semantics.detection import check_relations


@dataclass(frozen=True)
class Counts:
    """How many matches a pattern has, in all and for each key."""

    pattern: str
    total: int
    by_key: Mapping[tuple[Any, ...], int]
    enumerated: str | None
    """None where nothing was enumerated; else why matches had to be made to be counted."""

    def __repr__(self) -> str:
        how = "" if self.enumerated is None else f", enumerated because {self.enumerated}"
        return f"<{self.total} matches of {self.pattern} in {len(self.by_key)} keys{how}>"


def count_here(plan: Plan, stream: Events, relations: Mapping[str, list[tuple[Any, ...]]]) -> list[Counts]:
    """Exact counts of every pattern of a set over finite data; matches that feed patterns are not followed."""
    check_relations([pattern.pattern for pattern in plan.patterns], relations)
    tables = {name: v.Relation(rows) for name, rows in relations.items()}
    totals: dict[str, Counter[tuple[Any, ...]]] = {pattern.name: Counter() for pattern in plan.patterns}
    why: dict[str, str | None] = {}
    for rows, _ in row_pieces(plan, stream, tables, None):
        known = {name: column_type(column) for name, column in rows.columns.items()}
        numbered = make_plan(plan, known, strictly_later=stream.strictly_later)
        for one in numbered.patterns:
            chain = chain_of(one)
            why[one.pattern.name] = chain if isinstance(chain, str) else None
            if isinstance(chain, Chain):
                found = _counted(one, chain, rows)
            else:
                alone = next(f for f in find_all(numbered, rows) if f.numbered.pattern.name == one.pattern.name)
                kept = alone.raw.partition[~alone.raw.timed_out]
                firsts = alone.batch.order[alone.offsets[:-1]]
                found = (
                    (int(firsts[part]), int(n)) for part, n in zip(*np.unique(kept, return_counts=True), strict=True)
                )
            keys = list(rows.keys[one.pattern.route].values())
            for row, count in found:
                if count:
                    totals[one.pattern.name][tuple(_shown(value_at(key, row)) for key in keys)] += count
    return [Counts(name, sum(by_key.values()), by_key, why.get(name)) for name, by_key in totals.items()]


def _shown(value: Any) -> Any:
    """A key as something a dict can be asked for."""
    return value if not isinstance(value, (list, dict)) else repr(value)


def _counted(one: Numbered, chain: Chain, rows: Rows) -> Iterator[tuple[int, int]]:
    """For each partition a row of it, and its number of matches."""
    keys = list(rows.keys[one.pattern.route].values())
    chosen = np.arange(len(rows))
    if chain.variable is not None:
        path = one.columns[chain.variable].expr
        column = rows.columns[path.parts[0]]  # type: ignore[union-attr]
        if isinstance(column, list):
            column = pa.array([repr(v.identity(v.plain(x))) if x is not None else None for x in column])
        chosen = np.flatnonzero(np.asarray(column.is_valid()))
        keys = [*keys, column]
    keys = [_codes(key).take(pa.array(chosen)) for key in keys]
    arrangement = arrange(keys, rows.time[chosen], [], rows.identity[chosen])
    order = chosen[arrangement.order]
    batch = Batch(
        rows.time[order],
        rows.kinds[order],
        rows.kind_names,
        rows.columns,
        order,
        rows.relations,
        rows.decided,
        rows.made,
    )
    arrays = kernel_arrays(one, batch, *make_space(one))
    counts = count_matches(chain, arrays, np.ascontiguousarray(arrangement.offsets, np.int64), arrays.tables)
    for first, count in zip(arrangement.offsets[:-1].tolist(), counts, strict=True):
        yield int(order[first]), count


def _codes(key: Any) -> Any:
    if not isinstance(key, list):
        return key
    codes: dict[object, int] = {}
    return pa.array([codes.setdefault(v.identity(v.plain(value)), len(codes)) for value in key], pa.int64())
