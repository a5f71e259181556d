"""The interface of the sequence engine: a plan, and one step over the rows of a shard.

A driver only plans; kernels compile on import, so they are imported where they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.sequence.partition_sort import sort_partitions, wanted_rows
from perseid.engines.sequence.plan import SequencePlan, make_plan
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import Engine, StateReport, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.explanation import Row
from perseid.runtime.progress import ProgressLine
from perseid.runtime.watermark import Watermark
from perseid.semantics import types as t

if TYPE_CHECKING:
    from perseid.engines.sequence.output import PatternMatches


def make_linked_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    arrow: Mapping[str, pa.DataType] | None = None,
    strictly_later: bool = False,
) -> SequencePlan:
    """Compile a set like :func:`make_plan`, with stages if patterns consume matches of others."""
    if not any(pattern.feeds_on for pattern in plan.patterns):
        return make_plan(plan, types, arrow=arrow, strictly_later=strictly_later)
    from perseid.engines.sequence.pattern_dag import compile_stages

    patterns, schema, stages = compile_stages(plan, types, arrow or {}, strictly_later)
    return SequencePlan(plan, patterns, schema, strictly_later, stages=stages)


def find_all(
    plan: SequencePlan,
    rows: EventBatch,
    *,
    horizon: int | None = None,
    threads: int = 1,
    compiled: bool = True,
    progress: ProgressLine | None = None,
) -> list[PatternMatches]:
    """Find the encoded matches of every pattern, with the data needed to materialize them."""
    from perseid.engines.sequence.columns import OrderedEvents, batch_in
    from perseid.engines.sequence.output import PatternMatches
    from perseid.engines.sequence.run import find

    wanted = wanted_rows(plan, rows)
    chosen = None if wanted is None else np.flatnonzero(wanted)
    places: dict[int, tuple[OrderedEvents, IntArray, IntArray | None, int]] = {}
    out = []
    for number, bytecode in enumerate(plan.patterns, 1):
        if progress is not None:
            progress.begin_pattern(number)
        route = bytecode.pattern.route
        if route not in places:
            order, offsets, occurrence, duplicates = sort_partitions(rows, route, chosen)
            places[route] = batch_in(rows, order), offsets, occurrence, duplicates
        shared, offsets, occurrence, duplicates = places[route]
        batch = replace(shared)  # loaded columns are shared by all patterns; string codes differ by pattern
        raw, arrays = find(
            bytecode,
            batch,
            offsets,
            horizon=horizon,
            threads=threads,
            compiled=compiled,
            budget=plan.budget,
            progress=progress,
        )
        out.append(PatternMatches(bytecode, raw, batch, offsets, occurrence, arrays, duplicates))
    return out


def step(plan: SequencePlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one step of a shard: emits all matches of a complete input, or those of a stream decided so far."""
    if plan.stages:
        from perseid.engines.sequence.pattern_dag import advance_stages

        return advance_stages(plan, rows, state, watermark)
    if not watermark.ended or state is not None:
        from perseid.engines.sequence.shard import advance

        return advance(plan, rows, state, watermark)
    from perseid.engines.sequence.output import match_table

    found = find_all(plan, rows)
    table, counters = match_table(found, rows, plan.schema)
    # A row with several routes is one event: it is counted on the first.
    duplicates = next((one.duplicates for one in found if one.bytecode.pattern.route == min(rows.keys)), 0)
    return StepResult(table, None, None, {"events": len(rows), "duplicates": duplicates, **counters})


def report(state: bytes) -> StateReport:
    """Summarize a state of this engine."""
    from perseid.engines.sequence.report import report as reported

    return reported(state)


def explain(plan: SequencePlan, types: Mapping[str, t.Type]) -> list[Row]:
    """Rows of ``explain()`` about the kernel and its search."""
    from perseid.engines.sequence.explain import explain_kernels

    return explain_kernels(plan, types)


SEQUENCE = Engine(
    name="sequence",
    plan=make_linked_plan,
    step=step,
    report=report,
    explain=explain,
    guide="docs/guides/streaming.md",
    example="examples/takeover_on_spark.py",
)
