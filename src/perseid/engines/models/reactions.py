"""Local runs of rules over a declared stream of model changes: changes, emitted rows, requests to other models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from perseid.engines.models.events import EventRows
from perseid.engines.models.live import LiveModel
from perseid.engines.models.pattern_trigger import PatternTrigger, plan_triggers
from perseid.engines.models.stream import Models, change_row, standing_matches
from perseid.engines.sequence.results import Matches
from perseid.errors import EventDataError, UnsupportedError
from perseid.lang import rules as r
from perseid.semantics import values as v
from perseid.semantics.detection import Match
from perseid.semantics.model_queries import Match as QueryMatch
from perseid.semantics.model_rules import Life, Reacting, RequestedChange, RuleIteration
from perseid.semantics.model_steps import EventStreamFilter
from perseid.semantics.rules import Rules, column_name

Key = tuple[object, ...]
Row: TypeAlias = dict[str, Any]
"""A row for a table: columns of the stream of changes, and additional ones."""


class Reaction:
    """Effects of rules, in time order; every list has rows for a table. Create it with :func:`perseid.graph.react`."""

    def __init__(
        self,
        models: Models,
        rules: Rules,
        rounds: Sequence[tuple[Key, int, RuleIteration]],
        late: Sequence[Match],
        capped: int,
        live: dict[Key, LiveModel],
    ) -> None:
        self._rounds = sorted(rounds, key=lambda one: one[1])
        self._late = late
        self._capped = capped
        self.models = models
        """The stream that the rules ran over."""
        self.live = live
        """The final models, by key."""
        self.emitted: dict[str, list[Row]] = {}
        """Rows that rules emitted, by name."""
        self.changes: list[Row] = []
        """Changes of rules to their own models, with the requesting ``rule`` and its iteration (``round``)."""
        self.elsewhere: list[Row] = []
        """Changes that rules requested of other models: rows of the stream, to be appended to it."""
        self.lives: list[Row] = []
        """Lifecycle of the matches that trigger rules: appeared, updated, disappeared, and fired."""
        self.refused: list[Row] = []
        """Rejected changes, of rules and of the input (no ``rule``), with the reason in ``why``."""
        for rule in rules.rules:
            for action in (a for block in rule.blocks for a in block.actions if isinstance(a, r.Emit)):
                self.emitted.setdefault(action.name, [])
        for key, time, one in self._rounds:
            self._add(self._place(key, time), one)

    def _add(self, place: Row, one: RuleIteration) -> None:
        reasons = {id(change): why for change, why in one.told.refused}
        for asked in one.asked:
            row = {**change_row(self.models, place, asked.change), "rule": asked.rule, "round": one.number}
            if id(asked.change) in reasons:
                self.refused.append({**row, "why": reasons[id(asked.change)]})
            elif asked.rule is not None:
                self.changes.append(row)
        self.lives += [_life(place, life, one.number) for life in one.lives]
        for told in one.emitted:
            self.emitted[told.name].append({**place, **told.values})
        self.elsewhere += [change_row(self.models, self._other(place, asked), asked.change) for asked in one.elsewhere]

    def _place(self, key: Key, time: int) -> Row:
        return {self.models.time: v.moment(time), **dict(zip(self.models.key, key, strict=True))}

    def _other(self, place: Row, asked: RequestedChange) -> Row:
        assert asked.model is not None
        return {**place, **dict(zip(self.models.key, asked.model, strict=True))}

    @property
    def matches(self) -> Matches:
        """All matches of the patterns that trigger rules: those that :meth:`match` finds in the same events."""
        found = [match for _, _, one in self._rounds for match in one.matches]
        found = sorted([*found, *self._late], key=lambda match: (match.end_us, match.start_us))
        return Matches(found, {"capped": self._capped})

    @property
    def standing(self) -> dict[Key, dict[str, list[QueryMatch]]]:
        """The final matches, by model and query."""
        return standing_matches(self.live)

    def events(self, *queries: str) -> pa.Table:
        """Return found, updated and lost matches of the named queries, or of all, iteration by iteration."""
        watched = EventStreamFilter(queries or tuple(self.models.queries.queries), ())
        rows = EventRows(self.models.queries, watched, self.models.key)
        for key, time, one in self._rounds:
            rows.add(key, time, one.told)
        return rows.table(*self.models.name_types())

    def __repr__(self) -> str:
        fired = sum(life["state"] == "fired" for life in self.lives)
        told = sum(map(len, self.emitted.values()))
        parts = [f"{fired} rules fired", f"{len(self.changes)} changes", f"{told} rows emitted"]
        if self.elsewhere:
            parts.append(f"{len(self.elsewhere)} changes for other models")
        if self.refused:
            parts.append(f"{len(self.refused)} changes rejected")
        return f"<reaction: {', '.join(parts)}>"


def _life(place: Row, life: Life, number: int) -> Row:
    return {**place, "rule": life.rule, "match": dict(life.match), "state": life.state, "round": number}


def react_here(models: Models, rules: Rules, *, until: int | None, rounds: int, changes: int) -> Reaction:
    """Run the rules over every transaction of every model."""
    check_columns(models, rules)
    plans = plan_triggers(rules, models.key, models.shape_of_beside())
    running: dict[Key, Reacting] = {}
    live: dict[Key, LiveModel] = {}
    triggers: dict[Key, PatternTrigger] = {}
    found: list[tuple[Key, int, RuleIteration]] = []

    def noted(key: Key, moments: Iterable[tuple[int, list[RuleIteration]]]) -> None:
        found.extend((key, time, one) for time, told in moments for one in told)

    for key, time, asked in models.transactions():
        if until is not None and time > until:
            continue
        if key not in running:
            live[key] = LiveModel(models.queries)
            triggers[key] = PatternTrigger(models.queries, plans, dict(zip(models.key, key, strict=True)))
            triggers[key].renew_budget(models.budget)
            running[key] = Reacting(rules, live[key], triggers[key], rounds, changes)
        noted(key, running[key].until(time))
        noted(key, [(time, running[key].transact(time, asked))])
    late: list[Match] = []
    for key, one in running.items():
        noted(key, one.until(None if until is None else until + 1))
        # A match decided only by the end of the stream has no time at which a rule could act.
        late += one.watch.finish() if until is None else one.watch.pass_to(until + 1)
    capped = sum(trigger.capped() for trigger in triggers.values())
    return Reaction(models, rules, found, late, capped, live)


def check_columns(models: Models, rules: Rules) -> None:
    """Raise an error for emitted columns that clash with time or key, and for model keys of another length."""
    own = {models.time, *models.key}
    for rule in rules.rules:
        for block in rule.blocks:
            if block.model and len(block.model) != len(models.key):
                raise EventDataError(
                    f"Rule {rule.name} identifies a model by {len(block.model)} values, expected {len(models.key)}.",
                    hint="Use a value for each key column of ps.graph.model(rows, …, key=…).",
                )
            for action in block.actions:
                clash = [column_name(c) for c in action.columns] if isinstance(action, r.Emit) else []
                for name in clash:
                    if name in own:
                        raise EventDataError(
                            f"Rule {rule.name} emits a column {name!r}, and every row has that column for its time or model.",
                            hint=f"Remove it, or rename it: {name} as own_{name}.",
                        )


def require_rules_on_spark(stream: Models, until: int | None) -> None:
    """Raise an error for features that rules do not support on Spark."""
    if stream.beside is not None:
        raise UnsupportedError(
            "On Spark, rules do not support events beside the model.",
            hint="Match these events with ps.patterns(…).match(…), or run the rules locally.",
        )
    if until is not None and stream.data.isStreaming:
        raise UnsupportedError(
            "until= is unsupported on a stream: its time advances with the watermark.",
            hint="Remove until=, or filter out later rows: df.where(…).",
        )
