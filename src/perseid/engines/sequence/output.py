"""Converts encoded matches to rows: ids, keys, returned columns, evidence, suppression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.columns import AnyColumn, Loose, OrderedEvents, unified_values, value_at
from perseid.engines.sequence.match_buffer import MatchBuffer
from perseid.engines.sequence.measures import last_of_step, measure
from perseid.engines.sequence.run import make_space
from perseid.engines.sequence.schema import ARROW, STANDARD
from perseid.runtime.arrays import MOMENT, ArrowColumn, BoolArray, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import hex_ids, id_bytes, key_words, match_words
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import match_scope
from perseid.semantics.evaluate import evaluate
from perseid.semantics.events import Event
from perseid.semantics.hashing import key_words as reference_words
from perseid.semantics.hashing import match_seeds
from perseid.semantics.scope import MatchScope

STANDARD_SCHEMA = pa.schema(STANDARD)


@dataclass(frozen=True)
class PatternMatches:
    """Matches of one pattern, and the events that they refer to."""

    bytecode: CompiledPattern
    raw: MatchBuffer
    batch: OrderedEvents
    offsets: IntArray
    occurrence: IntArray | None
    arrays: y.Arrays | None
    duplicates: int = 0

    @property
    def pattern(self) -> CorePattern:
        return self.bytecode.pattern.pattern


def match_table(
    found: Sequence[PatternMatches],
    rows: EventBatch,
    schema: pa.Schema,
    last_ends: Mapping[str, dict[tuple[int, int], int]] | None = None,
) -> tuple[pa.Table, Counter[str]]:
    """The rows of all patterns in one schema, and counters."""
    tables, counted = match_tables(found, rows, schema, last_ends)
    return joined(tables.values(), schema), counted


def joined(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate tables in the schema; a column of unknown type gets the type of its values."""
    tables = list(tables)
    if len(tables) == 1 and tables[0].schema == schema:
        return tables[0]
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="permissive")


def match_tables(
    found: Sequence[PatternMatches],
    rows: EventBatch,
    schema: pa.Schema,
    last_ends: Mapping[str, dict[tuple[int, int], int]] | None = None,
) -> tuple[dict[str, pa.Table], Counter[str]]:
    """The rows of each pattern in the schema of all, and counters.

    The last argument has, by pattern, the matches emitted before that may suppress new ones; it is updated.
    """
    tables = {}
    counted: Counter[str] = Counter(matches=0, timed_out=0, suppressed=0, evidence_dropped=0, capped=0)
    for matches in found:
        # A DataFrame is unordered: rows stay in the order of the search.
        last = None if last_ends is None else last_ends[matches.pattern.name]
        listing, remaining = materialize(matches, rows, counted, wanted=schema, last=last)
        counted["timed_out"] += int(matches.raw.timed_out[remaining].sum())
        whole = len(remaining) == len(matches.raw)
        tables[matches.pattern.name] = _fitted(
            listing.table if whole else listing.table.take(pa.array(remaining)), schema
        )
    counted["matches"] = sum(table.num_rows for table in tables.values()) - counted["timed_out"]
    return tables, counted


def materialize(
    matches: PatternMatches,
    rows: EventBatch,
    counted: Counter[str],
    horizon: int | None = None,
    wanted: pa.Schema | None = None,
    last: dict[tuple[int, int], int] | None = None,
) -> tuple[MatchRows, IntArray]:
    """Materialize the matches of one pattern; returns also the indices of those that remain, and counts the others.

    If only some columns are ``wanted``, those are materialized. Otherwise, or if the pattern suppresses matches, the
    indices are ordered by end, start and id.
    """
    listing = rows_of(matches, rows, STANDARD_SCHEMA if wanted is None else wanted)
    ordered = wanted is None or matches.pattern.suppress is not None
    order = _order(matches, listing.lanes) if ordered else np.arange(len(matches.raw))
    if matches.pattern.suppress is not None and horizon is not None:
        # An earlier, undecided match may suppress a later, decided one.
        frontier = min([horizon, *matches.raw.frontiers.tolist()])
        order = order[matches.raw.timed_out[order] | (matches.raw.end[order] <= frontier)]
    remaining = order if matches.pattern.suppress is None else suppress(matches, listing, order, last)
    counted["suppressed"] += len(order) - len(remaining)
    counted["capped"] += matches.raw.capped
    if "evidence_dropped" in listing.table.column_names:
        counted["evidence_dropped"] += pc.sum(listing.table["evidence_dropped"].take(pa.array(remaining))).as_py() or 0
    return listing, remaining


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
        elif pa.types.is_null(field.type):
            columns.append(table[field.name])
        else:
            columns.append(cast_column(table[field.name], field.type))
    return pa.table(columns, names=schema.names)


