"""What an engine is: pure functions over columns, and a declaration. docs/engines.md says how one is added.

``prepare``, without state, makes rows of rows before the shuffle. ``step`` is the only one with state: it is given one shard's
rows and answers with rows, the state to keep, when to be called again, and counters. A batch calls it once, with ``ended``.
An engine has one of them, or both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Any, TypeAlias

import pyarrow as pa

from perseid.engines.arrays import BoolArray, Int8Array, Int32Array, IntArray
from perseid.semantics.values import Relation

Column: TypeAlias = Any
"""An Arrow array, chunked or not; in a local run also a list of plain values, where these are of several kinds."""
Plan: TypeAlias = Any
"""What an engine's own ``plan`` gives: plain data that only its other functions look into."""

WATERMARK, ARRIVAL = "watermark", "arrival"
"""What the time of a stream goes by: its watermark, or the order in which events of a key arrive."""


@dataclass(frozen=True)
class Clock:
    """Event time as the driver knows it, in microseconds."""

    before: int | None = None
    """The watermark of the last call."""
    now: int | None = None
    """Everything up to this time has come."""
    ended: bool = False
    """There will be no further rows."""


@dataclass(frozen=True)
class Rows:
    """One shard's rows, in any order: an engine puts them into theirs."""

    time: IntArray
    """int64 microseconds."""
    kinds: Int32Array
    """int32 codes of event types: places in ``kind_names``, -1 for null and for types nobody asks for."""
    kind_names: Sequence[str]
    columns: Mapping[str, Column]
    """Arrow arrays, or lists where values are of several kinds."""
    keys: Mapping[int, Mapping[str, Column]]
    """By route: the key columns."""
    identity: IntArray
    """int64: what makes an event this event and no other."""
    ranks: Sequence[Column] = ()
    """Columns that decide among events of one time, before identity."""
    route: Int32Array | None = None
    """The route each row is for; None where every row is for all of them."""
    decided: Mapping[int, BoolArray] = field(default_factory=dict)
    """Predicates decided before, by number: truth values."""
    made: Mapping[str, pa.Array] = field(default_factory=dict)
    """Columns computed before, by the text of their expression."""
    relations: Mapping[str, Relation] = field(default_factory=dict)
    dedupe: bool = False
    """Rows with equal time, key and identity are one event."""
    control: Int8Array | None = None
    """int8: 0 for an event, 1 for a promise about its key, 2 for one about all keys, 4 for news of what is asked; None where
    all are events."""
    share: int = 0
    """Which share of what is asked they are for, where each is given all rows."""

    def __len__(self) -> int:
        return len(self.time)


class Late(IntEnum):
    """Why a row came too late."""

    NOT = 0
    BEHIND_WATERMARK = 1
    """Everything up to its time was taken to have come."""
    OUT_OF_TURN = 2
    """Events of its key were trusted to come in order."""
    AFTER_PROMISE = 3
    """It was promised that none like it would come."""
    BEHIND_FRONTIER = 4
    """The engine chose not to wait for it, though the watermark would have."""


@dataclass(frozen=True)
class Step:
    """What one call gives."""

    rows: pa.Table
    """Matches and timed-out attempts, in the schema the plan declares."""
    state: bytes | None = None
    wake: int | None = None
    """The earliest event time at which the shard must be called without rows."""
    counters: Mapping[str, int] = field(default_factory=dict)
    late: IntArray | Sequence[int] = ()
    """The numbers of rows that came after their time had passed, and were left out."""
    why: Int8Array | Sequence[int] = ()
    """For each of them why, as :class:`Late` has it."""


@dataclass(frozen=True)
class Unread:
    """A row that nothing can be made of."""

    row: int
    what: str
    line: int | None = None
    column: int | None = None

    def later(self, first: int) -> Unread:
        """The same, of rows that are counted from another one on."""
        return replace(self, row=self.row + first)

    @property
    def said(self) -> str:
        """In one sentence."""
        return f"{self.what}." if self.line is None else f"{self.what} (line {self.line}, column {self.column})."


@dataclass(frozen=True)
class Prepared:
    """What some rows became before the shuffle: any number of rows each."""

    rows: IntArray
    """By row that comes out: the number of the one that it was made of, whose columns it has as well."""
    columns: Mapping[str, pa.Array]
    """Arrow arrays: what it has that the other had not."""
    bad: Sequence[Unread] = ()


@dataclass(frozen=True)
class StateReport:
    """What a shard's state holds, for people."""

    shards: int
    horizon: int | None
    """Up to when it was searched."""
    events: int
    waiting: int
    """Events whose time has not come."""
    oldest: int | None
    open: Mapping[str, int]
    """By pattern: attempts that are not decided."""
    keys: Mapping[tuple[tuple[str, object], ...], int]
    """By key: events kept."""
    bytes: int


class Passes(Enum):
    """How an engine goes over what it is given."""

    FORWARD = "forward"
    """With time: on a stream as over finished data."""
    BACKWARD = "backward"
    """Also against time: over finished data only."""


@dataclass(frozen=True)
class Engine:
    """An engine as drivers and tests know it."""

    name: str
    plan: Callable[..., Plan]
    """(compiled plan, types of the columns, …) to what ``step`` is given; plain data that pickles."""
    step: Callable[[Plan, Rows, bytes | None, Clock], Step] | None = None
    prepare: Callable[[Plan, Mapping[str, pa.Array]], Iterator[Prepared]] | None = None
    """(plan, the columns it is about) to what goes on, in as many pieces as it likes."""
    report: Callable[[bytes], StateReport] | None = None
    """What a state holds; None for an engine that keeps none."""
    asks: str = "patterns"
    """What it is asked: patterns over events, whatever their engine, or something of its own."""
    keeps: str = ""
    """What its states call it, where that is not its name: engines may share one kind of state."""
    retracts: bool = False
    """What it told may be taken back: its rows are changes."""
    kinds: tuple[str, ...] = ("match", "timed out")
    """What the rows of its steps may be."""
    passes: Passes = Passes.FORWARD
    guide: str = ""
    """The page, from the root of the project, that tells people how to use it."""
    example: str = ""
    """A program that uses it."""

    def stepped(self, plan: Plan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
        """The step, of an engine that has one."""
        assert self.step is not None, f"The engine {self.name!r} has no step."
        return self.step(plan, rows, state, clock)
