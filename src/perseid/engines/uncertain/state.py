"""What a shard of an uncertain stream keeps, as bytes: rows that wait, chains behind readings, and for each pattern its groups,
those that are sampled with their worlds, or what its windows reach back to.

States of an automaton are written as the configurations they are made of, in the pattern's own terms: their numbers are a
process's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.chains import Lives
from perseid.engines.uncertain.encoding import Encoding
from perseid.engines.uncertain.exact import Weights
from perseid.engines.uncertain.intervals import Starts
from perseid.engines.uncertain.memory import Kept, Memory, nothing
from perseid.engines.uncertain.past import Believed, Past, no_past
from perseid.engines.uncertain.plan import WAYS, Asked, UncertainPlan
from perseid.engines.uncertain.reading import Reader
from perseid.engines.uncertain.streams import Known, Streams
from perseid.engines.uncertain.telling import Ongoing
from perseid.engines.uncertain.traces import steps_of
from perseid.engines.uncertain.ways import WORLD, Ways
from perseid.engines.uncertain.worlds import Hidden, Worlds, worlds_for
from perseid.errors import StateError
from perseid.runtime.arrays import FloatArray, IntArray
from perseid.runtime.contract import StateReport
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.state_codec import (
    GO_BACK,
    DecodedState,
    check_owner,
    check_shards,
    decode_state,
    encode_state,
    format_fact,
)

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
_START = pa.schema([("chain", pa.int64()), ("value", pa.int64()), ("event", pa.bool_()), ("weight", pa.float64())])
_BELIEVED = pa.schema([("step", pa.int64()), ("belief", pa.list_(pa.float64()))])
_LASTING = pa.schema([("since", pa.int64()), ("peak", pa.float64()), ("error", pa.float64()), ("last", pa.int64())])
_FURTHEST = 1 << 61
"""No step is as far from 0."""
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
        "kinds": list(kept.waiting.type_names),
        "read": [],
        "patterns": [],
    }
    tables = [_rows(kept.waiting)]
    for type_, lives in kept.lives.items():
        if len(lives):
            facts["read"].append(type_)
            tables.append(_lives(lives))
    for one in plan.asked:
        past = kept.pasts.get(one.memory(False))
        if past is not None:
            facts["patterns"].append(_past(one.memory(False), past))
            tables += _past_tables(past)
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
    return encode_state(facts, tuple(tables))


def _rows(rows: EventBatch) -> pa.RecordBatch:
    columns = {"time": pa.array(rows.time), "identity": pa.array(rows.identity), "kind": pa.array(rows.type_codes)}
    for name, column in rows.columns.items():
        columns[_COLUMN + name] = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.RecordBatch.from_pydict(columns)


def _lives(lives: Lives) -> pa.RecordBatch:
    belief = pa.array(list(lives.belief), pa.list_(pa.float64()))
    columns = {_KEY + name: column for name, column in lives.keys.items()}
    return pa.RecordBatch.from_pydict({**columns, "last": lives.last, "done": lives.done, "belief": belief})


def _states(automaton: Automaton, states: IntArray) -> dict[str, object]:
    encoding = Encoding(automaton.nfa)
    configurations = sorted({number for state in states for number in automaton.states[int(state)]})
    places = {number: i for i, number in enumerate(configurations)}
    return {
        "situations": [encoding.write(automaton.configurations[number]) for number in configurations],
        "states": [[places[number] for number in automaton.states[int(state)]] for state in states],
    }


def _units(memory: Memory) -> pa.RecordBatch:
    keys = {f"{_KEY}{i}": key for i, key in enumerate(memory.keys)}
    units = {
        **keys, "last": memory.last, "since": memory.since, "peak": memory.peak, "error": memory.error, "lost": memory.lost,
        "pairs": np.diff(memory.weights.offsets).astype(np.int32),
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(units)


def _pairs(memory: Memory, states: IntArray) -> pa.RecordBatch:
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


def _worlds(memory: Memory, states: IntArray) -> pa.RecordBatch:
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


def _past(name: str, past: Past) -> dict[str, object]:
    return {
        "pattern": name,
        "begin": past.begin,
        "kinds": list(past.rows.type_names),
        "believed": list(past.believed),
        "starts": list(past.starts),
    }


def _past_tables(past: Past) -> list[pa.RecordBatch]:
    keys = {f"{_KEY}{i}": key for i, key in enumerate(past.groups)}
    tables = [_rows(past.rows), pa.RecordBatch.from_pydict({**keys, **past.ongoing._asdict()})]
    for own in past.believed.values():
        columns = {_KEY + name: column for name, column in own.keys.items()}
        belief = pa.array(list(own.shares), pa.list_(pa.float64()))
        tables.append(pa.RecordBatch.from_pydict({**columns, "step": own.step, "belief": belief}))
    for start in past.starts.values():
        columns = {name: getattr(start, name) for name in _START.names}
        tables.append(pa.RecordBatch.from_pydict(columns))
    return tables


# reading


def open_state(state: bytes) -> DecodedState:
    """Whatever is not what this engine writes is a StateError: a checkpoint may be anybody's."""
    sealed = decode_state(state)
    check_owner(sealed, NAME, (VERSION,))
    facts = sealed.facts
    if not {"known", "done"} <= set(facts):
        raise StateError(_SHAPE)
    steps = [facts["known"], facts["done"]]
    kinds, read, patterns = facts.get("kinds"), facts.get("read"), facts.get("patterns")
    if not (_are_texts(kinds) and _are_texts(read) and isinstance(patterns, list)):
        raise StateError(_SHAPE)
    if not all(one is None or (type(one) is int and abs(one) < 1 << 62) for one in steps):
        raise StateError(_SHAPE)
    if not all(isinstance(one, dict) for one in patterns):
        raise StateError(_SHAPE)
    if len(sealed.tables) != 1 + len(read or ()) + sum(_tables(one) for one in patterns):
        raise StateError(_SHAPE)
    if any(len(set(table.schema.names)) < table.num_columns for table in sealed.tables):
        raise StateError(_SHAPE)
    return sealed


