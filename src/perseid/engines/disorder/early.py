"""Assemble matches from events as they arrive, emit each when it is complete, retract those that a late event breaks.

A match without negations is never retracted. A match with negations is emitted when the newest event has passed their
scopes, and retracted when a negated event arrives. The emitted matches are not stored: they follow from the retained
events and the horizon. A match is emitted once and retracted at most once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.disorder.assemble import ArrivalOrderShard
from perseid.engines.disorder.assembly import RETRACTION
from perseid.engines.disorder.changelog import add_changelog_columns, count_changes, horizon_of, is_ahead
from perseid.engines.disorder.schema import without_changes
from perseid.engines.disorder.state import read_state, write_state
from perseid.engines.sequence.output import joined
from perseid.engines.sequence.shard import newest_before, run
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan
    from perseid.engines.sequence.shard import ShardArguments

INSERTED, RETRACTED = 1, 2
"""The revisions of a match: inserted, retracted."""


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a shard: return insertions and retractions of matches, and the new state."""
    previous = read_state(plan, state)
    inner = plan.sequence_plan(schema=without_changes(plan.schema), order=plan.strategy.name)
    shards: list[EarlyShard] = []

    def make_shard(*arguments: *ShardArguments) -> EarlyShard:
        shards.append(EarlyShard(previous.horizon, *arguments))
        return shards[0]

    result = run(
        inner,
        rows,
        previous.search_state,
        clock=watermark,
        newest=newest_before(inner, watermark),
        make_shard=make_shard,
    )
    horizon = horizon_of(previous.horizon, rows, result.step.late, watermark)
    parts = (
        part for name, table in result.tables.items() for part in _split_changes(table, shards[0].moments.get(name))
    )
    out = joined(
        (add_changelog_columns(part, op, revision, horizon, plan.schema) for part, op, revision in parts), plan.schema
    )
    horizon_is_ahead = is_ahead(horizon, watermark)
    written = write_state(
        plan, replace(previous, search_state=result.step.state, horizon=horizon), horizon_is_ahead=horizon_is_ahead
    )
    timer = horizon if result.step.next_timer is None and horizon_is_ahead else result.step.next_timer
    counters = {**result.step.counters, **count_changes(out), "state_bytes": 0 if written is None else len(written)}
    return replace(result.step, rows=out, state=written, next_timer=timer, counters=counters)


class EarlyShard(ArrivalOrderShard):
    """A shard that emits matches when the newest event reaches their due time."""

    early = True

    def __init__(self, previous_horizon: int | None, *arguments: *ShardArguments) -> None:
        super().__init__(*arguments)
        self.previous_horizon = previous_horizon

    def _emitted_upto(self, since: int) -> int:
        return since if self.previous_horizon is None else max(since, self.previous_horizon)

    def _due_upto(self, now: int) -> int:
        return int(self.rows.time[self.old_count :].max(initial=self._emitted_upto(now)))


def _split_changes(rows: pa.Table, moments: IntArray | None) -> Iterator[tuple[pa.Table, str, int]]:
    """Yield the inserted and the retracted matches; a match that is both within one call is omitted."""
    if not rows.num_rows:
        return
    assert moments is not None
    if (moments > RETRACTION).all():
        yield rows, "+", INSERTED
        return
    is_retraction = pa.array(moments <= RETRACTION)
    retracted, inserted = rows.filter(is_retraction), rows.filter(pc.invert(is_retraction))
    yield _without(retracted, inserted), "-", RETRACTED
    yield _without(inserted, retracted), "+", INSERTED


def _without(rows: pa.Table, others: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["match_id"], value_set=others["match_id"])))
