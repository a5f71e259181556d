"""The engine for live models as drivers know it: a plan, and one step over the changes of a shard."""

from __future__ import annotations

from perseid.engines.contract import Clock, Engine, Rows, StateReport, Step
from perseid.engines.models.plan import ModelsPlan, make_plan


def step(plan: ModelsPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    """What patterns find in what the changes of a shard bring."""
    from perseid.engines.models.shard import advance

    return advance(plan, rows, state, clock)


def report(state: bytes) -> StateReport:
    """What a state of this engine's holds."""
    from perseid.engines.models.state import report as reported

    return reported(state)


MODELS = Engine(
    name="models",
    plan=make_plan,
    step=step,
    report=report,
    asks="models",
    guide="docs/guides/models.md",
    example="examples/cyber_physical.py",
)
