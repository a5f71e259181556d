"""A query as plain data: an engine with its plan, its columns from each input, and the routing of rows.

A declared stream binds patterns to the schemas of its tables and returns a :class:`Query`. Drivers run any query: they
lower the inputs to SQL or to Arrow, and call the engine that the registry has under the query's ``engine`` name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import pyarrow as pa

from perseid.lang.expressions import Expr
from perseid.runtime.contract import Plan
from perseid.semantics import types as t

# Tables


@dataclass(frozen=True)
class DeclaredTable:
    """One table of a declared stream, and the roles of its columns."""

    data: object
    event_type: str | None
    """The type of all its events; None if a column has the type."""
    time: str
    type: str | None
    """The column with the type of an event; None if ``event_type`` is given."""
    id: tuple[str, ...]
    """The columns that make an event unique; without any, all columns."""
    order_by: tuple[str, ...]
    key: tuple[str, ...]
    key_names: tuple[str, ...]
    """The names of the columns of ``key`` in patterns."""


@dataclass(frozen=True)
class TableColumn:
    """A column of an input, or a field inside one."""

    type: pa.DataType | None
    """Its Arrow type; None if its values cannot be transferred to Python."""
    type_name: str
    """The name of its type in messages."""
    meaning: t.Type = field(default_factory=t.Unknown)
    """Its type in patterns."""
    fields: Mapping[str, TableColumn] = field(default_factory=dict)
    """The fields of a struct."""

    @property
    def is_null(self) -> bool:
        """True if all values are null and the column has no other type."""
        return self.type_name == "void"


@dataclass(frozen=True)
class TableSchema:
    """The columns of one input, and the types of its events."""

    columns: Mapping[str, TableColumn]
    event_type: str | None = None
    """The type of all its events; None if a column has the type."""
    id: tuple[str, ...] = ()
    """The columns that make an event unique; without any, all columns."""
    order_by: tuple[str, ...] = ()
    """The columns that order events of one time."""
    delay: int = 0
    """Microseconds that its watermark is behind its newest event."""


class RowEvaluator(Protocol):
    """Evaluation of expressions by a driver over the rows of inputs, before they reach the engine."""

    max_predicates: int
    """The maximum number of predicates that it evaluates."""

    def evaluates(self, expr: Expr, table: int) -> bool:
        """True if it evaluates an expression over the rows of a table as the engine does."""
        ...


# Inputs


@dataclass(frozen=True)
class ColumnIdentity:
    """A column has the identity of a row."""

    column: str


@dataclass(frozen=True)
class HashIdentity:
    """A hash of columns, after a constant, is the identity of a row."""

    columns: tuple[str, ...] = ()
    prefix: str | int | None = None


@dataclass(frozen=True)
class EventIdentity:
    """The hash that events have on every driver: of these columns, or of all columns if there are none."""

    columns: tuple[str, ...] = ()


Identity: TypeAlias = ColumnIdentity | HashIdentity | EventIdentity


@dataclass(frozen=True)
class RouteColumn:
    """A value by which rows are routed: a column, or the path to a field inside one."""

    path: tuple[str, ...]
    as_text: bool = False
    """True: values with equal texts are equal. False: values are compared as keys, with one NaN and one zero."""


@dataclass(frozen=True)
class RowCondition:
    """Rows of one type for which some predicates of the query are true."""

    event_type: str
    predicates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Input:
    """The input of the engine from one table."""

    columns: Mapping[str, str]
    """The column of the table for each column of the engine; the others are null."""
    identity: Identity
    route: tuple[RouteColumn | None, ...] = ()
    """The values that determine the shard of a row; None is null in every row."""
    order_by: tuple[str, ...] = ()
    """The columns that order rows of one time."""
    types: tuple[str, ...] | None = None
    """The event types of the input; rows of other types are dropped. None: rows of all types are retained."""
    keep_if: tuple[RowCondition, ...] | None = None
    """Rows for which none of these is true are dropped; rows without a time are bad, and counted. None: no filter."""


@dataclass(frozen=True)
class RowPredicate:
    """A predicate over a single event, which the driver evaluates for the engine."""

    id: int
    """Its number in the plan."""
    expr: Expr
    event_type: str | None
    """The type of the events that it applies to; it is false for events of other types. None: all types."""


@dataclass(frozen=True)
class PunctuationColumns:
    """Columns of rows that are punctuations: assertions that certain events no longer arrive."""

    column: str
    """The column with ``"key"`` or ``"all"`` in punctuations, and null in events."""
    source: str | None
    """The column of the engine that a punctuation is about; None: the type of event."""
    types: tuple[str, ...] | None
    """The types that punctuations may be about; punctuations about other types are dropped. None: any type."""


@dataclass(frozen=True)
class RejectedRows:
    """The representation of rejected rows as rows of the result."""

    columns: tuple[str, ...] | None = None
    """The columns that they show as JSON; None: all."""
    reason: str | None = None
    """The column with the reason why a row cannot be read."""
    bad_only: bool = False
    """Only bad rows show their columns: others show their position or else their identity."""
    position: str | None = None
    """The column with the position of a row in its source."""


@dataclass(frozen=True)
class PrepareInput:
    """The input of an engine's ``prepare`` from one table, and the columns that pass unchanged."""

    columns: Mapping[str, str | tuple[str, ...]]
    """The column of the table for each column of the engine, or several columns that are one struct."""
    constants: Mapping[str, str]
    """Columns of the engine that have one value in every row."""
    passed_columns: tuple[str, ...]
    """The columns of the table that prepared rows retain."""
    identity: EventIdentity | None = None
    """The identity of a row of the table, in the column ``_document`` of prepared rows. None: without that column."""
    time: str | None = None
    """The time column, null in rows that cannot be read, with the reason in ``_wrong``. None: rows are no events."""
    body: str | None = None
    """The column of the engine with the body, shown in rejected rows that are not read."""


