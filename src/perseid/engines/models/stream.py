"""A declared stream of model changes, and its conversion to events: found, updated and lost matches of queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.deprecated import deprecated_method
from perseid.engines.models.engine import rules_plan
from perseid.engines.models.events import PLACE, TIME, TYPE, collect_events, content_columns
from perseid.engines.models.frame_rows import FrameShape
from perseid.engines.models.live import LiveModel, apply_transactions
from perseid.engines.models.plan import ROLES, ModelsPlan, make_plan, role_values
from perseid.engines.models.transactions import BufferedChange, Key, Transaction, transactions
from perseid.engines.sequence.narrowing import column_types
from perseid.engines.sequence.results import Matches
from perseid.engines.sequence.schema import common_type
from perseid.engines.sequence.stream import Events, read_events
from perseid.errors import EventDataError, UnsupportedError, missing_column, warn
from perseid.runtime.declaration import StreamDeclaration
from perseid.runtime.query import (
    DeclaredTable,
    HashIdentity,
    Input,
    Query,
    RouteColumn,
    StateOptions,
    TableColumn,
    TableSchema,
)
from perseid.runtime.search_budget import DEFAULT_BUDGET, SearchBudget
from perseid.semantics import types as t
from perseid.semantics.graphs import Change, Happening
from perseid.semantics.model_changes import TransactionEffects
from perseid.semantics.model_queries import Match, Queries
from perseid.semantics.model_steps import EventStreamFilter, EventStreamGroup, JoinedEvents
from perseid.semantics.model_values import ordered
from perseid.semantics.rules import Rules
from perseid.tables.columns import Table, read_table, time_column
from perseid.tables.rows import is_spark

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Data_co = TypeVar("Data_co", covariant=True, default=Any)
    """Type of the rows: a Spark DataFrame, or local rows."""
else:
    from typing import TypeVar

    Data_co = TypeVar("Data_co", covariant=True)

CHANGES = "Change"
"""Type name of the rows that are changes or frames."""
EVENT = "event "
"""Prefix of the columns of ordinary events, because they may have the names of roles."""


@dataclass(frozen=True)
class Models(StreamDeclaration[Matches, Data_co]):
    """A stream of changes of models, one model for each key; create it with :func:`perseid.graph.model`."""

    stream_kind: ClassVar[str] = "model"
    data: Data_co
    queries: Queries
    time: str = "ts"
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=lambda: dict(zip(ROLES, ROLES, strict=True)))
    """The column of each role."""
    observe: tuple[str, ...] = ()
    """Queries with matches that are events even if no pattern names them."""
    idle: int | None = None
    shards: int = 16
    max_state: int = 1 << 28
    rules: Rules | None = None
    """Rules and repairs in the text of the metamodel."""
    additional_events: Events | None = None
    """Ordinary events next to the models, with the same key."""
    max_ahead: int | None = None
    """Microseconds that an event time may be ahead of the arrival time on a stream."""
    budget: SearchBudget = DEFAULT_BUDGET
    """Limits of the search of each pattern, for one partition in one call."""

    has_frames: ClassVar[bool] = False
    """True if rows are frames, which queries may evaluate all at once."""

    def why_one_by_one(self, watched: EventStreamFilter, types: Mapping[str, pa.DataType] | None = None) -> str | None:
        """Return why queries evaluate the rows one by one; None if they evaluate all at once."""
        return "rows are changes"

    def transactions(self) -> Iterator[Transaction]:
        """Yield every transaction of every model: models in order of first occurrence, each in time order."""
        table = read_table(self.data)
        for role in ("change", "element"):
            self._require(table, role)
        for name in (*self.key, *self.order_by):
            if name not in table.columns and table.rows:
                raise missing_column(
                    "The changes", name, "key or order", list(table.columns), "ps.graph.model(rows, …)"
                )
        times = np.asarray(time_column(table, self.time))
        changes = changes_of(self.columns, table)
        keys = list(zip(*(values_of(table, name) for name in self.key), strict=True)) if self.key else [()] * table.rows
        ranks = [values_of(table, name) for name in self.order_by]
        buffered: Iterable[BufferedChange] = (
            BufferedChange(keys[row], int(times[row]), tuple(column[row] for column in ranks), changes[row])
            for row in range(table.rows)
        )
        yield from transactions(chain(buffered, self._happenings()))

    def tables(self) -> list[DeclaredTable]:
        """Return the tables of the stream: the changes, then those of ordinary events."""
        changes = Events({CHANGES: self.data}, time=self.time, key=self.key, order_by=self.order_by)
        return [*changes.tables(), *([] if self.additional_events is None else self.additional_events.tables())]

    def tables_of(self, watched: Sequence[EventStreamFilter]) -> list[DeclaredTable]:
        """Return the tables that patterns need: the changes, and those of ordinary events that a step names."""
        named = event_types(watched)
        changes, *others = self.tables()
        return [changes, *(one for one in others if named and (one.event_type is None or one.event_type in named))]

    def require_same_place(self) -> None:
        """Raise an error unless the model and the events next to it are all on Spark, or all local."""
        events = [] if self.additional_events is None else [one.data for _, one in self.additional_events.inputs()]
        if len({is_spark(data) for data in (self.data, *events)}) > 1:
            raise EventDataError(
                "The model and its additional events must both be Spark DataFrames, or both be local.",
                hint="Use Spark DataFrames for both, or for neither.",
            )

    def bind(self, groups: Sequence[tuple[EventStreamGroup, Plan]], schemas: Sequence[TableSchema]) -> Query:
        """Return the query of patterns over tables with these schemas."""
        return bind_patterns(self, groups, schemas, None)

    def additional_event_types(self) -> JoinedEvents | None:
        """Return the types and columns of the ordinary events next to the models, or None without any."""
        if self.additional_events is None:
            return None
        return joined_types(self.additional_events, column_types(self.additional_events))

    def _happenings(self) -> Iterator[BufferedChange]:
        shape = self.additional_event_types()
        if self.additional_events is None or shape is None:
            return
        names = [name for name, _ in shape.columns]
        for event in read_events(self.additional_events):
            for name in self.key:
                if name not in event.attributes:
                    raise missing_column(
                        "The additional events", name, "key", list(event.attributes), "ps.graph.model(…, key=…)"
                    )
            key, rank = (
                tuple(event.attributes.get(name) for name in names_of_columns)
                for names_of_columns in (self.key, self.order_by)
            )
            values = tuple((name, event.attributes.get(name)) for name in names)
            if event.type is not None:  # no step accepts an event without a type
                yield BufferedChange(key, event.time, rank, Happening(event.type, values))

    def effects(self, queries: Iterable[str] | None = None) -> Iterator[tuple[Key, int, TransactionEffects]]:
        """Yield the result of every transaction, for all queries or for some."""
        yield from apply_transactions({}, self.queries, queries, self.transactions())

    def events(self, *queries: str) -> pa.Table:
        """Return a row for each found, updated or lost match of the named queries, or of all: by model, then time."""
        self._require_local("events")
        watched = EventStreamFilter(queries or tuple(self.queries.queries), ())
        tables, rejected = self.event_tables([watched])
        warn_of_rejected(rejected)
        return tables[0]

    def event_tables(self, watched: Sequence[EventStreamFilter]) -> tuple[list[pa.Table], list[str]]:
        """Return a table of events for each filter, and the reason for each rejected change; reads changes once."""
        queries = dict.fromkeys(name for one in watched for name in one.queries)
        rows, rejected = collect_events(self.queries, watched, self.key, self.effects(queries))
        element, keys = self.name_types()
        return [one.table(element, keys) for one in rows], rejected

    def name_types(self) -> tuple[pa.DataType, list[pa.DataType]]:
        """Return the types of node names and of the key columns."""
        table = read_table(self.data, {self.columns["element"], *self.key})
        return type_of(table, self.columns["element"]), [type_of(table, name) for name in self.key]

    def matches(self) -> dict[Key, dict[str, list[Match]]]:
        """Return the matches after the last change, by model and query."""
        self._require_local("matches")
        return current_matches(self.live())

    def rejected(self) -> list[tuple[Key, int, Change, str]]:
        """Return the rejected changes: model key, time, change, and reason."""
        self._require_local("rejected")
        return [(key, time, *one) for key, time, done in self.effects() for one in done.refused]

    refused = deprecated_method("refused", rejected)

    def live(self, until: int | None = None) -> dict[Key, LiveModel]:
        """Return the models by key, after the last change or after the changes up to a time."""
        self._require_local("live")
        live: dict[Key, LiveModel] = {}
        timely = (one for one in self.transactions() if until is None or one[1] <= until)
        effects = apply_transactions(live, self.queries, None, timely)
        warn_of_rejected([why for _, _, done in effects for _, why in done.refused])
        return live

    def _require_local(self, method: str) -> None:
        """Raise an error for data on Spark, which only patterns and rules read."""
        if is_spark(self.data):
            raise UnsupportedError(
                f"model.{method}() needs local changes, got a Spark DataFrame.",
                hint="Name the query in a pattern, match found q a, and run ps.patterns(metamodel).match(model)."
                f" For few changes, use ps.graph.model(changes.toPandas(), metamodel).{method}().",
            )

    def _require(self, table: Table, role: str) -> None:
        name = self.columns[role]
        if name not in table.columns and table.rows:
            raise missing_column(
                "The changes", name, f"{role} of a change", list(table.columns), f"ps.graph.model(rows, {role}=…)"
            )

    def __repr__(self) -> str:
        by = f"by {', '.join(self.key)}" if self.key else "of one model"
        return f"<model {self.queries.kinds.metamodel.name}: changes {by}>"


def local_events(models: Models, watched: Sequence[EventStreamFilter]) -> tuple[list[Events], list[str]]:
    """Return the events of local models for each filter, and the reasons of rejected changes; warn of these."""
    # A local run shares `apply_transactions`, `collect_events` and `FrameTable` with the step of the engine, and does
    # not call the step: rows of matches have no contributing events, and the step has no horizon, no patterns over
    # matches of other patterns, and no columns with values of several types.
    tables, rejected = models.event_tables(watched)
    warn_of_rejected(rejected)
    return [event_stream(table, models, one) for table, one in zip(tables, watched, strict=True)], rejected


def describe_rejected(rejected: Sequence[str]) -> str:
    """Return a sentence with the number of rejected changes and the first reason."""
    count = "1 change" if len(rejected) == 1 else f"{len(rejected)} changes"
    return f"{count} rejected by the model; the first: {rejected[0]}"


def warn_of_rejected(rejected: Sequence[str]) -> None:
    """Warn if changes were rejected."""
    if rejected:
        warn(describe_rejected(rejected))


def joined_types(events: Events, types: Mapping[str, t.Type]) -> JoinedEvents:
    """Return the types of declared events and the columns that steps may use, without those of time and type."""
    several = isinstance(events.data, Mapping)
    times = set(events.time.values()) if isinstance(events.time, Mapping) else {events.time}
    columns = {name: type_ for name, type_ in types.items() if name not in times and (several or name != events.type)}
    return JoinedEvents(tuple(events.data) if several else None, tuple(sorted(columns.items())))


def current_matches(live: Mapping[Key, LiveModel]) -> dict[Key, dict[str, list[Match]]]:
    """Return the current matches, by model and query."""
    return {
        key: {name: ordered(matches.standing) for name, matches in one.matches.items()} for key, one in live.items()
    }


def event_stream(data: pa.Table, models: Models, watched: EventStreamFilter) -> Events:
    """Declare a table of events as the input stream of patterns."""
    content = content_columns(models.queries, watched, models.key)
    return Events(
        data, time=TIME, type=TYPE, id=tuple(content), order_by=(PLACE,), key=models.key,
        max_steps=models.budget.max_steps, max_matches=models.budget.max_matches,
    )  # fmt: skip


def change_row(models: Models, place: Mapping[str, object], change: Change) -> dict[str, object]:
    """Return a change as a row of the stream; ``place`` has its time and model key."""
    return {**place, **dict(zip((models.columns[role] for role in ROLES), role_values(change), strict=True))}


def changes_of(columns: Mapping[str, str], table: Table) -> list[Change]:
    """Convert every row to a change; ``columns`` maps each role to its column."""
    absent = [None] * table.rows
    found = [values_of(table, columns[role]) if columns[role] in table.columns else absent for role in ROLES]
    return [Change(*row) for row in zip(*found, strict=True)]


def values_of(table: Table, name: str) -> list[Any]:
    """Return a column as a list of values."""
    column = table.columns[name]
    return column if isinstance(column, list) else column.to_pylist()


def type_of(table: Table, name: str) -> pa.DataType:
    """Return the type of a column of node names or keys; raise an error if its values have several types."""
    if name not in table.columns:
        return pa.string()
    column = table.columns[name]
    if isinstance(column, list):
        raise EventDataError(f"Column {name!r} has values of several types.", hint="Use only strings, or only numbers.")
    return column.type


def bind_patterns(
    stream: Models,
    groups: Sequence[tuple[EventStreamGroup, Plan]],
    schemas: Sequence[TableSchema],
    frames: FrameShape | None,
) -> Query:
    """Return the query of compiled patterns over tables with these schemas, in the order of :meth:`Models.tables`."""
    watched = [group.watched for group, _ in groups]
    changes, *others = schemas
    needed = None if frames is None else _frame_columns(stream, frames, changes, watched)
    types = _change_columns(stream, changes) if needed is None else needed
    event_columns = _event_columns(watched, others)
    types |= {f"{EVENT}{name}": type_ for name, type_ in event_columns.items()}
    plan = make_plan(
        [(group.watched, plan) for group, plan in groups],
        stream.queries,
        types,
        key=stream.key,
        order_by=stream.order_by,
        event_columns={name: f"{EVENT}{name}" for name in event_columns},
        frames=frames,
    )
    name = ", ".join(pattern.name for group, _ in groups for pattern in group.patterns)
    return _query("models", name, stream, plan, types, schemas, watched)


def bind_rules(
    stream: Models, rules: Rules, schemas: Sequence[TableSchema], *, until: int | None, rounds: int, changes: int
) -> Query:
    """Return the query of rules over a table of changes with this schema."""
    types = _change_columns(stream, schemas[0])
    plan = rules_plan(
        rules, types, time=stream.time, columns=stream.columns, key=stream.key, order_by=stream.order_by,
        until=until, rounds=rounds, changes=changes,
    )  # fmt: skip
    return _query("rules", ", ".join(rule.name for rule in rules.rules), stream, plan, types, schemas, [])


def event_types(watched: Sequence[EventStreamFilter]) -> tuple[str, ...]:
    """Return the types of ordinary events that patterns name."""
    return tuple(dict.fromkeys(name for one in watched for name in one.happenings))


def _query(
    engine: str,
    name: str,
    stream: Models,
    plan: ModelsPlan,
    types: Mapping[str, pa.DataType],
    schemas: Sequence[TableSchema],
    watched: Sequence[EventStreamFilter],
) -> Query:
    plan = replace(plan, shards=stream.shards, max_state=stream.max_state, budget=stream.budget)
    changes, *others = schemas
    named = event_types(watched)
    # Node names may be integers of any width; the query widens them to 64 bits.
    columns = {
        role: pa.int64() if plan.frames is None and role in ROLES and pa.types.is_integer(type_) else type_
        for role, type_ in types.items()
    }
    return Query(
        name=name,
        engine=engine,
        plan=plan,
        inputs=(
            _input_of_changes(stream, plan, types, changes),
            *(_input_of_events(stream, types, schema, named) for schema in others),
        ),
        columns=columns,
        type_names=(CHANGES, *named),
        step_schema=plan.schema,
        schema=plan.schema,
        state=StateOptions(stream.shards, stream.max_state, stream.idle),
    )


def _input_of_changes(stream: Models, plan: ModelsPlan, types: Mapping[str, pa.DataType], schema: TableSchema) -> Input:
    if plan.frames is not None:
        sources = {name: name for name in types if name in schema.columns}
        return Input(sources, HashIdentity(prefix=0), _route(stream))
    sources = {name: stream.columns.get(name, name) for name in types}
    roles = (stream.columns[role] for role in ROLES)
    return Input(
        {name: source for name, source in sources.items() if source in schema.columns},
        HashIdentity(tuple(name for name in roles if name in schema.columns)),
        _route(stream),
    )


def _input_of_events(
    stream: Models, types: Mapping[str, pa.DataType], schema: TableSchema, named: tuple[str, ...]
) -> Input:
    sources = {name: name.removeprefix(EVENT) for name in types if name.startswith(EVENT) or name not in ROLES}
    columns = {name: source for name, source in sources.items() if source in schema.columns}
    return Input(columns, HashIdentity(prefix=0), _route(stream), types=named)


def _route(stream: Models) -> tuple[RouteColumn, ...]:
    return tuple(RouteColumn((name,), as_text=True) for name in stream.key)


def _frame_columns(
    stream: Models, frames: FrameShape, schema: TableSchema, watched: Sequence[EventStreamFilter]
) -> dict[str, pa.DataType]:
    """Return the frame columns sent to Python: the key, and the attributes that some pattern needs."""
    for name in frames.sets:
        if name not in schema.columns:
            role = "value of " + ".".join(map(str, frames.sets[name]))
            raise missing_column("The DataFrame of frames", name, role, list(schema.columns), "ps.graph.frames(df, …)")
    types = {name: _crossing(name, schema.columns[name]) for name in (*stream.key, *frames.sets)}
    needed = frames.needed(stream.queries, watched, types)
    return {name: types[name] for name in dict.fromkeys((*stream.key, *needed))}


def _change_columns(stream: Models, schema: TableSchema) -> dict[str, pa.DataType]:
    """Return the change columns sent to Python: values as strings, node names in their own type."""
    element = stream.columns["element"]
    if element not in schema.columns:
        raise EventDataError(
            f"Column {element!r} not found in the DataFrame of changes.", hint="Use ps.graph.model(df, …, element=…)."
        )
    named = _crossing(element, schema.columns[element])
    if not (pa.types.is_string(named) or pa.types.is_integer(named)):
        raise EventDataError(f"Column {element!r} is {named}, expected strings or integers as names of nodes.")
    types: dict[str, pa.DataType] = dict.fromkeys(ROLES, pa.string())
    types |= {"element": named, "target": named}
    return types | {name: _crossing(name, schema.columns[name]) for name in (*stream.key, *stream.order_by)}


def _event_columns(watched: Sequence[EventStreamFilter], schemas: Sequence[TableSchema]) -> dict[str, pa.DataType]:
    """Return the columns of ordinary events that patterns name, with the common type of all tables."""
    if not schemas:
        return {}
    found: dict[str, pa.DataType] = {}
    for name in dict.fromkeys(name for one in watched for name, _ in one.columns):
        column_types = [_crossing(name, schema.columns[name]) for schema in schemas if name in schema.columns]
        found[name] = column_types[0] if column_types else pa.null()
        for other in column_types[1:]:
            found[name] = found[name] if other == found[name] else common_type(found[name], other)
    return found


def require_equal_keys(stream: Models, schemas: Sequence[TableSchema]) -> None:
    """Raise an error unless the tables of ordinary events have the key columns of the changes, with their types."""
    changes, *others = schemas
    for schema in others:
        for name in stream.key:
            if name not in schema.columns:
                table = "The DataFrame of additional events"
                raise missing_column(table, name, "key", list(schema.columns), "ps.graph.model(df, …, key=…)")
            expected, theirs = changes.columns[name], schema.columns[name]
            if expected != theirs:
                raise EventDataError(
                    f"Key column {name!r} is {expected.type_name} in the changes and {theirs.type_name} in the additional events.",
                    hint="Cast one of them to the type of the other.",
                )


def _crossing(name: str, column: TableColumn) -> pa.DataType:
    if column.type is None:
        raise EventDataError(
            f"Column {name!r} has type {column.type_name}, which cannot be sent to Python.",
            hint="Cast it first: df.withColumn(…).",
        )
    return column.type
