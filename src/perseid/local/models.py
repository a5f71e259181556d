"""A declared stream of changes of models, and how it becomes one of events: what queries find and lose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.models.events import PLACE, TIME, TYPE, EventRows, content_columns
from perseid.engines.models.live import LiveModel
from perseid.engines.models.plan import ROLES
from perseid.engines.models.transactions import Key, Waiting, transactions
from perseid.errors import EventDataError, UnsupportedError, missing_column, warn
from perseid.local.narrow import column_types
from perseid.local.rows import Events, is_spark, read_events
from perseid.local.tables import Table, read_table, time_column
from perseid.semantics import types as t
from perseid.semantics.graphs import Change, Happening
from perseid.semantics.model_oracle import Told, ordered
from perseid.semantics.model_queries import Match, Queries
from perseid.semantics.model_steps import Beside, Watched
from perseid.semantics.rules import Rules


@dataclass(frozen=True)
class Models:
    """A stream of changes of models, one for each key; make one with :func:`perseid.model`."""

    data: Any
    queries: Queries
    time: str = "ts"
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=lambda: dict(zip(ROLES, ROLES, strict=True)))
    """The column of each role."""
    observe: tuple[str, ...] = ()
    """Queries whose matches are events even where no pattern names them."""
    idle: int | None = None
    shards: int = 16
    max_state: int = 1 << 28
    rules: Rules | None = None
    """Rules and repairs that the text about the model holds."""
    beside: Events | None = None
    """Ordinary events beside the models, by the same key."""
    max_ahead: int | None = None
    """Microseconds that a time may lie beyond its arrival on a stream."""

    def transactions(self) -> Iterator[tuple[Key, int, Sequence[Change | Happening]]]:
        """Every transaction of every model: models as they are met, each in the order of time."""
        table = read_table(self.data)
        for role in ("change", "element"):
            self._require(table, role)
        for name in (*self.key, *self.order_by):
            if name not in table.columns and table.rows:
                raise missing_column("The changes", name, "key or order", list(table.columns), "ps.model(rows, …)")
        times = np.asarray(time_column(table, self.time))
        changes = changes_of(self.columns, table)
        keys = list(zip(*(values_of(table, name) for name in self.key), strict=True)) if self.key else [()] * table.rows
        ranks = [values_of(table, name) for name in self.order_by]
        waiting: Iterable[Waiting] = (
            Waiting(keys[row], int(times[row]), tuple(column[row] for column in ranks), changes[row])
            for row in range(table.rows)
        )
        yield from transactions(chain(waiting, self._happenings()))

    def shape_of_beside(self) -> Beside | None:
        """The types and columns of the events beside the models."""
        if self.beside is None:
            return None
        return beside_of(self.beside, column_types(self.beside))

    def _happenings(self) -> Iterator[Waiting]:
        shape = self.shape_of_beside()
        if self.beside is None or shape is None:
            return
        names = [name for name, _ in shape.columns]
        for event in read_events(self.beside):
            for name in self.key:
                if name not in event.attributes:
                    raise missing_column(
                        "The events beside the model", name, "key", list(event.attributes), "ps.model(…, key=…)"
                    )
            key, rank = (tuple(event.attributes.get(name) for name in own) for own in (self.key, self.order_by))
            values = tuple((name, event.attributes.get(name)) for name in names)
            if event.type is not None:  # else it is nobody's
                yield Waiting(key, event.time, rank, Happening(event.type, values))

    def told(self, queries: Iterable[str] | None = None) -> Iterator[tuple[Key, int, Told]]:
        """What every transaction brought, of all queries or of some."""
        live: dict[Key, LiveModel] = {}
        for key, time, changes in self.transactions():
            if key not in live:
                live[key] = LiveModel(self.queries, queries)
            yield key, time, live[key].transact(time, changes)

    def events(self, *queries: str) -> pa.Table:
        """What the named queries found, updated and lost, or all of them: a row for each, in the order of time."""
        self._require_local("events")
        watched = Watched(queries or tuple(self.queries.queries), ())
        tables, rejected = self.event_tables([watched])
        warn_of_rejected(rejected)
        return tables[0]

    def event_tables(self, watched: Sequence[Watched]) -> tuple[list[pa.Table], list[str]]:
        """One table of events for each watcher, and the reason for each rejected change; reads the changes once."""
        rows = [EventRows(self.queries, one, self.key) for one in watched]
        rejected: list[str] = []
        queries = dict.fromkeys(name for one in watched for name in one.queries)
        for key, time, told in self.told(queries):
            for one in rows:
                one.add(key, time, told)
            rejected += [why for _, why in told.refused]
        element, keys = self.name_types()
        return [one.table(element, keys) for one in rows], rejected

    def name_types(self) -> tuple[pa.DataType, list[pa.DataType]]:
        """The types of names of nodes, and of the columns that tell models apart."""
        table = read_table(self.data, {self.columns["element"], *self.key})
        return type_of(table, self.columns["element"]), [type_of(table, name) for name in self.key]

    def matches(self) -> dict[Key, dict[str, list[Match]]]:
        """By model and query, the matches there are after the last change."""
        self._require_local("matches")
        return standing_matches(self.live())

    def refused(self) -> list[tuple[Key, int, Change, str]]:
        """Changes that do not fit the model as it stood: of which model, when, what, and why."""
        self._require_local("refused")
        return [(key, time, *one) for key, time, told in self.told() for one in told.refused]

    def live(self, until: int | None = None) -> dict[Key, LiveModel]:
        """The models after the last change, or after those up to a time, by their keys."""
        self._require_local("live")
        live: dict[Key, LiveModel] = {}
        rejected: list[str] = []
        for key, time, changes in self.transactions():
            if until is None or time <= until:
                if key not in live:
                    live[key] = LiveModel(self.queries)
                rejected += [why for _, why in live[key].transact(time, changes).refused]
        warn_of_rejected(rejected)
        return live

    def _require_local(self, method: str) -> None:
        """Reject data of Spark, which only patterns and rules read."""
        if is_spark(self.data):
            raise UnsupportedError(
                f"model.{method}() reads changes of this process, and this model is over a Spark DataFrame.",
                hint="On Spark name the query in a pattern, match found q a, and run it: ps.patterns(metamodel).detect(model)."
                f" For few changes collect them first: ps.model(changes.toPandas(), metamodel).{method}().",
            )

    def _require(self, table: Table, role: str) -> None:
        name = self.columns[role]
        if name not in table.columns and table.rows:
            raise missing_column(
                "The changes", name, f"{role} of a change", list(table.columns), f"ps.model(rows, {role}=…)"
            )

    def __repr__(self) -> str:
        return f"<model {self.queries.kinds.metamodel.name}: changes by {', '.join(self.key) or 'one model'}>"


def events_here(models: Models, watched: Sequence[Watched]) -> tuple[list[Events], list[str]]:
    """The events of models in this process, for each that watches them, and the reason for each rejected change."""
    tables, rejected = models.event_tables(watched)
    warn_of_rejected(rejected)
    return [event_stream(table, models, one) for table, one in zip(tables, watched, strict=True)], rejected


def describe_rejected(rejected: Sequence[str]) -> str:
    """A sentence with the number of rejected changes and the first reason."""
    count = (
        "1 change does not fit the model and was"
        if len(rejected) == 1
        else f"{len(rejected)} changes do not fit the model and were"
    )
    return f"{count} left out; the first: {rejected[0]}"


def warn_of_rejected(rejected: Sequence[str]) -> None:
    """Warn where changes were rejected."""
    if rejected:
        warn(describe_rejected(rejected))


def beside_of(events: Events, types: Mapping[str, t.Type]) -> Beside:
    """Declared events as what steps may ask for; when they happened and what they are is no column of theirs."""
    several = isinstance(events.data, Mapping)
    times = set(events.time.values()) if isinstance(events.time, Mapping) else {events.time}
    own = {name: type_ for name, type_ in types.items() if name not in times and (several or name != events.type)}
    return Beside(tuple(events.data) if several else None, tuple(sorted(own.items())))


def standing_matches(live: Mapping[Key, LiveModel]) -> dict[Key, dict[str, list[Match]]]:
    """By model and query, the matches there are."""
    return {key: {name: ordered(held.standing) for name, held in one.matches.items()} for key, one in live.items()}


def event_stream(data: pa.Table, models: Models, watched: Watched) -> Events:
    """A table of events as the stream that patterns are asked of."""
    content = content_columns(models.queries, watched, models.key)
    return Events(data, time=TIME, type=TYPE, id=tuple(content), order_by=(PLACE,), key=models.key)


def change_row(models: Models, place: Mapping[str, object], change: Change) -> dict[str, object]:
    """A change as a row of the stream; ``place`` has its time and model."""
    values = (change.action, change.element, change.kind, change.attribute, change.value, change.target)
    return {**place, **dict(zip((models.columns[role] for role in ROLES), values, strict=True))}


def changes_of(columns: Mapping[str, str], table: Table) -> list[Change]:
    """Every row as a change; ``columns`` has the column of each role."""
    absent = [None] * table.rows
    found = [values_of(table, columns[role]) if columns[role] in table.columns else absent for role in ROLES]
    return [Change(*row) for row in zip(*found, strict=True)]


def values_of(table: Table, name: str) -> list[Any]:
    """A column value by value."""
    column = table.columns[name]
    return column if isinstance(column, list) else column.to_pylist()


def type_of(table: Table, name: str) -> pa.DataType:
    """The one type of a column of names."""
    if name not in table.columns:
        return pa.string()
    column = table.columns[name]
    if isinstance(column, list):
        raise EventDataError(
            f"The column {name!r} has values of several kinds.", hint="Names are all texts, or all numbers."
        )
    return column.type
