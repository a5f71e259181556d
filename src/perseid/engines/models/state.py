"""What a shard of models keeps, as bytes: the models themselves, changes that wait, and the states of the patterns over them.

Networks are not written: they are made again from the models. Values lie by their types, nodes by their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.models.live import LiveModel
from perseid.engines.models.plan import ROLES, ModelsPlan
from perseid.engines.models.sources import MovingWindows
from perseid.engines.models.transactions import Key, Waiting
from perseid.engines.sequence.schema import arrow_of
from perseid.errors import StateError
from perseid.runtime.contract import StateReport
from perseid.runtime.key_encoding import one_chunk
from perseid.runtime.state_codec import (
    GO_BACK,
    DecodedState,
    check_owner,
    check_shards,
    decode_state,
    encode_state,
    is_time,
)
from perseid.runtime.watermark import Watermark
from perseid.semantics.graphs import Change, Element, Graph, Happening, canonical
from perseid.semantics.values import Value

NAME, VERSION = "models", 1
_SHAPE = "The state is not what one of live models should be."


@dataclass(slots=True)
class Kept:
    """What is known between calls."""

    models: dict[Key, LiveModel] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    done: int | None = None
    """Everything up to this time was told."""
    sequences: list[bytes | None] = field(default_factory=list)
    """The state of each group of patterns."""
    frames: pa.Table | None = None
    """Frames that wait, and of each model the last that were told of: ``time``, ``seen``, and columns of key and values."""

    def pass_to(self, watermark: Watermark) -> None:
        """Note that everything up to the clock's time was told."""
        if watermark.current is not None and not watermark.ended:
            self.done = watermark.current if self.done is None else max(self.done, watermark.current)

    def first_times(self) -> list[int]:
        """The first time that something waits for; none where nothing waits."""
        waiting = [one.time for one in self.waiting]
        if self.frames is not None:
            time = pc.min(self.frames["time"].filter(pc.invert(self.frames["seen"]))).as_py()
            waiting += [] if time is None else [time]
        return [min(waiting)] if waiting else []


def write_state(plan: ModelsPlan, kept: Kept) -> bytes:
    """A shard's state as bytes."""
    facts = {
        "engine": NAME,
        "version": VERSION,
        "shards": plan.shards,
        "models": plan.digest,
        "done": kept.done,
        "groups": [state is not None for state in kept.sequences],
    }
    tables = [
        _keys(plan, kept.models),
        _waiting(plan, kept.waiting) if plan.frames is None else _frames(plan, kept),
        _nodes(plan, kept.models),
        _edges(plan, kept.models),
        pa.RecordBatch.from_pydict(
            {"state": pa.array([s for s in kept.sequences if s is not None], pa.large_binary())}
        ),
    ]
    for name, held in _by_type(plan, kept.models):
        tables.append(_values(plan, name, held))
    return encode_state(facts, tuple(tables))


def _keys(plan: ModelsPlan, models: Iterable[Key]) -> pa.RecordBatch:
    keys = list(models)
    columns = {f"key {i}": pa.array([key[i] for key in keys], plan.types[name]) for i, name in enumerate(plan.key)}
    return pa.RecordBatch.from_pydict({"count": pa.array([1] * len(keys), pa.int8()), **columns})


