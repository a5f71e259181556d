"""Lower the inputs of a query to Spark SQL: the columns and the filter of every row before the shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from perseid.errors import BindingError
from perseid.lang import expressions as ex
from perseid.runtime.counters import OF_A_BATCH
from perseid.runtime.query import (
    ColumnIdentity,
    EventIdentity,
    HashIdentity,
    Input,
    Query,
    RouteColumn,
    RowPredicate,
    TableColumn,
    TableSchema,
)
from perseid.runtime.registry import engines
from perseid.spark.arrow import to_arrow, to_spark
from perseid.spark.expressions import condition_text, lower_expression
from perseid.spark.inputs import (
    InputFrame,
    column_text,
    delay_of,
    identity_column_text,
    key_text,
    literal,
    of_type_text,
    quoted,
    shared_type,
    time_text,
    type_column_text,
    type_text,
    types_of,
)
from perseid.spark.sql.columns import spark_type
from perseid.spark.sql.pieces import Sql
from perseid.spark.type_counts import OF_TYPE
from perseid.spark.worker import HITS, IDENTITY, KIND, OURS, ROUTE, TIME, BroadcastTask, Job
from perseid.tables.rows import read_relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_HITS = 60
"""Predicates that travel as bits of one BIGINT; further ones are evaluated on the executors."""
MAX_NOTED = 200
"""The longest filter, in characters, that Catalyst may split and push into the source."""


class SqlEvaluator:
    """Lowers expressions over rows of these DataFrames to Spark SQL, if that is exact."""

    max_predicates = MAX_HITS

    def __init__(self, frames: Sequence[InputFrame]) -> None:
        self.frames = frames
        self._lowered: dict[tuple[int, int], tuple[ex.Expr, Sql | None]] = {}

    def evaluates(self, expr: ex.Expr, table: int) -> bool:
        """True if Spark SQL evaluates the expression exactly."""
        return self._lower(expr, table) is not None

    def text(self, expr: ex.Expr, table: int) -> str:
        """An expression for which ``evaluates`` is true, as SQL."""
        found = self._lower(expr, table)
        assert found is not None
        return found.text

    def condition(self, expr: ex.Expr, table: int) -> str:
        """A condition for which ``evaluates`` is true, as SQL that is true or false."""
        found = self._lower(expr, table)
        assert found is not None
        return condition_text(found)

    def predicate(self, predicate: RowPredicate, table: int) -> str:
        """A predicate, with its event type, as SQL that is true or false."""
        frame, event_type = self.frames[table], predicate.event_type
        if frame.event_type is not None and event_type not in (None, frame.event_type):
            return "false"
        text = self.condition(predicate.expr, table)
        return f"({of_type_text(frame, event_type)}) and ({text})" if frame.type is not None and event_type else text

    def _lower(self, expr: ex.Expr, table: int) -> Sql | None:
        # Cached by identity: equal expressions may differ in the scale of a decimal.
        lowered = self._lowered.get((id(expr), table))
        if lowered is None:
            frame = self.frames[table]
            sql = lower_expression(expr, available_columns(expr, frame), frame.time, frame.type, frame.event_type)
            lowered = self._lowered[id(expr), table] = expr, sql
        return lowered[1]


@dataclass(frozen=True)
class Projection:
    """The SQL of a query's inputs before the shuffle, and the task that reads it."""

    query: Query
    frames: Sequence[InputFrame]
    job: Job
    selects: tuple[tuple[str, ...], ...]
    """Columns as SQL, by input."""
    needed: tuple[str | None, ...]
    """The condition under which a row is shuffled, by input; None if all rows are."""
    route: tuple[str, ...]
    """The columns of the shuffle."""

    @property
    def dropped(self) -> list[str]:
        """Columns of the shuffle that are not transferred to Python."""
        crossing = {column for keys in self.job.keys.values() for _, column in keys}
        return [name for name in self.route if name != ROUTE and name not in crossing]

    def of_types(self, rows: DataFrame, declared: Input) -> DataFrame:
        """Drop the rows of types that the input does not have."""
        return rows if declared.types is None else rows.where(f"{KIND} >= 0")

    def shown(self, steps: DataFrame) -> DataFrame:
        """Result columns from the columns of the step; ``alias`` sets names that SQL text would parse."""
        from pyspark.sql import functions as f

        query = self.query
        aliases = dict(zip(query.step_schema.names, self.job.schema.names, strict=False))
        columns = []
        for field in query.schema:
            constant = query.constants.get(field.name)
            if constant is not None:
                text = literal(constant) if isinstance(constant, str) else str(constant)
            elif query.step_schema.field(field.name).type == field.type:
                text = aliases[field.name]
            else:
                text = f"lower(hex({aliases[field.name]}))"
            columns.append(f.expr(text).alias(field.name))
        return steps.select(*columns)


