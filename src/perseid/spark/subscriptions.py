"""Subscriptions on Spark: documents are read where they lie, every share of the subscriptions is given all that was found.

Batch and stream are the same operators as patterns have. A table of subscriptions that is watched is a stream of its own,
of the names of its files: Spark's source says which are new, the same in every run of a batch, and a share's state names
those it has taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st

from perseid.engines.joins.engine import FILE, JOINS
from perseid.engines.joins.plan import JoinsPlan, make_plan
from perseid.engines.joins.table import SUFFIX, files_in, listed, read_file, standing
from perseid.errors import PerseidError
from perseid.local.documents import DOCUMENT, WRONG, Documents
from perseid.spark.arrow import to_arrow, to_spark
from perseid.spark.batch import observed
from perseid.spark.documents import PAYLOAD, has_texts, kept_columns, prepared
from perseid.spark.inputs import Input, ahead_column, inputs_of, quoted, time_text
from perseid.spark.projection import carried_schema, spark_schema
from perseid.spark.shards import labels
from perseid.spark.stream import are_streams, operated, refuse_old, refuse_untimed
from perseid.spark.stream_worker import CONTROL, LABEL, ROW, StreamJob
from perseid.spark.stream_worker import WRONG as SAID_WRONG
from perseid.spark.worker import AHEAD, IDENTITY, OURS, TIME, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

NEWS = 4
"""What a row is that names a file."""
_NAME = "subscriptions"
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
"""What Spark's source of files as they are has; their content is not read."""


class ShareJob(Job):
    """A job of a batch whose partitions have rows of several shares."""

    def shared(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        for share, label in enumerate(labels(self.plan.shards)):
            own = table.filter(pc.equal(table[LABEL], label))
            if own.num_rows:
                yield share, own


def detect_subscriptions(
    given: pa.Table | str,
    documents: Documents,
    *,
    expand: bool,
    results: bool,
    always: bool,
    shares: int,
    rejected: bool = False,
    checkpoint: str | None = None,
    observation: Observation | None = None,
) -> DataFrame:
    """The DataFrame of notifications; ``given`` are subscriptions, or the folder that they are kept in."""
    frames = [frame for _, frame in documents.inputs()]
    streaming = are_streams(frames)
    documents.require_streams()
    if isinstance(given, str) and not streaming:
        # What is finished is asked by all that stand now.
        given = listed(standing(read_file(given, name) for name in files_in(given)))
        if not given.num_rows:
            raise PerseidError(
                "There is no subscription in the table.", hint="Add some: table.add({'who': 'Feed//…'})."
            )
    plan = make_plan(
        given,
        pa.schema([(one.name, to_arrow(one.dataType)) for one in kept_columns(documents)]),
        namespaces=documents.namespaces,
        trusted=documents.trusted,
        format=documents.format,
        expand=expand,
        results=results,
        always=always,
        texts=has_texts(documents),
        rejected=rejected,
        shards=shares,
        order=documents.events.order,
        max_state=documents.events.max_state,
    )
    fields = [st.StructField(name, to_spark(kind)) for name, kind in plan.found.items()]
    frame = prepared(documents, JOINS, plan, fields)
    declared = replace(documents.events, data={_NAME: frame}, id=(DOCUMENT,), order_by=(), key=())
    (one,) = inputs_of(declared)
    job = _job(plan, observation is not None)
    if not streaming:
        return _shown(plan, job, _batch(plan, job, one, observation))
    refuse_old()
    refuse_untimed([one])
    crossed = _stream(plan, job, one)
    crossing = pa.schema([(c.name, to_arrow(c.dataType)) for c in crossed.schema])
    stream_job = StreamJob(
        job=job, crossing=crossing, shards=shares, idle=documents.events.idle, rejected=rejected, flat=False,
        everywhere=True, max_ahead=documents.events.max_ahead,
    )  # fmt: skip
    return _shown(plan, job, operated(stream_job, crossed, None, documents.events, _NAME, checkpoint))


def _job(plan: JoinsPlan, counted: bool) -> Job:
    names = [*plan.found, *plan.columns.names, *([FILE] if plan.folder is not None else [])]
    return ShareJob(
        engine=JOINS, plan=plan, kind_names=("document",), keys={}, ranks=(), predicates=(), made={},
        columns={name: f"{OURS}column{i}" for i, name in enumerate(names)},
        schema=carried_schema(plan.schema, counted), counted=counted, one_kind=True,
    )  # fmt: skip


def _select(one: Input, job: Job) -> list[str]:
    """A document's columns as they cross, as SQL."""
    own = [f"{one.text(name)} as {here}" for name, here in job.columns.items() if name != FILE]
    return [*own, f"{time_text(one)} as {TIME}", f"{one.text(DOCUMENT)} as {IDENTITY}"]


def _batch(plan: JoinsPlan, job: Job, one: Input, observation: Observation | None) -> DataFrame:
    shaped = one.frame.selectExpr(*_select(one, job))
    if observation is None:
        shaped = shaped.where(f"{TIME} is not null")
    named = ", ".join(map(str, labels(plan.shards)))
    copies = shaped.selectExpr("*", f"explode(array({named})) as {LABEL}")
    matches = copies.repartition(plan.shards, LABEL).mapInArrow(job, spark_schema(job.schema))
    return matches if observation is None else observed(matches, observation)


def _stream(plan: JoinsPlan, job: Job, one: Input) -> DataFrame:
    """Documents, and the files of a table that is watched."""
    select = _select(one, job)
    if one.has_ahead:
        select.append(ahead_column(one))
    if plan.rejected:
        texts = [
            f"coalesce({one.text(name)}, {AHEAD}) as {quoted(name)}"
            if one.has_ahead and name == one.time
            else one.text(name)
            for name in plan.columns.names
            if name != PAYLOAD
        ]
        if PAYLOAD in one.columns:
            texts.append(quoted(PAYLOAD))
        select.append(f"to_json(struct({', '.join(texts)})) as {ROW}")
        select.append(f"{one.text(WRONG)} as {SAID_WRONG}")
    shaped = one.frame.selectExpr(*select)
    if plan.folder is None:
        return shaped
    Path(plan.folder).mkdir(parents=True, exist_ok=True)
    source = shaped.sparkSession.readStream.format("binaryFile").schema(_FILES).option("pathGlobFilter", f"*{SUFFIX}")
    files = source.load(Path(plan.folder).as_uri()).selectExpr(
        f"element_at(split(path, '/'), -1) as {job.columns[FILE]}",
        f"0L as {TIME}", f"0L as {IDENTITY}", f"{NEWS} as {CONTROL}",
    )  # fmt: skip
    documents = shaped.selectExpr("*", f"cast(null as string) as {job.columns[FILE]}", f"0 as {CONTROL}")
    return documents.unionByName(files, allowMissingColumns=True)


def _shown(plan: JoinsPlan, job: Job, matches: DataFrame) -> DataFrame:
    return matches.select(*job.schema.names[: len(plan.schema)]).toDF(*plan.schema.names)
