"""Engines on a stream with event time: Flink SQL, Flink CEP, two programs by hand on Spark, and Perseid on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from bench import stream
from bench.flink import process as flink_process
from bench.flink.benchmark import FILES
from bench.flink.lanes import lanes
from bench.flink.queries import cep_form
from bench.report import by_hand
from bench.report.batch import collect
from bench.report.engines import Call, OpenEngine, Run, Workload, just
from bench.report.in_memory import JavaEngine, perseid_version, version_in
from bench.workload import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@contextmanager
def _open_flink(workload: Workload, kind: str) -> Iterator[OpenEngine]:
    cores = os.cpu_count() or 1
    flink = workload.flink

    def command(query: Query) -> list[str]:
        folder = lanes(workload.pieces, cores)
        return flink.sql(query, folder) if kind == "SQL" else flink.cep(cep_form(query), folder)

    yield JavaEngine(f"Flink {kind}", version_in(flink_process.HERE / "pom.xml", "flink"), workload, command)


def open_flink_sql(workload: Workload) -> AbstractContextManager[OpenEngine]:
    """Flink SQL."""
    return _open_flink(workload, "SQL")


def open_flink_cep(workload: Workload) -> AbstractContextManager[OpenEngine]:
    """Flink CEP."""
    return _open_flink(workload, "CEP")


class _SparkStream:
    """A streaming query into the memory sink; the time is that of its triggers."""

    def __init__(self, workload: Workload, side: str, plan: Callable[[stream.Bench, Query], DataFrame]) -> None:
        self._workload, self._side, self._plan = workload, side, plan
        self._bench = stream.Bench(workload.spark, workload.scratch / side, FILES)

    def versions(self) -> dict[str, str]:
        return (perseid_version() if self._side == "perseid" else {}) | {"Spark": self._workload.spark.version}

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        return just(partial(self._run, query))

    def _run(self, query: Query) -> Run:
        spark, table = self._workload.spark, f"matches_{self._side}"
        self._bench.use_separate_workers(self._side)
        store = spark.conf.get(STATE_STORE)
        if self._side == "processor":
            spark.conf.set(STATE_STORE, ROCKSDB)
        try:
            ran = self._bench.stream(self._plan(self._bench, query), "memory", queryName=table)
        finally:
            spark.conf.set(STATE_STORE, str(store))
        return Run(stream.seconds_of(ran), collect(spark.table(table)))

    def stop(self) -> None:
        # A query that is stopped ends without an error, as if it had read all files; one without its jobs fails.
        self._workload.spark.sparkContext.cancelAllJobs()


@contextmanager
def open_perseid(workload: Workload) -> Iterator[OpenEngine]:
    yield _SparkStream(workload, "perseid", lambda bench, query: bench.plan_ours(query, workload.pieces))


@contextmanager
def open_group_state(workload: Workload) -> Iterator[OpenEngine]:
    yield _SparkStream(
        workload, "group_state", lambda bench, query: by_hand.with_group_state(query, bench.source(workload.pieces))
    )


@contextmanager
def open_processor(workload: Workload) -> Iterator[OpenEngine]:
    yield _SparkStream(
        workload, "processor", lambda bench, query: by_hand.with_processor(query, bench.source(workload.pieces))
    )
