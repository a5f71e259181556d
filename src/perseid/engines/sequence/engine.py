"""The sequence engine as drivers know it: a plan, and one step over the rows of a shard.

A driver only plans: what is compiled is imported where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.sequence.partition_sort import arranged, wanted_rows
from perseid.engines.sequence.plan import SequencePlan, make_plan
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import Engine, StateReport, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.explanation import Row
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
    """The same, with links where patterns take matches of others."""
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
) -> list[PatternMatches]:
    """The matches of every pattern in numbers, with what is needed to make rows of them."""
    from perseid.engines.sequence.columns import Batch, batch_in
    from perseid.engines.sequence.output import PatternMatches
    from perseid.engines.sequence.run import find

    wanted = wanted_rows(plan, rows)
    chosen = None if wanted is None else np.flatnonzero(wanted)
    places: dict[int, tuple[Batch, IntArray, IntArray | None, int]] = {}
    out = []
    for bytecode in plan.patterns:
        route = bytecode.pattern.route
        if route not in places:
            order, offsets, occurrence, duplicates = arranged(rows, route, chosen)
            places[route] = batch_in(rows, order), offsets, occurrence, duplicates
        shared, offsets, occurrence, duplicates = places[route]
        batch = replace(shared)  # what was loaded serves all patterns; the codes of texts are each pattern's own
        raw, arrays = find(
            bytecode, batch, offsets, horizon=horizon, threads=threads, compiled=compiled, budget=plan.budget
        )
        out.append(PatternMatches(bytecode, raw, batch, offsets, occurrence, arrays, duplicates))
    return out


def step(plan: SequencePlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """The matches of a shard: of all its rows where they have all come, else what is decided by now."""
    if plan.stages:
        from perseid.engines.sequence.pattern_dag import advance_stages

        return advance_stages(plan, rows, state, watermark)
    if not watermark.ended or state is not None:
        from perseid.engines.sequence.shard import advance

        return advance(plan, rows, state, watermark)
    from perseid.engines.sequence.output import match_table

    found = find_all(plan, rows)
    table, counters = match_table(found, rows, plan.schema)
    # A row that goes several ways is one event: it is counted on the first.
    duplicates = next((one.duplicates for one in found if one.bytecode.pattern.route == min(rows.keys)), 0)
    return StepResult(table, None, None, {"events": len(rows), "duplicates": duplicates, **counters})


def report(state: bytes) -> StateReport:
    """What a state of this engine's holds."""
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
