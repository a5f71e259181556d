"""Engine declarations of live models and rules: a plan, and one step over the changes of a shard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perseid.engines.models.plan import ModelsPlan, make_plan
from perseid.runtime.contract import Capabilities, Engine, StateReport, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from perseid.semantics.rules import Rules

if TYPE_CHECKING:
    import pyarrow as pa

    from perseid.engines.models.rule_engine import ReactingPlan


def step(plan: ModelsPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Apply the changes of a shard, and match the patterns over the resulting events."""
    from perseid.engines.models.shard import advance

    return advance(plan, rows, state, watermark)


def rules_plan(rules: Rules, types: Mapping[str, pa.DataType], **options: Any) -> ReactingPlan:
    """Build the plan of :func:`rules_step`."""
    from perseid.engines.models.rule_engine import make_rules_plan

    return make_rules_plan(rules, types, **options)


def rules_step(plan: ReactingPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Apply the changes of a shard, and run the rules that they trigger."""
    from perseid.engines.models.rule_engine import react

    return react(plan, rows, state, watermark)


def report(state: bytes) -> StateReport:
    """Summarize an encoded state of this engine."""
    from perseid.engines.models.state import report as reported

    return reported(state)


MODELS = Engine(
    name="models",
    plan=make_plan,
    step=step,
    report=report,
    query_kind="models",
    capabilities=Capabilities(state_expires=False),
    guide="docs/guides/models.md",
    example="examples/cyber_physical.py",
)
RULES = Engine(
    name="rules",
    plan=rules_plan,
    step=rules_step,
    report=report,
    query_kind="rules",
    state_format="models",
    capabilities=Capabilities(
        row_kinds=("appeared", "updated", "disappeared", "fired", "changed", "rejected", "requested", "emitted"),
        state_expires=False,
    ),
    guide="docs/guides/models.md",
    example="examples/cyber_physical.py",
)