def project(
    query: Query,
    evaluator: SqlEvaluator,
    relations: Mapping[str, list[tuple[object, ...]]] | None = None,
    counted: bool = False,
) -> Projection:
    """Lower the inputs of a query to SQL; no Spark job runs."""
    frames = evaluator.frames
    names = query.type_names
    typed = names is not None and len(names) == 1
    only = len(frames) == 1 and query.inputs[0].keep_if is not None
    columns = {name: f"{OURS}column{i}" for i, name in enumerate(query.columns)}
    route = tuple(f"{OURS}key{i}" for i in range(query.route_columns))
    job = (BroadcastTask if query.broadcast else Job)(
        engine=engines()[query.engine],
        plan=query.plan,
        kind_names=names,
        keys={number: tuple((name, route[i]) for name, i in keys) for number, keys in query.keys.items()},
        ranks=tuple(f"{OURS}rank{i}" for i in range(max(len(one.order_by) for one in query.inputs))),
        predicates=tuple(one.id for one in query.predicates),
        computed_columns={text: f"{OURS}made{i}" for i, text in enumerate(query.computed)},
        columns=columns,
        schema=internal_schema(query.step_schema, counted, len(query.event_types)),
        counted=counted,
        dedupe=query.dedupe,
        single_type=typed and (only or all(frame.event_type in (names or ()) for frame in frames)),
        identity=_identity(query, frames),
        relations=relations or {},
        types=query.event_types,
    )
    return Projection(
        query, frames, job,
        tuple(tuple(_select(query, i, evaluator, job, route)) for i in range(len(frames))),
        tuple(_needed(query, i, evaluator) for i in range(len(frames))),
        (*([ROUTE] if len(job.keys) > 1 else []), *route),
    )  # fmt: skip


def shielded(condition: str) -> str:
    """Exempt a long condition from Catalyst's constraint propagation.

    Catalyst repeats each condition for every alias of a column, so a condition over many columns costs unbounded time
    and memory. It propagates no condition that may change from row to row, and evaluates it in place.
    """
    return condition if len(condition) <= MAX_NOTED else f"if(spark_partition_id() >= 0, {condition}, false)"


def routed(frame: DataFrame, job: Job, untimed: bool) -> DataFrame:
    """Copy each row for every route, with only that route's keys; the data is still read once.

    With ``untimed``, one copy of a row without a time remains, to be counted.
    """
    if len(job.keys) <= 1:
        return frame
    routes = ", ".join(str(route) for route in job.keys)
    routes_by_column: dict[str, list[str]] = {}
    for route, keys in job.keys.items():
        for _, column in keys:
            routes_by_column.setdefault(column, []).append(str(route))
    texts = [
        f"if({ROUTE} in ({', '.join(routes_by_column[name])}), {quoted(name)}, null) as {quoted(name)}"
        if name in routes_by_column
        else quoted(name)
        for name in frame.columns
    ]
    copies = frame.selectExpr("*", f"explode(array({routes})) as {ROUTE}").selectExpr(*texts, ROUTE)
    # Rows without a time match nothing: each is only counted, once.
    return copies.where(f"{TIME} is not null or {ROUTE} = {min(job.keys)}") if untimed else copies