def _tables(written: Mapping[str, Any]) -> int:
    """How many tables a pattern has."""
    if "begin" not in written:
        return 3 if "sampling" in written else 2
    names = [written.get(name) for name in ("kinds", "believed", "starts")]
    begin = written["begin"]
    if not all(map(_are_texts, names)) or type(begin) is not int or abs(begin) >= _FURTHEST:
        raise StateError(_SHAPE)
    return 2 + len(written["believed"]) + len(written["starts"])


def _are_texts(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)


def read_state(plan: UncertainPlan, rows: EventBatch, state: bytes, readers: Mapping[str, Reader]) -> Kept:
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
    pasts: dict[str, Past] = {}
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
        looks_back = asked[named].looks_back(plan.streams) and not isinstance(readers[named].automaton, Ways)
        if looks_back != ("begin" in written):
            raise StateError(
                f"Pattern {asked[named].name} was {'sampled' if looks_back else 'answered exactly'} when the checkpoint was made.",
                hint=f"{'Say' if looks_back else 'Leave out'} method='sample'. {GO_BACK}",
            )
        if looks_back:
            pasts[named] = _read_past(asked[named], plan.streams, written, own, rows)
            continue
        memories[named] = _read_memory(asked[named], plan.streams, readers[named].automaton, written, own)
    return Kept(facts["known"], facts["done"], waiting, lives, memories, pasts)


