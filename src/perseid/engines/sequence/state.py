"""The state of a shard between calls: raw events of open windows, the runs over them, and the progress of each pattern.

Its entries are named by their meaning (a column, a predicate's identity, a pattern's semantic hash) and never by a
number of one plan, so that a changed set of patterns finds its own entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.sequence.partials import PARTIALS, Partials, no_partials, partials_table, read_partials
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.runtime.arrays import BoolArray, Int32Array, IntArray
from perseid.runtime.event_batch import EventBatch, flatten_column, take_events
from perseid.runtime.fact_values import (
    TIME_OR_NONE,
    ListValue,
    MapValue,
    RecordValue,
    StateFact,
    TextValue,
)
from perseid.runtime.state_codec import DecodedState, check_owner, decode_state
from perseid.runtime.state_layout import (
    SHARDS,
    Batches,
    Facts,
    StateColumn,
    StateContent,
    StateLayout,
    StateTable,
    columns_of,
    decode,
    encode,
    fit_column,
)
from perseid.runtime.watermark import WATERMARK
from perseid.semantics.detection import expressions_of
from perseid.semantics.names import strip_step_name

if TYPE_CHECKING:
    from perseid.runtime.arrays import ArrowColumn

T = TypeVar("T", bound=np.generic)
Group = tuple[int, int]
"""Hash of the values by which matches suppress one another."""

EVENTS = StateTable(
    "events",
    (
        *columns_of(pa.int64(), "time", "identity"),
        StateColumn("kind", pa.int32(), optional=True, low=-1, into="kinds"),
        StateColumn("occurrence", pa.int64(), optional=True),
        StateColumn("route", pa.int32(), optional=True, into="routes"),
        *columns_of(pa.bool_(), "searched", "is *", "open *"),
        *(StateColumn(f"{family} *", dated=True) for family in ("rank", "key", "column", "made")),
    ),
)
GROUPS = StateTable(
    "groups", (StateColumn("pattern", pa.string()), *columns_of(pa.int64(), "high", "low", "end")), optional=True
)
"""End of the last match of each group, by pattern."""


def _check(content: StateContent) -> str | None:
    facts, events = content.facts, content.tables["events"]
    if "kind" not in events.schema.names and events.num_rows and len(facts["kinds"]) != 1:
        return "the types of its events are missing"
    if facts["order"] == WATERMARK:
        time, horizon = np.asarray(events.column("time"))[_mask(events.column("searched"))], facts["horizon"]
        if len(time) and (horizon is None or time.max() > horizon):
            return "an event after its horizon is marked as searched"
    return None


def _add_partials(facts: Facts, tables: Batches) -> tuple[Facts, Batches]:
    """Migrate version 1, which marked the rows of partial matches of contexts as open instead of storing them."""
    return {**facts, "partials": []}, tables


_MISMATCH = "The checkpoint was made with order={found}, and the query now has order={now}."
_PATTERN = RecordValue(facts=(StateFact("name", TextValue()), StateFact("since", TIME_OR_NONE)))
LAYOUT = StateLayout(
    "sequence",
    2,
    (
        SHARDS,
        StateFact("order", TextValue(), mismatch=_MISMATCH, hint="Use order={found}."),
        StateFact("horizon", TIME_OR_NONE),
        StateFact("kinds", ListValue(items=TextValue())),
        StateFact("routes", MapValue(items=ListValue(items=TextValue()), numbered=True)),
        StateFact("patterns", MapValue(items=_PATTERN)),
        StateFact("partials", ListValue(items=TextValue(), unique=True)),
    ),
    (EVENTS, GROUPS, PARTIALS),
    {1: _add_partials},
    _check,
)
LINKS = "links"
"""Fact that a state has several parts: the labels of their stages."""
LINKS_LAYOUT = StateLayout(
    LAYOUT.engine,
    LAYOUT.version,
    (StateFact(LINKS, ListValue(items=TextValue(), unique=True)),),
    (StateTable("parts", (StateColumn("state", pa.large_binary(), nullable=True),), rows=LINKS),),
    {1: lambda facts, tables: (facts, tables)},
)


@dataclass(frozen=True)
class PatternProgress:
    """Progress of one pattern, in addition to its events."""

    since: int | None = None
    """The pattern starts after this time: it was added then, or read other columns before."""
    groups: Mapping[Group, int] = field(default_factory=dict)
    """End of the last match of each group that suppresses others."""


@dataclass(frozen=True)
class SequenceState:
    """The state of a shard, in the shape of its rows."""

    rows: EventBatch
    searched: BoolArray
    """Rows that were searched before; the others wait for the watermark."""
    occurrence: IntArray
    opens: Mapping[str, BoolArray]
    """By pattern: rows that start a run which is still open."""
    horizon: int | None = None
    progress: Mapping[str, PatternProgress] = field(default_factory=dict)
    partials: Mapping[str, Partials] = field(default_factory=dict)
    """By pattern: partial matches that cannot be rebuilt, by the numbers of the rows they took."""
    replays: bool = False
    """True for a state without partial matches of contexts: they are rebuilt from all rows that are marked as open."""
    required: BoolArray | None = None
    """Rows that the state limit must not evict, or None; not written, since every search marks them again."""

    def take(self, chosen: IntArray) -> SequenceState:
        """Select rows by number, with their state."""
        places = np.full(len(self.rows), -1, np.int64)
        places[chosen] = np.arange(len(chosen))
        return replace(
            self,
            rows=take_events(self.rows, chosen),
            searched=self.searched[chosen],
            occurrence=self.occurrence[chosen],
            opens={name: flags[chosen] for name, flags in self.opens.items()},
            partials={name: pattern_partials.renumbered(places) for name, pattern_partials in self.partials.items()},
            required=None if self.required is None else self.required[chosen],
        )

    def without_runs(self, starts: BoolArray) -> SequenceState:
        """Remove the runs that these rows start; rows are given by a mask."""
        opens = {name: flags & ~starts for name, flags in self.opens.items()}
        partials = {
            name: pattern_partials.select(~starts[pattern_partials.starts])
            for name, pattern_partials in self.partials.items()
        }
        return replace(self, opens=opens, partials=partials)


def empty_state(shape: EventBatch) -> SequenceState:
    """Return the state of a new shard."""
    none = take_events(shape, np.zeros(0, np.int64))
    return SequenceState(none, np.zeros(0, bool), np.zeros(0, np.int64), {})


def write_state(plan: Plan, state: SequenceState, shards: int, order: str) -> bytes:
    """Encode the state of a shard."""
    rows = state.rows
    columns: dict[str, pa.Array] = {
        "time": pa.array(rows.time),
        "identity": pa.array(rows.identity),
        "searched": pa.array(state.searched),
    }
    if len(rows.type_names) > 1 or (rows.type_codes < 0).any():
        columns["kind"] = pa.array(rows.type_codes)
    if state.occurrence.any():
        columns["occurrence"] = pa.array(state.occurrence)
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
    columns.update({f"open {pattern}": pa.array(opens) for pattern, opens in state.opens.items()})
    facts = {
        "shards": shards,
        "order": order,
        "horizon": state.horizon,
        "kinds": list(rows.type_names),
        "routes": {str(route.id): list(route.columns) for route in plan.routes},
        "patterns": {
            pattern.pattern.semantic_hash: {"name": pattern.name, "since": progress.since}
            for pattern in plan.patterns
            for progress in [state.progress.get(pattern.pattern.semantic_hash, PatternProgress())]
        },
        "partials": [name for name, pattern_partials in state.partials.items() if len(pattern_partials)],
    }
    groups = [
        (name, *group, end) for name, progress in state.progress.items() for group, end in progress.groups.items()
    ]
    tables = {
        "events": pa.record_batch(list(columns.values()), names=list(columns)),
        "groups": GROUPS.batch(zip(*groups, strict=True)) if groups else None,
        "partials": partials_table(
            [pattern_partials for pattern_partials in state.partials.values() if len(pattern_partials)]
        ),
    }
    return encode(LAYOUT, facts, tables)


def open_state(state: bytes, expected: Facts | None = None) -> StateContent | None:
    """Decode a state regardless of its patterns; None if all of it belongs to stages that consume matches."""
    found = decode_state(state)
    if LINKS in found.facts:
        part = _parts(found).get("")
        if part is None:
            return None
        found = decode_state(part)
    return decode(LAYOUT, found, expected)


def join_states(parts: Mapping[str, bytes | None]) -> bytes | None:
    """Encode the states of stages, by their labels, as one state."""
    if all(part is None for part in parts.values()):
        return None
    # Stages without state are included, so that their patterns do not count as new.
    bodies = pa.record_batch([pa.array(list(parts.values()), pa.large_binary())], names=["state"])
    return encode(LINKS_LAYOUT, {LINKS: list(parts)}, {"parts": bodies})


def split_state(state: bytes | None) -> dict[str, bytes | None]:
    """Decode the states of stages by their labels; a state without stages is that of the first."""
    if state is None:
        return {}
    found = decode_state(state)
    check_owner(found, LAYOUT.engine, (*LAYOUT.migrations, LAYOUT.version))
    return _parts(found) if LINKS in found.facts else {"": state}


def _parts(found: DecodedState) -> dict[str, bytes | None]:
    content = decode(LINKS_LAYOUT, found)
    return dict(zip(content.facts[LINKS], content.tables["parts"].column(0).to_pylist(), strict=True))


def _mask(column: pa.Array) -> BoolArray:
    mask: BoolArray = column.to_numpy(zero_copy_only=False)
    return mask


def read_state(
    plan: Plan, shape: EventBatch, state: bytes, shards: int, order: str, newest: int | None = None
) -> SequenceState:
    """Decode a state for this plan: rows in the shape of ``shape``; new patterns start after the events before now.

    ``newest`` is the newest time that any event before now may have.
    """
    content = open_state(state, {"shards": shards, "order": order})
    if content is None:
        return empty_state(shape)
    facts = content.facts
    reader = _EventReader(content, plan, shape)
    rows = reader.rows()
    horizon = facts["horizon"]
    progress, opens, partials = {}, {}, {}
    groups = _read_groups(content.tables.get("groups"))
    carried = read_partials(content.tables.get("partials"), facts["partials"])
    last = int(rows.time.max()) if len(rows) else horizon
    for pattern in plan.patterns:
        name = pattern.pattern.semantic_hash
        entry = facts["patterns"].get(name)
        flags = reader.mask(f"open {name}")
        lacks_columns = reader.lacks_columns(pattern)
        if entry is not None and not lacks_columns:
            progress[name] = PatternProgress(entry["since"], groups.get(name, {}))
            opens[name] = np.zeros(len(rows), bool) if flags is None else flags  # nothing was searched yet
            partials[name] = carried.get(name, no_partials())
        else:
            # Searched events cannot start runs again; waiting ones can, if no column is missing. Others may have been
            # dropped because no step needed them then: none of those is after ``newest``.
            starts = [time for time in (last if lacks_columns else horizon, newest) if time is not None]
            progress[name] = PatternProgress(max(starts, default=None))
            opens[name] = np.zeros(len(rows), bool)
    searched, occurrence = reader.mask("searched"), reader.integers("occurrence", np.int64)
    assert searched is not None
    replays = content.version == 1 and any(pattern.pattern.context is not None for pattern in plan.patterns)
    restored = SequenceState(rows, searched, occurrence, opens, horizon, progress, partials, replays)
    return restored if reader.retained_rows is None else restored.take(reader.retained_rows)


def _read_groups(table: pa.RecordBatch | None) -> dict[str, dict[Group, int]]:
    """End of the last match of each group, by pattern."""
    found: dict[str, dict[Group, int]] = {}
    if table is not None:
        columns = (table.column(name).to_pylist() for name in ("pattern", "high", "low", "end"))
        for pattern, high, low, end in zip(*columns, strict=True):
            found.setdefault(pattern, {})[high, low] = end
    return found


def _texts(pattern: PatternPlan) -> set[str]:
    """The text of every part of a pattern's expressions, with references to the event's own columns."""
    core = pattern.pattern
    names = [None, *{step.name for step in core.steps if step.name is not None}]
    parts = [part for expr in expressions_of(core) for part in ex.walk(expr)]
    return {print_expr(strip_step_name(part, name)) for part in parts for name in names}


class _EventReader:
    """Reads the events of a state into the shape of the current input."""

    def __init__(self, content: StateContent, plan: Plan, shape: EventBatch) -> None:
        table = self.table = content.tables["events"]
        self.facts, self.plan, self.shape, self.size = content.facts, plan, shape, table.num_rows
        self.columns: dict[str, pa.Array] = dict(zip(table.schema.names, table.columns, strict=True))
        self.missing: set[tuple[str, int | str]] = set()
        """Columns that the plan needs and the state lacks: (family of columns, name or number)."""
        self.retained_rows: IntArray | None = None
        """Rows of the routes that the plan still has; None for all."""

    def lacks_columns(self, pattern: PatternPlan) -> bool:
        """True if the state lacks a column that this pattern needs."""
        if not self.missing:
            return False
        needed = {n for step in pattern.steps for n in (*(k for k, _ in step.choose), *step.must)} | {*pattern.guards}
        columns = {name for step in pattern.facts.steps for name in step.columns}
        for what, which in self.missing:
            match what:
                case "route":
                    is_lacking = which == pattern.route
                case "is":
                    is_lacking = which in needed
                case "column":
                    is_lacking = pattern.facts.all_columns or which in columns
                case "made":
                    is_lacking = which in _texts(pattern)
                case _:
                    is_lacking = True
            if is_lacking:
                return True
        return False

    def rows(self) -> EventBatch:
        shape, size = self.shape, self.size
        kinds = self.integers("kind", np.int32)
        decided = {}
        for n in shape.predicate_masks:
            truth = self.mask(f"is {self.plan.predicates[n].identity}")
            if truth is None:
                self.missing.add(("is", n))
            decided[n] = np.zeros(size, bool) if truth is None else truth
        rows = replace(
            shape,
            time=np.asarray(self.columns["time"]),
            type_codes=kinds,
            type_names=list(self.facts["kinds"]),
            columns={name: self.column("column", name, like) for name, like in shape.columns.items()},
            keys={
                route: {name: self.column("key", name, like, ("route", route)) for name, like in keys.items()}
                for route, keys in shape.keys.items()
            },
            identity=np.asarray(self.columns["identity"]),
            tie_breakers=[self.column("rank", i, like) for i, like in enumerate(shape.tie_breakers)],
            route=self.routes(),
            predicate_masks=decided,
            computed_columns={text: self.column("made", text, like) for text, like in shape.computed_columns.items()},
        )
        return rows

    def routes(self) -> Int32Array | None:
        """Routes by their current ids; rows of removed routes are dropped."""
        if self.shape.route is None and "route" not in self.columns:
            return None
        before = {int(n): tuple(columns) for n, columns in self.facts["routes"].items()}
        now = {route.columns: route.id for route in self.plan.routes}
        # Waiting events have no rows for new routes.
        self.missing |= {("route", route.id) for route in self.plan.routes if route.columns not in before.values()}
        if "route" in self.columns:
            codes = np.asarray(self.columns["route"])
        else:
            codes = np.full(self.size, next(iter(before), -1), np.int32)
        found = np.full(len(codes), -1, np.int32)
        for n, columns in before.items():
            found[codes == n] = now.get(columns, -1)
        if (found < 0).any():
            self.retained_rows = np.flatnonzero(found >= 0)
        return found if self.shape.route is not None else None

    def integers(self, name: str, kind: type[T]) -> NDArray[T]:
        if name in self.columns:
            return np.asarray(self.columns[name]).astype(kind, copy=False)
        return np.zeros(self.size, kind)

    def mask(self, name: str) -> BoolArray | None:
        if name not in self.columns:
            return None
        return _mask(self.columns[name])

    def column(
        self, what: str, which: int | str, like: ArrowColumn, lack: tuple[str, int | str] | None = None
    ) -> pa.Array:
        """A column in the type of ``like``, of nulls if the state lacks it."""
        name, kind = f"{what} {which}", like.type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if name not in self.columns:
            self.missing.add((what, which) if lack is None else lack)
            return pa.nulls(self.size, kind)
        return fit_column(self.table, name, kind, f"{what} {which!r}", cast=True)
