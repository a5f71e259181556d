"""Malformed states: random mutations of real states, with a valid checksum."""

from __future__ import annotations

import copy
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from perseid.runtime.state_codec import decode_state, encode_state

HEAD = struct.Struct("<4sHHIIQ")
"""Container header on disk: magic, layout, tables, checksum, bytes of facts, bytes of tables."""


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, float("nan"), float("inf"), "", "x", "\ud800",
    "0", [], [None], [[]], ["A", 1], {}, {"0": "k"}, {"0": [None]}, {"x": ["k"]}, {"since": "x"}, {"a": {"since": 1.5}},
    nested(400),
)  # fmt: skip
TYPES = (
    pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.bool_(), pa.binary(),
    pa.timestamp("us", "UTC"), pa.date32(), pa.duration("us"), pa.decimal128(38, 2), pa.null(),
    pa.list_(pa.int64()), pa.struct({"x": pa.int64()}), pa.map_(pa.string(), pa.int64()),
    pa.dictionary(pa.int32(), pa.string()), pa.run_end_encoded(pa.int32(), pa.int64()),
)  # fmt: skip


def reseal(state: bytes, facts: bytes | None = None, body: bytes | None = None, count: int | None = None) -> bytes:
    """Return a state of other bytes under a header that fits them."""
    magic, layout, tables, _, size, _ = HEAD.unpack_from(state)
    facts = state[HEAD.size : HEAD.size + size] if facts is None else facts
    body = state[HEAD.size + size :] if body is None else body
    checksum = zlib.crc32(body, zlib.crc32(facts, zlib.crc32(struct.pack("<IQ", len(facts), len(body)))))
    count = tables if count is None else count
    return HEAD.pack(magic, layout, count, checksum, len(facts), len(body)) + facts + body


def mutations(state: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield a description of each mutation and the mutated state."""
    chance = random.Random(seed)
    ways: tuple[Callable[[bytes, random.Random], tuple[str, bytes] | None], ...] = (_facts, _facts, _columns, _columns)
    ways += (_values, _tables, _raw)
    while count:
        try:
            found = chance.choice(ways)(state, chance)
        except (pa.ArrowException, UnicodeEncodeError):
            found = None  # not encodable
        if found is not None:
            count -= 1
            yield found


def spoiled(facts: Any, chance: random.Random) -> Any:
    """Return the facts of a state with one value replaced, at any depth."""
    values: list[Any] = [None, -1, 1 << 70, "x", [], {}, [[]], 0.5, True]
    made = copy.deepcopy(facts)
    place: Any = made
    while True:
        key = chance.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or chance.random() < 0.3:
            place[key] = chance.choice(values)
            return made
        place = inner


def _places(facts: Any) -> Iterator[tuple[Any, Any]]:
    pairs = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for name, inner in list(pairs):
        yield facts, name
        yield from _places(inner)


def _facts(state: bytes, chance: random.Random) -> tuple[str, bytes]:
    sealed = decode_state(state)
    facts = copy.deepcopy(dict(sealed.facts))
    where, name = chance.choice(list(_places(facts)))
    value = chance.choice(VALUES)
    if chance.random() < 0.2:
        del where[name]
        value = "nothing"
    else:
        where[name] = value
    return f"fact {name!r} is {str(value)[:40]!r}", encode_state(facts, sealed.tables)


def _columns(state: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Return states with a column missing, duplicated, renamed or of another type."""
    sealed = decode_state(state)
    at = chance.randrange(len(sealed.tables))
    table = sealed.tables[at]
    columns, names = list(table.columns), list(table.schema.names)
    i = chance.randrange(len(columns))
    what = chance.choice(("drop", "twice", "rename", "type", "type", "type", "swap"))
    name = names[i]
    if what == "drop":
        del columns[i], names[i]
    elif what == "twice":
        columns.append(columns[i])
        names.append(name)
    elif what == "rename":
        names[i] = chance.choice(
            ("", "time", "kind", "route", "occurrence", "is x", "open x", "key k", "rank 0", "x" * 999)
        )
    elif what == "swap":
        j = chance.randrange(len(columns))
        columns[i], columns[j] = columns[j], columns[i]
    else:
        kind = chance.choice(TYPES)
        what = f"as {kind}"
        columns[i] = _as(columns[i], kind, chance)
    if not columns:
        raise pa.ArrowInvalid("a table without columns has no rows")
    changed = pa.record_batch(columns, names=names)
    return f"table {at}: {name!r} {what}", encode_state(
        sealed.facts, (*sealed.tables[:at], changed, *sealed.tables[at + 1 :])
    )


def _as(column: pa.Array, kind: pa.DataType, chance: random.Random) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowException:
        pass
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(pa.array([len(column)], pa.int32()), pa.array([1], pa.int64()))
    if pa.types.is_dictionary(kind):
        return pa.array(["x"] * len(column)).dictionary_encode()
    return pa.nulls(len(column), kind)


def _values(state: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Return states with nulls, and with numbers at the ends of their range."""
    sealed = decode_state(state)
    at = chance.randrange(len(sealed.tables))
    table = sealed.tables[at]
    i = chance.randrange(table.num_columns)
    values = table.column(i).to_pylist()
    extremes = (None, -(2**63), 2**63 - 1, -(2**31), 2**31 - 1, -2, -1, 0, 1, 99, True, False, "", "x")
    changed = [chance.choice(extremes) if chance.random() < 0.6 else value for value in values]
    if chance.random() < 0.3:
        changed = [chance.choice(extremes)] * len(values)
    column = pa.array([value for value in changed], table.schema.field(i).type)  # noqa: C416
    name = table.schema.names[i]
    new = table.set_column(i, name, column)
    return f"table {at}: values of {name!r}", encode_state(
        sealed.facts, (*sealed.tables[:at], new, *sealed.tables[at + 1 :])
    )


def _tables(state: bytes, chance: random.Random) -> tuple[str, bytes]:
    sealed = decode_state(state)
    tables = list(sealed.tables)
    what = chance.choice(("none", "twice", "three", "turned", "empty", "half", "again"))
    changed = {
        "none": [],
        "twice": [tables[0], tables[0]],
        "three": [*tables, tables[0], tables[0]][:3],
        "turned": tables[::-1],
        "empty": [table.slice(0, 0) for table in tables],
        "half": [table.slice(0, (table.num_rows + 1) // 2) for table in tables],
        "again": [pa.concat_batches([table, table]) for table in tables],
    }[what]
    return f"tables: {what}", encode_state(sealed.facts, tuple(changed))


def _raw(state: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Return states with random bytes in the tables or in the facts."""
    size = HEAD.unpack_from(state)[4]
    facts, body = bytearray(state[HEAD.size : HEAD.size + size]), bytearray(state[HEAD.size + size :])
    part = chance.choice((facts, body, body))
    at = chance.randrange(len(part))
    for _ in range(chance.randrange(1, 4)):
        part[at] = chance.randrange(256)
        at = min(len(part) - 1, at + chance.randrange(1, 9))
    if chance.random() < 0.1:
        del part[at:]
    if chance.random() < 0.1:
        part += chance.randbytes(chance.randrange(1, 40))
    return f"bytes at {at}", reseal(state, bytes(facts), bytes(body))
