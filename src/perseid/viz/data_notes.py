"""Notes on faulty data or names, as far as they are detected without tracing runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from perseid.compile.plan import PatternPlan, Plan
from perseid.errors import nearest
from perseid.lang import ast
from perseid.lang.tree_types import describe_type
from perseid.semantics import core as c
from perseid.semantics.events import Event
from perseid.semantics.scope import attribute
from perseid.viz.words import pairs


class Census:
    """Statistics of all given events, of any key: their number by type, and the columns with a value by type."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.types: Counter[str] = Counter()
        self.columns: dict[str | None, set[str]] = {}
        for event in events:
            self.types[event.type or "null"] += 1
            columns = self.columns.setdefault(event.type, set())
            columns.update(name for name, value in event.attributes.items() if value is not None)
        self.known: frozenset[str] = frozenset().union(*self.columns.values())


def data_notes(plan: Plan, pattern_plan: PatternPlan, census: Census, followed: Counter[str]) -> Iterator[str]:
    """Yield notes on the events of one pattern; ``followed`` counts, by type, the events of the traced partitions."""
    if not census.events:
        yield "the input has no events."
        return
    fed = {pattern.name for pattern in plan.patterns}
    yield from _missing_types(pattern_plan.pattern, census, followed, fed)
    yield from _missing_columns(pattern_plan, census, fed)
    yield from _missing_keys(pattern_plan.pattern, census)


def _missing_types(pattern: c.CorePattern, census: Census, followed: Counter[str], fed: set[str]) -> Iterator[str]:
    names = dict.fromkeys(step.kind.name for step in pattern.steps if isinstance(step.kind, ast.EventType))
    needed = {step.kind.name for step in positive_steps(pattern) if isinstance(step.kind, ast.EventType)}
    for name in names:
        if name in fed or followed[name]:
            continue
        number = census.types[name]
        near = nearest(name, census.types)
        # A negated type usually does not occur; only a probable misspelling of it is a fault.
        if not number and (name in needed or near is not None):
            yield f"no event has the type {describe_type(name)!r}{_or_else(near)}"
        elif followed and name in needed:
            paths = [path.parts for path in pattern.partition]
            lost = sum(e.type == name and any(attribute(e, p) is None for p in paths) for e in census.events)
            yield f"no {describe_type(name)} has this key; {number} have other keys{f' ({lost} of them null)' if lost else ''}."


def _missing_columns(pattern_plan: PatternPlan, census: Census, fed: set[str]) -> Iterator[str]:
    for step in pattern_plan.facts.steps:
        kind = pattern_plan.pattern.steps[step.id].kind
        typed = kind.name if isinstance(kind, ast.EventType) else None
        if typed in fed or (typed is not None and typed not in census.columns):
            continue
        available = census.known if typed is None else census.columns[typed]
        for column in step.columns:
            if column not in available:
                subject = "no event" if typed is None or column not in census.known else f"no {typed}"
                yield f"{subject} has a value in column {column!r}{_or_else(nearest(column, available))}"


def _missing_keys(pattern: c.CorePattern, census: Census) -> Iterator[str]:
    """Yield notes on events without a value in the key: they form a separate partition, which is rarely intended."""
    event_types = {step.kind.name for step in pattern.steps if isinstance(step.kind, ast.EventType)}
    for path in pattern.partition:
        if census.events and path.parts[0] not in census.known:
            near = nearest(path.parts[0], census.known)
            yield (
                f"no event has the partition column {path.parts[0]!r}, so all events have one null key{_or_else(near)}"
            )
            continue
        empty = Counter(
            event.type for event in census.events if event.type in event_types and attribute(event, path.parts) is None
        )
        for kind, number in empty.items():
            all_of_them = census.types[kind]
            which = f"no {kind} has" if number == all_of_them else f"{number} of {all_of_them} {kind} have no"
            yield f"{which} {'.'.join(path.parts)}: events with a null key form a separate partition."


def unknown_key(requested: Mapping[str, object], keys: Iterable[Mapping[str, object]]) -> str:
    """Return a note that no event has the requested key, with a similar key or some existing ones."""
    requested_text = pairs(requested)
    available = list(dict.fromkeys(pairs({name: key[name] for name in requested}) for key in keys))
    note = f"no event has {requested_text}"
    near = nearest(requested_text, available)
    if near:
        return f"{note}. Did you mean {near}?"
    same = next((text for text in available if text.replace("'", "") == requested_text.replace("'", "")), None)
    if same:
        return f"{note}; available with another type: {same}."
    return note + (
        f"; available: {', '.join(available[:3])}{', …' if len(available) > 3 else ''}." if available else "."
    )


def positive_steps(pattern: c.CorePattern) -> list[c.CoreStep]:
    """Return the steps that take events of a match: neither negated nor an ``until``."""
    untils = {e.until for e in c.each_of(pattern) if isinstance(e, c.Loop)}
    return [step for step in pattern.steps if not step.negated and step.id not in untils]


def _or_else(near: str | None) -> str:
    return f". Did you mean {near!r}?" if near else "."
