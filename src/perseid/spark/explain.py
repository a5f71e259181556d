"""``explain`` and ``why_not`` on Spark: the execution of a query in words, and collected events.

Explaining runs no job: it reads schemas and the projection that detection uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import types as st

from perseid.compile.event_types import named_types
from perseid.compile.plan import PatternPlan, Plan
from perseid.errors import UnsupportedError, did_you_mean, is_internal
from perseid.lang import expressions as ex
from perseid.lang.printer import print_duration, print_expr
from perseid.runtime.explanation import Row, describe_budget, describe_max_ahead, section
from perseid.runtime.query import DeclaredTable, Query
from perseid.runtime.registry import engines
from perseid.runtime.watermark import ARRIVAL, WATERMARK
from perseid.semantics.types import Type
from perseid.spark.arrow import to_arrow
from perseid.spark.inputs import InputFrame, delay_of, field_type, inputs_of, key_text, quoted, time_text, types_of
from perseid.spark.projection import MAX_HITS, Projection, SqlEvaluator, project
from perseid.spark.query_driver import SparkTables
from perseid.spark.readable_sql import readable_sql
from perseid.spark.worker import ROUTE
from perseid.viz.detection import all_needed, caps, describe_engines, fed, routes

if TYPE_CHECKING:
    import pyarrow as pa

Key: TypeAlias = Mapping[tuple[str, ...], object]
"""Values of key columns, by their path."""
_SQL = 160
_LONGEST = 40
_SAMPLE = 1_000


def explain_query(plan: Plan, query: Query, data: SparkTables, disorder: str | None) -> str:
    """Describe how a query runs on Spark; ``disorder`` describes the handling of out-of-order events, if configured."""
    projection = project(query, data.evaluator)
    types = {name: column.meaning for name, column in data.columns.items()}
    rows: list[Row] = [
        *(("input", _input(one)) for one in projection.frames),
        *_types(plan, projection),
        *(("engine", text) for text in describe_engines(plan, query.engine)),
        *fed(plan, "in the same query, on the shard of the key"),
        *_evaluated(plan, data.evaluator, projection),
        *_dropped(plan, projection),
        *(("partition by", text) for text in routes(plan)),
        ("shuffle keys", _shuffle(projection)),
        *(_stream(plan, query, data.frames, disorder) if data.streaming else []),
        ("to Python", _crossing(projection)),
        *_search(query, types),
        *_earlier(plan),
        *(("limits", text) for text in caps(plan)),
        ("budget", describe_budget(query.plan.budget)),
    ]
    title = f"run on Spark, as a {'stream' if data.streaming else 'batch'}"
    return "\n".join(section(title, rows)).rstrip() + "\n"


def _search(query: Query, types: Mapping[str, Type]) -> list[Row]:
    """The engine's own description of its plan."""
    explain = engines()[query.engine].explain
    return [] if explain is None else explain(query.plan, types)


def _stream(plan: Plan, query: Query, frames: Sequence[InputFrame], disorder: str | None) -> list[Row]:
    """Emission, retained state and rejected rows of a stream."""
    state = query.state
    delays = [delay_of(frame) for frame in frames]
    declared_delays = [delay for delay in delays if delay is not None]
    slowest: int = max(declared_delays, default=0)
    late = f"{print_duration(slowest * 1000)} behind the newest event" if slowest else "the newest event"
    emits = {
        WATERMARK: f"matches finalized by the watermark ({late}), one batch later"
        if declared_delays
        else "nothing: no watermark",
        ARRIVAL: "matches finalized by the newest event of the key, immediately; matches that end with 'not' once the watermark passes",
    }
    rows: list[Row] = [("order", f"{query.plan.order}: emits {emits[query.plan.order]}")]
    if disorder is not None:
        rows = [("disorder", disorder)]
    if state.idle is not None:
        idle = print_duration(state.idle)
        rows.append(("idle timeout", f"after {idle} without a new watermark, processing time advances event time"))
    rows.append(("state", f"{state.shards} shards, at most {state.max_state:,} bytes each; contains raw events"))
    rows += [("retained", f"{pattern.name}: {_retained(pattern)}") for pattern in plan.patterns]
    rows.append(("max_ahead", describe_max_ahead(state.max_ahead)))
    rows.append(
        (
            "rejected",
            "rows at or before the watermark (late) or without a time (bad): counted, and output with rejected=True",
        )
    )
    return rows


