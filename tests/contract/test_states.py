"""State encoding of the engines: a round trip, and errors for damaged, foreign and malformed states."""

from __future__ import annotations

import copy
import json
import random
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.errors import StateError
from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.state_codec import LAYOUT, MAX_FACTS, decode_state, encode_state
from perseid.runtime.watermark import Watermark
from tests.contract.inputs import inputs_of
from tests.contract.malformed_states import HEAD, mutations, nested, reseal
from tests.contract.streams import SECOND, Shard, calls_of
from tests.contract.test_contract import whole_engine

SUPPRESSED = "match A a -> B+ b\nwithin 10 seconds\npartition by k\nreturn last(b.s) as s\nsuppress 20 seconds"
PLAIN = "match A a -> B b [v > a.v]\nwithin 10 seconds\npartition by k\nreturn a.s as s1"
IN_TURN = "match A(k as u) a -> (C(k as u) c | B{1,9} b)\nwithin 12 seconds\nselection chronicle\nsuppress 1 second"
NEWEST = "match (A+ a)+ -> C c [v < sum(a.v)] -> B b\nwithin 20 seconds\nselection recent\nreport timeouts"


def shards_of(engine: Engine) -> list[Shard]:
    """Yield shards in the middle of a stream: waiting events, partial matches, suppression, arrival order."""
    data = [
        {"second": i, "type": "ABC"[i % 3], "k": i % 2, "v": i % 4, "s": f"text {i}", "number": i // 2}
        for i in range(14)
    ]
    workload = inputs_of(engine).write([SUPPRESSED, PLAIN], data)
    shards = []
    for order, now in (("watermark", 9 * SECOND), ("arrival", 9 * SECOND), ("watermark", 3 * SECOND)):
        shard = Shard(engine, replace(workload, id=(), order_by=("s",)), order)
        shard.call(workload.data, None)
        shard.call((), now)
        shards.append(shard)
    quiet = Shard(engine, replace(workload, patterns=workload.patterns[:1]))
    quiet.call(workload.data, None)
    quiet.call((), 25 * SECOND)
    assert quiet.state is not None
    several = inputs_of(engine).draw_workload(5, False)
    last = Shard(engine, several)
    for call in calls_of(engine, several, 5):
        last.call(call.data, call.now)
    assert last.state is not None
    partial = Shard(engine, inputs_of(engine).write([IN_TURN, NEWEST], data))
    partial.call(workload.data, None)
    partial.call((), 9 * SECOND)
    return [*shards, quiet, last, partial]


class StateReader:
    """Reads states as a restarted shard does; its rows are made once for many states."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.rows = shard.inputs.rows(shard.workload, shard.workload.data[-1:])
        self.clock = Watermark(shard.now, (shard.now or 0) + SECOND, False)

    def read(self, state: bytes, plan: Any = None) -> StepResult:
        return self.shard.engine.step(self.shard.plan if plan is None else plan, self.rows, state, self.clock)

    def rejects(self, state: bytes) -> str:
        with pytest.raises(StateError) as found:
            self.read(state)
        return str(found.value)


def state_of(shard: Shard) -> bytes:
    assert shard.state is not None
    return shard.state


@whole_engine
def test_state_round_trip(engine: Engine) -> None:
    for shard in shards_of(engine):
        sealed = decode_state(state_of(shard))
        assert encode_state(sealed.facts, sealed.tables) == shard.state
        assert sealed.facts["engine"] == engine.name


@whole_engine
def test_any_changed_byte_is_detected(engine: Engine) -> None:
    """The checksum detects a change of any one byte."""
    for shard in shards_of(engine)[:4:3]:
        reader, state = StateReader(shard), state_of(shard)
        reader.read(state)
        changed = bytearray(state)
        for at in range(len(state)):
            for flipped in (1 << at % 8, 255):
                changed[at] ^= flipped
                with pytest.raises(StateError):
                    reader.read(bytes(changed))
                changed[at] ^= flipped


@whole_engine
def test_truncated_or_extended_state_is_rejected(engine: Engine) -> None:
    shard = shards_of(engine)[0]
    reader, state = StateReader(shard), state_of(shard)
    for size in [*range(0, len(state), 3), len(state) - 1]:
        reader.rejects(state[:size])
    for more in (b"\0", b"x", state):
        reader.rejects(state + more)
        reader.rejects(more + state)
        # Also with lengths and a checksum that fit.
        reader.rejects(reseal(state, body=state[HEAD.size + HEAD.unpack_from(state)[4] :] + more))
    for wrong in (b"", b"PRSD", bytes(24), bytes(1000)):
        reader.rejects(wrong)


@whole_engine
def test_foreign_state_is_rejected(engine: Engine) -> None:
    """Another layout, engine, version, number of shards or order is rejected with a hint."""
    shard = shards_of(engine)[0]
    reader, state = StateReader(shard), state_of(shard)
    layout = bytearray(state)
    struct.pack_into("<H", layout, 4, LAYOUT + 1)
    assert f"layout {LAYOUT + 1}" in reader.rejects(bytes(layout))
    sealed = decode_state(state)
    for name, value in (("engine", "another"), ("version", 999), ("shards", 5), ("order", "arrival")):
        said = reader.rejects(encode_state({**sealed.facts, name: value}, sealed.tables))
        assert str(value) in said
    for changes in ({"shards": 5}, {"order": "arrival"}):
        with pytest.raises(StateError):
            reader.read(state, replace(shard.plan, **changes))
    for count in range(6):
        if count != len(sealed.tables):
            reader.rejects(reseal(state, count=count))


def _body(tables: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack("<Q", len(table)) + table for table in tables)


def _stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@whole_engine
def test_oversized_state_is_rejected_before_allocation(engine: Engine) -> None:
    """Few bytes that expand to many, or declare a large size, are rejected before memory is allocated."""
    shard = shards_of(engine)[0]
    reader, state = StateReader(shard), state_of(shard)
    sealed = decode_state(state)
    table = sealed.tables[0]
    began = time.monotonic()
    for codec in ("zstd", "lz4"):
        body = _body([_stream(one, compression=codec) for one in sealed.tables])
        assert "cannot be read" in reader.rejects(reseal(state, body=body))
    many = pa.record_batch([pa.array(np.zeros(1 << 24, np.int64))], names=["time"])
    reader.rejects(reseal(state, body=_body([_stream(many, compression="zstd")]), count=1))
    for length in (2**64 - 1, 2**63, 2**40, len(state)):
        reader.rejects(reseal(state, body=struct.pack("<Q", length) + b"x" * 64))
    for facts_size, size in ((2**32 - 1, 0), (MAX_FACTS + 1, 0), (0, 2**63), (10, 2**64 - 1)):
        reader.rejects(HEAD.pack(b"PRSD", LAYOUT, 1, 0, facts_size, size) + bytes(100))
    # One long text that every event refers to, and one run that contains all of them.
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(table.num_rows, np.int32)), pa.array(["x" * 1_000_000]))
    run = pa.RunEndEncodedArray.from_arrays(pa.array([table.num_rows], pa.int32()), pa.array(["x"]))
    for column in (long, run):
        at = table.schema.names.index("column s")
        changed = table.set_column(at, "column s", column)
        reader.rejects(encode_state(sealed.facts, (changed, *sealed.tables[1:])))
    for depth in (100, 900, 100_000):
        deep = json.dumps(dict(sealed.facts))[:-1] + ', "more": ' + "[" * depth + "]" * depth + "}"
        try:
            reader.read(reseal(state, facts=deep.encode()))
        except StateError:
            continue
    for name in sealed.facts:
        reader.rejects(encode_state({**sealed.facts, name: nested(800)}, sealed.tables))
    reader.rejects(reseal(state, facts=b"1" * 100_000))
    assert time.monotonic() - began < 20


@whole_engine
@pytest.mark.parametrize("block", range(6))
def test_mutated_state_is_rejected_or_continued(engine: Engine, block: int) -> None:
    """With a valid checksum, each is rejected as a state, or read and continued; no other error occurs."""
    shard = shards_of(engine)[block]
    reader = StateReader(shard)
    reader.read(state_of(shard))  # kernels are compiled before time is measured
    refused, longest = 0, 0.0
    for what, state in mutations(state_of(shard), 150, seed=block):
        began = time.monotonic()
        try:
            if engine.report is not None:
                engine.report(state)
            step = reader.read(state)
        except StateError:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        else:
            if step.state is not None:
                reader.read(step.state)
        longest = max(longest, time.monotonic() - began)
    assert refused > 40
    assert longest < 30


@whole_engine
def test_malformed_partial_matches_are_rejected(engine: Engine) -> None:
    """With missing or foreign events, out of order, with unknown transitions, duplicate, or of other patterns."""
    shard = shards_of(engine)[-1]
    reader = StateReader(shard)
    sealed = decode_state(state_of(shard))
    (at,) = (i for i, table in enumerate(sealed.tables) if "taken" in table.schema.names)
    table = sealed.tables[at]
    kinds, rows = dict(zip(table.schema.names, table.schema.types, strict=True)), table.to_pylist()
    assert {row["end"] is None for row in rows} == {True, False}
    extremes = {
        "event": (-(2**63), 2**63 - 1, -2, -1, *range(sealed.tables[0].num_rows + 1)),
        "step": (-(2**31), 2**31 - 1, *range(-1, 8)),
        "way": (-(2**31), 2**31 - 1, *range(-1, 8)),
    }
    chance = random.Random(1)
    refused = read = 0
    for _ in range(400):
        hostile = copy.deepcopy(rows)
        for _ in range(chance.randrange(1, 4)):
            row = chance.choice(hostile)
            what = chance.choice(("event", "step", "way", "way", "turn", "twice", "end", "pattern", "went on", "more"))
            if what in extremes and row["taken"]:
                chance.choice(row["taken"])[what] = chance.choice(extremes[what])
            elif what == "turn":
                row["taken"].reverse()
            elif what == "twice":
                row["taken"] *= 2
            elif what == "more":
                hostile.append(copy.deepcopy(row))
            elif what == "end":
                row["end"] = chance.choice((None, -(2**63), 2**63 - 1, 0))
            elif what == "pattern":
                row["pattern"] = chance.choice((-1, 0, 1, 2, 2**31 - 1))
            else:
                row["went on"] = not row["went on"]
                row["taken"] = row["taken"][: chance.randrange(len(row["taken"]) + 1)]
        arrays = [pa.array([row[name] for row in hostile], kind) for name, kind in kinds.items()]
        tables = [*sealed.tables[:at], pa.record_batch(arrays, schema=table.schema), *sealed.tables[at + 1 :]]
        try:
            step = reader.read(encode_state(sealed.facts, tuple(tables)))
        except StateError:
            refused += 1
        else:
            read += 1
            if step.state is not None:
                reader.read(step.state)
    assert refused > 40
    assert read > 40