# Columns of the shuffle


def _select(query: Query, table: int, evaluator: SqlEvaluator, job: Job, route: Sequence[str]) -> Iterator[str]:
    """The columns of one input as SQL, in the layout that all inputs share.

    Short columns come first: Catalyst records the equalities of each column, and again for every later column that
    contains it. With a hash of all columns before the columns themselves, planning took minutes.
    """
    declared, frames = query.inputs[table], evaluator.frames
    frame = frames[table]
    for name, kind in query.columns.items():
        yield f"{_column(query, name, kind, table, frames)} as {job.columns[name]}"
    for i, column in enumerate(job.ranks):
        yield f"{frame.text(declared.order_by[i]) if i < len(declared.order_by) else 'null'} as {column}"
    for column, key in zip(route, declared.route, strict=True):
        yield f"{_route_text(key, frame, frames)} as {column}"
    if not job.single_type:
        yield f"{_type_code(query, declared, frame)} as {KIND}"
    yield f"{time_text(frame)} as {TIME}"
    for text, expr in query.computed.items():
        yield f"{evaluator.text(expr, table)} as {job.computed_columns[text]}"
    if query.predicates:
        bits = [f"if({evaluator.predicate(p, table)}, {1 << bit}L, 0L)" for bit, p in enumerate(query.predicates)]
        yield f"{' | '.join(bits)} as {HITS}"
    if job.identity is None:
        yield f"{_identity_text(declared, frame)} as {IDENTITY}"


def _column(query: Query, name: str, kind: pa.DataType, table: int, frames: Sequence[InputFrame]) -> str:
    """A column of the engine as SQL, in one type for all inputs."""
    sources = [declared.columns.get(name) for declared in query.inputs]
    types = [frame.columns[source] for frame, source in zip(frames, sources, strict=True) if source is not None]
    typed = [data_type for data_type in types if not isinstance(data_type, st.NullType)]
    is_uniform = bool(typed) and all(data_type == typed[0] for data_type in typed)
    is_kind = is_uniform and to_arrow(typed[0]) == kind
    target = typed[0] if is_kind else st.NullType() if pa.types.is_null(kind) else to_spark(kind)
    source = sources[table]
    if source is None:
        return f"cast(null as {type_text(target)})"
    if is_uniform and not is_kind:
        return f"cast({frames[table].text(source)} as {type_text(target)})"  # the declared type, not the shared one
    return column_text(frames[table], source, target)


def _route_text(key: RouteColumn | None, frame: InputFrame, frames: Sequence[InputFrame]) -> str:
    if key is None:
        return "cast(null as string)"
    if key.as_text:
        return f"cast({frame.text(key.path[0])} as string)"
    return key_text(frame, key.path, shared_type(key.path[0], frames)[1])


def _type_code(query: Query, declared: Input, frame: InputFrame) -> str:
    """Index of a row's type in the types of the query as SQL, -1 for any other; the type as text without an index."""
    if query.type_names is None:
        return type_column_text(frame)
    codes = {name: i for i, name in enumerate(query.type_names) if declared.types is None or name in declared.types}
    if frame.event_type is not None:
        return str(codes.get(frame.event_type, -1))
    cases = " ".join(f"when {literal(name)} then {i}" for name, i in codes.items())
    return f"coalesce(case {type_column_text(frame)} {cases} end, -1)" if cases else "-1"


def _identity(query: Query, frames: Sequence[InputFrame]) -> str | None:
    """The identity column, if it is a single integer that the query reads anyway, without the type; None otherwise."""
    identity, first = query.inputs[0].identity, frames[0]
    if not isinstance(identity, EventIdentity) or first.event_type is not None or len(identity.columns) != 1:
        return None
    (only,) = identity.columns
    return only if only in query.columns and isinstance(first.columns[only], st.IntegralType) else None


