"""Engines over events in memory, one thread each: Esper, Siddhi and Perseid without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from bench import ours
from bench.esper import process as esper_process
from bench.esper import queries as esper_queries
from bench.java import Program, Rounds, build, read_ids
from bench.report.engines import Call, OpenEngine, Run, Workload, just
from bench.siddhi import process as siddhi_process
from bench.siddhi import queries as siddhi_queries
from bench.workload import Query


def version_in(pom: Path, name: str) -> str:
    """Version of a dependency that a ``pom.xml`` pins as a property."""
    found = re.search(rf"<{name}\.version>([^<]+)<", pom.read_text(encoding="utf-8"))
    return found[1] if found else "unknown"


@contextmanager
def java_rounds(command: list[str], ids: Path, keep: Callable[[Rounds], object]) -> Iterator[Call]:
    """One process for one query: the JIT compiler's profile of another query would slow it down."""
    with Rounds(command) as process:
        keep(process)

        def call() -> Run:
            timed = process.round(ids)
            return Run(timed.seconds, read_ids(ids))

        yield call


class JavaEngine:
    """An engine with a process for each query."""

    def __init__(self, name: str, version: str, workload: Workload, command: Callable[[Query], list[str]]) -> None:
        self._name, self._version, self._workload, self._command = name, version, workload, command
        self._process: Rounds | None = None

    def versions(self) -> dict[str, str]:
        return {self._name: self._version}

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        ids = self._workload.scratch / f"{self._name.replace(' ', '-')}-{query.name}.ids"
        return java_rounds(self._command(query), ids, self._keep)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _keep(self, process: Rounds) -> None:
        self._process = process


@contextmanager
def open_esper(workload: Workload) -> Iterator[OpenEngine]:
    program = build(esper_process.HERE, workload.data / "esper")

    def command(query: Query) -> list[str]:
        form = esper_queries.FORMS[query.name]
        return esper_process.command(program, form, workload.binary, workload.count, workload.heap)

    yield JavaEngine("Esper", version_in(esper_process.HERE / "pom.xml", "esper"), workload, command)


@contextmanager
def open_siddhi(workload: Workload) -> Iterator[OpenEngine]:
    program: Program = build(siddhi_process.HERE, workload.data / "siddhi")

    def command(query: Query) -> list[str]:
        form = siddhi_queries.FORMS[query.name]
        return siddhi_process.command(program, form, workload.binary, workload.count, workload.heap)

    yield JavaEngine("Siddhi", version_in(siddhi_process.HERE / "pom.xml", "siddhi"), workload, command)


class _PerseidInMemory:
    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    def versions(self) -> dict[str, str]:
        return perseid_version()

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        return just(partial(self._run, query))

    def _run(self, query: Query) -> Run:
        return Run(*ours.engine_ids(query, self._workload.arrays))

    def stop(self) -> None:
        """Nothing runs outside the calling thread."""


@contextmanager
def open_perseid(workload: Workload) -> Iterator[OpenEngine]:
    yield _PerseidInMemory(workload)


def perseid_version() -> dict[str, str]:
    """Version of Perseid, Python and NumPy."""
    import platform

    import numpy as np

    import perseid

    return {"Perseid": perseid.__version__, "Python": platform.python_version(), "NumPy": np.__version__}
