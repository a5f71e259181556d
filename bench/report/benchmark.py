"""Runs every engine on one workload, in turns, and writes the page from what the journal has."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from bench.harness import MissingToolError, Report, print_line, progress
from bench.report.engines import Call, Engine, OpenEngine, Outcome, Workload, measure
from bench.report.journal import Journal
from bench.report.machine import commit, load, machine_facts
from bench.report.results import Data, summarize
from bench.workload import QUERIES as TEXTS
from bench.workload import Query

COUNTS = {"quick": 100_000, "standard": 2_000_000, "full": 2_000_000}
"""Events of a run."""
ROUNDS = {"quick": 1, "standard": 3, "full": 5}
WARM = {"quick": 1, "standard": 3, "full": 3}
"""Warm-up runs of an engine with a JIT compiler; others have one."""
HEAPS = {"quick": "1g", "standard": "3g", "full": "3g"}
"""Heap of each process of Java; all of them are up at the same time."""
LIMITS = {"quick": (900.0, 90.0), "standard": (4 * 3600.0, 240.0), "full": (8 * 3600.0, 240.0)}
"""Seconds that a call of the report and a run of a query may take. A run beyond its limit has no figure."""
KEPT = Path("build") / "report"
"""Where events and the journal are kept if no folder is named, relative to the current folder."""


def run(
    size: str, data: Path | None, out: Path | None, only: tuple[str, ...] | None, queries: tuple[str, ...] | None = None
) -> Report:
    """Measure what the journal in the data folder does not have yet, and write the page."""
    from bench.report.registry import ENGINES, QUERIES

    folder = data or KEPT
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    count = COUNTS[size]
    journal = Journal(folder / f"report-{size}-{count}.jsonl")
    chosen = [ENGINES[name] for name in only or ENGINES]
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    journal.add("call", at=now, commit=commit(), machine=machine_facts(), engines=[engine.name for engine in chosen])
    with tempfile.TemporaryDirectory(prefix="perseid-bench-report-") as scratch, ExitStack() as stack:
        workload = Workload(folder, Path(scratch), count, HEAPS[size], stack)
        runner = Runner(journal, workload, ROUNDS[size], WARM[size], LIMITS[size])
        runner.run(chosen, [TEXTS[name] for name in queries or QUERIES], stack)
    results = summarize(journal, ENGINES, QUERIES, size, count, ROUNDS[size])
    if out is not None:
        from bench.report.page import write_page

        for path in write_page(results, out):
            progress(f"written: {path}")
    print_line(summary(results))
    return figures(results)


class Runner:
    """Runs queries on open engines, and writes each result to the journal at once."""

    def __init__(
        self, journal: Journal, workload: Workload, rounds: int, warm: int, limits: tuple[float, float]
    ) -> None:
        self._journal, self._workload, self._rounds, self._warm = journal, workload, rounds, warm
        self._end, self._limit = time.monotonic() + limits[0], limits[1]

    def run(self, engines: Iterable[Engine], queries: Iterable[Query], stack: ExitStack) -> None:
        """Open the engines that have something to run, and run all queries."""
        engines, queries = list(engines), list(queries)
        opened: dict[str, OpenEngine] = {}
        for engine in self._with_ours(engines, [one for one in engines if any(self._is_due(one, q) for q in queries)]):
            running = self._open(engine, stack)
            if running is not None:
                opened[engine.name] = running
        started = [engine for engine in engines if engine.name in opened]
        for query in queries:
            due = [engine for engine in started if self._is_due(engine, query)]
            self._run_query(self._with_ours(started, due), opened, query)

    def _with_ours(self, engines: Sequence[Engine], due: Sequence[Engine]) -> list[Engine]:
        """Engines that are due, and Perseid in the same groups: a ratio needs both sides in the same round."""
        groups = {engine.group for engine in due}
        return [engine for engine in engines if engine in due or (engine.ours and engine.group in groups)]

    def _is_due(self, engine: Engine, query: Query) -> bool:
        if query.name in engine.unsupported:
            return False
        return not self._journal.is_done(engine.name, query.name, self._rounds)

    def _open(self, engine: Engine, stack: ExitStack) -> OpenEngine | None:
        progress(f"opens {engine.title}")
        try:
            opened = stack.enter_context(engine.open(self._workload))
        except MissingToolError as error:
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
        else:
            self._journal.add("engine", engine=engine.name, versions=opened.versions())
            return opened
        progress(f"{engine.title}: not run: {reason}")
        self._journal.add("engine", engine=engine.name, reason=reason)
        return None

    def _run_query(self, engines: list[Engine], opened: Mapping[str, OpenEngine], query: Query) -> None:
        expected = self._workload.expected(query)
        with ExitStack() as stack:
            calls: dict[str, Call] = {}
            for engine in engines:
                progress(f"{query.name}: {engine.title}")
                prepared: AbstractContextManager[Call] = opened[engine.name].prepare(query)
                calls[engine.name] = stack.enter_context(prepared)
                for _ in range(self._warm if engine.compiles_at_runtime else 1):
                    outcome = self._measure(calls[engine.name], opened[engine.name], query)
                    if outcome.seconds is None:
                        self._fail(engine, query, outcome)
                        del calls[engine.name]
                        break
            for number in range(self._rounds):
                left = [engine for engine in engines if engine.name in calls]
                missing = [one for one in left if not self._journal.has_round(one.name, query.name, number)]
                turns = self._with_ours(left, missing)
                for engine in turns if number % 2 == 0 else reversed(turns):
                    before = load()
                    outcome = self._measure(calls[engine.name], opened[engine.name], query)
                    if outcome.seconds is None:
                        self._fail(engine, query, outcome)
                        del calls[engine.name]
                        continue
                    self._journal.add(
                        "round",
                        engine=engine.name,
                        query=query.name,
                        call=len(self._journal.calls()),
                        round=number,
                        seconds=round(outcome.seconds, 6),
                        matches=len(expected),
                        load=before,
                    )

    def _measure(self, call: Call, opened: OpenEngine, query: Query) -> Outcome:
        allowed = min(self._limit, self._end - time.monotonic())
        return measure(call, self._workload.expected(query), allowed, opened.stop)

    def _fail(self, engine: Engine, query: Query, outcome: Outcome) -> None:
        progress(f"{query.name}: {engine.title}: {outcome.failure}: {outcome.reason}")
        self._journal.add(
            "failure", engine=engine.name, query=query.name, failure=outcome.failure, reason=outcome.reason
        )


def figures(results: Data) -> Report:
    """The ratios as figures of the harness: above 1, Perseid is faster."""
    report = Report("report", results["size"])
    for row in results["ratios"]:
        for query, ratio in row["queries"].items():
            report.add(f"{query}.{row['ours']}.{row['peer']}", ratio.get("median"), ratio.get("missing", ""))
    return report


def summary(results: Data) -> str:
    """A text table: thousand events per second of each engine, or why there is no figure."""
    queries = list(results["cells"])
    lines = [f"{results['events']:,} events; thousand events/s if the matches are equal"]
    lines.append(f"{'engine':<36}" + "".join(f"{query:>18}" for query in queries))
    for engine in results["engines"]:
        cells = [results["cells"][query][engine["name"]] for query in queries]
        said = [cell.get("missing") or f"{cell['thousand_events_per_second']:,g}" for cell in cells]
        lines.append(f"{engine['title']:<36}" + "".join(f"{text:>18}" for text in said))
    return "\n".join(lines) + "\n"
