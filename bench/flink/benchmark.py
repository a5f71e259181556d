"""A stream of ours on Spark compared with Flink SQL and Flink CEP, all from Parquet files to matches, on all cores."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import spark_baselines, stream
from bench.flink.lanes import lanes
from bench.flink.process import Flink, compile_flink
from bench.flink.queries import SQL, cep_form
from bench.harness import Clock, Report, Side, Timed, paired_ratio, print_line, progress, run_rounds
from bench.java import Rounds
from bench.truth import MatchChecksum, Truth
from bench.workload import EVENTS, QUERIES, Query

LIMITS = {"quick": (1800.0, 180.0), "standard": (3600.0, 180.0), "full": (6 * 3600.0, 1200.0)}
"""Seconds that a run and a single call may take; figures beyond them are missing."""
ROUNDS = {"quick": 1, "standard": 3, "full": 3}
BASELINES = ("flink_sql", "flink_cep")
REDUCED_EVENTS = {("Q1w", "flink_sql"): 200_000}
"""Events of both sides where a baseline is too slow for all of them. Flink SQL buffers every row between two steps of a
match and scans them at each further row of the key; Q1w's keys have thousands in a window."""

FILES = 8
"""Files, of 250,000 events each, per trigger of ours: with few events, the fixed cost of a trigger dominates."""

_WHAT_IS_TIMED = """\
What is timed, on all cores, from Parquet files to matches:
ours       the triggers of a Structured Streaming query, up to 2,000,000 events each, with Spark's checkpoints
flink_sql  from the first task's running to the last one's end: cluster, planning and deployment come before
flink_cep  the same; no checkpoints, state on the heap
bare       a stateful query on Spark with nothing in it, as in `bench stream`: the most that Spark allows; reported
"""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data cached in a folder."""
    clock = Clock(*LIMITS[size])
    report = Report("flink", size)
    queries = [QUERIES[name] for name in only or SQL]
    with tempfile.TemporaryDirectory(prefix="perseid-bench-flink-") as name:
        scratch = Path(name)
        progress("Maven builds the Java side")
        flink = compile_flink(data / "flink", scratch, os.cpu_count() or 1)
        with spark_baselines.session(scratch) as spark:
            bench = _Bench(flink, stream.Bench(spark, scratch, FILES), data, ROUNDS[size], clock)
            for count, engines in _parts(queries, EVENTS[size]):
                part = Report("flink", size)
                bench.measure(part, engines, count)
                print_line(part.times(count))
                report.figures |= part.figures
                report.reasons |= part.reasons
                report.records |= part.records
    print_line(_WHAT_IS_TIMED)
    return report


def _parts(queries: Iterable[Query], count: int) -> Iterable[tuple[int, dict[str, tuple[str, ...]]]]:
    """Baselines by query for each number of events: all queries, then those with fewer events."""
    parts: dict[int, dict[str, tuple[str, ...]]] = {}
    for query in queries:
        for engine in BASELINES:
            engines_by_query = parts.setdefault(REDUCED_EVENTS.get((query.name, engine), count), {})
            engines_by_query[query.name] = (*engines_by_query.get(query.name, ()), engine)
    return parts.items()


class _Bench:
    def __init__(self, flink: Flink, ours: stream.Bench, data: Path, rounds: int, clock: Clock) -> None:
        self.flink, self.ours, self.data, self.rounds, self.clock = flink, ours, data, rounds, clock

    def measure(self, report: Report, engines_by_query: Mapping[str, tuple[str, ...]], count: int) -> None:
        """Add the figures of queries and their baselines over ``count`` events."""
        queries = [QUERIES[name] for name in engines_by_query]
        progress(f"{count:,} events for {', '.join(engines_by_query)}")
        truth = Truth(self.data, count)
        truth.prepare(queries)
        for query in queries:
            pieces = stream.pieces(self.data, query.dataset, count)
            with ExitStack() as stack:
                # One process per query: the JIT compiler's profile of another query would slow this one down.
                theirs = {
                    name: stack.enter_context(Rounds(self._command(name, query, pieces)))
                    for name in engines_by_query[query.name]
                }
                compare(
                    report,
                    query.name,
                    ours=partial(stream.once, self.ours, query, pieces, truth.of(query)),
                    proof=partial(self.ours.proof, query, pieces),
                    theirs={name: process.round for name, process in theirs.items()},
                    baseline=partial(self.ours.baseline, query, pieces, True),
                    right=truth.of(query),
                    rounds=self.rounds,
                    clock=self.clock,
                    stop=partial(self._stop, tuple(theirs.values())),
                )

    def _command(self, engine: str, query: Query, pieces: Path) -> list[str]:
        folder = lanes(pieces, os.cpu_count() or 1)
        return self.flink.sql(query, folder) if engine == "flink_sql" else self.flink.cep(cep_form(query), folder)

    def _stop(self, theirs: Iterable[Rounds]) -> None:
        self.ours.spark.sparkContext.cancelAllJobs()
        for process in theirs:
            process.stop()


def compare(
    report: Report,
    query: str,
    *,
    ours: Callable[[], Timed],
    proof: Callable[[], Timed],
    theirs: Mapping[str, Callable[[], Timed]],
    baseline: Callable[[], Timed],
    right: MatchChecksum,
    rounds: int,
    clock: Clock,
    stop: Callable[[], object],
) -> None:
    """Compare our stream with each baseline; a side that is wrong or too late once is dropped.

    A baseline stateful query also runs: it shows the limit on Spark.
    """
    mine = f"{query} ours"
    sides = [Side(mine, ours, right, proof)]
    sides += [Side(f"{query} {name}", call, right) for name, call in theirs.items()]
    sides.append(Side(f"{query} bare", baseline, None))
    progress(", ".join(one.name for one in sides))
    records = run_rounds(sides, clock, rounds=rounds, warm=stream.WARM, stop=stop)
    report.records |= records
    for name in theirs:
        report.add(f"{query}.{name}", *paired_ratio(records[mine], records[f"{query} {name}"]))
        report.add(f"{query}.{name}.bare", *paired_ratio(records[f"{query} bare"], records[f"{query} {name}"]))
