"""State of the triggers of rules: a table of events, and the automata with partial matches that refer to them.

An automaton without partial matches equals a new one, and is not encoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.models.automaton_codec import (
    MAX_NUMBER,
    decode_automaton,
    encode_automaton,
    number_in,
    time_or_none,
)
from perseid.engines.models.events import PLACE, arrow_columns
from perseid.engines.models.pattern_trigger import ModelEvents, PatternTrigger
from perseid.engines.models.transactions import Key
from perseid.runtime.state_layout import StateColumn, StateLayout, StateTable, decode, encode, malformed
from perseid.semantics.events import Event
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import EventStreamFilter

_EVENTS = (
    StateColumn("time", pa.int64(), low=-MAX_NUMBER, high=MAX_NUMBER - 1),
    StateColumn("type", pa.string()),
    StateColumn("place", pa.int64()),
    StateColumn("occurrence", pa.int64(), low=0, high=MAX_NUMBER - 1),
    StateColumn("column *"),
)
_MACHINES = (StateColumn("model", pa.int32(), low=0), StateColumn("machine", pa.large_string()))
LAYOUT = StateLayout("rules", 1, (), (StateTable("events", _EVENTS), StateTable("machines", _MACHINES)))
Patterns: TypeAlias = Sequence[tuple[Plan, EventStreamFilter]]


def encode_triggers(
    queries: Queries,
    patterns: Patterns,
    types: Mapping[str, pa.DataType],
    key: Sequence[str],
    triggers: Sequence[PatternTrigger],
    done: int | None,
) -> list[bytes | None]:
    """Encode the state of each group of patterns over all models, and evict events that are no longer needed."""
    out: list[bytes | None] = []
    for group, (_, watched) in enumerate(patterns):
        known = arrow_columns(queries, watched, types["element"], key)
        events: dict[int, tuple[int, Event]] = {}
        machines: list[tuple[int, str]] = []
        for model, trigger in enumerate(triggers):
            for number, one in enumerate(trigger.streams[group].patterns):
                one.evict(done)
                numbers = [[number, one.passed, encode_automaton(each, events)] for each in one.automata.values()]
                machines += [(model, json.dumps(automaton)) for automaton in numbers]
        if not machines:
            out.append(None)
            continue
        machine_batch = pa.RecordBatch.from_pydict(
            {
                "model": pa.array([model for model, _ in machines], pa.int32()),
                "machine": pa.array([automaton for _, automaton in machines], pa.large_string()),
            }
        )
        written = _events([event for _, event in events.values()], known)
        out.append(encode(LAYOUT, {}, {"events": written, "machines": machine_batch}))
    return out


def _events(events: list[Event], known: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    columns = {
        "time": pa.array([event.time for event in events], pa.int64()),
        "type": pa.array([event.type for event in events], pa.string()),
        "place": pa.array([event.attributes[PLACE] for event in events], pa.int64()),
        "occurrence": pa.array([event.occurrence for event in events], pa.int64()),
    }
    attribute_columns = {f"column {n}": pa.array([e.attributes[n] for e in events], kind) for n, kind in known.items()}
    return pa.RecordBatch.from_pydict({**columns, **attribute_columns})


def decode_triggers(
    queries: Queries,
    patterns: Patterns,
    types: Mapping[str, pa.DataType],
    key: Sequence[str],
    models: Sequence[Key],
    states: Sequence[bytes | None],
) -> dict[Key, PatternTrigger]:
    """Decode the states of the patterns over these models."""
    triggers = {model: PatternTrigger(queries, patterns, dict(zip(key, model, strict=True))) for model in models}
    for group, state in enumerate(states):
        if state is None:
            continue
        tables = decode(LAYOUT, state).tables
        known = arrow_columns(queries, patterns[group][1], types["element"], key)
        streams = [trigger.streams[group] for trigger in triggers.values()]
        try:
            _read(tables["events"], tables["machines"], known, streams)
        except (
            KeyError,
            IndexError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            pa.ArrowException,
        ) as error:
            raise malformed(LAYOUT.engine, f"invalid partial matches ({type(error).__name__})") from None
    return triggers


def _read(
    events: pa.RecordBatch,
    machines: pa.RecordBatch,
    known: Mapping[str, pa.DataType],
    streams: Sequence[ModelEvents],
) -> None:
    names = ["time", "type", "place", "occurrence", *(f"column {name}" for name in known)]
    if [events.schema.field(name).type for name in names[4:]] != [*known.values()]:
        raise ValueError("other columns")
    rows = list(zip(*(events.column(name).to_pylist() for name in names), strict=True))
    decoded: dict[tuple[int, int], Event] = {}

    def numbered(model: int, number: int) -> Event:
        if (model, number) not in decoded:
            time, type_, place, occurrence, *values = rows[number_in(number, 0, len(rows))]
            attributes = dict(zip(known, values, strict=True))
            decoded[model, number] = replace(
                streams[model].event(time, type_, attributes, place), occurrence=occurrence
            )
        return decoded[model, number]

    for model, text in zip(machines.column("model").to_pylist(), machines.column("machine").to_pylist(), strict=True):
        stream = streams[number_in(model, 0, len(streams))]
        number, passed, one = json.loads(text)
        owner = stream.patterns[number_in(number, 0, len(stream.patterns))]
        owner.passed = time_or_none(passed)
        numbers = one["events"]
        automaton = owner.automaton(numbered(model, numbers[0]))
        if len(automaton.events):
            raise ValueError("two automata of one partition")
        decode_automaton(automaton, [numbered(model, n) for n in numbers], one)
