"""Pattern triggers of rules: process the events of a model, return matches in the iteration that decides them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from perseid.compile.compiler import compile_set
from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.models.events import PLACE, TIME, TYPE, event_values
from perseid.engines.models.pattern_automaton import PatternAutomaton
from perseid.engines.models.pattern_contexts import make_automaton
from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.runtime.search_budget import DEFAULT_BUDGET, PYTHON_STEP_COST, STEPS_PER_EVENT, WORK_PER_STEP, SearchBudget
from perseid.semantics import values as v
from perseid.semantics.binding import bind
from perseid.semantics.check import check
from perseid.semantics.contexts import END_OF_TIME
from perseid.semantics.detection import Match, RawMatch, check_relations, placed_match
from perseid.semantics.events import Event
from perseid.semantics.hashing import identity_of
from perseid.semantics.model_changes import TransactionEffects
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import EventStreamFilter, JoinedEvents, event_columns, grouped
from perseid.semantics.resolve import resolve
from perseid.semantics.rules import Rules
from perseid.semantics.scope import attribute_path
from perseid.semantics.values import Value


def plan_triggers(
    rules: Rules, key: Sequence[str], joined_events: JoinedEvents | None = None
) -> list[tuple[Plan, EventStreamFilter]]:
    """Compile the patterns that trigger rules, grouped by the events that they read."""
    found = []
    for group in grouped(rules.patterns, rules.queries, tuple(key), joined_events=joined_events):
        check(ast.PatternFile(group.patterns))
        plan = compile_set([resolve(bind(pattern)) for pattern in group.patterns])
        check_relations([pattern.pattern for pattern in plan.patterns], {})
        for pattern in plan.patterns:
            if pattern.feeds_on or pattern.pattern.suppress is not None:
                what = "uses matches of another pattern" if pattern.feeds_on else "has a suppress clause"
                raise UnsupportedError(
                    f"Pattern {pattern.name} cannot trigger a rule: it {what}.",
                    hint="Write one pattern with all steps and without suppress: a rule fires immediately.",
                )
        found.append((plan, group.watched))
    return found


class PatternTrigger:
    """The patterns of a plan over one model. Each match is returned once, when it is decided.

    A pattern that exceeds the search budget for one partition between two calls of :meth:`renew_budget` raises
    :class:`SearchBudgetError`.
    """

    def __init__(
        self, queries: Queries, plans: Iterable[tuple[Plan, EventStreamFilter]], key: Mapping[str, Value]
    ) -> None:
        self.streams = [ModelEvents(queries, plan, watched, key) for plan, watched in plans]

    def renew_budget(self, budget: SearchBudget) -> None:
        """Start a call: each partition of each pattern has this budget again."""
        for one in self._patterns():
            one.renew_budget(budget)

    def process(self, time: int, effects: TransactionEffects) -> list[Match]:
        return [match for stream in self.streams for match in stream.process(time, effects)]

    def pass_to(self, time: int) -> list[Match]:
        return [match for one in self._patterns() for match in one.advance(time - 1)]

    def next_timer(self) -> int | None:
        return min((end for one in self._patterns() for end in one.deadlines()), default=None)

    def finish(self) -> list[Match]:
        return [match for one in self._patterns() for match in one.finish()]

    def capped(self) -> int:
        """Partial matches dropped because the limit of a pattern was reached."""
        return sum(
            one.capped + sum(automaton.capped for automaton in one.automata.values()) for one in self._patterns()
        )

    def _patterns(self) -> Iterator[PatternPartitions]:
        return (one for stream in self.streams for one in stream.patterns)


class ModelEvents:
    """The events of a model that some patterns read, numbered as in a table of events."""

    def __init__(self, queries: Queries, plan: Plan, watched: EventStreamFilter, key: Mapping[str, Value]) -> None:
        self.queries = queries
        self.watched = watched
        self.types = event_columns(queries, watched, tuple(key))
        self.key = key
        self.patterns = [PatternPartitions(plan, pattern) for pattern in plan.patterns]
        self.time: int | None = None
        self.place = 0
        self.occurrences: dict[str, int] = {}

    def process(self, time: int, effects: TransactionEffects) -> Iterator[Match]:
        if time != self.time:
            self.time, self.place, self.occurrences = time, 0, {}
        for type_, values in event_values(self.queries, self.watched, effects):
            event = self.event(time, type_, values, self.place)
            self.occurrences[event.id] = occurrence = self.occurrences.get(event.id, -1) + 1
            event = replace(event, occurrence=occurrence)
            self.place += 1
            for one in self.patterns:
                yield from one.feed(event)

    def event(self, time: int, type_: str, values: Mapping[str, Value], place: int) -> Event:
        """Return an event of this model, as the first one with its identity at its time."""
        columns = {TYPE: type_, **self.key}
        for name, kind in self.types.items():
            value = values.get(name)
            columns[name] = value if kind is None else v.conform(value, kind)
        identity = str(identity_of(list(columns.values())))
        return Event(type_, time, {TIME: v.moment(time), PLACE: place, **columns}, identity)


class PatternPartitions:
    """One pattern over all its partitions."""

    def __init__(self, plan: Plan, pattern: PatternPlan) -> None:
        self.plan = plan
        self.pattern = pattern
        self.core = pattern.pattern
        self.columns = [".".join(path.parts) for path in self.core.partition]
        self.automata: dict[object, PatternAutomaton] = {}
        self.passed: int | None = None
        self.capped = 0
        """Partial matches dropped by automata that have been evicted."""
        self.max_work = _work_of(DEFAULT_BUDGET.max_steps)

    def renew_budget(self, budget: SearchBudget) -> None:
        self.max_work = _work_of(budget.max_steps)
        for automaton in self.automata.values():
            automaton.work, automaton.max_work = 0, self.max_work

    def feed(self, event: Event) -> Iterator[Match]:
        automaton = self.automaton(event)
        assert automaton.max_work is not None
        automaton.max_work += _work_of(STEPS_PER_EVENT)
        automaton.feed(event)
        return self._collect(automaton)

    def automaton(self, event: Event) -> PatternAutomaton:
        """Return the automaton of the event's partition; create it if it is missing."""
        values = [v.plain(attribute_path(event.attributes, path.parts)) for path in self.core.partition]
        key = tuple(v.identity(value) for value in values)
        automaton = self.automata.get(key)
        if automaton is None:
            automaton = self.automata[key] = make_automaton(self.plan, self.pattern)
            automaton.max_work = self.max_work
        return automaton

    def advance(self, watermark: int) -> list[Match]:
        self.passed = watermark
        found: list[Match] = []
        for automaton in self.automata.values():
            automaton.advance(watermark)
            found += self._collect(automaton)
        # The order of matches must not depend on the order in which partitions were created.
        return sorted(found, key=lambda match: (match.end_us, match.start_us, match.match_id))

    def finish(self) -> Iterator[Match]:
        for automaton in self.automata.values():
            automaton.finish()
            yield from self._collect(automaton)

    def evict(self, done: int | None) -> None:
        """Evict events not needed once matches up to ``done`` are emitted, and automata without needed events."""
        for key, automaton in list(self.automata.items()):
            if not automaton.evict(done):
                self.capped += automaton.capped
                del self.automata[key]

    def deadlines(self) -> Iterator[int]:
        """Yield the times that, once passed without a further event, may decide a match."""
        for automaton in self.automata.values():
            for end in automaton.deadlines():
                if end < END_OF_TIME and (self.passed is None or end > self.passed):
                    yield end

    def _collect(self, automaton: PatternAutomaton) -> Iterator[Match]:
        for raw in sorted(automaton.collect(), key=_by_end):
            yield placed_match(self.core, raw, automaton.events, self.columns, {})


def _work_of(steps: int) -> int:
    """Convert a step budget to work units; a step in Python costs ``PYTHON_STEP_COST`` steps."""
    return steps * WORK_PER_STEP // PYTHON_STEP_COST


def _by_end(raw: RawMatch) -> tuple[int, int, int]:
    return raw.end, raw.bound_events[-1][1], raw.bound_events[0][1]
