"""Cases of the contract tests: a plan, the rows of a finite stream, and their correct output; the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.contract import Engine, Plan
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.watermark import Watermark

SECOND = 1_000_000
FAR = 10**17
"""A time after every window."""
Output: TypeAlias = "list[str]"
"""Sorted output rows as text, exact to the last bit, without retracted matches."""


def is_behind(times: IntArray, watermark: int) -> BoolArray:
    """Return true for the rows that the watermark has passed."""
    behind: BoolArray = times <= watermark
    return behind


@dataclass(frozen=True)
class EngineCase:
    """A plan and all rows of a stream."""

    plan: Plan
    rows: EventBatch
    read: Callable[[Sequence[pa.Table]], Output]
    """Function that returns the output rows of some calls, in the order of the calls."""
    check: Callable[[Sequence[pa.Table]], int]
    """Function that compares a batch over all rows with an oracle, and returns the oracle's number of rows."""
    owners: IntArray | None = None
    """Number of the key of each row; rows of one key stay in one shard. None if no key divides the rows."""
    is_late: Callable[[IntArray, int], BoolArray] = is_behind
    """Function of times and a watermark that marks late rows."""
    bounded: bool = True
    """True if every window closes after some time."""
    moments: Sequence[int] = ()
    """Sorted times at which something may become final without a row."""


@dataclass(frozen=True)
class GoldenCase:
    """A plan, its rows before and after a state was written, and the watermark of that state."""

    case: EngineCase
    before: IntArray
    """Numbers of the rows that are in the state."""
    now: int

    @property
    def after(self) -> IntArray:
        return np.setdiff1d(np.arange(len(self.case.rows)), self.before)


@dataclass(frozen=True)
class EngineInputs:
    """The cases of one engine."""

    make_case: Callable[[int], EngineCase]
    """Function that draws a case from a seed."""
    drop_caches: Callable[[], None] = lambda: None
    """Function that clears the caches of states in this process, as a restart does."""
    seeds: int = 20
    """Number of seeds of an ordinary test."""
    golden: Mapping[str, Callable[[], GoldenCase]] = field(default_factory=dict)
    """Cases by name, with states in ``tests/contract/states``; engines of patterns and subscriptions have separate files."""


def some_rows(case: EngineCase, numbers: Sequence[int] | IntArray) -> EventBatch:
    return take_events(case.rows, np.asarray(numbers, np.int64))


def run_batch(engine: Engine, case: EngineCase, numbers: Sequence[int] | IntArray | None = None) -> list[pa.Table]:
    """Return the output of a batch over some or all rows: one table, or one for each partition of the queries."""
    rows = case.rows if numbers is None else some_rows(case, numbers)
    partitions = case.plan.shards if engine.capabilities.broadcast else 1
    return [
        engine.run_step(case.plan, replace(rows, query_partition=part), None, Watermark(ended=True)).rows
        for part in range(partitions)
    ]
