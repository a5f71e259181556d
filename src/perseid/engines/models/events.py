"""Results of transactions as rows of events: the input stream of patterns over a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from perseid.engines.models.transactions import Key
from perseid.engines.sequence.schema import arrow_of
from perseid.errors import EventDataError
from perseid.semantics import types as t
from perseid.semantics.graphs import AppliedChange
from perseid.semantics.model_changes import TransactionEffects
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import CHANGE_COLUMNS, EventStreamFilter, change_event, event_columns, query_event
from perseid.semantics.values import Value

TIME, TYPE, PLACE = "_time", "_type", "_place"
"""Columns for the time of an event, its type, and its place among the events of its transaction."""


class EventRows:
    """Collects events for a table.

    Within a transaction elementary changes come first, in the order of application, then by query the lost, updated and
    found matches, and last the ordinary events of its time.
    """

    def __init__(self, queries: Queries, watched: EventStreamFilter, key: Sequence[str]) -> None:
        self.queries = queries
        self.watched = watched
        self.key = tuple(key)
        self.rows: list[tuple[int, str, int]] = []
        self.keys: list[Key] = []
        self.values: list[Mapping[str, Value]] = []
        self.at: tuple[Key, int] | None = None
        self.place = 0

    def add(self, key: Key, time: int, effects: TransactionEffects) -> None:
        """Add all events of one transaction of a model, or of one iteration of it."""
        if self.at != (key, time):
            self.at, self.place = (key, time), 0
        for type_, values in event_values(self.queries, self.watched, effects):
            self.rows.append((time, type_, self.place))
            self.place += 1
            self.keys.append(key)
            self.values.append(values)

    def columns(self, element: pa.DataType) -> dict[str, pa.Array]:
        """Return the event columns except time, type and place as arrays; ``element`` is the type of node names."""
        kinds = arrow_columns(self.queries, self.watched, element, self.key)
        return {name: _array(name, [values.get(name) for values in self.values], kind) for name, kind in kinds.items()}

    def table(self, element: pa.DataType, keys: Sequence[pa.DataType]) -> pa.Table:
        """Return the events as a table; ``keys`` are the types of the model key columns."""
        columns: dict[str, pa.Array] = {
            TIME: pa.array([row[0] for row in self.rows], pa.timestamp("us", "UTC")),
            TYPE: pa.array([row[1] for row in self.rows], pa.string()),
            PLACE: pa.array([row[2] for row in self.rows], pa.int64()),
        }
        return pa.table({**columns, **self.key_columns(keys), **self.columns(element)})

    def key_columns(self, types: Sequence[pa.DataType]) -> dict[str, pa.Array]:
        pairs = enumerate(zip(self.key, types, strict=True))
        return {name: pa.array([key[place] for key in self.keys], type_) for place, (name, type_) in pairs}


def collect_events(
    queries: Queries,
    watched: Sequence[EventStreamFilter],
    key: Sequence[str],
    effects: Iterable[tuple[Key, int, TransactionEffects]],
) -> tuple[list[EventRows], list[str]]:
    """Return the events of transactions for each filter, and the reason for each rejected change."""
    found = [EventRows(queries, one, key) for one in watched]
    rejected: list[str] = []
    for model, time, done in effects:
        for one in found:
            one.add(model, time, done)
        rejected += [why for _, why in done.refused]
    return found, rejected


def arrow_columns(
    queries: Queries, watched: EventStreamFilter, element: pa.DataType, key: Sequence[str]
) -> dict[str, pa.DataType]:
    """Return the Arrow types of the event columns except time, type and place."""
    found = event_columns(queries, watched, key)
    return {name: arrow_of_column(type_, element) for name, type_ in found.items()}


def content_columns(queries: Queries, watched: EventStreamFilter, key: Sequence[str]) -> list[str]:
    """Return the columns that, with the time, identify an event: type, model key, and all values."""
    return [TYPE, *key, *event_columns(queries, watched, key)]


def event_values(
    queries: Queries, watched: EventStreamFilter, effects: TransactionEffects
) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Yield the type and values of each event: changes as applied, then matches by query, then ordinary events."""
    if watched.changes:
        for done in effects.done:
            if watched.includes(done, queries.kinds):
                yield change_event(done.action), _of_change(done)
    for change in effects.changes:
        if change.query in watched.queries:
            names = queries.queries[change.query].parameters
            yield query_event(change.change, change.query), dict(zip(names, change.match, strict=True))
    for event in effects.happened:
        if event.type in watched.happenings:
            yield event.type, dict(event.values)


def _array(name: str, values: list[Value], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise EventDataError(
            f"Column {name!r} has names of nodes in some events, and values of another type in others.",
            hint=f"Use {'strings' if pa.types.is_string(kind) else 'integers'} in the other events too, as for the nodes, or rename the other column.",
        ) from None


def _of_change(done: AppliedChange) -> dict[str, Value]:
    values = (done.element, done.kind, done.attribute, done.old, done.new, done.target)
    return dict(zip(CHANGE_COLUMNS, values, strict=True))


def arrow_of_column(type_: t.Type | None, element: pa.DataType) -> pa.DataType:
    """Return the Arrow type of an event column; node names (``type_`` None) have the type of the data."""
    return element if type_ is None else arrow_of(type_)
