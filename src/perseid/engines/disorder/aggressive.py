"""Emit matches speculatively, retract those that a late event invalidates.

The search advances to the watermark and stores its state, as for an ordered stream. From there a second search, which
stores no state, advances to the newest event. Its matches are speculative: they are emitted now, and either found again
when the watermark passes them, or retracted. So after every call, the emitted and unretracted matches are those that
the oracle finds in the events received so far, at the horizon in the rows.

Li, Liu, Ding, Rundensteiner and Mani (ICDCS Workshops 2007) call this the aggressive strategy; they compute a
compensation per late event, this module one per call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.disorder.changelog import count_changes, diff, fit_to_schema, horizon_of, is_ahead
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
    """Run one call of a shard: return insertions and retractions of matches, and the new state."""
    previous = read_state(plan, state)
    schema = without_changes(plan.schema)
    inner = plan.sequence_plan(schema=schema)
    newest = newest_before(inner, clock)
    result = None if plan.stages else run(inner, rows, previous.search_state, clock=clock, newest=newest)
    final = search(inner, rows, previous.search_state, clock) if result is None else result.step
    horizon = horizon_of(previous.horizon, rows, final.late, clock)
    speculative = schema.empty_table()
    if final.state is not None and is_ahead(horizon, clock):
        no_rows = take_events(rows, np.zeros(0, np.int64))
        speculative_clock = Watermark(clock.current, horizon, False)
        if result is None:
            speculative = search(inner, no_rows, final.state, speculative_clock).rows
        else:
            speculative = run(
                inner, no_rows, result.new_state, clock=speculative_clock, newest=newest, writes=False
            ).step.rows
    emitted = schema.empty_table() if previous.emitted is None else fit_to_schema(previous.emitted, schema)
    current = joined([final.rows, speculative], schema)
    try:
        out = diff(emitted, current, previous.revision + 1, horizon, plan.schema)
    except pa.ArrowTypeError as error:
        # Only for columns with a type that no plan declares: it is inferred from the values, in the state and now.
        raise StateError(f"Types of the matches in the state differ from those of the query: {error}") from error
    written = write_state(plan, DisorderState(final.state, horizon, previous.revision + 2, speculative))
    if written is not None and len(written) - len(final.state or b"") > plan.max_state:
        raise LimitError(
            f"Emitted matches that may be retracted take {len(written) - len(final.state or b''):,} bytes in one shard; "
            f"max_state allows {plan.max_state:,}.",
            hint="Use more shards, a shorter watermark delay, or a larger ps.StreamOptions(max_state=…).",
        )
    counters = {**final.counters, **count_changes(out), "state_bytes": 0 if written is None else len(written)}
    return replace(final, rows=out, state=written, counters=counters)
