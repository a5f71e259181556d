"""What a shard keeps between calls: raw events of open windows, where time stands, and what was said already.

Everything in it is named by what it means (a column, a predicate's identity, a pattern's semantic hash) and never by a
number of one plan, so that a changed set of patterns finds what is still its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.contract import Rows
from perseid.engines.rows import take_rows, whole
from perseid.engines.state import Sealed, seal, unseal
from perseid.errors import StateError

ENGINE = "sequence"
VERSION = 1
"""Of what lies in the container; raise it with a migration in :func:`read_state`."""

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

    rows: Rows
    searched: Any
    """Rows that were searched before; others wait for time to pass them."""
    occurrence: Any
    opens: Mapping[str, Any]
    """By pattern: rows that start an attempt which is still open."""
    horizon: int | None = None
    memories: Mapping[str, Memory] = field(default_factory=dict)


def nothing(shape: Rows) -> Kept:
    """The state of a shard that has seen nothing."""
    none = take_rows(shape, np.zeros(0, np.int64))
    return Kept(none, np.zeros(0, bool), np.zeros(0, np.int64), {})


def write_state(plan: Plan, kept: Kept, shards: int, order: str) -> bytes:
    """A shard's state as bytes."""
    rows = kept.rows
    columns: dict[str, Any] = {
        "time": pa.array(rows.time),
        "identity": pa.array(rows.identity),
        "searched": pa.array(kept.searched),
    }
    if len(rows.kind_names) > 1 or (rows.kinds < 0).any():
        columns["kind"] = pa.array(rows.kinds)
    if kept.occurrence.any():
        columns["occurrence"] = pa.array(kept.occurrence)
    if rows.route is not None:
        columns["route"] = pa.array(np.asarray(rows.route, np.int32))
    for i, rank in enumerate(rows.ranks):
        columns[f"rank {i}"] = whole(rank)
    for keys in rows.keys.values():
        columns.update({f"key {name}": whole(column) for name, column in keys.items()})
    columns.update({f"column {name}": whole(column) for name, column in rows.columns.items()})
    columns.update({f"made {text}": whole(column) for text, column in rows.made.items()})
    for n, truth in rows.decided.items():
        columns[f"is {plan.predicates[n].identity}"] = pa.array(truth)
    columns.update({f"open {pattern}": pa.array(opens) for pattern, opens in kept.opens.items()})
    facts = {
        "engine": ENGINE,
        "version": VERSION,
        "shards": shards,
        "order": order,
        "horizon": kept.horizon,
        "kinds": list(rows.kind_names),
        "routes": {str(route.id): list(route.columns) for route in plan.routes},
        "patterns": {
            pattern.pattern.semantic_hash: {"name": pattern.name, "since": memory.since}
            for pattern in plan.patterns
            for memory in [kept.memories.get(pattern.pattern.semantic_hash, Memory())]
        },
    }
    groups = [(name, *group, end) for name, memory in kept.memories.items() for group, end in memory.groups.items()]
    told = pa.record_batch(
        [pa.array([g[i] for g in groups], kind) for i, kind in enumerate(_GROUP_TYPES)], names=_GROUP_NAMES
    )
    tables = (pa.record_batch(list(columns.values()), names=list(columns)), *([told] if groups else []))
    return seal(facts, tables)


_GROUP_NAMES = ["pattern", "high", "low", "end"]
_GROUP_TYPES = [pa.string(), pa.int64(), pa.int64(), pa.int64()]


def open_state(state: bytes) -> Sealed:
    """A state of this engine's, whatever set of patterns it is of."""
    sealed = unseal(state)
    facts = sealed.facts
    if facts.get("engine") != ENGINE or facts.get("version") != VERSION:
        raise StateError(
            f"The state is of the engine {facts.get('engine')!r}, version {facts.get('version')!r}; "
            f"this is {ENGINE!r}, version {VERSION}.",
            hint="Go on with the version that wrote it, or start anew with an empty checkpoint.",
        )
    try:
        _believable(sealed)
    except (KeyError, TypeError, AttributeError):
        raise StateError("The state lacks a part that every state has.") from None
    return sealed


def _believable(sealed: Sealed) -> None:
    facts, table = sealed.facts, sealed.tables[0] if sealed.tables else None
    if table is None or not 1 <= len(sealed.tables) <= 2:
        raise StateError("The state has no table of events.")
    wanted = {"time": pa.int64(), "identity": pa.int64(), "searched": pa.bool_()}
    optional = {"kind": pa.int32(), "occurrence": pa.int64(), "route": pa.int32()}
    for field_ in table.schema:
        kind = wanted.pop(field_.name, None) or optional.get(field_.name)
        if field_.name.startswith(("is ", "open ")):
            kind = pa.bool_()
        if kind is not None and (field_.type != kind or table.column(field_.name).null_count):
            raise StateError(f"The state's column {field_.name!r} is not what it should be.")
    if wanted or len(set(table.schema.names)) < len(table.schema.names):
        raise StateError("The state has no time of its events, or some column twice.")
    kinds, horizon = facts["kinds"], facts["horizon"]
    if not all(isinstance(kind, str) for kind in kinds) or not isinstance(horizon, int | None):
        raise StateError("The state's types of events, or its time, are not what they should be.")
    if "kind" in table.schema.names and table.num_rows:
        codes = np.asarray(table.column("kind"))
        if codes.min() < -1 or codes.max() >= len(kinds):
            raise StateError("The state has an event of a type that it does not name.")
    elif table.num_rows and len(kinds) != 1:
        raise StateError("The state does not say of which types its events are.")
    for about in facts["patterns"].values():
        if not isinstance(about["since"], int | None):
            raise StateError("The state's patterns are not what they should be.")
    if not all(isinstance(name, str) for columns in facts["routes"].values() for name in columns):
        raise StateError("The state's keys are not what they should be.")
    if len(sealed.tables) == 2 and sealed.tables[1].schema.types != _GROUP_TYPES:
        raise StateError("The state's suppressed matches are not what they should be.")


