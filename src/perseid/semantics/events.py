"""Events, their identity and their order: the same in the oracle, in every engine and in every sink."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perseid.semantics import values as v


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``time`` is microseconds since 1970 UTC; ``id`` is what makes it this event and no other."""

    type: str | None
    time: int
    attributes: Mapping[str, Any]
    id: str
    occurrence: int = 0
    rank: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """The ``order_by`` values, ready to be compared; decides before identity among events of one time."""


def content_id(type_: str | None, time: int, attributes: Mapping[str, Any]) -> str:
    """64 bits over everything an event has: its identity where no ``id`` columns are named."""
    parts = [repr(type_), repr(time)]
    parts.extend(f"{name!r}={v.identity(v.plain(attributes[name]))!r}" for name in sorted(attributes))
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def arrange(events: Iterable[Event]) -> list[Event]:
    """Events in their one order: time, then ``order_by``, then identity, then occurrence.

    Equal events are told apart by an occurrence number, so a stream that holds an event twice holds two.
    """
    ordered = sorted(events, key=lambda e: (e.time, e.rank, e.id))
    seen: dict[tuple[int, str], int] = {}
    out = []
    for event in ordered:
        count = seen.get((event.time, event.id), 0)
        seen[event.time, event.id] = count + 1
        out.append(event if count == event.occurrence else replace(event, occurrence=count))
    return out


def match_id(semantic_hash: str, key: tuple[object, ...], contributions: Iterable[tuple[int, Event]]) -> str:
    """128 bits over what the pattern means, the key and which event stands at which step.

    No clock and no counter takes part: a replay gives the same ids.
    """
    digest = hashlib.blake2b(semantic_hash.encode(), digest_size=16)
    parts = [repr(key)]
    parts.extend(f"{step}:{event.time}:{event.occurrence}:{event.id}" for step, event in contributions)
    for part in parts:
        written = part.encode("utf-8", "surrogatepass")
        digest.update(len(written).to_bytes(8, "big") + written)
    return digest.hexdigest()
