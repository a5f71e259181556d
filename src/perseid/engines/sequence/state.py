"""What a shard keeps between calls: raw events of open windows and what took them, where time stands, what was said.

Everything in it is named by what it means (a column, a predicate's identity, a pattern's semantic hash) and never by a
number of one plan, so that a changed set of patterns finds what is still its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.sequence.partials import (
    PARTIAL_NAMES,
    Partials,
    check_partials,
    no_partials,
    partials_table,
    read_partials,
)
from perseid.errors import StateError
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.runtime.arrays import BoolArray, Int32Array, IntArray
from perseid.runtime.event_batch import EventBatch, flatten_column, take_events
from perseid.runtime.state_codec import (
    GO_BACK,
    DecodedState,
    check_owner,
    check_shards,
    decode_state,
    encode_state,
    format_fact,
    is_time,
)
from perseid.runtime.watermark import WATERMARK
from perseid.semantics import values as v
from perseid.semantics.detection import expressions_of
from perseid.semantics.names import without_own

if TYPE_CHECKING:
    from perseid.runtime.arrays import ArrowColumn

T = TypeVar("T", bound=np.generic)
ENGINE = "sequence"
VERSION = 2
"""Of what lies in the container; raise it with a migration in :func:`read_state`."""
READABLE = (1, VERSION)
"""In the first version contexts had no partial matches: all events were marked as open from where none was."""

Group = tuple[int, int]
"""The values that a suppressed match has in common with the one before it, by their hash."""


@dataclass(frozen=True)
class Memory:
    """What is kept of one pattern beside its events."""

    since: int | None = None
    """It was not there when events up to this time came, or had other columns then: it starts after it."""
    groups: Mapping[Group, int] = field(default_factory=dict)
    """By what suppresses others: when the last match that was told ended."""


@dataclass(frozen=True)
class Kept:
    """The state of a shard in the shape of its rows."""

    rows: EventBatch
    searched: BoolArray
    """Rows that were searched before; others wait for time to pass them."""
    occurrence: IntArray
    opens: Mapping[str, BoolArray]
    """By pattern: rows that start an attempt which is still open."""
    horizon: int | None = None
    memories: Mapping[str, Memory] = field(default_factory=dict)
    partials: Mapping[str, Partials] = field(default_factory=dict)
    """By pattern: partial matches that cannot be made again, by the numbers of the rows they took."""
    replays: bool = False
    """Contexts have no partial matches in it: they go on from all that is marked as open."""
    required: BoolArray | None = None
    """Rows that the state limit must not evict, or None; not written, since every search marks them again."""

    def take(self, chosen: IntArray) -> Kept:
        """Some of the rows, by number, with what is known of them."""
        places = np.full(len(self.rows), -1, np.int64)
        places[chosen] = np.arange(len(chosen))
        return replace(
            self,
            rows=take_events(self.rows, chosen),
            searched=self.searched[chosen],
            occurrence=self.occurrence[chosen],
            opens={name: flags[chosen] for name, flags in self.opens.items()},
            partials={name: some.renumbered(places) for name, some in self.partials.items()},
            required=None if self.required is None else self.required[chosen],
        )

    def without_attempts(self, begun: BoolArray) -> Kept:
        """The same without the attempts that these rows begin, by truth values."""
        opens = {name: flags & ~begun for name, flags in self.opens.items()}
        partials = {name: some.chosen(~begun[some.starts]) for name, some in self.partials.items()}
        return replace(self, opens=opens, partials=partials)


def nothing(shape: EventBatch) -> Kept:
    """The state of a shard that has seen nothing."""
    none = take_events(shape, np.zeros(0, np.int64))
    return Kept(none, np.zeros(0, bool), np.zeros(0, np.int64), {})


def write_state(plan: Plan, kept: Kept, shards: int, order: str) -> bytes:
    """A shard's state as bytes."""
    rows = kept.rows
    columns: dict[str, pa.Array] = {
        "time": pa.array(rows.time),
        "identity": pa.array(rows.identity),
        "searched": pa.array(kept.searched),
    }
    if len(rows.type_names) > 1 or (rows.type_codes < 0).any():
        columns["kind"] = pa.array(rows.type_codes)
    if kept.occurrence.any():
        columns["occurrence"] = pa.array(kept.occurrence)
    if rows.route is not None:
        columns["route"] = pa.array(np.asarray(rows.route, np.int32))
    for i, rank in enumerate(rows.tie_breakers):
        columns[f"rank {i}"] = flatten_column(rank)
    for keys in rows.keys.values():
        columns.update({f"key {name}": flatten_column(column) for name, column in keys.items()})
    columns.update({f"column {name}": flatten_column(column) for name, column in rows.columns.items()})
    columns.update({f"made {text}": flatten_column(column) for text, column in rows.computed_columns.items()})
    for n, truth in rows.predicate_masks.items():
        columns[f"is {plan.predicates[n].identity}"] = pa.array(truth)
    columns.update({f"open {pattern}": pa.array(opens) for pattern, opens in kept.opens.items()})
    facts = {
        "engine": ENGINE,
        "version": VERSION,
        "shards": shards,
        "order": order,
        "horizon": kept.horizon,
        "kinds": list(rows.type_names),
        "routes": {str(route.id): list(route.columns) for route in plan.routes},
        "patterns": {
            pattern.pattern.semantic_hash: {"name": pattern.name, "since": memory.since}
            for pattern in plan.patterns
            for memory in [kept.memories.get(pattern.pattern.semantic_hash, Memory())]
        },
        "partials": [name for name, some in kept.partials.items() if len(some)],
    }
    groups = [(name, *group, end) for name, memory in kept.memories.items() for group, end in memory.groups.items()]
    told = pa.record_batch(
        [pa.array([g[i] for g in groups], kind) for i, kind in enumerate(_GROUP_TYPES)], names=_GROUP_NAMES
    )
    partials = partials_table([some for some in kept.partials.values() if len(some)])
    tables = (
        pa.record_batch(list(columns.values()), names=list(columns)),
        *([told] if groups else []),
        *([partials] if partials is not None else []),
    )
    return encode_state(facts, tables)


