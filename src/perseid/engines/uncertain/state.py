"""State of a shard of an uncertain stream: waiting rows, hidden chains, and for each pattern its groups, with the
samples of sampled ones, or its window history.

Automaton states are stored as the configurations that they consist of, encoded by pattern position, because their
numbers are valid in one process only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.chains import RetainedChains
from perseid.engines.uncertain.counting_automaton import WORLD, CountingAutomaton
from perseid.engines.uncertain.encoding import Encoding
from perseid.engines.uncertain.exact import StateWeights
from perseid.engines.uncertain.intervals import ChainMarginals
from perseid.engines.uncertain.memory import GroupStates, UncertainState, empty_state
from perseid.engines.uncertain.output_policies import OpenAlerts
from perseid.engines.uncertain.plan import COUNTS_SUFFIX, PlannedQuery, UncertainPlan
from perseid.engines.uncertain.reading import SymbolEncoder
from perseid.engines.uncertain.streams import Known, Streams
from perseid.engines.uncertain.traces import steps_of
from perseid.engines.uncertain.window_history import PriorBeliefs, WindowHistory, empty_history
from perseid.engines.uncertain.worlds import HiddenSamples, Worlds, worlds_for
from perseid.errors import StateError
from perseid.runtime.arrays import FloatArray, IntArray
from perseid.runtime.contract import StateReport
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.fact_values import (
    FactValue,
    FlagValue,
    IntegerValue,
    ListValue,
    RecordValue,
    StateFact,
    TextValue,
    UnionValue,
)
from perseid.runtime.state_codec import GO_BACK, MAX_TABLES, format_fact
from perseid.runtime.state_layout import (
    SHARDS,
    Facts,
    StateColumn,
    StateContent,
    StateLayout,
    StateTable,
    columns_of,
    decode,
    encode,
    fit_column,
    malformed,
)

_KEY, _COLUMN = "key ", "column "
_FURTHEST = (1 << 61) - 1
"""Limit of the absolute value of a step."""
_TEXTS = ListValue(items=TextValue(), unique=True)
_STEP = IntegerValue(low=-2 * _FURTHEST, high=2 * _FURTHEST, nullable=True)
_NAME = StateFact("pattern", TextValue())
_SITUATIONS = StateFact("situations", ListValue(items=FactValue()))
_STATES = StateFact("states", ListValue(items=ListValue(items=IntegerValue(low=0))))
_EXACT = RecordValue(
    facts=(_NAME, _SITUATIONS, _STATES, StateFact("sampling", ListValue(items=FactValue(), size=2), optional=True))
)
_BEGIN = StateFact("begin", IntegerValue(low=-_FURTHEST, high=_FURTHEST))
_KINDS = StateFact("kinds", ListValue(items=TextValue()))
_LOOKS_BACK = RecordValue(facts=(_NAME, _BEGIN, _KINDS, StateFact("believed", _TEXTS), StateFact("starts", _TEXTS)))


def _steps(*names: str) -> tuple[StateColumn, ...]:
    return tuple(StateColumn(name, pa.int64(), low=-_FURTHEST, high=_FURTHEST) for name in names)


def _lists(name: str, kind: pa.DataType, low: float | None = None) -> StateColumn:
    return StateColumn(name, pa.list_(kind), items=StateColumn("item", kind, low=low))


_KEYS = StateColumn(f"{_KEY}*")
_WEIGHT = StateColumn("weight", pa.float64(), low=0)
_BELIEF = _lists("belief", pa.float64(), 0)
_EVENT = StateColumn("event", pa.bool_())
_IDS = columns_of(pa.int64(), "time", "identity")
_ROWS = (*_IDS, StateColumn("kind", pa.int32(), low=-1), StateColumn(f"{_COLUMN}*"))
_READ = (_KEYS, *_steps("last", "done"), _BELIEF)
_PAIRS = (StateColumn("state", pa.int32(), low=0), StateColumn("value", pa.int64()), _EVENT, _WEIGHT)
_ONGOING = (_KEYS, *_steps("since", "last"), *columns_of(pa.float64(), "peak", "error"))
_BELIEVED = (_KEYS, *_steps("step"), _BELIEF)
_STARTS = (*columns_of(pa.int64(), "chain", "value"), _EVENT, StateColumn("weight", pa.float64(), low=0, high=2))


@lru_cache(maxsize=256)
def _tables_of(number: int, sampled: bool, believed: int | None, starts: int) -> tuple[StateTable, ...]:
    """Tables of a pattern, by its number in the state; ``believed`` is None unless it is evaluated over windows."""
    if believed is not None:
        return (
            StateTable(f"{number} rows", _ROWS),
            StateTable(f"{number} ongoing", _ONGOING),
            *(StateTable(f"{number} believed {i}", _BELIEVED) for i in range(believed)),
            *(StateTable(f"{number} starts {i}", _STARTS) for i in range(starts)),
        )
    units = (
        _KEYS,
        *_steps("last"),
        StateColumn("since", pa.int64()),
        *columns_of(pa.float64(), "peak", "error", "lost"),
        StateColumn("pairs", pa.int32(), low=0, adds_up_to=f"{number} pairs"),
    )
    worlds = (
        StateColumn("unit", pa.int32(), into=f"{number} units"),
        *_steps("reached"),
        _lists("state", pa.int32(), 0),
        _lists("chains", pa.int64()),
        _lists("there", pa.bool_()),
        _lists("value", pa.int64()),
    )
    tables = (StateTable(f"{number} units", units), StateTable(f"{number} pairs", _PAIRS))
    return (*tables, StateTable(f"{number} worlds", worlds, same_sizes=("there", "value"))) if sampled else tables


_WAITING = StateTable("waiting", _ROWS)


@lru_cache(maxsize=256)
def _read_table(number: int) -> StateTable:
    return StateTable(f"read {number}", _READ)


def _pattern_tables(number: int, written: Facts) -> tuple[StateTable, ...]:
    believed = len(written["believed"]) if "begin" in written else None
    return _tables_of(number, "sampling" in written, believed, len(written.get("starts", ())))


def _tables(facts: Facts) -> list[StateTable]:
    tables = [_WAITING, *(_read_table(i) for i in range(min(len(facts["read"]), MAX_TABLES)))]
    for number, written in enumerate(facts["patterns"]):
        if len(tables) + len(written.get("believed", ())) + len(written.get("starts", ())) >= MAX_TABLES:
            raise malformed("uncertain", f"it has more than {MAX_TABLES} tables")
        tables += _pattern_tables(number, written)
    return tables


_MISMATCH = (
    "The uncertain stream was declared differently when the checkpoint was made: its steps, keys, model or inference."
)
LAYOUT = StateLayout(
    "uncertain",
    1,
    (
        SHARDS,
        StateFact("stream", TextValue(), mismatch=_MISMATCH, hint="Use the declaration of the checkpoint."),
        StateFact("known", _STEP),
        StateFact("done", _STEP),
        StateFact("counts", FlagValue(), optional=True),
        _KINDS,
        StateFact("read", _TEXTS),
        StateFact("patterns", ListValue(items=UnionValue(options=(_EXACT, _LOOKS_BACK)))),
    ),
    _tables,
)
_SHAPE = "its content does not fit this pattern or stream"


def digest_of(streams: Streams) -> str:
    """Hash of the parts of a stream declaration that a state depends on."""
    parts_text = [repr(streams.every), repr(streams.prune)]
    for part in streams.parts:
        model = "" if part.model is None else part.model.digest()
        part_fields = (
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
            parts_text.append(repr(part_fields))
    return hashlib.blake2b("\0".join(parts_text).encode(), digest_size=16).hexdigest()


def write_state(plan: UncertainPlan, state: UncertainState, readers: Mapping[str, SymbolEncoder]) -> bytes:
    """Encode the state of a shard."""
    facts: dict[str, Any] = {
        "shards": plan.shards,
        "stream": digest_of(plan.streams),
        "known": state.known,
        "done": state.done,
        "counts": plan.output_policy.counts,
        "kinds": list(state.buffered.type_names),
        "read": [],
        "patterns": [],
    }
    tables: list[pa.RecordBatch] = [_rows(state.buffered)]
    for type_, lives in state.lives.items():
        if len(lives):
            facts["read"].append(type_)
            tables.append(_lives(lives))
    for one in plan.queries:
        past = state.histories.get(one.memory(False))
        if past is not None:
            facts["patterns"].append(_encode_history(one.memory(False), past))
            tables += _history_tables(past)
        for name in (one.memory(ways) for ways in plan.output_policy.carries):
            memory = state.memories.get(name)
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
    names = [table.name for table in LAYOUT.tables_of(facts)]
    return encode(LAYOUT, facts, dict(zip(names, tables, strict=True)))


def _rows(rows: EventBatch) -> pa.RecordBatch:
    columns = {"time": pa.array(rows.time), "identity": pa.array(rows.identity), "kind": pa.array(rows.type_codes)}
    for name, column in rows.columns.items():
        columns[_COLUMN + name] = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.RecordBatch.from_pydict(columns)


def _lives(lives: RetainedChains) -> pa.RecordBatch:
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


def _units(memory: GroupStates) -> pa.RecordBatch:
    keys = {f"{_KEY}{i}": key for i, key in enumerate(memory.keys)}
    units = {
        **keys, "last": memory.last, "since": memory.since, "peak": memory.peak, "error": memory.error, "lost": memory.lost,
        "pairs": np.diff(memory.weights.offsets).astype(np.int32),
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(units)


def _pairs(memory: GroupStates, states: IntArray) -> pa.RecordBatch:
    value = memory.weights.pairs[:, 1]
    pairs = {
        "state": np.searchsorted(states, memory.weights.pairs[:, 0]).astype(np.int32),
        "value": np.append(memory.values, 0)[value],
        "event": value != len(memory.values),
        "weight": memory.weights.weight,
    }
    return pa.RecordBatch.from_pydict(pairs)


def _sampling(streams: Streams) -> list[int]:
    """Parameters of sampling that a state depends on: number of worlds, and seed."""
    return [worlds_for(streams.sampling), streams.sampling.seed]


def _worlds(memory: GroupStates, states: IntArray) -> pa.RecordBatch:
    every = list(memory.worlds.items())
    columns = {
        "unit": [unit for unit, _ in every],
        "reached": [worlds.last for _, worlds in every],
        "state": [np.searchsorted(states, worlds.state) for _, worlds in every],
        "chains": [list(worlds.values) for _, worlds in every],
        "there": [[one for own in worlds.values.values() for one in own.there.tolist()] for _, worlds in every],
        "value": [[one for own in worlds.values.values() for one in own.value.tolist()] for _, worlds in every],
    }
    kinds = {column.name: column.type for column in _tables_of(0, True, None, 0)[2].columns}
    return pa.RecordBatch.from_pydict({name: pa.array(column, kinds[name]) for name, column in columns.items()})


def _encode_history(name: str, past: WindowHistory) -> dict[str, object]:
    return {
        "pattern": name,
        "begin": past.begin,
        "kinds": list(past.rows.type_names),
        "believed": list(past.believed),
        "starts": list(past.starts),
    }


def _history_tables(past: WindowHistory) -> list[pa.RecordBatch]:
    keys = {f"{_KEY}{i}": key for i, key in enumerate(past.groups)}
    tables = [_rows(past.rows), pa.RecordBatch.from_pydict({**keys, **past.ongoing._asdict()})]
    for own in past.believed.values():
        columns = {_KEY + name: column for name, column in own.keys.items()}
        belief = pa.array(list(own.shares), pa.list_(pa.float64()))
        tables.append(pa.RecordBatch.from_pydict({**columns, "step": own.step, "belief": belief}))
    for start in past.starts.values():
        tables.append(pa.RecordBatch.from_pydict({one.name: getattr(start, one.name) for one in _STARTS}))
    return tables


# decoding


def open_state(state: bytes, expected: Facts | None = None) -> StateContent:
    """Decode a state of any stream and patterns."""
    return decode(LAYOUT, state, expected)


def read_state(
    plan: UncertainPlan, rows: EventBatch, state: bytes, readers: Mapping[str, SymbolEncoder]
) -> UncertainState:
    """Decode the state of a shard, with the columns and types of the current rows."""
    content = open_state(state, {"shards": plan.shards, "stream": digest_of(plan.streams)})
    facts = content.facts
    tables = iter(content.tables.values())
    waiting = _read_rows(next(tables), facts["kinds"], rows)
    lives: dict[str, RetainedChains] = dict(empty_state(plan, rows).lives)
    for type_ in facts["read"]:
        part = plan.streams.part(type_)
        if part is None or part.known is not Known.READ or part.model is None:
            raise malformed(LAYOUT.engine, _SHAPE)
        lives[type_] = _read_lives(next(tables), part.of, len(part.model.values) if part.stores_belief else 0)
    queries = {one.memory(ways): one for one in plan.queries for ways in plan.output_policy.carries}
    memories: dict[str, GroupStates] = {}
    pasts: dict[str, WindowHistory] = {}
    for number, written in enumerate(facts["patterns"]):
        own = [next(tables) for _ in _pattern_tables(number, written)]
        named = written["pattern"]
        if named not in queries:
            continue  # the state of a pattern that was removed is dropped
        if plan.output_policy.counts and facts.get("counts") is not True:
            raise StateError(
                "The checkpoint was made without emit=ps.uncertain.expected(), so it has no counts of partial matches.",
                hint="Use a new checkpoint, or the output policy of this one.",
            )
        looks_back = queries[named].looks_back(plan.streams) and not isinstance(
            readers[named].automaton, CountingAutomaton
        )
        if looks_back != ("begin" in written):
            raise StateError(
                f"Pattern {queries[named].name} was {'sampled' if looks_back else 'evaluated exactly'} when the checkpoint was made.",
                hint=f"{'Use' if looks_back else 'Remove'} sampling=ps.uncertain.Sampling(always=True). {GO_BACK}",
            )
        if looks_back:
            pasts[named] = _read_history(queries[named], plan.streams, written, own, rows)
            continue
        memories[named] = _read_memory(queries[named], plan.streams, readers[named].automaton, written, own)
    return UncertainState(facts["known"], facts["done"], waiting, lives, memories, pasts)


def _arrays(batch: pa.RecordBatch, *names: str) -> list[NDArray[Any]]:
    return [batch.column(name).to_numpy(zero_copy_only=False) for name in names]


def _read_rows(batch: pa.RecordBatch, names: list[str], rows: EventBatch) -> EventBatch:
    time, identity, kinds = _arrays(batch, "time", "identity", "kind")
    if len(kinds) and kinds.max() >= len(names):
        raise malformed(LAYOUT.engine, _SHAPE)
    columns = {
        name: fit_column(batch, _COLUMN + name, one.type, f"column {name!r}") for name, one in rows.columns.items()
    }
    codes = {name: i for i, name in enumerate(rows.type_names)}
    recoded = np.array([*(codes.get(name, -1) for name in names), -1], np.int32)[kinds]
    return EventBatch(time, recoded, rows.type_names, columns, {}, identity, relations=rows.relations)


def _read_lives(batch: pa.RecordBatch, of: tuple[str, ...], values: int) -> RetainedChains:
    last, done = _arrays(batch, "last", "done")
    return RetainedChains(_read_keys(batch, of), last, done, _read_belief(batch, values))


_NO_KEYS = (pa.types.is_map, pa.types.is_dictionary, pa.types.is_run_end_encoded, pa.types.is_union)
"""Types that are invalid for a key column."""


def _read_keys(batch: pa.RecordBatch, of: Sequence[str]) -> dict[str, pa.Array]:
    if any(_KEY + name not in batch.schema.names for name in of):
        raise malformed(LAYOUT.engine, _SHAPE)
    keys = {name: batch.column(_KEY + name) for name in of}
    if any(is_kind(key.type) for key in keys.values() for is_kind in _NO_KEYS):
        raise malformed(LAYOUT.engine, _SHAPE)
    return keys


def _read_belief(batch: pa.RecordBatch, values: int) -> FloatArray:
    """By row and value: the probability."""
    column = batch.column("belief")
    sizes = column.value_lengths().to_numpy(zero_copy_only=False)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if (sizes != values).any():
        raise malformed(LAYOUT.engine, _SHAPE)
    belief: FloatArray = flat.reshape(len(sizes), values)
    if values and (np.abs(belief.sum(axis=1) - 1.0) > 1e-6).any():
        raise malformed(LAYOUT.engine, _SHAPE)
    return belief


def _read_history(
    one: PlannedQuery, streams: Streams, written: Facts, tables: list[pa.RecordBatch], rows: EventBatch
) -> WindowHistory:
    rows_table, lasting, *others = tables
    begin, read, linked = written["begin"], written["believed"], written["starts"]
    empty = empty_history(one, streams, rows)
    tabled = {part.type for part in streams.parts if part.known is Known.LINKED and one.reads_type(part.type)}
    if set(read) != set(empty.believed) or not set(linked) <= tabled or {*read} & {*linked}:
        raise malformed(LAYOUT.engine, _SHAPE)
    own = _read_rows(rows_table, written["kinds"], rows)
    believed = {
        type_: _read_beliefs(batch, list(empty.believed[type_].keys), empty.believed[type_].shares.shape[1])
        for type_, batch in zip(read, others, strict=False)
    }
    starts = {type_: _read_start(begin, batch) for type_, batch in zip(linked, others[len(read) :], strict=True)}
    for steps in (steps_of(own, streams.every), *(some.step for some in believed.values())):
        if len(steps) and steps.min() <= begin:
            raise malformed(LAYOUT.engine, _SHAPE)
    since, peak, error, last = _arrays(lasting, "since", "peak", "error", "last")
    groups = _read_keys(lasting, [str(i) for i in range(one.groups)])
    if len(since) > 1 and not groups:
        raise malformed(LAYOUT.engine, _SHAPE)
    return WindowHistory(begin, own, believed, starts, list(groups.values()), OpenAlerts(since, peak, error, last))


def _read_beliefs(batch: pa.RecordBatch, of: list[str], values: int) -> PriorBeliefs:
    (steps,) = _arrays(batch, "step")
    return PriorBeliefs(_read_keys(batch, of), steps, _read_belief(batch, values))


def _read_start(begin: int, batch: pa.RecordBatch) -> ChainMarginals:
    return ChainMarginals(begin, *_arrays(batch, "chain", "value", "event", "weight"))


def _read_memory(
    one: PlannedQuery, streams: Streams, automaton: Automaton, written: Facts, tables: list[pa.RecordBatch]
) -> GroupStates:
    state_numbers = _read_states(automaton, written)
    units, pairs, *drawn = tables
    last, since, peak, error, lost, lengths = _arrays(units, "last", "since", "peak", "error", "lost", "pairs")
    state, value, event, weight = _arrays(pairs, "state", "value", "event", "weight")
    keys = list(_read_keys(units, [str(i) for i in range(len(one.unit))]).values())
    worlds = _read_worlds(streams, automaton, written["sampling"], drawn[0], state_numbers) if drawn else {}
    exact = np.ones(len(last), bool)
    exact[list(worlds)] = False
    if ((lengths < 1) == exact).any():
        raise malformed(LAYOUT.engine, _SHAPE)
    if one.is_sampled(streams) and exact.any() and not isinstance(automaton, CountingAutomaton):
        raise StateError(
            f"Pattern {one.name} was evaluated exactly when the checkpoint was made.",
            hint=f"Remove always=True of Sampling. {GO_BACK}",
        )
    if len(state) and state.max() >= len(state_numbers):
        raise malformed(LAYOUT.engine, _SHAPE)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    # Counts are unbounded; probabilities, and the weights of ``WORLD`` among counts, add up to 1 at most.
    ways = isinstance(automaton, CountingAutomaton)
    alone = np.where(state_numbers[state] == WORLD, weight, 0.0) if ways else weight
    sums = np.bincount(np.repeat(np.arange(len(lengths)), lengths), alone, minlength=len(lengths))
    if (sums > 1 + 1e-6).any():
        raise malformed(LAYOUT.engine, _SHAPE)
    model = next((part.model for part in one.hidden(streams) if part.known is Known.READ), None)
    values = np.unique(value[event]) if model is None else np.arange(len(model.values))
    codes = np.searchsorted(values, value)
    if model is not None and (event & ((value < 0) | (value >= len(values)))).any():
        raise malformed(LAYOUT.engine, _SHAPE)
    own = np.stack([state_numbers[state], np.where(event, codes, len(values))], axis=1)
    weights = StateWeights(own.astype(np.int64), weight.copy(), offsets)
    return GroupStates(keys, last, weights, values.astype(np.int64), since, peak, error, lost, worlds)


def _read_states(automaton: Automaton, written: Facts) -> IntArray:
    """Numbers of the stored states in this process."""
    encoding = Encoding(automaton.nfa)
    numbers = [
        automaton.number(encoding.read(written_configuration)) for written_configuration in written["situations"]
    ]
    state_numbers = []
    for state in written["states"]:
        if any(i >= len(numbers) for i in state):
            raise malformed(LAYOUT.engine, _SHAPE)
        state_numbers.append(automaton.state(numbers[i] for i in state))
    return np.array(state_numbers, np.int64)


def _read_worlds(
    streams: Streams, automaton: Automaton, sampling: object, batch: pa.RecordBatch, state_numbers: IntArray
) -> dict[int, Worlds]:
    if sampling != _sampling(streams):
        raise StateError(
            "The uncertain stream was sampled differently when the checkpoint was made: its epsilon, delta or seed.",
            hint=f"Use the options of the checkpoint. {GO_BACK}",
        )
    count, seed = _sampling(streams)
    out: dict[int, Worlds] = {}
    names = ("unit", "reached", "state", "chains", "there", "value")
    for unit, reached, states, chains, there, value in zip(
        *(batch.column(name).to_pylist() for name in names), strict=True
    ):
        if (
            len(states) != count
            or len(value) != count * len(chains)
            or max(states) >= len(state_numbers)
            or unit in out
        ):
            raise malformed(LAYOUT.engine, _SHAPE)
        has_values, values_of_chains = (np.array(one).reshape(len(chains), count) for one in (there, value))
        stays = streams.every is None
        values = {chain: HiddenSamples(has_values[i], values_of_chains[i], stays) for i, chain in enumerate(chains)}
        out[unit] = Worlds(automaton, count, seed, reached, state_numbers[np.array(states)], values)
    return out


def report(state: bytes) -> StateReport:
    """Summarize a state."""
    content = open_state(state)
    facts, tables = content.facts, content.tables
    waiting = tables["waiting"]
    open_groups, events = {}, waiting.num_rows
    for number, written in enumerate(facts["patterns"]):
        first = tables[f"{number} rows" if "begin" in written else f"{number} units"].num_rows
        events += first if "begin" in written else 0
        if not written["pattern"].endswith(COUNTS_SUFFIX):  # counts have the same groups
            open_groups[format_fact(written["pattern"])] = first
    return StateReport(
        shards=facts["shards"],
        horizon=facts["known"],
        events=events,
        buffered=waiting.num_rows,
        oldest=min(waiting.column("time").to_pylist(), default=None),
        open=open_groups,
        keys={},
        bytes=len(state),
    )