def _retained(pattern: PatternPlan) -> str:
    retention = pattern.retention
    if retention.kind == "empty":
        return "no events once the watermark has passed them"
    if pattern.pattern.context is not None:
        return "events since the last time without an open partial match"
    if retention.micros is not None:
        return f"events of open partial matches, up to {print_duration(retention.micros)} behind the watermark"
    if retention.events is not None:
        return f"events of open partial matches, up to {retention.events} per key"
    return f"events of open partial matches, unbounded; at most {retention.cap:,} partial matches per key"


def _input(frame: InputFrame) -> str:
    kind = f"all of type {frame.event_type}" if frame.event_type is not None else f"type from {frame.type}"
    ids = ", ".join(frame.id) or "all columns"
    ranks = f", equal times ordered by {', '.join(frame.order_by)}" if frame.order_by else ""
    time = f"{frame.time} ({_describe_time(frame.columns[frame.time])})"
    user_columns = [name for name, _, _ in frame.user_columns if not is_internal(name)]
    return f"{len(user_columns)} columns; time from {time}, {kind}, event id from {ids}{ranks}"


def _describe_time(kind: st.DataType) -> str:
    """The type of a time column, and the conversion to a time if it is no timestamp and no date."""
    if isinstance(kind, st.StringType):
        return f"{kind.simpleString()}, parsed as ISO 8601; rows with other text are bad"
    if isinstance(kind, st.NumericType):
        return f"{kind.simpleString()}, seconds since 1970"
    return kind.simpleString()


def _types(plan: Plan, projection: Projection) -> list[Row]:
    """The event types that steps name and, if every input has a type, those without an input."""
    named = named_types(plan)
    if not named:
        return []
    rows: list[Row] = [("event types", f"{', '.join(named)}: rows of each type are counted as 'events of …'")]
    input_types = [frame.event_type for frame in projection.frames if frame.event_type is not None]
    for name in named if len(input_types) == len(projection.frames) else ():
        if name not in input_types:
            similar = did_you_mean(name, input_types)
            rows.append(("missing input", f"no input of type {name}.{similar} Available: {', '.join(input_types)}"))
    return rows


def _short(sql: str, frame: InputFrame) -> str:
    sql = readable_sql(sql, {alias: name for name, alias, _ in frame.user_columns if alias != name})
    return sql if len(sql) <= _SQL else sql[: _SQL - 1].rstrip() + "…"


def _evaluated(plan: Plan, evaluator: SqlEvaluator, projection: Projection) -> list[Row]:
    """Event-local predicates, by place of evaluation."""
    rows = [*_catalyst(evaluator, projection), *_executors(plan, projection)]
    if rows:
        return rows
    return [("in Catalyst", "no condition: all conditions need earlier events" if plan.predicates else "no condition")]


def _catalyst(evaluator: SqlEvaluator, projection: Projection) -> list[Row]:
    """Predicates that Catalyst evaluates before the shuffle, with their SQL, and computed columns."""
    rows: list[Row] = []
    for predicate in projection.query.predicates:
        text = print_expr(predicate.expr)
        shown = dict.fromkeys(
            _short(evaluator.condition(predicate.expr, i), frame)
            for i, frame in enumerate(projection.frames)
            if frame.event_type is None or predicate.event_type in (None, frame.event_type)
        )
        rows += [("in Catalyst", f"{text}  as  {sql}") for sql in shown]
    rows += [("computed", text) for text in projection.job.computed_columns]
    return rows


def _executors(plan: Plan, projection: Projection) -> list[Row]:
    """Event-local predicates that are evaluated on the executors, with the reason."""
    rows: list[Row] = []
    in_catalyst = {predicate.id for predicate in projection.query.predicates}
    for predicate in plan.predicates:
        if not predicate.event_local or predicate.id in in_catalyst:
            continue
        reason = "no exact equivalent in Spark SQL"
        if any(isinstance(e, ex.InRelation) for e in ex.walk(predicate.expr)):
            tables = sorted({e.relation for e in ex.walk(predicate.expr) if isinstance(e, ex.InRelation)})
            reason = f"relation {', '.join(tables)}, broadcast to executors"
        elif len(in_catalyst) >= MAX_HITS:
            reason = f"at most {MAX_HITS} conditions are evaluated in Catalyst"
        rows.append(("on executors", f"{print_expr(predicate.expr)}  ({reason})"))
    return rows


def _earlier(plan: Plan) -> list[Row]:
    later = [x for x in plan.predicates if not x.event_local]
    return [("over several events", f"{print_expr(x.expr)}  (in the engine, after the shuffle)") for x in later]