@dataclass(frozen=True)
class PrepareStage:
    """A stage before the first shuffle: an engine's ``prepare``."""

    engine: str
    plan: Plan
    columns: Mapping[str, pa.DataType]
    """The columns that it adds to its input."""
    inputs: tuple[PrepareInput, ...]
    """One for each table of the stream, in the same order."""


@dataclass(frozen=True)
class ControlFiles:
    """A folder with control files: each new file is a control row of a stream with the name of the file."""

    folder: str
    suffix: str
    column: str
    """The column of the engine with the name of the file; null in other rows."""


@dataclass(frozen=True)
class StateOptions:
    """Options of a query's state."""

    shards: int = 16
    max_state: int = 1 << 28
    """Maximum bytes of one shard."""
    idle: int | None = None
    """Microseconds without a new watermark after which processing time advances event time."""
    max_ahead: int | None = None
    """Microseconds that a time may lie beyond its arrival."""


@dataclass(frozen=True)
class Query:
    """A query that a driver can run."""

    name: str
    """The names of its patterns, for progress and messages."""
    engine: str
    """The name of the engine in the registry."""
    plan: Plan
    inputs: tuple[Input, ...]
    """One for each table of the stream, in the same order."""
    columns: Mapping[str, pa.DataType]
    """The columns of the engine with their types, in the order of their transfer."""
    type_names: tuple[str, ...] | None
    """The event types; rows carry an index into this list, or -1. None: types are transferred as text."""
    step_schema: pa.Schema
    """The schema of the engine's step. A text of the result may be bytes here, shown as their hexadecimal digits."""
    schema: pa.Schema
    """The schema of the result."""
    constants: Mapping[str, str | int] = field(default_factory=dict)
    """Columns of the result that have one value in every row, and are no columns of the step."""
    state: StateOptions = field(default_factory=StateOptions)
    predicates: tuple[RowPredicate, ...] = ()
    """The predicates that the driver evaluates."""
    computed: Mapping[str, Expr] = field(default_factory=dict)
    """The expressions that the driver evaluates, by their text."""
    keys: Mapping[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """The transferred key columns of each route: name, and index in :attr:`Input.route`. A row takes every route.

    Without any, all columns of :attr:`Input.route` are the only route, and none is transferred.
    """
    dedupe: bool = False
    """Rows with equal time, key and identity are one event."""
    punctuations: PunctuationColumns | None = None
    event_types: tuple[str, ...] = ()
    """The event types with a row counter."""
    required_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By pattern: the event types without which it has no match."""
    finish_by: tuple[str, ...] | None = None
    """The columns of the step's rows that a second shuffle groups by before ``finish``; None without ``finish``."""
    prepare: PrepareStage | None = None
    """The stage that makes the rows of the inputs from documents."""
    broadcast: bool = False
    """Every shard receives all rows, and has a partition of the query instead of one of the data."""
    control_files: ControlFiles | None = None
    rejected: RejectedRows | None = None
    """Rejected rows are rows of the result. None: they are only counted."""

    @property
    def route_columns(self) -> int:
        """The number of columns that rows are routed by."""
        return len(self.inputs[0].route)
