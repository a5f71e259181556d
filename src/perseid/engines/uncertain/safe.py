"""Evaluation of Safe queries: over all steps of finished data, or at each step over its window.

A pattern with a window completes at a step with the same probability as the unbounded pattern over the steps of the
window alone, if hidden chains start from their marginal distribution. So the plan is evaluated over each window
separately: time per step grows with the square of the window, and memory does not grow with the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perseid.engines.uncertain.answers import StepProbabilities
from perseid.engines.uncertain.intervals import (
    ChainMarginals,
    PlanLayout,
    grid_of,
    of_types,
    points,
    split_by_group,
    units_of,
)
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import Units
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, CallInput
from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.runtime.arrays import ArrowColumn, FloatArray, IntArray
from perseid.semantics.classes import Reg, SafePlan, Then


def safely(
    query: PlannedQuery,
    streams: Streams,
    call_input: CallInput,
    *,
    after: int = NEVER,
    starts: Mapping[str, ChainMarginals] | None = None,
    more: Sequence[ArrowColumn] | None = None,
) -> tuple[StepProbabilities, Units]:
    """Results of a Safe query for the steps ``after`` one, and its groups; ``more`` has keys of additional groups.

    ``starts`` has the distribution of table chains before the first step of the input.
    """
    query.refuse_unsampled(streams)
    plan = query.classified.plan
    if plan is None:
        raise UnsupportedError(
            f"Pattern {query.name} has no safe plan ({query.classified.why}).",
            hint="Use sampling=ps.uncertain.Sampling(always=True).",
        )
    call_input = of_types(call_input, query.named_types)
    layout = PlanLayout(query, streams, starts or {})
    units = units_of(call_input, query.unit[: query.groups], more)
    group_results: list[tuple[IntArray, IntArray, FloatArray]] = [
        (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    ]
    for group, group_input in split_by_group(call_input, units):
        grid = grid_of(group_input)
        if query.window is None:
            step, found = grid, points(layout.of(plan, group_input), grid)
        else:
            ends = grid_of(of_types(group_input, {_last_type(query, plan)}))
            step = ends[ends > after]  # no other step can complete it
            found = _windows(layout, plan, group_input, grid, step, query.window)
        group_results.append((np.full(len(step), group), step, found))
    group_, step, found = (np.concatenate(parts) for parts in zip(*group_results, strict=True))
    order = np.lexsort((step, group_))
    zeros = np.zeros(len(order))
    results = StepProbabilities(units.keys, group_[order], step[order], found[order], zeros, zeros.astype(bool))
    return results, units


def _windows(
    layout: PlanLayout, plan: SafePlan, call_input: CallInput, grid: IntArray, steps: IntArray, window: int
) -> FloatArray:
    """By step: the probability that the query is true at it, within its window."""
    out = np.zeros(len(steps))
    compiled_plan = layout.of(plan, call_input) if len(steps) else None
    for i, step in enumerate(steps):
        low, high = np.searchsorted(grid, [step - window, step + 1])
        assert compiled_plan is not None
        if high - low > 1:
            out[i] = points(compiled_plan, grid[low:high], int(high - low) - 1)[0]
    return out


def _last_type(query: PlannedQuery, plan: SafePlan) -> str:
    """Type of the event that completes a query."""
    while not isinstance(plan, Then):
        assert not isinstance(plan, Reg), "a Safe query has a step after its prefix"
        plan = plan.plan
    kind = query.pattern.steps[plan.step].kind
    assert isinstance(kind, ast.EventType)
    return kind.name
