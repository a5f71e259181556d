"""Streams that are out of order, as drivers know them: for each strategy a plan, and one step over the rows of a shard.

Whatever the strategy, a pattern means what it means to the sequence engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Any

from perseid.compile.plan import Plan
from perseid.engines.contract import Clock, Engine, Rows, StateReport, Step
from perseid.engines.disorder.schema import with_changes
from perseid.engines.disorder.slots import refuse_unassembled
from perseid.engines.disorder.strategy import BUFFER, Adaptive, Aggressive, Assemble, Conservative, Early, Strategy
from perseid.engines.sequence.engine import SequencePlan, make_linked_plan
from perseid.semantics import types as t


@dataclass(frozen=True)
class DisorderPlan(SequencePlan):
    """A plan of the sequence engine, and how a stream that is out of order is searched with it."""

    strategy: Strategy = BUFFER

    def searched(self, **changes: Any) -> SequencePlan:
        """What the sequence engine is given, changed in this."""
        return SequencePlan(**{**_shared(self), **changes})


def make_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    strategy: Strategy,
    arrow: Mapping[str, Any] | None = None,
    strictly_later: bool = False,
) -> DisorderPlan:
    """Number every pattern as for any stream; where matches may be taken back their rows say so."""
    if isinstance(strategy, Assemble):
        for pattern in plan.patterns:
            refuse_unassembled(pattern)
    numbered = make_linked_plan(plan, types, arrow=arrow, strictly_later=strictly_later)
    schema = with_changes(numbered.schema) if strategy.retracts else numbered.schema
    return DisorderPlan(**{**_shared(numbered), "schema": schema}, strategy=strategy)


def _shared(plan: SequencePlan) -> dict[str, Any]:
    return {field.name: getattr(plan, field.name) for field in fields(SequencePlan)}


def report(state: bytes) -> StateReport:
    """What a state of this engine's holds."""
    from perseid.engines.disorder.report import report as reported

    return reported(state)


def step(plan: DisorderPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    """One shard's rows by the plan's strategy, whose module is of its name; what is compiled is imported where it runs."""
    done: Step = import_module(f"perseid.engines.disorder.{plan.strategy.name}").advance(plan, rows, state, clock)
    return done


def _engine(strategy: Strategy) -> Engine:
    return Engine(
        name=strategy.name,
        plan=partial(make_plan, strategy=strategy),
        step=step,
        report=report,
        retracts=strategy.retracts,
        guide="docs/guides/out-of-order.md",
        example="examples/goods_through_gates.py",
    )


AGGRESSIVE = _engine(Aggressive())
ASSEMBLE = _engine(Assemble())
EARLY = _engine(Early())
CONSERVATIVE = _engine(Conservative())
ADAPTIVE = _engine(Adaptive())
