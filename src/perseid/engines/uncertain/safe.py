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
    put_apart,
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
    asked: PlannedQuery,
    streams: Streams,
    given: CallInput,
    *,
    after: int = NEVER,
    starts: Mapping[str, ChainMarginals] | None = None,
    more: Sequence[ArrowColumn] | None = None,
) -> tuple[StepProbabilities, Units]:
    """Results of a Safe query for the steps ``after`` one, and its groups; ``more`` has keys of additional groups.

    ``starts`` has the distribution of table chains before the first step of the input.
    """
    asked.refuse_unsampled(streams)
    plan = asked.classified.plan
    if plan is None:
        raise UnsupportedError(
            f"Pattern {asked.name} has no safe plan ({asked.classified.why}).",
            hint="Use sampling=ps.uncertain.Sampling(always=True).",
        )
    given = of_types(given, asked.named_types)
    layout = PlanLayout(asked, streams, starts or {})
    units = units_of(given, asked.unit[: asked.groups], more)
    told: list[tuple[IntArray, IntArray, FloatArray]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for group, own in put_apart(given, units):
        grid = grid_of(own)
        if asked.window is None:
            step, found = grid, points(layout.of(plan, own), grid)
        else:
            ends = grid_of(of_types(own, {_last_type(asked, plan)}))
            step = ends[ends > after]  # no other step can complete it
            found = _windows(layout, plan, own, grid, step, asked.window)
        told.append((np.full(len(step), group), step, found))
    group_, step, found = (np.concatenate(parts) for parts in zip(*told, strict=True))
    order = np.lexsort((step, group_))
    nothing = np.zeros(len(order))
    answers = StepProbabilities(units.keys, group_[order], step[order], found[order], nothing, nothing.astype(bool))
    return answers, units


def _windows(
    layout: PlanLayout, plan: SafePlan, given: CallInput, grid: IntArray, steps: IntArray, window: int
) -> FloatArray:
    """By step: the probability that the query is true at it, within its window."""
    out = np.zeros(len(steps))
    laid_out = layout.of(plan, given) if len(steps) else None
    for i, step in enumerate(steps):
        low, high = np.searchsorted(grid, [step - window, step + 1])
        assert laid_out is not None
        if high - low > 1:
            out[i] = points(laid_out, grid[low:high], int(high - low) - 1)[0]
    return out


def _last_type(asked: PlannedQuery, plan: SafePlan) -> str:
    """Type of the event that completes a query."""
    while not isinstance(plan, Then):
        assert not isinstance(plan, Reg), "a Safe query has a step after its prefix"
        plan = plan.plan
    kind = asked.pattern.steps[plan.step].kind
    assert isinstance(kind, ast.EventType)
    return kind.name
