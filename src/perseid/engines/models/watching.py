"""Patterns that look at a model while rules change it: fed event by event, asked after each round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from perseid.compile.compiler import compile_set
from perseid.compile.interpreter import STEP_WORK, Machine
from perseid.compile.plan import PatternPlan, Plan
from perseid.compile.threads import Pending, Waiting
from perseid.engines.models.events import PLACE, TIME, TYPE, event_values
from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.runtime.search_budget import DEFAULT_BUDGET, PYTHON_STEP_COST, STEPS_PER_EVENT, SearchBudget
from perseid.semantics import values as v
from perseid.semantics.binding import bind
from perseid.semantics.check import check
from perseid.semantics.contexts import END_OF_TIME
from perseid.semantics.detection import Match, RawMatch, check_relations, placed_match
from perseid.semantics.events import Event
from perseid.semantics.hashing import identity_of
from perseid.semantics.model_oracle import Told
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import Beside, Watched, event_columns, grouped
from perseid.semantics.resolve import resolve
from perseid.semantics.rules import Rules
from perseid.semantics.scope import attribute_path
from perseid.semantics.values import Value


def planned(rules: Rules, key: Sequence[str], beside: Beside | None = None) -> list[tuple[Plan, Watched]]:
    """The patterns that rules wait for, compiled, by the events they are asked of."""
    found = []
    for group in grouped(rules.patterns, rules.queries, tuple(key), beside=beside):
        check(ast.PatternFile(group.patterns))
        plan = compile_set([resolve(bind(pattern)) for pattern in group.patterns])
        check_relations([pattern.pattern for pattern in plan.patterns], {})
        for pattern in plan.patterns:
            if pattern.feeds_on or pattern.pattern.suppress is not None:
                what = "takes matches of another" if pattern.feeds_on else "suppresses some of its matches"
                raise UnsupportedError(
                    f"A rule waits for the pattern {pattern.name}, which {what}.",
                    hint="A rule acts at once: ask for all of it in one pattern, without suppress.",
                )
        found.append((plan, group.watched))
    return found


class PatternWatch:
    """The patterns of a plan over one model. Matches are those of the whole run, each told when it is decided.

    A pattern that exceeds the search budget, for one partition between two calls of :meth:`renew_budget`, is a
    :class:`SearchBudgetError`.
    """

    def __init__(self, queries: Queries, plans: Iterable[tuple[Plan, Watched]], key: Mapping[str, Value]) -> None:
        self.streams = [PatternStream(queries, plan, watched, key) for plan, watched in plans]

    def renew_budget(self, budget: SearchBudget) -> None:
        """Start a call, in which each partition of each pattern has this budget."""
        for stream in self.streams:
            for one in stream.watched_by:
                one.renew_budget(budget)

    def take(self, time: int, told: Told) -> list[Match]:
        return [match for stream in self.streams for match in stream.take(time, told)]

    def pass_to(self, time: int) -> list[Match]:
        return [match for stream in self.streams for one in stream.watched_by for match in one.advance(time - 1)]

    def wake(self) -> int | None:
        ends = [end for stream in self.streams for one in stream.watched_by for end in one.wakes()]
        return min(ends, default=None)

    def finish(self) -> list[Match]:
        return [match for stream in self.streams for one in stream.watched_by for match in one.finish()]

    def capped(self) -> int:
        """Attempts given up because more were open than a pattern keeps."""
        watched = [one for stream in self.streams for one in stream.watched_by]
        return sum(one.capped + sum(machine.capped for machine in one.machines.values()) for one in watched)


class PatternStream:
    """The events of a model that some patterns are asked of, numbered as a table of them would be."""

    def __init__(self, queries: Queries, plan: Plan, watched: Watched, key: Mapping[str, Value]) -> None:
        self.queries = queries
        self.watched = watched
        self.types = event_columns(queries, watched, tuple(key))
        self.key = key
        self.watched_by = [WatchedPattern(plan, pattern) for pattern in plan.patterns]
        self.time: int | None = None
        self.place = 0
        self.seen: dict[str, int] = {}

    def take(self, time: int, told: Told) -> Iterator[Match]:
        if time != self.time:
            self.time, self.place, self.seen = time, 0, {}
        for type_, values in event_values(self.queries, self.watched, told):
            event = self.event(time, type_, values, self.place)
            self.seen[event.id] = occurrence = self.seen.get(event.id, -1) + 1
            event = replace(event, occurrence=occurrence)
            self.place += 1
            for one in self.watched_by:
                yield from one.feed(event)

    def event(self, time: int, type_: str, values: Mapping[str, Value], place: int) -> Event:
        """An event of this model, the first like it at its time."""
        columns = {TYPE: type_, **self.key}
        for name, kind in self.types.items():
            value = values.get(name)
            columns[name] = value if kind is None else v.conform(value, kind)
        identity = str(identity_of(list(columns.values())))
        return Event(type_, time, {TIME: v.moment(time), PLACE: place, **columns}, identity)


class WatchedPattern:
    """One pattern over all its partitions."""

    def __init__(self, plan: Plan, pattern: PatternPlan) -> None:
        self.plan = plan
        self.pattern = pattern
        self.core = pattern.pattern
        self.columns = [".".join(path.parts) for path in self.core.partition]
        self.machines: dict[object, Machine] = {}
        self.passed: int | None = None
        self.capped = 0
        """Attempts that machines gave up which are there no more."""
        self.max_work = _max_work(DEFAULT_BUDGET)

    def renew_budget(self, budget: SearchBudget) -> None:
        self.max_work = _max_work(budget)
        for machine in self.machines.values():
            machine.work, machine.max_work = 0, self.max_work

    def feed(self, event: Event) -> Iterator[Match]:
        machine = self.machine(event)
        assert machine.max_work is not None
        machine.max_work += STEPS_PER_EVENT * STEP_WORK
        machine.feed(event)
        return self._collect(machine)

    def machine(self, event: Event) -> Machine:
        """The one for the event's partition."""
        values = [v.plain(attribute_path(event.attributes, path.parts)) for path in self.core.partition]
        key = tuple(v.identity(value) for value in values)
        machine = self.machines.get(key)
        if machine is None:
            machine = self.machines[key] = Machine(self.plan, self.pattern, False, {})
            machine.max_work = self.max_work
        return machine

    def advance(self, watermark: int) -> list[Match]:
        self.passed = watermark
        found: list[Match] = []
        for machine in self.machines.values():
            machine.advance(watermark)
            found += self._collect(machine)
        # Partitions are joined in an order that does not hang on which of them was met first.
        return sorted(found, key=lambda match: (match.end, match.start, match.match_id))

    def finish(self) -> Iterator[Match]:
        for machine in self.machines.values():
            machine.finish()
            yield from self._collect(machine)

    def wakes(self) -> Iterator[int]:
        for machine in self.machines.values():
            for end in _deadlines(machine):
                if end < END_OF_TIME and (self.passed is None or end > self.passed):
                    yield end

    def _collect(self, machine: Machine) -> Iterator[Match]:
        for raw in sorted(machine.collect(), key=_by_end):
            yield placed_match(self.core, raw, machine.events, self.columns, {})


def _max_work(budget: SearchBudget) -> int:
    """Work beside that of each event: a step in Python counts for many, as one with conditions in Python does."""
    return budget.max_steps * STEP_WORK // PYTHON_STEP_COST


def _deadlines(machine: Machine) -> Iterator[int]:
    """Times whose passing, without a further event, may decide something."""
    if machine.simulation is not None:
        yield from machine.simulation.wakes()
        return
    for item in (item for attempt in machine.attempts for item in attempt.items):
        if isinstance(item, Pending):
            yield item.end
        elif isinstance(item, Waiting):
            yield from (end for end in (item.closing, item.broken) if end is not None)


def _by_end(raw: RawMatch) -> tuple[int, int, int]:
    return raw.end, raw.taken[-1][1], raw.taken[0][1]