def _fields(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
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


def _numbers(batch: pa.RecordBatch, schema: pa.Schema) -> list[NDArray[Any]]:
    found = [column.to_numpy(zero_copy_only=False) for column in _fields(batch, schema)]
    if any(one.dtype.kind == "f" and not np.isfinite(one).all() for one in found):
        raise StateError(_SHAPE)
    return found


def _read_rows(batch: pa.RecordBatch, names: list[str], rows: EventBatch) -> EventBatch:
    own = pa.schema([("time", pa.int64()), ("identity", pa.int64()), ("kind", pa.int32())])
    time, identity, kinds = _numbers(batch, own)
    if len(kinds) and not (kinds.min() >= -1 and kinds.max() < len(names)):
        raise StateError(_SHAPE)
    columns: dict[str, pa.Array] = {}
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
    codes = {name: i for i, name in enumerate(rows.type_names)}
    recoded = np.array([*(codes.get(name, -1) for name in names), -1], np.int32)[kinds]
    return EventBatch(time, recoded, rows.type_names, columns, {}, identity, relations=rows.relations)


def _read_lives(batch: pa.RecordBatch, of: tuple[str, ...], values: int) -> Lives:
    last, done, belief = _fields(batch, _LIFE)
    newest, counted = last.to_numpy(), done.to_numpy()
    _check_steps(newest, counted)
    return Lives(_read_keys(batch, of), newest, counted, _read_belief(belief, values))


_NO_KEYS = (pa.types.is_map, pa.types.is_dictionary, pa.types.is_run_end_encoded, pa.types.is_union)
"""Types that no key column has."""


def _read_keys(batch: pa.RecordBatch, of: Sequence[str]) -> dict[str, pa.Array]:
    if any(_KEY + name not in batch.schema.names for name in of):
        raise StateError(_SHAPE)
    keys = {name: batch.column(_KEY + name) for name in of}
    if any(is_kind(key.type) for key in keys.values() for is_kind in _NO_KEYS):
        raise StateError(_SHAPE)
    return keys


def _read_belief(column: pa.Array, values: int) -> FloatArray:
    """By row and value: how probable it is."""
    sizes = column.value_lengths().to_numpy(zero_copy_only=False)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if (sizes != values).any() or not np.isfinite(flat).all() or (flat < 0).any():
        raise StateError(_SHAPE)
    belief: FloatArray = flat.reshape(len(sizes), values)
    if values and (np.abs(belief.sum(axis=1) - 1.0) > 1e-6).any():
        raise StateError(_SHAPE)
    return belief


def _check_steps(*given: IntArray) -> None:
    if any((np.abs(one.astype(np.float64)) >= float(_FURTHEST)).any() for one in given):
        raise StateError(_SHAPE)


def _read_past(
    one: Asked, streams: Streams, written: Mapping[str, Any], tables: list[pa.RecordBatch], rows: EventBatch
) -> Past:
    said, lasting, *others = tables
    begin, read, linked = written["begin"], written["believed"], written["starts"]
    known = no_past(one, streams, rows)
    tabled = {part.type for part in streams.parts if part.known is Known.LINKED and one.asks(part.type)}
    if set(read) != set(known.believed) or not set(linked) <= tabled or len({*read, *linked}) < len(read) + len(linked):
        raise StateError(_SHAPE)
    own = _read_rows(said, written["kinds"], rows)
    believed = {
        type_: _read_believed(batch, list(known.believed[type_].keys), known.believed[type_].shares.shape[1])
        for type_, batch in zip(read, others, strict=False)
    }
    starts = {type_: _read_start(begin, batch) for type_, batch in zip(linked, others[len(read) :], strict=True)}
    for steps in (steps_of(own, streams.every), *(some.step for some in believed.values())):
        if len(steps) and steps.min() <= begin:
            raise StateError(_SHAPE)
    since, peak, error, last = _numbers(lasting, _LASTING)
    _check_steps(since, last)
    groups = _read_keys(lasting, [str(i) for i in range(one.groups)])
    if len(since) > 1 and not groups:
        raise StateError(_SHAPE)
    return Past(begin, own, believed, starts, list(groups.values()), Ongoing(since, peak, error, last))


def _read_believed(batch: pa.RecordBatch, of: list[str], values: int) -> Believed:
    step, belief = _fields(batch, _BELIEVED)
    steps = step.to_numpy()
    _check_steps(steps)
    return Believed(_read_keys(batch, of), steps, _read_belief(belief, values))


def _read_start(begin: int, batch: pa.RecordBatch) -> Starts:
    chain, value, event, weight = _numbers(batch, _START)
    if (weight < 0).any() or (weight > 2).any():  # people round, at every step
        raise StateError(_SHAPE)
    return Starts(begin, chain, value, event, weight)


def _read_memory(
    one: Asked, streams: Streams, automaton: Automaton, written: Mapping[str, object], tables: list[pa.RecordBatch]
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
    _check_steps(last)
    if (sums > 1 + 1e-6).any():
        raise StateError(_SHAPE)
    model = next((part.model for part in one.hidden(streams) if part.known is Known.READ), None)
    values = np.unique(value[event]) if model is None else np.arange(len(model.values))
    codes = np.searchsorted(values, value)
    if model is not None and (event & ((value < 0) | (value >= len(values)))).any():
        raise StateError(_SHAPE)
    own = np.stack([made[state], np.where(event, codes, len(values))], axis=1)
    weights = Weights(own.astype(np.int64), weight.copy(), offsets)
    return Memory(keys, last, weights, values.astype(np.int64), since, peak, error, lost, worlds)


def _read_states(automaton: Automaton, written: Mapping[str, object]) -> IntArray:
    """The numbers that states have in this process."""
    encoding = Encoding(automaton.nfa)
    configurations, states = written.get("situations"), written.get("states")
    if not isinstance(configurations, list) or not isinstance(states, list):
        raise StateError(_SHAPE)
    numbers = [automaton.number(encoding.read(given)) for given in configurations]
    made = []
    for state in states:
        if not isinstance(state, list) or any(type(i) is not int or not 0 <= i < len(numbers) for i in state):
            raise StateError(_SHAPE)
        made.append(automaton.state(numbers[i] for i in state))
    return np.array(made, np.int64)


def _read_worlds(
    streams: Streams, automaton: Automaton, sampling: object, batch: pa.RecordBatch, made: IntArray
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
        stays = streams.every is None
        values = {chain: Hidden(some[i], held[i], stays) for i, chain in enumerate(chains)}
        out[unit] = Worlds(automaton, count, seed, reached, made[np.array(states)], values)
    return out


def report(state: bytes) -> StateReport:
    """What a state holds, for people."""
    sealed = open_state(state)
    facts = sealed.facts
    waiting = sealed.tables[0]
    (moments,) = _fields(waiting, pa.schema([("time", pa.int64())]))
    times = moments.to_pylist()
    shards = facts.get("shards")
    held, place, events = {}, 1 + len(facts["read"]), waiting.num_rows
    for one in facts["patterns"]:
        name = one.get("pattern")
        if "begin" in one:
            events += sealed.tables[place].num_rows
        if not (isinstance(name, str) and name.endswith(WAYS)):  # the same groups again
            held[format_fact(name)] = sealed.tables[place].num_rows
        place += _tables(one)
    return StateReport(
        shards=shards if type(shards) is int else 0,
        horizon=facts["known"],
        events=events,
        buffered=waiting.num_rows,
        oldest=min(times, default=None),
        open=held,
        keys={},
        bytes=len(state),
    )
