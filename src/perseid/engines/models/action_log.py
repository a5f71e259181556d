"""The action log of rules: one table of all their effects, because a stream has one output table.

For each transaction of a model, iteration by iteration: applied and rejected changes, the lifecycle of matches, emitted
rows, and changes requested of other models. Time, model key and place in the transaction identify a row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from perseid.engines.models.plan import ROLES
from perseid.engines.models.transactions import Key
from perseid.engines.sequence.columns import arrow_type
from perseid.errors import EventDataError
from perseid.runtime.arrays import MOMENT
from perseid.semantics import values as v
from perseid.semantics.graphs import Change
from perseid.semantics.hashing import hash_values, hash_words, match_seeds
from perseid.semantics.model_rules import RequestedChange, RuleIteration
from perseid.semantics.values import Value

BEFORE, AFTER = ("rule", "round", "place", "what"), ("name", "values", "match", "why", "id")
"""Columns before and after the role columns of a change."""
_TEXTS = pa.map_(pa.string(), pa.string())
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


class ActionLog:
    """Collects the rows of an action log."""

    def __init__(self, schema: pa.Schema, key: Sequence[pa.DataType], element: pa.DataType) -> None:
        """``key`` and ``element`` are the types of the model key and of node names."""
        self.schema = schema
        self.key = [arrow_type(kind) for kind in key]
        self.element: type = str if pa.types.is_string(element) else int
        self.rows: list[tuple[object, ...]] = []

    def add(self, key: Key, time: int, rounds: Iterable[RuleIteration]) -> None:
        """Add all iterations of one transaction of a model."""
        first = len(self.rows)
        for one in rounds:
            self._round(key, time, one, first)

    def _round(self, key: Key, time: int, one: RuleIteration, first: int) -> None:
        def row(model: Key, what: str, rule: str | None, change: Change | None = None, **rest: object) -> None:
            place = len(self.rows) - first
            said = (None,) * len(ROLES) if change is None else self._said(rule, change)
            more = (rest.get(name) for name in AFTER[:-1])
            identity = _identity(key, time, place)
            self.rows.append((time, *model, rule, one.number, place, what, *said, *more, identity))

        reasons = {id(change): why for change, why in one.told.refused}
        for asked in one.asked:
            if id(asked.change) in reasons:
                row(key, "rejected", asked.rule, asked.change, why=reasons[id(asked.change)])
            elif asked.rule is not None:
                row(key, "changed", asked.rule, asked.change)
        for life in one.lives:
            row(key, life.state, life.rule, match=_texts(life.match))
        for told in one.emitted:
            row(key, "emitted", told.rule, name=told.name, values=_texts(told.values))
        for asked in one.elsewhere:
            row(self._model(asked), "requested", asked.rule, asked.change)

    def _model(self, asked: RequestedChange) -> Key:
        """Key of the target model, cast to the types of the key."""
        assert asked.model is not None
        model = tuple(v.conform(value, kind) for value, kind in zip(asked.model, self.key, strict=True))
        for given, found, kind in zip(asked.model, model, self.key, strict=True):
            if given is not None and found is None:
                raise EventDataError(
                    f"Rule {asked.rule} identifies a model by {given!r}, expected a value of type {kind}.",
                    hint=f"Use: for model cast(… as {kind}) do ….",
                )
        return model

    def _said(self, rule: str | None, change: Change) -> tuple[object, ...]:
        for element in (change.element, change.target):
            if element is not None and type(element) is not self.element:
                raise EventDataError(
                    f"Rule {rule} uses {element!r} as the name of a node, expected {'a string' if self.element is str else 'an integer'}.",
                    hint="Use the same type for the names of all nodes: cast(… as string), or cast(… as bigint).",
                )
        value = text_of(v.scalar(change.value))
        return change.action, change.element, change.kind, change.attribute, value, change.target

    def table(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) if self.rows else [()] * len(self.schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.table(arrays, schema=self.schema)


def _texts(values: Mapping[str, Value]) -> list[tuple[str, str | None]]:
    return [(name, text_of(value)) for name, value in values.items()]


def text_of(value: Value) -> str | None:
    """Return a value as text that is parsed back unchanged, locally and by Spark, in any session time zone."""
    written = v.text(value)
    return f"{written}Z" if isinstance(value, dt.datetime) else written


def _identity(key: Key, time: int, place: int) -> str:
    words = (hash_values(key), hash_values(key, leading=1), time, place)
    return "".join(f"{hash_words(seed, words) & 2**64 - 1:016x}" for seed in match_seeds("what rules did"))
