"""Reads a declared stream as rows for an engine: one table, several by event type, or Parquet in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.sequence.columns import value_at
from perseid.engines.sequence.input_notes import warn_of_keys
from perseid.engines.sequence.partition_sort import type_mask
from perseid.engines.sequence.stream import Events
from perseid.engines.sequence.stream_keys import key_column
from perseid.errors import EventDataError
from perseid.runtime.arrays import IntArray
from perseid.runtime.event_batch import Column, EventBatch
from perseid.runtime.hashing import hash_columns, identities
from perseid.runtime.progress import ProgressLine
from perseid.semantics import values as v
from perseid.semantics.hashing import hash_values, identity_of
from perseid.tables.columns import (
    Table,
    are_paths,
    read_table,
    require,
    time_column,
    times_are_readable,
    type_codes,
)
from perseid.tables.parquet import partitioned
from perseid.tables.rows import rank

MEMORY_SHARE = 4
"""Parquet that would fill more than this fraction (1/n) of the machine's memory is read in pieces."""


def row_pieces(
    plan: Plan,
    stream: Events,
    relations: Mapping[str, v.Relation],
    memory_limit: int | None,
    progress: ProgressLine | None = None,
) -> Iterator[tuple[EventBatch, set[str]]]:
    """Yield the rows at once or in pieces of whole partitions, each with the names of all columns of its input."""
    warned, progress = False, progress or ProgressLine()
    for rows, names in _row_pieces(plan, stream, relations, memory_limit, progress):
        if len(rows) and not warned:  # every piece has the same columns
            progress.clear()
            warn_of_keys(plan, names)
            warned = True
        yield rows, names


def _row_pieces(
    plan: Plan, stream: Events, relations: Mapping[str, v.Relation], memory_limit: int | None, progress: ProgressLine
) -> Iterator[tuple[EventBatch, set[str]]]:
    if not isinstance(stream.data, Mapping):
        [(_, source)] = stream.inputs()
        for table in _pieces(plan, source, memory_limit, progress):
            try:
                rows = _rows(plan, source, table, relations)
            except EventDataError:
                # It names a row by number, which did not count filtered events: read again without the filter.
                for whole in _pieces(plan, source, memory_limit, progress, narrow=False):
                    _rows(plan, source, whole, relations)
                raise
            yield rows, set(table.names or table.columns)
        return
    parts, names = [], set()
    for event_type, source in stream.inputs():
        table = read_table(source.data, None)
        names |= set(table.names or table.columns)
        keys = dict(zip(stream.key_names(), source.columns("key"), strict=True))
        parts.append(_rows(plan, source, table, relations, event_type, keys))
    yield _joined(parts), names


def _pieces(
    plan: Plan, stream: Events, memory_limit: int | None, progress: ProgressLine, narrow: bool = True
) -> Iterator[Table]:
    if not are_paths(stream.data):
        yield read_table(stream.data, None)
        return
    needed = None
    if stream.id and not plan.all_columns:
        wanted = {stream.time, stream.type, *stream.id, *stream.order_by}
        wanted |= {path[0] for route in plan.routes for path in route.paths}
        needed = wanted | {column.name for column in plan.columns}
    keys = [route.paths for route in plan.routes]
    shared = [path for path in keys[0] if all(path in other for other in keys)] if keys else []
    limit = memory_limit if memory_limit is not None else _memory() // MEMORY_SHARE
    split = [path[0] for path in shared if len(path) == 1]
    row_filter = (
        partial(_drop_unnamed_types, plan.event_types, stream) if narrow and plan.event_types is not None else None
    )
    for piece in partitioned(stream.data, split, needed, limit, [stream.type], row_filter, progress):
        yield read_table(piece, needed)


def _drop_unnamed_types(types: Sequence[str], stream: Events, table: pa.Table) -> pa.Table:
    """Drop events of types that no step names, except one of each, so that the type is known to occur."""
    if not {stream.type, stream.time} <= set(table.column_names):
        return table
    if not times_are_readable(table[stream.time]):
        return table  # Events without a time are rejected, regardless of their type.
    kinds, names = type_codes(Table({stream.type: table[stream.type]}, table.num_rows), stream.type)
    is_retained = type_mask(types, kinds, names)
    first = np.empty(len(names) + 1, np.int64)
    first[kinds[::-1]] = np.arange(len(kinds))[::-1]  # the last write wins
    is_retained[first[:-1]] = True
    return table if is_retained.all() else table.filter(pa.array(is_retained))


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not available everywhere
        return 8 << 30


