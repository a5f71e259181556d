"""A stream has the matches of ``match`` and of the oracle over the same rows, in any order and any batches."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import perseid as ps
from perseid.api.stream_kinds.contract import SparkMatchOptions
from perseid.api.stream_kinds.events import detect_events
from perseid.engines.sequence.stream import Events, read_events
from perseid.errors import TypeMismatchError, UnknownNameError
from perseid.reference.oracle import oracle_matcher
from perseid.runtime.contract import StepResult
from perseid.runtime.registry import engines
from perseid.semantics.binding import bind
from perseid.semantics.detection import detect
from perseid.semantics.resolve import resolve
from tests.contract.inputs import PatternWorkload, draw_sequence_workload, oracle, result_rows
from tests.contract.inputs import run as run_here
from tests.contract.rich import SCHEMA as RICH
from tests.contract.streams import SECOND, bounded, suppresses
from tests.spark.streaming import FAR, MOMENT, START, Running, Streams, at, ids, seconds

PAIRS = int(os.environ.get("PERSEID_STREAM_PAIRS", "12"))
BASE = int(os.environ.get("PERSEID_SEEDS", "0"))
"""First seed."""
PAIRS_A_QUERY, AT_ONCE = 3, 2


# Batch, stream and oracle


def drawn(seeds: Sequence[int], keyed: bool) -> PatternWorkload:
    """Return the patterns of several seeds over the events of one of them, some years after 1970."""
    workloads = [draw_sequence_workload(seed, keyed) for seed in seeds]
    patterns = [
        replace(
            pattern,
            name=f"s{seed}_{pattern.name}",
            returns=tuple((f"{name}_{seed}", expr) for name, expr in pattern.returns),
        )
        for seed, workload in zip(seeds, workloads, strict=True)
        for pattern in workload.patterns
    ]
    longest = max(workloads, key=lambda workload: len(workload.data))
    since = START - timedelta(seconds=longest.data[0]["ts"].timestamp())
    data = tuple({**row, "ts": since + timedelta(seconds=row["ts"].timestamp())} for row in longest.data)
    return replace(longest, patterns=tuple(patterns), data=data)


def usable(workload: PatternWorkload) -> bool:
    """Return true if every match is emitted at the end: suppression and an unbounded wait may hold matches back."""
    return bounded(workload) or not suppresses(workload)


def arriving(workload: PatternWorkload, chance: random.Random, delay: float) -> list[list[Mapping[str, Any]]]:
    """Return the events in files, out of order by less than the delay, then an unused event that closes all windows."""
    moved = [(row["ts"].timestamp() + chance.random() * delay * 0.99, i) for i, row in enumerate(workload.data)]
    order = [i for _, i in sorted(moved)]
    cuts = sorted(chance.sample(range(1, len(order)), min(len(order) - 1, chance.randint(2, 4))))
    batches = [
        [workload.data[i] for i in order[low:high]] for low, high in zip([0, *cuts], [*cuts, len(order)], strict=True)
    ]
    return [*batches, [{**dict.fromkeys(RICH.names), "ts": at(FAR), "type": "Z"}]]


def test_batch_stream_and_oracle_have_the_same_matches(spark: SparkSession, tmp_path: Path) -> None:
    """Random patterns over random rows; PERSEID_STREAM_PAIRS sets the number of pairs."""
    waiting: list[tuple[Running, PatternWorkload, float, str]] = []
    matches = pairs = 0
    seed = BASE

    def compare() -> int:
        running, workload, delay, label = waiting.pop(0)
        run = running.finish()
        files = len(run.read) - 1
        assert files >= 3, label
        assert run.counters["late"] == run.counters["bad"] == run.counters["capped"] == 0, (label, run.counters)
        expected = oracle(workload, round((START.timestamp() + FAR - delay) * SECOND))
        found = result_rows(StepResult(run.table, None, None, {}, []), workload)
        assert sorted({*found} ^ {*expected}, key=repr)[:4] == [], label
        assert len(found) == len(expected), label
        if bounded(workload):
            here = result_rows(run_here(engines()["sequence"], workload), workload)
            assert [row for row in here if row not in expected] == [], label
        return len(found)

    while pairs < PAIRS:
        keyed, seeds = pairs % 2 == 0, []
        while len(seeds) < PAIRS_A_QUERY:
            seeds += [seed] if usable(draw_sequence_workload(seed, keyed)) else []
            seed += 1
        chance = random.Random(seed)
        workload = drawn(seeds, keyed)
        delay = chance.choice([1, 3, 8])
        if len(workload.data) < 6:
            continue
        batches = arriving(workload, chance, delay)
        label = f"seeds {seeds}, keyed {keyed}"
        streams = Streams(spark, tmp_path / f"s{seed}")
        streams.folder.mkdir()
        frame = streams.stream(RICH, *batches, delay=f"{delay} seconds")
        stream = Events(
            frame,
            id=workload.id,
            order_by=workload.order_by,
            dedupe=workload.dedupe,
            shards=chance.choice([1, 2, 4]),
        )
        closed = replace(workload, data=(*workload.data, *batches[-1]))
        try:
            found = detect_events(workload.plan, stream, SparkMatchOptions())
        except (TypeMismatchError, UnknownNameError):
            continue  # as in a batch: the columns of a DataFrame are known, and have other types or are missing
        waiting.append((streams.start(found), closed, delay, label))
        pairs += PAIRS_A_QUERY
        if len(waiting) == AT_ONCE:
            matches += compare()
    while waiting:
        matches += compare()
    assert matches > PAIRS


# Counters


HOSTILE = ps.patterns("""
pattern pair match A a -> B b within 20 seconds partition by stream, user return a.number as first, b.number as last
pattern many match A a -> B+ b -> C c within 15 seconds partition by stream, user return count(b) as n
pattern silent match A a -> not B for 8 seconds partition by stream, user return a.number as first
pattern open match A a -> C c within 6 seconds partition by stream, user report timeouts return a.number as first
pattern anyone match A a -> C c within 2 seconds partition by stream return c.number as last
""")
"""With two partition keys, a row that has both is counted once."""
HOSTILE_ROWS = pa.schema(
    {"ts": MOMENT, "type": pa.string(), "stream": pa.int64(), "user": pa.string(), "number": pa.int64()}
)


def mixed_rows(seed: int, streams: int, files: int) -> list[list[dict[str, Any]]]:
    """Return rows of many streams: on time, late, without a time, without a key, unused, and duplicate."""
    chance = random.Random(seed)
    batches: list[list[dict[str, Any]]] = []
    number = 0
    for file in range(files):
        batch: list[dict[str, Any]] = []
        for stream in range(streams):
            for _ in range(chance.randint(0, 6)):
                if batch and batch[-1]["stream"] == stream and chance.random() < 0.1:
                    batch.append(dict(batch[-1]))
                    continue
                number += 1
                behind = chance.choice([0, 0, 0, chance.uniform(0, 9), chance.uniform(5, 60)])
                second = file * 12 + chance.randint(0, 12) - round(behind)
                batch.append(
                    {
                        "ts": at(None if chance.random() < 0.04 else second),
                        "type": chance.choice(["A", "A", "B", "B", "C", "X", None]),
                        "stream": stream,
                        "user": None if chance.random() < 0.1 else chance.choice("uv"),
                        "number": number,
                    }
                )
        if batches:
            # Duplicates that a source delivers again.
            batch += [dict(row) for row in chance.sample(batches[-1], min(len(batches[-1]), streams // 4))]
        chance.shuffle(batch)
        batches.append(batch)
    return [*batches, [{**dict.fromkeys(HOSTILE_ROWS.names), "ts": at(FAR), "type": "X"}]]


def ids_by_the_oracle(patterns: Any, events: Events) -> list[tuple[str, str, str]]:
    cores = [resolve(bind(tree)) for tree in patterns.tree.patterns]
    found = detect(cores, read_events(events), oracle_matcher(), dedupe=events.dedupe)
    return sorted((m.pattern, m.match_id, m.kind) for m in found.matches)


def test_every_row_is_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    """200 streams with every kind of bad row: accepted, late, bad and unused rows add up to all rows."""
    batches = mixed_rows(5, streams=200, files=4)
    streams = Streams(spark, tmp_path)
    frame = streams.stream(HOSTILE_ROWS, *batches)
    running = {
        dedupe: streams.start(
            HOSTILE.match(
                ps.events(frame, id="number", dedupe=dedupe, options=ps.StreamOptions(shards=4)), rejected=True
            ),
            f"dedupe {dedupe}",
        )
        for dedupe in (False, True)
    }
    for dedupe, one in running.items():
        run = one.finish()
        accepted, late, bad, filtered = [], [], [], []
        for batch, watermark in zip(batches, run.watermarks, strict=False):
            for row in batch:
                if row["ts"] is None:
                    bad.append(row)
                elif row["type"] not in ("A", "B", "C"):
                    filtered.append(row)
                elif seconds(row["ts"]) <= watermark:
                    late.append(row)
                else:
                    accepted.append(row)
        assert len(late) > 100
        assert len(bad) > 50
        assert run.read[: len(batches)] == [len(batch) for batch in batches]
        counted = run.counters
        assert (counted["events"], counted["late"], counted["bad"]) == (len(accepted), len(late), len(bad))
        assert counted["events"] + counted["late"] + counted["bad"] + len(filtered) == sum(run.read)
        for kind, rows in (("late", late), ("bad", bad)):
            given_back = [row for row in run.rejected if row["kind"] == kind]
            assert Counter(row["row"] and json.loads(row["row"])["number"] for row in given_back) == Counter(
                row["number"] for row in rows
            )
        one_late = next(row for row in run.rejected if row["kind"] == "late" and row["user"] is not None)
        whole = json.loads(one_late["row"])
        assert (one_late["stream"], one_late["user"]) == (whole["stream"], whole["user"])
        same = Counter((row["ts"], row["stream"], row["user"], row["number"]) for row in accepted)
        repeats = sum(same.values()) - len(same)
        assert repeats > 20
        assert counted["duplicates"] == (repeats if dedupe else 0)
        events = ps.events(accepted, id="number", dedupe=dedupe)
        expected = ids_by_the_oracle(HOSTILE, events)
        found = ids(run.rows)
        assert sorted((Counter(found) - Counter(expected)).items())[:4] == []
        assert sorted((Counter(expected) - Counter(found)).items())[:4] == []
        assert {(name, kind) for name, _, kind in found} == {
            *((name, "match") for name in HOSTILE.names),
            ("open", "timed out"),
        }
        assert run.states[-1] == 0
