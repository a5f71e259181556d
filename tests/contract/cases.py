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
"""Output rows as texts in one order, exact to the last bit: matches that were retracted are not among them."""


def is_behind(times: IntArray, watermark: int) -> BoolArray:
    """True for the rows that the watermark has passed."""
    behind: BoolArray = times <= watermark
    return behind


@dataclass(frozen=True)
class Case:
    """One plan and all rows of a stream."""

    plan: Plan
    rows: EventBatch
    read: Callable[[Sequence[pa.Table]], Output]
    """The output rows of some calls, in the order of the calls."""
    check: Callable[[Sequence[pa.Table]], int]
    """Compares the output of a batch over all rows with an oracle; returns the number of rows that the oracle has."""
    owners: IntArray | None = None
    """By row: the number of its key. Rows of one key stay in one shard. None where no key divides the rows."""
    is_late: Callable[[IntArray, int], BoolArray] = is_behind
    """(times, watermark): the rows that are late."""
    bounded: bool = True
    """Whether every window closes after some time."""
    moments: Sequence[int] = ()
    """Times at which something may be decided without a row, in order."""


@dataclass(frozen=True)
class GoldenCase:
    """A plan, its rows before and after a state was written, and the watermark of that state."""

    case: Case
    before: IntArray
    """The numbers of the rows that are in the state."""
    now: int

    @property
    def after(self) -> IntArray:
        return np.setdiff1d(np.arange(len(self.case.rows)), self.before)


@dataclass(frozen=True)
class Inputs:
    """The cases of one engine."""

    make_case: Callable[[int], Case]
    """A random case from a seed."""
    drop_caches: Callable[[], None] = lambda: None
    """Drop what the process keeps of states, as a restart does."""
    seeds: int = 20
    """The number of seeds of an ordinary test."""
    golden: Mapping[str, Callable[[], GoldenCase]] = field(default_factory=dict)
    """By name: cases whose states lie in ``tests/contract/states``. Engines of patterns and of subscriptions have files of
    their own."""


def some_rows(case: Case, numbers: Sequence[int] | IntArray) -> EventBatch:
    return take_events(case.rows, np.asarray(numbers, np.int64))


def run_batch(engine: Engine, case: Case, numbers: Sequence[int] | IntArray | None = None) -> list[pa.Table]:
    """The output of a batch over some rows, or over all: one table, or one for each partition of the queries."""
    rows = case.rows if numbers is None else some_rows(case, numbers)
    partitions = case.plan.shards if engine.capabilities.broadcast else 1
    return [
        engine.run_step(case.plan, replace(rows, query_partition=part), None, Watermark(ended=True)).rows
        for part in range(partitions)
    ]