def _rows(
    plan: Plan,
    stream: Events,
    table: Table,
    relations: Mapping[str, v.Relation],
    event_type: str | None = None,
    keys: Mapping[str, str] | None = None,
) -> EventBatch:
    """The rows of one input; ``keys`` maps names of keys in patterns to its columns."""
    time = time_column(table, stream.time)
    if event_type is None:
        kinds, kind_names = type_codes(table, stream.type)
    else:
        kinds, kind_names = np.zeros(table.rows, np.int32), [event_type]
    renamed = {key: require(table, column, "key") for key, column in (keys or {}).items() if key != column}
    keyed_table = replace(table, columns={**table.columns, **renamed})
    return EventBatch(
        time=time,
        type_codes=kinds,
        type_names=kind_names,
        columns=keyed_table.columns,
        keys={
            route.id: dict(zip(route.columns, (key_column(keyed_table, path) for path in route.paths), strict=True))
            for route in plan.routes
        },
        identity=_identity([require(table, name, "id") for name in stream.id], table, event_type),
        tie_breakers=[_rank_column(require(table, name, "order_by")) for name in stream.order_by],
        relations=relations,
        dedupe=stream.dedupe,
    )


def _identity(ids: list[Column], table: Table, event_type: str | None) -> IntArray:
    """The identity of each event; among several inputs it includes the type, because ids are unique within one only."""
    columns = ids or [table.columns[name] for name in sorted(table.columns)]
    if any(isinstance(column, list) for column in columns):
        hashed = identity_of if ids else hash_values
        words = [hashed([value_at(column, row) for column in columns]) for row in range(table.rows)]
        found = np.array(words, np.int64).reshape(table.rows)
    else:
        found = identities(ids, table.columns)
    return found if event_type is None else hash_columns([pa.array(found), pa.repeat(event_type, table.rows)])


def _rank_column(column: Column) -> Column:
    """A column to order by; values of mixed types are replaced by their ranks."""
    if not isinstance(column, list):
        return column
    ranks = [rank(v.plain(value)) for value in column]
    place = {found: i for i, found in enumerate(sorted(set(ranks)))}
    return pa.array([place[found] for found in ranks], pa.int64())


# several inputs as one


def _joined(parts: Sequence[EventBatch]) -> EventBatch:
    """Concatenate the rows of several inputs; a column that an input lacks is null in its rows."""
    kind_names = list(dict.fromkeys(name for part in parts for name in part.type_names))
    sizes = [len(part) for part in parts]
    names = list(dict.fromkeys(name for part in parts for name in part.columns))
    routes = {
        route: {name: _appended([part.keys[route][name] for part in parts], sizes) for name in keys}
        for route, keys in parts[0].keys.items()
    }
    ranks = max(len(part.tie_breakers) for part in parts)
    return EventBatch(
        time=np.concatenate([part.time for part in parts]),
        type_codes=np.concatenate(
            [
                np.where(part.type_codes < 0, -1, part.type_codes + kind_names.index(part.type_names[0]))
                for part in parts
            ]
        ).astype(np.int32),
        type_names=kind_names,
        columns={name: _appended([part.columns.get(name) for part in parts], sizes) for name in names},
        keys=routes,
        identity=np.concatenate([part.identity for part in parts]),
        tie_breakers=[
            _appended([part.tie_breakers[i] if i < len(part.tie_breakers) else None for part in parts], sizes)
            for i in range(ranks)
        ],
        relations=parts[0].relations,
        dedupe=parts[0].dedupe,
    )


def _appended(columns: Sequence[Column | None], sizes: Sequence[int]) -> Column:
    """Concatenate columns: as an array if they have a common type, else as a list of values."""
    present = [column for column in columns if column is not None]
    if not any(isinstance(column, list) for column in present):
        types = list(dict.fromkeys(column.type for column in present))
        common = types[0] if len(types) == 1 else _common(types)
        if common is not None:
            arrays = [
                pa.nulls(size, common) if column is None else column.cast(common)
                for column, size in zip(columns, sizes, strict=True)
            ]
            return pa.concat_arrays([chunk for array in arrays for chunk in getattr(array, "chunks", [array])])
    out: list[object] = []
    for column, size in zip(columns, sizes, strict=True):
        out += [None] * size if column is None else [value_at(column, row) for row in range(size)]
    return out


def _common(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The common type: int64 for integers, double for numbers; nulls adapt to the other type. None for other mixes."""
    known = [kind for kind in types if not pa.types.is_null(kind)]
    if len(set(known)) == 1:
        return known[0]
    if known and all(pa.types.is_integer(kind) for kind in known):
        return pa.int64()
    if known and all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in known):
        return pa.float64()
    return None
