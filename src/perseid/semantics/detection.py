"""Evaluate patterns over events: partitioning, patterns over matches of patterns, output rows, suppression.

The matcher of one partition is passed as a function, so that the oracle and every engine are called in the same way.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from perseid.errors import BindingError, SemanticError, nearest
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.evaluate import evaluate
from perseid.semantics.events import Event, arrange, match_id
from perseid.semantics.scope import Bindings, MatchScope, attribute_path


@dataclass(frozen=True, slots=True)
class RawMatch:
    """A match in one partition, as pairs of step and event position."""

    bound_events: tuple[tuple[int, int], ...]
    end: int
    kind: str = "match"
    unified: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Partition:
    """Matcher result for one partition."""

    found: list[RawMatch]
    frontier: int | None
    """Time up to which the matches are complete; None if the stream has ended."""
    capped: int = 0
    """Partial matches dropped because the pattern's cap was reached."""


class Matcher(Protocol):
    """Finds the matches of one partition."""

    def __call__(
        self,
        pattern: c.CorePattern,
        events: Sequence[Event],
        *,
        horizon: int | None,
        strictly_later: bool,
        relations: Mapping[str, v.Relation],
    ) -> Partition: ...


@dataclass(frozen=True, slots=True)
class Match:
    """One match, or one timed-out run if the pattern reports timeouts."""

    pattern: str
    match_id: str
    kind: str
    key: Mapping[str, Any]
    start_us: int
    end_us: int
    """Microseconds since 1970 UTC; a timed absence at the end counts, so the end may be after the last event."""
    bindings: Mapping[str, tuple[Event, ...]]
    """The events of each named step, in order."""
    contributing: tuple[tuple[int, Event], ...]
    values: Mapping[str, Any]
    """The returned columns."""
    evidence: tuple[Mapping[str, Any], ...] | None = None
    evidence_dropped: int = 0
    op: str = "+"
    revision: int = 0

    @property
    def start(self) -> dt.datetime:
        """The time of the first event."""
        return v.EPOCH + dt.timedelta(microseconds=self.start_us)

    @property
    def end(self) -> dt.datetime | None:
        """The end of the match; None after the year 9999, which a timed absence can reach."""
        return v.moment(self.end_us)

    def __repr__(self) -> str:
        """One-line summary."""
        steps = ", ".join(f"{name}×{len(events)}" for name, events in self.bindings.items())
        return f"<{self.kind} of {self.pattern}: {dict(self.key)} {steps} {dict(self.values)}>"


@dataclass(frozen=True, slots=True)
class Detection:
    """Result of a run over finite events: matches and counters."""

    matches: tuple[Match, ...]
    suppressed: int = 0
    evidence_dropped: int = 0
    capped: int = 0

    def counters(self) -> dict[str, int]:
        return {
            "suppressed": self.suppressed,
            "evidence_dropped": self.evidence_dropped,
            "capped": self.capped,
        }


def feeding_order(patterns: Sequence[c.CorePattern]) -> list[c.CorePattern]:
    """Sort the patterns with every producer before its consumers; a cycle is an error."""
    by_name = {p.name: p for p in patterns}
    order: list[c.CorePattern] = []
    state: dict[str, str] = {}

    def visit(pattern: c.CorePattern, trail: tuple[str, ...]) -> None:
        if state.get(pattern.name) == "done":
            return
        if pattern.name in trail:
            circle = " feeds ".join([*trail[trail.index(pattern.name) :], pattern.name])
            raise SemanticError(f"Patterns feed each other in a cycle: {circle}.", hint="Break the cycle.")
        for producer in feeds(pattern, by_name):
            visit(by_name[producer], (*trail, pattern.name))
        state[pattern.name] = "done"
        order.append(pattern)

    for pattern in patterns:
        visit(pattern, ())
    return order


def feeds(pattern: c.CorePattern, names: Collection[str]) -> list[str]:
    """Return the names of the given patterns that feed this one with matches; ``names`` is best a set or dict."""
    event_types = [s.kind.name for s in pattern.steps if isinstance(s.kind, ast.EventType)]
    return list(dict.fromkeys(n for n in event_types if n in names))


