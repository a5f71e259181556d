"""What a shard of an uncertain stream keeps, as bytes: rows that wait, chains behind readings, and for each pattern its groups,
those that are sampled with their worlds.

States of an automaton are written as the situations they are made of, in the pattern's own terms: their numbers are a
process's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.contract import Rows, StateReport
from perseid.engines.state import GO_BACK, Sealed, check_owner, check_shards, seal, shown, unseal
from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.chains import Lives
from perseid.engines.uncertain.encoding import Encoding
from perseid.engines.uncertain.exact import Weights
from perseid.engines.uncertain.memory import Kept, Memory, nothing
from perseid.engines.uncertain.plan import WAYS, Asked, UncertainPlan
from perseid.engines.uncertain.reading import Reader
from perseid.engines.uncertain.streams import Known, Streams
from perseid.engines.uncertain.ways import WORLD, Ways
from perseid.engines.uncertain.worlds import Hidden, Worlds, worlds_for
from perseid.errors import StateError

NAME, VERSION = "uncertain", 1
_KEY, _COLUMN = "key ", "column "
_UNIT = pa.schema(
    [("last", pa.int64()), ("since", pa.int64()), ("peak", pa.float64()), ("error", pa.float64()), ("lost", pa.float64()),
     ("pairs", pa.int32())]
)  # fmt: skip
_PAIR = pa.schema([("state", pa.int32()), ("value", pa.int64()), ("event", pa.bool_()), ("weight", pa.float64())])
_LIFE = pa.schema([("last", pa.int64()), ("done", pa.int64()), ("belief", pa.list_(pa.float64()))])
_WORLDS = pa.schema(
    [("unit", pa.int32()), ("reached", pa.int64()), ("state", pa.list_(pa.int32())), ("chains", pa.list_(pa.int64())),
     ("there", pa.list_(pa.bool_())), ("value", pa.list_(pa.int64()))]
)  # fmt: skip
_SHAPE = "The state is not what one of an uncertain stream should be."


def digest_of(streams: Streams) -> str:
    """What is said of a stream that a state depends on."""
    said = [repr(streams.every), repr(streams.prune)]
    for part in streams.parts:
        model = "" if part.model is None else part.model.digest()
        words = (
            part.type,
            part.known.value,
            part.of,
            part.about,
            model,
            str(part.inference),
            part.correlations,
            part.patience,
        )
        if part.known is not Known.CERTAIN:
            said.append(repr(words))
    return hashlib.blake2b("\0".join(said).encode(), digest_size=16).hexdigest()


def write_state(plan: UncertainPlan, kept: Kept, readers: Mapping[str, Reader]) -> bytes:
    """A shard's state as bytes."""
    facts: dict[str, Any] = {
        "engine": NAME,
        "version": VERSION,
        "shards": plan.shards,
        "stream": digest_of(plan.streams),
        "known": kept.known,
        "done": kept.done,
        "counts": plan.telling.counts,
        "kinds": list(kept.waiting.kind_names),
        "read": [],
        "patterns": [],
    }
    tables = [_rows(kept.waiting)]
    for type_, lives in kept.lives.items():
        if len(lives):
            facts["read"].append(type_)
            tables.append(_lives(lives))
    for one in plan.asked:
        for name in (one.memory(ways) for ways in plan.telling.carries):
            memory = kept.memories.get(name)
            if memory is None:
                continue
            used = [memory.weights.pairs[:, 0], *(worlds.state for worlds in memory.worlds.values())]
            states = np.unique(np.concatenate(used))
            written = _states(readers[name].automaton, states)
            tables += [_units(memory), _pairs(memory, states)]
            if memory.worlds:
                written["sampling"] = _sampling(plan.streams)
                tables.append(_worlds(memory, states))
            facts["patterns"].append({"pattern": name, **written})
    return seal(facts, tuple(tables))


def _rows(rows: Rows) -> pa.RecordBatch:
    columns = {"time": pa.array(rows.time), "identity": pa.array(rows.identity), "kind": pa.array(rows.kinds)}
    for name, column in rows.columns.items():
        columns[_COLUMN + name] = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.RecordBatch.from_pydict(columns)


def _lives(lives: Lives) -> pa.RecordBatch:
    belief = pa.array(list(lives.belief), pa.list_(pa.float64()))
    columns = {_KEY + name: column for name, column in lives.keys.items()}
    return pa.RecordBatch.from_pydict({**columns, "last": lives.last, "done": lives.done, "belief": belief})


