"""``python -m bench gestures-stream``: the gesture case on a Spark stream, beside a bare stateful query that moves the same frames.

The bare query has the same files, columns, shards and bytes of state, and does nothing with them. A time counts only if all
gestures were told.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import perseid as ps
from bench import spark_rivals
from bench.harness import Clock, Contestant, Report, Timed, contest, paired_ratio, progress, say
from bench.models.gestures import TEXT
from bench.stream import FAR, SHARDS, Bench, counted, seconds_of, shard_of, write_files
from examples import gesture_frames as g

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 3


@dataclass(frozen=True)
class Size:
    bodies: int
    cycles: int
    files: int
    rounds: int
    warm: int


SIZES = {
    "quick": Size(300, 25, 2, 1, 1),
    "standard": Size(1_000, 200, 8, 5, 2),
    "full": Size(4_000, 200, 32, 5, 2),
}
LIMITS = {"quick": (55.0, 45.0), "standard": (900.0, 120.0), "full": (3_600.0, 600.0)}


class Gestures(Bench):
    """Both sides over one folder of frames."""

    def __init__(self, spark: SparkSession, scratch: Path, folder: Path) -> None:
        super().__init__(spark, scratch)
        self.folder = folder
        self.model = ps.graph.metamodel(TEXT.read_text(encoding="utf-8"))
        self.pattern = ps.patterns(self.model)["forward"]

    def forward(self) -> Timed:
        self.combine("ours")
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

    def moved(self) -> Timed:
        self.combine("bare")
        named = [
            f"{joint}_{axis}" for joint in ("head", "right_hand", "right_elbow", "right_shoulder") for axis in "xy"
        ]
        named.remove("head_x")  # nobody asks for it, and so ours does not move it
        rows = self.source(self.folder).selectExpr(
            "person", *named, "unix_micros(ts) as ts", shard_of("person", SHARDS)
        )
        return Timed(seconds_of(self.stream(counted(rows, self._kept(), True))), None)

    def _kept(self) -> bytes:
        """As many bytes as a state of ours has, of frames: zeros would be compressed to nothing."""
        table = g.traces(10, 10 * g.CYCLE, seed=SEED)
        whole = b"".join(column.chunk(0).buffers()[-1].to_pybytes() for column in table.combine_chunks().columns)
        return (whole * (self.state_bytes // len(whole) + 1))[: self.state_bytes]


def write(folder: Path, size: Size) -> int:
    """Frames by time in files of a trigger each; how many there are."""
    frames = g.traces(size.bodies, size.cycles * g.CYCLE, seed=SEED).sort_by(
        [("ts", "ascending"), ("person", "ascending")]
    )
    each = -(-frames.num_rows // size.files)
    last = frames.slice(0, 1).set_column(1, "ts", pa.array([FAR], pa.timestamp("us", "UTC")))
    # Whoever closes the stream is nobody of those who move.
    last = last.set_column(0, "person", pa.array([-1], frames.schema.field("person").type))
    write_files(folder, (frames.slice(at, each) for at in range(0, frames.num_rows, each)), last)
    return int(frames.num_rows)


def run(size_name: str) -> Report:
    """The figures at a size."""
    size, report, clock = SIZES[size_name], Report("gestures-stream", size_name), Clock(*LIMITS[size_name])
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-gestures-") as scratch,
        spark_rivals.session(Path(scratch)) as spark,
    ):
        folder = Path(scratch) / "frames"
        frames = write(folder, size)
        events, gestures = g.expected(size.bodies, size.cycles * g.CYCLE, seed=SEED)
        progress(f"{size.bodies:,} bodies, {frames:,} frames, {events:,} atomic events, {gestures:,} gestures")
        bench = Gestures(spark, Path(scratch), folder)
        contestants = [
            Contestant("ours", bench.forward, gestures),
            Contestant("bare", bench.moved, None),
        ]
        stop = spark.sparkContext.cancelAllJobs
        records = contest(contestants, clock, rounds=size.rounds, warm=size.warm, stop=stop)
        report.records.update(records)
        report.add("bare", *paired_ratio(records["ours"], records["bare"]))
        ours = records["ours"]
        if ours.failure is None and ours.seconds:
            seconds = sorted(ours.seconds)[len(ours.seconds) // 2]
            say(
                f"{frames / seconds:,.0f} frames/s, {events / seconds:,.0f} atomic events/s, {bench.state_bytes:,} bytes a shard"
            )
            held = frames / seconds / g.FRAMES_PER_SECOND
            report.add("held_at_25_frames_per_second", held)
    say(report.times(frames))
    return report
