"""Live models on Spark: changes and frames go by the key of their model, through the operators that patterns have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.models.engine import MODELS
from perseid.engines.models.plan import ROLES, ModelsPlan, make_plan
from perseid.errors import EventDataError, missing_column
from perseid.local.frames import Frames
from perseid.local.models import Models, beside_of
from perseid.local.rows import Events
from perseid.runtime.contract import Engine
from perseid.semantics.model_steps import Beside, Group, Watched
from perseid.spark.arrow import to_arrow
from perseid.spark.inputs import Input, ahead_column, inputs_of, literal, time_text, types_of
from perseid.spark.projection import carried_schema
from perseid.spark.routed import in_batch, in_stream, refuse_rejected
from perseid.spark.stream import are_streams
from perseid.spark.worker import IDENTITY, KIND, OURS, TIME, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_KEY = f"{OURS}model"
"""Columns by which rows are routed: texts of what tells models apart."""
CHANGES = "Change"
EVENT = "event "
"""Before the names of columns of ordinary events, which may be called as what changes have."""


def detect_models(
    groups: Sequence[tuple[Group, Plan]],
    stream: Models,
    relations: Mapping[str, list[tuple[object, ...]]],
    *,
    rejected: bool,
    checkpoint: str | None,
    observation: Observation | None,
) -> DataFrame:
    """The DataFrame of matches, of a DataFrame of changes or frames, or of a streaming one."""
    refuse_rejected(rejected, "events", "changes")
    watched = [group.watched for group, _ in groups]

    def plan_of(types: Mapping[str, pa.DataType], beside: Mapping[str, str]) -> ModelsPlan:
        asked = [(group.watched, own) for group, own in groups]
        shape = stream.shape if isinstance(stream, Frames) else None
        return make_plan(
            asked, stream.queries, types, key=stream.key, order_by=stream.order_by, beside=beside, frames=shape
        )

    name = ", ".join(pattern.name for group, _ in groups for pattern in group.patterns)
    return over_models(
        MODELS, watched, plan_of, stream, name, relations, checkpoint=checkpoint, observation=observation
    )


def over_models(
    engine: Engine,
    watched: Sequence[Watched],
    plan_of: Callable[[Mapping[str, pa.DataType], Mapping[str, str]], ModelsPlan],
    stream: Models,
    name: str,
    relations: Mapping[str, list[tuple[object, ...]]],
    *,
    checkpoint: str | None,
    observation: Observation | None,
) -> DataFrame:
    """Rows that an engine makes of changes, frames, and events beside them.

    ``plan_of`` is given the types of what crosses to it, and which of that are columns of ordinary events.
    """
    (one,) = inputs_of(Events({CHANGES: stream.data}, time=stream.time, key=stream.key, order_by=stream.order_by))
    asked = tuple(dict.fromkeys(name for group in watched for name in group.happenings))
    others = _beside(one, stream, asked)
    streaming = are_streams([one.frame, *(other.frame for other in others)])
    frames = stream if isinstance(stream, Frames) else None
    types = _types_of_changes(one, stream) if frames is None else _types_of_frames(one, frames, watched)
    beside = _columns_beside(watched, others)
    types |= {f"{EVENT}{name}": kind for name, kind in beside.items()}
    plan = plan_of(types, {name: f"{EVENT}{name}" for name in beside})
    plan = replace(plan, shards=stream.shards, max_state=stream.max_state)
    job = Job(
        engine=engine, plan=plan, kind_names=(CHANGES, *asked), keys={}, ranks=(), predicates=(), made={},
        columns={name: f"{OURS}column{i}" for i, name in enumerate(types)}, schema=carried_schema(plan.schema, observation is not None),
        counted=observation is not None, relations=relations,
    )  # fmt: skip
    marked = any(part.has_ahead for part in (one, *others))
    shaped = one.frame.selectExpr(*_select(one, stream, job), *([ahead_column(one)] if marked else []))
    for other in others:
        columns = [*_select_beside(other, stream, job), *([ahead_column(other)] if marked else [])]
        shaped = shaped.unionByName(other.frame.selectExpr(*columns).where(f"{KIND} > 0"))
    routed = [f"{_KEY}{i}" for i in range(len(stream.key))]
    if streaming:
        told = in_stream(shaped, routed, job, stream, [one, *others], name, checkpoint)
    else:
        told = in_batch(shaped, routed, job, observation)
    return told.select(*job.schema.names[: len(plan.schema)]).toDF(*plan.schema.names)


def column_types(frame: DataFrame) -> dict[str, pa.DataType]:
    """Arrow's types of the columns of a DataFrame."""
    return {field.name: to_arrow(field.dataType) for field in frame.schema}


