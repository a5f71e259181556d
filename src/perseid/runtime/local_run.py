"""Runs of an engine over finite tables of this process: the functions that a partition of a batch passes on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from perseid.runtime.arrays import ArrowColumn, IntArray
from perseid.runtime.contract import BadRecord, Engine, Plan, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark


@dataclass(frozen=True)
class PrepareTable:
    """A table of rows for the ``prepare`` of an engine."""

    columns: Mapping[str, ArrowColumn]
    """The columns that ``prepare`` reads."""
    passed_columns: Mapping[str, pa.Array]
    """The columns that prepared rows retain."""
    time: IntArray
    identity: IntArray


def prepare_local(
    engine: Engine,
    plan: Plan,
    types: Mapping[str, pa.DataType],
    tables: Sequence[PrepareTable],
    on_bad: Callable[[BadRecord], None],
) -> EventBatch:
    """Prepare the rows of one or several tables with the same columns; ``types`` has the columns that ``prepare`` adds.

    ``on_bad`` is called for each row that cannot be read, with its number over all tables.
    """
    assert engine.prepare is not None, f"Engine {engine.name!r} has no prepare."
    times, identities = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    columns: dict[str, list[pa.Array]] = {name: [pa.nulls(0, kind)] for name, kind in types.items()}
    columns |= {name: [column.slice(0, 0)] for name, column in tables[0].passed_columns.items()}
    before = 0
    for table in tables:
        for piece in engine.prepare(plan, table.columns):
            for bad in piece.bad:
                on_bad(bad.shifted(before))
            at = np.asarray(piece.rows, np.int64)
            times.append(table.time[at])
            identities.append(table.identity[at])
            places = pa.array(at)
            for name, parts in columns.items():
                parts.append(piece.columns[name] if name in types else table.passed_columns[name].take(places))
        before += len(table.time)
    time = np.concatenate(times)
    combined = {name: pa.chunked_array(parts) for name, parts in columns.items()}
    return EventBatch(time, np.zeros(len(time), np.int32), [engine.name], combined, {}, np.concatenate(identities))


def run_local(engine: Engine, plan: Plan, rows: EventBatch) -> StepResult:
    """Run the step of an engine once over all rows, as the only shard of a stream that has ended."""
    assert engine.step is not None, f"Engine {engine.name!r} has no step."
    return engine.step(plan, rows, None, Watermark(ended=True))
