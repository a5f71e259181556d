"""The state of a shard of models: the models, buffered changes, and the states of the patterns over them.

Networks are not encoded: they are rebuilt from the models. Values have one table for each type; nodes have their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.models.live import LiveModel
from perseid.engines.models.plan import ROLES, ModelsPlan
from perseid.engines.models.sources import MovingWindows
from perseid.engines.models.transactions import BufferedChange, Key
from perseid.engines.sequence.schema import arrow_of
from perseid.errors import StateError
from perseid.runtime.contract import StateReport
from perseid.runtime.fact_values import TIME_OR_NONE, FlagValue, ListValue, StateFact, TextValue
from perseid.runtime.key_encoding import one_chunk
from perseid.runtime.state_codec import GO_BACK
from perseid.runtime.state_layout import (
    SHARDS,
    StateColumn,
    StateContent,
    StateLayout,
    StateTable,
    columns_of,
    decode,
    encode,
    malformed,
)
from perseid.runtime.watermark import Watermark
from perseid.semantics.graphs import Change, Element, Graph, Happening, canonical
from perseid.semantics.values import Value


def _check(content: StateContent) -> str | None:
    if ("frames" in content.tables) == ("waiting" in content.tables):
        return "expected one of the tables 'waiting' and 'frames'"
    groups, written = sum(content.facts["groups"]), content.tables["groups"].num_rows
    return None if groups == written else f"expected {groups} states of groups, got {written}"


_Row: TypeAlias = "tuple[Value, ...]"
_MODEL = StateColumn("model", pa.int32(), into="models")
_WINDOW_TIME = StateColumn("time", pa.int64(), nullable=True)
NODES = StateTable("nodes", (_MODEL, StateColumn("element"), StateColumn("kind", pa.string())))
EDGES = StateTable("edges", (_MODEL, StateColumn("edge", pa.string()), *columns_of(None, "source", "target")))
VALUES = StateTable(
    "values",
    (_MODEL, StateColumn("element"), StateColumn("attribute", pa.string()), _WINDOW_TIME, StateColumn("value")),
    repeated=True,
)
"""Attributes of one type, and their values in moving windows, which have a time."""
_FRAMES = (StateColumn("time", pa.int64()), StateColumn("seen", pa.bool_()), *columns_of(None, "key *", "set *"))
_HAPPENING_TYPE = StateColumn("type", pa.string(), nullable=True, optional=True)
_WAITING = (StateColumn("time", pa.int64()), *columns_of(None, *ROLES, "rank *", "key *", "event *"), _HAPPENING_TYPE)
_MISMATCH = (
    "Incompatible checkpoint: its models have another metamodel or key, other queries, or frames with other columns."
)
_HINT = "Restore the metamodel, its queries, and the key and columns of the stream."
LAYOUT = StateLayout(
    "models",
    1,
    (
        SHARDS,
        StateFact("models", TextValue(), mismatch=_MISMATCH, hint=_HINT),
        StateFact("done", TIME_OR_NONE),
        StateFact("groups", ListValue(items=FlagValue())),
    ),
    (
        StateTable("models", (StateColumn("count", pa.int8()), StateColumn("key *"))),
        StateTable("frames", _FRAMES, optional=True),
        StateTable("waiting", _WAITING, optional=True),
        NODES,
        EDGES,
        StateTable("groups", (StateColumn("state", pa.large_binary()),)),
        VALUES,
    ),
    check=_check,
)


@dataclass(slots=True)
class ModelsState:
    """The state of a shard between calls."""

    models: dict[Key, LiveModel] = field(default_factory=dict)
    buffered: list[BufferedChange] = field(default_factory=list)
    done: int | None = None
    """Time up to which everything was emitted."""
    sequences: list[bytes | None] = field(default_factory=list)
    """The state of each group of patterns."""
    frames: pa.Table | None = None
    """Buffered frames, and the last emitted ones of each model: time, emitted flag, and columns of key and values."""

    def pass_to(self, watermark: Watermark) -> None:
        """Advance ``done`` to the watermark."""
        if watermark.current is not None and not watermark.ended:
            self.done = watermark.current if self.done is None else max(self.done, watermark.current)

    def first_times(self) -> list[int]:
        """Return the earliest time of the buffered rows, in a list that is empty without any."""
        times = [one.time for one in self.buffered]
        if self.frames is not None:
            time = pc.min(self.frames["time"].filter(pc.invert(self.frames["seen"]))).as_py()
            times += [] if time is None else [time]
        return [min(times)] if times else []


def _plan_types(plan: ModelsPlan) -> dict[str, dict[str, pa.DataType]]:
    """Return the column types that the plan decides, by table; user columns are numbered to avoid name clashes."""
    keys = {f"key {i}": plan.types[name] for i, name in enumerate(plan.key)}
    types = {"models": keys, "nodes": {"element": plan.element}, "values": {"element": plan.element}}
    types["edges"] = {"source": plan.element, "target": plan.element}
    if plan.frames is not None:
        return types | {"frames": keys | {f"set {i}": plan.types[name] for i, name in enumerate(plan.frame_columns)}}
    buffered = {role: plan.types[role] for role in ROLES} | keys
    buffered |= {f"rank {i}": plan.types[name] for i, name in enumerate(plan.order_by)}
    if plan.event_columns:
        buffered["type"] = pa.string()
        buffered |= {f"event {i}": plan.types[column] for i, column in enumerate(plan.event_columns.values())}
    return types | {"waiting": buffered}


def write_state(plan: ModelsPlan, shard: ModelsState) -> bytes:
    """Encode the state of a shard."""
    facts = {
        "shards": plan.shards,
        "models": plan.digest,
        "done": shard.done,
        "groups": [state is not None for state in shard.sequences],
    }
    types, models = _plan_types(plan), shard.models
    graphs = [one.graph for one in models.values()]
    nodes = [(i, *node) for i, graph in enumerate(graphs) for node in graph.nodes.items()]
    edges = [(i, edge, *ends) for i, graph in enumerate(graphs) for edge in graph.forth for ends in graph.edges(edge)]
    states = pa.array([state for state in shard.sequences if state is not None], pa.large_binary())
    keys = {name: pa.array([key[i] for key in models], kind) for i, (name, kind) in enumerate(types["models"].items())}
    tables = {
        "models": pa.RecordBatch.from_pydict({"count": pa.array([1] * len(models), pa.int8()), **keys}),
        "waiting": _buffered_batch(plan, shard.buffered, types["waiting"]) if plan.frames is None else None,
        "frames": None if plan.frames is None else _frames(plan, shard),
        "nodes": _batch(NODES, nodes, types["nodes"]),
        "edges": _batch(EDGES, edges, types["edges"]),
        "groups": pa.record_batch([states], names=["state"]),
    }
    for i, (kind, rows) in enumerate(_values_by_type(plan, models)):
        tables[f"values {i}"] = _batch(VALUES, rows, types["values"] | {"value": kind})
    return encode(LAYOUT, facts, tables)


def _buffered_batch(
    plan: ModelsPlan, buffered: list[BufferedChange], types: Mapping[str, pa.DataType]
) -> pa.RecordBatch:
    columns: dict[str, Sequence[object]] = {
        f"rank {i}": [one.rank[i] for one in buffered] for i in range(len(plan.order_by))
    }
    columns |= {f"key {i}": [one.key[i] for one in buffered] for i in range(len(plan.key))}
    for role, attribute in zip(ROLES, ("action", "element", "kind", "attribute", "value", "target"), strict=True):
        columns[role] = [getattr(one.change, attribute) if isinstance(one.change, Change) else None for one in buffered]
    if plan.event_columns:
        events = [one.change if isinstance(one.change, Happening) else None for one in buffered]
        columns["type"] = [None if one is None else one.type for one in events]
        values = [{} if one is None else dict(one.values) for one in events]
        columns |= {
            f"event {i}": [columns_of_event.get(name) for columns_of_event in values]
            for i, name in enumerate(plan.event_columns)
        }
    arrays = {name: pa.array(column, types[name]) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict({"time": pa.array([one.time for one in buffered], pa.int64()), **arrays})


def frame_schema(plan: ModelsPlan) -> pa.Schema:
    """Return the columns of buffered and retained frames."""
    return pa.schema([("time", pa.int64()), ("seen", pa.bool_()), *_plan_types(plan)["frames"].items()])


def _frames(plan: ModelsPlan, shard: ModelsState) -> pa.RecordBatch:
    schema = frame_schema(plan)
    frames = schema.empty_table() if shard.frames is None else shard.frames
    return pa.RecordBatch.from_arrays([one_chunk(column) for column in frames.columns], schema=schema)


def _values_by_type(plan: ModelsPlan, models: Mapping[Key, LiveModel]) -> Iterator[tuple[pa.DataType, list[_Row]]]:
    """Yield each attribute type with rows of model, node, attribute, time and value, including moving windows."""
    found: dict[str, tuple[pa.DataType, list[_Row]]] = {}
    carried = plan.queries.kinds.carried
    for i, one in enumerate(models.values()):

        def rows(element: Element, attribute: str, graph: Graph = one.graph) -> list[_Row]:
            # Unrelated node types may have attributes with the same name.
            kind = arrow_of(carried[graph.nodes[element]][attribute])
            return found.setdefault(str(kind), (kind, []))[1]

        for (element, attribute), value in one.graph.values.items():
            rows(element, attribute).append((i, element, attribute, None, value))
        for operator in _moving_windows(one):
            for element, history in operator.history.items():
                attribute_rows = rows(element, operator.window.attribute)
                attribute_rows += [(i, element, operator.name, time, value) for time, value in history]
    return (found[name] for name in sorted(found))


def _moving_windows(model: LiveModel) -> Iterator[MovingWindows]:
    return (operator for operator in model.network.operators if isinstance(operator, MovingWindows))


def _batch(table: StateTable, rows: Sequence[_Row], types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(table.columns)
    pairs = zip(table.columns, columns, strict=True)
    return table.batch(pa.array(column, types.get(one.name, one.type)) for one, column in pairs)


def read_state(plan: ModelsPlan, state: bytes) -> ModelsState:
    """Decode the state of a shard for this plan."""
    expected = {"shards": plan.shards, "models": plan.digest}
    content = decode(LAYOUT, state, expected, _plan_types(plan))
    if len(content.facts["groups"]) != len(plan.groups):
        raise StateError(
            "Incompatible checkpoint: the query has other patterns.",
            hint=f"Restore the patterns of the query. {GO_BACK}",
        )
    try:
        return _read(plan, content)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise malformed(LAYOUT.engine, f"models do not conform to the metamodel ({type(error).__name__})") from None


def _read(plan: ModelsPlan, content: StateContent) -> ModelsState:
    keys = _columns(content.tables["models"], "key", len(plan.key))
    found = [LiveModel(plan.queries, plan.reported_queries) for _ in keys]
    changes: list[list[Change]] = [[] for _ in keys]
    windows: list[dict[str, dict[Element, list[tuple[int, Value]]]]] = [{} for _ in keys]
    kinds: dict[tuple[int, Element], str] = {}
    for model, element, kind in _rows(content.tables["nodes"], NODES.required_names):
        changes[model].append(Change("create", element, kind))
        kinds[model, element] = kind
    carried = plan.queries.kinds.carried
    windowed = {one.name: one.window.attribute for one in _moving_windows(found[0])} if found else {}
    for table in (table for name, table in content.tables.items() if name.startswith("values ")):
        for model, element, attribute, time, value in _rows(table, VALUES.required_names):
            source_attribute = attribute if time is None else windowed[attribute]
            if arrow_of(carried[kinds[model, element]][source_attribute]) != table.schema.field("value").type:
                raise ValueError("a value of another type")
            if time is None:
                changes[model].append(Change("set", element, None, attribute, value))
            else:
                history = windows[model].setdefault(attribute, {}).setdefault(element, [])
                history.append((time, canonical(value)))
    for model, edge, source, target in _rows(content.tables["edges"], EDGES.required_names):
        changes[model].append(Change("link", source, edge, target=target))
    for one, model_changes, before in zip(found, changes, windows, strict=True):
        one.restore(model_changes, before)
    written = iter(content.tables["groups"].column("state").to_pylist())
    sequences = [next(written) if has_state else None for has_state in content.facts["groups"]]
    state = ModelsState(dict(zip(keys, found, strict=True)), [], content.facts["done"], sequences)
    if plan.frames is None:
        state.buffered = _read_buffered(plan, content.tables["waiting"])
        return state
    state.frames = pa.Table.from_batches([content.tables["frames"].select(frame_schema(plan).names)])
    return state


def _read_buffered(plan: ModelsPlan, table: pa.RecordBatch) -> list[BufferedChange]:
    changes: list[Change | Happening] = [Change(*change) for change in _rows(table, ROLES)]
    if plan.event_columns:
        values = _columns(table, "event", len(plan.event_columns))
        for i, (type_, row) in enumerate(zip(table.column("type").to_pylist(), values, strict=True)):
            if type_ is not None:
                changes[i] = Happening(type_, tuple(zip(plan.event_columns, row, strict=True)))
    keys, ranks = _columns(table, "key", len(plan.key)), _columns(table, "rank", len(plan.order_by))
    times = table.column("time").to_pylist()
    return [BufferedChange(*one) for one in zip(keys, times, ranks, changes, strict=True)]


def _columns(table: pa.RecordBatch, family: str, count: int) -> list[tuple[Any, ...]]:
    """Return the rows of the numbered columns of a family."""
    return _rows(table, [f"{family} {i}" for i in range(count)]) if count else [()] * table.num_rows


def _rows(table: pa.RecordBatch, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def report(state: bytes) -> StateReport:
    """Summarize a state."""
    content = decode(LAYOUT, state)
    facts, tables = content.facts, content.tables
    frames = tables.get("frames")
    table = tables["models"] if frames is None else frames
    names = [name for name in table.schema.names if name.startswith("key ")]
    keys = [tuple(zip(names, row, strict=True)) for row in _rows(table, names)] if names else [()] * table.num_rows
    if frames is None:
        counts = Counter(tables["nodes"].column("model").to_pylist())
        sizes = {key: counts[i] for i, key in enumerate(keys)}
        events, times = tables["nodes"].num_rows, tables["waiting"].column("time").to_pylist()
    else:
        sizes = Counter(keys) if names else {}
        events, times = frames.num_rows, frames.filter(pc.invert(frames.column("seen"))).column("time").to_pylist()
    oldest = min(times, default=None)
    return StateReport(facts["shards"], facts["done"], events, len(times), oldest, {}, dict(sizes), len(state))
