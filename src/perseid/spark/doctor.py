"""Check the Python workers of a session: a small job probes each of them, and a report compares them.

It works in a notebook and behind ``perseid doctor``, with and without Spark Connect: it uses DataFrame calls only.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from perseid._version import __version__
from perseid.compile.compiler import compile_set
from perseid.lang.parser import parse_pattern
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.registry import engines
from perseid.runtime.watermark import Watermark
from perseid.semantics.binding import bind
from perseid.semantics.resolve import resolve
from perseid.spark.worker_errors import GUIDE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ProcessFacts: TypeAlias = dict[str, Any]
"""The fields of a :class:`PythonProcess`, as JSON."""

_ROUNDS = 3
_MOST_TASKS = 2_000
_LONGEST = 300


@dataclass(frozen=True)
class PythonProcess:
    """One Python process, on the driver or on an executor, and its installation."""

    host: str
    process: int
    folder: str
    """Working directory; distinguishes executors on one host."""
    python: str
    executable: str
    versions: Mapping[str, str | None]
    """By package; None if the import fails."""
    errors: Mapping[str, str]
    """Import or run error by package, unless the package is merely missing."""
    source: str | None = None
    """Folder that perseid was loaded from."""
    cache: str | None = None
    """Folder of the kernel cache, also if it is not writable."""
    writable: bool | None = None
    compiled: bool | None = None
    """True if kernels are machine code; None if perseid was not probed."""
    plain: bool = False
    """True if ``PERSEID_NUMBA=0`` requests kernels as plain Python."""
    seconds: float | None = None
    """Duration until the first kernel had run; None on the driver, which only plans."""


@dataclass(frozen=True)
class Finding:
    """A problem or a note, with the recommended action."""

    what: str
    do: str
    where: tuple[str, ...] = ()
    serious: bool = True
    """True if detection fails or is very slow because of it."""


@dataclass(frozen=True)
class Report:
    """Probed processes and findings; ``print(report)`` shows them in full."""

    driver: PythonProcess
    workers: tuple[PythonProcess, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not any(finding.serious for finding in self.findings)

    def to_dict(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        lines = ["driver", *_described(self.driver, [self.driver])]
        for group in _identical_groups(self.workers):
            lines += [
                "",
                f"{len(group)} identical workers" if len(group) > 1 else "1 worker",
                *_described(group[0], group),
            ]
        for finding in self.findings:
            lines += ["", f"{'ERROR' if finding.serious else 'note'}: {finding.what}"]
            lines += [f"  {where}" for where in finding.where]
            lines.append(f"  = {finding.do}")
        if self.ok:
            hosts = len({worker.host for worker in self.workers})
            lines += ["", f"OK: {_count(len(self.workers), 'Python worker')} on {_count(hosts, 'host')}."]
        return "\n".join(lines)


def examine(spark: SparkSession, *, tasks: int | None = None) -> Report:
    """Probe every Python worker of the session and compare it with this process.

    Executors are reached by starting more tasks than there are task slots; ``tasks`` sets their number.
    """
    driver = PythonProcess(**_probe(__version__, None)())
    workers: dict[tuple[str, int], PythonProcess] = {}
    failure = None
    try:
        slots = 0
        for _ in range(_ROUNDS):
            # Executors may still be registering: repeat while the number of slots grows.
            before, slots = slots, _slots(spark)
            if before >= slots:
                break
            for found in _probe_workers(spark, tasks or min(2 * slots + 2, _MOST_TASKS)):
                place = _place(found)
                workers.setdefault((place.host, place.process), place)
    except Exception as error:  # The failure of the job is itself a finding.
        failure = error
    ordered = tuple(sorted(workers.values(), key=lambda worker: (worker.host, worker.folder, worker.process)))
    return Report(driver, ordered, tuple(findings(driver, ordered, failure)))


def _slots(spark: SparkSession) -> int:
    """The number of task slots: by default a range has as many partitions."""
    return int(spark.range(10_000).selectExpr("spark_partition_id() as p").distinct().count())


def _probe_workers(spark: SparkSession, tasks: int) -> Iterator[ProcessFacts]:
    probe = _probe(__version__, _trial())

    def respond(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json
        import time

        import pyarrow

        for batch in batches:
            if batch.num_rows:
                yield pyarrow.RecordBatch.from_pydict({"found": [json.dumps(probe())]})
                time.sleep(0.2)  # Prevents one fast executor from taking all tasks.

    for row in spark.range(0, tasks, 1, tasks).mapInArrow(respond, "found string").collect():
        yield json.loads(row["found"])


def _probe(expected: str, trial: bytes | None) -> Callable[[], ProcessFacts]:
    """Return the probe that runs on executors.

    It uses nothing of this module and, as an inner function, is pickled by value: an executor without perseid can run
    it.
    """

    def probe() -> ProcessFacts:
        import importlib
        import os
        import platform
        import socket
        import sys

        versions: dict[str, str | None] = {}
        errors: dict[str, str] = {}
        for name in ("perseid", "numba", "numpy", "pyarrow", "pandas", "pyspark"):
            versions[name] = None
            try:
                versions[name] = str(importlib.import_module(name).__version__)
            except Exception as error:
                if not (isinstance(error, ModuleNotFoundError) and error.name == name):
                    errors[name] = f"{type(error).__name__}: {error}"
        facts: ProcessFacts = {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "folder": os.getcwd(),
            "python": platform.python_version(),
            "executable": sys.executable or "",
            "versions": versions,
            "errors": errors,
        }
        if versions["perseid"] is not None:
            facts["source"] = os.path.dirname(importlib.import_module("perseid").__file__ or "")
            if expected == versions["perseid"]:  # A version mismatch is an error already; do not compile its kernels.
                try:
                    facts.update(importlib.import_module("perseid.spark.doctor").facts(trial))
                except Exception as error:
                    errors["perseid"] = f"{type(error).__name__}: {error}"
        return facts

    return probe


def _trial() -> bytes:
    """A tiny plan, pickled as detection sends plans to executors."""
    plan = compile_set([resolve(bind(parse_pattern("pattern trial match A a -> B b within 1 second")))])
    return pickle.dumps(engines()["sequence"].plan(plan, {}))


@cache
def facts(trial: bytes | None) -> ProcessFacts:
    """Facts of this process that only an installed perseid can report; a trial runs once, before kernels are loaded."""
    from perseid.runtime import jit

    folder = jit.cache_folder()
    try:
        place = str(folder or jit.cache_place())
    except OSError:  # There is not even a temporary folder.
        place = None
    return {
        "cache": place,
        "writable": folder is not None,
        "compiled": jit.COMPILED,
        "plain": os.environ.get("PERSEID_NUMBA", "1") == "0",
        "seconds": None if trial is None else round(_time_trial(trial), 3),
    }


def _time_trial(trial: bytes) -> float:
    """Seconds that a detection takes, including loading or compiling its kernels."""
    import numpy as np

    started_s = time.perf_counter()
    engine, plan = engines()["sequence"], pickle.loads(trial)  # noqa: S301  It comes from the driver, as this job does.
    two = np.arange(2)
    rows = EventBatch(two, two.astype(np.int32), ("A", "B"), {}, {route.id: {} for route in plan.plan.routes}, two)
    matches = engine.run_step(plan, rows, None, Watermark(ended=True)).rows.num_rows
    if matches != 1:
        raise RuntimeError(f"expected 1 match in the trial, got {matches}")
    return time.perf_counter() - started_s


def _place(facts: ProcessFacts) -> PythonProcess:
    """A probed worker. Paths below its working directory are relative: workers often differ in this directory only."""
    place = PythonProcess(**facts)
    inside = place.folder.rstrip("/") + "/"
    return replace(
        place,
        executable=_shortened(place.executable, inside),
        source=None if place.source is None else _shortened(place.source, inside),
    )


def _shortened(path: str, inside: str) -> str:
    return "./" + path.removeprefix(inside) if len(inside) > 1 and path.startswith(inside) else path


def findings(
    driver: PythonProcess, workers: Sequence[PythonProcess], failure: Exception | None = None
) -> Iterator[Finding]:
    """Problems and notes from comparing the workers with the driver."""
    if failure is not None:
        yield _failed(failure)
    elif not workers:
        yield Finding("No Python worker responded.", "Check the executor logs.")
    workers_by_finding: dict[Finding, list[str]] = {}
    for worker in workers:
        for finding in _of_worker(driver, worker):
            workers_by_finding.setdefault(finding, []).append(_where(worker))
    for finding in sorted(workers_by_finding, key=lambda finding: not finding.serious):
        yield replace(finding, where=tuple(workers_by_finding[finding]))


def _of_worker(driver: PythonProcess, worker: PythonProcess) -> Iterator[Finding]:
    driver_versions, worker_versions = driver.versions, worker.versions
    if "perseid" in worker.errors:
        yield Finding(
            f"perseid is installed for {worker.executable} and does not import: {worker.errors['perseid']}",
            "Install the missing packages for this Python; perseid needs lark, numba, numpy and "
            "pyarrow, and streaming queries need pandas.",
        )
    elif worker_versions["perseid"] is None:
        yield Finding(
            f"perseid is not installed for {worker.executable}.",
            "Install perseid for this Python, or send it with spark.archives or spark.submit.pyFiles. If this is the "
            f"wrong Python, set PYSPARK_PYTHON. {GUIDE} describes each way.",
        )
    elif worker_versions["perseid"] != driver_versions["perseid"]:
        yield Finding(
            f"The worker has perseid {worker_versions['perseid']}, the driver {driver_versions['perseid']}.",
            "Install the same version everywhere: with different versions, queries fail with VersionMismatchError.",
        )
    elif worker.plain and not driver.plain:
        problem = "PERSEID_NUMBA=0 makes kernels run as plain Python, which is slow."
        yield Finding(problem, "Unset PERSEID_NUMBA.", serious=False)
    elif not worker.compiled and not worker.plain:
        numba_error = worker.errors.get("numba")
        yield Finding(
            f"Kernels run as plain Python, which is slow: {numba_error or 'numba is not installed'}.",
            "Install numba for this Python."
            if numba_error is None
            else "Install versions of numba and numpy that fit each other: pip install --force-reinstall perseid.",
        )
    elif worker.compiled and not worker.writable:
        yield Finding(
            f"Kernel cache {worker.cache} is not writable: every new Python worker compiles its kernels again.",
            "Set PERSEID_CACHE to a folder on the executors that their user owns and can write "
            "(spark.executorEnv.PERSEID_CACHE=…).",
            serious=False,
        )
    if worker_versions.get("pandas") is None:
        yield Finding(
            f"pandas {'does not import' if 'pandas' in worker.errors else 'is not installed'} for {worker.executable}: "
            "batch queries work, streaming queries fail.",
            "Install pandas for this Python, if a query is a stream: pip install 'perseid[pandas]'.",
            serious=False,
        )
    for name in ("numba", "numpy", "pyarrow", "pandas", "pyspark"):
        if driver_versions.get(name) is not None and worker_versions.get(name) not in (None, driver_versions[name]):
            yield Finding(
                f"The worker has {name} {worker_versions[name]}, the driver {driver_versions[name]}.",
                "Install the same version everywhere: different versions may work, but are not tested.",
                serious=False,
            )


_CAUSES = (
    ("PYTHON_VERSION_MISMATCH", "Set PYSPARK_PYTHON: driver and executors need the same minor version of Python."),
    ("Cannot run program", "Set PYSPARK_PYTHON (or spark.pyspark.python) to a Python that the executors have."),
    (
        "No module named 'pyarrow'",
        "Install pyarrow for the executors' Python, or set PYSPARK_PYTHON to one that has it.",
    ),
    (
        "PACKAGE_NOT_INSTALLED",
        "Install that package for the executors' Python, or set PYSPARK_PYTHON to one that has it.",
    ),
)


def _failed(failure: Exception) -> Finding:
    """Finding of a failed job: a known cause, or the last error line of the Java and Python trace."""
    text = str(failure)
    error_lines = [line.strip() for line in text.splitlines() if re.match(r"\s*[\w.]*(Error|Exception)\b.*: ", line)]
    for sign, do in _CAUSES:
        if sign in text:
            line = next((line.strip() for line in text.splitlines() if sign in line), text)
            return Finding(f"The job failed: {line[:_LONGEST]}", do)
    line = next(iter(error_lines[-1:] or text.strip().splitlines()[:1]), type(failure).__name__)
    return Finding(
        f"The job failed: {line[:_LONGEST]}", f"Check the executor logs; {GUIDE} describes working settings."
    )


def _identical_groups(workers: Sequence[PythonProcess]) -> list[list[PythonProcess]]:
    """Group workers that differ only in host, process, folder and duration."""
    groups: dict[str, list[PythonProcess]] = {}
    for worker in workers:
        same = replace(worker, host="", process=0, folder="", seconds=None)
        groups.setdefault(json.dumps(asdict(same), sort_keys=True), []).append(worker)
    return list(groups.values())


def _described(place: PythonProcess, group: Sequence[PythonProcess]) -> Iterator[str]:
    for worker in group:
        took = "" if worker.seconds is None else f", first kernel call {worker.seconds:.1f} s"
        yield f"  {_where(worker)}{took}"
    yield f"  Python {place.python} ({place.executable})"
    yield "  " + ", ".join(f"{name} {_version(place, name, version)}" for name, version in place.versions.items())
    if place.source is not None:
        yield f"  perseid from {place.source}"
    if place.compiled:
        cached = f"cached in {place.cache}" if place.writable else f"not cached: {place.cache} is not writable"
        yield f"  kernels compiled, {cached}"
    elif place.compiled is not None:
        yield "  kernels as plain Python"


def _version(place: PythonProcess, name: str, version: str | None) -> str:
    """The version of a package; a package that is installed and does not import has an error."""
    return version or ("does not import" if name in place.errors else "missing")


def _where(place: PythonProcess) -> str:
    return f"{place.host}, process {place.process}, in {place.folder}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