def _states(automaton: Automaton, states: Any) -> dict[str, Any]:
    encoding = Encoding(automaton.meaning)
    situations = sorted({number for state in states for number in automaton.states[int(state)]})
    places = {number: i for i, number in enumerate(situations)}
    return {
        "situations": [encoding.write(automaton.situations[number]) for number in situations],
        "states": [[places[number] for number in automaton.states[int(state)]] for state in states],
    }


def _units(memory: Memory) -> pa.RecordBatch:
    keys = {f"{_KEY}{i}": key for i, key in enumerate(memory.keys)}
    units = {
        **keys, "last": memory.last, "since": memory.since, "peak": memory.peak, "error": memory.error, "lost": memory.lost,
        "pairs": np.diff(memory.weights.offsets).astype(np.int32),
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(units)


def _pairs(memory: Memory, states: Any) -> pa.RecordBatch:
    value = memory.weights.pairs[:, 1]
    pairs = {
        "state": np.searchsorted(states, memory.weights.pairs[:, 0]).astype(np.int32),
        "value": np.append(memory.values, 0)[value],
        "event": value != len(memory.values),
        "weight": memory.weights.weight,
    }
    return pa.RecordBatch.from_pydict(pairs)


def _sampling(streams: Streams) -> list[int]:
    """What worlds depend on: how many there are, and the seed."""
    return [worlds_for(streams.sampling), streams.sampling.seed]


def _worlds(memory: Memory, states: Any) -> pa.RecordBatch:
    every = list(memory.worlds.items())
    columns = {
        "unit": [unit for unit, _ in every],
        "reached": [worlds.last for _, worlds in every],
        "state": [np.searchsorted(states, worlds.state) for _, worlds in every],
        "chains": [list(worlds.values) for _, worlds in every],
        "there": [[one for own in worlds.values.values() for one in own.there.tolist()] for _, worlds in every],
        "value": [[one for own in worlds.values.values() for one in own.value.tolist()] for _, worlds in every],
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in _WORLDS], schema=_WORLDS)


# reading


def open_state(state: bytes) -> Sealed:
    """Whatever is not what this engine writes is a StateError: a checkpoint may be anybody's."""
    sealed = unseal(state)
    check_owner(sealed, NAME, (VERSION,))
    facts = sealed.facts
    steps = [facts.get("known"), facts.get("done")]
    kinds, read, patterns = facts.get("kinds"), facts.get("read"), facts.get("patterns")
    if not (_are_texts(kinds) and _are_texts(read) and isinstance(patterns, list)):
        raise StateError(_SHAPE)
    if not all(one is None or (type(one) is int and abs(one) < 1 << 62) for one in steps):
        raise StateError(_SHAPE)
    if not all(isinstance(one, dict) for one in patterns):
        raise StateError(_SHAPE)
    if len(sealed.tables) != 1 + len(read or ()) + sum(_tables(one) for one in patterns):
        raise StateError(_SHAPE)
    return sealed


def _tables(written: Mapping[str, Any]) -> int:
    """How many tables a pattern has."""
    return 3 if "sampling" in written else 2


def _are_texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)


def read_state(plan: UncertainPlan, rows: Rows, state: bytes, readers: Mapping[str, Reader]) -> Kept:
    """What is kept, in the shape of the rows that come."""
    sealed = open_state(state)
    facts = sealed.facts
    check_shards(sealed, plan.shards)
    if facts.get("stream") != digest_of(plan.streams):
        raise StateError(
            "The uncertain stream was declared otherwise when the checkpoint was made: its steps, keys, model or inference.",
            hint=f"Declare it as it was. {GO_BACK}",
        )
    tables = iter(sealed.tables)
    waiting = _read_rows(next(tables), facts["kinds"], rows)
    lives: dict[str, Lives] = dict(nothing(plan, rows).lives)
    for type_ in facts["read"]:
        part = plan.streams.part(type_)
        if part is None or part.known is not Known.READ or part.model is None:
            raise StateError(_SHAPE)
        lives[type_] = _read_lives(next(tables), part.of, len(part.model.values) if part.keeps_belief else 0)
    asked = {one.memory(ways): one for one in plan.asked for ways in plan.telling.carries}
    memories: dict[str, Memory] = {}
    for written in facts["patterns"]:
        own = [next(tables) for _ in range(_tables(written))]
        named = written.get("pattern")
        if not isinstance(named, str) or named not in asked:
            continue  # what is no longer asked is forgotten
        if plan.telling.counts and facts.get("counts") is not True:
            raise StateError(
                "When the checkpoint was made nobody asked for tell=ps.expected(): its partial matches were not counted.",
                hint="Begin a new checkpoint, or ask for what was asked then.",
            )
        memories[named] = _read_memory(asked[named], plan.streams, readers[named].automaton, written, own)
    return Kept(facts["known"], facts["done"], waiting, lives, memories)


