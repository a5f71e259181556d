"""Declared layouts of states: the facts and tables of a format, its version and its migrations.

An engine declares a :class:`StateLayout` once. :func:`encode` and :func:`decode` follow it, and so do the tests that
alter a state at every declared place. A decoded state has the declared shape: facts in their ranges, columns of their
types, references to existing rows. Any other state is a :class:`StateError` that names the place. Checks that need the
query's plan or several values together are left to the engine, most of them in ``check``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, takewhile
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.errors import LimitError, StateError
from perseid.runtime.fact_values import IntegerValue, RecordValue, StateFact, TextValue
from perseid.runtime.state_codec import (
    DAMAGED,
    GO_BACK,
    DecodedState,
    check_owner,
    decode_state,
    encode_state,
    format_fact,
)
from perseid.semantics import values as v

Facts: TypeAlias = Mapping[str, Any]
"""Facts that were validated, by name; their types are those of the layout."""
Batches: TypeAlias = tuple[pa.RecordBatch, ...]
PlanTypes: TypeAlias = Mapping[str, Mapping[str, pa.DataType]]
"""By table: the types of columns that the plan determines. A state has these columns, with these types."""
Migration: TypeAlias = Callable[[Facts, Batches], tuple[Facts, Batches]]
"""Facts and tables of one version to those of the next."""


@dataclass(frozen=True)
class StateColumn:
    """A column of a table of a state, or a part of one: the items of a list or a field of a struct."""

    name: str
    """The name; a name that ends in ``*`` declares all columns with that prefix."""
    type: pa.DataType | None = None
    """None for the type of a column of the plan."""
    nullable: bool = False
    optional: bool = False
    low: float | None = None
    high: float | None = None
    """Bounds, both inclusive. Floating-point numbers are always finite."""
    into: str = ""
    """A fact or a table: values are positions in it, or keys of an object. ``low=-1`` allows -1 for none."""
    adds_up_to: str = ""
    """A table with as many rows as the sum of the values."""
    min_size: int = 0
    """The minimum number of items of a list."""
    items: StateColumn | None = None
    """The declaration of a list's items."""
    fields: tuple[StateColumn, ...] = ()
    """The declarations of a struct's fields."""
    dated: bool = False
    """Dates and timestamps have to be in the range of Python's."""
    plain: bool = False
    """Types in which few bytes can represent many are rejected."""

    @cached_property
    def is_bounded(self) -> bool:
        """True if values have to be checked, in addition to the type and the nulls."""
        counted = self.low is not None or self.high is not None or self.into or self.adds_up_to
        return bool(
            counted or self.min_size or self.items or self.fields or pa.types.is_floating(self.type or pa.null())
        )


def columns_of(kind: pa.DataType | None, *names: str, nullable: bool = False) -> tuple[StateColumn, ...]:
    """Declare columns of one type."""
    return tuple(StateColumn(name, kind, nullable) for name in names)


@dataclass(frozen=True)
class StateTable:
    """A table of a state."""

    name: str
    """Its name in the layout; in the container tables have an order instead of names."""
    columns: tuple[StateColumn, ...]
    optional: bool = False
    rows: int | str | None = None
    """The number of rows, or the fact of which it is the length."""
    same_sizes: tuple[str, ...] = ()
    """List columns with equal sizes in each row."""
    repeated: bool = False
    """All tables from here on are of this layout, any number of them: ``<name> 0``, ``<name> 1``, …"""

    @cached_property
    def by_name(self) -> Mapping[str, StateColumn]:
        return {column.name: column for column in self.columns}

    @cached_property
    def families(self) -> Mapping[str, StateColumn]:
        """Columns that are declared by a name prefix."""
        return {column.name[:-1]: column for column in self.columns if column.name.endswith("*")}

    @property
    def required_names(self) -> list[str]:
        """The names of required columns in their order."""
        return [column.name for column in self.columns if column.name in self.required]

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(c.name for c in self.columns if not c.optional and not c.name.endswith("*"))

    def batch(self, values: Iterable[Iterable[object]]) -> pa.RecordBatch:
        """Make the table of the values of each declared column."""
        pairs = zip(self.columns, values, strict=True)
        arrays = [column if isinstance(column, pa.Array) else pa.array(column, one.type) for one, column in pairs]
        return pa.record_batch(arrays, names=[one.name for one in self.columns])

    def column(self, name: str) -> StateColumn | None:
        """The declaration of a column, by name or by name prefix."""
        found = self.by_name.get(name)
        if found is None:
            for prefix, column in self.families.items():
                if name.startswith(prefix):
                    return column
        return found