def _types_of_frames(one: Input, stream: Frames, watched: Sequence[Watched]) -> dict[str, pa.DataType]:
    """What crosses, and its type: what tells models apart, and what frames set that somebody asks for."""
    for name in stream.sets:
        if name not in one.columns:
            role = "value of " + ".".join(map(str, stream.sets[name]))
            raise missing_column("The DataFrame of frames", name, role, list(one.columns), "ps.frames(df, …)")
    types = {name: to_arrow(one.columns[name]) for name in (*stream.key, *stream.sets)}
    needed = stream.shape.needed(stream.queries, watched, types)
    return {name: types[name] for name in dict.fromkeys((*stream.key, *needed))}


def _types_of_changes(one: Input, stream: Models) -> dict[str, pa.DataType]:
    """What crosses, and its type: values as texts, names of nodes as they are."""
    element = stream.columns["element"]
    if element not in one.columns:
        raise EventDataError(
            f"The DataFrame of changes has no column {element!r}.", hint="Name it: ps.model(df, …, element=…)."
        )
    named = to_arrow(one.columns[element])
    if not (pa.types.is_string(named) or pa.types.is_integer(named)):
        raise EventDataError(f"Nodes are named by texts or whole numbers, and {element!r} is {named}.")
    types: dict[str, pa.DataType] = dict.fromkeys(ROLES, pa.string())
    types |= {"element": named, "target": named}
    return types | {name: to_arrow(one.columns[name]) for name in (*stream.key, *stream.order_by)}


def _select(one: Input, stream: Models, job: Job) -> list[str]:
    """Changes or frames as they cross, as SQL."""
    plan = job.plan
    assert isinstance(plan, ModelsPlan)
    if plan.frames is not None:
        return _crossing(one, stream, [f"{one.text(name)} as {here}" for name, here in job.columns.items()])
    out = []
    for name, here in job.columns.items():
        source = stream.columns.get(name, name)
        text = one.text(source) if source in one.columns else "null"
        kind = _sql(plan.types[name]) if name in ROLES else None
        out.append(f"{text} as {here}" if kind is None else f"cast({text} as {kind}) as {here}")
    said = ", ".join(one.text(stream.columns[role]) for role in ROLES if stream.columns[role] in one.columns)
    return _crossing(one, stream, out, said=said)


def _crossing(one: Input, stream: Models, columns: list[str], *, kind: str = "0", said: str = "0") -> list[str]:
    """Columns, and behind them what every row has: its time, its kind, what makes it this one, and by what it is routed."""
    own = [f"{time_text(one)} as {TIME}", f"cast({kind} as int) as {KIND}", f"xxhash64({said}) as {IDENTITY}"]
    return [*columns, *own, *(f"cast({one.text(name)} as string) as {_KEY}{i}" for i, name in enumerate(stream.key))]


def shape_of_beside(events: Events) -> Beside:
    """The types and columns of the ordinary events beside models."""
    return beside_of(events, types_of(inputs_of(events))[0])


def _beside(changes: Input, stream: Models, asked: Sequence[str]) -> list[Input]:
    """The inputs of ordinary events that somebody asks for."""
    if stream.beside is None or not asked:
        return []
    found = [one for one in inputs_of(stream.beside) if one.event_type is None or one.event_type in asked]
    for one in found:
        for name in stream.key:
            if name not in one.columns:
                raise missing_column(
                    "The DataFrame of events beside the model", name, "key", list(one.columns), "ps.model(df, …, key=…)"
                )
            if one.columns[name] != changes.columns[name]:
                kinds = (changes.columns[name].simpleString(), one.columns[name].simpleString())
                raise EventDataError(
                    f"The key column {name!r} is {kinds[0]} of changes and {kinds[1]} of events beside them.",
                    hint="Cast one of them.",
                )
    return found


def _columns_beside(watched: Sequence[Watched], others: Sequence[Input]) -> dict[str, pa.DataType]:
    """The columns of ordinary events, and Arrow's types of them."""
    spark = types_of(others)[1] if others else {}
    named = dict.fromkeys(name for group in watched for name, _ in group.columns if others)
    return {name: to_arrow(spark[name]) if name in spark else pa.null() for name in named}


def _select_beside(one: Input, stream: Models, job: Job) -> list[str]:
    """Ordinary events as they cross, as SQL: they say nothing of a change."""
    out = []
    for name, here in job.columns.items():
        own = name.removeprefix(EVENT) if name.startswith(EVENT) else name
        there = (name.startswith(EVENT) or name not in ROLES) and own in one.columns
        out.append(f"{one.text(own) if there else 'null'} as {here}")
    kinds = {name: code for code, name in enumerate(job.kind_names or ()) if code}
    if one.event_type is not None:
        kind = str(kinds[one.event_type])
    else:
        whens = " ".join(f"when {literal(name)} then {code}" for name, code in kinds.items())
        kind = f"coalesce(case {one.text(str(one.type))} {whens} end, -1)"
    return _crossing(one, stream, out, kind=kind)


def _sql(type_: pa.DataType) -> str:
    return "string" if pa.types.is_string(type_) else "bigint"
