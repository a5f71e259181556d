"""Encodes rows as letters, and assigns them to groups."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.sequence.columns import value_at
from perseid.engines.sequence.partition_sort import comparable
from perseid.engines.sequence.schema import common_type
from perseid.engines.uncertain.automaton import EVICT_ABOVE_STATES, MAX_LETTERS, Automaton
from perseid.engines.uncertain.counting_automaton import MAX_WAYS, CountingAutomaton
from perseid.engines.uncertain.pattern_nfa import EVENT_PRESENT, Symbol, chooses, passes
from perseid.engines.uncertain.plan import Component, PlannedQuery
from perseid.engines.uncertain.sparse import SparseAutomaton
from perseid.engines.uncertain.symbols import Symbols, Test
from perseid.runtime.arrays import ArrowColumn, BoolArray, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import hash_columns
from perseid.runtime.key_encoding import numbered
from perseid.semantics import values as v
from perseid.semantics.classes import is_strict
from perseid.semantics.events import Event
from perseid.semantics.hidden import HiddenMarkov

MAX_CACHED_RESULTS = 100_000
"""Maximum number of cached condition results."""


@dataclass(frozen=True)
class Columns:
    """Events of one type, in columns."""

    columns: Mapping[str, ArrowColumn | list[object]]
    count: int
    time: IntArray | None = None
    _cache: dict[tuple[tuple[str, ...], bool, bool], tuple[IntArray, IntArray]] = field(default_factory=dict)

    def distinct(self, test: Test) -> tuple[IntArray, IntArray]:
        """The first event of each class that a condition cannot distinguish, and by event its class."""
        key = test.columns, test.timed, test.only_null
        if key not in self._cache:
            self._cache[key] = self._distinct(test)
        return self._cache[key]

    def _distinct(self, test: Test) -> tuple[IntArray, IntArray]:
        columns = [comparable(self.columns[name]) for name in test.columns if name in self.columns]
        if test.only_null:
            columns = [
                pa.array([value is None for value in key]) if isinstance(key, list) else key.is_null()
                for key in columns
            ]
        if test.timed and self.time is not None:
            columns.append(pa.array(self.time))
        return numbered(columns, self.count)

    def event(self, type_: str, names: Iterable[str], row: int, more: Mapping[str, object]) -> Event:
        attributes = {name: value_at(self.columns[name], row) for name in names if name in self.columns}
        return Event(type_, 0 if self.time is None else int(self.time[row]), {**attributes, **more}, "")


class SymbolEncoder:
    """Encodes rows as letters of a pattern. A condition is evaluated once for events with equal inputs."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.pattern = automaton.pattern
        self.symbols = Symbols(self.pattern, automaton.nfa.relations)
        self.strict = is_strict(self.pattern)
        self._cache: dict[tuple[int, str | None, int, tuple[object, ...]], bool] = {}

    def letters(self, rows: EventBatch, type_: str, chosen: IntArray) -> IntArray:
        """Letters of some rows of one type; 0 if the pattern ignores the row."""
        columns = {
            name: select_values(rows.columns[name], chosen) for name in self.symbols.columns if name in rows.columns
        }
        return self._letters(type_, Columns(columns, len(chosen), rows.time[chosen]), [{}])[:, 0]

    def value_letters(
        self, type_: str, keys: Mapping[str, ArrowColumn], count: int, model: HiddenMarkov, about: Sequence[str]
    ) -> IntArray:
        """By chain and hidden value: the letter of an event with that key and value; the last column is no event."""
        several = [value if len(about) > 1 and isinstance(value, tuple) else (value,) for value in model.values]
        values = [dict(zip(about, own, strict=True)) for own in several]
        found = self._letters(type_, Columns(keys, count), values)
        return np.concatenate([found, np.zeros((count, 1), np.int64)], axis=1)

    def _letters(self, type_: str, events: Columns, values: Sequence[Mapping[str, object]]) -> IntArray:
        """By event and additional attributes: the letter."""
        which = np.zeros((events.count, len(values)), np.int64)
        bits = [EVENT_PRESENT]
        for step in self.symbols.steps(type_):
            fits = self._hold(step.choose, type_, events, values)
            which, bits = _split_classes(which, bits, fits, chooses(step.id))
            which, bits = _split_classes(
                which, bits, fits & self._hold(step.must, type_, events, values), passes(step.id)
            )
        if not self.symbols.looks_back:
            return np.array([self._letter((one, ())) for one in bits], np.int64)[which]
        first, kind = events.distinct(Test(tuple(self.symbols.columns)))
        found = np.zeros((len(first), len(values)), np.int64)
        for i, row in enumerate(first):
            for x, value in enumerate(values):
                event = events.event(type_, self.symbols.columns, int(row), value)
                found[i, x] = self._letter((bits[which[row, x]], self.symbols.read_columns(event)))
        return found[kind]

    def _letter(self, symbol: Symbol) -> int:
        return self.automaton.letter((symbol,)) if self.strict or symbol[0] & ~EVENT_PRESENT else 0

    def _hold(
        self, tests: Sequence[Test], type_: str, events: Columns, values: Sequence[Mapping[str, object]]
    ) -> BoolArray:
        """By event and additional attributes: True if all tests hold; an axis of length 1 if it makes no difference."""
        out = np.ones((1, 1), bool)
        for test in tests:
            own = values if any(name in values[0] for name in test.columns) else [{}]
            first, which = events.distinct(test)
            rows = [
                [self._holds(test, events.event(type_, test.columns, int(row), more)) for more in own] for row in first
            ]
            found = np.array(rows, bool).reshape(len(first), len(own))
            out = out & (found if len(first) == 1 else found[which])
        return out

    def _holds(self, test: Test, event: Event) -> bool:
        values_read = tuple(v.identity(event.attributes.get(name)) for name in test.columns)
        key = id(test), event.type, event.time if test.timed else 0, values_read
        result = self._cache.get(key)
        if result is None:
            if len(self._cache) >= MAX_CACHED_RESULTS:
                self._cache.clear()
            result = self._cache[key] = self.symbols.holds(test, event)
        return result


