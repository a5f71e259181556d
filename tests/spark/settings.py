"""Temporary settings of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def settings(spark: SparkSession, **changed: str) -> Iterator[None]:
    """Set ``a.b`` to 1 for ``a__b="1"``, and restore the previous value at the end."""
    names = {name.replace("__", "."): value for name, value in changed.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
