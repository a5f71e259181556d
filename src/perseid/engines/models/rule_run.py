"""Runs the rules of a metamodel over transactions and timers: in a shard, and in a local run.

A local run shares these functions with the step of the engine and does not call the step, because rows of the action
log are text, and a :class:`~perseid.engines.models.reactions.Reaction` has more: values of all types, the final models,
the events of all queries, and the matches of triggers with their events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from perseid.compile.plan import Plan
from perseid.engines.models.live import LiveModel
from perseid.engines.models.pattern_trigger import PatternTrigger
from perseid.engines.models.transactions import Key, Transaction
from perseid.runtime.search_budget import SearchBudget
from perseid.runtime.watermark import Watermark
from perseid.semantics.model_rules import Reacting, RuleIteration
from perseid.semantics.model_steps import EventStreamFilter
from perseid.semantics.rules import Rules

RuleMoment: TypeAlias = "tuple[Key, int, list[RuleIteration]]"
"""The iterations of a model at one time."""


@dataclass(frozen=True, kw_only=True)
class RuleRun:
    """Rules with the models and triggers that they run over. Both dicts are updated, and have the same keys."""

    rules: Rules
    patterns: Sequence[tuple[Plan, EventStreamFilter]]
    """The trigger patterns, compiled for event-by-event evaluation."""
    key: tuple[str, ...]
    """Columns of the model key."""
    reported: tuple[str, ...] | None
    """The queries with matches that are reported; None for all. Those that rules wait for have to be among them."""
    models: dict[Key, LiveModel]
    triggers: dict[Key, PatternTrigger]
    until: int | None
    """The time after which nothing happens; None for no limit."""
    rounds: int
    changes: int
    budget: SearchBudget

    def renew_budget(self) -> None:
        """Start a call: each partition of each trigger pattern has the whole budget again."""
        for trigger in self.triggers.values():
            trigger.renew_budget(self.budget)

    def run(self, transactions: Iterable[Transaction]) -> Iterator[RuleMoment]:
        """Yield the iterations of transactions, and before each those of the timers up to its time."""
        for key, time, changes in transactions:
            if self.until is None or time <= self.until:
                one = self._reacting(key)
                yield from self._timers(key, one, time)
                yield key, time, one.transact(time, changes)

    def run_timers(self, watermark: Watermark) -> Iterator[RuleMoment]:
        """Yield the iterations of the timers that the watermark has passed, for models without a change too."""
        if not self.patterns:
            return
        if watermark.ended:
            end = None if self.until is None else self.until + 1
        elif watermark.current is not None:
            end = watermark.current + 1
        else:
            return
        for key in self.models:
            yield from self._timers(key, self._reacting(key), end)

    def capped(self) -> int:
        """Partial matches dropped because the limit of a pattern was reached."""
        return sum(trigger.capped() for trigger in self.triggers.values())

    def _timers(self, key: Key, one: Reacting, end: int | None) -> Iterator[RuleMoment]:
        """Yield the iterations of the timers of a model before a time; None for all timers."""
        for time, iterations in one.until(end):
            yield key, time, iterations

    def _reacting(self, key: Key) -> Reacting:
        if key not in self.models:
            self.models[key] = LiveModel(self.rules.queries, self.reported)
        if key not in self.triggers:
            self.triggers[key] = PatternTrigger(
                self.rules.queries, self.patterns, dict(zip(self.key, key, strict=True))
            )
            self.triggers[key].renew_budget(self.budget)
        return Reacting(self.rules, self.models[key], self.triggers[key], self.rounds, self.changes)
