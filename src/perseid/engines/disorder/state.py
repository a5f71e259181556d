"""The state of a shard around its search state: a horizon, retractable matches, delays, punctuations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from perseid.runtime.changelog import NAMED_BY
from perseid.runtime.fact_values import (
    TIME,
    TIME_OR_NONE,
    IntegerValue,
    ListValue,
    MapValue,
    NumberValue,
    StateFact,
    TextValue,
)
from perseid.runtime.state_layout import (
    SHARDS,
    Facts,
    StateColumn,
    StateContent,
    StateLayout,
    StateTable,
    columns_of,
    decode,
    encode,
    single_batch,
)

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan

BINS_PER_POWER_OF_TWO = 4
"""Bins of the delay histogram per power of two, which gives a relative error of a quarter."""
BINS = 1 + 63 * BINS_PER_POWER_OF_TWO
_LAST_REVISION = 2**31 - 4
"""A call adds two revisions, and the output column is an int32."""


def _check(content: StateContent) -> str | None:
    """Reject parts that the strategy of a state never reads, and so never evicts."""
    facts = content.facts
    if ("delays" in facts) != ("newest" in facts):
        return "it has only one of delays and newest"
    parts = {
        "aggressive": "told" in content.tables,
        "adaptive": "delays" in facts,
        "conservative": content.tables["body"].column(0)[1].is_valid or "everywhere" in facts,
    }
    others = [strategy for strategy, present in parts.items() if present and strategy != facts["strategy"]]
    return f"it has data of the strategy {others[0]!r}" if others else None


_MISMATCH = "The checkpoint was made with disorder={found}, and the query now has {now}."
LAYOUT = StateLayout(
    "disorder",
    1,
    (
        StateFact("strategy", TextValue(), mismatch=_MISMATCH, hint="Use disorder={found}."),
        SHARDS,
        StateFact("horizon", TIME_OR_NONE),
        StateFact("revision", IntegerValue(low=0, high=_LAST_REVISION)),
        StateFact("owed", NumberValue(limit=2.0**63)),
        StateFact("delays", ListValue(items=IntegerValue(low=0, high=2**32 - 1), size=BINS), optional=True),
        StateFact("newest", TIME_OR_NONE, optional=True),
        StateFact("everywhere", MapValue(items=TIME), optional=True),
    ),
    (
        StateTable("body", (StateColumn("state", pa.large_binary(), nullable=True),), rows=2),
        StateTable("told", (*columns_of(pa.string(), *NAMED_BY), StateColumn("*", plain=True)), optional=True),
    ),
    check=_check,
)


@dataclass(frozen=True)
class Delays:
    """The distribution of delays."""

    counts: tuple[int, ...]
    """A histogram: the number of events per bin of delay, with older events decayed."""
    newest: int | None = None
    """The time of the newest event so far."""


@dataclass(frozen=True)
class DisorderState:
    """The state of a shard."""

    search_state: bytes | None = None
    """The encoded state of the sequence engine."""
    horizon: int | None = None
    """The event time up to which matches were emitted speculatively, or up to which the adaptive frontier advanced."""
    revision: int = 0
    """The number of times that emitted matches were revised."""
    emitted: pa.Table | None = None
    """Emitted matches that may be retracted."""
    delays: Delays | None = None
    expected_late: float = 0.0
    """The expected number of late events so far."""
    key_punctuations: bytes | None = None
    """Punctuations of keys, encoded as the events of a search state."""
    stream_punctuations: Mapping[str, int] = field(default_factory=dict)
    """Punctuations of all keys, by type or source."""


def write_state(plan: DisorderPlan, state: DisorderState, *, horizon_is_ahead: bool = False) -> bytes | None:
    """Encode the state of a shard; None if nothing is left, and the horizon is not ahead of the watermark."""
    emitted = single_batch(state.emitted) if state.emitted is not None and state.emitted.num_rows else None
    parts = (state.search_state, emitted, state.delays, state.key_punctuations, state.stream_punctuations or None)
    if not horizon_is_ahead and all(part is None for part in parts):
        return None
    facts: dict[str, object] = {
        "strategy": plan.strategy.name,
        "shards": plan.shards,
        "horizon": state.horizon,
        "revision": state.revision,
        "owed": state.expected_late,
    }
    if state.delays is not None:
        facts |= {"delays": list(state.delays.counts), "newest": state.delays.newest}
    if state.stream_punctuations:
        facts["everywhere"] = dict(state.stream_punctuations)
    body = pa.record_batch([pa.array([state.search_state, state.key_punctuations], pa.large_binary())], names=["state"])
    return encode(LAYOUT, facts, {"body": body, "told": emitted})


def read_state(plan: DisorderPlan, state: bytes | None) -> DisorderState:
    """Decode the state of a shard."""
    if state is None:
        return DisorderState()
    content = open_state(state, {"strategy": plan.strategy.name, "shards": plan.shards})
    facts, emitted = content.facts, content.tables.get("told")
    search_state, key_punctuations = content.tables["body"].column(0).to_pylist()
    return DisorderState(
        search_state,
        facts["horizon"],
        facts["revision"],
        None if emitted is None else pa.Table.from_batches([emitted]),
        Delays(tuple(facts["delays"]), facts["newest"]) if "delays" in facts else None,
        facts["owed"],
        key_punctuations,
        facts.get("everywhere", {}),
    )


def open_state(state: bytes, expected: Facts | None = None) -> StateContent:
    """Decode a state of any strategy."""
    return decode(LAYOUT, state, expected)
