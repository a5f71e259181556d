"""Convert documents to event rows before the shuffle, so that only extracted rows are shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as st

from perseid.errors import UnsupportedError
from perseid.runtime.document_columns import DOCUMENT, WRONG
from perseid.runtime.query import PrepareInput, PrepareStage, TableSchema
from perseid.runtime.registry import engines
from perseid.spark.arrow import arrow_schema, to_spark
from perseid.spark.identity import identity_text
from perseid.spark.inputs import literal, quoted
from perseid.spark.prepare import PrepareJob, watched
from perseid.spark.projection import describe_column
from perseid.spark.worker import AHEAD, OURS, PAYLOAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def describe_table(frame: DataFrame, event_type: str | None) -> TableSchema:
    """The schema of a DataFrame, without the internal column of rows that are too far ahead."""
    fields = [field for field in frame.schema.fields if field.name != AHEAD]
    return TableSchema({field.name: describe_column(field.dataType) for field in fields}, event_type)


def prepare_rows(stage: PrepareStage, frames: Sequence[DataFrame]) -> DataFrame:
    """Run an engine's ``prepare`` on these DataFrames before the shuffle; rows have the columns of the stage."""
    together = None
    for one, frame in zip(stage.inputs, frames, strict=True):
        rows = _prepare(stage, one, frame)
        together = rows if together is None else together.unionByName(rows, allowMissingColumns=True)
    assert together is not None
    return together


def _prepare(stage: PrepareStage, one: PrepareInput, frame: DataFrame) -> DataFrame:
    types = {field.name: field.dataType for field in frame.schema.fields}
    is_bounded = AHEAD in types
    kept = [name for name in types if name in one.kept or name == AHEAD]
    given, texts = {}, []
    for i, (name, source) in enumerate(one.columns.items()):
        given[name] = source if isinstance(source, str) and source in kept else f"{OURS}given{i}"
        if given[name] != source:
            texts.append(f"{_input_column(source, types)} as {given[name]}")
    for name, value in one.constants.items():
        given[name] = f"{OURS}constant_{name}"
        texts.append(f"{literal(value)} as {given[name]}")
    own = [] if one.time is None else [st.StructField(WRONG, st.StringType())]
    if one.identity is not None:
        texts.append(f"{_identity(one.identity.columns, types)} as {quoted(DOCUMENT)}")
        own.insert(0, st.StructField(DOCUMENT, st.LongType()))
    payload = None
    if is_bounded:
        if one.time is None:
            raise UnsupportedError(
                "max_ahead is only supported for documents that patterns or subscriptions relate by time; "
                "tree patterns alone match within each document.",
                hint="Remove max_ahead=.",
            )
        payload = None if one.body is None else PAYLOAD
        own += [] if payload is None or payload in kept else [st.StructField(payload, st.StringType())]
    fields = [st.StructField(name, types[name]) for name in kept]
    found = [st.StructField(name, to_spark(kind)) for name, kind in stage.columns.items()]
    schema = st.StructType([*fields, *own, *found])
    job = PrepareJob(
        kept=(*kept, *([] if one.identity is None else [DOCUMENT])),
        schema=arrow_schema(schema),
        engine=engines()[stage.engine],
        plan=stage.plan,
        given=given,
        time=one.time,
        wrong=None if one.time is None else WRONG,
        ahead=AHEAD if is_bounded else None,
        payload=payload,
        body=None if one.body is None else given[one.body],
    )
    return watched(frame.selectExpr(*map(quoted, kept), *texts).mapInArrow(job, schema), frame)


def _input_column(source: str | tuple[str, ...], types: Mapping[str, st.DataType]) -> str:
    """A column that the engine reads, as SQL."""
    if not isinstance(source, str):
        # A row used as a document is converted to XML on the executor, to the same text as locally.
        return f"struct({', '.join(map(quoted, source))})"
    # A column of nulls only has no Arrow type; cast to string, each of its rows is a bad document.
    return f"cast({quoted(source)} as string)" if isinstance(types[source], st.NullType) else quoted(source)


def _identity(ids: Sequence[str], types: Mapping[str, st.DataType]) -> str:
    """Row identity as SQL: from the id columns, or from all columns if there are none."""
    own = {name: kind for name, kind in types.items() if name != AHEAD}
    return identity_text([(name, own[name]) for name in ids], list(own.items()))
