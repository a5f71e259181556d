"""Rows as what may happen: letters, steps and the groups they belong to."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.codes import key_codes
from perseid.engines.contract import Rows
from perseid.engines.hashing import hash_columns
from perseid.engines.sequence.arrangement import comparable
from perseid.engines.sequence.columns import value_at
from perseid.engines.sequence.schema import common_type
from perseid.engines.uncertain.automaton import MOST_LETTERS, MOST_STATES, Automaton
from perseid.engines.uncertain.plan import Asked, Component
from perseid.engines.uncertain.situations import THERE
from perseid.engines.uncertain.symbols import asked_columns, symbol_of
from perseid.lang import expressions as ex
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.classes import is_strict
from perseid.semantics.events import Event
from perseid.semantics.hidden import HiddenMarkov


class Reader:
    """What a pattern can tell of rows; letters of rows that it has seen are known."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.pattern = automaton.pattern
        self.columns = sorted(asked_columns(self.pattern))
        self.timed = _asks_time(self.pattern)
        self.strict = is_strict(self.pattern)
        self._known: dict[Any, int] = {}

    def letter(self, type_: str, time: int, attributes: Mapping[str, Any]) -> int:
        """The letter of one event; 0 where the pattern could as well not see it."""
        key = (type_, time if self.timed else 0, tuple(v.identity(attributes.get(name)) for name in self.columns))
        if key not in self._known:
            event = Event(type_, time, attributes, "")
            symbol = symbol_of(self.pattern, event, self.automaton.meaning.relations)
            matters = self.strict or symbol[0] & ~THERE
            self._known[key] = self.automaton.letter((symbol,)) if matters else 0
        return self._known[key]

    def letters(self, rows: Rows, type_: str, chosen: Any) -> Any:
        """The letters of some rows, all of one type."""
        there = [name for name in self.columns if name in rows.columns]
        columns = [taken(rows.columns[name], chosen) for name in there]
        asked = [comparable(column) for column in columns]
        if self.timed:
            asked.append(pa.array(rows.time[chosen]))
        codes, _ = key_codes(asked, len(chosen))
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        found = np.empty(len(first), np.int64)
        for i, row in enumerate(first):
            attributes = {name: value_at(column, int(row)) for name, column in zip(there, columns, strict=True)}
            found[i] = self.letter(type_, int(rows.time[chosen[row]]), attributes)
        return found[which] if len(which) else np.zeros(0, np.int64)

    def value_letters(
        self, type_: str, keys: Mapping[str, Any], count: int, model: HiddenMarkov, about: Sequence[str]
    ) -> Any:
        """By chain and hidden value: the letter of an event of the chain's key with that value; the last is no event."""
        there = [name for name in self.columns if name in keys]
        codes, _ = key_codes([comparable(keys[name]) for name in there], count)
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        found = np.zeros((len(first), len(model.values) + 1), np.int64)
        for i, row in enumerate(first):
            attributes = {name: value_at(keys[name], int(row)) for name in there}
            for x, value in enumerate(model.values):
                own = value if len(about) > 1 and isinstance(value, tuple) else (value,)
                found[i, x] = self.letter(type_, 0, {**attributes, **dict(zip(about, own, strict=True))})
        return found[which] if count else found


def reader_of(one: Asked, every: int | None, relations: Mapping[str, v.Relation]) -> Reader:
    """A pattern's automaton, with what this process has learnt of it."""
    named = _Named(tuple(sorted((name, repr(table.rows)) for name, table in relations.items())), relations)
    reader = _reader(_Meant(one), every or 0, named)
    automaton = reader.automaton
    if len(automaton.states) > MOST_STATES // 2 or len(automaton.letters) > MOST_LETTERS // 2:
        _reader.cache_clear()
        reader = _reader(_Meant(one), every or 0, named)
    return reader


@dataclass(frozen=True)
class _Meant:
    """A pattern, told apart by what it means."""

    one: Asked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Meant) and self.one.pattern == other.one.pattern

    def __hash__(self) -> int:
        return hash(self.one.pattern.semantic_hash)


@dataclass(frozen=True)
class _Named:
    """Relations, told apart by their rows."""

    said: tuple[tuple[str, str], ...]
    relations: Mapping[str, v.Relation]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self.said == other.said

    def __hash__(self) -> int:
        return hash(self.said)


@functools.lru_cache(maxsize=64)
def _reader(meant: _Meant, every: int, named: _Named) -> Reader:
    return Reader(Automaton(meant.one.pattern, named.relations, elapsed=every))


def taken(column: Any, chosen: Any) -> Any:
    """Some values of a column."""
    if isinstance(column, list):
        return [column[i] for i in chosen]
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.take(pa.array(chosen))


class Units:
    """Groups that are queries of their own, from several sources: rows, chains, and what is kept."""

    def __init__(self, sources: Sequence[Sequence[Any]], sizes: Sequence[int]) -> None:
        """``sources`` have the columns that they are put together by, each of so many rows."""
        width = len(sources[0])
        self._keys = [_below([source[i] for source in sources]) for i in range(width)]
        total = sum(sizes)
        codes, _ = key_codes([comparable(key) for key in self._keys], total)
        _, self.first, unit = np.unique(codes, return_index=True, return_inverse=True)
        self.of = np.split(unit.reshape(-1).astype(np.int64), np.cumsum(sizes)[:-1])
        """By source and row: the group it is of."""
        self.keys = [key.take(pa.array(self.first)) for key in self._keys]
        self.hashes = hash_columns(self.keys, rows=len(self.first))
        """By group: a hash of its key, which puts groups in the same order in every call."""

    def __len__(self) -> int:
        return len(self.first)


def _below(columns: Sequence[Any]) -> Any:
    """Columns one below the other; those of nothing have the type of the others."""
    whole = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    kinds = {column.type for column in whole if not pa.types.is_null(column.type)}
    if not kinds:
        return pa.nulls(sum(map(len, whole)))
    kind = kinds.pop() if len(kinds) == 1 else functools.reduce(common_type, sorted(kinds, key=str))
    return pa.concat_arrays([column.cast(kind) for column in whole])


def unit_columns(rows: Rows, unit: Sequence[Component]) -> list[Any]:
    """The columns that rows are put together by: of each row the one of its type."""
    out = []
    for component in unit:
        names = {component.column(type_) for type_ in rows.kind_names}
        if len(names) == 1 or not component.columns:
            column = rows.columns.get(next(iter(names)) if len(names) == 1 else component.name)
            out.append(pa.nulls(len(rows)) if column is None else comparable(column))
            continue
        whole = None
        for code, type_ in enumerate(rows.kind_names):
            own = rows.columns.get(component.column(type_))
            if own is None:
                continue
            own = comparable(own)
            of_type = pa.array(rows.kinds == code)
            whole = pc.if_else(of_type, own, pa.nulls(len(rows), own.type) if whole is None else whole.cast(own.type))
        out.append(pa.nulls(len(rows)) if whole is None else whole)
    return out


def _asks_time(pattern: c.CorePattern) -> bool:
    return any(
        isinstance(part, ex.Call) and part.name == "time"
        for step in pattern.steps
        for expr in (*(k.expr for k in step.choose), *step.must)
        for part in ex.walk(expr)
    )