def _identity_text(declared: Input, frame: InputFrame) -> str:
    match declared.identity:
        case ColumnIdentity(column):
            return frame.text(column)
        case HashIdentity(columns, prefix):
            first = [] if prefix is None else [literal(prefix) if isinstance(prefix, str) else str(prefix)]
            return f"xxhash64({', '.join([*first, *map(frame.text, columns)])})"
        case EventIdentity(columns):
            return identity_column_text(frame, columns)


def _needed(query: Query, table: int, evaluator: SqlEvaluator) -> str | None:
    """The condition under which a row of an input is shuffled, as SQL; None if all rows are."""
    conditions, frame = query.inputs[table].keep_if, evaluator.frames[table]
    if conditions is None:
        return None
    predicates = {predicate.id: predicate for predicate in query.predicates}
    terms: dict[str, None] = {}
    for condition in conditions:
        parts = [] if frame.event_type is not None else [of_type_text(frame, condition.event_type)]
        parts += [f"({evaluator.predicate(predicates[n], table)})" for n in condition.predicates]
        terms[" and ".join(parts)] = None
    # A type without conditions makes the longer terms of that type redundant; Catalyst removes those.
    return " or ".join(f"({term})" for term in terms) or "false"


def available_columns(expr: ex.Expr, frame: InputFrame) -> Mapping[str, st.DataType]:
    """The input's columns, and null for columns of the expression that it lacks."""
    missing = {e.parts[0] for e in ex.walk(expr) if isinstance(e, ex.Ref)} - set(frame.columns)
    return {**frame.columns, **{name: st.NullType() for name in missing}}


# Schemas


def schema_of(frame: InputFrame) -> TableSchema:
    """The schema of a DataFrame, for binding."""
    columns = {name: describe_column(kind) for name, kind in frame.columns.items()}
    return TableSchema(columns, frame.event_type, frame.id, frame.order_by, 1000 * (delay_of(frame) or 0))


def shared_columns(frames: Sequence[InputFrame]) -> dict[str, TableColumn]:
    """The columns of all DataFrames, with the types that they share."""
    return {name: describe_column(kind) for name, kind in types_of(frames)[1].items()}


def describe_column(kind: st.DataType) -> TableColumn:
    """A column of a Spark type."""
    inner = kind.fields if isinstance(kind, st.StructType) else []
    fields = {field.name: describe_column(field.dataType) for field in inner}
    return TableColumn(to_arrow(kind), kind.simpleString(), spark_type(kind), fields)


def internal_schema(schema: pa.Schema, counted: bool, types: int = 0) -> pa.Schema:
    """The schema under internal names, unique regardless of case, with a struct of counters if ``counted``."""
    fields = [field.with_name(f"{OURS}out{i}") for i, field in enumerate(schema)]
    names = [*OF_A_BATCH, *(f"{OF_TYPE}{i}" for i in range(types))]
    counters = [pa.field(HITS, pa.struct([(name, pa.int64()) for name in names]))] if counted else []
    return pa.schema([*fields, *counters])


def spark_schema(schema: pa.Schema) -> st.StructType:
    fields = [st.StructField(f.name, to_spark(f.type), True) for f in schema]
    return st.StructType(fields)


def read_relations(relations: Mapping[str, object]) -> dict[str, list[tuple[object, ...]]]:
    """Relations for executors, from local rows; raises for a DataFrame, which the caller has to collect."""
    out = {}
    for name, rows in relations.items():
        if hasattr(rows, "sparkSession"):
            raise BindingError(
                f"Relation {name!r} is a DataFrame, expected local rows: they are sent with the plan.",
                hint=f"Collect it if it is small: relations={{{name!r}: frame.toPandas()}}.",
            )
        out[name] = read_relation(name, rows)
    return out
