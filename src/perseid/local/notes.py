"""What a local run can say beside its matches: names that occur in none of the events it was given.

A wrong column is null and a wrong type never comes, so without a schema a slip of the pen is silence. Here all
events are at hand, and silence can be explained.
"""

from __future__ import annotations

from collections.abc import Set

from perseid.compile.plan import Plan
from perseid.errors import nearest
from perseid.lang import ast


def notes(plan: Plan, types: Set[str], columns: Set[str]) -> list[str]:
    """One sentence for each event type and column that no event has."""
    fed = {pattern.name for pattern in plan.patterns}
    wanted = {s.kind.name for p in plan.patterns for s in p.pattern.steps if isinstance(s.kind, ast.EventType)}
    out = [_note(f"no event has the type {name!r}", name, types) for name in sorted(wanted - types - fed)]
    made = {name for p in plan.patterns for name, _ in p.pattern.returns} | {"match_id"}
    for column in plan.columns:
        if column.name not in columns and not (fed and column.name in made):
            out.append(_note(f"no event has a column {column.name!r}", column.name, columns))
    return out


def _note(text: str, name: str, known: Set[str]) -> str:
    near = nearest(name, known)
    return text + (f"; did you mean {near!r}?" if near else ".")
