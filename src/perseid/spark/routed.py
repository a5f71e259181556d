"""Rows that go by columns of their own: through one engine, in a batch or on a stream, by the operators that patterns have.

For engines that are asked something else than patterns over events, and put rows together in their own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from perseid.errors import UnsupportedError
from perseid.local.rows import Events
from perseid.spark.arrow import to_arrow
from perseid.spark.batch import observed
from perseid.spark.inputs import Input
from perseid.spark.projection import spark_schema
from perseid.spark.stream import operated, refuse_old, refuse_untimed
from perseid.spark.stream_worker import StreamJob
from perseid.spark.worker import TIME, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


class Declared(Protocol):
    """What is said of a stream and its states."""

    @property
    def idle(self) -> int | None: ...
    @property
    def shards(self) -> int: ...
    @property
    def max_state(self) -> int: ...


def refuse_rejected(rejected: bool, what: str, rows: str) -> None:
    """That rows which were left out are not asked for as rows."""
    if rejected:
        raise UnsupportedError(
            f"rejected=True is for streams of {what}.", hint=f"Late and bad {rows} are counted: ps.progress(query)."
        )


def in_batch(shaped: DataFrame, routed: Sequence[str], job: Job, observation: Observation | None) -> DataFrame:
    """Finished rows, those that agree in the columns ``routed`` in one place."""
    if observation is None:
        shaped = shaped.where(f"{TIME} is not null")
    shaped = shaped.repartition(*routed) if routed else shaped.repartition(1)
    told = shaped.drop(*routed).mapInArrow(job, spark_schema(job.schema))
    return told if observation is None else observed(told, observation)


def in_stream(
    shaped: DataFrame, routed: Sequence[str], job: Job, stream: Declared, inputs: Sequence[Input], name: str, checkpoint: str | None
) -> DataFrame:  # fmt: skip
    """Rows of a stream, those that agree in the columns ``routed`` in one shard."""
    refuse_old()
    refuse_untimed(inputs)
    crossing = pa.schema([(c.name, to_arrow(c.dataType)) for c in shaped.drop(*routed).schema])
    stream_job = StreamJob(job=job, crossing=crossing, shards=stream.shards, idle=stream.idle, flat=False)
    shard = f"cast(pmod(xxhash64({', '.join(['0', *routed])}), {stream.shards}) as int)"
    rows = Events(None, idle=stream.idle, shards=stream.shards, max_state=stream.max_state)
    return operated(stream_job, shaped, shard, rows, name, checkpoint)