@dataclass(frozen=True)
class StateContent:
    """A decoded state."""

    facts: Facts
    tables: Mapping[str, pa.RecordBatch]
    """By their name in the layout; optional ones may be absent."""
    version: int
    """The version that wrote it."""


@dataclass(frozen=True)
class StateLayout:
    """A state format."""

    engine: str
    version: int
    """The version of facts and tables; a higher one needs a migration from the one before."""
    facts: tuple[StateFact, ...]
    """All facts but engine and version."""
    tables: tuple[StateTable, ...] | Callable[[Facts], Sequence[StateTable]]
    """In order; a function of the facts if these determine the tables."""
    migrations: Mapping[int, Migration] = field(default_factory=dict)
    """By the version that they start from."""
    check: Callable[[StateContent], str | None] | None = None
    """Return the problem of facts and tables that are each valid on their own, or None."""

    @cached_property
    def record(self) -> RecordValue:
        """All facts, as one value."""
        common = (StateFact("engine", TextValue()), StateFact("version", IntegerValue()))
        return RecordValue(facts=(*common, *self.facts))

    def tables_of(self, facts: Facts) -> Sequence[StateTable]:
        """The tables of a state with these facts."""
        return self.tables(facts) if callable(self.tables) else self.tables


SHARDS = StateFact(
    "shards",
    IntegerValue(),
    mismatch="The checkpoint was made with {found} shards, and the query now has {now}.",
    hint="Use ps.StreamOptions(shards={found}).",
)
"""The fact that every state with a fixed number of shards has."""


def encode(layout: StateLayout, facts: Facts, tables: Mapping[str, pa.RecordBatch | None]) -> bytes:
    """Encode facts and tables as a state; optional tables may be None or absent."""
    all_facts = {"engine": layout.engine, "version": layout.version, **facts}
    batches: list[pa.RecordBatch] = []
    for table in layout.tables_of(all_facts):
        names = (
            takewhile(tables.__contains__, map(f"{table.name} {{}}".format, count()))
            if table.repeated
            else [table.name]
        )
        table_batches = [batch for name in names if (batch := tables.get(name)) is not None]
        assert table_batches or table.optional or table.repeated, f"A state has no table {table.name!r}."
        batches += table_batches
    return encode_state(all_facts, tuple(batches))


def decode(
    layout: StateLayout,
    state: bytes | DecodedState,
    expected: Facts | None = None,
    types: PlanTypes | None = None,
) -> StateContent:
    """Decode and validate a state; anything that the layout does not declare is a :class:`StateError`.

    ``expected`` has the facts that must equal those of the running query, and ``types`` the types of columns that its
    plan determines.
    """
    decoded = state if isinstance(state, DecodedState) else decode_state(state)
    check_owner(decoded, layout.engine, (*layout.migrations, layout.version))
    facts, batches = decoded.facts, decoded.tables
    try:
        for version in range(facts["version"], layout.version):
            facts, batches = layout.migrations[version](facts, batches)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise malformed(layout.engine, f"it cannot be migrated from version {decoded.facts['version']}") from None
    if not layout.record.accepts(facts):
        raise malformed(layout.engine, layout.record.problem(facts, "facts"))
    for fact in layout.facts if expected else ():
        if fact.name in expected and expected[fact.name] != facts.get(fact.name):  # type: ignore[operator,index]
            values = {"found": format_fact(facts.get(fact.name)), "now": format_fact(expected[fact.name])}  # type: ignore[index]
            raise StateError(fact.mismatch.format(**values), hint=f"{fact.hint.format(**values)} {GO_BACK}")
    tables = _named(layout, facts, batches)
    content = StateContent(facts, {name: batch for name, _, batch in tables}, decoded.facts["version"])
    try:
        problem = _table_problem(tables, content, types or {}) or (layout.check(content) if layout.check else None)
    except (pa.ArrowException, OverflowError) as error:
        problem = f"a table cannot be read: {type(error).__name__}"
    if problem:
        raise malformed(layout.engine, problem)
    return content


