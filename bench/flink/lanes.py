"""The stream's events as Flink reads them: one file for each source task, events in the order of time in each.

Flink's tasks read side by side, and its clock is that of the one furthest behind. From files that follow each other in
time, one task would be minutes ahead of the other, with all that it read waiting in state; and files are handed out in
no order, so that most events would come too late. Dealt out by turns, as to the partitions of a topic, none waits long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.workload import ROW_GROUP

TURN = 1000
"""Events that go to one file before the next has its turn: few beside what may come late, and those that share a time
stay together, since four do."""


def lanes(pieces: Path, count: int) -> Path:
    """A folder of so many files with all rows of the pieces, beside them."""
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
    """As many rows at a time as fill a row group of two files; the pieces are read in the order of their names."""
    waiting: list[pa.Table] = []
    for path in sorted(pieces.iterdir()):
        waiting.append(pq.read_table(path))
        if sum(table.num_rows for table in waiting) >= 2 * ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