_GROUP_NAMES = ["pattern", "high", "low", "end"]
_GROUP_TYPES = [pa.string(), pa.int64(), pa.int64(), pa.int64()]


def open_state(state: bytes) -> DecodedState | None:
    """A state of this engine's, whatever set of patterns it is of; None where all of it is of links that take matches."""
    sealed = _mine(decode_state(state))
    if LINKS in sealed.facts:
        part = _parts(sealed).get("")
        if part is None:
            return None
        sealed = _mine(decode_state(part))
    try:
        _believable(sealed)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StateError("The state lacks a part that every state has.") from None
    return sealed


def _mine(sealed: DecodedState) -> DecodedState:
    check_owner(sealed, ENGINE, READABLE)
    return sealed


LINKS = "links"
"""The fact that a state is one of several parts, by the labels of the links that they are of."""


def join_states(parts: Mapping[str, bytes | None]) -> bytes | None:
    """The states of links as one."""
    if all(part is None for part in parts.values()):
        return None
    # Also those that have nothing: they were there, and their patterns are not new.
    bodies = pa.record_batch([pa.array(list(parts.values()), pa.large_binary())], names=["state"])
    return encode_state({"engine": ENGINE, "version": VERSION, LINKS: list(parts)}, (bodies,))


def split_state(state: bytes | None) -> dict[str, bytes | None]:
    """The states of links by their labels; one that was made without links is that of the first."""
    if state is None:
        return {}
    sealed = _mine(decode_state(state))
    return _parts(sealed) if LINKS in sealed.facts else {"": state}


