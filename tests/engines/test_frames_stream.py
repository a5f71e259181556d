"""Matches over a stream of frames equal those over finished data, for any batches, restarts and shards.

Both evaluations are tested: all frames at once and frame by frame.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import perseid as ps
from perseid.api.stream_kinds.models import group_patterns
from perseid.engines.models import frame_shard, shard
from perseid.engines.models.engine import MODELS, step
from perseid.engines.models.plan import ModelsPlan, make_plan
from perseid.engines.sequence.stream import Events
from perseid.errors import LimitError, StateError
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from tests.blocks import blocks
from tests.engines.watermarks import step_up_to

TEXT = """
model body
node Body
node Hand (x double, y double, up boolean, label string)
edge part Body -> Hand

query high(hand)   find hand: Hand where moving_avg(hand.y, 3) > 0.5
query lately(hand) find hand: Hand where moving_max(hand.x, 3 seconds) > 0.5
query level(a, b)  find p -part-> a, p -part-> b where a.y >= b.y and a <> b
query most(hand)   find hand: Hand top 1 by hand.y

pattern raise_  match found high(hand as h) a -> lost high(hand as h) b within 10 seconds return a.hand as hand
pattern rest    match lost lately a -> not found lately for 2 seconds within 10 seconds partition by hand
pattern seesaw  match found level(a as x) c -> lost level(a as x) d within 5 seconds return c.a as upper
pattern leader  match found most a -> found most b within 5 seconds return b.hand as hand
"""
SLOW = ("leader",)
EACH: list[dict[str, Any]] = [
    {"change": "create", "element": "b", "kind": "Body"},
    *({"change": "create", "element": e, "kind": "Hand"} for e in ("l", "r")),
    *({"change": "link", "element": "b", "kind": "part", "target": e} for e in ("l", "r")),
]
COLUMNS = {f"{hand}{name}": (hand, name) for hand in "lr" for name in ("x", "y", "up")}
TYPES = {"who": pa.string(), **{c: pa.bool_() if c.endswith("up") else pa.float64() for c in COLUMNS}}
Frame = dict[str, Any]


def declared(rows: Any) -> tuple[ps.graph.Metamodel, ps.graph.Frames]:
    body = ps.graph.metamodel(TEXT)
    return body, ps.graph.frames(rows, body, each=EACH, columns=COLUMNS, key="who")


@cache
def plan_of(shards: int = 1, patterns: tuple[str, ...] | None = None) -> ModelsPlan:
    body, frames = declared([])
    named = ps.patterns(body) if patterns is None else ps.patterns(*(ps.patterns(body)[name] for name in patterns))
    groups = [
        (group.watched, over.compile(Events([], key=("who",)))) for over, group in group_patterns(named.sources, frames)
    ]
    return replace(make_plan(groups, body.queries, TYPES, key=("who",), frames=frames.shape), shards=shards)


def random_frames(seed: int) -> list[Frame]:
    rng = random.Random(seed)
    rows = []
    for moment in range(rng.randint(5, 40)):
        for who in ("ann", "bob", None):
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                values = {c: rng.choice([0.0, 0.4, 0.9, None]) for c in COLUMNS}
                values |= {c: rng.choice([True, False, None]) for c in COLUMNS if c.endswith("up")}
                rows.append({"time": moment * 500_000, "who": who, **values})
    return rows


def rows_of(frames: list[Frame]) -> EventBatch:
    columns = {name: pa.array([row[name] for row in frames], type_) for name, type_ in TYPES.items()}
    times = np.array([row["time"] for row in frames], np.int64)
    return EventBatch(times, np.zeros(len(frames), np.int32), ["Change"], columns, {}, np.arange(len(frames)))


def match_ids(table: pa.Table) -> list[str]:
    return sorted(table["match_id"].to_pylist())


def here(frames: list[Frame]) -> list[str]:
    listed = [{"ts": row["time"] / 1_000_000, **{name: row[name] for name in TYPES}} for row in frames]
    data = {name: [row[name] for row in listed] for name in ("ts", *TYPES)}
    table = pa.table({name: pa.array(values, TYPES.get(name, pa.float64())) for name, values in data.items()})
    body, stream = declared(table)
    return sorted(match["match_id"] for match in ps.patterns(body).match(stream).to_dicts())


def run_in_batches(plan: ModelsPlan, rows: list[Frame], rng: random.Random, *, forget: bool) -> list[str]:
    """Runs the rows in shuffled batches, each with a watermark behind the previous batch, and returns the match ids."""
    state, before, found = None, None, []
    at = 0
    while at < len(rows):
        end = min(len(rows), at + rng.randint(1, 12))
        while end < len(rows) and rows[end]["time"] == rows[end - 1]["time"]:
            end += 1
        now = None if at == 0 else rows[at - 1]["time"] - rng.choice([0, 1_000_000])
        now = now if before is None or now is None else max(before, now)
        if forget:
            shard._DECODED.clear()
            frame_shard._ANSWERED.clear()
        piece = rng.sample(rows[at:end], end - at)
        done = step(plan, rows_of(piece), state, Watermark(before, now))
        assert not len(done.late)
        found.append(done.rows)
        state, before, at = done.state, now, end
    found.append(step(plan, rows_of([]), state, Watermark(before, None, ended=True)).rows)
    return match_ids(pa.concat_tables(found))


@pytest.mark.parametrize("seed", blocks(10, 25))
def test_matches_do_not_depend_on_batches_or_restarts(seed: int) -> None:
    rows, rng = random_frames(seed), random.Random(seed)
    expected = here(rows)
    assert (
        match_ids(step(plan_of(), rows_of(rng.sample(rows, len(rows))), None, Watermark(ended=True)).rows) == expected
    )
    assert run_in_batches(plan_of(), rows, rng, forget=False) == expected
    assert run_in_batches(plan_of(), rows, rng, forget=True) == expected


def test_the_cases_find_something_at_once_and_frame_by_frame() -> None:
    plan = plan_of()
    ready = zip(plan.groups, frame_shard._compiled_groups(plan), strict=True)
    slow = {p.name for group, one in ready if one is None for p in group.sequence.plan.patterns}
    assert slow == set(SLOW)
    whole = [step(plan, rows_of(random_frames(seed)), None, Watermark(ended=True)).rows for seed in range(10)]
    assert set(pa.concat_tables(whole)["pattern"].to_pylist()) == {"raise_", "rest", "seesaw", "leader"}


def test_state_is_bounded_by_the_frames_of_open_windows() -> None:
    """The state is bounded by the frames within the windows, however long the stream is."""
    plan, sizes, kept = plan_of(patterns=("raise_", "rest")), [], []
    state = None
    for part in range(6):
        frames = [row | {"time": row["time"] + part * 30_000_000} for row in random_frames(3)]
        now = (part + 1) * 30_000_000 - 1
        done = step_up_to(step, plan, rows_of(frames), state, now)
        state = done.state
        assert state is not None
        report = MODELS.report(state)  # type: ignore[misc]
        sizes.append(len(state))
        kept.append(report.events)
        assert len(report.keys) == 3
    assert max(kept) <= 3 * 6 * 2
    assert max(sizes[2:]) < sizes[1] * 1.2


def test_frames_behind_the_watermark_are_late() -> None:
    one = random_frames(1)[0]
    first = step_up_to(step, plan_of(), rows_of([one]), None, 5_000_000)
    rows = [one | {"time": 5_000_000}, one | {"time": 5_000_001}]
    second = step(plan_of(), rows_of(rows), first.state, Watermark(5_000_000, 5_000_000))
    assert list(second.late) == [0]
    assert second.counters["retained_events"] == 1
    assert second.next_timer == 5_000_001


def test_states_of_other_frames_and_damaged_ones_are_refused() -> None:
    plan = plan_of()
    state = step_up_to(step, plan, rows_of(random_frames(1)), None, 3_000_000).state
    assert state is not None
    shard._DECODED.clear()
    for wrong in (state[:-3], state[:40], state[:30] + b"x" + state[31:]):
        with pytest.raises(StateError):
            step(plan, rows_of([]), wrong, Watermark(3_000_000, 4_000_000))
    with pytest.raises(StateError, match="shards"):
        step(replace(plan, shards=2), rows_of([]), state, Watermark(3_000_000, 4_000_000))
    assert plan.frames is not None
    fewer = {name: place for name, place in plan.frames.sets.items() if name != "lup"}
    other = replace(plan, frames=replace(plan.frames, sets=fewer))
    with pytest.raises(StateError, match="another metamodel or key, other queries, or frames with other columns"):
        step(other, rows_of([]), state, Watermark(3_000_000, 4_000_000))
    wider = replace(plan, types={**plan.types, "lx": pa.float32()})
    with pytest.raises(StateError, match=r"column 'set .* is double, expected float in table 'frames'"):
        step(wider, rows_of([]), state, Watermark(3_000_000, 4_000_000))
    with pytest.raises(LimitError, match=r"one shard take"):
        step(replace(plan, max_state=100), rows_of(random_frames(1)), None, Watermark(None, 3_000_000))
