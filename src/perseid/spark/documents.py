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
from perseid.spark.prepare import PrepareJob, restore_watermarks
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
    for prepare_input, frame in zip(stage.inputs, frames, strict=True):
        rows = _prepare(stage, prepare_input, frame)
        together = rows if together is None else together.unionByName(rows, allowMissingColumns=True)
    assert together is not None
    return together


def _prepare(stage: PrepareStage, prepare_input: PrepareInput, frame: DataFrame) -> DataFrame:
    types = {field.name: field.dataType for field in frame.schema.fields}
    is_bounded = AHEAD in types
    passed_columns = [name for name in types if name in prepare_input.passed_columns or name == AHEAD]
    input_columns, texts = {}, []
    for i, (name, source) in enumerate(prepare_input.columns.items()):
        input_columns[name] = source if isinstance(source, str) and source in passed_columns else f"{OURS}given{i}"
        if input_columns[name] != source:
            texts.append(f"{_input_column(source, types)} as {input_columns[name]}")
    for name, value in prepare_input.constants.items():
        input_columns[name] = f"{OURS}constant_{name}"
        texts.append(f"{literal(value)} as {input_columns[name]}")
    added_fields = [] if prepare_input.time is None else [st.StructField(WRONG, st.StringType())]
    if prepare_input.identity is not None:
        texts.append(f"{_identity(prepare_input.identity.columns, types)} as {quoted(DOCUMENT)}")
        added_fields.insert(0, st.StructField(DOCUMENT, st.LongType()))
    payload = None
    if is_bounded:
        if prepare_input.time is None:
            raise UnsupportedError(
                "max_ahead is only supported for documents that patterns or subscriptions relate by time; "
                "tree patterns alone match within each document.",
                hint="Remove max_ahead=.",
            )
        payload = None if prepare_input.body is None else PAYLOAD
        added_fields += (
            [] if payload is None or payload in passed_columns else [st.StructField(payload, st.StringType())]
        )
    fields = [st.StructField(name, types[name]) for name in passed_columns]
    result_fields = [st.StructField(name, to_spark(kind)) for name, kind in stage.columns.items()]
    schema = st.StructType([*fields, *added_fields, *result_fields])
    job = PrepareJob(
        passed_columns=(*passed_columns, *([] if prepare_input.identity is None else [DOCUMENT])),
        schema=arrow_schema(schema),
        engine=engines()[stage.engine],
        plan=stage.plan,
        engine_columns=input_columns,
        time=prepare_input.time,
        wrong=None if prepare_input.time is None else WRONG,
        ahead=AHEAD if is_bounded else None,
        payload=payload,
        body=None if prepare_input.body is None else input_columns[prepare_input.body],
    )
    return restore_watermarks(frame.selectExpr(*map(quoted, passed_columns), *texts).mapInArrow(job, schema), frame)


def _input_column(source: str | tuple[str, ...], types: Mapping[str, st.DataType]) -> str:
    """A column that the engine reads, as SQL."""
    if not isinstance(source, str):
        # A row used as a document is converted to XML on the executor, to the same text as locally.
        return f"struct({', '.join(map(quoted, source))})"
    # A column of nulls only has no Arrow type; cast to string, each of its rows is a bad document.
    return f"cast({quoted(source)} as string)" if isinstance(types[source], st.NullType) else quoted(source)


def _identity(ids: Sequence[str], types: Mapping[str, st.DataType]) -> str:
    """Row identity as SQL: from the id columns, or from all columns if there are none."""
    column_types = {name: kind for name, kind in types.items() if name != AHEAD}
    return identity_text([(name, column_types[name]) for name in ids], list(column_types.items()))
