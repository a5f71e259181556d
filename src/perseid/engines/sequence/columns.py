"""Encodes events as kernel columns: numbers, codes of strings, null bits, and masks of the steps an event fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern, Posting
from perseid.engines.sequence.conditions import evaluate as evaluate_bytecode
from perseid.engines.sequence.expression_compiler import LoadedColumn
from perseid.engines.sequence.layout import Arrays, Codes, Ints
from perseid.engines.sequence.skip_index import index_blocks
from perseid.lang import expressions as ex
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, Int32Array, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.evaluate import evaluate_all
from perseid.semantics.events import Event
from perseid.semantics.scope import Bindings, MatchScope, attribute_path

T = TypeVar("T", bound=np.generic)
Loose = list[object]
"""A column with values of mixed types: only the reference evaluator can process it."""
AnyColumn: TypeAlias = ArrowColumn | Loose
"""An input column."""


@dataclass(frozen=True)
class Loaded:
    """A column in event order: numbers, or codes of strings in a dictionary; and its null mask."""

    values: NDArray[Any]
    missing: BoolArray | None
    """Null mask; None if there are no nulls."""
    texts: pa.Array = None


@dataclass
class OrderedEvents:
    """Events in order: times and types are sorted, columns are not; ``order`` maps positions to rows."""

    time: IntArray
    kinds: Int32Array
    """Codes of event types, -1 for null and for types that no step names."""
    kind_names: Sequence[str]
    columns: Mapping[str, AnyColumn]
    order: IntArray | None = None
    """Row numbers; None if columns are sorted too."""
    relations: Mapping[str, v.Relation] = field(default_factory=dict)
    decided: Mapping[int, BoolArray] = field(default_factory=dict)
    """Predicates that the driver evaluated, by id: a mask by row."""
    computed: Mapping[str, pa.Array] = field(default_factory=dict)
    """Columns that the driver computed, by the text of their expression."""

    loaded: dict[tuple[str, int], Loaded] = field(default_factory=dict)
    """Columns in event order, by expression and family: patterns over the same events share them."""

    texts: pa.Array = None
    """Strings by code, set when the kernel's arrays are built."""

    def __len__(self) -> int:
        return len(self.time)

    def types(self) -> dict[str, t.Type]:
        return {name: column_type(column) for name, column in self.columns.items()}

    def row(self, position: int) -> int:
        return position if self.order is None else int(self.order[position])

    def event(self, position: int) -> Event:
        """One event in the form that the reference evaluator takes."""
        code, row = int(self.kinds[position]), self.row(position)
        attributes = {name: value_at(column, row) for name, column in self.columns.items()}
        return Event(self.kind_names[code] if code >= 0 else None, int(self.time[position]), attributes, str(position))

    def reorder(self, values: NDArray[T]) -> NDArray[T]:
        """Reorder values from row order to event order."""
        return values if self.order is None else values[self.order]


def batch_in(rows: EventBatch, order: IntArray) -> OrderedEvents:
    """Rows as events in an order; their columns are not copied."""
    return OrderedEvents(
        time=rows.time[order],
        kinds=rows.type_codes[order],
        kind_names=rows.type_names,
        columns=rows.columns,
        order=order,
        relations=rows.relations,
        decided=rows.predicate_masks,
        computed=rows.computed_columns,
    )


def value_at(column: AnyColumn, row: int) -> v.Value:
    """A column's value in a row, as the reference evaluator takes it."""
    if isinstance(column, list):
        return v.plain(column[row])
    found = column[row]
    return v.plain(dict(found.as_py()) if pa.types.is_map(column.type) and found.is_valid else found.as_py())


def unified_values(
    pattern: CorePattern, columns: Sequence[LoadedColumn], batch: OrderedEvents, pairs: IntArray
) -> dict[str, object]:
    """The values of unified names, from the (position, column) that bound each; position -1 is unbound."""
    out: dict[str, object] = {}
    for n, name in enumerate(sorted(pattern.unified)):
        position, column = int(pairs[2 * n]), int(pairs[2 * n + 1])
        if position >= 0:
            path = columns[column].expr
            assert isinstance(path, ex.Ref)
            out[name] = attribute_path(value_at(batch.columns[path.parts[0]], batch.row(position)), path.parts[1:])
    return out


