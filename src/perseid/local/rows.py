"""Rows people have, lists of dicts, pandas and Arrow tables, as events."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from perseid.engines.disorder.strategy import BUFFER, Strategy
from perseid.errors import BindingError, EventDataError, did_you_mean, missing_column, type_name
from perseid.runtime.search_budget import MAX_MATCHES, MAX_STEPS, SearchBudget
from perseid.runtime.watermark import WATERMARK
from perseid.semantics import values as v
from perseid.semantics.events import Event, content_id
from perseid.semantics.hashing import hash_values, identity_of

_MICROS = 1_000_000
_BY_TYPE = ("time", "key", "id", "order_by")
"""What may be said for each of several inputs."""


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of events and what it is like; make one with :func:`perseid.events`."""

    data: Any
    time: Any = "ts"
    """The column with the event's time."""
    type: str = "type"
    """The column with the event's type."""
    id: tuple[str, ...] = ()
    """The columns that make an event this event and no other; without any, all it has."""
    order_by: tuple[str, ...] = ()
    """Columns that decide the order of events with equal times."""
    strictly_later: bool = False
    """Demand that a later step has a later time, not only a later place in the order."""
    key: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    """Columns that partition the events for patterns that do not say ``partition by``; by event type in a dict."""
    dedupe: bool = False
    """Events with equal time, key and identity are one event."""
    order: str = WATERMARK
    """What a stream goes by: its watermark, or the order in which the events of a key arrive."""
    idle: int | None = None
    """Microseconds of a silent stream after which time goes on by the clock."""
    shards: int = 16
    """How many states a stream has; keys share them."""
    max_state: int = 1 << 28
    """How many bytes one of them may have."""
    max_steps: int = MAX_STEPS
    """Steps that the search of one key may take in one call, beside those for each of its events."""
    max_matches: int = MAX_MATCHES
    """Matches that one key may have in one call, beside those for each of its events."""
    disorder: Strategy = BUFFER
    """What is told of events that may still be joined by earlier ones."""
    wrong: str | None = None
    """The column that says what is wrong with a row that is no event."""
    position: str | None = None
    """The text column that says where a row stood in its source; it is what is told of a late one where little is asked for."""
    lateness: int | None = None
    """Microseconds that the watermark is behind the newest time, where it is set here and not by the caller."""
    max_ahead: int | None = None
    """Microseconds that a time may lie beyond its arrival; rows beyond that are rejected below the watermark."""

    @property
    def budget(self) -> SearchBudget:
        """The limits of a search."""
        return SearchBudget(self.max_steps, self.max_matches)

    def columns(self, role: str, event_type: str | None = None) -> tuple[str, ...]:
        """The columns named for a role, for one of several inputs where each has its own."""
        named = getattr(self, role)
        if isinstance(named, Mapping):
            named = named.get(event_type, ())
        return (named,) if isinstance(named, str) else tuple(named)

    def key_names(self) -> tuple[str, ...]:
        """What key columns are called in patterns and matches: as the first input calls them."""
        first = next(iter(self.key), None) if isinstance(self.key, Mapping) else None
        return self.columns("key", first)

    def inputs(self) -> list[tuple[str | None, Events]]:
        """Every input as a stream of its own, with the columns named for it; of several, by the type of their events."""
        several = isinstance(self.data, Mapping)
        there = list(self.data) if several else []
        if several and isinstance(self.time, str) and _is_moment(self.data.get(self.time)):
            raise EventDataError(
                f"This is one event: its {self.time!r} is a time.",
                hint="A dict is inputs by event type; one event is a list of one: [{…}].",
            )
        if several and not there:
            raise EventDataError(
                "A stream of several inputs has none.", hint="Give them by event type: {'Login': logins, …}."
            )
        for role in _BY_TYPE:
            named = getattr(self, role)
            for name in named if isinstance(named, Mapping) else ():
                if name not in there:
                    raise _no_such_input(role, name, there)
        return [(name, self._input(name)) for name in there] if several else [(None, self)]

    def _input(self, event_type: str) -> Events:
        time, key, names = self.time, self.columns("key", event_type), self.key_names()
        if isinstance(time, Mapping):
            if event_type not in time:
                raise EventDataError(
                    f"Nothing is said of the time column of the input {event_type!r}.",
                    hint=f"There is: {', '.join(map(str, time))}.",
                )
            time = time[event_type]
        if isinstance(self.key, Mapping) and event_type not in self.key:
            key = names
        if len(key) != len(names):
            raise EventDataError(
                f"The key of {event_type} has {len(key)} columns, that of the first input {len(names)}.",
                hint="Name as many, in the same order.",
            )
        ids, ranks = self.columns("id", event_type), self.columns("order_by", event_type)
        return replace(self, data=self.data[event_type], time=time, id=ids, order_by=ranks, key=key)

    def __repr__(self) -> str:
        kind = type(self.data).__name__
        size = f" of {len(self.data)}" if hasattr(self.data, "__len__") else ""
        return f"<events: {kind}{size}, time {self.time!r}, type {self.type!r}>"


