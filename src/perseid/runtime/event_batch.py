"""The rows of one shard in one call, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from perseid.runtime.arrays import ArrowColumn, BoolArray, Int8Array, Int32Array, IntArray
from perseid.semantics.values import Relation

Column: TypeAlias = Any
"""An Arrow column; the local driver also passes lists of Python values of several types.

The operations that an engine may use on a column therefore depend on the driver.
"""

KEY_PUNCTUATION, STREAM_PUNCTUATION, QUERY_CHANGE = 1, 2, 4
"""Values of :attr:`EventBatch.control`."""


@dataclass(frozen=True)
class EventBatch:
    """The rows of one shard, in any order; an engine sorts them."""

    time: IntArray
    """Event time in microseconds."""
    type_codes: Int32Array
    """Codes of event types: positions in ``type_names``; -1 for null and for types that no pattern uses."""
    type_names: Sequence[str]
    columns: Mapping[str, Column]
    keys: Mapping[int, Mapping[str, Column]]
    """The key columns of each route."""
    identity: IntArray
    """The hash that makes an event unique."""
    tie_breakers: Sequence[Column] = ()
    """Columns that order events of one time, before identity does."""
    route: Int32Array | None = None
    """The route of each row; None if every row takes every route."""
    predicate_masks: Mapping[int, BoolArray] = field(default_factory=dict)
    """Truth values of predicates that were evaluated before the call, by number."""
    computed_columns: Mapping[str, Column] = field(default_factory=dict)
    """Columns that were computed before the call, by the text of their expression."""
    relations: Mapping[str, Relation] = field(default_factory=dict)
    dedupe: bool = False
    """Rows with equal time, key and identity are one event."""
    control: Int8Array | None = None
    """0: an event; 1, 2: a punctuation of its key or of all keys; 4: a subscription change. None: all are events."""
    query_partition: int = 0
    """The query partition of the call, if every partition receives all rows."""

    def __len__(self) -> int:
        return len(self.time)


def take_events(batch: EventBatch, chosen: IntArray | BoolArray) -> EventBatch:
    """Select rows by number or by mask."""
    places = pa.array(chosen)
    return replace(
        batch,
        time=batch.time[chosen],
        type_codes=batch.type_codes[chosen],
        columns=_take_columns(batch.columns, places),
        keys={route: _take_columns(keys, places) for route, keys in batch.keys.items()},
        identity=batch.identity[chosen],
        tie_breakers=[_take(column, places) for column in batch.tie_breakers],
        route=None if batch.route is None else batch.route[chosen],
        predicate_masks={number: mask[chosen] for number, mask in batch.predicate_masks.items()},
        computed_columns=_take_columns(batch.computed_columns, places),
        control=None if batch.control is None else batch.control[chosen],
    )


def concat_batches(above: EventBatch, below: EventBatch) -> EventBatch:
    """Concatenate the rows of two batches of one schema; fields that are no columns are those of ``below``."""
    if not len(above):
        return below
    names = list(below.type_names)
    codes = {name: i for i, name in enumerate(names)}
    for name in above.type_names:
        if name not in codes:
            codes[name] = len(names)
            names.append(name)
    recoded = np.array([*(codes[name] for name in above.type_names), -1], np.int32)[above.type_codes]
    return replace(
        below,
        time=np.concatenate([above.time, below.time]),
        type_codes=np.concatenate([recoded, below.type_codes]).astype(np.int32, copy=False),
        type_names=names,
        columns=_concat_columns(above.columns, below.columns),
        keys={route: _concat_columns(above.keys[route], keys) for route, keys in below.keys.items()},
        identity=np.concatenate([above.identity, below.identity]),
        tie_breakers=[_concat(*pair) for pair in zip(above.tie_breakers, below.tie_breakers, strict=True)],
        route=None if below.route is None else np.concatenate([above.route, below.route]),
        predicate_masks={
            number: np.concatenate([above.predicate_masks[number], mask])
            for number, mask in below.predicate_masks.items()
        },
        computed_columns=_concat_columns(above.computed_columns, below.computed_columns),
    )


def flatten_column(column: ArrowColumn) -> pa.Array:
    """Return a column as one array without a dictionary; chunks may have different dictionaries."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _take_columns(columns: Mapping[str, Column], places: pa.Array) -> dict[str, Column]:
    return {name: _take(column, places) for name, column in columns.items()}


def _concat_columns(above: Mapping[str, Column], below: Mapping[str, Column]) -> dict[str, Column]:
    return {name: _concat(above[name], column) for name, column in below.items()}


def _take(column: Column, places: pa.Array) -> pa.Array:
    return flatten_column(column).take(places)


def _concat(above: Column, below: Column) -> pa.Array:
    return pa.concat_arrays([flatten_column(above), flatten_column(below)])
