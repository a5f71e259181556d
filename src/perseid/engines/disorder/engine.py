"""Streams that are out of order, as drivers know them: for each strategy a plan, and one step over the rows of a shard.

Whatever the strategy, a pattern means what it means to the sequence engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from perseid.compile.plan import Plan
from perseid.engines.contract import Clock, Engine, Rows, StateReport, Step
from perseid.engines.disorder.slots import refuse_unassembled
from perseid.engines.disorder.strategy import BUFFER, Adaptive, Aggressive, Assemble, Conservative, Strategy
from perseid.engines.sequence.engine import SequencePlan, make_linked_plan
from perseid.semantics import types as t


@dataclass(frozen=True)
class DisorderPlan(SequencePlan):
    """A plan of the sequence engine, and how a stream that is out of order is searched with it."""

    strategy: Strategy = BUFFER

    def searched(self, schema: Any) -> SequencePlan:
        """What the sequence engine is given, to answer in this schema."""
        own = {field.name: getattr(self, field.name) for field in fields(SequencePlan)}
        return replace(SequencePlan(**own), schema=schema)


def make_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    strategy: Strategy,
    arrow: Mapping[str, Any] | None = None,
    strictly_later: bool = False,
) -> DisorderPlan:
    """Number every pattern as for any stream; where matches may be taken back their rows say so."""
    from perseid.engines.disorder.changelog import with_changes

    if isinstance(strategy, Assemble):
        for pattern in plan.patterns:
            refuse_unassembled(pattern)
    numbered = make_linked_plan(plan, types, arrow=arrow, strictly_later=strictly_later)
    own = {field.name: getattr(numbered, field.name) for field in fields(SequencePlan)}
    schema = with_changes(numbered.schema) if strategy.retracts else numbered.schema
    return DisorderPlan(**{**own, "schema": schema}, strategy=strategy)


def report(state: bytes) -> StateReport:
    """What a state of this engine's holds."""
    from perseid.engines.disorder.report import report as reported

    return reported(state)


# What is compiled is imported where it runs.


def _aggressive(plan: DisorderPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    from perseid.engines.disorder.aggressive import advance

    return advance(plan, rows, state, clock)


def _assemble(plan: DisorderPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    from perseid.engines.disorder.assemble import advance

    return advance(plan, rows, state, clock)


def _conservative(plan: DisorderPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    from perseid.engines.disorder.conservative import advance

    return advance(plan, rows, state, clock)


def _adaptive(plan: DisorderPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    from perseid.engines.disorder.adaptive import advance

    return advance(plan, rows, state, clock)


def _engine(strategy: Strategy, step: Callable[[DisorderPlan, Rows, bytes | None, Clock], Step]) -> Engine:
    return Engine(
        name=strategy.name,
        plan=partial(make_plan, strategy=strategy),
        step=step,
        report=report,
        retracts=strategy.retracts,
    )


AGGRESSIVE = _engine(Aggressive(), _aggressive)
ASSEMBLE = _engine(Assemble(), _assemble)
CONSERVATIVE = _engine(Conservative(), _conservative)
ADAPTIVE = _engine(Adaptive(), _adaptive)
