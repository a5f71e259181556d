"""What a pattern can tell of one event: which steps it fits, whether it passes their tests, and what later conditions ask of it."""

from __future__ import annotations

from collections.abc import Mapping

from perseid.engines.uncertain.situations import THERE, Symbol, chooses, looks_back, passes
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.events import Event
from perseid.semantics.facts import event_local
from perseid.semantics.names import references
from perseid.semantics.oracle import of_kind
from perseid.semantics.scope import Bindings, MatchScope, holds
from perseid.semantics.values import Relation


def asked_columns(pattern: c.CorePattern) -> frozenset[str]:
    """The columns that any condition reads, bare or behind the name of a step."""
    names = {step.name for step in pattern.steps if step.name is not None}
    found: set[str] = set()
    for step in pattern.steps:
        for expr in (*(k.expr for k in step.choose), *step.must):
            for ref in references(expr).plain:
                head = ref.parts[0]
                if head in names:
                    found.update(ref.parts[1:2])
                elif head not in pattern.unified:
                    found.add(head)
        found.update(path.parts[0] for path, _ in step.unify)
    return frozenset(found)


def symbol_of(pattern: c.CorePattern, event: Event, relations: Mapping[str, Relation]) -> Symbol:
    """What the pattern can tell of an event."""
    names = frozenset(step.name for step in pattern.steps if step.name is not None)
    bits = THERE
    for step in pattern.steps:
        if not of_kind(step.kind, event):
            continue
        own = {} if step.name is None else {step.name: event}
        scope = MatchScope(names, Bindings({}, own, {}), event, relations)
        if all(holds(k.expr, scope) for k in step.choose if event_local(k.expr, step, pattern)):
            bits |= chooses(step.id)
            if all(holds(test, scope) for test in step.must if event_local(test, step, pattern)):
                bits |= passes(step.id)
    if not looks_back(pattern):
        return bits, ()
    asked = sorted(asked_columns(pattern) & event.attributes.keys())
    return bits, tuple((name, v.plain(event.attributes[name])) for name in asked)