def detect(
    patterns: Sequence[c.CorePattern],
    events: Iterable[Event],
    matcher: Matcher,
    *,
    horizon: int | None = None,
    strictly_later: bool = False,
    dedupe: bool = False,
    relations: Mapping[str, Iterable[Iterable[object]]] | None = None,
) -> Detection:
    """Return all matches of a set of patterns over finite events, sorted by their end.

    With ``dedupe``, events of one partition with equal times and identities count once.
    """
    listed = {name: [tuple(row) for row in rows] for name, rows in (relations or {}).items()}
    check_relations(patterns, listed)
    tables = {name: v.Relation(rows) for name, rows in listed.items()}
    stream = list(events)
    names = {p.name for p in patterns}
    produced: dict[str, list[Event]] = {}
    frontiers: dict[str, int | None] = {}
    out: list[Match] = []
    suppressed = capped = 0
    for index, pattern in enumerate(feeding_order(patterns)):
        producers = feeds(pattern, names)
        inputs = [*stream, *(event for producer in producers for event in produced[producer])]
        bound = horizon
        for producer in producers:
            frontier = frontiers[producer]
            bound = frontier if bound is None or (frontier is not None and frontier < bound) else bound
        found, frontier, given_up = _of_pattern(pattern, inputs, matcher, bound, strictly_later, dedupe, tables)
        capped += given_up
        if pattern.suppress is not None and frontier is not None:
            # An earlier match that is still pending may suppress a later one.
            found = [m for m in found if m.kind != "match" or m.end_us <= frontier]
        emitted = _suppress(pattern, found)
        suppressed += len(found) - len(emitted)
        out.extend(emitted)
        frontiers[pattern.name] = frontier
        produced[pattern.name] = [_as_event(m, index, i) for i, m in enumerate(emitted) if m.kind == "match"]
    out.sort(key=lambda m: (m.end_us, m.start_us))
    return Detection(tuple(out), suppressed, sum(m.evidence_dropped for m in out), capped)


def check_relations(patterns: Sequence[c.CorePattern], tables: Mapping[str, list[tuple[object, ...]]]) -> None:
    """Raise if a relation used by a pattern is missing or has rows of the wrong width."""
    for pattern in patterns:
        for expr in expressions_of(pattern):
            for part in ex.walk(expr):
                if isinstance(part, ex.InRelation) and part.relation not in tables:
                    raise BindingError(
                        f"Pattern {pattern.name} uses the relation {part.relation!r}, which is missing.",
                        nearest=nearest(part.relation, tables),
                        hint=f"Use relations={{{part.relation!r}: [(…), …]}}.",
                    )
                if isinstance(part, ex.InRelation) and tables[part.relation]:
                    width = len(tables[part.relation][0])
                    if width != len(part.values):
                        raise BindingError(
                            f"Relation {part.relation!r} has rows of {width} values; "
                            f"pattern {pattern.name} expects {len(part.values)}."
                        )


def expressions_of(pattern: c.CorePattern) -> list[ex.Expr]:
    """Return every expression of a pattern: guards, conditions and outputs."""
    out: list[ex.Expr] = list(c.guards_of(pattern))
    for step in pattern.steps:
        out.extend(condition.expr for condition in step.choose)
        out.extend(step.must)
    out.extend(expr for _, expr in pattern.returns)
    return out


def _of_pattern(
    pattern: c.CorePattern,
    events: Sequence[Event],
    matcher: Matcher,
    horizon: int | None,
    strictly_later: bool,
    dedupe: bool,
    tables: Mapping[str, v.Relation],
) -> tuple[list[Match], int | None, int]:
    partitions: dict[object, list[Event]] = {}
    columns = [".".join(path.parts) for path in pattern.partition]
    for event in events:
        values = [v.plain(attribute_path(event.attributes, path.parts)) for path in pattern.partition]
        key = tuple(v.identity(value) for value in values)
        partitions.setdefault(key, []).append(event)
    out: list[Match] = []
    frontier, capped = horizon, 0
    for members in partitions.values():
        rows = [event for event in arrange(members) if not (dedupe and event.occurrence)]
        part = matcher(pattern, rows, horizon=horizon, strictly_later=strictly_later, relations=tables)
        out.extend(placed_match(pattern, raw, rows, columns, tables) for raw in part.found)
        capped += part.capped
        if part.frontier is not None and (frontier is None or part.frontier < frontier):
            frontier = part.frontier
    # Sort by a total order that does not depend on the order of the partitions.
    out.sort(key=lambda m: (m.end_us, m.start_us, m.match_id))
    return out, frontier, capped