@dataclass(frozen=True)
class MatchRows:
    """Matches of one pattern as a table, their ids as integers, and columns of mixed types as lists."""

    table: pa.Table
    lanes: IntArray
    loose: Mapping[str, Loose]

    def values(self, name: str) -> Loose:
        """The plain values of a column."""
        return self.loose[name] if name in self.loose else [v.plain(x) for x in self.table[name].to_pylist()]


def cast_column(column: ArrowColumn, kind: pa.DataType) -> ArrowColumn:
    """Cast a column; to string by way of Python values if Arrow has no such cast."""
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return (
            loose_array(column.to_pylist()).cast(pa.string())
            if pa.types.is_string(kind)
            else column.cast(kind, safe=False)
        )


def rows_of(matches: PatternMatches, rows: EventBatch, wanted: pa.Schema) -> MatchRows:
    """Build the rows of one pattern's matches, with those standard columns that are wanted."""
    raw, batch, core = matches.raw, matches.batch, matches.pattern
    count = len(raw)
    first_rows = _rows_at(batch, raw.starts)
    keys = rows.keys[matches.bytecode.pattern.route]
    names = list(keys)
    key_columns = [take(keys[name], first_rows) for name in names]
    lanes = match_lanes(matches, rows, _key_words([keys[name] for name in names], key_columns, first_rows))
    standard: dict[str, Callable[[], pa.Array]] = {
        "pattern": lambda: _constant(core.name, count),
        "match_id": lambda: hex_ids(lanes) if pa.types.is_string(wanted.field("match_id").type) else id_bytes(lanes),
        "kind": lambda: _kinds(raw),
        "op": lambda: _constant("+", count),
        "revision": lambda: pa.array(np.zeros(count, np.int32)),
        "start": lambda: pa.array(batch.time[raw.starts]).cast(MOMENT),
        "end": lambda: pa.array(raw.end, mask=raw.end > v.LATEST).cast(MOMENT),
    }
    columns = {name: make() for name, make in standard.items() if name in wanted.names}
    loose: dict[str, Loose] = {}
    for shown, name, column in zip(matches.bytecode.names.keys, names, key_columns, strict=True):
        columns[shown] = column
        if isinstance(keys[name], list):
            loose[shown] = [v.plain(keys[name][row]) for row in first_rows.tolist()]
    for shown, values in zip(matches.bytecode.names.returned, returned(matches).values(), strict=True):
        columns[shown] = loose_array(values) if isinstance(values, list) else values
        if isinstance(values, list):
            loose[shown] = values
    if core.evidence is not None:
        columns["evidence"], columns["evidence_dropped"] = evidence(matches, core.evidence.limit)
    return MatchRows(pa.table(columns), lanes, loose)


def _order(matches: PatternMatches, lanes: IntArray) -> IntArray:
    """The order of matches by end, start and id. Few ends are equal: only those matches are compared by all three."""
    end = matches.raw.end
    order = np.argsort(end)
    ends = end[order]
    tied = ends[1:] == ends[:-1]
    if tied.any():
        is_tied = np.concatenate([[False], tied]) | np.concatenate([tied, [False]])
        tied_rows = order[is_tied]
        ids, start = lanes.view(np.uint64)[tied_rows], matches.batch.time[matches.raw.starts[tied_rows]]
        order[is_tied] = tied_rows[np.lexsort((ids[:, 1], ids[:, 0], start, end[tied_rows]))]
    return order