def read_state(plan: Plan, shape: Rows, state: bytes, shards: int, order: str) -> Kept:
    """The state for this plan: rows in the shape of those that come now, patterns that are new marked as such."""
    sealed = open_state(state)
    facts, table = sealed.facts, sealed.tables[0]
    if facts.get("shards") != shards:
        raise StateError(
            f"The checkpoint was made with {facts.get('shards')} shards, and the query now has {shards}.",
            hint=f"Keep ps.events(…, shards={facts.get('shards')}), or start anew with an empty checkpoint.",
        )
    if facts.get("order") != order:
        raise StateError(
            f"The checkpoint was made with order={facts.get('order')!r}, and the query now has order={order!r}.",
            hint="Keep the order, or start anew with an empty checkpoint.",
        )
    reader = _Reader(table, facts, plan, shape)
    rows = reader.rows()
    horizon = facts["horizon"]
    memories, opens = {}, {}
    last = int(rows.time.max()) if len(rows) else None
    for pattern in plan.patterns:
        name = pattern.pattern.semantic_hash
        about = facts["patterns"].get(name)
        flags = reader.truth(f"open {name}")
        if about is not None and flags is not None and not reader.lost:
            memories[name] = Memory(about["since"], reader.groups(sealed, name))
            opens[name] = flags
        else:
            # Of events that were searched before nothing can be started again; those that wait can, if all is there.
            memories[name] = Memory(last if reader.lost else horizon)
            opens[name] = np.zeros(len(rows), bool)
    searched, occurrence = np.asarray(table.column("searched")), reader.numbers("occurrence", np.int64)
    mine = reader.mine
    if mine is not None:
        rows, searched, occurrence = take_rows(rows, mine), searched[mine], occurrence[mine]
        opens = {name: flags[mine] for name, flags in opens.items()}
    return Kept(rows, searched, occurrence, opens, horizon, memories)


class _Reader:
    def __init__(self, table: pa.RecordBatch, facts: Mapping[str, Any], plan: Plan, shape: Rows) -> None:
        self.table, self.facts, self.plan, self.shape = table, facts, plan, shape
        self.lost = False
        """Something that is asked for now was not kept."""
        self.mine: Any = None
        """Rows of ways of partitioning that are still asked for; None for all."""

    def rows(self) -> Rows:
        shape, size = self.shape, self.table.num_rows
        kinds = self.numbers("kind", np.int32)
        decided = {}
        for n in shape.decided:
            truth = self.truth(f"is {self.plan.predicates[n].identity}")
            self.lost |= truth is None
            decided[n] = np.zeros(size, bool) if truth is None else truth
        rows = replace(
            shape,
            time=np.asarray(self.table.column("time")),
            kinds=kinds,
            kind_names=list(self.facts["kinds"]),
            columns={name: self.column(f"column {name}", like) for name, like in shape.columns.items()},
            keys={
                route: {name: self.column(f"key {name}", like) for name, like in keys.items()}
                for route, keys in shape.keys.items()
            },
            identity=np.asarray(self.table.column("identity")),
            ranks=[self.column(f"rank {i}", like) for i, like in enumerate(shape.ranks)],
            route=self.routes(),
            decided=decided,
            made={text: self.column(f"made {text}", like) for text, like in shape.made.items()},
        )
        return rows

    def routes(self) -> Any:
        """The ways of partitioning by the numbers they have now; rows of those that are gone are left behind."""
        if self.shape.route is None and "route" not in self.table.schema.names:
            return None
        before = {int(n): tuple(columns) for n, columns in self.facts["routes"].items()}
        now = {route.columns: route.id for route in self.plan.routes}
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

    def numbers(self, name: str, kind: Any) -> Any:
        if name in self.table.schema.names:
            return np.asarray(self.table.column(name)).astype(kind, copy=False)
        return np.zeros(self.table.num_rows, kind)

    def truth(self, name: str) -> Any:
        if name not in self.table.schema.names:
            return None
        return np.asarray(self.table.column(name).cast(pa.int8())).astype(bool)

    def column(self, name: str, like: Any) -> Any:
        kind = whole(like).type
        if name not in self.table.schema.names:
            self.lost = True
            return pa.nulls(self.table.num_rows, kind)
        found = self.table.column(name)
        if found.type == kind:
            return found
        try:
            return found.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise StateError(
                f"The state's {name} is {found.type}, and now it is {kind}.",
                hint="Cast it to what it was, or start anew with an empty checkpoint.",
            ) from None

    def groups(self, sealed: Sealed, pattern: str) -> dict[Group, int]:
        if len(sealed.tables) < 2:
            return {}
        told = sealed.tables[1].to_pydict()
        rows = zip(told["pattern"], told["high"], told["low"], told["end"], strict=True)
        return {(high, low): end for name, high, low, end in rows if name == pattern}
