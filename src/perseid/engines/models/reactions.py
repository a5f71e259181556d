"""Local runs of rules over a declared stream of model changes: changes, emitted rows, requests to other models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from perseid.deprecated import warn_deprecated
from perseid.engines.models.action_log import RuleAction, actions_of
from perseid.engines.models.events import collect_events
from perseid.engines.models.live import LiveModel
from perseid.engines.models.pattern_trigger import plan_triggers
from perseid.engines.models.rule_run import RuleMoment, RuleRun
from perseid.engines.models.stream import Models, change_row, current_matches
from perseid.engines.sequence.results import Matches
from perseid.errors import EventDataError, UnsupportedError
from perseid.lang import rules as r
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from perseid.semantics.detection import Match
from perseid.semantics.model_queries import Match as QueryMatch
from perseid.semantics.model_steps import EventStreamFilter
from perseid.semantics.rules import Rules, column_name
from perseid.semantics.typing import counted

Key = tuple[object, ...]
Row: TypeAlias = dict[str, Any]
"""A row for a table: columns of the stream of changes, and additional ones."""


class Reaction:
    """Effects of rules, as lists of rows (dicts) in time order. Create it with :func:`perseid.graph.react`."""

    def __init__(
        self,
        models: Models,
        rules: Rules,
        moments: Sequence[RuleMoment],
        late: Sequence[Match],
        capped: int,
        live: dict[Key, LiveModel],
    ) -> None:
        """``late`` are the matches of triggers that no rule has acted on, because only the end decides them."""
        self._moments = sorted(moments, key=lambda moment: moment[1])
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
        self.rejected: list[Row] = []
        """Rejected changes, of rules and of the input (no ``rule``), with the reason in ``why``."""
        for rule in rules.rules:
            for emit in (a for block in rule.blocks for a in block.actions if isinstance(a, r.Emit)):
                self.emitted.setdefault(emit.name, [])
        for key, time, iterations in self._moments:
            place = {models.time: v.moment(time), **dict(zip(models.key, key, strict=True))}
            for action in actions_of(iterations):
                self._add(place, action)

    def _add(self, place: Row, action: RuleAction) -> None:
        if action.name is not None:
            self.emitted[action.name].append({**place, **(action.values or {})})
        elif action.change is None:
            entry = {
                "rule": action.rule,
                "match": dict(action.match or {}),
                "state": action.what,
                "round": action.round,
            }
            self.lives.append({**place, **entry})
        elif action.model is not None:
            other = {**place, **dict(zip(self.models.key, action.model, strict=True))}
            self.elsewhere.append(change_row(self.models, other, action.change))
        else:
            row = {**change_row(self.models, place, action.change), "rule": action.rule, "round": action.round}
            if action.what == "rejected":
                self.rejected.append({**row, "why": action.why})
            else:
                self.changes.append(row)

    @property
    def matches(self) -> Matches:
        """All matches of the patterns that trigger rules: those that :meth:`match` finds in the same events."""
        found = [match for _, _, iterations in self._moments for one in iterations for match in one.matches]
        found = sorted([*found, *self._late], key=lambda match: (match.end_us, match.start_us))
        return Matches(found, {"capped": self._capped})

    @property
    def current(self) -> dict[Key, dict[str, list[QueryMatch]]]:
        """The final matches, by model and query."""
        return current_matches(self.live)

    @property
    def standing(self) -> dict[Key, dict[str, list[QueryMatch]]]:
        """The deprecated name of :attr:`current`."""
        warn_deprecated("standing", "current")
        return self.current

    @property
    def refused(self) -> list[Row]:
        """The deprecated name of :attr:`rejected`."""
        warn_deprecated("refused", "rejected")
        return self.rejected

    def events(self, *queries: str) -> pa.Table:
        """Return found, updated and lost matches of the named queries, or of all, iteration by iteration."""
        watched = EventStreamFilter(queries or tuple(self.models.queries.queries), ())
        effects = ((key, time, one.effects) for key, time, iterations in self._moments for one in iterations)
        (rows,), _ = collect_events(self.models.queries, [watched], self.models.key, effects)
        return rows.table(*self.models.name_types())

    def __repr__(self) -> str:
        fired = sum(entry["state"] == "fired" for entry in self.lives)
        emitted = sum(map(len, self.emitted.values()))
        parts = [
            counted(fired, "rule") + " fired",
            counted(len(self.changes), "change"),
            counted(emitted, "row") + " emitted",
        ]
        if self.elsewhere:
            parts.append(f"{len(self.elsewhere)} changes for other models")
        if self.rejected:
            parts.append(f"{len(self.rejected)} changes rejected")
        return f"<reaction: {', '.join(parts)}>"


def react_local(models: Models, rules: Rules, *, until: int | None, rounds: int, changes: int) -> Reaction:
    """Run the rules over every transaction of every model."""
    check_columns(models, rules)
    run = RuleRun(
        rules=rules, patterns=plan_triggers(rules, models.key, models.additional_event_types()), key=models.key, reported=None,
        models={}, triggers={}, until=until, rounds=rounds, changes=changes, budget=models.budget,
    )  # fmt: skip
    moments = [*run.run(models.transactions()), *run.run_timers(Watermark(ended=True))]
    late: list[Match] = []
    for trigger in run.triggers.values():
        # A match decided only by the end of the stream has no time at which a rule could act.
        late += trigger.finish() if until is None else trigger.pass_to(until + 1)
    return Reaction(models, rules, moments, late, run.capped(), run.models)


def check_columns(models: Models, rules: Rules) -> None:
    """Raise an error for emitted columns that clash with time or key, and for model keys of another length."""
    reserved = {models.time, *models.key}
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
                    if name in reserved:
                        raise EventDataError(
                            f"Rule {rule.name} emits a column {name!r}, and every row has that column for its time or model.",
                            hint=f"Remove it, or rename it: {name} as own_{name}.",
                        )


def require_rules_on_spark(stream: Models, until: int | None) -> None:
    """Raise an error for features that rules do not support on Spark."""
    if stream.additional_events is not None:
        raise UnsupportedError(
            "On Spark, rules do not support events beside the model.",
            hint="Match these events with ps.patterns(…).match(…), or run the rules locally.",
        )
    if until is not None and stream.data.isStreaming:
        raise UnsupportedError(
            "until= is unsupported on a stream: its time advances with the watermark.",
            hint="Remove until=, or filter out later rows: df.where(…).",
        )