def _kinds(raw: MatchBuffer) -> pa.Array:
    if raw.timed_out.any():
        return pa.array(np.where(raw.timed_out, "timed out", "match"))
    return _constant("match", len(raw))


def _constant(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text])).dictionary_decode()


def _rows_at(batch: OrderedEvents, positions: IntArray) -> IntArray:
    return positions if batch.order is None else batch.order[positions]


def take(column: AnyColumn, rows: IntArray, missing: BoolArray | None = None) -> pa.Array:
    """Rows of a column, null where they are ``missing``."""
    if isinstance(column, list):
        return loose_array([column[row] for row in rows.tolist()])
    found = column.take(pa.array(rows, mask=missing))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _key_words(keys: Sequence[AnyColumn], taken: Sequence[pa.Array], rows: IntArray) -> IntArray:
    if not any(isinstance(key, list) for key in keys):
        return key_words(taken, rows=len(rows))
    words = [reference_words([value_at(key, row) for key in keys]) for row in rows.tolist()]
    return np.array(words, np.int64).reshape(len(rows), 2)


def loose_array(values: Sequence[object]) -> pa.Array:
    """Convert values of mixed types to an array, as strings if they have no common type."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def match_lanes(matches: PatternMatches, rows: EventBatch, words: IntArray) -> IntArray:
    """Both 64-bit halves of every match id."""
    raw, batch = matches.raw, matches.batch
    at = _rows_at(batch, raw.positions)
    occurrence = np.zeros(len(at), np.int64) if matches.occurrence is None else matches.occurrence[raw.positions]
    seeds = match_seeds(matches.pattern.semantic_hash)
    return match_words(
        seeds[0], seeds[1], words, raw.offsets, raw.steps, batch.time[raw.positions],
        np.ascontiguousarray(occurrence, np.int64), np.ascontiguousarray(rows.identity[at], np.int64),
    )  # fmt: skip


def returned(matches: PatternMatches) -> dict[str, AnyColumn]:
    """Compute the returned columns: gathered, by the kernel, or by the reference evaluator."""
    raw, core = matches.raw, matches.pattern
    out: dict[str, AnyColumn] = {}
    evaluated = []
    for (name, formula, family), (_, expr) in zip(matches.bytecode.outputs, core.returns, strict=True):
        gathered = matches.bytecode.output_columns.get(name)
        if gathered is not None:
            out[name] = _gathered(matches, gathered[0], matches.batch.columns[gathered[1]])
        elif formula is not None:
            out[name] = _measured(matches, formula, family)
        else:
            evaluated.append((name, expr))
            out[name] = None
    if evaluated:
        scopes = [scope_of(matches, i) for i in range(len(raw))]
        for name, expr in evaluated:
            out[name] = [evaluate(expr, scope) for scope in scopes]
    return out


def _gathered(matches: PatternMatches, step: int, column: AnyColumn) -> AnyColumn:
    """Gather a column of the last event of a step."""
    raw = matches.raw
    last = np.empty(len(raw), np.int64)
    last_of_step(raw.offsets, raw.steps, raw.positions, step, last)
    missing = last < 0
    at = _rows_at(matches.batch, np.where(missing, 0, last)) if len(matches.batch) else last
    if isinstance(column, list):
        return [
            None if is_missing else v.plain(column[row])
            for row, is_missing in zip(at.tolist(), missing.tolist(), strict=True)
        ]
    return take(column, at, missing if missing.any() else None)


def _measured(matches: PatternMatches, formula: int, family: int) -> pa.Array:
    raw = matches.raw
    count = len(raw)
    ints, nulls = np.zeros(count, np.int64), np.zeros(count, np.int64)
    doubles = np.zeros(count if family == y.DOUBLE else 0, np.float64)
    own = matches.pattern.lone_step
    longest = int(np.diff(raw.offsets).max()) if count else 1
    scale = 1
    while 256 * scale < longest + 2:
        scale *= 2
    space, reals = make_space(matches.bytecode, scale)
    assert matches.arrays is not None
    arrays = matches.arrays._replace(space=space, reals=reals)
    with np.errstate(all="ignore"):
        measure(
            arrays, formula, own is not None, raw.offsets, raw.steps, raw.positions, raw.unified, family == y.DOUBLE,
            ints, doubles, nulls,
        )  # fmt: skip
    mask = nulls != 0
    if family == y.DOUBLE:
        return pa.array(doubles, mask=mask)
    if family == y.STRING:
        codes = pa.array(np.where(mask, 0, ints), mask=mask)
        return matches.batch.texts.take(codes).cast(pa.string())
    if family == y.BOOLEAN:
        return pa.array(ints != 0, mask=mask)
    whole = pa.array(ints, mask=mask)
    return whole.cast(pa.int32()).cast(pa.date32()) if family == y.DATE else whole.cast(ARROW[family])


def events_of(matches: PatternMatches, i: int) -> list[tuple[int, Event]]:
    """The contributing events of a match, with their steps."""
    return [(step, matches.batch.event(position)) for step, position in matches.raw.bound_events(i)]


def scope_of(matches: PatternMatches, i: int) -> MatchScope:
    """The scope in which the reference evaluator computes expressions of a match."""
    unified = unified_values(matches.pattern, matches.bytecode.columns, matches.batch, matches.raw.unified[i])
    return match_scope(matches.pattern, events_of(matches, i), unified, matches.batch.relations)


def evidence(matches: PatternMatches, limit: int) -> tuple[pa.ListArray, pa.Array]:
    """The contributing events of each match as structs, up to the limit, and the number of those dropped."""
    raw = matches.raw
    counts = np.diff(raw.offsets)
    shown = np.minimum(counts, limit)
    offsets = np.zeros(len(raw) + 1, np.int64)
    np.cumsum(shown, out=offsets[1:])
    which = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], shown) + np.repeat(raw.offsets[:-1], shown)
    at = _rows_at(matches.batch, raw.positions[which.astype(np.int64)])
    names = [name for name in matches.batch.columns if not name.startswith("\x00")]
    fields = [take(matches.batch.columns[name], at) for name in names]
    events = pa.StructArray.from_arrays(fields, names=names)
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), events)
    return lists, pa.array(counts - shown)


def suppress(
    matches: PatternMatches, listing: MatchRows, order: IntArray, last: dict[tuple[int, int], int] | None = None
) -> IntArray:
    """Drop matches that follow one with equal values within the duration; timed-out ones remain.

    ``last`` has, by these values, the end of the last match that was emitted; it is updated.
    """
    clause = matches.pattern.suppress
    assert clause is not None
    assert isinstance(clause.duration, int)
    names = matches.bytecode.names
    keys = [".".join(path.parts) for path in matches.pattern.partition]
    shown = dict(zip((name for name, _ in matches.pattern.returns), names.returned, strict=True))
    shown |= dict(zip(keys, names.keys, strict=True))  # a key hides a returned column of its name
    values = [listing.values(shown[name]) for name in clause.by or keys]
    # State between calls has hashes; a complete result uses the values themselves, which may be of mixed types.
    group_of: Callable[[Sequence[v.Value]], Any] = reference_words if last is not None else _identities
    last = {} if last is None else last
    remaining = []
    for i in order.tolist():
        if not matches.raw.timed_out[i]:
            group = group_of([column[i] for column in values])
            end = int(matches.raw.end[i])
            if group in last and end - last[group] < clause.duration:
                continue
            last[group] = end
        remaining.append(i)
    return np.array(remaining, np.int64)


def _identities(values: Sequence[v.Value]) -> tuple[object, ...]:
    return tuple(v.identity(value) for value in values)