def is_spark(data: object) -> bool:
    """Is it a DataFrame of Spark's, classic or Connect's?"""
    return hasattr(data, "mapInArrow")


def require_spark(data: object) -> None:
    """That it is one."""
    if not is_spark(data):
        raise EventDataError(
            f"detect works on Spark DataFrames, and this is {type_name(data)}.",
            hint="For lists, pandas, Arrow and Parquet use match(…): no cluster is needed.",
        )


def require_here(what: str, data: object) -> None:
    """That it is none, for what is done in this process."""
    if is_spark(data):
        raise EventDataError(
            f"{what} works on data of this process, and this is a Spark DataFrame.", hint="Use detect(…)."
        )


def _is_moment(value: object) -> bool:
    return isinstance(v.plain(value), (str, int, float, Decimal, dt.date))


def _no_such_input(role: str, name: object, there: Sequence[str]) -> EventDataError:
    return EventDataError(
        f"{role}= names the event type {name!r}, and there is no such input." + did_you_mean(str(name), there),
        hint=f"There is: {', '.join(there)}."
        if there
        else "Several inputs are given by event type: ps.events({'Login': logins, …}, …).",
    )


def read_relation(name: str, rows: object) -> list[tuple[object, ...]]:
    """A relation as people have one: rows of values, single values, dicts, a pandas frame or an Arrow table."""
    if hasattr(rows, "to_pylist") or (hasattr(rows, "to_dict") and hasattr(rows, "columns")):
        return [tuple(row.values()) for row in rows_of(rows)]
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise BindingError(
            f"The relation {name!r} is {_a(rows)}, not a table.",
            hint="Give rows: [('ann', 220), …], or single values: ['AT', 'DE'].",
        )
    out: list[tuple[object, ...]] = []
    for row in rows:
        if isinstance(row, Mapping):
            out.append(tuple(row.values()))
        elif isinstance(row, (list, tuple)):
            out.append(tuple(row))
        else:
            out.append((row,))
    if len({len(row) for row in out}) > 1:
        raise BindingError(f"The relation {name!r} has rows of different lengths.")
    return out


def read_events(stream: Events) -> list[Event]:
    """Every row as an event; what cannot be read is an error that names the row."""
    return [event for kind, one in stream.inputs() for event in _events(one, kind, stream.key_names())]


def _events(stream: Events, event_type: str | None, key_names: Sequence[str]) -> list[Event]:
    rows = list(rows_of(stream.data))
    # A dict may leave out what is null; as in Spark the table has every column, and so has every row's identity.
    names = sorted({str(name) for row in rows for name in row}) if not stream.id else []
    events = [_event(stream, event_type, row, names, number) for number, row in enumerate(rows, 1)]
    renamed = [(there, here) for there, here in zip(key_names, stream.columns("key"), strict=True) if there != here]
    if not renamed:
        return events
    return [
        replace(e, attributes={**e.attributes, **{there: e.attributes.get(here) for there, here in renamed}})
        for e in events
    ]


