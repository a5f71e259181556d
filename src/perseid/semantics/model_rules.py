"""Execute rules over a model: iterations at one point in time, until an iteration requests no change.

Iteration 0 applies the external changes. Its effects (changes, query matches found, updated and lost, pattern matches)
activate rules. All activations, ordered by priority, source position and match, read the model as the iteration left
it; the changes that they request are applied in sequence as the next iteration, at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from perseid.errors import LimitError
from perseid.lang import expressions as ex
from perseid.lang import rules as r
from perseid.semantics.detection import Match as PatternMatch
from perseid.semantics.evaluate import evaluate
from perseid.semantics.graphs import Change, Graph, Happening
from perseid.semantics.model_changes import TransactionEffects, split_input
from perseid.semantics.model_queries import Match
from perseid.semantics.model_values import RowScope, match_key
from perseid.semantics.rules import Rules, column_name
from perseid.semantics.values import Value

ROUNDS, CHANGES = 100, 10_000
"""Limits per point in time: iterations, and changes requested by rules."""
MAX_MOMENTS = 1_000_000
"""Maximum number of timer-driven points in time in one call with an upper time bound."""
_STATES = {"found": "appeared", "updated": "updated", "lost": "disappeared"}


class Model(Protocol):
    """A model that applies transactions: recomputed each time, or incremental."""

    @property
    def graph(self) -> Graph: ...
    def transact(self, time: int, changes: Iterable[Change | Happening]) -> TransactionEffects: ...


class WatchedPatterns(Protocol):
    """Patterns evaluated over the events of a model."""

    def process(self, time: int, effects: TransactionEffects) -> list[PatternMatch]:
        """Return the matches completed by the events of an iteration."""
        ...

    def pass_to(self, time: int) -> list[PatternMatch]:
        """Return the matches decided because no further event occurs before this time."""
        ...

    def next_timer(self) -> int | None:
        """Return the next timer, the first time at which the passing of time may decide something."""
        ...

    def finish(self) -> list[PatternMatch]:
        """Return the matches decided because no further event occurs at all."""
        ...


@dataclass(frozen=True, slots=True)
class Life:
    """State change of a match that triggers a rule: appeared, updated, disappeared, or fired."""

    rule: str
    match: Mapping[str, Value]
    state: str


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A requested change, by a rule or external; ``model`` is the key of the target if it is another model."""

    change: Change
    rule: str | None = None
    model: tuple[Value, ...] | None = None


@dataclass(frozen=True, slots=True)
class Emitted:
    rule: str
    name: str
    values: Mapping[str, Value]


