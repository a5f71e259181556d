"""What runs on executors: a shard's Arrow batches in, matches out."""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid._version import __version__
from perseid.errors import VersionMismatchError
from perseid.runtime.contract import Engine, Plan
from perseid.runtime.counters import OF_A_BATCH
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import identities
from perseid.runtime.watermark import Watermark
from perseid.semantics.values import Relation
from perseid.spark.shards import labels
from perseid.spark.type_counts import OF_TYPE, count_by_type
from perseid.tables.columns import Column, read_table, type_codes

OURS = "__perseid_"
"""What our own columns begin with, between Catalyst and the executors."""
TIME, KIND, HITS, IDENTITY, ROUTE = (OURS + name for name in ("time", "kind", "hits", "identity", "route"))
LABEL = OURS + "label"
"""The label of a shard."""
AHEAD = OURS + "ahead"
"""The time of a row that is too far beyond its arrival; null in all other rows. Only streams with ``max_ahead`` have it."""
PAYLOAD = "_perseid_payload"
"""The body of a document that is too far ahead, under the name that sources of jobs have for what cannot be read."""
_HIDDEN = "\0rows"
"""A column that is no column of the data; it says how many rows there are where no other crosses."""


class Sent:
    """What travels to executors. It is sealed: what another version wrote may not even be readable, and has to say so."""

    version: str

    def __reduce__(self) -> tuple[Callable[[str, bytes], Sent], tuple[str, bytes]]:
        parts = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        return open_sent, (self.version, pickle.dumps((type(self), parts)))


def open_sent(version: str, body: bytes) -> Sent:
    """What arrives on an executor; what another version planned is refused unread."""
    if version != __version__:
        raise VersionMismatchError(
            f"The driver runs perseid {version}, this executor {__version__}.",
            hint="Install the same version everywhere; `perseid doctor` shows who has which.",
        )
    kind, parts = pickle.loads(body)  # noqa: S301  It comes from the driver, as every function that Spark runs.
    return kind(**parts)  # type: ignore[no-any-return]


def settle() -> None:
    """Take what is loaded out of the garbage collector's sight, once it is loaded.

    A worker that serves task after task collects all garbage after each of them, which means looking at every object
    of every module: a tenth of a second and more for a task that takes a few milliseconds.
    """
    if os.environ.get("SPARK_REUSE_WORKER"):
        _freeze(len(sys.modules))


