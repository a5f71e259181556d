"""The joins engine: it finds chains in documents before the shuffle, and joins the documents after it.

Subscriptions are split into query partitions, each with its own state and all documents as input. The driver only plans:
kernels are imported lazily, where they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from threading import get_ident
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.joins.plan import BODIES, EPOCH, IDENTITY, TIME, JoinsPlan, make_plan
from perseid.engines.joins.program import ChainProgram
from perseid.engines.trees.formats import read_chunks
from perseid.runtime.arrays import Int32Array, IntArray
from perseid.runtime.contract import Capabilities, Engine, Prepared, StateReport, StepResult
from perseid.runtime.document_columns import BODY, STREAM
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.joins.reading import ChainReader

FILE = "_file"
"""The column of control rows with the name of an added subscription file; such rows are not documents."""


@lru_cache(maxsize=4)
def _reader(program: ChainProgram, trusted: bool, thread: int) -> tuple[ChainReader, IntArray]:
    """Return the reader of a program, cached per thread with its dictionary of element names."""
    del thread  # readers are not thread-safe
    from perseid.engines.joins.documents import keys_of
    from perseid.engines.joins.reading import ChainReader

    return ChainReader(program, trusted), keys_of(program.chains)


def prepare(plan: JoinsPlan, columns: Mapping[str, pa.Array]) -> Iterator[Prepared]:
    """Find the chains of all subscriptions in documents; drop documents without any."""
    from perseid.engines.joins.documents import as_columns

    program = plan.chains or plan.chain_program()
    if not program.chains:
        return
    reader, keys = _reader(program, plan.trusted, get_ident())
    streams = columns[STREAM].cast(pa.string()).to_pylist()
    for chunk in read_chunks(columns[BODY], plan.format):
        count = len(chunk.bodies)
        bindings, refused = reader.read(chunk.bodies, streams[chunk.first : chunk.first + count])
        present, columns_found = as_columns(bindings, keys, count)
        if plan.results:
            columns_found[BODIES] = chunk.bodies.take(pa.array(present)).cast(plan.chain_columns[BODIES])
        yield Prepared(
            present + chunk.first, columns_found, [record.shifted(chunk.first) for record in chunk.explained(refused)]
        )


def step(plan: JoinsPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a query partition over new files and documents: return the notifications and the new state."""
    from perseid.engines.joins.shard import cache_shard, shard_of

    shard = shard_of(plan, rows.query_partition, state)
    names, documents = _received(plan, rows)
    done = shard.step(names, documents, watermark)
    cache_shard(plan, rows.query_partition, shard)
    return done


def _received(plan: JoinsPlan, rows: EventBatch) -> tuple[list[str], pa.Table]:
    """Split input rows into the names of added subscription files and the table of documents."""
    names: list[str] = []
    if rows.control is not None and rows.control.any():
        names = rows.columns[FILE].take(pa.array(np.flatnonzero(rows.control))).to_pylist()
        rows = take_events(rows, np.flatnonzero(rows.control == 0))
    values: list[IntArray | Int32Array | pa.Array] = [rows.time, rows.identity, np.zeros(len(rows.time), np.int32)]
    values += [rows.columns[name].cast(kind) for name, kind in plan.chain_columns.items()]
    values += [rows.columns[field.name].cast(field.type) for field in plan.columns]
    assert plan.retained.names[:3] == [TIME, IDENTITY, EPOCH]
    return sorted(set(names)), pa.table(values, schema=plan.retained)


def report(state: bytes) -> StateReport:
    """Summarize an encoded state of this engine."""
    from perseid.engines.joins.state import report as reported

    return reported(state)


JOINS = Engine(
    name="joins",
    plan=make_plan,
    step=step,
    prepare=prepare,
    report=report,
    query_kind="subscriptions",
    capabilities=Capabilities(row_kinds=("match",), broadcast=True),
    guide="docs/guides/subscriptions.md",
    example="examples/news_watch.py",
)