def _parts(sealed: DecodedState) -> dict[str, bytes | None]:
    labels = sealed.facts[LINKS]
    if len(sealed.tables) != 1 or not _names(labels) or len(set(labels)) < len(labels):
        raise StateError("The parts of the state are not what they should be.")
    (bodies,) = sealed.tables
    if bodies.schema.names != ["state"] or bodies.schema.types != [pa.large_binary()] or bodies.num_rows != len(labels):
        raise StateError("The parts of the state are not what they should be.")
    return dict(zip(labels, bodies.column(0).to_pylist(), strict=True))


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _believable(sealed: DecodedState) -> None:
    facts, table = sealed.facts, sealed.tables[0] if sealed.tables else None
    if table is None or len(sealed.tables) > 3:
        raise StateError("The state has no table of events.")
    wanted = {"time": pa.int64(), "identity": pa.int64(), "searched": pa.bool_()}
    optional = {"kind": pa.int32(), "occurrence": pa.int64(), "route": pa.int32()}
    if len(set(table.schema.names)) < len(table.schema.names):
        raise StateError("The state has some column twice.")
    for field_ in table.schema:
        kind = wanted.pop(field_.name, None) or optional.get(field_.name)
        if field_.name.startswith(("is ", "open ")):
            kind = pa.bool_()
        if kind is not None and (field_.type != kind or table.column(field_.name).null_count):
            raise StateError(f"The state's column {field_.name!r} is not what it should be.")
    if wanted:
        raise StateError("The state has no time of its events.")
    if not all(map(_dated, table.columns)):
        raise StateError("The state has dates that cannot be.")
    kinds, horizon, routes = facts["kinds"], facts["horizon"], facts["routes"]
    if not _names(kinds) or not is_time(horizon):
        raise StateError("The state's types of events, or its time, are not what they should be.")
    if "kind" in table.schema.names and table.num_rows:
        codes = np.asarray(table.column("kind"))
        if codes.min() < -1 or codes.max() >= len(kinds):
            raise StateError("The state has an event of a type that it does not name.")
    elif table.num_rows and len(kinds) != 1:
        raise StateError("The state does not say of which types its events are.")
    if type(facts["shards"]) is not int:
        raise StateError("The state does not say how many shards there are.")
    if not all(is_time(about["since"]) and isinstance(about["name"], str) for about in facts["patterns"].values()):
        raise StateError("The state's patterns are not what they should be.")
    if not all(_names(columns) and 0 <= int(n) < 2**31 for n, columns in routes.items()):
        raise StateError("The state's keys are not what they should be.")
    if "route" in table.schema.names:
        codes = np.unique(np.asarray(table.column("route")))
        if not {int(n) for n in routes} >= set(codes.tolist()):
            raise StateError("The state has an event of a key that it does not name.")
    searched = np.asarray(table.column("time"))[_truth(table.column("searched"))]
    if facts["order"] == WATERMARK and len(searched) and (horizon is None or searched.max() > horizon):
        raise StateError("The state has searched events whose time had not come.")
    carrying = facts.get("partials", [])
    if not _names(carrying) or len(set(carrying)) < len(carrying):
        raise StateError("The state's partial matches are not what they should be.")
    groups, partials = _beside(sealed, _GROUP_NAMES), _beside(sealed, PARTIAL_NAMES)
    if len(sealed.tables) > 1 + (groups is not None) + (partials is not None):
        raise StateError("The state has a table that is nothing we know.")
    if groups is not None:
        nulls = any(column.null_count for column in groups.columns)
        if groups.schema.types != _GROUP_TYPES or nulls:
            raise StateError("The state's suppressed matches are not what they should be.")
    if partials is not None:
        check_partials(partials, len(carrying), table.num_rows)


def _beside(sealed: DecodedState, names: list[str]) -> pa.RecordBatch | None:
    """The table beside that of events which has these columns."""
    return next((table for table in sealed.tables[1:] if table.schema.names == names), None)


def _truth(column: pa.Array) -> BoolArray:
    return np.asarray(column.cast(pa.int8())).astype(bool)


