"""What a shard keeps beside the events of its search: a frontier, what it told and may take back, how late events come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from perseid.engines.disorder.schema import NAMED_BY
from perseid.engines.sequence.state import repeats
from perseid.errors import StateError
from perseid.runtime.state_codec import (
    GO_BACK,
    DecodedState,
    check_owner,
    check_shards,
    decode_state,
    encode_state,
    is_time,
)

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan

ENGINE = "disorder"
VERSION = 1
"""Of what lies in the container; raise it with a migration in :func:`read_state`."""
PARTS = 4
"""Bars of the histogram of delays for each power of two, so that a delay is known to a quarter."""
BARS = 1 + 63 * PARTS
_LAST_REVISION = 2**31 - 3
"""A call makes two more, and a column holds no more."""


@dataclass(frozen=True)
class Delays:
    """How late events come."""

    counts: tuple[int, ...]
    """How many were how late, by bars of a histogram."""
    newest: int | None = None
    """The newest event there was."""


@dataclass(frozen=True)
class Kept:
    """The state of a shard."""

    searched: bytes | None = None
    """The state of the search: events, and what is open."""
    horizon: int | None = None
    """Up to when was guessed, or taken for complete."""
    revision: int = 0
    """How often what was told was looked at again."""
    told: pa.Table | None = None
    """Matches that were told and may be taken back."""
    delays: Delays | None = None
    owed: float = 0.0
    """How many events should have been late by now."""
    promised: bytes | None = None
    """Promises about keys, as events are kept."""
    everywhere: Mapping[str, int] = field(default_factory=dict)
    """Promises about every key, by type or source."""


def write_state(plan: DisorderPlan, kept: Kept, *, ahead: bool = False) -> bytes | None:
    """A shard's state as bytes; None where nothing is left to keep, and the horizon is not ``ahead`` of the watermark."""
    told = kept.told if kept.told is not None and kept.told.num_rows else None
    parts = (kept.searched, told, kept.delays, kept.promised, kept.everywhere or None)
    if not ahead and all(part is None for part in parts):
        return None
    facts = {
        "engine": ENGINE,
        "version": VERSION,
        "strategy": plan.strategy.name,
        "shards": plan.shards,
        "horizon": kept.horizon,
        "revision": kept.revision,
        "owed": kept.owed,
    }
    if kept.delays is not None:
        facts |= {"delays": list(kept.delays.counts), "newest": kept.delays.newest}
    if kept.everywhere:
        facts["everywhere"] = dict(kept.everywhere)
    body = pa.record_batch([pa.array([kept.searched, kept.promised], pa.large_binary())], names=["state"])
    return encode_state(facts, (body, *([] if told is None else told.combine_chunks().to_batches())))


def read_state(plan: DisorderPlan, state: bytes | None) -> Kept:
    """What bytes hold that :func:`write_state` made; a :class:`StateError` for all others."""
    if state is None:
        return Kept()
    sealed = open_state(state)
    facts = sealed.facts
    if facts["strategy"] != plan.strategy.name:
        raise StateError(
            f"The checkpoint was made with disorder={facts['strategy'][:60]!r}, and the query now has "
            f"{plan.strategy.name!r}.",
            hint=f"Keep the strategy. {GO_BACK}",
        )
    check_shards(sealed, plan.shards)
    body, *told = sealed.tables
    return Kept(
        body.column(0)[0].as_py(),
        facts["horizon"],
        facts["revision"],
        pa.Table.from_batches(told) if told else None,
        Delays(tuple(facts["delays"]), facts["newest"]) if "delays" in facts else None,
        facts["owed"],
        body.column(0)[1].as_py(),
        facts.get("everywhere", {}),
    )


def open_state(state: bytes) -> DecodedState:
    """A state of this engine's, whatever strategy it is of."""
    sealed = decode_state(state)
    check_owner(sealed, ENGINE, (VERSION,))
    if not (_facts(sealed.facts) and _tables(sealed.tables) and _parts(sealed.facts, sealed.tables)):
        raise StateError("The state is not what one of a stream that is out of order should be.")
    return sealed


def _facts(facts: Any) -> bool:
    owed, revision = facts.get("owed"), facts.get("revision")
    everywhere = facts.get("everywhere", {})
    return (
        isinstance(facts.get("strategy"), str)
        and type(facts.get("shards")) is int
        and "horizon" in facts
        and is_time(facts["horizon"])
        and ("delays" in facts) == ("newest" in facts)
        and is_time(facts.get("newest"))
        and type(revision) is int
        and 0 <= revision < _LAST_REVISION
        and type(owed) in (int, float)
        and abs(owed) < 2**63
        and isinstance(everywhere, dict)
        and all(type(time) is int and is_time(time) for time in everywhere.values())
        and ("delays" not in facts or _histogram(facts["delays"]))
    )


def _histogram(counts: object) -> bool:
    return (
        isinstance(counts, list)
        and len(counts) == BARS
        and all(type(count) is int and 0 <= count < 2**32 for count in counts)
    )


def _tables(tables: tuple[pa.RecordBatch, ...]) -> bool:
    if not 1 <= len(tables) <= 2:
        return False
    body = tables[0]
    if body.schema.names != ["state"] or body.schema.types != [pa.large_binary()] or body.num_rows != 2:
        return False
    return len(tables) == 1 or _told(tables[1])


def _parts(facts: Mapping[str, object], tables: tuple[pa.RecordBatch, ...]) -> bool:
    """Has it only what its strategy looks at, and lets go?"""
    there = {
        "aggressive": len(tables) > 1,
        "adaptive": "delays" in facts,
        "conservative": tables[0].column(0)[1].is_valid or "everywhere" in facts,
    }
    return not any(has for strategy, has in there.items() if strategy != facts["strategy"])


def _told(table: pa.RecordBatch) -> bool:
    names = table.schema.names
    if len(set(names)) < len(names) or not set(NAMED_BY) <= set(names):
        return False
    if any(map(repeats, table.schema.types)):
        return False
    naming = [table.column(name) for name in NAMED_BY]
    return all(column.type == pa.string() and not column.null_count for column in naming)
