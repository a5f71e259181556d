"""Plan of the sequence engine: the bytecode of every pattern in a set."""

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
    """Bytecode of a pattern set for columns of known types, with its execution settings."""

    plan: Plan
    patterns: tuple[CompiledPattern, ...]
    schema: pa.Schema
    """Arrow schema of the output rows."""
    strictly_later: bool = False
    order: str = WATERMARK
    """Event order of a stream: by watermark, or by arrival within a key."""
    delay: int = 0
    """Watermark delay behind the newest event, in microseconds."""
    shards: int = 1
    max_state: int = 1 << 28
    """State limit of one shard, in bytes."""
    budget: SearchBudget = DEFAULT_BUDGET
    """Limits on the steps and matches of one key in one call."""
    stages: tuple[Stage, ...] = ()
    """Stages in execution order, if patterns consume matches of others; otherwise empty."""

    def types_of_matches(self, pattern: CompiledPattern) -> dict[str, t.Type]:
        """Types of the columns of the matches that a pattern consumes."""
        from perseid.engines.sequence.columns import arrow_type

        columns = next((stage.columns for stage in self.stages if pattern in stage.patterns), {})
        return {name: arrow_type(kind) for name, kind in columns.items()}


@dataclass(frozen=True)
class Stage:
    """Patterns that consume the matches of the same patterns."""

    plan: Plan
    patterns: tuple[CompiledPattern, ...]
    consumes: tuple[str, ...]
    columns: Mapping[str, pa.DataType]
    """Columns of the consumed matches as events, with their types."""
    label: str
    """Key of the stage in a state: the semantic hashes of the patterns it consumes; empty if it consumes none."""


def make_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    arrow: Mapping[str, pa.DataType] | None = None,
    strictly_later: bool = False,
) -> SequencePlan:
    """Compile every pattern on its own; ``arrow`` has the exact types of columns that are returned unchanged."""
    patterns = tuple(compile_pattern(plan, pattern, types, strictly_later) for pattern in plan.patterns)
    return SequencePlan(plan, patterns, output_schema(patterns, types, arrow or {}), strictly_later)