def column_type(column: AnyColumn) -> t.Type:
    return t.Unknown() if isinstance(column, list) else arrow_type(column.type)


def arrow_type(type_: pa.DataType) -> t.Type:
    """The expression type of an Arrow type."""
    if pa.types.is_dictionary(type_):
        return arrow_type(type_.value_type)
    for test, found in (
        (pa.types.is_null, t.Null()),
        (pa.types.is_boolean, t.Boolean()),
        (pa.types.is_integer, t.Integer()),
        (pa.types.is_floating, t.Double()),
        (pa.types.is_timestamp, t.Timestamp()),
        (pa.types.is_date, t.Date()),
        (pa.types.is_duration, t.Duration()),
    ):
        if test(type_):
            return found
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view():
        return t.String()
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return t.BinaryType()
    if pa.types.is_decimal(type_):
        return t.Decimal(type_.precision, type_.scale) if type_.precision <= 38 else t.Unknown()
    if pa.types.is_struct(type_):
        return t.Struct(tuple((f.name, arrow_type(f.type)) for f in type_))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return t.Array(arrow_type(type_.value_type))
    if pa.types.is_map(type_):
        return t.Map(arrow_type(type_.key_type), arrow_type(type_.item_type))
    return t.Unknown()


def kernel_arrays(
    bytecode: CompiledPattern, batch: OrderedEvents, space: IntArray, reals: FloatArray, *, posted: bool = False
) -> Arrays:
    """Build the kernel's arrays from a batch; codes of string constants are filled into a copy of the tables.

    If ``posted``, the postings are built, by which steps that must equal an earlier event find theirs.
    """
    n = len(batch)
    events = np.zeros((y.E_COLUMNS + len(bytecode.columns), n), np.int64)
    last_double = max((i for i, c in enumerate(bytecode.columns) if c.family == y.DOUBLE), default=-1)
    doubles = np.zeros((last_double + 1, n) if last_double >= 0 else (1, 1), np.float64)
    nulls = events[y.E_NULLS]
    events[y.E_TIME] = batch.time
    texts: dict[int, Loaded] = {}
    opaque: dict[object, int] = {}
    for i, column in enumerate(bytecode.columns):
        if column.formula is not None:
            continue
        found = _load(column, batch, opaque)
        if found.missing is not None:
            nulls |= found.missing.astype(np.int64) << i
        if column.family == y.STRING:
            texts[i] = found
        elif column.family == y.DOUBLE:
            doubles[i] = found.values
        else:
            events[y.E_COLUMNS + i] = found.values
    blocks = np.zeros((n >> 6) + (n >> 12) + 4, np.int64)
    blocks[0] = (n >> 6) + 2
    arrays = Arrays(
        tables=_encode_texts(bytecode, texts, events, batch),
        constants=bytecode.constants,
        events=events,
        doubles=doubles,
        blocks=blocks,
        postings=np.zeros(1, np.int64),
        space=space,
        reals=reals,
    )
    for i, column in enumerate(bytecode.columns):
        if column.formula is not None:
            compute_column(arrays, column.formula, i, column.family == y.DOUBLE)
    _mark_bits(bytecode, batch, arrays)
    index_blocks(arrays)
    return arrays._replace(postings=_build_postings(bytecode.postings, arrays.events)) if posted else arrays


