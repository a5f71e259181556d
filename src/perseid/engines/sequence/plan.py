"""What the sequence engine is handed: a compiled set in the numbers of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.sequence.bytecode import CompiledPattern, compile_pattern
from perseid.engines.sequence.schema import output_schema
from perseid.runtime.search_budget import DEFAULT_BUDGET, SearchBudget
from perseid.runtime.watermark import WATERMARK
from perseid.semantics import types as t


@dataclass(frozen=True)
class SequencePlan:
    """A compiled set in the numbers of its kernels, for columns of known types."""

    plan: Plan
    patterns: tuple[CompiledPattern, ...]
    schema: pa.Schema
    """The Arrow schema of the rows that come out."""
    strictly_later: bool = False
    order: str = WATERMARK
    """What a stream is searched by: the watermark, or the order in which events of a key arrive."""
    delay: int = 0
    """Microseconds that the watermark is behind the newest event."""
    shards: int = 1
    max_state: int = 1 << 28
    """Bytes of state that one shard may have."""
    budget: SearchBudget = DEFAULT_BUDGET
    """Steps and matches of one key in one call."""
    stages: tuple[Stage, ...] = ()
    """Stages, in the order in which they are searched, if patterns take matches of others."""

    def types_of_matches(self, pattern: CompiledPattern) -> dict[str, t.Type]:
        """The types of the columns that matches have which a pattern takes."""
        from perseid.engines.sequence.columns import arrow_type

        columns = next((stage.columns for stage in self.stages if pattern in stage.patterns), {})
        return {name: arrow_type(kind) for name, kind in columns.items()}


@dataclass(frozen=True)
class Stage:
    """Patterns that take matches of the same patterns."""

    plan: Plan
    patterns: tuple[CompiledPattern, ...]
    takes: tuple[str, ...]
    columns: Mapping[str, pa.DataType]
    """What matches have as events, with their types."""
    label: str
    """What it is in a state: empty for patterns that take no matches, else what those mean that it takes."""


def make_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    arrow: Mapping[str, pa.DataType] | None = None,
    strictly_later: bool = False,
) -> SequencePlan:
    """Number every pattern, each on its own; ``arrow`` has the exact types of columns that are returned as they are."""
    patterns = tuple(compile_pattern(plan, pattern, types, strictly_later) for pattern in plan.patterns)
    return SequencePlan(plan, patterns, output_schema(patterns, types, arrow or {}), strictly_later)
