"""Rows that a search needs, sorted by partition key and order of events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.sequence.plan import SequencePlan
from perseid.runtime.arrays import BoolArray, Int32Array, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.semantics import values as v

if TYPE_CHECKING:
    from perseid.engines.sequence.columns import AnyColumn
    from perseid.runtime.arrays import ArrowColumn


def wanted_rows(plan: SequencePlan, rows: EventBatch) -> BoolArray | None:
    """Mask of the rows with event types that steps name; None if no row may be dropped."""
    if plan.plan.event_types is None or len(rows.type_names) == 0:
        return None
    hits = type_mask(plan.plan.event_types, rows.type_codes, rows.type_names)
    return None if hits.all() else hits


def type_mask(types: Collection[str], kinds: Int32Array, kind_names: Sequence[str]) -> BoolArray:
    """Mask of the rows with one of these types."""
    return np.array([*(name in types for name in kind_names), False])[kinds]  # code -1, null, is the last entry


def sort_partitions(
    rows: EventBatch, route: int, chosen: IntArray | None
) -> tuple[IntArray, IntArray, IntArray | None, int]:
    """Sort rows: row numbers in order, partition offsets, occurrence numbers, and the number of duplicates."""
    from perseid.runtime.event_order import arrange

    if rows.route is not None:
        route_rows = np.flatnonzero(rows.route == route)
        chosen = route_rows if chosen is None else np.intersect1d(route_rows, chosen, assume_unique=True)
    keys = [comparable(key) for key in rows.keys[route].values()]
    time, identity, ranks = rows.time, rows.identity, list(rows.tie_breakers)
    if chosen is not None:
        keys = [key.take(pa.array(chosen)) for key in keys]
        time, identity = time[chosen], identity[chosen]
        ranks = [rank.take(pa.array(chosen)) for rank in ranks]
    arrangement = arrange(keys, time, ranks, identity)
    order = arrangement.order if chosen is None else chosen[arrangement.order]
    if rows.dedupe and arrangement.occurrence is not None:
        is_first = arrangement.occurrence == 0
        before = np.concatenate([[0], np.cumsum(is_first)])
        return order[is_first], before[arrangement.offsets], None, len(order) - int(before[-1])
    return order, arrangement.offsets, arrangement.occurrence, 0


def comparable(key: AnyColumn) -> ArrowColumn:
    """A key column; values of mixed types are replaced by a code for each distinct one."""
    if not isinstance(key, list):
        return key
    codes: dict[object, int] = {}
    return pa.array([codes.setdefault(v.identity(v.plain(value)), len(codes)) for value in key], pa.int64())
