"""From Kafka to Kafka: a job of ours beside a bare query, how many events in a time, and how late an answer is."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import spark_rivals
from bench.harness import Clock, Contestant, Report, Timed, contest, paired_ratio, progress, say
from bench.pipeline.sides import BARE, BY_BATCH, OURS, Asked, Sides, settings_of_a_job
from bench.pipeline.topics import Ear, Pulse, count_messages, fill, make_topic
from bench.servers.broker import Broker
from bench.stream import seconds_of
from bench.truth import Truth
from bench.workload import QUERIES, parquet

LIMITS = {"quick": (57.0, 40.0), "standard": (2400.0, 240.0), "full": (3 * 3600.0, 900.0)}
COUNTS = {"quick": 20_000, "standard": 1_000_000, "full": 4_000_000}
"""Events of a throughput run."""
BATCHES = {"quick": 1, "standard": 5, "full": 5}
ROUNDS = {"quick": (1, 0), "standard": (3, 2), "full": (5, 2)}
"""Rounds that count, and before them; a minute has time for one, of which the first batch, the cold one, does
not count, and shows that all of it runs, and little more."""
WITH_LETTERS = f"{OURS}, dead letters"
RATE = 200
"""Events in a second, where the lateness of answers is measured."""
KEYS = 50
WARM, HEAR = {"standard": 8.0, "full": 10.0}, {"standard": 15.0, "full": 40.0}
"""Seconds of a side before its answers count, and while they do."""
TURNS = {"standard": 3, "full": 5}
"""Turns that count. Before them each side has a longer one, in which the JVM compiles what it runs often: a batch takes a third of
the time after two minutes, and a job goes on for days."""
SETTLE = {"arrival": 120.0, "watermark": 60.0}
"""Seconds of that turn: the second question is asked of what is mostly compiled."""
QUERY = QUERIES["Q1n"]
CLOSING = {"id": -1, "ts": "2020-01-01T00:00:00Z", "key": 0, "type": "Z", "v": 0.0}
"""A record after all others, and not in the future: the job rejects such records."""

PAIRS = "pattern pairs\nmatch A a -> B b\nwithin 1 minute\npartition by key\nafter match skip past last\nreturn b.sent as sent\n"
_STAMPED = "ts timestamp, key bigint, type string, sent bigint"
_CARRIED = {"sent": "bigint", "key": "bigint"}
LATE: dict[str, Asked] = {
    "arrival": Asked("arrival", _STAMPED, PAIRS, ("A", "B"), "10 seconds", _CARRIED, "B", order="arrival"),
    "watermark": Asked("watermark", _STAMPED, PAIRS, ("A", "B"), "1 second", _CARRIED, "B"),
}


def run(size: str, data: Path) -> Report:
    """Measure at a size, with generated data kept in a folder."""
    clock, report = Clock(*LIMITS[size]), Report("pipeline", size)
    with tempfile.TemporaryDirectory(prefix="perseid-bench-pipeline-") as scratch, ExitStack() as stack:
        with ThreadPoolExecutor(1) as aside:  # the broker starts while the session does
            started = aside.submit(lambda: stack.enter_context(Broker(Path(scratch) / "kafka")))
            spark = stack.enter_context(spark_rivals.session(Path(scratch), settings_of_a_job()))
        broker = started.result()
        sides = Sides(spark, broker, Path(scratch))
        _throughput(report, sides, data, clock)
        if size != "quick":  # a minute has no time for it
            for asked in LATE.values():
                _latency(report, sides, asked, clock)
    say(report.times(COUNTS[size]))
    return report


# How many


def _throughput(report: Report, sides: Sides, data: Path, clock: Clock) -> None:
    count = COUNTS[report.size]
    truth = Truth(data, count)
    truth.prepare([QUERY])
    right = truth.of(QUERY).matches
    source = make_topic(sides.broker, "events")
    fill(sides.broker, source, parquet(data, QUERY.dataset, count), CLOSING)
    progress(f"{count:,} events in a topic, {right:,} matches")
    schema = "id bigint, ts timestamp, key int, type string, v double"
    carried = {"id": "bigint", "key": "int", "v": "double"}
    # Partitions are read at one pace, not at one time: ten seconds are more than they are ever apart.
    asked = Asked(
        "throughput", schema, QUERY.text, QUERY.types, "10 seconds", carried, None, count // BATCHES[report.size] + 1
    )
    letters = {OURS: False, WITH_LETTERS: True}
    if report.size == "quick":
        del letters[WITH_LETTERS]
    rounds, warm = ROUNDS[report.size]
    skipped = 0 if warm else 1
    contestants = [
        *(
            Contestant(who, partial(_ours, sides, asked, source, right, told, skipped), right)
            for who, told in letters.items()
        ),
        Contestant(BARE, partial(_bare, sides, asked, source, skipped), None),
    ]
    records = contest(contestants, clock, rounds=rounds, warm=warm, stop=sides.spark.sparkContext.cancelAllJobs)
    report.records.update(records)
    report.add("throughput.bare", *paired_ratio(records[OURS], records[BARE]))
    if WITH_LETTERS in records:
        report.add("throughput.with_dead_letters", *paired_ratio(records[WITH_LETTERS], records[BARE]))


_topics = itertools.count(1)


def _topic(sides: Sides) -> str:
    return make_topic(sides.broker, f"answers-{next(_topics)}")


def _ours(sides: Sides, asked: Asked, source: str, right: int, letters: bool, skipped: int) -> Timed:
    target = _topic(sides)
    ran, told = sides.ours_to_the_end(asked, source, target, letters=letters)
    sent = count_messages(sides.broker, target)
    return Timed(seconds_of(ran[skipped:]), right if told == sent == right else ("told", told, "sent", sent))


def _bare(sides: Sides, asked: Asked, source: str, skipped: int) -> Timed:
    return Timed(seconds_of(sides.bare_to_the_end(asked, source, _topic(sides))[skipped:]), None)


# How late


def _latency(report: Report, sides: Sides, asked: Asked, clock: Clock) -> None:
    heard: dict[str, list[list[float]]] = {OURS: [], BARE: [], BY_BATCH: []}
    sides.state_bytes = 1000
    for turn in range(1 + TURNS[report.size]):
        for side in heard if turn % 2 == 0 else reversed(heard):
            if clock.allowance() > 0:
                late = _hear(sides, side, asked, WARM[report.size] if turn else SETTLE[asked.name], HEAR[report.size])
                heard[side] += [late] if turn else []
    for name, place in (("p50", 0.5), ("p99", 0.99)):
        found = {side: [_quantile(late, place) for late in lates if late] for side, lates in heard.items()}
        if not all(found.values()):
            report.add(f"{asked.name}.{name}", None, "the run's time was up")
            continue
        middle = {side: statistics.median(seconds) for side, seconds in found.items()}
        told = ", ".join(f"{side} {1000 * seconds:,.0f} ms" for side, seconds in middle.items())
        progress(f"{asked.name}, {name}: {told}")
        # As all figures, larger is better: 1 / 1.2 is the least.
        report.add(f"{asked.name}.{name}", middle[BARE] / middle[OURS])
        report.add(f"{asked.name}.{name}.by_batch", middle[BY_BATCH] / middle[OURS])
        report.add(f"{asked.name}.{name}.ms", 1000 * middle[OURS])


def _hear(sides: Sides, side: str, asked: Asked, before: float, during: float) -> list[float]:
    """Seconds from sending an event to hearing the answer that it completes, of a side that has run some seconds before."""
    source, target = _topic(sides), _topic(sides)
    events = itertools.cycle((key, kind) for kind in "AB" for key in range(KEYS))
    with (
        sides.running(side, asked, source, target),  # first, or what waited for it would be late
        Ear(sides.broker, target) as ear,
        Pulse(sides.broker, source, RATE, events),
    ):
        end = time.monotonic() + 60
        while not ear.heard and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(before)
        since = time.time()
        time.sleep(during)
    return [seconds for moment, seconds in ear.heard if moment >= since]


def _quantile(seconds: list[float], place: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(place * len(seconds)))]
