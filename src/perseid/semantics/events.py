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
    """One event. ``time`` is microseconds since 1970 UTC; ``id`` is what makes it this event and no other.

    As a number (see :func:`perseid.semantics.hashing.identity_word`) the id takes part in the ids of matches.
    """

    type: str | None
    time: int
    attributes: Mapping[str, object]
    id: str
    occurrence: int = 0
    rank: tuple[object, ...] = field(default=(), compare=False, repr=False)
    """What decides before ``id`` among events of one time: the ``order_by`` values, ready to be compared, and where
    events were read from rows their identity as a number, as engines compare it."""


def is_of_kind(event: Event, kind: ast.StepKind) -> bool:
    """Whether a step of this kind may take the event, before any condition."""
    match kind:
        case ast.EventType():
            return event.type == kind.name
        case ast.AnyEvent():
            return True
    raise NotYetError(f"Steps of this kind ({type(kind).__name__}) parse and print; their engine is still to come.")


def content_id(columns: Mapping[str, object], names: Sequence[str] | None = None) -> str:
    """A hash of all an event's columns by name: its identity where no ``id`` columns are named.

    ``names`` are those of the whole table, sorted, where rows leave out what is null.
    """
    return str(hashing.hash_values([columns.get(name) for name in (sorted(columns) if names is None else names)]))


def arrange(events: Iterable[Event]) -> list[Event]:
    """The events of a partition in their one order: time, then ``order_by``, then identity, then occurrence.

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


def match_id(semantic_hash: str, key: Sequence[v.Value], contributions: Iterable[tuple[int, Event]]) -> str:
    """128 bits over what the pattern means, the key's values and which event stands at which step.

    No clock and no counter takes part: a replay gives the same ids.
    """
    taken = ((step, e.time, e.occurrence, hashing.identity_word(e.id)) for step, e in contributions)
    return hashing.match_id(semantic_hash, key, taken)
