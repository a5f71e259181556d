"""Changelogs of matches: what stands of them."""

from __future__ import annotations

from typing import Any

from perseid.engines.disorder.schema import NAMED_BY
from perseid.errors import EventDataError, UnsupportedError


def fold(changes: Any) -> Any:
    """The matches that were told and not taken back."""
    from pyspark.sql import functions as f

    lacking = [name for name in (*NAMED_BY, "op", "revision") if name not in changes.columns]
    if lacking:
        raise EventDataError(
            f"This is no changelog of matches: it has no column {lacking[0]!r}.",
            hint="Give the DataFrame of matches as detect gave it, or as it was written.",
        )
    if changes.isStreaming:
        raise UnsupportedError(
            "A changelog that goes on has no last change.",
            hint="Fold what was written of it: ps.fold(spark.read.parquet(…)), or each batch in foreachBatch.",
        )
    whole = f.struct(*(f.col(f"`{name}`") for name in changes.columns))
    last = f.max_by(whole, f.col("revision")).alias("last")
    return changes.where("op is not null").groupBy(*NAMED_BY).agg(last).select("last.*").where("op = '+'")
