"""``python -m bench gestures-stream``: the gesture case on a Spark stream, and a baseline stateful query over the same
frames.

The baseline query has the same files, columns, shards and bytes of state, and does no work on them. A time counts only
if all gestures were emitted.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import perseid as ps
from bench import spark_baselines
from bench.harness import Clock, Report, Side, Timed, paired_ratio, print_line, progress, run_rounds
from bench.models.gestures import TEXT
from bench.stream import CLOSING_TIME, SHARDS, Bench, count_rows, seconds_of, shard_of, write_files
from examples import gesture_frames as g

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 3


@dataclass(frozen=True)
class GesturesStreamSize:
    bodies: int
    cycles: int
    files: int
    rounds: int
    warm: int


SIZES = {
    "quick": GesturesStreamSize(300, 25, 2, 1, 1),
    "standard": GesturesStreamSize(1_000, 200, 8, 5, 2),
    "full": GesturesStreamSize(4_000, 200, 32, 5, 2),
}
LIMITS = {"quick": (55.0, 45.0), "standard": (900.0, 120.0), "full": (3_600.0, 600.0)}


class Gestures(Bench):
    """Both sides over one folder of frames."""

    def __init__(self, spark: SparkSession, scratch: Path, folder: Path) -> None:
        super().__init__(spark, scratch)
        self.folder = folder
        self.model = ps.graph.metamodel(TEXT.read_text(encoding="utf-8"))
        self.pattern = ps.patterns(self.model)["forward"]

    def ours(self) -> Timed:
        self.use_separate_workers("ours")
        frames = ps.graph.frames(
            self.source(self.folder),
            self.model,
            each=g.body_parts(),
            columns=g.body_columns(),
            key="person",
            options=ps.StreamOptions(shards=SHARDS),
        )
        ran = self.stream(self.pattern.match(frames))
        return Timed(seconds_of(ran), self.matches(ran))

    def baseline(self) -> Timed:
        self.use_separate_workers("bare")
        named = [
            f"{joint}_{axis}" for joint in ("head", "right_hand", "right_elbow", "right_shoulder") for axis in "xy"
        ]
        named.remove("head_x")  # no query reads it, so our side does not move it
        rows = self.source(self.folder).selectExpr(
            "person", *named, "unix_micros(ts) as ts", shard_of("person", SHARDS)
        )
        return Timed(seconds_of(self.stream(count_rows(rows, self._state_sample(), True))), None)

    def _state_sample(self) -> bytes:
        """Frames of as many bytes as a state of ours; zeros would be compressed to nothing."""
        table = g.traces(10, 10 * g.CYCLE, seed=SEED)
        whole = b"".join(column.chunk(0).buffers()[-1].to_pybytes() for column in table.combine_chunks().columns)
        return (whole * (self.state_bytes // len(whole) + 1))[: self.state_bytes]


def write(folder: Path, size: GesturesStreamSize) -> int:
    """Write frames by time to one file per trigger; return their number."""
    frames = g.traces(size.bodies, size.cycles * g.CYCLE, seed=SEED).sort_by(
        [("ts", "ascending"), ("person", "ascending")]
    )
    each = -(-frames.num_rows // size.files)
    last = frames.slice(0, 1).set_column(1, "ts", pa.array([CLOSING_TIME], pa.timestamp("us", "UTC")))
    # The row that closes the stream belongs to no moving body.
    last = last.set_column(0, "person", pa.array([-1], frames.schema.field("person").type))
    write_files(folder, (frames.slice(at, each) for at in range(0, frames.num_rows, each)), last)
    return int(frames.num_rows)


def run(size_name: str) -> Report:
    """Measure the figures at a size."""
    size, report, clock = SIZES[size_name], Report("gestures-stream", size_name), Clock(*LIMITS[size_name])
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-gestures-") as scratch,
        spark_baselines.session(Path(scratch)) as spark,
    ):
        folder = Path(scratch) / "frames"
        frames = write(folder, size)
        events, gestures = g.expected(size.bodies, size.cycles * g.CYCLE, seed=SEED)
        progress(f"{size.bodies:,} bodies, {frames:,} frames, {events:,} atomic events, {gestures:,} gestures")
        bench = Gestures(spark, Path(scratch), folder)
        sides = [
            Side("ours", bench.ours, gestures),
            Side("bare", bench.baseline, None),
        ]
        stop = spark.sparkContext.cancelAllJobs
        records = run_rounds(sides, clock, rounds=size.rounds, warm=size.warm, stop=stop)
        report.records.update(records)
        report.add("bare", *paired_ratio(records["ours"], records["bare"]))
        ours = records["ours"]
        if ours.failure is None and ours.seconds:
            seconds = sorted(ours.seconds)[len(ours.seconds) // 2]
            print_line(
                f"{frames / seconds:,.0f} frames/s, {events / seconds:,.0f} atomic events/s, {bench.state_bytes:,} bytes a shard"
            )
            held = frames / seconds / g.FRAMES_PER_SECOND
            report.add("held_at_25_frames_per_second", held)
    print_line(report.times(frames))
    return report
