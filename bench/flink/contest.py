"""A stream of ours on Spark beside Flink SQL and Flink CEP, all from Parquet files to matches, on all cores."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import spark_rivals, stream
from bench.flink.lanes import lanes
from bench.flink.queries import SQL, cep_form
from bench.flink.rival import Flink, built
from bench.harness import Clock, Contestant, Report, Timed, contest, paired_ratio, progress, say
from bench.java import Rounds
from bench.truth import Answer, Truth
from bench.workload import EVENTS, QUERIES, Query

LIMITS = {"quick": (1800.0, 180.0), "standard": (3600.0, 180.0), "full": (6 * 3600.0, 1200.0)}
"""Seconds that a run and a single call may take; beyond them figures are missing."""
ROUNDS = {"quick": 1, "standard": 3, "full": 3}
RIVALS = ("flink_sql", "flink_cep")
FEWER = {("Q1w", "flink_sql"): 200_000}
"""Where a rival is too slow for all of them, everybody has so many events. Flink SQL keeps every row between two steps of a
match and walks through them at each further row of the key; Q1w's keys have thousands in a window."""

FILES = 8
"""Files, of 250,000 events each, that a trigger of ours takes: with few events in it most of a trigger is what any trigger costs."""

_WHAT_IS_TIMED = """\
What is timed, on all cores, from Parquet files to matches:
ours       the triggers of a Structured Streaming query, up to 2,000,000 events each, with Spark's checkpoints
flink_sql  from the first task's running to the last one's end: cluster, planning and deployment come before
flink_cep  the same; no checkpoints, state on the heap
bare       a stateful query on Spark with nothing in it, as in `bench stream`: the most that Spark allows; reported
"""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data kept in a folder."""
    clock = Clock(*LIMITS[size])
    report = Report("flink", size)
    queries = [QUERIES[name] for name in only or SQL]
    with tempfile.TemporaryDirectory(prefix="perseid-bench-flink-") as name:
        scratch = Path(name)
        progress("Maven builds the Java side")
        flink = built(data / "flink", scratch, os.cpu_count() or 1)
        with spark_rivals.session(scratch) as spark:
            bench = _Bench(flink, stream.Bench(spark, scratch, FILES), data, ROUNDS[size], clock)
            for count, rivals in _parts(queries, EVENTS[size]):
                part = Report("flink", size)
                bench.meet(part, rivals, count)
                say(part.times(count))
                report.figures |= part.figures
                report.reasons |= part.reasons
                report.records |= part.records
    say(_WHAT_IS_TIMED)
    return report


def _parts(queries: Iterable[Query], count: int) -> Iterable[tuple[int, dict[str, tuple[str, ...]]]]:
    """Who meets whom over how many events: all queries, then those of which a rival can do only fewer."""
    parts: dict[int, dict[str, tuple[str, ...]]] = {}
    for query in queries:
        for rival in RIVALS:
            asked = parts.setdefault(FEWER.get((query.name, rival), count), {})
            asked[query.name] = (*asked.get(query.name, ()), rival)
    return parts.items()


class _Bench:
    def __init__(self, flink: Flink, ours: stream.Bench, data: Path, rounds: int, clock: Clock) -> None:
        self.flink, self.ours, self.data, self.rounds, self.clock = flink, ours, data, rounds, clock

    def meet(self, report: Report, asked: Mapping[str, tuple[str, ...]], count: int) -> None:
        """The figures of queries and their rivals over so many events."""
        queries = [QUERIES[name] for name in asked]
        progress(f"{count:,} events for {', '.join(asked)}")
        truth = Truth(self.data, count)
        truth.prepare(queries)
        for query in queries:
            pieces = stream.pieces(self.data, query.dataset, count)
            with ExitStack() as stack:
                # A process for each: what Java's compiler learned from another one would slow this one down.
                theirs = {
                    name: stack.enter_context(Rounds(self._command(name, query, pieces))) for name in asked[query.name]
                }
                compare(
                    report,
                    query.name,
                    ours=partial(stream.once, self.ours, query, pieces, truth.of(query)),
                    proof=partial(self.ours.proof, query, pieces),
                    theirs={name: process.round for name, process in theirs.items()},
                    bare=partial(self.ours.bare, query, pieces, True),
                    right=truth.of(query),
                    rounds=self.rounds,
                    clock=self.clock,
                    stop=partial(self._stop, tuple(theirs.values())),
                )

    def _command(self, rival: str, query: Query, pieces: Path) -> list[str]:
        folder = lanes(pieces, os.cpu_count() or 1)
        return self.flink.sql(query, folder) if rival == "flink_sql" else self.flink.cep(cep_form(query), folder)

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
    bare: Callable[[], Timed],
    right: Answer,
    rounds: int,
    clock: Clock,
    stop: Callable[[], object],
) -> None:
    """One query's figures: our stream by each rival's. Who is wrong, or late, once is out and is not compared.

    A bare stateful query runs beside us: what Spark does without us is more than can be reached on it.
    """
    mine = f"{query} ours"
    everybody = [Contestant(mine, ours, right, proof)]
    everybody += [Contestant(f"{query} {name}", call, right) for name, call in theirs.items()]
    everybody.append(Contestant(f"{query} bare", bare, None))
    progress(", ".join(one.name for one in everybody))
    records = contest(everybody, clock, rounds=rounds, warm=stream.WARM, stop=stop)
    report.records |= records
    for name in theirs:
        report.add(f"{query}.{name}", *paired_ratio(records[mine], records[f"{query} {name}"]))
        report.add(f"{query}.{name}.bare", *paired_ratio(records[f"{query} bare"], records[f"{query} {name}"]))
