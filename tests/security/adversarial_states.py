"""Modified engine states: one change at any depth, with a valid checksum."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa

from perseid.runtime.state_codec import DecodedState, decode_state, encode_state
from tests.contract.malformed_states import mutations, spoiled


def mutate_state(state: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Modify a state, a state nested in it, or a JSON text nested in it; return a description and the modified state."""
    sealed = decode_state(state)
    inner = _inner_places(sealed)
    if inner and chance.random() < 0.6:
        table, column, row = chance.choice(inner)
        name = sealed.tables[table].schema.names[column]
        before = sealed.tables[table].column(column)[row].as_py()
        if isinstance(before, bytes):
            what, after = mutate_state(before, chance)
        else:
            what, after = "JSON text", json.dumps(spoiled(json.loads(before), chance))
        return f"{name} {row} in table {table}: {what}", _with_value(sealed, table, column, row, after)
    if chance.random() < 0.2 and sealed.facts:
        return "one fact", encode_state(spoiled(dict(sealed.facts), chance), sealed.tables)
    ((what, changed),) = mutations(state, 1, chance.randrange(1 << 60))
    return what, changed


def _inner_places(sealed: DecodedState) -> list[tuple[int, int, int]]:
    """Return table, column and row of every nested state and state machine of a state."""
    found = []
    for number, table in enumerate(sealed.tables):
        for at, name in enumerate(table.schema.names):
            if name in ("state", "machine"):
                values = table.column(at).to_pylist()
                found += [
                    (number, at, row) for row, value in enumerate(values) if value and isinstance(value, bytes | str)
                ]
    return found


def _with_value(sealed: DecodedState, number: int, at: int, row: int, value: Any) -> bytes:
    table = sealed.tables[number]
    values = table.column(at).to_pylist()
    values[row] = value
    column = pa.array(values, table.schema.field(at).type)
    changed = table.set_column(at, table.schema.names[at], column)
    return encode_state(sealed.facts, (*sealed.tables[:number], changed, *sealed.tables[number + 1 :]))
