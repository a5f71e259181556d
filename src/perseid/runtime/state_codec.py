"""The container of a state: a checked header, facts as JSON, and tables as Arrow streams.

Later versions read a state back, from disks that others may write to. A state contains no code, every length is
validated before use, a checksum detects damage, and every deviation is a :class:`StateError`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from perseid.errors import LimitError, StateError

MAGIC = b"PRSD"
LAYOUT = 1
"""The layout version of the container; the engine has a version of its own for the content."""
_HEAD = struct.Struct("<4sHHIIQ")
"""Magic, layout, number of tables, checksum of the bytes that follow it, bytes of facts, bytes of tables."""
_LENGTH = struct.Struct("<Q")
GO_BACK = (
    "If batches have run since the change, restore a copy of the checkpoint too, or start with an empty one. "
    "match(…, checkpoint=…) validates the checkpoint before anything runs."
)
"""Advice for incompatible states: a batch reads only the states of its shards, so some may have been rewritten."""
MAX_TABLES = 1 << 12
"""An uncertain stream has up to three tables for each pattern."""
MAX_FACTS = 1 << 24


@dataclass(frozen=True)
class DecodedState:
    """The content of a state."""

    facts: Mapping[str, Any]
    tables: tuple[pa.RecordBatch, ...]


def encode_state(facts: Mapping[str, object], tables: tuple[pa.RecordBatch, ...]) -> bytes:
    """Encode facts and tables as bytes."""
    encoded_facts = json.dumps(facts, separators=(",", ":"), sort_keys=True).encode()
    if len(encoded_facts) > MAX_FACTS:
        raise LimitError(
            f"Partial matches take {len(encoded_facts):,} bytes in the state of one shard; the limit is {MAX_FACTS:,}.",
            hint="Use more shards, or shorter windows.",
        )
    if len(tables) > MAX_TABLES:
        raise LimitError(
            f"The state of one shard has {len(tables):,} tables; the limit is {MAX_TABLES:,}.",
            hint="Run the patterns in several queries.",
        )
    parts: list[bytes | memoryview] = []
    for table in tables:
        written = arrow_stream(table)
        parts += [_LENGTH.pack(written.size), memoryview(written)]
    size = sum(len(part) for part in parts)
    checksum = zlib.crc32(struct.pack("<IQ", len(encoded_facts), size))
    for part in (encoded_facts, *parts):
        checksum = zlib.crc32(part, checksum)
    return b"".join((_HEAD.pack(MAGIC, LAYOUT, len(tables), checksum, len(encoded_facts), size), encoded_facts, *parts))


def arrow_stream(table: pa.RecordBatch) -> pa.Buffer:
    """Encode a table as an Arrow stream, with its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    return sink.getvalue()


def decode_state(state: bytes) -> DecodedState:
    """Decode the bytes of :func:`encode_state`; raise a :class:`StateError` for all others."""
    if len(state) < _HEAD.size:
        raise StateError(f"The state has {len(state)} bytes and is shorter than its header.")
    magic, layout, count, checksum, facts_size, size = _HEAD.unpack_from(state)
    if magic != MAGIC:
        raise StateError("Not a state of Perseid.", hint="Check that the checkpoint belongs to this query.")
    if layout != LAYOUT:
        raise StateError(
            f"Unsupported state layout {layout}; this version reads layout {LAYOUT}.",
            hint="Continue with the version that wrote it, or start with an empty checkpoint.",
        )
    if len(state) != _HEAD.size + facts_size + size or count > MAX_TABLES or facts_size > MAX_FACTS:
        raise StateError("The state does not have the size in its header, or exceeds a limit.", hint=DAMAGED)
    content = memoryview(state)
    if zlib.crc32(content[_HEAD.size :], zlib.crc32(struct.pack("<IQ", facts_size, size))) != checksum:
        raise StateError("The checksum of the state does not match its content.", hint=DAMAGED)
    try:
        facts = json.loads(str(content[_HEAD.size : _HEAD.size + facts_size], "utf-8"))
    except (ValueError, RecursionError):
        raise StateError("The facts of the state are not a JSON object.", hint=DAMAGED) from None
    if not isinstance(facts, dict):
        raise StateError("The facts of the state are not a JSON object.", hint=DAMAGED)
    return DecodedState(facts, tuple(_tables(content[_HEAD.size + facts_size :], count)))


def format_fact(value: object) -> str:
    """Format a fact for a message, whatever its type."""
    return repr(value)[:60] if isinstance(value, str | int | None) else f"a value of type {type(value).__name__}"


def check_owner(sealed: DecodedState, engine: str, versions: Collection[int]) -> None:
    """Reject a state of another engine, or of a version that is not in ``versions``; the newest version is the last."""
    facts = sealed.facts
    if facts.get("engine") != engine:
        raise StateError(
            f"The stream was declared differently when the checkpoint was made: its state is of engine "
            f"{format_fact(facts.get('engine'))}, expected {engine!r}.",
            hint=f"Restore the previous disorder=. {GO_BACK}",
        )
    if type(facts.get("version")) is not int or facts["version"] not in versions:
        raise StateError(
            f"Unsupported state version {format_fact(facts.get('version'))}; this is engine {engine!r}, "
            f"version {max(versions)}.",
            hint="Continue with the version that wrote it, or start with an empty checkpoint.",
        )


DAMAGED = "Restore the checkpoint from a copy, or start with an empty one."


def _tables(body: memoryview, count: int) -> list[pa.RecordBatch]:
    tables, at = [], 0
    for _ in range(count):
        if at + _LENGTH.size > len(body):
            raise StateError("The tables of the state are truncated.", hint=DAMAGED)
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if length > len(body) - at:
            raise StateError("A table of the state is longer than the state.", hint=DAMAGED)
        tables.append(_table(body[at : at + length]))
        at += length
    if at != len(body):
        raise StateError("The state is longer than its tables.", hint=DAMAGED)
    return tables


def _table(stream: memoryview) -> pa.RecordBatch:
    try:
        _refuse_compressed(stream)
        with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
        batch.schema.names  # noqa: B018  Names that are no text are found here, and not later.
    except (pa.ArrowException, OSError, ValueError, StopIteration, MemoryError, struct.error):
        raise StateError("A table of the state cannot be read.", hint=DAMAGED) from None
    return batch


def _refuse_compressed(stream: memoryview) -> None:
    """Reject compressed tables. Perseid writes none, and a few bytes can expand beyond all memory."""
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(stream)):
        if message.type == "schema":
            continue
        metadata = memoryview(message.metadata)
        batch = _field(metadata, struct.unpack_from("<I", metadata)[0], 2)
        if batch is not None and message.type == "dictionary":
            batch = _field(metadata, batch, 1)
        if batch is None or _field(metadata, batch, 3) is not None:
            raise ValueError("compressed")


def _field(buffer: memoryview, table: int, number: int) -> int | None:
    """Return the position of the table in this field of a flatbuffer table, or None if the field is absent."""
    places = table - struct.unpack_from("<i", buffer, table)[0]
    (size,) = struct.unpack_from("<H", buffer, places)
    place = struct.unpack_from("<H", buffer, places + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
    return table + place + struct.unpack_from("<I", buffer, table + place)[0] if place else None
