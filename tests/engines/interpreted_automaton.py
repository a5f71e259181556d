"""The triggers of rules over the reference interpreter: what the automaton of the rule engine is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.models import pattern_trigger
from perseid.reference.interpreter import Machine
from perseid.reference.threads import Pending, PendingBranch


class InterpretedAutomaton(Machine):
    """The interpreter in the place of an automaton."""

    def __init__(self, plan: Plan, pattern: PatternPlan) -> None:
        super().__init__(plan, pattern, False, {})

    def deadlines(self) -> Iterator[int]:
        """Times whose passing, without a further event, may decide something."""
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
    """Within this context new automata are those of the reference."""
    with patch.object(pattern_trigger, "make_automaton", InterpretedAutomaton):
        yield
