"""The action log of rules: one table of all their effects, because a stream has one output table.

For each transaction of a model, iteration by iteration: applied and rejected changes, the lifecycle of matches, emitted
rows, and changes requested of other models. Time, model key and place in the transaction identify a row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from perseid.engines.models.plan import ROLES, role_values
from perseid.engines.models.transactions import Key
from perseid.engines.sequence.columns import arrow_type
from perseid.errors import EventDataError
from perseid.runtime.arrays import MOMENT
from perseid.semantics import values as v
from perseid.semantics.graphs import Change
from perseid.semantics.hashing import hash_values, hash_words, match_seeds
from perseid.semantics.model_rules import RuleIteration
from perseid.semantics.values import Value

BEFORE, AFTER = ("rule", "round", "place", "what"), ("name", "values", "match", "why", "id")
"""Columns before and after the role columns of a change."""
_TEXTS = pa.map_(pa.string(), pa.string())
_NO_CHANGE = (None,) * len(ROLES)
_TYPES = {"round": pa.int32(), "place": pa.int32(), "values": _TEXTS, "match": _TEXTS}


def action_log_schema(
    time: str, key: Mapping[str, pa.DataType], roles: Mapping[str, str], element: pa.DataType
) -> pa.Schema:
    """Return the schema of the log, with the stream's names for time, key and roles; ``element`` types node names."""
    named = [time, *key, *BEFORE, *(roles[role] for role in ROLES), *AFTER]
    seen: dict[str, str] = {}
    for name in named:
        # Spark resolves column names case-insensitively.
        if name.lower() in seen:
            raise EventDataError(
                f"Name conflict: the action log has a column {seen[name.lower()]!r}, and the stream has another column of that name.",
                hint=f"Rename the column first: df.withColumnRenamed({name!r}, {'own_' + name!r}).",
            )
        seen[name.lower()] = name
    types: dict[str, pa.DataType] = {time: MOMENT, **key, **_TYPES}
    types |= dict.fromkeys((roles["element"], roles["target"]), element)
    return pa.schema([(name, types.get(name, pa.string())) for name in named])


class RuleAction(NamedTuple):
    """An action: a row of the log without time, model key and place, and with values of all types."""

    what: str
    rule: str | None
    """None for a change of the input."""
    round: int
    """The iteration of the rule."""
    change: Change | None = None
    model: Key | None = None
    """The key of the target if it is another model."""
    name: str | None = None
    """The name of an emitted row."""
    values: Mapping[str, Value] | None = None
    match: Mapping[str, Value] | None = None
    why: str | None = None


class ActionLog:
    """Collects the rows of an action log."""

    def __init__(self, schema: pa.Schema, key: Sequence[pa.DataType], element: pa.DataType) -> None:
        """``key`` and ``element`` are the types of the model key and of node names."""
        self.schema = schema
        self.key = [arrow_type(kind) for kind in key]
        self.element: type = str if pa.types.is_string(element) else int
        self.rows: list[tuple[object, ...]] = []

    def add(self, key: Key, time: int, iterations: Iterable[RuleIteration]) -> None:
        """Add the actions at one time of a model."""
        for place, action in enumerate(actions_of(iterations)):
            model = key if action.model is None else self._model(action.rule, action.model)
            change = _NO_CHANGE if action.change is None else self._change(action.rule, action.change)
            values, match = _texts(action.values), _texts(action.match)
            self.rows.append(
                (
                    *(time, *model, action.rule, action.round, place, action.what, *change),
                    *(action.name, values, match, action.why, _identity(key, time, place)),
                )
            )

    def _model(self, rule: str | None, identifier: Key) -> Key:
        """Key of the target model, cast to the types of the key."""
        model = tuple(v.conform(value, kind) for value, kind in zip(identifier, self.key, strict=True))
        for value, found, kind in zip(identifier, model, self.key, strict=True):
            if value is not None and found is None:
                raise EventDataError(
                    f"Rule {rule} identifies a model by {value!r}, expected a value of type {kind}.",
                    hint=f"Use: for model cast(… as {kind}) do ….",
                )
        return model

    def _change(self, rule: str | None, change: Change) -> tuple[object, ...]:
        """The role columns of a change, with its value as text."""
        for element in (change.element, change.target):
            if element is not None and type(element) is not self.element:
                raise EventDataError(
                    f"Rule {rule} uses {element!r} as the name of a node, expected {'a string' if self.element is str else 'an integer'}.",
                    hint="Use the same type for the names of all nodes: cast(… as string), or cast(… as bigint).",
                )
        action, named, kind, attribute, value, target = role_values(change)
        return action, named, kind, attribute, text_of(v.scalar(value)), target

    def table(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) if self.rows else [()] * len(self.schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.table(arrays, schema=self.schema)


def actions_of(iterations: Iterable[RuleIteration]) -> Iterator[RuleAction]:
    """Yield the actions at one time of a model, in the order of the log: of the rules, and rejected changes of the input."""
    for iteration in iterations:
        reasons = {id(change): why for change, why in iteration.effects.refused}
        for request in iteration.requests:
            if id(request.change) in reasons:
                why = reasons[id(request.change)]
                yield RuleAction("rejected", request.rule, iteration.number, change=request.change, why=why)
            elif request.rule is not None:
                yield RuleAction("changed", request.rule, iteration.number, change=request.change)
        for entry in iteration.lifecycle:
            yield RuleAction(entry.state, entry.rule, iteration.number, match=entry.match)
        for row in iteration.emitted:
            yield RuleAction("emitted", row.rule, iteration.number, name=row.name, values=row.values)
        for request in iteration.elsewhere:
            yield RuleAction("requested", request.rule, iteration.number, change=request.change, model=request.model)


def _texts(values: Mapping[str, Value] | None) -> list[tuple[str, str | None]] | None:
    return None if values is None else [(name, text_of(value)) for name, value in values.items()]


def text_of(value: Value) -> str | None:
    """Return a value as text that is parsed back unchanged, locally and by Spark, in any session time zone."""
    written = v.text(value)
    return f"{written}Z" if isinstance(value, dt.datetime) else written


def _identity(key: Key, time: int, place: int) -> str:
    words = (hash_values(key), hash_values(key, leading=1), time, place)
    return "".join(f"{hash_words(seed, words) & 2**64 - 1:016x}" for seed in match_seeds("what rules did"))
