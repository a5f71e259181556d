"""Engines for out-of-order streams: one ``Engine`` per disorder strategy, each with a planner and a step function.

The strategy does not change the semantics of a pattern: they are those of the sequence engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module

from perseid.engines.disorder.plan import DisorderPlan, make_plan
from perseid.engines.disorder.state import LAYOUT
from perseid.engines.disorder.strategy import Adaptive, Aggressive, Assemble, Conservative, Early, Strategy
from perseid.runtime.contract import Capabilities, Engine, StateReport, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.explanation import Row
from perseid.runtime.watermark import Watermark
from perseid.semantics import types as t


def report(state: bytes) -> StateReport:
    """Summarize an encoded state of this engine."""
    from perseid.engines.disorder.report import report as reported

    return reported(state)


def step(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a shard in the module named after the strategy, imported lazily so that kernels load only in use."""
    done: StepResult = import_module(f"perseid.engines.disorder.{plan.strategy.name}").advance(
        plan, rows, state, watermark
    )
    return done


def explain(plan: DisorderPlan, types: Mapping[str, t.Type]) -> list[Row]:
    """Return the rows of ``explain()`` about the kernel and its search."""
    from perseid.engines.disorder.explain import explain_search

    return explain_search(plan, types)


def _engine(strategy: Strategy) -> Engine:
    return Engine(
        name=strategy.name,
        plan=partial(make_plan, strategy=strategy),
        step=step,
        report=report,
        explain=explain,
        state_format=LAYOUT.engine,
        capabilities=Capabilities(retracts=strategy.retracts, waits_for_watermark=not isinstance(strategy, Adaptive)),
        guide="docs/guides/out-of-order.md",
        example="examples/goods_through_gates.py",
    )


AGGRESSIVE = _engine(Aggressive())
ASSEMBLE = _engine(Assemble())
EARLY = _engine(Early())
CONSERVATIVE = _engine(Conservative())
ADAPTIVE = _engine(Adaptive())
