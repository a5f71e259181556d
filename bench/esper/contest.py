"""The kernel and Esper in memory, one thread each: Q1 to Q4, where Esper's matches are the right ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import ours
from bench.esper.queries import FORMS
from bench.esper.rival import HERE, command, write_events
from bench.harness import Clock, Contestant, Report, Timed, TimeUp, contest, paired_ratio, progress, say, time_limit
from bench.java import Rounds, RoundsError, build
from bench.truth import Answer, Truth
from bench.workload import EVENTS, QUERIES, EventArrays, Query, generate

ROUNDS = 5
"""More than elsewhere: what we do takes a few hundredths of a second, which a busy machine disturbs easily."""
WARM_ROUNDS = 3
"""Before the round that warms up everybody: Java's compiler is not done with the hot parts in one."""
LIMITS = {"quick": (600.0, 60.0), "standard": (1800.0, 120.0), "full": (3 * 3600.0, 900.0)}
"""Seconds that a run and a single call may take; beyond them figures are missing."""

_WHAT_IS_TIMED = """\
What is timed, one thread each:
kernel         the search alone, over arrays ordered by key and time, with masks and indexes made before
with ordering  from arrays in the order of time to matches: dropping what no step wants, ordering by key and time,
               masks and indexes, the search
esper          sending objects held in memory, in the order of time, until a subscriber has all matches
"""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data kept in a folder."""
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
        # A process for each query: what Java's compiler learned from another one would slow this one down.
        with Rounds(command(program, FORMS[query.name], path, count)) as rival:
            meet(
                report,
                query.name,
                kernel=partial(_timed, ours.kernel_rate, query, by_key),
                ordered=partial(_timed, ours.engine_rate, query, events),
                esper=rival.round,
                right=truth.of(query),
                clock=clock,
            )
    say(report.times(count))
    say(_WHAT_IS_TIMED)
    return report


def meet(
    report: Report,
    query: str,
    *,
    kernel: Callable[[], Timed],
    ordered: Callable[[], Timed],
    esper: Callable[[], Timed],
    right: Answer,
    clock: Clock,
) -> None:
    """One query's figures: the kernel by Esper, and the kernel with ordering by Esper."""
    mine = {f"{query}.esper": f"{query} kernel", f"{query}.esper_with_ordering": f"{query} with ordering"}
    theirs = f"{query} esper"
    progress(", ".join((*mine.values(), theirs)))
    objection = _warmed_up(esper, right, clock)
    if objection:
        for figure in mine:
            report.add(figure, None, objection)
        return
    runs = dict(zip(mine.values(), (kernel, ordered), strict=True)) | {theirs: esper}
    records = contest([Contestant(name, call, right) for name, call in runs.items()], clock, rounds=ROUNDS)
    report.records |= records
    for figure, name in mine.items():
        report.add(figure, *paired_ratio(records[name], records[theirs]))


def _warmed_up(esper: Callable[[], Timed], right: Answer, clock: Clock) -> str:
    """Warm Esper up; why its time would say nothing about ours, if so."""
    for _ in range(WARM_ROUNDS):
        allowed = clock.allowance()
        try:
            with time_limit(allowed):
                found = esper().answer
        except TimeUp:
            return f"theirs: not done after {max(allowed, 0):.0f} s"
        except RoundsError as error:
            return f"theirs: {error}"
        if found != right:
            return f"other matches: {_words(found)}, right is {_words(right)}"
    return ""


def _words(answer: object) -> str:
    return f"{answer.matches:,} (ids {answer.id_sum:,})" if isinstance(answer, Answer) else str(answer)


def _timed(rate: Callable[[Query, EventArrays], tuple[float, Answer]], query: Query, events: EventArrays) -> Timed:
    """One of our runs, which keep their own time and give it as events per second."""
    per_second, found = rate(query, events)
    return Timed(len(events) / per_second, found)
