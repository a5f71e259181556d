"""The smallest engine with state, timers, retractions and dropped rows: docs/engines.md explains it.

It emits the matches of the events so far: every call searches all of them again, and the differences from the emitted
matches are the changelog. It is not for production: it shows which parts an engine needs, and which it inherits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from perseid.engines.disorder.changelog import count_changes, diff, fit_to_schema, horizon_of, is_ahead
from perseid.engines.disorder.plan import DisorderPlan, make_plan
from perseid.engines.disorder.schema import without_changes
from perseid.engines.disorder.strategy import Strategy
from perseid.engines.sequence.engine import step as search
from perseid.engines.sequence.output import joined
from perseid.engines.sequence.report import report as searched
from perseid.runtime.changelog import NAMED_BY
from perseid.runtime.contract import Capabilities, Engine, StateReport, StepResult
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.fact_values import TIME_OR_NONE, IntegerValue, StateFact
from perseid.runtime.state_layout import (
    SHARDS,
    StateColumn,
    StateLayout,
    StateTable,
    columns_of,
    decode,
    encode,
    single_batch,
)
from perseid.runtime.watermark import Watermark

NAME = "toy"
LAYOUT = StateLayout(
    NAME,
    1,
    (SHARDS, StateFact("horizon", TIME_OR_NONE), StateFact("revision", IntegerValue(low=0, high=2**31 - 4))),
    (
        StateTable("body", (StateColumn("state", pa.large_binary(), nullable=True),), rows=1),
        StateTable("emitted", (*columns_of(pa.string(), *NAMED_BY), StateColumn("*", plain=True)), optional=True),
    ),
)


@dataclass(frozen=True)
class Toy(Strategy):
    """Option of a stream that selects the engine: ``ps.events(…, disorder=Toy())``."""

    name: ClassVar[str] = NAME
    output_policy: ClassVar[str] = (
        "what holds for the events that have come, searched again in every call; rows are changes"
    )
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class ToyState:
    """The state of the search, the time up to which it has speculated, and emitted matches that may be retracted."""

    searched: bytes | None = None
    horizon: int | None = None
    revision: int = 0
    emitted: pa.Table | None = None


def write_state(plan: DisorderPlan, retained: ToyState) -> bytes | None:
    emitted = retained.emitted if retained.emitted is not None and retained.emitted.num_rows else None
    if retained.searched is None and emitted is None:
        return None
    facts = {"shards": plan.shards, "horizon": retained.horizon, "revision": retained.revision}
    body = pa.record_batch([pa.array([retained.searched], pa.large_binary())], names=["state"])
    return encode(LAYOUT, facts, {"body": body, "emitted": None if emitted is None else single_batch(emitted)})


def read_state(plan: DisorderPlan, state: bytes | None) -> ToyState:
    if state is None:
        return ToyState()
    content = decode(LAYOUT, state, {"shards": plan.shards})
    body, emitted = content.tables["body"], content.tables.get("emitted")
    found = None if emitted is None else pa.Table.from_batches([emitted])
    return ToyState(body.column(0)[0].as_py(), content.facts["horizon"], content.facts["revision"], found)


def step(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Process one call of a shard: rows in; changes, new state and next timer out."""
    before = read_state(plan, state)
    schema = without_changes(plan.schema)
    inner = plan.sequence_plan(schema=schema)
    sure = search(inner, rows, before.searched, watermark)
    horizon = horizon_of(before.horizon, rows, sure.late, watermark)
    guessed = schema.empty_table()
    if sure.state is not None and is_ahead(horizon, watermark):
        guessed = search(
            inner, take_events(rows, np.zeros(0, np.int64)), sure.state, Watermark(watermark.current, horizon)
        ).rows
    emitted = schema.empty_table() if before.emitted is None else fit_to_schema(before.emitted, schema)
    out = diff(emitted, joined([sure.rows, guessed], schema), before.revision + 1, horizon, plan.schema)
    written = write_state(plan, ToyState(sure.state, horizon, before.revision + 2, guessed))
    counters = {**sure.counters, **count_changes(out), "state_bytes": 0 if written is None else len(written)}
    return replace(sure, rows=out, state=written, counters=counters)


def report(state: bytes) -> StateReport:
    """Describe a state for people."""
    content = decode(LAYOUT, state)
    inner: Any = content.tables["body"].column(0)[0].as_py()
    if inner is None:
        return StateReport(content.facts["shards"], content.facts["horizon"], 0, 0, None, {}, {}, len(state))
    return replace(searched(inner), bytes=len(state))


TOY = Engine(
    name=NAME,
    plan=partial(make_plan, strategy=Toy()),
    step=step,
    report=report,
    capabilities=Capabilities(retracts=True),
    guide="docs/engines.md",
    example="tests/contract/toy.py",
)
