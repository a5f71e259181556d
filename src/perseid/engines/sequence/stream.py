"""Declaration of a stream of events: its rows, and the roles of their columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from perseid.engines.disorder.strategy import BUFFER, Strategy
from perseid.engines.sequence.results import Matches
from perseid.errors import EventDataError, nearest
from perseid.runtime.declaration import Data_co, StreamDeclaration
from perseid.runtime.query import DeclaredTable
from perseid.runtime.search_budget import MAX_MATCHES, MAX_STEPS, SearchBudget
from perseid.runtime.watermark import WATERMARK
from perseid.semantics import values as v
from perseid.semantics.events import Event, content_id
from perseid.semantics.hashing import hash_values, identity_of
from perseid.tables.html import roles_html
from perseid.tables.rows import column_missing_in, index_names, rank, read_time, rows_of

_BY_TYPE = ("time", "key", "id", "order_by")
"""Parameters that may differ by event type."""


@dataclass(frozen=True, slots=True)
class Events(StreamDeclaration[Matches, Data_co]):
    """A declared stream of events; make one with :func:`perseid.events`."""

    stream_kind: ClassVar[str] = "events"
    data: Any
    time: Any = "ts"
    """The column with the event's time."""
    type: str = "type"
    """The column with the event's type."""
    id: tuple[str, ...] = ()
    """The columns that identify an event; without any, all its columns."""
    order_by: tuple[str, ...] = ()
    """Columns that order events with equal times."""
    strictly_later: bool = False
    """Require a later time for a later step, not only a later position in the order."""
    key: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    """Columns that partition the events for patterns without ``partition by``; by event type in a dict."""
    dedupe: bool = False
    """Events with equal time, key and identity are one event."""
    order: str = WATERMARK
    """Event order of a stream: by watermark, or by arrival within a key."""
    idle: int | None = None
    """Idle timeout in microseconds, after which time advances by the clock."""
    shards: int = 16
    """Number of shards, each with its own state; keys are distributed among them."""
    max_state: int = 1 << 28
    """State limit of one shard, in bytes."""
    max_steps: int = MAX_STEPS
    """Steps that the search of one key may take in one call, in addition to those for each of its events."""
    max_matches: int = MAX_MATCHES
    """Matches that one key may have in one call, in addition to those for each of its events."""
    disorder: Strategy = BUFFER
    """The strategy for out-of-order events."""
    wrong: str | None = None
    """The column with the error of a row that is not an event."""
    position: str | None = None
    """The string column with a row's position in its source; late rows show it if only bad ones show columns."""
    lateness: int | None = None
    """Watermark delay behind the newest time, in microseconds, if it is set here and not by the caller."""
    max_ahead: int | None = None
    """Maximum lead of a time over its arrival, in microseconds; rows beyond it are rejected before the watermark."""

    @property
    def parts(self) -> tuple[()]:
        """The uncertain tables of the stream; empty, because its events are certain."""
        return ()

    @property
    def certain(self) -> tuple[Events, ...]:
        """The certain events of the stream: the stream itself."""
        return (self,)

    @property
    def budget(self) -> SearchBudget:
        """The limits of a search."""
        return SearchBudget(self.max_steps, self.max_matches)

    def columns(self, role: str, event_type: str | None = None) -> tuple[str, ...]:
        """The columns with a role, or those of one of several inputs if they differ."""
        named = getattr(self, role)
        if isinstance(named, Mapping):
            named = named.get(event_type, ())
        return (named,) if isinstance(named, str) else tuple(named)

    def key_names(self) -> tuple[str, ...]:
        """The names of key columns in patterns and matches, which are those of the first input."""
        first = next(iter(self.key), None) if isinstance(self.key, Mapping) else None
        return self.columns("key", first)

    def inputs(self) -> list[tuple[str | None, Events]]:
        """Every input as a stream with its own columns; several inputs have the type of their events."""
        several = isinstance(self.data, Mapping)
        event_types = list(self.data) if several else []
        if several and isinstance(self.time, str) and _is_moment(self.data.get(self.time)):
            raise EventDataError(
                f"Expected inputs by event type, got one event: its {self.time!r} is a time.",
                hint="Use a list for one event: [{…}]. A dict has inputs by event type.",
            )
        if several and not event_types:
            raise EventDataError("The dict of inputs is empty.", hint="Add inputs by event type: {'Login': logins, …}.")
        for role in _BY_TYPE:
            named = getattr(self, role)
            for name in named if isinstance(named, Mapping) else ():
                if name not in event_types:
                    raise _no_such_input(role, name, event_types)
        return [(name, self._input(name)) for name in event_types] if several else [(None, self)]

    def tables(self) -> list[DeclaredTable]:
        """Every input as a table."""
        names = self.key_names()
        return [
            DeclaredTable(
                one.data, event_type, one.time, one.type if event_type is None else None, one.columns("id"),
                one.columns("order_by"), one.columns("key"), names,
            )
            for event_type, one in self.inputs()
        ]  # fmt: skip

    def _input(self, event_type: str) -> Events:
        time, key, names = self.time, self.columns("key", event_type), self.key_names()
        if isinstance(time, Mapping):
            if event_type not in time:
                raise EventDataError(
                    f"No time column for the input {event_type!r}.",
                    hint=f"Add it to time={{…}}. Available: {', '.join(map(str, time))}.",
                )
            time = time[event_type]
        if isinstance(self.key, Mapping) and event_type not in self.key:
            key = names
        if len(key) != len(names):
            raise EventDataError(
                f"Key of {event_type}: expected {len(names)} columns as in the first input, got {len(key)}.",
                hint="Use the same number of columns, in the same order.",
            )
        ids, ranks = self.columns("id", event_type), self.columns("order_by", event_type)
        return replace(self, data=self.data[event_type], time=time, id=ids, order_by=ranks, key=key)

    def _repr_html_(self) -> str:
        """The roles of columns as a table, for notebooks."""
        roles = {role: getattr(self, role) for role in ("time", "type", "key", "id", "order_by", "order")}
        return roles_html(repr(self), {role: named for role, named in roles.items() if named})

    def __repr__(self) -> str:
        kind = type(self.data).__name__
        size = f" of {len(self.data)}" if hasattr(self.data, "__len__") else ""
        return f"<events: {kind}{size}, time {self.time!r}, type {self.type!r}>"


