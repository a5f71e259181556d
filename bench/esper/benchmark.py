"""The kernel and Esper in memory, one thread each: Q1 to Q4, if Esper's matches are correct."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import ours
from bench.esper.process import HERE, command, write_events
from bench.esper.queries import FORMS
from bench.harness import Clock, Report, Side, Timed, TimeUp, paired_ratio, print_line, progress, run_rounds, time_limit
from bench.java import Rounds, RoundsError, build
from bench.truth import MatchChecksum, Truth
from bench.workload import EVENTS, QUERIES, EventArrays, Query, generate

ROUNDS = 5
"""More rounds than elsewhere: a run of ours takes a few hundredths of a second, so other processes disturb it
easily."""
WARM_ROUNDS = 3
"""Warm-up rounds of Esper before the common one: a single round does not warm up the JIT compiler."""
LIMITS = {"quick": (600.0, 60.0), "standard": (1800.0, 120.0), "full": (3 * 3600.0, 900.0)}
"""Seconds that a run and a single call may take; figures beyond them are missing."""

_WHAT_IS_TIMED = """\
What is timed, one thread each:
kernel         the search alone, over arrays ordered by key and time, with masks and indexes made before
with ordering  from arrays in the order of time to matches: dropping what no step wants, ordering by key and time,
               masks and indexes, the search
esper          sending objects held in memory, in the order of time, until a subscriber has all matches
"""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data cached in a folder."""
    clock = Clock(*LIMITS[size])
    report = Report("esper", size)
    count = EVENTS[size]
    queries = [QUERIES[name] for name in only or FORMS]
    progress("Maven builds the Java side")
    program = build(HERE, data / "esper")
    progress(f"{count:,} events for {', '.join(query.name for query in queries)}")
    truth = Truth(data, count)
    truth.prepare(queries)
    events = generate("plain", count)
    by_key = events.by_key()
    path = data / "esper" / f"events-{count}.bin"
    write_events(events, path)
    for query in queries:
        if query.name not in FORMS:
            report.add(f"{query.name}.esper", None, "not asked of Esper")
            continue
        # One process per query: the JIT compiler's profile of another query would slow this one down.
        with Rounds(command(program, FORMS[query.name], path, count)) as rival:
            compare(
                report,
                query.name,
                kernel=partial(_timed, ours.kernel_rate, query, by_key),
                ordered=partial(_timed, ours.engine_rate, query, events),
                esper=rival.round,
                right=truth.of(query),
                clock=clock,
            )
    print_line(report.times(count))
    print_line(_WHAT_IS_TIMED)
    return report


def compare(
    report: Report,
    query: str,
    *,
    kernel: Callable[[], Timed],
    ordered: Callable[[], Timed],
    esper: Callable[[], Timed],
    right: MatchChecksum,
    clock: Clock,
) -> None:
    """Add the figures of one query: kernel and kernel with ordering, each compared with Esper."""
    mine = {f"{query}.esper": f"{query} kernel", f"{query}.esper_with_ordering": f"{query} with ordering"}
    theirs = f"{query} esper"
    progress(", ".join((*mine.values(), theirs)))
    objection = _warm_up(esper, right, clock)
    if objection:
        for figure in mine:
            report.add(figure, None, objection)
        return
    runs = dict(zip(mine.values(), (kernel, ordered), strict=True)) | {theirs: esper}
    records = run_rounds([Side(name, call, right) for name, call in runs.items()], clock, rounds=ROUNDS)
    report.records |= records
    for figure, name in mine.items():
        report.add(figure, *paired_ratio(records[name], records[theirs]))


def _warm_up(esper: Callable[[], Timed], right: MatchChecksum, clock: Clock) -> str:
    """Warm Esper up; return the reason if its time is not comparable with ours."""
    for _ in range(WARM_ROUNDS):
        allowed = clock.allowance()
        try:
            with time_limit(allowed):
                found = esper().result
        except TimeUp:
            return f"theirs: not done after {max(allowed, 0):.0f} s"
        except RoundsError as error:
            return f"theirs: {error}"
        if found != right:
            return f"other matches: {_format_result(found)}, right is {_format_result(right)}"
    return ""


def _format_result(result: object) -> str:
    return f"{result.matches:,} (ids {result.id_sum:,})" if isinstance(result, MatchChecksum) else str(result)


def _timed(
    rate: Callable[[Query, EventArrays], tuple[float, MatchChecksum]], query: Query, events: EventArrays
) -> Timed:
    """Run one of our functions, which measure their own time and return events per second."""
    per_second, found = rate(query, events)
    return Timed(len(events) / per_second, found)
