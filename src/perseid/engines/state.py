"""The one container for state: a checked header, facts as JSON, and tables as Arrow streams.

State is read back by later versions and from disks that other people can write to. So nothing in it is code, every
length is checked before it is believed, a checksum finds damage, and whatever is wrong is a :class:`StateError`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from perseid.errors import StateError

MAGIC = b"PRSD"
LAYOUT = 1
"""The layout of the container; what lies in it has a version of its engine's."""
_HEAD = struct.Struct("<4sHHIIQ")
"""Magic, layout, number of tables, checksum of all that follows it, bytes of facts, bytes of tables."""
_LENGTH = struct.Struct("<Q")
MAX_TABLES = 16
MAX_FACTS = 1 << 24


@dataclass(frozen=True)
class Sealed:
    """What a state holds."""

    facts: Mapping[str, Any]
    tables: tuple[pa.RecordBatch, ...]


def seal(facts: Mapping[str, Any], tables: tuple[pa.RecordBatch, ...]) -> bytes:
    """Facts and tables as bytes."""
    told = json.dumps(facts, separators=(",", ":"), sort_keys=True).encode()
    parts: list[Any] = []
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(table)
        written = sink.getvalue()
        parts += [_LENGTH.pack(written.size), written]
    body = b"".join(memoryview(part) for part in parts)
    lengths = struct.pack("<IQ", len(told), len(body))
    checksum = zlib.crc32(body, zlib.crc32(told, zlib.crc32(lengths)))
    return b"".join((_HEAD.pack(MAGIC, LAYOUT, len(tables), checksum, len(told), len(body)), told, body))


def unseal(state: bytes) -> Sealed:
    """What bytes hold that :func:`seal` made; a :class:`StateError` for all others."""
    if len(state) < _HEAD.size:
        raise StateError(f"The state is {len(state)} bytes long, which is shorter than its header.")
    magic, layout, count, checksum, told, size = _HEAD.unpack_from(state)
    if magic != MAGIC:
        raise StateError("This is no state of Perseid's.", hint="Is the checkpoint of another query?")
    if layout != LAYOUT:
        raise StateError(
            f"The state has layout {layout}; this version reads layout {LAYOUT}.",
            hint="Go on with the version that wrote it, or start anew with an empty checkpoint.",
        )
    if len(state) != _HEAD.size + told + size or count > MAX_TABLES or told > MAX_FACTS:
        raise StateError("The state is cut short, or longer than its header says.", hint=_DAMAGED)
    whole = memoryview(state)
    if zlib.crc32(whole[_HEAD.size :], zlib.crc32(struct.pack("<IQ", told, size))) != checksum:
        raise StateError("The state does not have the checksum that it was written with.", hint=_DAMAGED)
    try:
        facts = json.loads(bytes(whole[_HEAD.size : _HEAD.size + told]))
    except (ValueError, RecursionError):
        raise StateError("What the state says about itself cannot be read.", hint=_DAMAGED) from None
    if not isinstance(facts, dict):
        raise StateError("What the state says about itself cannot be read.", hint=_DAMAGED)
    return Sealed(facts, tuple(_tables(whole[_HEAD.size + told :], count)))


_DAMAGED = "Restore the checkpoint from a copy, or start anew with an empty one."


def _tables(body: memoryview, count: int) -> list[pa.RecordBatch]:
    tables, at = [], 0
    for _ in range(count):
        if at + _LENGTH.size > len(body):
            raise StateError("The tables of the state are cut short.", hint=_DAMAGED)
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if length > len(body) - at:
            raise StateError("A table of the state is longer than the state.", hint=_DAMAGED)
        tables.append(_table(body[at : at + length]))
        at += length
    return tables


def _table(stream: memoryview) -> pa.RecordBatch:
    try:
        with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, StopIteration, MemoryError):
        raise StateError("A table of the state cannot be read.", hint=_DAMAGED) from None
    return batch
