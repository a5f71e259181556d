"""Runs the triggers of rules on the reference interpreter, as the baseline of the rule engine's automaton."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.models import pattern_trigger
from perseid.reference.interpreter import Machine
from perseid.reference.threads import Pending, PendingBranch


class InterpretedAutomaton(Machine):
    """Reference interpreter with the interface of the automaton."""

    def __init__(self, plan: Plan, pattern: PatternPlan) -> None:
        super().__init__(plan, pattern, False, {})

    def deadlines(self) -> Iterator[int]:
        """Yields the times at which a timeout or an absence may be decided without a further event."""
        if self.simulation is not None:
            yield from self.simulation.timers()
            return
        for item in (item for attempt in self.attempts for item in attempt.items):
            if isinstance(item, Pending):
                yield item.end
            elif isinstance(item, PendingBranch):
                yield from (end for end in (item.closing, item.broken) if end is not None)


@contextmanager
def interpreted() -> Iterator[None]:
    """Context in which new automata are those of the reference interpreter."""
    with patch.object(pattern_trigger, "make_automaton", InterpretedAutomaton):
        yield