@cache
def _freeze(_modules: int) -> None:
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Job(Sent):
    """Everything an executor has to know; plain data."""

    engine: Engine
    """It travels by the names of its functions: an executor needs the package they are in."""
    plan: Any
    kind_names: tuple[str, ...] | None
    """What the codes of types stand for; None where types come as text because some condition asks for them."""
    keys: Mapping[int, tuple[tuple[str, str], ...]]
    """By route: the name of a key in patterns, and of its column here."""
    ranks: tuple[str, ...]
    predicates: tuple[int, ...]
    """Which predicate each bit of the hits stands for."""
    made: Mapping[str, str]
    """Computed columns: the text of their expression, and their name here."""
    columns: Mapping[str, str]
    """Columns of the data that come along, and their name here."""
    schema: pa.Schema
    counted: bool
    dedupe: bool = False
    one_kind: bool = False
    """All rows are of the one type that steps name, so their types need not come along."""
    identity: str | None = None
    """The column of the data that is the identity too; None where identity is a column of its own."""
    relations: Mapping[str, list[tuple[object, ...]]] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    """Event types whose rows are counted."""
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that ``mapInArrow`` is given."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        for share, table in self.shared(pa.Table.from_batches(received)):
            yield from self._stepped(table, share).to_batches(max_chunksize=65_536)
        settle()

    def shared(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a partition by the share of the plan that they are for."""
        yield 0, table

    def _stepped(self, table: pa.Table, share: int) -> pa.Table:
        bad = 0
        if self.counted:
            timed = pc.is_valid(table[TIME])
            bad = table.num_rows - int(pc.sum(timed).as_py() or 0)
            table = table.filter(timed) if bad else table
        rows = replace(self.rows(table), query_partition=share)
        done = self.engine.run_step(self.plan, rows, None, Watermark(ended=True))
        named = self.named(done.rows)
        if not self.counted:
            return named.cast(self.schema)
        if share:  # what comes to all shares is counted in the first
            table, bad = table.slice(0, 0), 0
        by_type = [0] * len(self.types) if share else self.by_type(rows, table)
        return self._counted(named, done.counters, table, bad, by_type)

    def named(self, rows: pa.Table) -> pa.Table:
        """Matches under the names the driver gave them: in order, the columns are the engine's."""
        return rows.rename_columns(self.schema.names[: rows.num_columns])

    def once(self, table: pa.Table) -> pa.Table:
        """Rows that are events: one that goes several ways is one event."""
        return table if len(self.keys) <= 1 else table.filter(pc.equal(table[ROUTE], min(self.keys)))

    def by_type(self, rows: EventBatch, table: pa.Table) -> list[int]:
        """How many rows there are of each type that is counted."""
        once = None if len(self.keys) <= 1 else np.asarray(_whole(table[ROUTE])) == min(self.keys)
        return count_by_type(rows, self.types, once)

    def rows(self, table: pa.Table) -> EventBatch:
        """A shard's table as an engine knows rows."""
        # Read as any table is: moments in UTC whatever the session's zone is, and null where no date can be.
        read = read_table(table)
        columns = {name: _whole(read.columns[here]) for name, here in self.columns.items()}
        if not columns:
            columns[_HIDDEN] = _whole(table[TIME])
        hits = np.asarray(_whole(table[HITS])) if self.predicates else None
        if self.kind_names is None:
            kinds, kind_names = type_codes(read, KIND)
        elif self.one_kind:
            kinds, kind_names = np.zeros(table.num_rows, np.int32), list(self.kind_names)
        else:
            kinds, kind_names = np.asarray(_whole(table[KIND])).astype(np.int32), list(self.kind_names)
        return EventBatch(
            time=np.asarray(_whole(table[TIME])),
            type_codes=kinds,
            type_names=kind_names,
            columns=columns,
            keys={
                route: {there: _whole(read.columns[here]) for there, here in keys} for route, keys in self.keys.items()
            },
            identity=np.asarray(_whole(table[IDENTITY]))
            if self.identity is None
            else identities([columns[self.identity]], {}),
            tie_breakers=[read.columns[name] for name in self.ranks],
            route=np.asarray(_whole(table[ROUTE])) if len(self.keys) > 1 else None,
            predicate_masks={}
            if hits is None
            else {n: (hits >> bit & 1).astype(bool) for bit, n in enumerate(self.predicates)},
            computed_columns={text: _whole(read.columns[name]) for text, name in self.made.items()},
            relations={name: Relation(rows) for name, rows in self.relations.items()},
            dedupe=self.dedupe,
        )

    def _counted(
        self, rows: pa.Table, counters: Mapping[str, int], table: pa.Table, bad: int, by_type: list[int]
    ) -> pa.Table:
        """One more row that carries what was counted; the driver sums these rows up and takes them out."""
        counts = {**dict.fromkeys(OF_A_BATCH, 0), **counters, "bad": bad + counters.get("bad", 0)}
        counts["events"] = self.once(table).num_rows + bad
        many = {f"{OF_TYPE}{i}": count for i, count in enumerate(by_type)}
        extra = pa.array([{name: counts[name] for name in OF_A_BATCH} | many], self.schema.field(HITS).type)
        single = {f.name: pa.nulls(1, f.type) for f in self.schema if f.name != HITS}
        single[HITS] = extra
        whole = rows.append_column(HITS, pa.nulls(rows.num_rows, extra.type)).cast(self.schema)
        return pa.concat_tables([whole, pa.table([single[f.name] for f in self.schema], schema=self.schema)])


@dataclass(frozen=True)
class BroadcastTask(Job):
    """A batch task whose partition has the rows of several shards."""

    def shared(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each shard."""
        for shard, label in enumerate(labels(self.plan.shards)):
            own = table.filter(pc.equal(table[LABEL], label))
            if own.num_rows:
                yield shard, own


@dataclass(frozen=True)
class FinishTask(Sent):
    """The ``finish`` of an engine; the function that ``mapInArrow`` is given."""

    engine: Engine
    plan: Plan
    received: pa.Schema
    schema: pa.Schema
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Finish the rows of one partition."""
        found = [batch for batch in batches if batch.num_rows]
        if found:
            rows = pa.Table.from_batches(found).rename_columns(self.received.names).cast(self.received)
            assert self.engine.finish is not None
            finished = self.engine.finish(self.plan, rows)
            yield from finished.rename_columns(self.schema.names).cast(self.schema).to_batches(max_chunksize=65_536)


def _whole(column: Column) -> Column:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
