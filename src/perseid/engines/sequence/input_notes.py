"""Notes of a local run: names that occur in none of its events.

A misspelled column is null and a misspelled type never occurs, so without a schema a typo silently gives no match. A
local run has all events, and can report this.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from perseid.compile.plan import Plan
from perseid.engines.sequence.schema import check_conditions
from perseid.errors import PatternError, nearest, warn
from perseid.lang import ast
from perseid.lang.tree_types import describe_type
from perseid.semantics import types as t


def notes(plan: Plan, types: Set[str], columns: Set[str], known: Mapping[str, t.Type] | None = None) -> list[str]:
    """A note for each event type and column that no event has, and for each pattern with an ill-typed condition."""
    fed = {pattern.name for pattern in plan.patterns}
    wanted = {s.kind.name for p in plan.patterns for s in p.pattern.steps if isinstance(s.kind, ast.EventType)}
    negated = wanted - {
        s.kind.name
        for p in plan.patterns
        for s in p.pattern.steps
        if isinstance(s.kind, ast.EventType) and not s.negated
    }
    # A negated type usually does not occur; only a probable misspelling of it is a fault.
    missing = [name for name in sorted(wanted - types - fed) if name not in negated or nearest(name, types)]
    out = [_note(f"no event has the type {describe_type(name)!r}", name, types) for name in missing]
    steps = {s.name for p in plan.patterns for s in p.pattern.steps if s.name}
    out += [_note(f"no event has a column {name!r}", name, columns | steps) for name in _missing_columns(plan, columns)]
    for pattern in plan.patterns if known else ():
        try:
            check_conditions(pattern.pattern, known or {})
        except PatternError as error:
            out.append(f"{pattern.name}: {error.message}")
    return out


def warn_of_keys(plan: Plan, columns: Set[str]) -> None:
    """Warn of keys that no event has: all events then have the same key, and match across entities."""
    keys = {path[0] for route in plan.routes for path in route.paths}
    for name in _missing_columns(plan, columns):
        if name in keys:
            warn(_note(f"All events share one null key: no event has a column {name!r}", name, columns))


def _missing_columns(plan: Plan, columns: Set[str]) -> list[str]:
    """Columns that patterns read but that neither events nor matches that feed patterns have."""
    feeding = {name for pattern in plan.patterns for name in pattern.feeds_on}
    returned = {name for p in plan.patterns if p.name in feeding for name, _ in p.pattern.returns}
    available = columns | returned | ({"match_id"} if feeding else set())
    return [column.name for column in plan.columns if column.name not in available]


def _note(text: str, name: str, known: Set[str]) -> str:
    near = nearest(name, known)
    return text + (f". Did you mean {describe_type(near)!r}?" if near else ".")
