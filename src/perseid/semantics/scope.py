"""Expression scope over a partial match: names resolve to events, unified values, and the current event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perseid.lang.expressions import Expr, Ref
from perseid.semantics import values as v
from perseid.semantics.evaluate import evaluate, is_true
from perseid.semantics.events import Event


@dataclass(frozen=True, slots=True)
class Bindings:
    """Bindings of a partial match, by step name.

    ``events`` holds all events of a step in order (for aggregates); ``current`` holds the event of the current
    iteration, absent if it has none (for plain names).
    """

    events: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    current: Mapping[str, Event] = field(default_factory=dict)
    unified: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MatchScope:
    """Evaluator scope over bindings and, in a step's condition, the current event."""

    names: frozenset[str]
    bindings: Bindings
    current_event: Event | None = None
    relations: Mapping[str, v.Relation] = field(default_factory=dict)

    def ref(self, parts: tuple[str, ...]) -> object:
        head, rest = parts[0], parts[1:]
        if head in self.names:
            event = self.bindings.current.get(head)
            return attribute(event, rest) if event is not None and rest else None
        if head in self.bindings.unified:
            return attribute_path(self.bindings.unified[head], rest)
        return attribute(self.current_event, parts) if self.current_event is not None else None

    def rounds(self, names: frozenset[str]) -> Iterable[MatchScope]:
        step = next((n for n in sorted(names) if n in self.names), None)
        if step is None:
            return
        bound = self.bindings.events.get(step, ())
        for i, event in enumerate(bound):
            events = {**self.bindings.events, step: bound[: i + 1]}
            current = {**self.bindings.current, step: event}
            yield MatchScope(
                self.names, Bindings(events, current, self.bindings.unified), self.current_event, self.relations
            )

    def is_step(self, name: str) -> bool:
        return name in self.names

    def param(self, name: str) -> object:
        return None

    def relation(self, name: str) -> v.Relation | None:
        return self.relations.get(name)

    def time(self, step: str | None) -> datetime | None:
        event = self.current_event if step is None else self.bindings.current.get(step)
        return None if event is None else v.moment(event.time)

    def event_type(self, step: str | None) -> str | None:
        event = self.current_event if step is None else self.bindings.current.get(step)
        return None if event is None else event.type


def attribute(event: Event, path: tuple[str, ...]) -> object:
    """Return a column of an event, or a nested field; null if missing."""
    return attribute_path(event.attributes.get(path[0]), path[1:])


def attribute_path(value: object, path: tuple[str, ...]) -> object:
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def holds(expr: Expr, scope: MatchScope) -> bool:
    """Return True if the condition is true; null is not."""
    return is_true(evaluate(expr, scope))


def unify(pairs: Iterable[tuple[Ref, str]], event: Event, unified: Mapping[str, object]) -> Mapping[str, object] | None:
    """Add the event's unified values; None if one differs, and null unifies with nothing."""
    out: dict[str, object] | None = None
    for path, name in pairs:
        value = v.plain(attribute(event, path.parts))
        if value is None:
            return None
        known = unified if out is None else out
        if name in known:
            if v.equal(v.plain(known[name]), value) is not True:
                return None
        else:
            out = {**known, name: value}
    return unified if out is None else out
