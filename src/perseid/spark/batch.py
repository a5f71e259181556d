"""Batch execution: filter, project, shuffle by key, and run the engine on each partition.

Nothing runs before an action on the returned DataFrame. No session is created and nothing is cached. Only DataFrame
calls and SQL printed from the typed tree are used, so Spark Connect works too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perseid.runtime.counters import OF_A_BATCH
from perseid.spark.input_counts import remember
from perseid.spark.inputs import quoted, time_text
from perseid.spark.projection import Projection, routed, shielded, spark_schema
from perseid.spark.shards import labels
from perseid.spark.type_counts import OF_TYPE
from perseid.spark.worker import HITS, LABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


def run_batch(projection: Projection, observation: Observation | None) -> DataFrame:
    """Output rows of the engine, which runs once per partition; rows with equal route columns share a partition."""
    from pyspark.sql import functions as f

    job, query = projection.job, projection.query
    rows = None
    for declared, frame, select, needed in zip(
        query.inputs, projection.frames, projection.selects, projection.needed, strict=True
    ):
        # Rows without a time are dropped or, if counters are observed, retained regardless of the filter.
        untimed = f"({time_text(frame)}) is null"
        if observation is None:
            conditions = [needed, f"not {untimed}"]
        else:
            conditions = [None if needed is None else f"({needed}) or {untimed}"]
        condition = " and ".join(f"({shielded(text)})" for text in conditions if text is not None)
        selected = (frame.frame.where(condition) if condition else frame.frame).selectExpr(*select)
        selected = projection.of_types(selected, declared)
        rows = selected if rows is None else rows.unionByName(selected)
    assert rows is not None
    rows = routed(rows, job, untimed=job.counted)
    if query.broadcast:
        shards = ", ".join(map(str, labels(query.state.shards)))
        copies = rows.selectExpr("*", f"explode(array({shards})) as {LABEL}")
        rows = copies.repartition(query.state.shards, LABEL)
    elif projection.route:
        rows = rows.repartition(*(f.col(quoted(name)) for name in projection.route))
    else:
        rows = rows.repartition(1)
    results = rows.drop(*projection.dropped).mapInArrow(job, spark_schema(job.schema))
    if observation is None:
        return results
    remember(observation, query.required_types)
    return observed(results, observation, job.types)


def observed(matches: DataFrame, observation: Observation, types: Sequence[str] = ()) -> DataFrame:
    """Add the sums of the counter rows to the observation; return the matches alone."""
    from pyspark.sql import functions as f

    counted = f.col(quoted(HITS))
    sums = [f.coalesce(f.sum(counted[name]), f.lit(0)).alias(name) for name in OF_A_BATCH]
    sums += [
        f.coalesce(f.sum(counted[f"{OF_TYPE}{i}"]), f.lit(0)).alias(f"{OF_TYPE}{name}") for i, name in enumerate(types)
    ]
    return matches.observe(observation, *sums).where(counted.isNull())
