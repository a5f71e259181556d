"""What the report needs of an engine: how to open it, how to run one query, and what it cannot express."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bench import spark_baselines, stream
from bench.harness import TimeUp, time_limit
from bench.java import RoundsError
from bench.truth import expected_ids
from bench.workload import EventArrays, Query, generate, parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.flink.process import Flink

Ids = npt.NDArray[np.int64]
GROUPS = {
    "batch": "from a Parquet file to the ids of the matches in the client",
    "stream": "from Parquet files to the ids of the matches, as a stream with event time",
    "memory": "from events in memory to the ids of the matches, on one thread",
}
"""What is timed in each group; ratios compare engines of one group only."""


class Run(NamedTuple):
    """One run: its seconds, and the ids of the first events of its matches in any order."""

    seconds: float
    ids: Ids


Call = Callable[[], Run]


class OpenEngine(Protocol):
    """An engine that has been started."""

    def versions(self) -> dict[str, str]:
        """Versions of the software, by name."""
        ...

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        """Everything that comes before the clock starts; inside the block, each call is one run."""
        ...

    def stop(self) -> None:
        """End a run from another thread."""
        ...


@dataclass(frozen=True)
class Engine:
    """An engine of the report."""

    name: str
    title: str
    group: str
    conditions: str
    """How it runs, and what is special in the measured time."""
    open: Callable[[Workload], AbstractContextManager[OpenEngine]]
    """Raises :class:`bench.harness.MissingToolError` if the machine lacks something."""
    ours: bool = False
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Reasons, by query that the engine cannot express."""
    compiles_at_runtime: bool = True
    """Needs more than one warm-up run for its JIT compiler."""


class Workload:
    """The events of a run in every form that an engine reads, and what engines share."""

    def __init__(self, data: Path, scratch: Path, count: int, heap: str, stack: ExitStack) -> None:
        self.data, self.scratch, self.count, self.heap = data, scratch, count, heap
        self._stack = stack
        self._expected: dict[str, Ids] = {}

    @cached_property
    def path(self) -> Path:
        """The Parquet file."""
        return parquet(self.data, "plain", self.count)

    @cached_property
    def pieces(self) -> Path:
        """The same rows as the files of a stream, with a row that closes it."""
        return stream.pieces(self.data, "plain", self.count)

    @cached_property
    def arrays(self) -> EventArrays:
        """The same events in memory, in the order of time."""
        return generate("plain", self.count)

    @cached_property
    def binary(self) -> Path:
        """The same events as columns for the Java programs that have no Parquet reader."""
        from bench.esper.process import write_events

        path = self.data / f"events-{self.count}.bin"
        write_events(self.arrays, path)
        return path

    @cached_property
    def flink(self) -> Flink:
        """Flink, compiled once for SQL and CEP."""
        from bench.flink.process import compile_flink

        return compile_flink(self.data / "flink", self.scratch, os.cpu_count() or 1, self.heap)

    @cached_property
    def spark(self) -> SparkSession:
        """The session of all engines on Spark, stopped with the run."""
        memory = {"spark.driver.memory": self.heap}
        session = self._stack.enter_context(spark_baselines.session(self.scratch, memory))
        session.read.parquet(str(self.path)).createOrReplaceTempView("plain_events")
        return session

    def expected(self, query: Query) -> Ids:
        """Ids of the first events of all matches, in ascending order."""
        if query.name not in self._expected:
            self._expected[query.name] = expected_ids(query.name, self.arrays.by_key())
        return self._expected[query.name]


def compare_ids(found: Ids, expected: Ids) -> str:
    """Return how the found matches differ from the expected ones; empty if they are equal, each found once."""
    ids = np.sort(np.asarray(found, np.int64))
    if np.array_equal(ids, expected):
        return ""
    distinct = np.unique(ids)
    missing = len(np.setdiff1d(expected, distinct, assume_unique=True))
    extra = len(np.setdiff1d(distinct, expected, assume_unique=True))
    return f"{missing:,} of {len(expected):,} missing, {extra:,} wrong, {len(ids) - len(distinct):,} repeated"


class Outcome(NamedTuple):
    """Result of a run: seconds if its matches are equal to the expected ones, else the kind of failure and the reason."""

    seconds: float | None
    failure: str = ""
    """Empty, ``other matches`` or ``failed``."""
    reason: str = ""


def measure(call: Call, expected: Ids, allowed: float, stop: Callable[[], object] | None) -> Outcome:
    """Run once and compare the matches."""
    if allowed <= 0:
        return Outcome(None, "failed", "the run's time was up")
    late = Outcome(None, "failed", f"not done after {allowed:.0f} s")
    started = time.monotonic()
    try:
        with time_limit(allowed, stop):
            run = call()
    except TimeUp:
        return late
    except Exception as error:
        said = (str(error).strip() or "no reason given").splitlines()[0][:200]
        return Outcome(None, "failed", said if isinstance(error, RoundsError) else f"{type(error).__name__}: {said}")
    if time.monotonic() - started > allowed:  # what ended in spite of its stop may be incomplete
        return late
    difference = compare_ids(run.ids, expected)
    return Outcome(None, "other matches", difference) if difference else Outcome(run.seconds)


@contextmanager
def just(call: Call) -> Iterator[Call]:
    """For engines that need no preparation."""
    yield call