def _fields(batch: pa.RecordBatch, schema: pa.Schema) -> list[Any]:
    """Columns that are as they were written: the types they have, nothing null in them."""
    out = []
    for field in schema:
        if field.name not in batch.schema.names or batch.schema.names.count(field.name) > 1:
            raise StateError(_SHAPE)
        column = batch.column(field.name)
        if column.type != field.type or column.null_count:
            raise StateError(_SHAPE)
        out.append(column)
    return out


def _numbers(batch: pa.RecordBatch, schema: pa.Schema) -> list[Any]:
    found = [column.to_numpy(zero_copy_only=False) for column in _fields(batch, schema)]
    if any(one.dtype.kind == "f" and not np.isfinite(one).all() for one in found):
        raise StateError(_SHAPE)
    return found


def _read_rows(batch: pa.RecordBatch, names: list[str], rows: Rows) -> Rows:
    own = pa.schema([("time", pa.int64()), ("identity", pa.int64()), ("kind", pa.int32())])
    time, identity, kinds = _numbers(batch, own)
    if len(kinds) and not (kinds.min() >= -1 and kinds.max() < len(names)):
        raise StateError(_SHAPE)
    columns: dict[str, Any] = {}
    for name, column in rows.columns.items():
        kept = batch.column(_COLUMN + name) if _COLUMN + name in batch.schema.names else pa.nulls(len(time))
        if kept.type != column.type:
            if not pa.types.is_null(kept.type):
                raise StateError(
                    f"The column {name!r} was {kept.type} when the checkpoint was made, and is {column.type} now.",
                    hint=f"Cast it to what it was. {GO_BACK}",
                )
            kept = kept.cast(column.type)
        columns[name] = kept
    codes = {name: i for i, name in enumerate(rows.kind_names)}
    recoded = np.array([*(codes.get(name, -1) for name in names), -1], np.int32)[kinds]
    return Rows(time, recoded, rows.kind_names, columns, {}, identity, relations=rows.relations)


def _read_lives(batch: pa.RecordBatch, of: tuple[str, ...], values: int) -> Lives:
    last, done, _ = (column for column in _fields(batch, _LIFE))
    if any(_KEY + name not in batch.schema.names for name in of):
        raise StateError(_SHAPE)
    column = batch.column("belief")
    sizes = column.value_lengths().to_numpy(zero_copy_only=False)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if (sizes != values).any() or not np.isfinite(flat).all() or (flat < 0).any():
        raise StateError(_SHAPE)
    belief = flat.reshape(len(sizes), values)
    if values and (np.abs(belief.sum(axis=1) - 1.0) > 1e-6).any():
        raise StateError(_SHAPE)
    keys = {name: batch.column(_KEY + name) for name in of}
    newest, counted = last.to_numpy(), done.to_numpy()
    if any((np.abs(one.astype(np.float64)) >= 2.0**61).any() for one in (newest, counted)):
        raise StateError(_SHAPE)
    return Lives(keys, newest, counted, belief)


