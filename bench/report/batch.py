"""Engines from the Parquet file to the ids of the matches: DuckDB, Trino, Spark SQL by hand, Perseid local and on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bench import duckdb_baseline, ours, spark_baselines
from bench.report.engines import Call, Ids, OpenEngine, Run, Workload, just
from bench.report.in_memory import perseid_version
from bench.workload import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _Local:
    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    def versions(self) -> dict[str, str]:
        return perseid_version()

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        return just(partial(self._run, query))

    def _run(self, query: Query) -> Run:
        started = time.perf_counter()
        ids = ours.local_ids(query, self._workload.path)
        return Run(time.perf_counter() - started, ids)

    def stop(self) -> None:
        """Nothing runs outside the calling process."""


@contextmanager
def open_local(workload: Workload) -> Iterator[OpenEngine]:
    yield _Local(workload)


class _DuckDB:
    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._database = duckdb_baseline.DuckDB()

    def versions(self) -> dict[str, str]:
        import duckdb

        return {"DuckDB": duckdb.__version__}

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        # The fastest form: for Q4 the as-of join.
        sql = duckdb_baseline.OTHER_FORMS.get(query.name, {}).get("duckdb_asof", duckdb_baseline.SQL[query.name])
        return just(partial(self._run, sql))

    def _run(self, sql: str) -> Run:
        started = time.perf_counter()
        ids = self._database.ids(sql, self._workload.path)
        return Run(time.perf_counter() - started, ids)

    def stop(self) -> None:
        self._database.interrupt()

    def close(self) -> None:
        self._database.close()


@contextmanager
def open_duckdb(workload: Workload) -> Iterator[OpenEngine]:
    engine = _DuckDB(workload)
    try:
        yield engine
    finally:
        engine.close()


def collect(frame: DataFrame) -> Ids:
    """Ids of the matches in the driver."""
    return np.asarray(frame.select("aid").toArrow().column("aid").to_numpy(), np.int64)


class _OnSpark:
    """Spark with a plan for each query."""

    def __init__(self, workload: Workload, perseid: bool) -> None:
        self._workload, self._perseid = workload, perseid
        self._spark = workload.spark

    def versions(self) -> dict[str, str]:
        return (perseid_version() if self._perseid else {}) | {"Spark": self._spark.version}

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        return just(partial(self._run, query))

    def _run(self, query: Query) -> Run:
        started = time.perf_counter()
        if self._perseid:
            frame = ours.batch(query, self._spark.read.parquet(str(self._workload.path)))
        else:
            frame = self._spark.sql(spark_baselines.SQL[query.name])
        ids = collect(frame)
        return Run(time.perf_counter() - started, ids)

    def stop(self) -> None:
        self._spark.sparkContext.cancelAllJobs()


@contextmanager
def open_spark_sql(workload: Workload) -> Iterator[OpenEngine]:
    yield _OnSpark(workload, perseid=False)


@contextmanager
def open_perseid(workload: Workload) -> Iterator[OpenEngine]:
    yield _OnSpark(workload, perseid=True)
