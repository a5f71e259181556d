"""The reference interpreter as a matcher of finite events, comparable with the oracle and the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perseid.compile.plan import Plan
from perseid.reference.interpreter import Machine
from perseid.semantics import core as c
from perseid.semantics.detection import Matcher, Partition, RawMatch
from perseid.semantics.events import Event
from perseid.semantics.values import Relation


def plan_matcher(plan: Plan) -> Matcher:
    """Return the interpreter as a matcher of the plan's patterns."""
    by_name = {pattern.name: pattern for pattern in plan.patterns}

    def run(
        pattern: c.CorePattern,
        events: Sequence[Event],
        *,
        horizon: int | None,
        strictly_later: bool,
        relations: Mapping[str, Relation],
    ) -> Partition:
        machine = Machine(plan, by_name[pattern.name], strictly_later, relations)
        for event in events:
            if horizon is None or event.time <= horizon:
                machine.feed(event)
        if horizon is None:
            machine.finish()
            return Partition(_ordered(machine.collect()), None, machine.capped)
        machine.advance(horizon)
        frontier = min([horizon, *(end - 1 for end in machine.undecided_ends())])
        return Partition(_ordered(machine.collect()), frontier, machine.capped)

    return run


def _ordered(found: list[RawMatch]) -> list[RawMatch]:
    return sorted(found, key=lambda m: (m.end, m.bound_events[-1][1], m.bound_events[0][1]))
