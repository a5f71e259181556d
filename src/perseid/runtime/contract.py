"""The contract of engines: up to three pure functions over columns, and a declaration.

``prepare`` is stateless and turns rows into rows before the shuffle. ``step`` is the only function with state: it
receives the rows of one shard and returns output rows, the new state, the next timer and counters. A batch calls it
once, with ``ended``. ``finish`` is stateless and combines rows of several shards after a second shuffle. An engine has
``prepare``, ``step`` or both. docs/engines.md shows how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa

from perseid.runtime.arrays import ArrowColumn, Int8Array, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.explanation import Row
from perseid.runtime.watermark import Watermark
from perseid.semantics.types import Type

Plan: TypeAlias = Any
"""The result of an engine's own ``plan``: plain data that only its other functions read."""


@dataclass(frozen=True)
class StepResult:
    """The result of one call."""

    rows: pa.Table
    """Matches and timed-out partial matches, in the schema that the plan declares."""
    state: bytes | None = None
    next_timer: int | None = None
    """The earliest event time at which the shard must be called without rows."""
    counters: Mapping[str, int] = field(default_factory=dict)
    late: IntArray | Sequence[int] = ()
    """The indices of late rows, which were left out."""
    late_reasons: Int8Array | Sequence[int] = ()
    """The :class:`~perseid.runtime.late_rows.LateReason` of each of them."""
    bad: IntArray | Sequence[int] = ()
    """The indices of rows that are not valid input, which were left out; ``counters["bad"]`` is their count."""


@dataclass(frozen=True)
class BadRecord:
    """A row that cannot be read."""

    row: int
    reason: str
    line: int | None = None
    column: int | None = None

    def shifted(self, first: int) -> BadRecord:
        """The same record, with its row number increased by ``first``."""
        return replace(self, row=self.row + first)

    @property
    def message(self) -> str:
        """The reason and its place as a sentence."""
        return f"{self.reason}." if self.line is None else f"{self.reason} (line {self.line}, column {self.column})."


@dataclass(frozen=True)
class Prepared:
    """Output rows of ``prepare``, any number for each input row."""

    rows: IntArray | Sequence[int]
    """The input row number of each output row, which has the columns of that row as well."""
    columns: Mapping[str, ArrowColumn]
    """The columns that the input row does not have."""
    bad: Sequence[BadRecord] = ()


@dataclass(frozen=True)
class StateReport:
    """A readable summary of a shard's state."""

    shards: int
    horizon: int | None
    """The time up to which the shard has been searched."""
    events: int
    buffered: int
    """Events that wait for the watermark."""
    oldest: int | None
    open: Mapping[str, int]
    """The number of undecided partial matches, by pattern."""
    keys: Mapping[tuple[tuple[str, object], ...], int]
    """The number of retained events, by key."""
    bytes: int


class Passes(Enum):
    """The directions in which an engine reads its input."""

    FORWARD = "forward"
    """In time order: streams and batches."""
    BACKWARD = "backward"
    """In time order and in reverse: batches only."""


@dataclass(frozen=True)
class Capabilities:
    """Properties in which engines differ. The contract tests check each field, including absent features."""

    retracts: bool = False
    """Output rows are changes: a match may be retracted."""
    row_kinds: tuple[str, ...] = ("match", "timed out")
    """The kinds of rows that a step may emit."""
    passes: Passes = Passes.FORWARD
    waits_for_watermark: bool = True
    """A row is late if and only if the watermark has passed its time."""
    state_expires: bool = True
    """No state remains once the watermark has passed the last window; false if some state has no window."""
    broadcast: bool = False
    """Every shard receives all rows and evaluates a partition of the queries; otherwise it has the rows of its keys."""


@dataclass(frozen=True)
class Engine:
    """An engine, as drivers and tests use it."""

    name: str
    plan: Callable[..., Plan]
    """Make the plan of ``step`` from the compiled patterns and the column types; plain data that can be pickled."""
    step: Callable[[Plan, EventBatch, bytes | None, Watermark], StepResult] | None = None
    prepare: Callable[[Plan, Mapping[str, ArrowColumn]], Iterator[Prepared]] | None = None
    """(plan, input columns) to prepared rows, in any number of pieces."""
    finish: Callable[[Plan, pa.Table], pa.Table] | None = None
    """Stateless, after a second shuffle: combines the rows of all shards that agree in the columns of ``finish_by``."""
    report: Callable[[bytes], StateReport] | None = None
    """Summarize a state; None for an engine without state."""
    explain: Callable[[Plan, Mapping[str, Type]], list[Row]] | None = None
    """Rows of ``explain()`` about a plan over columns of these types; None for an engine that has its own text."""
    query_kind: str = "patterns"
    """The kind of query that the engine runs: patterns over events, which several engines run, or a kind of its own."""
    state_format: str = ""
    """State format id, if it differs from ``name``; engines may share a format."""
    capabilities: Capabilities = Capabilities()
    guide: str = ""
    """The guide for users, as a path from the root of the project."""
    example: str = ""
    """A program that uses the engine, as a path from the root of the project."""

    @property
    def passes(self) -> Passes:
        """The directions in which the engine reads its input."""
        return self.capabilities.passes

    def run_step(self, plan: Plan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
        """Call the step of an engine that has one."""
        assert self.step is not None, f"Engine {self.name!r} has no step."
        return self.step(plan, rows, state, watermark)