def rows_of(data: object) -> Iterator[Mapping[str, object]]:
    """A table as people have one, row by row."""
    if hasattr(data, "to_pylist"):  # an Arrow table or record batch
        try:
            rows = data.to_pylist(maps_as_pydicts="lossy")
        except TypeError:  # an older pyarrow has only lists of pairs for maps
            rows = data.to_pylist()
        yield from rows
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # a pandas frame
        for row in data.to_dict("records"):
            yield {str(name): pandas_null(value) for name, value in row.items()}
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes, Mapping)):
        for number, row in enumerate(data, 1):
            if not isinstance(row, Mapping):
                raise EventDataError(
                    f"Row {number} is {_a(row)}, not a dict.", hint="Give one dict an event: {'ts': …, 'type': …}."
                )
            yield row
    else:
        raise EventDataError(
            f"Events cannot be read from {_a(data)}.",
            hint="Give a list of dicts, a pandas frame or an Arrow table.",
        )


def pandas_null(value: object) -> object:
    """pandas writes a missing number as NaN; here it is null, as when Spark reads a pandas frame."""
    return None if isinstance(value, float) and math.isnan(value) else value


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
        identity = hash_values([identity, event_type])  # each of several inputs numbers its own events
    return Event(kind if isinstance(kind, str) else None, time, attributes, str(identity), 0, (0, *ranks, identity))


def _column(stream: Events, row: Mapping[str, object], name: str, role: str, number: int) -> object:
    if name not in row:
        raise column_missing_in(number, name, role, list(map(str, row)), index_names(stream.data))
    return row[name]


def index_names(data: object) -> tuple[str, ...]:
    """What the index of a pandas frame is called; nothing else has one."""
    return tuple(str(name) for name in getattr(getattr(data, "index", None), "names", ()) if name is not None)


def column_missing_in(
    number: int, name: str, role: str, there: Sequence[str], index: Sequence[str] = ()
) -> EventDataError:
    """The error for a row that lacks a column which was named for a role; it may be in the index of its frame."""
    say = f"ps.events(rows, {role}=…), or --{role.replace('_', '-')} on the command line"
    error = missing_column(f"Row {number}", name, f"{role} column", there, say)
    if name in index:
        error.hint = "It is the index: df.reset_index()."
    return error


def read_time(value: object, number: int, column: str) -> int:
    """Microseconds since 1970 UTC; what is no time is an error that names the row."""
    value = v.plain(value)
    match value:
        case bool() | None:
            pass
        case int() | Decimal():
            return _seconds(Decimal(value), number, column)
        case float() if math.isfinite(value):
            return _seconds(Decimal(repr(value)), number, column)
        case dt.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (moment - v.EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return (dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC) - v.EPOCH) // dt.timedelta(
                microseconds=1
            )
        case str():
            read = v.read_timestamp(value)
            if read is not None:
                return (read - v.EPOCH) // dt.timedelta(microseconds=1)
    raise EventDataError(
        f"Row {number} has no readable time: {column} is {value!r}.",
        hint="A time is a datetime, an ISO 8601 text, or a number of seconds since 1970.",
    )


def _seconds(value: Decimal, number: int, column: str) -> int:
    micros = value * _MICROS
    if not v.EARLIEST <= micros <= v.LATEST:
        raise EventDataError(
            f"Row {number} has a time outside the years 1 to 9999: {column} is {value}.",
            hint="A number is seconds since 1970; divide milliseconds by 1000.",
        )
    return int(micros)


def rank(value: object) -> tuple[Any, ...]:
    """Values of ``order_by`` made comparable with one another: nulls first, then by kind."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, int(value))
    if isinstance(value, (int, Decimal)):
        return (2, value)
    if isinstance(value, float):
        return (2, value) if not math.isnan(value) else (3, 0)
    if isinstance(value, (dt.datetime, dt.date, dt.timedelta, str, bytes)):
        return (4, type(value).__name__, value)
    return (5, type(value).__name__, str(v.identity(value)))


def _a(value: object) -> str:
    name = type(value).__name__
    return ("an " if name[:1].lower() in "aeiou" else "a ") + name