def _dropped(plan: Plan, projection: Projection) -> list[Row]:
    """Rows that are dropped before the shuffle."""
    rows: list[Row] = []
    for frame, needed in zip(projection.frames, projection.needed, strict=True):
        where = f"of {frame.event_type}: " if frame.event_type is not None else ""
        if needed is not None:
            rows.append(("dropped", f"{where}rows that do not satisfy {_short(needed, frame)}"))
        elif plan.event_types is None:
            rows.append(("dropped", f"{where}only rows without a time; {all_needed(plan)}"))
        else:
            rows.append(("dropped", f"{where}only rows without a time; any row may be needed"))
    return rows


def _shuffle(projection: Projection) -> str:
    names = {column: name for keys in projection.job.keys.values() for name, column in keys}
    shown = ["partitioning number" if key == ROUTE else names.get(key, key) for key in projection.route]
    return ", ".join(shown) if shown else "nothing: all rows go to one task"


def _crossing(projection: Projection) -> str:
    """The columns that are transferred from the JVM to Python."""
    job = projection.job
    parts = ["time, type and event id"]
    if job.predicates:
        predicate_count = len(job.predicates)
        parts.append("1 condition, one bit" if predicate_count == 1 else f"{predicate_count} conditions, one bit each")
    keys = dict.fromkeys(name for pairs in job.keys.values() for name, _ in pairs)
    if keys:
        parts.append(f"keys {', '.join(keys)}")
    if job.ranks:
        parts.append(f"{len(job.ranks)} order_by column{'' if len(job.ranks) == 1 else 's'}")
    if job.computed_columns:
        parts.append(f"{len(job.computed_columns)} computed column{'' if len(job.computed_columns) == 1 else 's'}")
    columns = [name for name in job.columns if not is_internal(name)]
    parts.append(f"columns {', '.join(columns)}" if columns else "no data columns")
    return "; ".join(parts)


# Collected events


def collect_rows(tables: Sequence[DeclaredTable], key: Key, most: int) -> dict[str | None, pa.Table] | None:
    """Collect the rows of one key by event type; None if there are more than ``most``.

    If the key has no rows, a sample of all keys is collected, so that a message can name existing keys.
    """
    inputs = inputs_of(tables)
    for input_frame in inputs:
        if getattr(input_frame.frame, "isStreaming", False):
            raise UnsupportedError(
                "why_not expects a batch DataFrame, got a streaming DataFrame.",
                hint="Read the same rows as a batch, with spark.read instead of spark.readStream.",
            )
    tables_by_type = _gathered(inputs, key, most + 1)
    if not _count(tables_by_type) and key:
        tables_by_type = _gathered(inputs, {}, _SAMPLE)  # to name existing keys
    return None if _count(tables_by_type) > most else tables_by_type


def untimed(tables: Sequence[DeclaredTable]) -> list[str]:
    """A sentence for each input with rows that are left out because they have no readable time."""
    sentences = []
    for input_frame in inputs_of(tables):
        read = time_text(input_frame)
        rows, without, example = input_frame.frame.selectExpr(
            "count(*)",
            f"count_if(({read}) is null)",
            f"first(if(({read}) is null, {quoted(input_frame.time)}, null), true)",
        ).collect()[0]
        if without:
            shown = "null" if example is None else repr(str(example)[:_LONGEST])
            sentences.append(
                f"{without} of {rows} rows{f' of {input_frame.event_type}' if input_frame.event_type else ''} are dropped: "
                f"{input_frame.time!r} has no readable time, such as {shown}. Strings are parsed as ISO 8601; parse others first."
            )
    return sentences


def _gathered(inputs: list[InputFrame], key: Key, most: int) -> dict[str | None, pa.Table]:
    _, types = types_of(inputs)
    tables_by_type: dict[str | None, pa.Table] = {}
    for input_frame in inputs:
        tables_by_type[input_frame.event_type] = _collected(
            input_frame, key, types, max(most - _count(tables_by_type), 0)
        )
    return tables_by_type


def _count(tables: Mapping[str | None, pa.Table]) -> int:
    return sum(table.num_rows for table in tables.values())


def _collected(input_frame: InputFrame, key: Key, types: Mapping[str, st.DataType], most: int) -> pa.Table:
    """The rows of a key that have a time, as an Arrow table: its times do not depend on the session's time zone."""
    from pyspark.sql import functions as f

    frame = input_frame.frame.where(f"({time_text(input_frame)}) is not null")
    for path, value in key.items():
        if field_type(path, types) is not None:
            frame = frame.where(f.expr(key_text(input_frame, path, types[path[0]])).eqNullSafe(f.lit(value)))
        elif value is not None:
            frame = frame.limit(0)
    texts = [
        f"{quoted(column)} as {quoted(name)}"
        for name, column, data_type in input_frame.user_columns
        if to_arrow(data_type) is not None
    ]
    return frame.limit(most).selectExpr(*texts).toArrow()