@dataclass(slots=True)
class RuleIteration:
    """One iteration at one point in time: the requested changes, their effects, and the activity of rules."""

    number: int
    requests: list[RequestedChange]
    effects: TransactionEffects
    lifecycle: list[Life] = field(default_factory=list)
    emitted: list[Emitted] = field(default_factory=list)
    elsewhere: list[RequestedChange] = field(default_factory=list)
    matches: list[PatternMatch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Activation:
    rule: r.Rule
    place: int
    names: dict[str, Value]
    match: Match

    def order(self) -> tuple[object, ...]:
        priority = self.rule.priority
        return (priority is None, priority or 0, self.place, match_key(self.match))


@dataclass(slots=True)
class Reacting:
    """A model, the patterns over its events, and its rules."""

    rules: Rules
    model: Model
    watch: WatchedPatterns
    rounds: int = ROUNDS
    changes: int = CHANGES

    def transact(
        self, time: int, changes: Iterable[Change | Happening], decided: Sequence[PatternMatch] = ()
    ) -> list[RuleIteration]:
        """Process one point in time; ``decided`` are matches decided because no event occurred until now."""
        from_outside, happened = split_input(changes)
        requests = [RequestedChange(change) for change in from_outside]
        matches = [*decided, *self.watch.pass_to(time)]
        rounds: list[RuleIteration] = []
        count = 0
        while requests or not rounds:
            effects = self.model.transact(time, [*(one.change for one in requests), *happened])
            happened = []
            matches += self.watch.process(time, effects)
            this = RuleIteration(len(rounds), requests, effects, matches=matches)
            rounds.append(this)
            requests = self._react(this)
            count += len(requests)
            self._guard(requests, len(rounds), count)
            matches = []
        return rounds

    def until(self, time: int | None) -> Iterator[tuple[int, list[RuleIteration]]]:
        """Yield the timer-driven points in time before ``time`` (or all) at which a pattern is decided."""
        timers = 0
        while (timer := self.watch.next_timer()) is not None and (time is None or timer + 1 < time):
            matches = self.watch.pass_to(timer + 1)
            if not matches:
                continue
            rounds = self.transact(timer + 1, (), matches)
            yield timer + 1, rounds
            timers += 1
            if timers > (self.changes if time is None else MAX_MOMENTS):
                fired = [life.rule for life in rounds[0].lifecycle if life.state == "fired"]
                raise self._limit(fired[0] if fired else "", f"still fires after {timers:,} timers without a change")

    def _guard(self, requests: list[RequestedChange], rounds: int, count: int) -> None:
        if requests and (rounds > self.rounds or count > self.changes):
            much = f"{self.rounds:,} iterations" if rounds > self.rounds else f"{self.changes:,} changes"
            raise self._limit(str(requests[0].rule), f"still requests changes after {much} at one time")

    def _limit(self, rule: str, problem: str) -> LimitError:
        span = next((one.span for one in self.rules.rules if one.name == rule), None)
        return LimitError(
            f"Rule {rule!r} {problem}.",
            span=span,
            source=self.rules.source,
            hint="Add a condition that its own actions make false, or raise the limits: "
            "ps.graph.react(…, max_iterations=…, max_changes=…, until=…).",
        )

    def _react(self, this: RuleIteration) -> list[RequestedChange]:
        """Run every active rule; return the changes of this model that they request for the next iteration."""
        requests: list[RequestedChange] = []
        for one in sorted(self._active(this), key=_Activation.order):
            this.lifecycle.append(Life(one.rule.name, one.names, "fired"))
            for block in one.rule.blocks:
                effects = effects_of(block, one.rule.name, one.names, self.model.graph)
                this.emitted += effects.emitted
                (this.elsewhere if block.model else requests).extend(effects.requests)
        return requests

    def _active(self, this: RuleIteration) -> list[_Activation]:
        found = []
        for place, rule in enumerate(self.rules.rules):
            for names, match, change in self._happened(rule, this):
                this.lifecycle.append(Life(rule.name, names, _STATES[change]))
                if isinstance(rule.trigger, r.OnPattern) or rule.trigger.change == change:
                    found.append(_Activation(rule, place, names, match))
        return found

    def _happened(self, rule: r.Rule, this: RuleIteration) -> Iterator[tuple[dict[str, Value], Match, str]]:
        trigger = rule.trigger
        if isinstance(trigger, r.OnPattern):
            parameters = self.rules.parameters[trigger.pattern]
            for match in this.matches:
                if match.pattern == trigger.pattern and match.kind == "match":
                    columns = {**match.key, **match.values}
                    names = {name: columns[name] for name in parameters}
                    yield names, tuple(names.values()), "found"
            return
        for one in this.effects.changes:
            if one.query == trigger.query:
                named = {n: value for n, value in zip(trigger.arguments, one.match, strict=True) if n != "_"}
                yield named, one.match, one.change


# actions


@dataclass(slots=True)
class Effects:
    """Requested changes and emitted rows of a block of actions."""

    requests: list[RequestedChange] = field(default_factory=list)
    emitted: list[Emitted] = field(default_factory=list)


def effects_of(block: r.ActionBlock, rule: str, names: Mapping[str, Value], graph: Graph) -> Effects:
    """Evaluate the actions of a block on the current model."""
    known = dict(names)

    def named(parts: tuple[str, ...]) -> Value:
        value = known[parts[0]]
        return value if len(parts) == 1 else graph.value(value, parts[1])  # type: ignore[arg-type]

    def value_of(expr: ex.Expr) -> Value:
        return evaluate(expr, RowScope(named))

    model = tuple(value_of(key) for key in block.model) or None
    found = Effects()
    for action in block.actions:
        change: Change | None = None
        match action:
            case r.NamedNode():
                known[action.variable] = value_of(action.name)
                if action.create:
                    change = Change("create", known[action.variable], action.type)  # type: ignore[arg-type]
            case r.SetValue():
                value = value_of(action.value)
                change = Change("set", known[action.variable], None, action.attribute, value)  # type: ignore[arg-type]
            case r.DeleteNode():
                change = Change("delete", known[action.variable])  # type: ignore[arg-type]
            case r.LinkNodes():
                ends = known[action.source], known[action.target]
                change = Change(action.action, ends[0], action.edge, target=ends[1])  # type: ignore[arg-type]
            case r.Emit():
                row = {column_name(column): value_of(column.expr) for column in action.columns}
                found.emitted.append(Emitted(rule, action.name, row))
        if change is not None:
            found.requests.append(RequestedChange(change, rule, model))
    return found