def _split_classes(which: IntArray, bits: list[int], truth: BoolArray, bit: int) -> tuple[IntArray, list[int]]:
    """Split classes of events by one more bit; return the class of each event, and the bits of each class."""
    mixed = 2 * which + truth
    is_present = np.bincount(mixed.reshape(-1), minlength=2 * len(bits)) > 0
    bits_of_class = [bits[number // 2] | (bit if number % 2 else 0) for number in np.flatnonzero(is_present)]
    return (np.cumsum(is_present) - 1)[mixed], bits_of_class


def reader_of(
    query: PlannedQuery,
    every: int | None,
    relations: Mapping[str, v.Relation],
    ways: bool = False,
    sparse: bool = False,
) -> SymbolEncoder:
    """Return the cached encoder and automaton of a pattern, for use in one call with its own state numbers. With
    ``ways``, the automaton counts partial matches; a ``sparse`` one has no joint letters."""
    named = _Named(tuple(sorted((name, repr(table.rows)) for name, table in relations.items())), relations)
    kind = CountingAutomaton if ways else SparseAutomaton if sparse else Automaton
    reader = _reader(_Meant(query), every or 0, named, kind)
    automaton = reader.automaton
    max_states = MAX_WAYS if ways else EVICT_ABOVE_STATES
    if len(automaton.states) > max_states // 2 or len(automaton.letters) > MAX_LETTERS // 2:
        _reader.cache_clear()
        reader = _reader(_Meant(query), every or 0, named, kind)
    reader.automaton.used_arrays.clear()
    return reader


@dataclass(frozen=True)
class _Meant:
    """Cache key: a pattern, compared by meaning."""

    one: PlannedQuery

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Meant) and self.one.pattern == other.one.pattern

    def __hash__(self) -> int:
        return hash(self.one.pattern.semantic_hash)


@dataclass(frozen=True)
class _Named:
    """Cache key: relations, compared by their rows."""

    rows_text: tuple[tuple[str, str], ...]
    relations: Mapping[str, v.Relation]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self.rows_text == other.rows_text

    def __hash__(self) -> int:
        return hash(self.rows_text)


@functools.lru_cache(maxsize=64)
def _reader(meant: _Meant, every: int, named: _Named, kind: type[Automaton]) -> SymbolEncoder:
    return SymbolEncoder(kind(meant.one.pattern, named.relations, elapsed=every))


def hashed(
    columns: Sequence[ArrowColumn | list[object]], rows: int, leading: int | None = None
) -> tuple[IntArray, IntArray]:
    """By row: the number of its combination of values; and by number: a hash of it."""
    first, which = numbered([comparable(column) for column in columns], rows)
    return which, hash_columns([select_values(column, first) for column in columns], leading=leading, rows=len(first))


def select_values(column: ArrowColumn, chosen: IntArray | Sequence[int]) -> pa.Array:
    """Select values of a column."""
    if len(chosen) == len(column) and np.array_equal(chosen, np.arange(len(column))):
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(column, list):
        return [column[i] for i in chosen]
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.take(pa.array(chosen))


class Units:
    """Groups, each an independent query, numbered across several sources: rows, chains, and stored state."""

    def __init__(self, sources: Sequence[Sequence[ArrowColumn]], sizes: Sequence[int]) -> None:
        """``sources`` are the grouping columns of each source, ``sizes`` their numbers of rows."""
        width = len(sources[0])
        self.whole = [_below([source[i] for source in sources]) for i in range(width)]
        """The columns of all sources, concatenated."""
        total = sum(sizes)
        self.first, unit = numbered([comparable(key) for key in self.whole], total)
        self.of = np.split(unit, np.cumsum(sizes)[:-1])
        """By source and row: its group."""
        self.keys = [key.take(pa.array(self.first)) for key in self.whole]
        self.hashes = hash_columns(self.keys, rows=len(self.first))
        """By group: a hash of its key, which gives groups the same order in every call."""

    def __len__(self) -> int:
        return len(self.first)


def _below(columns: Sequence[ArrowColumn]) -> pa.Array:
    """Concatenate columns; null columns take the type of the others."""
    whole = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    kinds = {column.type for column in whole if not pa.types.is_null(column.type)}
    if not kinds:
        return pa.nulls(sum(map(len, whole)))
    kind = kinds.pop() if len(kinds) == 1 else functools.reduce(common_type, sorted(kinds, key=str))
    some = [column.cast(kind) for column in whole if len(column)]
    return some[0] if len(some) == 1 else pa.concat_arrays(some) if some else pa.array([], kind)


def unit_columns(rows: EventBatch, unit: Sequence[Component]) -> list[ArrowColumn]:
    """Grouping columns of rows, each with the name for the row's type."""
    out = []
    for component in unit:
        names = {component.column(type_) for type_ in rows.type_names}
        if len(names) == 1 or not component.columns:
            column = rows.columns.get(next(iter(names)) if len(names) == 1 else component.name)
            out.append(pa.nulls(len(rows)) if column is None else comparable(column))
            continue
        whole = None
        for code, type_ in enumerate(rows.type_names):
            own = rows.columns.get(component.column(type_))
            if own is None:
                continue
            own = comparable(own)
            of_type = pa.array(rows.type_codes == code)
            whole = pc.if_else(of_type, own, pa.nulls(len(rows), own.type) if whole is None else whole.cast(own.type))
        out.append(pa.nulls(len(rows)) if whole is None else whole)
    return out