def _build_postings(postings: Sequence[Posting], events: IntArray) -> IntArray:
    """All postings in one array: for each the group of every event, where groups begin, and the events by group."""
    head = np.zeros(1 + len(postings) * y.POSTING_WIDTH, np.int64)
    head[0] = len(postings)
    parts, size = [head], len(head)
    for number, posting in enumerate(postings):
        own_events = np.flatnonzero(events[y.E_MASK] >> posting.bit & 1 & ~_missing(events, posting.own))
        codes = np.zeros(len(own_events), np.int64)
        earlier_groups = np.where(_missing(events, posting.earlier), -1, 0)
        for own_column, earlier_column in zip(posting.own, posting.earlier, strict=True):
            values, found = np.unique(events[y.E_COLUMNS + own_column, own_events], return_inverse=True)
            earlier_values = events[y.E_COLUMNS + earlier_column]
            place = np.minimum(np.searchsorted(values, earlier_values), max(len(values) - 1, 0))
            known = (earlier_groups >= 0) & (values[place] == earlier_values if len(values) else False)
            # Combine the groups of the columns so far with those of this column; renumbering the pairs bounds the
            # codes.
            pairs, codes = np.unique(codes * max(len(values), 1) + found, return_inverse=True)
            wanted = earlier_groups * max(len(values), 1) + place
            place = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
            earlier_groups = np.where(known & (pairs[place] == wanted if len(pairs) else False), place, -1)
        groups = np.concatenate([[0], np.cumsum(np.bincount(codes))]) if len(own_events) else np.zeros(1, np.int64)
        for word, part in (
            (y.P_GROUP_OF, earlier_groups),
            (y.P_GROUPS, groups),
            (y.P_EVENTS, own_events[np.argsort(codes, kind="stable")]),
        ):
            head[1 + number * y.POSTING_WIDTH + word] = size
            parts.append(part)
            size += len(part)
    return np.concatenate(parts).astype(np.int64)


def _missing(events: IntArray, columns: Sequence[int]) -> IntArray:
    """1 for each event that is null in any of the columns."""
    bits = sum(1 << column for column in set(columns))
    return (events[y.E_NULLS] & bits != 0).astype(np.int64)


def _load(column: LoadedColumn, batch: OrderedEvents, opaque: dict[object, int]) -> Loaded:
    if column.family == y.OPAQUE:
        return _arrange(_opaque(column, batch, opaque), batch)  # codes differ by pattern
    key = column.text, column.family
    if key not in batch.loaded:
        batch.loaded[key] = _arrange(read_column(column, batch), batch)
    return batch.loaded[key]


def _arrange(array: pa.Array, batch: OrderedEvents) -> Loaded:
    missing = batch.reorder(np.asarray(array.is_null())) if array.null_count else None
    texts = None
    if not pa.types.is_integer(array.type) and not pa.types.is_floating(array.type):
        coded = array if pa.types.is_dictionary(array.type) else array.cast(pa.large_string()).dictionary_encode()
        texts, array = coded.dictionary.cast(pa.large_string()), coded.indices
    filled = array.fill_null(0) if array.null_count else array
    return Loaded(batch.reorder(np.asarray(filled)), missing, texts)


def read_column(column: LoadedColumn, batch: OrderedEvents) -> pa.Array:
    """A column by row, in the Arrow type of its family: int64, double, or string."""
    expr = column.expr
    if batch.computed:
        computed = batch.computed.get(column.text)
        if computed is not None:
            return _plain_array(computed, column.family)
    if isinstance(expr, ex.Ref):
        found = batch.columns[expr.parts[0]]
        if not isinstance(found, list):
            for part in expr.parts[1:]:
                found = pc.struct_field(found, part)
            return _plain_array(found, column.family)
    return _evaluate_column(column, batch)


def _opaque(column: LoadedColumn, batch: OrderedEvents, known: dict[object, int]) -> pa.Array:
    """A code for each distinct value, equal for values that unify; null stays null and unifies with nothing."""
    assert isinstance(column.expr, ex.Ref)
    found = batch.columns.get(column.expr.parts[0])
    rows = max((len(other) for other in batch.columns.values()), default=len(batch))
    codes: list[int | None] = []
    for row in range(rows):
        value = None if found is None else attribute_path(value_at(found, row), column.expr.parts[1:])
        plain = v.plain(value)
        if plain is None:
            codes.append(None)
            continue
        if v.equal(plain, plain) is not True:
            codes.append(known.setdefault((len(known), "alone"), len(known)))  # a struct is bound but equals nothing
            continue
        if isinstance(plain, date):
            plain = v.midnight(plain)
        codes.append(known.setdefault(v.identity(plain), len(known)))
    return pa.array(codes, pa.int64())