def _read_memory(
    one: Asked, streams: Streams, automaton: Automaton, written: Mapping[str, Any], tables: list[pa.RecordBatch]
) -> Memory:
    made = _read_states(automaton, written)
    units, pairs, *drawn = tables
    last, since, peak, error, lost, lengths = _numbers(units, _UNIT)
    state, value, event, weight = _numbers(pairs, _PAIR)
    keys = [units.column(f"{_KEY}{i}") if f"{_KEY}{i}" in units.schema.names else None for i in range(len(one.unit))]
    worlds = _read_worlds(streams, automaton, written["sampling"], drawn[0], made) if drawn else {}
    exact = np.ones(len(last), bool)
    if any(not 0 <= unit < len(last) for unit in worlds):
        raise StateError(_SHAPE)
    exact[list(worlds)] = False
    if (
        any(key is None for key in keys)
        or ((lengths < 1) == exact).any()
        or (lengths < 0).any()
        or int(lengths.sum()) != len(state)
    ):
        raise StateError(_SHAPE)
    if one.is_sampled(streams) and exact.any() and not isinstance(automaton, Ways):
        raise StateError(
            f"Pattern {one.name} was answered exactly when the checkpoint was made.",
            hint=f"Leave out method='sample'. {GO_BACK}",
        )
    if len(state) and (state.min() < 0 or state.max() >= len(made) or (weight < 0).any()):
        raise StateError(_SHAPE)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    # Ways may be many; of probabilities, and of worlds beside ways, no more than one is left.
    ways = isinstance(automaton, Ways)
    alone = np.where(made[state] == WORLD, weight, 0.0) if ways else weight
    sums = np.bincount(np.repeat(np.arange(len(lengths)), lengths), alone, minlength=len(lengths))
    if (sums > 1 + 1e-6).any() or (np.abs(last.astype(np.float64)) >= 2.0**61).any():
        raise StateError(_SHAPE)
    model = next((part.model for part in one.hidden(streams) if part.known is Known.READ), None)
    values = np.unique(value[event]) if model is None else np.arange(len(model.values))
    codes = np.searchsorted(values, value)
    if model is not None and (event & ((value < 0) | (value >= len(values)))).any():
        raise StateError(_SHAPE)
    own = np.stack([made[state], np.where(event, codes, len(values))], axis=1)
    weights = Weights(own.astype(np.int64), weight.copy(), offsets)
    return Memory(keys, last, weights, values.astype(np.int64), since, peak, error, lost, worlds)


def _read_states(automaton: Automaton, written: Mapping[str, Any]) -> Any:
    """The numbers that states have in this process."""
    encoding = Encoding(automaton.meaning)
    situations, states = written.get("situations"), written.get("states")
    if not isinstance(situations, list) or not isinstance(states, list):
        raise StateError(_SHAPE)
    numbers = [automaton.number(encoding.read(given)) for given in situations]
    made = []
    for state in states:
        if not isinstance(state, list) or any(type(i) is not int or not 0 <= i < len(numbers) for i in state):
            raise StateError(_SHAPE)
        made.append(automaton.state(numbers[i] for i in state))
    return np.array(made, np.int64)


def _read_worlds(
    streams: Streams, automaton: Automaton, sampling: Any, batch: pa.RecordBatch, made: Any
) -> dict[int, Worlds]:
    if sampling != _sampling(streams):
        raise StateError(
            "The uncertain stream was sampled otherwise when the checkpoint was made: its epsilon, delta or seed.",
            hint=f"Declare it as it was. {GO_BACK}",
        )
    count, seed = _sampling(streams)
    out: dict[int, Worlds] = {}
    for unit, reached, states, chains, there, value in zip(
        *(column.to_pylist() for column in _fields(batch, _WORLDS)), strict=True
    ):
        flat = [*states, *chains, *there, *value]
        if len(states) != count or any(len(one) != count * len(chains) for one in (there, value)) or None in flat:
            raise StateError(_SHAPE)
        if min(states) < 0 or max(states) >= len(made) or abs(reached) >= 1 << 61 or unit in out:
            raise StateError(_SHAPE)
        some, held = (np.array(one).reshape(len(chains), count) for one in (there, value))
        values = {chain: Hidden(some[i], held[i]) for i, chain in enumerate(chains)}
        out[unit] = Worlds(automaton, count, seed, reached, made[np.array(states)], values)
    return out


def report(state: bytes) -> StateReport:
    """What a state holds, for people."""
    sealed = open_state(state)
    facts = sealed.facts
    waiting = sealed.tables[0]
    times = waiting.column("time").to_pylist() if "time" in waiting.schema.names else []
    shards = facts.get("shards")
    held, place = {}, 1 + len(facts["read"])
    for one in facts["patterns"]:
        name = one.get("pattern")
        if not (isinstance(name, str) and name.endswith(WAYS)):  # the same groups again
            held[shown(name)] = sealed.tables[place].num_rows
        place += _tables(one)
    return StateReport(
        shards=shards if type(shards) is int else 0,
        horizon=facts["known"],
        events=waiting.num_rows,
        waiting=waiting.num_rows,
        oldest=min(times, default=None),
        open=held,
        keys={},
        bytes=len(state),
    )