def _waiting(plan: ModelsPlan, waiting: list[Waiting]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {
        "time": pa.array([one.time for one in waiting], pa.int64()),
    }
    for i, name in enumerate(plan.order_by):
        columns[f"rank {i}"] = pa.array([one.rank[i] for one in waiting], plan.types[name])
    for i, name in enumerate(plan.key):
        columns[f"key {i}"] = pa.array([one.key[i] for one in waiting], plan.types[name])
    for role, attribute in zip(ROLES, ("action", "element", "kind", "attribute", "value", "target"), strict=True):
        changes = [getattr(one.change, attribute) if isinstance(one.change, Change) else None for one in waiting]
        columns[role] = pa.array(changes, plan.types[role])
    if plan.beside:
        events = [one.change if isinstance(one.change, Happening) else None for one in waiting]
        columns["type"] = pa.array([None if one is None else one.type for one in events], pa.string())
        values = [{} if one is None else dict(one.values) for one in events]
        for i, (name, column) in enumerate(plan.beside.items()):
            columns[f"event {i}"] = pa.array([own.get(name) for own in values], plan.types[column])
    return pa.RecordBatch.from_pydict(columns)


def frame_schema(plan: ModelsPlan) -> pa.Schema:
    """Of frames that are kept; columns by their places, as people may name theirs ``time``."""
    keys = [(f"key {i}", plan.types[name]) for i, name in enumerate(plan.key)]
    sets = [(f"set {i}", plan.types[name]) for i, name in enumerate(plan.frame_columns)]
    return pa.schema([("time", pa.int64()), ("seen", pa.bool_()), *keys, *sets])


def _frames(plan: ModelsPlan, kept: Kept) -> pa.RecordBatch:
    schema = frame_schema(plan)
    frames = schema.empty_table() if kept.frames is None else kept.frames
    return pa.RecordBatch.from_arrays([one_chunk(column) for column in frames.columns], schema=schema)


def _nodes(plan: ModelsPlan, models: dict[Key, LiveModel]) -> pa.RecordBatch:
    rows = [(i, node, kind) for i, one in enumerate(models.values()) for node, kind in one.graph.nodes.items()]
    return _batch(rows, ("model", "element", "kind"), (pa.int32(), plan.element, pa.string()))


def _edges(plan: ModelsPlan, models: dict[Key, LiveModel]) -> pa.RecordBatch:
    rows = [
        (i, edge, source, target)
        for i, one in enumerate(models.values())
        for edge in one.graph.forth
        for source, target in one.graph.edges(edge)
    ]
    names = ("model", "edge", "source", "target")
    return _batch(rows, names, (pa.int32(), pa.string(), plan.element, plan.element))


def _by_type(plan: ModelsPlan, models: dict[Key, LiveModel]) -> Iterator[tuple[str, list[tuple[Value, ...]]]]:
    """Values and what moving windows remember, by the attribute's type: rows of model, node, attribute, time and value."""
    found: dict[str, list[tuple[Value, ...]]] = {}
    carried = plan.queries.kinds.carried
    for i, one in enumerate(models.values()):

        def rows(element: Element, attribute: str, graph: Graph = one.graph) -> list[tuple[Value, ...]]:
            # Types that have nothing to do with each other may have attributes of one name.
            return found.setdefault(str(arrow_of(carried[graph.nodes[element]][attribute])), [])

        for (element, attribute), value in one.graph.values.items():
            rows(element, attribute).append((i, element, attribute, None, value))
        for operator in one.network.operators:
            if isinstance(operator, MovingWindows):
                for element, past in operator.past.items():
                    own = rows(element, operator.window.attribute)
                    own += [(i, element, operator.name, time, value) for time, value in past]
    return iter(sorted(found.items()))


def _values(plan: ModelsPlan, type_: str, rows: list[tuple[Value, ...]]) -> pa.RecordBatch:
    kinds = {str(arrow_of(t)): arrow_of(t) for own in plan.queries.kinds.carried.values() for t in own.values()}
    names = ("model", "element", "attribute", "time", "value")
    return _batch(rows, names, (pa.int32(), plan.element, pa.string(), pa.int64(), kinds[type_]))


def _batch(rows: Sequence[tuple[Value, ...]], names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


# and back


def read_state(plan: ModelsPlan, state: bytes) -> Kept:
    """What bytes hold that :func:`write_state` made for this plan; a :class:`StateError` for all others."""
    sealed = decode_state(state)
    check_owner(sealed, NAME, (VERSION,))
    check_shards(sealed, plan.shards)
    facts = sealed.facts
    if facts.get("models") != plan.digest:
        raise StateError(
            "The state is of models that contain something else, or of other queries.",
            hint=f"Keep the metamodel and its queries as they were. {GO_BACK}",
        )
    groups = facts.get("groups")
    if not is_time(facts.get("done")) or not isinstance(groups, list) or len(groups) != len(plan.asked):
        raise StateError(
            "The state is of other patterns than these.", hint=f"Keep the patterns of the query as they were. {GO_BACK}"
        )
    try:
        return _read(plan, sealed, groups)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, StopIteration, pa.ArrowException):
        raise StateError(_SHAPE, hint=GO_BACK) from None


def _read(plan: ModelsPlan, sealed: DecodedState, groups: list[object]) -> Kept:
    keys_, waiting, nodes, edges, states, *values = sealed.tables
    keys = _rows(keys_, [f"key {i}" for i in range(len(plan.key))]) if plan.key else [()] * keys_.num_rows
    found = [LiveModel(plan.queries, plan.told) for _ in keys]
    changes: list[list[Change]] = [[] for _ in keys]
    for model, element, kind in _rows(nodes, ["model", "element", "kind"]):
        changes[_place(model, keys)].append(Change("create", element, kind))
    past: list[tuple[int, Element, str, int, Value]] = []
    for table in values:
        for model, element, attribute, time, value in _rows(table, ["model", "element", "attribute", "time", "value"]):
            if time is None:
                changes[_place(model, keys)].append(Change("set", element, None, attribute, value))
            else:
                past.append((_place(model, keys), element, attribute, time, value))
    for model, edge, source, target in _rows(edges, ["model", "edge", "source", "target"]):
        changes[_place(model, keys)].append(Change("link", source, edge, target=target))
    done = sealed.facts["done"]
    remembered: list[dict[str, dict[Element, list[tuple[int, Value]]]]] = [{} for _ in keys]
    for model, element, name, time, value in past:
        remembered[model].setdefault(name, {}).setdefault(element, []).append((time, canonical(value)))
    for one, made, before in zip(found, changes, remembered, strict=True):
        one.restore(made, before)
    written = iter(states.column("state").to_pylist())
    sequences = [next(written) if there is True else None for there in groups]
    models = dict(zip(keys, found, strict=True))
    if plan.frames is not None:
        if waiting.schema != frame_schema(plan):
            raise ValueError("other columns")
        if waiting.column("time").null_count or waiting.column("seen").null_count:
            raise ValueError("a frame without a time")
        return Kept(models, [], done, sequences, pa.Table.from_batches([waiting]))
    parts = [[f"key {i}" for i in range(len(plan.key))], [f"rank {i}" for i in range(len(plan.order_by))], list(ROLES)]
    own = [_rows(waiting, names) if names else [()] * waiting.num_rows for names in parts]
    times = waiting.column("time").to_pylist()
    changes_: list[Change | Happening] = [Change(*change) for change in own[2]]
    if plan.beside:
        types = waiting.column("type").to_pylist()
        values_ = _rows(waiting, [f"event {i}" for i in range(len(plan.beside))])
        for i, (type_, row) in enumerate(zip(types, values_, strict=True)):
            if type_ is not None:
                changes_[i] = Happening(type_, tuple(zip(plan.beside, row, strict=True)))
    waits = [Waiting(*one) for one in zip(own[0], map(int, times), own[1], changes_, strict=True)]
    return Kept(models, waits, done, sequences)


def _place(model: object, keys: Sequence[Key]) -> int:
    if type(model) is not int or not 0 <= model < len(keys):
        raise ValueError("no such model")
    return model


def _rows(table: pa.RecordBatch, names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def report(state: bytes) -> StateReport:
    """What a state holds, for people."""
    sealed = decode_state(state)
    check_owner(sealed, NAME, (VERSION,))
    try:
        return _report_of(sealed, len(state))
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, pa.ArrowException):
        raise StateError(_SHAPE, hint=GO_BACK) from None


def _report_of(sealed: DecodedState, size: int) -> StateReport:
    keys, waiting, nodes, *_ = sealed.tables
    if "seen" in waiting.schema.names:
        return _report_of_frames(sealed, waiting, size)
    names = [name for name in keys.schema.names if name.startswith("key ")]
    counts: dict[int, int] = {}
    for model in nodes.column("model").to_pylist():
        counts[model] = counts.get(model, 0) + 1
    told = {
        tuple(zip(names, row, strict=True)): counts.get(i, 0)
        for i, row in enumerate(_rows(keys, names) if names else [()] * keys.num_rows)
    }
    times = waiting.column("time").to_pylist()
    return StateReport(
        sealed.facts["shards"],
        sealed.facts["done"],
        nodes.num_rows,
        len(times),
        min(times, default=None),
        {},
        told,
        size,
    )


def _report_of_frames(sealed: DecodedState, frames: pa.RecordBatch, size: int) -> StateReport:
    names = [name for name in frames.schema.names if name.startswith("key ")]
    told = Counter(tuple(zip(names, row, strict=True)) for row in _rows(frames, names)) if names else {}
    waiting = frames.filter(pc.invert(frames.column("seen"))).column("time").to_pylist()
    facts = sealed.facts
    return StateReport(
        facts["shards"], facts["done"], frames.num_rows, len(waiting), min(waiting, default=None), {}, dict(told), size
    )