def _plain_array(found: ArrowColumn, family: int) -> pa.Array:
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
        if isinstance(found, pa.ChunkedArray):
            found = found.chunk(0)
    if family == y.STRING:
        return found
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    if family == y.DOUBLE:
        return found.cast(pa.float64())
    if family == y.TIMESTAMP:
        return found.cast(pa.timestamp("us", found.type.tz), safe=False).cast(pa.int64())
    if family == y.DATE:
        return found.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if family == y.DURATION:
        return found.cast(pa.duration("us"), safe=False).cast(pa.int64())
    return found.cast(pa.int64())


def _evaluate_column(column: LoadedColumn, batch: OrderedEvents) -> pa.Array:
    """Compute a column by the reference evaluator, once per distinct value if it reads a single column."""
    refs = {e.parts for e in ex.walk(column.expr) if isinstance(e, ex.Ref)}
    calls = any(isinstance(e, ex.Call) and e.name in ("time", "type") for e in ex.walk(column.expr))
    if len(refs) == 1 and not calls:
        (parts,) = refs
        found = batch.columns.get(parts[0])
        if found is not None and not isinstance(found, list) and not pa.types.is_nested(found.type):
            if isinstance(found, pa.ChunkedArray):
                found = found.combine_chunks()
            coded = found.dictionary_encode() if not pa.types.is_dictionary(found.type) else found
            texts = [*coded.dictionary.to_pylist(), None]
            values = _evaluate_events(column, (Event(None, 0, {parts[0]: text}, "") for text in texts), batch)
            codes = coded.indices.fill_null(len(values) - 1)
            return _array(values, column.family).take(codes)
    return _array(_evaluate_events(column, _every_event(batch), batch), column.family)


def _every_event(batch: OrderedEvents) -> Iterator[Event]:
    """Yield every row as an event; a row that is not in the batch is an empty event."""
    rows = max((len(column) for column in batch.columns.values()), default=len(batch))
    places = np.full(rows, -1, np.int64)
    places[np.arange(len(batch)) if batch.order is None else batch.order] = np.arange(len(batch))
    empty_event = Event(None, 0, {}, "")
    for place in places.tolist():
        yield batch.event(place) if place >= 0 else empty_event


def _evaluate_events(
    column: LoadedColumn, events: Iterable[Event], batch: OrderedEvents
) -> list[int | float | str | None]:
    scopes = (MatchScope(frozenset(), Bindings(), event, batch.relations) for event in events)
    return [number_of(value, column.family) for value in evaluate_all(column.expr, scopes)]


def number_of(value: Any, family: int) -> int | float | str | None:
    """Convert a value to its column's representation; None for null and for a value of another family."""
    match family, value:
        case (y.BOOLEAN, bool()):
            return int(value)
        case (_, bool()):
            return None
        case (y.INTEGER, int()) | (y.STRING, str()) | (y.DOUBLE, float()):
            return value
        case (y.TIMESTAMP, datetime()):
            return (value - v.EPOCH) // v.MICROSECOND
        case (y.DATE, date()):
            return (value - v.EPOCH.date()).days
        case (y.DURATION, timedelta()):
            return v.microseconds(value)
    return None


def _array(values: Sequence[int | float | str | None], family: int) -> pa.Array:
    kind = pa.string() if family == y.STRING else pa.float64() if family == y.DOUBLE else pa.int64()
    return pa.array(values, kind)