def placed_match(
    pattern: c.CorePattern,
    raw: RawMatch,
    rows: Sequence[Event],
    columns: Sequence[str],
    tables: Mapping[str, v.Relation],
) -> Match:
    """Build a match from event positions in a partition; ``columns`` are the names of its key."""
    contributing = tuple((step, rows[position]) for step, position in raw.bound_events)
    # Equal keys may differ in form (1 and 1.0): a match has the key of its first event.
    first_key = [v.plain(attribute_path(contributing[0][1].attributes, path.parts)) for path in pattern.partition]
    key = dict(zip(columns, first_key, strict=True))
    scope = match_scope(pattern, contributing, raw.unified, tables)
    return make_match(
        pattern,
        contributing,
        match_id=match_id(pattern.semantic_hash, tuple(key.values()), contributing),
        kind=raw.kind,
        key=key,
        end=raw.end,
        values={name: evaluate(expr, scope) for name, expr in pattern.returns},
    )


Contributing: TypeAlias = Sequence[tuple[int, Event]]
"""The events of a match in order, each with its step."""


def match_scope(
    pattern: c.CorePattern,
    contributing: Contributing,
    unified: Mapping[str, object],
    tables: Mapping[str, v.Relation],
) -> MatchScope:
    """Return the scope that evaluates the returned expressions of a match."""
    bound = _bound_events(pattern, contributing)
    names = frozenset(s.name for s in pattern.steps if s.name is not None)
    current = {name: events[-1] for name, events in bound.items()}
    current_event = contributing[0][1] if pattern.lone_step is not None else None
    return MatchScope(names, Bindings(bound, current, unified), current_event, tables)


def make_match(
    pattern: c.CorePattern,
    contributing: Contributing,
    *,
    match_id: str,
    kind: str,
    key: Mapping[str, object],
    end: int,
    values: Mapping[str, object],
) -> Match:
    """Build a match from its events and the computed values."""
    evidence, dropped = None, 0
    if pattern.evidence is not None:
        included = contributing[: pattern.evidence.limit]
        dropped = len(contributing) - len(included)
        evidence = tuple(dict(event.attributes) for _, event in included)
    return Match(
        pattern=pattern.name,
        match_id=match_id,
        kind=kind,
        key=key,
        start_us=contributing[0][1].time,
        end_us=end,
        bindings={name: tuple(events) for name, events in _bound_events(pattern, contributing).items()},
        contributing=tuple(contributing),
        values=values,
        evidence=evidence,
        evidence_dropped=dropped,
    )


def _bound_events(pattern: c.CorePattern, contributing: Contributing) -> dict[str, list[Event]]:
    bound: dict[str, list[Event]] = {}
    for step, event in contributing:
        name = pattern.steps[step].name
        if name is not None:
            bound.setdefault(name, []).append(event)
    return bound


def _suppress(pattern: c.CorePattern, found: list[Match]) -> list[Match]:
    """Drop matches too soon after one with equal ``by`` values; timeouts are not affected."""
    suppress = pattern.suppress
    if suppress is None:
        return found
    assert isinstance(suppress.duration, int)
    last: dict[object, int] = {}
    emitted = []
    for match in found:
        if match.kind != "match":
            emitted.append(match)
            continue
        columns = {**match.values, **match.key}  # as in the output, where the column of that name is the key
        by = suppress.by or tuple(match.key)
        group = tuple(v.identity(v.plain(columns[name])) for name in by)
        if group in last and match.end_us - last[group] < suppress.duration:
            continue
        last[group] = match.end_us
        emitted.append(match)
    return emitted


def _as_event(match: Match, index: int, number: int) -> Event:
    """Convert a match to an event for other patterns; it sorts after the events of its own time."""
    attributes = {**match.values, **match.key, "match_id": match.match_id}
    return Event(match.pattern, match.end_us, attributes, match.match_id, 0, (1, index, number))
