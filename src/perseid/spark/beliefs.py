"""Uncertain streams on Spark: rows go by what they are put together by, batch and stream through the operators that patterns have.

Where a pattern is asked of anyone, what is known of each binding is told by its shard, and combined after a second shuffle
inside the same batch: all that is told of one step is told in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from perseid._version import __version__
from perseid.engines.uncertain.engine import UNCERTAIN, finish, make_plan
from perseid.engines.uncertain.output import apart_schema, numbers_told
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.engines.uncertain.streams import CHANCE, GIVEN, LIKELIHOOD, Known, Streams
from perseid.engines.uncertain.telling import Telling
from perseid.errors import EventDataError, UnsupportedError, missing_column
from perseid.lang import ast
from perseid.local.beliefs import Belief, Beliefs, role_of
from perseid.local.rows import Events
from perseid.semantics.core import CorePattern
from perseid.spark.arrow import to_arrow
from perseid.spark.inputs import Input, ahead_column, inputs_of, time_text
from perseid.spark.projection import carried_schema, spark_schema
from perseid.spark.routed import in_batch, in_stream, refuse_rejected
from perseid.spark.stream import are_streams
from perseid.spark.worker import IDENTITY, KIND, OURS, TIME, Job, Sent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_UNIT = f"{OURS}unit"
"""Columns by which rows are routed: texts of what they are put together by."""


@dataclass(frozen=True)
class Combined(Sent):
    """What is told of anyone, made of what is told of each binding. The function that ``mapInArrow`` is given."""

    plan: UncertainPlan
    schema: pa.Schema
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = [batch for batch in batches if batch.num_rows]
        if received:
            whole = pa.Table.from_batches(received).rename_columns(apart_schema(self.plan).names)
            told = finish(self.plan, whole.cast(apart_schema(self.plan)))
            yield from told.rename_columns(self.schema.names).cast(self.schema).to_batches(max_chunksize=65_536)


def detect_beliefs(
    cores: Sequence[CorePattern],
    stream: Beliefs,
    streams: Streams,
    columns: set[str],
    relations: Mapping[str, list[tuple[object, ...]]],
    *,
    telling: Telling,
    rejected: bool,
    checkpoint: str | None,
    observation: Observation | None,
) -> DataFrame:
    """The DataFrame of answers, of DataFrames or of streaming ones."""
    sources = [*_believed(stream), *_certain(stream)]
    streaming = are_streams(one.frame for one, _, _ in sources)
    types = _types(sources, columns, streams)
    plan = make_plan(cores, streams, {name: to_arrow(kind) for name, kind in types.items()}, telling=telling)
    plan = replace(plan, shards=stream.shards, max_state=stream.max_state)
    units = {repr(one.unit) for one in plan.asked}
    if len(units) > 1:
        raise UnsupportedError(
            f"These patterns put events together in {len(units)} ways.",
            hint="Give patterns of each way a query of their own.",
        )
    refuse_on_spark(plan, streaming, rejected)
    plan = replace(plan, apart=any(one.groups < len(one.unit) for one in plan.asked))
    schema = apart_schema(plan) if plan.apart else plan.schema
    job = _job(plan, types, streams, schema, relations, observation is not None)
    shaped, marked = None, any(one.has_ahead for one, _, _ in sources)
    for one, part, names in sources:
        selected = _select(one, part, names, types, plan, job, streams)
        frame = one.frame.selectExpr(*selected, *([ahead_column(one)] if marked else []))
        shaped = frame if shaped is None else shaped.unionByName(frame)
    assert shaped is not None
    routed = [f"{_UNIT}{i}" for i in range(len(plan.asked[0].unit))]
    if not streaming:
        told = in_batch(shaped, routed, job, observation)
    else:
        name = ", ".join(one.name for one in plan.asked)
        told = in_stream(shaped, routed, job, stream, [one for one, _, _ in sources], name, checkpoint)
    told = told.select(*job.schema.names[: len(schema)])
    if plan.apart:
        final = carried_schema(plan.schema, False)
        by = told.columns[: len(plan.schema) - len(numbers_told(plan.telling))]
        told = told.repartition(*by).mapInArrow(Combined(plan, final), spark_schema(final))
    return told.toDF(*plan.schema.names)


def refuse_on_spark(plan: UncertainPlan, streaming: bool, rejected: bool) -> None:
    """What cannot be run."""
    refuse_rejected(rejected, "certain events", "rows")
    plan.refuse_apart()
    if streaming:
        plan.refuse_on_streams()


def _believed(stream: Beliefs) -> Iterator[tuple[Input, Belief | None, Mapping[str, str]]]:
    for part in stream.parts:
        there = part.data.columns
        for ours, name in {**part.sources(), TIME: part.time}.items():
            if name not in there:
                role = "time column" if ours == TIME else role_of(ours)
                raise missing_column(f"The DataFrame of {part.stream.type}", name, role, there, "ps.beliefs(df, …)")
        (one,) = inputs_of(Events({part.stream.type: part.data}, time=part.time))
        yield one, part, part.sources()


def _certain(stream: Beliefs) -> Iterator[tuple[Input, Belief | None, Mapping[str, str]]]:
    for events in stream.certain:
        for one in inputs_of(events):
            yield one, None, {}


def _types(
    sources: Sequence[tuple[Input, Belief | None, Mapping[str, str]]], columns: set[str], streams: Streams
) -> dict[str, st.DataType]:
    """The columns that cross, and what they are; those of one name have one type."""
    types: dict[str, st.DataType] = {}
    kinds = {LIKELIHOOD: st.ArrayType(st.DoubleType()), CHANCE: st.DoubleType()}
    for one, _, named in sources:
        wanted = {**{name: name for name in sorted(columns) if name in one.columns}, **named}
        for ours, name in wanted.items():
            kind = kinds.get(ours, one.columns[name])
            if types.setdefault(ours, kind) != kind:
                raise EventDataError(
                    f"The column {name!r} is {types[ours].simpleString()} in one table and {kind.simpleString()} in another.",
                    hint="Cast one of them.",
                )
    for part in streams.parts:
        for name in part.about:
            if part.known is Known.READ and part.model is not None:
                types.pop(name, None)
    return types


def _job(
    plan: UncertainPlan, types: Mapping[str, st.DataType], streams: Streams, schema: pa.Schema,
    relations: Mapping[str, list[tuple[object, ...]]], counted: bool,
) -> Job:  # fmt: skip
    return Job(
        engine=UNCERTAIN, plan=plan, kind_names=tuple(part.type for part in streams.parts), keys={}, ranks=(), predicates=(),
        made={}, columns={name: f"{OURS}column{i}" for i, name in enumerate(sorted(types))},
        schema=carried_schema(schema, counted), counted=counted, relations=relations,
    )  # fmt: skip


def _select(
    one: Input, part: Belief | None, named: Mapping[str, str], types: Mapping[str, st.DataType], plan: UncertainPlan, job: Job,
    streams: Streams,
) -> list[str]:  # fmt: skip
    """A table's columns as they cross, as SQL."""
    out = []
    for name, here in job.columns.items():
        source = named.get(name, name if name in one.columns and not name.startswith(GIVEN) else None)
        kind = types[name].simpleString()
        text = "null" if source is None else one.text(source)
        out.append(f"cast({text} as {kind}) as {here}")
    known = [type_.type for type_ in streams.parts]
    if one.event_type is not None:
        code = str(known.index(one.event_type)) if one.event_type in known else "-1"
    else:
        assert one.type is not None
        cases = " ".join(f"when '{name}' then {i}" for i, name in enumerate(known))
        code = f"case cast({one.text(one.type)} as string) {cases} else -1 end"
    own = sorted({source for source in (named.get(name, name) for name in job.columns) if source in one.columns})
    hashed = ", ".join([f"'{one.event_type or ''}'", *(one.text(name) for name in own)])
    out += [f"{time_text(one)} as {TIME}", f"cast({code} as int) as {KIND}", f"xxhash64({hashed}) as {IDENTITY}"]
    for i, component in enumerate(plan.asked[0].unit):
        name = component.column(one.event_type or "")
        text = f"cast({one.text(name)} as string)" if name in one.columns else "cast(null as string)"
        out.append(f"{text} as {_UNIT}{i}")
    return out


def certain_types(cores: Sequence[CorePattern], stream: Beliefs) -> list[str]:
    """The types of certain events that patterns ask for."""
    own = {part.stream.type for part in stream.parts}
    kinds = {s.kind.name for core in cores for s in core.steps if isinstance(s.kind, ast.EventType)}
    return sorted(kinds - own)
