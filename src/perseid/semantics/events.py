"""Events, their identity and their order: the same in the oracle, in every engine and in every sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perseid.errors import NotYetError
from perseid.lang import ast
from perseid.semantics import hashing
from perseid.semantics import values as v


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``time`` is in microseconds since 1970 UTC; ``id`` identifies the event.

    Match ids are computed from the id as a number (see :func:`perseid.semantics.hashing.identity_word`).
    """

    type: str | None
    time: int
    attributes: Mapping[str, object]
    id: str
    occurrence: int = 0
    rank: tuple[object, ...] = field(default=(), compare=False, repr=False)
    """Order before ``id`` among events of one time: the ``order_by`` values as comparable keys and, for events read
    from rows, their identity as a number, as engines compare it."""


def is_of_kind(event: Event, kind: ast.StepKind) -> bool:
    """Return True if a step of this kind may take the event, before any condition."""
    match kind:
        case ast.EventType():
            return event.type == kind.name
        case ast.AnyEvent():
            return True
    raise NotYetError(f"Unsupported step type {type(kind).__name__}: no engine runs it.")


def content_id(columns: Mapping[str, object], names: Sequence[str] | None = None) -> str:
    """Hash all columns of an event by name: its identity if no ``id`` columns are configured.

    ``names`` are the sorted columns of the table, for rows that omit nulls.
    """
    return str(hashing.hash_values([columns.get(name) for name in (sorted(columns) if names is None else names)]))


def arrange(events: Iterable[Event]) -> list[Event]:
    """Sort the events of a partition by time, then ``order_by``, then identity, then occurrence.

    Duplicate events get different occurrence numbers, so a stream with an event twice has two events.
    """
    ordered = sorted(events, key=lambda e: (e.time, e.rank, e.id))
    seen: dict[tuple[int, str], int] = {}
    out = []
    for event in ordered:
        count = seen.get((event.time, event.id), 0)
        seen[event.time, event.id] = count + 1
        out.append(event if count == event.occurrence else replace(event, occurrence=count))
    return out


def match_id(semantic_hash: str, key: Sequence[v.Value], contributions: Iterable[tuple[int, Event]]) -> str:
    """Return 128 bits over the semantic hash of the pattern, the key, and the event at each step.

    No clock and no counter is used: a replay gives the same ids.
    """
    bound_events = ((step, e.time, e.occurrence, hashing.identity_word(e.id)) for step, e in contributions)
    return hashing.match_id(semantic_hash, key, bound_events)
