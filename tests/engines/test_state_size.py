"""Size of state in bytes, for a shard, for a buffered event, and for a key; independent of the clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.sequence.columns import arrow_type
from perseid.engines.sequence.engine import make_linked_plan, step
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark

PAIR = "pattern p match A a -> B b within 1 hour partition by key return a.id as first, b.id as last"
SILENT = "pattern p match A a -> not B for 1 hour partition by key return a.id as first"
WIDE = "pattern p match A a -> B b where b.v > a.v and b.ip <> a.ip within 1 hour partition by key return a.id as first"
HOUR = 3_600 * 10**6


def columns(count: int, keys: int) -> dict[str, Any]:
    numbers = np.arange(count)
    return {
        "id": pa.array(numbers),
        "key": pa.array(numbers % keys),
        "v": pa.array(numbers * 0.5),
        "ip": pa.array([f"10.0.{n % 256}.{n % 250}" for n in range(count)]),
    }


def state_bytes(text: str, names: tuple[str, ...], count: int, keys: int) -> int:
    """Returns the bytes of a state that buffers `count` events of `keys` keys."""
    all_columns = columns(count, keys)
    plan = ps.patterns(text).plan()
    types = {name: arrow_type(column.type) for name, column in all_columns.items()}
    referenced = {name: all_columns[name] for name in names}
    rows = EventBatch(
        time=np.arange(count) + 1,
        type_codes=np.zeros(count, np.int32),
        type_names=["A", "B"],
        columns=referenced,
        keys={plan.routes[0].id: {"key": all_columns["key"]}},
        identity=np.arange(count),
    )
    numbered = replace(make_linked_plan(plan, types), shards=16)
    first = step(numbered, rows, None, Watermark(None, 0, False))
    assert first.counters["retained_events"] == count
    no_rows = replace(
        rows, time=rows.time[:0], type_codes=rows.type_codes[:0], identity=rows.identity[:0],
        columns={name: column[:0] for name, column in referenced.items()},
        keys={route: {name: c[:0] for name, c in each.items()} for route, each in rows.keys.items()},
    )  # fmt: skip
    searched = step(numbered, no_rows, first.state, Watermark(0, count + 1, False))
    assert searched.counters["retained_events"] == count
    assert searched.counters["live_keys"] == keys
    assert searched.state is not None
    gone = step(numbered, no_rows, searched.state, Watermark(count + 1, count + 2 * HOUR, False))
    assert gone.state is None  # nothing of any key after the last window
    return len(searched.state)


@pytest.mark.parametrize(
    ("text", "names", "event"),
    [(PAIR, ("id",), 36.5), (SILENT, ("id",), 36.5), (WIDE, ("id", "v", "ip"), 60)],
    ids=["numbers", "an absence", "a number and a text more"],
)
def test_state_bytes_per_shard_and_event(text: str, names: tuple[str, ...], event: float) -> None:
    """An event costs its time, identity, key and type, a bit or two for each pattern, and the referenced columns."""
    one, few, many = (state_bytes(text, names, count, 10) for count in (10, 1_010, 11_010))
    assert (many - few) / 10_000 <= event
    assert (few - one) / 1_000 <= event * 1.1  # rounding of buffers to 64 bytes takes part
    assert one - 10 * event <= 1_500
    # A key costs nothing in addition to its events.
    assert state_bytes(text, names, 1_010, 1_010) <= few + 64