def single_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch, as a state stores it."""
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise LimitError(
            "The strings in the state of one shard exceed two gigabytes.",
            hint="Use more shards, shorter windows, or a smaller max_state.",
        )
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def fit_column(table: pa.RecordBatch, name: str, kind: pa.DataType, label: str, cast: bool = False) -> pa.Array:
    """Return a column in the type of the current plan, of nulls if the state lacks it; errors call it ``label``."""
    if name not in table.schema.names:
        return pa.nulls(table.num_rows, kind)
    found = table.column(name)
    if found.type == kind:
        return found
    try:
        if (cast and not may_expand(found.type)) or pa.types.is_null(found.type):
            return found.cast(kind)
    except pa.ArrowException:
        pass
    raise StateError(
        f"The {label} was {found.type} when the checkpoint was made, and is {kind} now.",
        hint=f"Cast it to {found.type}. {GO_BACK}",
    )


def malformed(engine: str, problem: str) -> StateError:
    """The error of a state that no version of the engine wrote."""
    return StateError(f"Malformed state of engine {engine!r}: {problem}.", hint=DAMAGED)


def may_expand(kind: pa.DataType) -> bool:
    """Check whether few bytes of the type can represent many, so that a cast would make them large."""
    return kind.id in _EXPANDING or any(may_expand(kind.field(i).type) for i in range(kind.num_fields))


_EXPANDING = frozenset(
    kind.id
    for kind in (
        pa.dictionary(pa.int32(), pa.string()), pa.run_end_encoded(pa.int32(), pa.string()), pa.list_view(pa.string()),
        pa.large_list_view(pa.string()), pa.string_view(), pa.binary_view(),
    )
)  # fmt: skip


def _named(layout: StateLayout, facts: Facts, batches: Batches) -> list[tuple[str, StateTable, pa.RecordBatch]]:
    """Assign names to tables: the container stores none, so an optional table is recognized by its columns."""
    found: list[tuple[str, StateTable, pa.RecordBatch]] = []
    remaining = iter(batches)
    batch = next(remaining, None)
    for table in layout.tables_of(facts):
        if table.repeated:
            found += [(f"{table.name} {i}", table, one) for i, one in enumerate((batch, *remaining)) if one is not None]
            batch = None
        elif batch is not None and (not table.optional or table.required <= {*batch.schema.names}):
            found.append((table.name, table, batch))
            batch = next(remaining, None)
        elif not table.optional:
            raise malformed(layout.engine, f"table {table.name!r} is missing")
    if batch is not None:
        raise malformed(layout.engine, f"it has {1 + len(list(remaining))} unknown tables")
    return found


def _table_problem(
    tables: Iterable[tuple[str, StateTable, pa.RecordBatch]], content: StateContent, types: PlanTypes
) -> str | None:
    for name, table, batch in tables:
        problem = _batch_problem(table, batch, content)
        for column, kind in types.get(table.name, {}).items() if not problem else ():
            found = batch.schema.field(column).type if column in batch.schema.names else "missing"
            problem = problem or (None if found == kind else f"column {column!r} is {found}, expected {kind}")
        if problem:
            return f"{problem} in table {name!r}"
    return None


def _batch_problem(table: StateTable, batch: pa.RecordBatch, content: StateContent) -> str | None:
    names = batch.schema.names
    present = set(names)
    if len(present) < len(names):
        return f"column {next(name for name in names if names.count(name) > 1)[:60]!r} occurs twice"
    if not present >= table.required:
        return f"column {min(table.required - present)!r} is missing"
    if table.rows is not None:
        rows = table.rows if isinstance(table.rows, int) else len(content.facts[table.rows])
        if batch.num_rows != rows:
            return f"there are {batch.num_rows} rows, expected {rows},"
    for name, array in zip(names, batch.columns, strict=True):
        declared = table.column(name)
        if declared is None:
            return f"column {name[:60]!r} is unknown"
        problem = _array_problem(declared, array, content)
        if problem:
            return f"column {name[:60]!r} {problem}"
    if table.same_sizes:
        first, *other_sizes = (np.asarray(pc.list_value_length(batch.column(name))) for name in table.same_sizes)
        if any((first != sizes).any() for sizes in other_sizes):
            return f"the lists of {', '.join(table.same_sizes)} are of different sizes"
    return None


def _array_problem(declared: StateColumn, array: pa.Array, content: StateContent) -> str | None:
    kind = array.type
    if declared.type is None:
        if declared.plain and may_expand(kind):
            return f"has the unsupported type {kind}"
    elif kind != declared.type:
        return f"is {kind}, expected {declared.type}"
    if not declared.nullable and declared.type is not None and array.null_count:
        return "has nulls"
    if declared.dated and kind.id not in _WITHOUT_DATES and not _has_possible_dates(array):
        return "has a date out of range"
    return _value_problem(declared, array, content) if declared.is_bounded else None


def _value_problem(declared: StateColumn, array: pa.Array, content: StateContent) -> str | None:
    if declared.items is not None or declared.min_size:
        if declared.min_size and len(array) and pc.min(pc.list_value_length(array)).as_py() < declared.min_size:
            return f"has a list of fewer than {declared.min_size} items"
        problem = declared.items and _array_problem(declared.items, array.flatten(), content)
        return f"has a list that {problem}" if problem else None
    if declared.fields:
        for inner in declared.fields:
            problem = _array_problem(inner, array.field(inner.name), content)
            if problem:
                return f"has a field {inner.name!r} that {problem}"
        return None
    values = np.asarray(array.drop_null() if array.null_count else array)
    if declared.adds_up_to:
        row_count, total = content.tables[declared.adds_up_to].num_rows, int(values.sum())
        if total != row_count:
            return f"adds up to {total}, expected the {row_count} rows of {declared.adds_up_to!r}"
    if not len(values):
        return None
    low, high = values.min(), values.max()
    if values.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high)):
        return "has a number that is not finite"
    if (declared.low is not None and low < declared.low) or (declared.high is not None and high > declared.high):
        return f"has a value out of range: {low} to {high}, expected {declared.low} to {declared.high}"
    if declared.into:
        target: Any = content.tables.get(declared.into, content.facts.get(declared.into))
        if isinstance(target, dict):
            unknown = {*np.unique(values).tolist()} - {int(key) for key in target}
            return f"refers to {min(unknown)}, not found in {declared.into!r}" if unknown else None
        row_count = target.num_rows if isinstance(target, pa.RecordBatch) else len(target or ())
        if (declared.low is None and low < 0) or high >= row_count:
            return f"refers to {low if low < 0 else high}, out of range for {declared.into!r} with {row_count} items"
    return None


_WITHOUT_DATES = frozenset(
    kind.id
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(),
        pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.decimal128(1), pa.duration("us"),
    )
)  # fmt: skip


def _has_possible_dates(column: pa.Array) -> bool:
    """Check that dates and timestamps, also those in structs, lists and maps, are in the range of Python's."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        unit = 86_400 * 10**6 if pa.types.is_date32(kind) else {"s": 10**6, "ms": 10**3}.get(kind.unit, 1)
        ends = pc.min_max(column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())).as_py()
        found = [end for end in ends.values() if end is not None]
        return all(v.EARLIEST <= end * unit <= v.LATEST for end in found) or getattr(kind, "unit", None) == "ns"
    if pa.types.is_struct(kind):
        return all(map(_has_possible_dates, column.flatten()))
    if pa.types.is_map(kind):
        return _has_possible_dates(column.keys) and _has_possible_dates(column.items)
    return not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or _has_possible_dates(column.flatten())
