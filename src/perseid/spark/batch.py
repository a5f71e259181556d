"""The batch driver: decide in Catalyst what one event decides, filter, project, shuffle by key, step.

Nothing runs until the caller acts on the DataFrame that comes back. No session is made, nothing is cached, and
everything is said in DataFrame calls and in SQL printed from our own tree, so Spark Connect works too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perseid.compile.plan import Plan
from perseid.local.rows import Events
from perseid.runtime.counters import OF_A_BATCH
from perseid.spark.input_counts import remember
from perseid.spark.inputs import quoted, time_text
from perseid.spark.projection import project, routed, shielded, spark_schema
from perseid.spark.type_counts import OF_TYPE
from perseid.spark.worker import HITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


def detect(
    plan: Plan,
    stream: Events,
    relations: Mapping[str, list[tuple[object, ...]]],
    observation: Observation | None = None,
) -> DataFrame:
    """The DataFrame of matches."""
    from pyspark.sql import functions as f

    projection = project(plan, stream, relations, observation is not None)
    job = projection.job
    shaped = None
    for one, select, wanted in zip(projection.inputs, projection.selects, projection.wanted, strict=True):
        # Rows without a time are dropped or, where somebody counts, kept whatever they are.
        untimed = f"({time_text(one)}) is null"
        if observation is None:
            conditions = [wanted, f"not {untimed}"]
        else:
            conditions = [None if wanted is None else f"({wanted}) or {untimed}"]
        frame = one.frame
        given = " and ".join(f"({shielded(text)})" for text in conditions if text is not None)
        frame = (frame.where(given) if given else frame).selectExpr(*select)
        shaped = frame if shaped is None else shaped.unionByName(frame)
    assert shaped is not None
    shaped = routed(shaped, job, untimed=job.counted)
    if projection.keys:
        shaped = shaped.repartition(*(f.col(quoted(name)) for name in projection.keys))
    else:
        shaped = shaped.repartition(1)
    matches = shaped.mapInArrow(job, spark_schema(job.schema))
    if observation is None:
        return projection.shown(matches)
    remember(observation, plan)
    return projection.shown(observed(matches, observation, job.types))


def observed(matches: DataFrame, observation: Observation, types: Sequence[str] = ()) -> DataFrame:
    """Sum up, for somebody who asked, the rows that say what was counted; they are no matches."""
    from pyspark.sql import functions as f

    counted = f.col(quoted(HITS))
    sums = [f.coalesce(f.sum(counted[name]), f.lit(0)).alias(name) for name in OF_A_BATCH]
    sums += [
        f.coalesce(f.sum(counted[f"{OF_TYPE}{i}"]), f.lit(0)).alias(f"{OF_TYPE}{name}") for i, name in enumerate(types)
    ]
    return matches.observe(observation, *sums).where(counted.isNull())
