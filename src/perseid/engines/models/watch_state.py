"""What patterns that rules wait for hold between calls, as bytes: a table of events, and what machines hold of them.

A machine that holds nothing is as one that was never there, and is not written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.models.events import PLACE, arrow_columns
from perseid.engines.models.machine_state import MANY, forget, number_in, numbers_of, restore, time_or_none
from perseid.engines.models.transactions import Key
from perseid.engines.models.watching import PatternStream, PatternWatch, WatchedPattern
from perseid.errors import StateError
from perseid.runtime.state_codec import GO_BACK, check_owner, decode_state, encode_state
from perseid.semantics.events import Event
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import Watched

NAME, VERSION = "rules", 1
Patterns: TypeAlias = Sequence[tuple[Plan, Watched]]


def write_watches(
    queries: Queries,
    patterns: Patterns,
    types: Mapping[str, pa.DataType],
    key: Sequence[str],
    watches: Sequence[PatternWatch],
    done: int | None,
) -> list[bytes | None]:
    """By group of patterns, what they hold of all models; events that nothing can need any more are let go."""
    out: list[bytes | None] = []
    for group, (_, watched) in enumerate(patterns):
        known = arrow_columns(queries, watched, types["element"], key)
        events: dict[int, tuple[int, Event]] = {}
        machines: list[tuple[int, str]] = []
        for model, watch in enumerate(watches):
            stream = watch.streams[group]
            for number, one in enumerate(stream.watched_by):
                _forget(one, done)
                said = [[number, one.passed, numbers_of(machine, events)] for machine in one.machines.values()]
                machines += [(model, json.dumps(machine)) for machine in said]
        if not machines:
            out.append(None)
            continue
        held = pa.RecordBatch.from_pydict(
            {
                "model": pa.array([model for model, _ in machines], pa.int32()),
                "machine": pa.array([said for _, said in machines], pa.large_string()),
            }
        )
        written = _events([event for _, event in events.values()], known)
        out.append(encode_state({"engine": NAME, "version": VERSION}, (written, held)))
    return out


def _forget(one: WatchedPattern, done: int | None) -> None:
    """Let go of events that nothing can need any more, and of machines that hold nothing."""
    for key, machine in list(one.machines.items()):
        if not forget(machine, done):
            one.capped += machine.capped
            del one.machines[key]


def _events(events: list[Event], known: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    own = {
        "time": pa.array([event.time for event in events], pa.int64()),
        "type": pa.array([event.type for event in events], pa.string()),
        "place": pa.array([event.attributes[PLACE] for event in events], pa.int64()),
        "occurrence": pa.array([event.occurrence for event in events], pa.int64()),
    }
    given = {f"column {n}": pa.array([e.attributes[n] for e in events], kind) for n, kind in known.items()}
    return pa.RecordBatch.from_pydict({**own, **given})


# and back


def read_watches(
    queries: Queries,
    patterns: Patterns,
    types: Mapping[str, pa.DataType],
    key: Sequence[str],
    models: Sequence[Key],
    states: Sequence[bytes | None],
) -> dict[Key, PatternWatch]:
    """The patterns that look at these models, as states of :func:`write_watches` say; a :class:`StateError` for all others."""
    watches = {model: PatternWatch(queries, patterns, dict(zip(key, model, strict=True))) for model in models}
    for group, state in enumerate(states):
        if state is None:
            continue
        sealed = decode_state(state)
        check_owner(sealed, NAME, (VERSION,))
        known = arrow_columns(queries, patterns[group][1], types["element"], key)
        streams = [watch.streams[group] for watch in watches.values()]
        try:
            events, held = sealed.tables
            _read(events, held, known, streams)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError, pa.ArrowException):
            raise StateError("The state is not what one of rules should be.", hint=GO_BACK) from None
    return watches


def _read(
    events: pa.RecordBatch,
    held: pa.RecordBatch,
    known: Mapping[str, pa.DataType],
    streams: Sequence[PatternStream],
) -> None:
    names = ["time", "type", "place", "occurrence", *(f"column {name}" for name in known)]
    wanted = [pa.int64(), pa.string(), pa.int64(), pa.int64(), *known.values()]
    if [events.schema.field(name).type for name in names] != wanted:
        raise ValueError("other columns")
    rows = list(zip(*(events.column(name).to_pylist() for name in names), strict=True))
    made: dict[tuple[int, int], Event] = {}

    def numbered(model: int, number: int) -> Event:
        if (model, number) not in made:
            time, type_, place, occurrence, *values = rows[number_in(number, 0, len(rows))]
            given = dict(zip(known, values, strict=True))
            event = streams[model].event(number_in(time, -MANY, MANY), str(type_), given, place)
            made[model, number] = replace(event, occurrence=number_in(occurrence, 0, MANY))
        return made[model, number]

    for model, said in zip(held.column("model").to_pylist(), held.column("machine").to_pylist(), strict=True):
        stream = streams[number_in(model, 0, len(streams))]
        number, passed, one = json.loads(said)
        owner = stream.watched_by[number_in(number, 0, len(stream.watched_by))]
        owner.passed = time_or_none(passed)
        numbers = one["events"]
        machine = owner.machine(numbered(model, numbers[0]))
        if len(machine.events):
            raise ValueError("two machines of one partition")
        restore(machine, [numbered(model, n) for n in numbers], one)
