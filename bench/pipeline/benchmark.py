"""From Kafka to Kafka: throughput and latency of a job, compared with a baseline query."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import spark_baselines
from bench.harness import Clock, Report, Side, Timed, paired_ratio, print_line, progress, run_rounds
from bench.pipeline.runner import BARE, BY_BATCH, OURS, PipelineQueries, PipelineSpec, job_session_settings
from bench.pipeline.topics import OutputConsumer, RateProducer, count_messages, fill, make_topic
from bench.servers.broker import Broker
from bench.stream import seconds_of
from bench.truth import Truth
from bench.workload import QUERIES, parquet

LIMITS = {"quick": (57.0, 40.0), "standard": (2400.0, 240.0), "full": (3 * 3600.0, 900.0)}
COUNTS = {"quick": 20_000, "standard": 1_000_000, "full": 4_000_000}
"""Events of a throughput run."""
BATCHES = {"quick": 1, "standard": 5, "full": 5}
ROUNDS = {"quick": (1, 0), "standard": (3, 2), "full": (5, 2)}
"""Timed rounds and warm-up rounds. The minute of the size quick has time for one round, whose first, cold batch does
not count; it shows little more than that everything runs."""
WITH_LETTERS = f"{OURS}, dead letters"
RATE = 200
"""Events per second in the latency measurement."""
KEYS = 50
WARM_UP_S, MEASURE_S = {"standard": 8.0, "full": 10.0}, {"standard": 15.0, "full": 40.0}
"""Seconds of a side before its outputs count, and while they count."""
TURNS = {"standard": 3, "full": 5}
"""Turns that count. Each side has a longer turn before, in which the JIT compiler warms up: after two minutes a batch
takes a third of its initial time, and jobs run for days."""
FIRST_WARM_UP_S = {"arrival": 120.0, "watermark": 60.0}
"""Seconds of that turn: the second measurement starts after most code is compiled."""
QUERY = QUERIES["Q1n"]
CLOSING = {"id": -1, "ts": "2020-01-01T00:00:00Z", "key": 0, "type": "Z", "v": 0.0}
"""A record after all others, but not in the future, because the job rejects such records."""

PAIRS = "pattern pairs\nmatch A a -> B b\nwithin 1 minute\npartition by key\nafter match skip past last\nreturn b.sent as sent\n"
_STAMPED = "ts timestamp, key bigint, type string, sent bigint"
_CARRIED = {"sent": "bigint", "key": "bigint"}
LATENCY_SPECS: dict[str, PipelineSpec] = {
    "arrival": PipelineSpec("arrival", _STAMPED, PAIRS, ("A", "B"), "10 seconds", _CARRIED, "B", order="arrival"),
    "watermark": PipelineSpec("watermark", _STAMPED, PAIRS, ("A", "B"), "1 second", _CARRIED, "B"),
}


def run(size: str, data: Path) -> Report:
    """Measure at a size, with generated data cached in a folder."""
    clock, report = Clock(*LIMITS[size]), Report("pipeline", size)
    with tempfile.TemporaryDirectory(prefix="perseid-bench-pipeline-") as scratch, ExitStack() as stack:
        with ThreadPoolExecutor(1) as aside:  # the broker starts in parallel with the session
            started = aside.submit(lambda: stack.enter_context(Broker(Path(scratch) / "kafka")))
            spark = stack.enter_context(spark_baselines.session(Path(scratch), job_session_settings()))
        broker = started.result()
        queries = PipelineQueries(spark, broker, Path(scratch))
        _throughput(report, queries, data, clock)
        if size != "quick":  # a quick run has no time for it
            for spec in LATENCY_SPECS.values():
                _latency(report, queries, spec, clock)
    print_line(report.times(COUNTS[size]))
    return report


# Throughput


def _throughput(report: Report, queries: PipelineQueries, data: Path, clock: Clock) -> None:
    count = COUNTS[report.size]
    truth = Truth(data, count)
    truth.prepare([QUERY])
    right = truth.of(QUERY).matches
    source = make_topic(queries.broker, "events")
    fill(queries.broker, source, parquet(data, QUERY.dataset, count), CLOSING)
    progress(f"{count:,} events in a topic, {right:,} matches")
    schema = "id bigint, ts timestamp, key int, type string, v double"
    carried = {"id": "bigint", "key": "int", "v": "double"}
    # Partitions are read at the same rate, not at the same time: they are never more than ten seconds apart.
    spec = PipelineSpec(
        "throughput", schema, QUERY.text, QUERY.types, "10 seconds", carried, None, count // BATCHES[report.size] + 1
    )
    letters = {OURS: False, WITH_LETTERS: True}
    if report.size == "quick":
        del letters[WITH_LETTERS]
    rounds, warm = ROUNDS[report.size]
    skipped = 0 if warm else 1
    sides = [
        *(
            Side(who, partial(_ours, queries, spec, source, right, emitted, skipped), right)
            for who, emitted in letters.items()
        ),
        Side(BARE, partial(_baseline, queries, spec, source, skipped), None),
    ]
    records = run_rounds(sides, clock, rounds=rounds, warm=warm, stop=queries.spark.sparkContext.cancelAllJobs)
    report.records.update(records)
    report.add("throughput.bare", *paired_ratio(records[OURS], records[BARE]))
    if WITH_LETTERS in records:
        report.add("throughput.with_dead_letters", *paired_ratio(records[WITH_LETTERS], records[BARE]))


_topics = itertools.count(1)


def _topic(queries: PipelineQueries) -> str:
    return make_topic(queries.broker, f"answers-{next(_topics)}")


def _ours(queries: PipelineQueries, spec: PipelineSpec, source: str, right: int, letters: bool, skipped: int) -> Timed:
    target = _topic(queries)
    ran, emitted = queries.run_ours(spec, source, target, letters=letters)
    sent = count_messages(queries.broker, target)
    return Timed(seconds_of(ran[skipped:]), right if emitted == sent == right else ("told", emitted, "sent", sent))


def _baseline(queries: PipelineQueries, spec: PipelineSpec, source: str, skipped: int) -> Timed:
    return Timed(seconds_of(queries.run_baseline(spec, source, _topic(queries))[skipped:]), None)


# Latency


def _latency(report: Report, queries: PipelineQueries, spec: PipelineSpec, clock: Clock) -> None:
    latencies: dict[str, list[list[float]]] = {OURS: [], BARE: [], BY_BATCH: []}
    queries.state_bytes = 1000
    for turn in range(1 + TURNS[report.size]):
        for side in latencies if turn % 2 == 0 else reversed(latencies):
            if clock.allowance() > 0:
                late = _measure_latency(
                    queries,
                    side,
                    spec,
                    WARM_UP_S[report.size] if turn else FIRST_WARM_UP_S[spec.name],
                    MEASURE_S[report.size],
                )
                latencies[side] += [late] if turn else []
    for name, place in (("p50", 0.5), ("p99", 0.99)):
        found = {side: [_quantile(late, place) for late in lates if late] for side, lates in latencies.items()}
        if not all(found.values()):
            report.add(f"{spec.name}.{name}", None, "the run's time was up")
            continue
        middle = {side: statistics.median(seconds) for side, seconds in found.items()}
        emitted = ", ".join(f"{side} {1000 * seconds:,.0f} ms" for side, seconds in middle.items())
        progress(f"{spec.name}, {name}: {emitted}")
        # Larger is better, as for all figures: the minimum is 1 / 1.2.
        report.add(f"{spec.name}.{name}", middle[BARE] / middle[OURS])
        report.add(f"{spec.name}.{name}.by_batch", middle[BY_BATCH] / middle[OURS])
        report.add(f"{spec.name}.{name}.ms", 1000 * middle[OURS])


def _measure_latency(
    queries: PipelineQueries, side: str, spec: PipelineSpec, before: float, during: float
) -> list[float]:
    """Seconds from sending an event to receiving the output that it completes, after a warm-up of ``before``
    seconds."""
    source, target = _topic(queries), _topic(queries)
    events = itertools.cycle((key, kind) for kind in "AB" for key in range(KEYS))
    with (
        queries.running(
            side, spec, source, target
        ),  # first, otherwise the events sent before its start would count as late
        OutputConsumer(queries.broker, target) as consumer,
        RateProducer(queries.broker, source, RATE, events),
    ):
        end = time.monotonic() + 60
        while not consumer.latencies and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(before)
        since = time.time()
        time.sleep(during)
    return [seconds for moment, seconds in consumer.latencies if moment >= since]


def _quantile(seconds: list[float], place: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(place * len(seconds)))]
