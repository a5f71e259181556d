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

from perseid.engines.disorder.assemble import Assembling
from perseid.engines.disorder.assembly import TAKEN_BACK
from perseid.engines.disorder.changelog import counted, horizon_of, is_ahead, marked
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
    from perseid.engines.sequence.shard import Given

TOLD, RETRACTED = 1, 2
"""The revisions of a match: inserted, retracted."""


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a shard: return insertions and retractions of matches, and the new state."""
    before = read_state(plan, state)
    inner = plan.searched(schema=without_changes(plan.schema), order=plan.strategy.name)
    shards: list[EarlyShard] = []

    def make(*given: *Given) -> EarlyShard:
        shards.append(EarlyShard(before.horizon, *given))
        return shards[0]

    ran = run(inner, rows, before.searched, clock=watermark, newest=newest_before(inner, watermark), make=make)
    horizon = horizon_of(before.horizon, rows, ran.step.late, watermark)
    parts = (part for name, table in ran.tables.items() for part in _changes(table, shards[0].moments.get(name)))
    out = joined((marked(part, op, revision, horizon, plan.schema) for part, op, revision in parts), plan.schema)
    ahead = is_ahead(horizon, watermark)
    written = write_state(plan, replace(before, searched=ran.step.state, horizon=horizon), ahead=ahead)
    wake = horizon if ran.step.next_timer is None and ahead else ran.step.next_timer
    counters = {**ran.step.counters, **counted(out), "state_bytes": 0 if written is None else len(written)}
    return replace(ran.step, rows=out, state=written, next_timer=wake, counters=counters)


class EarlyShard(Assembling):
    """A shard that emits matches when the newest event reaches their due time."""

    early = True

    def __init__(self, told: int | None, *given: *Given) -> None:
        super().__init__(*given)
        self.told = told

    def _told(self, since: int) -> int:
        return since if self.told is None else max(since, self.told)

    def _due(self, now: int) -> int:
        return int(self.rows.time[self.old :].max(initial=self._told(now)))


def _changes(rows: pa.Table, moments: IntArray | None) -> Iterator[tuple[pa.Table, str, int]]:
    """Yield the inserted and the retracted matches; a match that is both within one call is omitted."""
    if not rows.num_rows:
        return
    assert moments is not None
    if (moments > TAKEN_BACK).all():
        yield rows, "+", TOLD
        return
    back = pa.array(moments <= TAKEN_BACK)
    gone, told = rows.filter(back), rows.filter(pc.invert(back))
    yield _but(gone, told), "-", RETRACTED
    yield _but(told, gone), "+", TOLD


def _but(rows: pa.Table, others: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["match_id"], value_set=others["match_id"])))