def _encode_texts(
    bytecode: CompiledPattern, texts: Mapping[int, Loaded], events: IntArray, batch: OrderedEvents
) -> IntArray:
    """Encode strings with one dictionary for all columns, sorted if conditions compare by order; return the tables."""
    if not texts and not bytecode.texts:
        return bytecode.tables
    dictionaries = [column.texts for column in texts.values()]
    constants = pa.array(list(bytecode.texts.values()), pa.large_string())
    all_texts = pa.concat_arrays([*dictionaries, constants])
    if bytecode.sorted_texts:
        unique = pc.unique(all_texts)
        unique = unique.take(pc.array_sort_indices(unique))
    else:
        unique = pc.unique(all_texts)
    batch.texts = unique
    codes = pc.index_in(all_texts, unique).to_numpy(zero_copy_only=False).astype(np.int64)
    at = 0
    for i, column in texts.items():
        size = len(column.texts)
        if size:
            np.take(codes[at : at + size], column.values, out=events[y.E_COLUMNS + i])
        at += size
    tables = bytecode.tables.copy()
    for place, code in zip(bytecode.texts, codes[at:], strict=True):
        tables[place] = code
    return tables


@y.entry
def compute_column(M: Arrays, formula: int, column: int, double: bool) -> None:
    """Fill a column that a formula computes from others."""
    e, w = M.events, M.space
    for i in range(e.shape[1]):
        evaluate_bytecode(M, formula, w[y.A_BIND], i)
        if w[w[y.A_NULLS]]:
            e[y.E_NULLS, i] |= 1 << column
        elif double:
            M.doubles[column, i] = M.reals[0]
        else:
            e[y.E_COLUMNS + column, i] = w[w[y.A_STACK]]


@y.entry
def mark_bit(M: Arrays, kinds: Codes, kind: int, formulas: Ints, bit: int, row: int, every: bool) -> None:
    """Set a bit of every event of the type (of any type if ``every``) for which the formulas hold."""
    e, w = M.events, M.space
    for i in range(len(kinds)):
        if not every and kinds[i] != kind:
            continue
        fits = True
        for f in formulas:
            if evaluate_bytecode(M, f, w[y.A_BIND], i) != 1:
                fits = False
                break
        if fits:
            e[row, i] |= 1 << bit


def _mark_bits(bytecode: CompiledPattern, batch: OrderedEvents, arrays: Arrays) -> None:
    mask, must = arrays.events[y.E_MASK], arrays.events[y.E_MUST]
    kinds = np.ascontiguousarray(batch.kinds, np.int32)
    codes = {name: i for i, name in enumerate(batch.kind_names)}
    plain = np.zeros(len(batch.kind_names) + 1, np.int64)  # the last entry is for null
    conditional = []
    for bit, meaning in enumerate(bytecode.bits):
        if meaning.predicates:
            conditional.append((bit, meaning))
        elif meaning.event_type is None:
            plain |= 1 << bit
        elif meaning.event_type in codes:
            plain[codes[meaning.event_type]] |= 1 << bit
    if plain.any():
        np.take(plain, kinds, out=mask, mode="wrap")
    for bit, meaning in conditional:
        if meaning.event_type is not None and meaning.event_type not in codes:
            continue
        kind = codes[meaning.event_type] if meaning.event_type is not None else -1
        masked = [n for n in meaning.predicates if n in batch.decided]
        formulas = np.array([bytecode.alone[n] for n in meaning.predicates if n not in batch.decided], np.int64)
        if masked:
            holds = np.ones(len(batch), bool) if meaning.event_type is None else kinds == kind
            for n in masked:
                holds &= batch.reorder(batch.decided[n])
            if not len(formulas):
                mask[holds] |= 1 << bit
                continue
        mark_bit(arrays, kinds, kind, formulas, bit, y.E_MASK, meaning.event_type is None)
        if masked:
            mask[~holds] &= ~(1 << bit)
    for bit, predicates in enumerate(bytecode.musts):
        formulas = np.array([bytecode.alone[n] for n in predicates if n not in batch.decided], np.int64)
        mark_bit(arrays, kinds, -1, formulas, bit, y.E_MUST, True)
        for n in predicates:
            if n in batch.decided:
                must[~batch.reorder(batch.decided[n])] &= ~(1 << bit)