def read_state(plan: Plan, shape: EventBatch, state: bytes, shards: int, order: str, newest: int | None = None) -> Kept:
    """The state for this plan: rows in the shape of those that come now, patterns that are new marked as such.

    ``newest`` is the newest time that any event may have had before now.
    """
    sealed = open_state(state)
    if sealed is None:
        return nothing(shape)
    facts, table = sealed.facts, sealed.tables[0]
    check_shards(sealed, shards)
    if facts.get("order") != order:
        raise StateError(
            f"The checkpoint was made with order={format_fact(facts.get('order'))}, and the query now has order={order!r}.",
            hint=f"Keep the order. {GO_BACK}",
        )
    reader = _Reader(table, facts, plan, shape)
    rows = reader.rows()
    horizon = facts["horizon"]
    memories, opens, partials = {}, {}, {}
    listed = _beside(sealed, PARTIAL_NAMES)
    carried = {} if listed is None else read_partials(listed, facts["partials"])
    last = int(rows.time.max()) if len(rows) else horizon
    for pattern in plan.patterns:
        name = pattern.pattern.semantic_hash
        about = facts["patterns"].get(name)
        flags = reader.truth(f"open {name}")
        lost = reader.lost(pattern)
        if about is not None and not lost:
            memories[name] = Memory(about["since"], reader.groups(sealed, name))
            opens[name] = np.zeros(len(rows), bool) if flags is None else flags  # nothing was searched yet
            partials[name] = carried.get(name, no_partials())
        else:
            # Of events that were searched before nothing can be started again; those that wait can, if all is there.
            # Others may have been dropped unseen because nobody wanted them then: none of those is after the newest.
            starts = [time for time in (last if lost else horizon, newest) if time is not None]
            memories[name] = Memory(max(starts, default=None))
            opens[name] = np.zeros(len(rows), bool)
    searched, occurrence = np.asarray(table.column("searched")), reader.numbers("occurrence", np.int64)
    replays = facts["version"] == 1 and any(pattern.pattern.context is not None for pattern in plan.patterns)
    kept = Kept(rows, searched, occurrence, opens, horizon, memories, partials, replays)
    return kept if reader.mine is None else kept.take(reader.mine)


def repeats(kind: pa.DataType) -> bool:
    """May few bytes of the type stand for many? Such a column would be made large by a cast."""
    few: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_dictionary, pa.types.is_run_end_encoded, pa.types.is_list_view, pa.types.is_large_list_view,
        pa.types.is_string_view, pa.types.is_binary_view,
    )  # fmt: skip
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return any(is_kind(kind) for is_kind in few) or any(map(repeats, inner))


