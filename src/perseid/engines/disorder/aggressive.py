"""Tell at once, take back what a late event proves wrong.

The search itself goes by the watermark, as that of an ordered stream does, and keeps what it keeps. From there it is
carried on, for this call only, to the newest event: what it finds on the way is a guess, told now, and either found
again when the watermark gets there, or taken back. So after every call what was told and not taken back is what the
oracle finds in the events that have come, at the horizon that the rows name.

Li, Liu, Ding, Rundensteiner and Mani (ICDCS Workshops 2007) call this the aggressive strategy; there a compensation is
computed for every late event, here for all that came in a call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.disorder.changelog import changes, counted, fitted, horizon_of, is_ahead
from perseid.engines.disorder.schema import without_changes
from perseid.engines.disorder.state import DisorderState, read_state, write_state
from perseid.engines.sequence.engine import step as search
from perseid.engines.sequence.output import joined
from perseid.engines.sequence.shard import newest_before, run
from perseid.errors import LimitError, StateError
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, clock: Watermark) -> StepResult:
    """One call of a shard: rows in, what has to be told and taken back out, and what has to be kept."""
    before = read_state(plan, state)
    schema = without_changes(plan.schema)
    inner = plan.searched(schema=schema)
    newest = newest_before(inner, clock)
    ran = None if plan.stages else run(inner, rows, before.searched, clock=clock, newest=newest)
    sure = search(inner, rows, before.searched, clock) if ran is None else ran.step
    horizon = horizon_of(before.horizon, rows, sure.late, clock)
    guessed = schema.empty_table()
    if sure.state is not None and is_ahead(horizon, clock):
        none = take_events(rows, np.zeros(0, np.int64))
        ahead = Watermark(clock.current, horizon, False)
        if ran is None:
            guessed = search(inner, none, sure.state, ahead).rows
        else:
            guessed = run(inner, none, ran.left, clock=ahead, newest=newest, writes=False).step.rows
    told = schema.empty_table() if before.told is None else fitted(before.told, schema)
    now = joined([sure.rows, guessed], schema)
    try:
        out = changes(told, now, before.revision + 1, horizon, plan.schema)
    except pa.ArrowTypeError as error:
        # Only of columns whose type no plan knows: their values say it, in the state as now.
        raise StateError(f"Matches in the state have other types than those of now: {error}") from error
    written = write_state(plan, DisorderState(sure.state, horizon, before.revision + 2, guessed))
    if written is not None and len(written) - len(sure.state or b"") > plan.max_state:
        raise LimitError(
            f"Matches that were told and may be taken back take {len(written) - len(sure.state or b''):,} bytes in one "
            f"shard; {plan.max_state:,} are allowed.",
            hint="Use more shards, a shorter delay of the watermark, or ps.events(…, max_state=…).",
        )
    counters = {**sure.counters, **counted(out), "state_bytes": 0 if written is None else len(written)}
    return replace(sure, rows=out, state=written, counters=counters)
