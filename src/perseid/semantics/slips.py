"""Lints: valid constructs that look like typos, where no schema decides."""

from __future__ import annotations

from collections.abc import Iterator

from perseid.errors import nearest
from perseid.lang import ast
from perseid.semantics.names import references


def slips(pattern: ast.PatternDefinition) -> Iterator[str]:
    """Warn about a dotted name in a step's condition that resembles a step name; it may be a struct field."""
    steps = list(ast.steps(pattern.match))
    known = {s.name for s in steps if s.name} | {u.name for s in steps for u in s.unify}
    seen = set()
    for step in steps:
        for expr in (step.condition, step.must):
            if expr is None:
                continue
            found = references(expr)
            for ref in (*found.plain, *(ref for _, ref in found.aggregated)):
                head = ref.parts[0]
                near = nearest(head, known) if len(ref.parts) > 1 and head not in known else None
                if near is not None and head not in seen:
                    seen.add(head)
                    name = ".".join(ref.parts)
                    yield (
                        f"Pattern {pattern.name}: no step is named {head!r}, so {name} is read as a field of the "
                        f"event's own column {head!r}. Did you mean {'.'.join((near, *ref.parts[1:]))}?"
                    )
