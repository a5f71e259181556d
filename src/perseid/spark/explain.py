"""What ``explain`` and ``why_not`` ask of Spark: how a detection would run, and a few events in hand.

Explaining runs no job: it reads schemas and the same projection that a detection is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as st

from perseid.compile.plan import PatternPlan, Plan, Predicate
from perseid.engines.disorder.strategy import Buffer
from perseid.errors import UnsupportedError, did_you_mean, is_internal
from perseid.lang import expressions as ex
from perseid.lang.printer import print_duration, print_expr
from perseid.local.narrow import Key
from perseid.local.rows import Events, read_events
from perseid.runtime.watermark import ARRIVAL, WATERMARK
from perseid.semantics.detection import expressions_of
from perseid.semantics.events import Event
from perseid.spark.arrow import to_arrow
from perseid.spark.expressions import predicate_text
from perseid.spark.input_counts import named_types
from perseid.spark.inputs import Input, delay_of, field_type, inputs_of, key_text, quoted, time_text, types_of
from perseid.spark.projection import MAX_HITS, Projection, columns_seen, project
from perseid.spark.readable_sql import readable_sql
from perseid.spark.worker import ROUTE
from perseid.viz.detection import (
    Row,
    all_needed,
    caps,
    describe_budget,
    describe_max_ahead,
    engines,
    fed,
    kernels,
    routes,
    section,
)

if TYPE_CHECKING:
    import pyarrow as pa

_SQL = 160
_LONGEST = 40
_SAMPLE = 1_000


def explain_detection(plan: Plan, stream: Events) -> str:
    """How a detection on Spark would run, in words."""
    projection = project(plan, stream, _no_rows(plan), counted=False)
    types, _ = types_of(projection.inputs)
    rows: list[Row] = [
        *(("input", _input(one)) for one in projection.inputs),
        *_types(plan, projection),
        *(("engine", text) for text in engines(plan)),
        *fed(plan, "in the same query, where the key is"),
        *_catalyst(plan, projection),
        *_executors(plan, projection),
        *_dropped(plan, projection),
        *(("partitions", text) for text in routes(plan)),
        ("shuffled by", _shuffle(projection)),
        *(_stream(plan, stream, projection) if _streams(stream) else []),
        ("to Python", _crossing(projection)),
        *kernels(projection.plan, types),
        *_earlier(plan),
        *(("caps", text) for text in caps(plan)),
        ("budget", describe_budget(stream.budget)),
    ]
    return "\n".join(section(_title(stream), rows)).rstrip() + "\n"


def _streams(stream: Events) -> bool:
    return any(one.data.isStreaming for _, one in stream.inputs())


def _title(stream: Events) -> str:
    return "run on Spark, as a stream" if _streams(stream) else "run on Spark, as a batch"


def _stream(plan: Plan, stream: Events, projection: Projection) -> list[Row]:
    """When a stream speaks, what it keeps, and what it leaves out."""
    delays = [delay_of(one) for one in projection.inputs]
    known = [delay for delay in delays if delay is not None]
    slowest: int = max(known, default=0)
    late = f"{print_duration(slowest * 1000)} behind the newest event" if slowest else "the newest event"
    speaks = {
        WATERMARK: f"what the watermark ({late}) has made final, one batch after it has"
        if known
        else "nothing: no watermark",
        ARRIVAL: "at once what the newest event of its key has made final; absences when the watermark passes",
    }
    rows: list[Row] = [("order", f"{stream.order}: tells {speaks[stream.order]}")]
    if not isinstance(stream.disorder, Buffer):
        rows = [("disorder", f"{projection.strategy.name}: tells {projection.why}")]
    if stream.idle is not None:
        rows.append(
            ("silence", f"after {print_duration(stream.idle)} without a new watermark, time goes on by the clock")
        )
    rows.append(("state", f"{stream.shards} shards, at most {stream.max_state:,} bytes each; raw events"))
    rows += [("kept", f"{pattern.name}: {_kept(pattern)}") for pattern in plan.patterns]
    rows.append(("max_ahead", describe_max_ahead(stream.max_ahead)))
    rows.append(
        (
            "left out",
            "rows at or before the watermark (late) and without a time (bad): counted, and rows with rejected=True",
        )
    )
    return rows


def _kept(pattern: PatternPlan) -> str:
    kept = pattern.retention
    if kept.kind == "empty":
        return "nothing beyond the watermark"
    if pattern.pattern.context is not None:
        return "events since no partial match was open"
    if kept.micros is not None:
        return f"events of open attempts, up to {print_duration(kept.micros)} behind the watermark"
    if kept.events is not None:
        return f"events of open attempts, up to {kept.events} a key"
    return f"events of open attempts, without a bound; {kept.cap:,} attempts a key"


def _no_rows(plan: Plan) -> dict[str, list[tuple[object, ...]]]:
    """Empty relations: what they hold does not change how a detection runs."""
    asked = [e for p in plan.patterns for expr in expressions_of(p.pattern) for e in ex.walk(expr)]
    return {e.relation: [] for e in asked if isinstance(e, ex.InRelation)}


def _input(one: Input) -> str:
    kind = f"all of type {one.event_type}" if one.event_type is not None else f"type from {one.type}"
    ids = ", ".join(one.id) or "all columns"
    ranks = f", equal times by {', '.join(one.order_by)}" if one.order_by else ""
    time = f"{one.time} ({_describe_time(one.columns[one.time])})"
    own = [name for name, _, _ in one.own if not is_internal(name)]
    return f"{len(own)} columns; time from {time}, {kind}, identity from {ids}{ranks}"


def _describe_time(kind: st.DataType) -> str:
    """The type of a time column, and the conversion to a time if it is no timestamp and no date."""
    if isinstance(kind, st.StringType):
        return f"{kind.simpleString()}, read as ISO 8601; other texts are bad rows"
    if isinstance(kind, st.NumericType):
        return f"{kind.simpleString()}, seconds since 1970"
    return kind.simpleString()


def _types(plan: Plan, projection: Projection) -> list[Row]:
    """The event types that steps name; where inputs are given by type, those of them that no input is of."""
    named = named_types(plan)
    if not named:
        return []
    rows: list[Row] = [("event types", f"{', '.join(named)}: rows of each are counted as 'events of …'")]
    given = [one.event_type for one in projection.inputs if one.event_type is not None]
    for name in named if len(given) == len(projection.inputs) else ():
        if name not in given:
            rows.append(("no input", f"is of type {name}.{did_you_mean(name, given)} Inputs: {', '.join(given)}"))
    return rows


def _short(sql: str, one: Input) -> str:
    sql = readable_sql(sql, {here: name for name, here, _ in one.own if here != name})
    return sql if len(sql) <= _SQL else sql[: _SQL - 1].rstrip() + "…"


def _catalyst(plan: Plan, projection: Projection) -> list[Row]:
    """Conditions Spark decides before anything moves, each with its SQL."""
    rows: list[Row] = []
    for number in projection.in_catalyst:
        predicate = plan.predicates[number]
        text = print_expr(predicate.expr)
        written = ((_sql(predicate, one), one) for one in projection.inputs)
        shown = dict.fromkeys(_short(sql, one) for sql, one in written if sql is not None)
        rows += [("in Catalyst", f"{text}  as  {sql}") for sql in shown]
    rows += [("computed there", text) for text in projection.job.made]
    if not rows and not projection.on_executors:
        return [("in Catalyst", "no condition: all of them need earlier events" if plan.predicates else "no condition")]
    return rows


def _sql(predicate: Predicate, one: Input) -> str | None:
    if one.event_type is not None and predicate.event_type not in (None, one.event_type):
        return None
    seen = columns_seen(predicate.expr, one)
    return predicate_text(predicate.expr, seen, time=one.time, type=one.type, event_type=one.event_type)


def _executors(plan: Plan, projection: Projection) -> list[Row]:
    """Conditions of one event that are asked on the executors, and why."""
    rows: list[Row] = []
    for number in projection.on_executors:
        expr = plan.predicates[number].expr
        why = "Spark SQL has no exact words for it"
        if any(isinstance(e, ex.InRelation) for e in ex.walk(expr)):
            why = "it asks a relation, whose rows travel with the plan"
        elif len(projection.in_catalyst) >= MAX_HITS:
            why = f"{MAX_HITS} conditions travel as bits, and these are more"
        rows.append(("on executors", f"{print_expr(expr)}  ({why})"))
    return rows


def _earlier(plan: Plan) -> list[Row]:
    later = [x for x in plan.predicates if not x.event_local]
    return [("with earlier events", f"{print_expr(x.expr)}  (the engine asks it, after the shuffle)") for x in later]


def _dropped(plan: Plan, projection: Projection) -> list[Row]:
    """Which rows never reach the shuffle."""
    rows: list[Row] = []
    for one, wanted in zip(projection.inputs, projection.wanted, strict=True):
        where = f"of {one.event_type}: " if one.event_type is not None else ""
        if wanted is not None:
            rows.append(("dropped before", f"{where}rows for which this is not true: {_short(wanted, one)}"))
        elif plan.event_types is None:
            rows.append(("dropped before", f"{where}rows without a time only; {all_needed(plan)}"))
        else:
            rows.append(("dropped before", f"{where}rows without a time only; every row may be wanted"))
    return rows


def _shuffle(projection: Projection) -> str:
    names = {here: name for keys in projection.job.keys.values() for name, here in keys}
    shown = ["the way of partitioning" if key == ROUTE else names.get(key, key) for key in projection.keys]
    return ", ".join(shown) if shown else "nothing: all rows go to one task"


def _crossing(projection: Projection) -> str:
    """The columns of a row when it leaves Spark's memory for Python's."""
    job = projection.job
    parts = ["time, kind and identity"]
    if job.predicates:
        parts.append(f"{len(job.predicates)} condition{'' if len(job.predicates) == 1 else 's'} as bits")
    keys = dict.fromkeys(name for pairs in job.keys.values() for name, _ in pairs)
    if keys:
        parts.append(f"keys {', '.join(keys)}")
    if job.ranks:
        parts.append(f"{len(job.ranks)} of order_by")
    if job.made:
        parts.append(f"{len(job.made)} computed")
    columns = [name for name in job.columns if not is_internal(name)]
    parts.append(f"columns {', '.join(columns)}" if columns else "no column of the data")
    return "; ".join(parts)


# events in hand


def collect_events(stream: Events, key: Key, most: int) -> list[Event] | None:
    """The events of one key, collected; None where they are more than that many."""
    inputs = inputs_of(stream)
    for one in inputs:
        if getattr(one.frame, "isStreaming", False):
            raise UnsupportedError(
                "why_not looks at finite data; this DataFrame is a stream.",
                hint="Read the same rows as a batch: spark.read in the place of spark.readStream.",
            )
    found = _gathered(stream, inputs, key, most + 1)
    if not found and key:
        found = _gathered(stream, inputs, {}, _SAMPLE)  # to name keys that there are
    return None if len(found) > most else found


def untimed(stream: Events) -> list[str]:
    """A sentence for each input with rows that are left out because nothing says when they happened."""
    sentences = []
    for one in inputs_of(stream):
        read = time_text(one)
        rows, without, example = one.frame.selectExpr(
            "count(*)", f"count_if(({read}) is null)", f"first(if(({read}) is null, {quoted(one.time)}, null), true)"
        ).collect()[0]
        if without:
            shown = "null" if example is None else repr(str(example)[:_LONGEST])
            sentences.append(
                f"{without} of {rows} rows{f' of {one.event_type}' if one.event_type else ''} are left out: "
                f"{one.time!r} is no time there, as {shown}; texts are read as ISO 8601, others parse first."
            )
    return sentences


def _gathered(stream: Events, inputs: list[Input], key: Key, most: int) -> list[Event]:
    _, types = types_of(inputs)
    few: dict[str | None, pa.Table] = {}
    for one in inputs:
        few[one.event_type] = _collected(one, key, types, max(most - sum(map(len, few.values())), 0))
    return read_events(replace(stream, data=few if isinstance(stream.data, Mapping) else few[None]))


def _collected(one: Input, key: Key, types: Mapping[str, st.DataType], most: int) -> pa.Table:
    """The rows of a key that have a time, as an Arrow table: times in it do not depend on anybody's zone."""
    from pyspark.sql import functions as f

    frame = one.frame.where(f"({time_text(one)}) is not null")
    for path, value in key.items():
        if field_type(path, types) is not None:
            frame = frame.where(f.expr(key_text(one, path, types)).eqNullSafe(f.lit(value)))
        elif value is not None:
            frame = frame.limit(0)
    texts = [
        f"{quoted(here)} as {quoted(name)}" for name, here, data_type in one.own if to_arrow(data_type) is not None
    ]
    return frame.limit(most).selectExpr(*texts).toArrow()
