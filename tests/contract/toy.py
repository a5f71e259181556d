"""The smallest engine that keeps a state, wakes up, takes back and has rows beside its matches: docs/engines.md walks through it.

It tells what holds for the events that have come: all of them are searched again in every call, and what differs from what
was told is the changelog. Nobody should run it; it shows what an engine has to do, and all that the house does for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from perseid.engines.disorder.changelog import changes, counted, fitted, horizon_of, is_ahead
from perseid.engines.disorder.plan import DisorderPlan, make_plan
from perseid.engines.disorder.schema import NAMED_BY, without_changes
from perseid.engines.disorder.strategy import Strategy
from perseid.engines.sequence.engine import step as search
from perseid.engines.sequence.output import joined
from perseid.engines.sequence.report import report as searched
from perseid.errors import StateError
from perseid.runtime.contract import Engine, StateReport, StepResult
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.state_codec import DecodedState, check_owner, check_shards, decode_state, encode_state, is_time
from perseid.runtime.watermark import Watermark

NAME, VERSION = "toy", 1


@dataclass(frozen=True)
class Toy(Strategy):
    """How a stream asks for it: ``ps.events(…, disorder=Toy())``."""

    name: ClassVar[str] = NAME
    tells: ClassVar[str] = "what holds for the events that have come, searched again in every call; rows are changes"
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class Kept:
    """What it keeps: the state of the search, up to when it has guessed, and what it told and may take back."""

    searched: bytes | None = None
    horizon: int | None = None
    revision: int = 0
    told: pa.Table | None = None


def write_state(plan: DisorderPlan, kept: Kept) -> bytes | None:
    told = kept.told if kept.told is not None and kept.told.num_rows else None
    if kept.searched is None and told is None:
        return None
    facts = {
        "engine": NAME,
        "version": VERSION,
        "shards": plan.shards,
        "horizon": kept.horizon,
        "revision": kept.revision,
    }
    body = pa.record_batch([pa.array([kept.searched], pa.large_binary())], names=["state"])
    return encode_state(facts, (body, *([] if told is None else told.combine_chunks().to_batches())))


def open_state(state: bytes) -> DecodedState:
    """Whatever is not what this engine writes is a StateError: a checkpoint may be anybody's."""
    sealed = decode_state(state)
    check_owner(sealed, NAME, (VERSION,))
    facts, tables = sealed.facts, sealed.tables
    revision = facts.get("revision")
    good = "horizon" in facts and is_time(facts["horizon"]) and type(facts.get("shards")) is int
    good = good and type(revision) is int and 0 <= revision < 2**31 - 3 and 1 <= len(tables) <= 2
    good = good and tables[0].schema == pa.schema([("state", pa.large_binary())]) and tables[0].num_rows == 1
    if good and len(tables) == 2:
        names = tables[1].schema.names
        good = len({*names}) == len(names) and {*NAMED_BY} <= {*names}
        good = good and all(
            tables[1].column(n).type == pa.string() and not tables[1].column(n).null_count for n in NAMED_BY
        )
    if not good:
        raise StateError("The state is not what one of the toy should be.")
    return sealed


def read_state(plan: DisorderPlan, state: bytes | None) -> Kept:
    if state is None:
        return Kept()
    sealed = open_state(state)
    check_shards(sealed, plan.shards)
    body, *told = sealed.tables
    found = pa.Table.from_batches(told) if told else None
    return Kept(body.column(0)[0].as_py(), sealed.facts["horizon"], sealed.facts["revision"], found)


def step(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """One call of a shard: rows in, what has to be told and taken back out, what has to be kept, and when to be called again."""
    before = read_state(plan, state)
    schema = without_changes(plan.schema)
    inner = plan.searched(schema=schema)
    sure = search(inner, rows, before.searched, watermark)
    horizon = horizon_of(before.horizon, rows, sure.late, watermark)
    guessed = schema.empty_table()
    if sure.state is not None and is_ahead(horizon, watermark):
        guessed = search(
            inner, take_events(rows, np.zeros(0, np.int64)), sure.state, Watermark(watermark.current, horizon)
        ).rows
    told = schema.empty_table() if before.told is None else fitted(before.told, schema)
    out = changes(told, joined([sure.rows, guessed], schema), before.revision + 1, horizon, plan.schema)
    written = write_state(plan, Kept(sure.state, horizon, before.revision + 2, guessed))
    counters = {**sure.counters, **counted(out), "state_bytes": 0 if written is None else len(written)}
    return replace(sure, rows=out, state=written, counters=counters)


def report(state: bytes) -> StateReport:
    """What a state holds, for people."""
    sealed = open_state(state)
    inner: Any = sealed.tables[0].column(0)[0].as_py()
    if inner is None:
        return StateReport(sealed.facts["shards"], sealed.facts["horizon"], 0, 0, None, {}, {}, len(state))
    return replace(searched(inner), bytes=len(state))


TOY = Engine(
    name=NAME,
    plan=partial(make_plan, strategy=Toy()),
    step=step,
    report=report,
    retracts=True,
    guide="docs/engines.md",
    example="tests/contract/toy.py",
)
