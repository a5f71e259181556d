"""The stream's events as files for Flink: one file for each source task, in event-time order within each.

Flink's tasks read in parallel, and its watermark is that of the slowest task. With files that follow each other in
time, one task would be minutes ahead of another, and buffer all that it reads; and files are assigned in no order, so
most events would be late. Distributed round-robin, as over the partitions of a topic, all files advance together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.workload import ROW_GROUP

TURN = 1000
"""Events that go to one file before the next file's turn: few compared with the allowed lateness, and events that share
a time stay together, because four do."""


def lanes(pieces: Path, count: int) -> Path:
    """Write ``count`` files with all rows of the pieces to a sibling folder, and return it."""
    target = pieces.with_name(f"{pieces.name}-lanes-{count}")
    if target.exists():
        return target
    part = target.with_suffix(f".{os.getpid()}.part")
    part.mkdir()
    schema = pq.read_schema(min(pieces.iterdir()))
    writers = [pq.ParquetWriter(part / f"{lane}.parquet", schema) for lane in range(count)]
    for table in _joined(pieces):
        turns = [table.slice(at, TURN) for at in range(0, table.num_rows, TURN)]
        for lane, writer in enumerate(writers):
            if lane < len(turns):
                writer.write_table(pa.concat_tables(turns[lane::count]), row_group_size=ROW_GROUP)
    for writer in writers:
        writer.close()
    part.rename(target)
    return target


def _joined(pieces: Path) -> Iterator[pa.Table]:
    """Yield tables of as many rows as fill a row group of two files; pieces are read in the order of their names."""
    waiting: list[pa.Table] = []
    for path in sorted(pieces.iterdir()):
        waiting.append(pq.read_table(path))
        if sum(table.num_rows for table in waiting) >= 2 * ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
