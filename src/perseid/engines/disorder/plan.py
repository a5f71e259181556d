"""The plan of an engine for out-of-order streams: a plan of the sequence engine and a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.disorder.schema import with_changes
from perseid.engines.disorder.slots import reject_unassembled
from perseid.engines.disorder.strategy import BUFFER, Assemble, Strategy
from perseid.engines.sequence.engine import make_linked_plan
from perseid.engines.sequence.plan import SequencePlan
from perseid.semantics import types as t


@dataclass(frozen=True)
class DisorderPlan(SequencePlan):
    """A plan of the sequence engine with the disorder strategy of the stream."""

    strategy: Strategy = BUFFER

    def sequence_plan(self, **changes: Any) -> SequencePlan:
        """Return the plan of the sequence engine, with some fields replaced."""
        return SequencePlan(**{**_sequence_fields(self), **changes})


def make_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    strategy: Strategy,
    arrow: Mapping[str, pa.DataType] | None = None,
    strictly_later: bool = False,
) -> DisorderPlan:
    """Compile every pattern as for any stream; add changelog columns to the schema if the strategy retracts matches."""
    if isinstance(strategy, Assemble):
        for pattern in plan.patterns:
            reject_unassembled(pattern)
    sequence_plan = make_linked_plan(plan, types, arrow=arrow, strictly_later=strictly_later)
    schema = with_changes(sequence_plan.schema) if strategy.retracts else sequence_plan.schema
    return DisorderPlan(**{**_sequence_fields(sequence_plan), "schema": schema}, strategy=strategy)


def _sequence_fields(plan: SequencePlan) -> dict[str, Any]:
    return {field.name: getattr(plan, field.name) for field in fields(SequencePlan)}