def _dated(column: pa.Array) -> bool:
    """Are all dates and moments ones that can be? Those of rows were looked at when they came."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        unit = 86_400 * 10**6 if pa.types.is_date32(kind) else {"s": 10**6, "ms": 10**3}.get(kind.unit, 1)
        ends = pc.min_max(column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())).as_py()
        found = [end for end in ends.values() if end is not None]
        return all(v.EARLIEST <= end * unit <= v.LATEST for end in found) or getattr(kind, "unit", None) == "ns"
    if pa.types.is_struct(kind):
        return all(map(_dated, column.flatten()))
    if pa.types.is_map(kind):
        return _dated(column.keys) and _dated(column.items)
    return not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or _dated(column.flatten())


def _texts(pattern: PatternPlan) -> set[str]:
    """Every part of what a pattern asks, as text, as an event alone would be asked it."""
    core = pattern.pattern
    names = [None, *{step.name for step in core.steps if step.name is not None}]
    parts = [part for expr in expressions_of(core) for part in ex.walk(expr)]
    return {print_expr(without_own(part, name)) for part in parts for name in names}


class _Reader:
    def __init__(self, table: pa.RecordBatch, facts: Mapping[str, Any], plan: Plan, shape: EventBatch) -> None:
        self.table, self.facts, self.plan, self.shape = table, facts, plan, shape
        self.missing: set[tuple[str, int | str]] = set()
        """What is asked for now and was not kept: (kind of thing, which)."""
        self.mine: IntArray | None = None
        """Rows of ways of partitioning that are still asked for; None for all."""

    def lost(self, pattern: PatternPlan) -> bool:
        """Was something not kept that this pattern asks for? What only others ask for does not concern it."""
        if not self.missing:
            return False
        asked = {n for step in pattern.steps for n in (*(k for k, _ in step.choose), *step.must)} | {*pattern.guards}
        columns = {name for step in pattern.facts.steps for name in step.columns}
        for what, which in self.missing:
            match what:
                case "route":
                    lost = which == pattern.route
                case "is":
                    lost = which in asked
                case "column":
                    lost = pattern.facts.all_columns or which in columns
                case "made":
                    lost = which in _texts(pattern)
                case _:
                    lost = True
            if lost:
                return True
        return False

    def rows(self) -> EventBatch:
        shape, size = self.shape, self.table.num_rows
        kinds = self.numbers("kind", np.int32)
        decided = {}
        for n in shape.predicate_masks:
            truth = self.truth(f"is {self.plan.predicates[n].identity}")
            if truth is None:
                self.missing.add(("is", n))
            decided[n] = np.zeros(size, bool) if truth is None else truth
        rows = replace(
            shape,
            time=np.asarray(self.table.column("time")),
            type_codes=kinds,
            type_names=list(self.facts["kinds"]),
            columns={name: self.column("column", name, like) for name, like in shape.columns.items()},
            keys={
                route: {name: self.column("key", name, like, ("route", route)) for name, like in keys.items()}
                for route, keys in shape.keys.items()
            },
            identity=np.asarray(self.table.column("identity")),
            tie_breakers=[self.column("rank", i, like) for i, like in enumerate(shape.tie_breakers)],
            route=self.routes(),
            predicate_masks=decided,
            computed_columns={text: self.column("made", text, like) for text, like in shape.computed_columns.items()},
        )
        return rows

    def routes(self) -> Int32Array | None:
        """The ways of partitioning by the numbers they have now; rows of those that are gone are left behind."""
        if self.shape.route is None and "route" not in self.table.schema.names:
            return None
        before = {int(n): tuple(columns) for n, columns in self.facts["routes"].items()}
        now = {route.columns: route.id for route in self.plan.routes}
        # Events that wait have not gone the ways that are new.
        self.missing |= {("route", route.id) for route in self.plan.routes if route.columns not in before.values()}
        if "route" in self.table.schema.names:
            codes = np.asarray(self.table.column("route"))
        else:
            codes = np.full(self.table.num_rows, next(iter(before), -1), np.int32)
        found = np.full(len(codes), -1, np.int32)
        for n, columns in before.items():
            found[codes == n] = now.get(columns, -1)
        if (found < 0).any():
            self.mine = np.flatnonzero(found >= 0)
        return found if self.shape.route is not None else None

    def numbers(self, name: str, kind: type[T]) -> NDArray[T]:
        if name in self.table.schema.names:
            return np.asarray(self.table.column(name)).astype(kind, copy=False)
        return np.zeros(self.table.num_rows, kind)

    def truth(self, name: str) -> BoolArray | None:
        if name not in self.table.schema.names:
            return None
        return _truth(self.table.column(name))

    def column(
        self, what: str, which: int | str, like: ArrowColumn, lack: tuple[str, int | str] | None = None
    ) -> pa.Array:
        """A column as those that come now are, of nulls where it was not kept."""
        name, kind = f"{what} {which}", flatten_column(like).type
        if name not in self.table.schema.names:
            self.missing.add((what, which) if lack is None else lack)
            return pa.nulls(self.table.num_rows, kind)
        found = self.table.column(name)
        if found.type == kind:
            return found
        try:
            if repeats(found.type):
                raise pa.ArrowInvalid("never written")
            return found.cast(kind)
        except pa.ArrowException:
            raise StateError(
                f"The state's {name} is {found.type}, and now it is {kind}.",
                hint="Cast it to what it was, or start anew with an empty checkpoint.",
            ) from None

    def groups(self, sealed: DecodedState, pattern: str) -> dict[Group, int]:
        table = _beside(sealed, _GROUP_NAMES)
        if table is None:
            return {}
        told = table.to_pydict()
        rows = zip(told["pattern"], told["high"], told["low"], told["end"], strict=True)
        return {(high, low): end for name, high, low, end in rows if name == pattern}