def _is_moment(value: object) -> bool:
    return isinstance(v.plain(value), (str, int, float, Decimal, dt.date))


def _no_such_input(role: str, name: object, available: Sequence[str]) -> EventDataError:
    return EventDataError(
        f"Unknown event type {name!r} in {role}=: it is not an input.",
        nearest=nearest(str(name), available),
        hint=f"Available: {', '.join(available)}."
        if available
        else "Use a dict for several inputs: ps.events({'Login': logins, …}, …).",
    )


def read_events(stream: Events) -> list[Event]:
    """Read every row as an event; raise an error with the row number if one is invalid."""
    return [event for kind, one in stream.inputs() for event in _events(one, kind, stream.key_names())]


def _events(stream: Events, event_type: str | None, key_names: Sequence[str]) -> list[Event]:
    rows = list(rows_of(stream.data))
    # A dict may omit nulls; as in Spark the table has every column, and every row's identity covers all of them.
    names = sorted({str(name) for row in rows for name in row}) if not stream.id else []
    events = [_event(stream, event_type, row, names, number) for number, row in enumerate(rows, 1)]
    renamed = [
        (key_name, column)
        for key_name, column in zip(key_names, stream.columns("key"), strict=True)
        if key_name != column
    ]
    if not renamed:
        return events
    return [
        replace(e, attributes={**e.attributes, **{key_name: e.attributes.get(column) for key_name, column in renamed}})
        for e in events
    ]


def _event(
    stream: Events, event_type: str | None, row: Mapping[str, object], names: Sequence[str], number: int
) -> Event:
    time = read_time(_column(stream, row, stream.time, "time", number), number, stream.time)
    kind = event_type if event_type is not None else v.plain(_column(stream, row, stream.type, "type", number))
    if kind is not None and not isinstance(kind, str):
        kind = v.text(kind)
    attributes = {str(name): v.plain(value) for name, value in row.items()}
    ranks = tuple(rank(v.plain(_column(stream, row, name, "order_by", number))) for name in stream.order_by)
    if stream.id:
        identity = identity_of([v.plain(_column(stream, row, name, "id", number)) for name in stream.id])
    else:
        identity = int(content_id(attributes, names))
    if event_type is not None:
        identity = hash_values([identity, event_type])  # ids are unique within one input only
    return Event(kind if isinstance(kind, str) else None, time, attributes, str(identity), 0, (0, *ranks, identity))


def _column(stream: Events, row: Mapping[str, object], name: str, role: str, number: int) -> object:
    if name not in row:
        raise column_missing_in(number, name, role, list(map(str, row)), index_names(stream.data))
    return row[name]
