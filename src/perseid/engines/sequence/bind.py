"""Binds patterns to a stream of events: the query as plain data, for the engine of any disorder strategy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from perseid.compile.event_types import named_types, required_types
from perseid.compile.plan import Plan
from perseid.engines.disorder.choice import choose_strategy
from perseid.engines.disorder.strategy import BUFFER, Buffer, Conservative, Strategy
from perseid.engines.sequence.bind_errors import (
    require_known_columns,
    require_punctuations,
    require_streamable,
    require_suppressible,
    require_typed,
)
from perseid.engines.sequence.plan import SequencePlan
from perseid.engines.sequence.stream import Events
from perseid.errors import TypeMismatchError, UnsupportedError
from perseid.lang import expressions as ex
from perseid.runtime.query import (
    EventIdentity,
    Input,
    PunctuationColumns,
    Query,
    RejectedRows,
    RouteColumn,
    RowCondition,
    RowEvaluator,
    RowPredicate,
    StateOptions,
    TableColumn,
    TableSchema,
)
from perseid.runtime.registry import engines
from perseid.semantics.detection import expressions_of
from perseid.semantics.output_names import free_name

ENGINE = "sequence"


@dataclass(frozen=True)
class BindOptions:
    """Options of a query that neither its stream nor its patterns declare."""

    streaming: bool = False
    """The tables are streams; otherwise they are complete."""
    rejected: bool = False
    """Rejected rows are rows of the result, with the reason and their columns as JSON."""
    bad_only: bool = False
    """Rejected rows that are not bad show only their position or identity."""


def bind_events(
    stream: Events,
    plan: Plan,
    schemas: Sequence[TableSchema],
    columns: Mapping[str, TableColumn],
    evaluator: RowEvaluator,
    options: BindOptions,
) -> Query:
    """The query of compiled patterns over tables with these schemas, in the order of :meth:`Events.tables`.

    ``columns`` are those of all tables: each has the type that all tables share.
    """
    if options.streaming:
        require_streamable(plan, stream.order)
    require_suppressible(plan)
    require_known_columns(plan, schemas, columns)
    types = {name: column.meaning for name, column in columns.items()}
    arrow = {name: column.type for name, column in columns.items() if column.type is not None}
    predicates, engine_predicates = _predicates(plan, schemas, evaluator)
    undecided = _without(plan, predicates)
    delay = max(schema.delay for schema in schemas)
    strategy = strategy_for(stream, plan, delay, options.streaming)[0]
    is_ordered = isinstance(strategy, Buffer)
    engine = ENGINE if is_ordered else strategy.name
    settings: dict[str, Strategy] = {} if is_ordered else {"strategy": strategy}
    compiled: SequencePlan = engines()[engine].plan(
        undecided, types, arrow=arrow, strictly_later=stream.strictly_later, **settings
    )
    require_typed(plan, compiled, types)
    schema = _result_schema(compiled.schema, arrow)
    if options.rejected:
        for name in ("reason", "row"):
            schema = schema.append(pa.field(free_name(name, schema.names), pa.string()))
    constants = {} if options.rejected or strategy.retracts else _constants(plan)
    step_schema = _step_schema(schema, constants, options.streaming)
    compiled = replace(compiled, schema=step_schema, budget=stream.budget)
    computed, needed = _needed_columns(undecided, compiled, schemas, engine_predicates, set(types), evaluator)
    punctuations = None
    if isinstance(strategy, Conservative):
        column = require_punctuations(strategy, schemas, plan)
        punctuations = PunctuationColumns(column, strategy.source, plan.event_types)
        needed |= set() if strategy.source is None else {strategy.source}
    _require_crossing(compiled, needed, columns)
    if options.streaming:
        compiled = replace(compiled, order=stream.order, delay=delay, shards=stream.shards, max_state=stream.max_state)
    paths = list(dict.fromkeys(path for route in plan.routes for path in route.paths))
    return Query(
        name=", ".join(pattern.name for pattern in plan.patterns),
        engine=engine,
        plan=compiled,
        inputs=tuple(
            Input(
                columns={name: name for name in arrow if name in needed and name in table.columns},
                identity=EventIdentity(table.id),
                route=tuple(map(RouteColumn, paths)),
                order_by=table.order_by,
                keep_if=_row_filters(plan, compiled, table.event_type, predicates),
            )
            for table in schemas
        ),
        columns={name: kind for name, kind in arrow.items() if name in needed},
        type_names=None if _reads_types(plan) else _type_names(compiled),
        step_schema=step_schema,
        schema=schema,
        constants=constants,
        state=StateOptions(stream.shards, stream.max_state, stream.idle, stream.max_ahead),
        predicates=predicates,
        computed=computed,
        keys={
            route.id: tuple((name, paths.index(path)) for name, path in zip(route.columns, route.paths, strict=True))
            for route in plan.routes
        },
        dedupe=stream.dedupe,
        punctuations=punctuations,
        event_types=named_types(plan),
        required_types=required_types(plan),
        rejected=_rejected_rows(stream, schemas, options),
    )  # fmt: skip


def strategy_for(stream: Events, plan: Plan, delay: int, streaming: bool) -> tuple[Strategy, str]:
    """The disorder strategy, and the reason for it; complete tables use ``BUFFER``."""
    return choose_strategy(stream.disorder if streaming else BUFFER, plan, delay)


def _rejected_rows(stream: Events, schemas: Sequence[TableSchema], options: BindOptions) -> RejectedRows | None:
    if not options.rejected:
        return None
    position = stream.position if options.bad_only else None
    if not all(position in schema.columns for schema in schemas):
        position = None  # events of documents have no column with the position of their document
    return RejectedRows(reason=stream.wrong, bad_only=options.bad_only, position=position)


def _predicates(
    plan: Plan, schemas: Sequence[TableSchema], evaluator: RowEvaluator
) -> tuple[tuple[RowPredicate, ...], list[int]]:
    """The predicates that the driver evaluates, and the ids of other predicates that one event decides."""
    chosen: list[RowPredicate] = []
    engine_predicates = []
    of_matches = _of_matches(plan)
    for predicate in plan.predicates:
        if not predicate.event_local:
            continue
        tables = (
            i
            for i, schema in enumerate(schemas)
            if schema.event_type is None or predicate.event_type in (None, schema.event_type)
        )
        if (
            predicate.id in of_matches
            or not all(evaluator.evaluates(predicate.expr, i) for i in tables)
            or len(chosen) >= evaluator.max_predicates
        ):
            engine_predicates.append(predicate.id)
        else:
            chosen.append(RowPredicate(predicate.id, predicate.expr, predicate.event_type))
    return tuple(chosen), engine_predicates


def _of_matches(plan: Plan) -> set[int]:
    """Ids of predicates over matches that feed patterns: only the engine has these matches."""
    consumed = {name for pattern in plan.patterns for name in pattern.feeds_on}
    read = {
        n
        for pattern in plan.patterns
        if pattern.feeds_on
        for step in pattern.steps
        for n in (*(k for k, _ in step.choose), *step.must)
    }
    return {
        one.id for one in plan.predicates if one.event_type in consumed or (one.event_type is None and one.id in read)
    }


def _without(plan: Plan, predicates: Iterable[RowPredicate]) -> Plan:
    """The plan for the engine: predicates that the driver evaluates are true and read no columns."""
    decided = {one.id for one in predicates}
    true = ex.Literal("boolean", True)
    return replace(plan, predicates=tuple(replace(p, expr=true) if p.id in decided else p for p in plan.predicates))


def _reads_types(plan: Plan) -> bool:
    """True if an expression reads the type of an event: codes cover only the types that steps name."""
    exprs = [expr for pattern in plan.patterns for expr in expressions_of(pattern.pattern)]
    return any(isinstance(e, ex.Call) and e.name == "type" for expr in exprs for e in ex.walk(expr))


def _type_names(compiled: SequencePlan) -> tuple[str, ...]:
    bits = (bit for pattern in compiled.patterns for bit in pattern.bits)
    return tuple(dict.fromkeys(bit.event_type for bit in bits if bit.event_type is not None))


def _needed_columns(
    plan: Plan,
    compiled: SequencePlan,
    schemas: Sequence[TableSchema],
    engine_predicates: Sequence[int],
    known: set[str],
    evaluator: RowEvaluator,
) -> tuple[dict[str, ex.Expr], set[str]]:
    """The expressions that the driver evaluates, by their text, and the columns that are sent to Python."""
    computed: dict[str, ex.Expr] = {}
    needed: set[str] = set()
    for pattern in compiled.patterns:
        core = pattern.pattern.pattern
        if core.evidence is not None:
            needed |= known
        for column in pattern.columns:
            if isinstance(column.expr, ex.Ref) and len(column.expr.parts) == 1:
                needed.add(column.expr.parts[0])
            elif column.formula is None:
                is_own = not pattern.pattern.feeds_on
                if is_own and all(evaluator.evaluates(column.expr, i) for i in range(len(schemas))):
                    computed[column.text] = column.expr
                else:
                    needed |= _names_in(column.expr)
        needed |= {name for _, name in pattern.output_columns.values()}
        returned = zip(pattern.outputs, core.returns, strict=True)
        for expr in (*pattern.python_conditions, *(expr for (_, formula, _), (_, expr) in returned if formula is None)):
            needed |= _names_in(expr)
        for path, _ in (pair for step in core.steps for pair in step.unify):
            needed.add(path.parts[0])
    for n in engine_predicates:
        needed |= _names_in(plan.predicates[n].expr)
    return computed, needed & known


def _names_in(expr: ex.Expr) -> set[str]:
    return {part for e in ex.walk(expr) if isinstance(e, ex.Ref) for part in e.parts[:2]}


def _require_crossing(compiled: SequencePlan, needed: set[str], columns: Mapping[str, TableColumn]) -> None:
    """Raise an error for a needed column that cannot be sent to Python; evidence omits such columns."""
    lost = {name for name in needed if columns[name].type is None}
    if any(pattern.pattern.pattern.evidence is not None for pattern in compiled.patterns):
        exprs = [expr for pattern in compiled.patterns for expr in expressions_of(pattern.pattern.pattern)]
        lost &= {name for expr in exprs for name in _names_in(expr)}
    for name in sorted(lost)[:1]:
        raise UnsupportedError(
            f"Column {name!r} has type {columns[name].type_name}, which cannot be sent to Python.",
            hint="Cast it first: df.withColumn(…).",
        )


def _row_filters(
    plan: Plan, compiled: SequencePlan, event_type: str | None, predicates: Sequence[RowPredicate]
) -> tuple[RowCondition, ...] | None:
    """Conditions on the rows of a table that a step may need; None if it may need all rows."""
    if plan.event_types is None:
        return None
    decided = {one.id for one in predicates}
    terms: dict[RowCondition, None] = {}
    for pattern in compiled.patterns:
        for bit in pattern.bits:
            if bit.event_type is None:
                return None
            if event_type is None or event_type == bit.event_type:
                terms[RowCondition(bit.event_type, tuple(n for n in bit.predicates if n in decided))] = None
    return None if any(term.event_type == event_type and not term.predicates for term in terms) else tuple(terms)


# Output


def _result_schema(schema: pa.Schema, arrow: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of the result; raises an error for a column of unknown type."""
    fields = []
    for field in schema:
        kind = field.type
        if field.name == "evidence":
            kind = pa.list_(pa.struct(list(arrow.items())))  # only columns that can be sent to Python
        if pa.types.is_null(kind):
            raise TypeMismatchError(
                f"The type of the returned column {field.name!r} does not follow from the schema of the DataFrame.",
                hint="Cast it: return cast(… as string) as …",
            )
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _constants(plan: Plan) -> dict[str, str | int]:
    """Columns with the same value in every match."""
    found: dict[str, str | int] = {"op": "+", "revision": 0}
    if len(plan.patterns) == 1:
        found["pattern"] = plan.patterns[0].name
    if not any(pattern.pattern.report_timeouts for pattern in plan.patterns):
        found["kind"] = "match"
    return found


def _step_schema(schema: pa.Schema, constants: Collection[str], streaming: bool) -> pa.Schema:
    """The schema of the step: without constants, and in a batch query with ids as bytes, formatted only if read.

    Ids of a stream are always read, and Java formats them more slowly.
    """
    fields = [field for field in schema if field.name not in constants]
    ids = pa.field("match_id", pa.string() if streaming else pa.binary())
    return pa.schema([ids if field.name == "match_id" else field for field in fields])
