"""Tasks on executors: Arrow batches of a partition in, matches out."""

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
"""Name prefix of internal columns, between Catalyst and the executors."""
TIME, KIND, HITS, IDENTITY, ROUTE = (OURS + name for name in ("time", "kind", "hits", "identity", "route"))
LABEL = OURS + "label"
"""The label of a shard."""
AHEAD = OURS + "ahead"
"""The time of a row that is too far ahead, null in all other rows; only streams with ``max_ahead`` have it."""
PAYLOAD = "_perseid_payload"
"""The body of a document that is too far ahead, under the column name that sources of jobs use for bad records."""
_HIDDEN = "\0rows"
"""Replaces data columns if none is transferred, so that the number of rows is known."""


class Sent:
    """Base of objects that are sent to executors, pickled so that another version raises instead of reading them."""

    version: str

    def __reduce__(self) -> tuple[Callable[[str, bytes], Sent], tuple[str, bytes]]:
        parts = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        return open_sent, (self.version, pickle.dumps((type(self), parts)))


def open_sent(version: str, body: bytes) -> Sent:
    """Unpickle an object on an executor; raise for one that another version planned, without reading it."""
    if version != __version__:
        raise VersionMismatchError(
            f"The driver runs perseid {version}, this executor runs {__version__}.",
            hint="Install the same version everywhere; `perseid doctor` shows the version of each worker.",
        )
    kind, parts = pickle.loads(body)  # noqa: S301  It comes from the driver, as every function that Spark runs.
    return kind(**parts)  # type: ignore[no-any-return]


def freeze_gc() -> None:
    """``gc.freeze()`` after imports, so that reused workers collect quickly.

    A reused worker collects all garbage after each task, which visits every object of every module: a tenth of a second
    and more for a task that takes a few milliseconds.
    """
    if os.environ.get("SPARK_REUSE_WORKER"):
        _freeze(len(sys.modules))


@cache
def _freeze(_modules: int) -> None:
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Job(Sent):
    """Everything that an executor needs for a query; plain data."""

    engine: Engine
    """Pickled by the names of its functions: an executor needs the package they are in."""
    plan: Any
    kind_names: tuple[str, ...] | None
    """Event types by code; None if types are transferred as text, because a condition reads them."""
    keys: Mapping[int, tuple[tuple[str, str], ...]]
    """By route: the name of each key in patterns, and its internal column."""
    ranks: tuple[str, ...]
    predicates: tuple[int, ...]
    """The predicate id of each bit of the hits."""
    computed_columns: Mapping[str, str]
    """Computed columns: the internal column by the text of the expression."""
    columns: Mapping[str, str]
    """Data columns: the internal column by name."""
    schema: pa.Schema
    counted: bool
    dedupe: bool = False
    single_type: bool = False
    """True if all rows are of the only type that steps name, so that types are not transferred."""
    identity: str | None = None
    """The data column that is also the identity; None if identity is a separate column."""
    relations: Mapping[str, list[tuple[object, ...]]] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    """Event types with a row counter."""
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the rows of one partition; a ``mapInArrow`` function."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        for query_partition, table in self.by_query_partition(pa.Table.from_batches(received)):
            yield from self._stepped(table, query_partition).to_batches(max_chunksize=65_536)
        freeze_gc()

    def by_query_partition(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a partition, by query partition."""
        yield 0, table

    def _stepped(self, table: pa.Table, query_partition: int) -> pa.Table:
        bad = 0
        if self.counted:
            timed = pc.is_valid(table[TIME])
            bad = table.num_rows - int(pc.sum(timed).as_py() or 0)
            table = table.filter(timed) if bad else table
        rows = replace(self.rows(table), query_partition=query_partition)
        done = self.engine.run_step(self.plan, rows, None, Watermark(ended=True))
        named = self.named(done.rows)
        if not self.counted:
            return named.cast(self.schema)
        if query_partition:  # every query partition receives the same rows; only the first counts them
            table, bad = table.slice(0, 0), 0
        by_type = [0] * len(self.types) if query_partition else self.by_type(rows, table)
        return self._counted(named, done.counters, table, bad, by_type)

    def named(self, rows: pa.Table) -> pa.Table:
        """Rename the engine's columns, by position, to the names from the driver."""
        return rows.rename_columns(self.schema.names[: rows.num_columns])

    def once(self, table: pa.Table) -> pa.Table:
        """One copy of each event: a row with several routes is one event."""
        return table if len(self.keys) <= 1 else table.filter(pc.equal(table[ROUTE], min(self.keys)))

    def by_type(self, rows: EventBatch, table: pa.Table) -> list[int]:
        """The number of rows of each counted event type."""
        once = None if len(self.keys) <= 1 else np.asarray(_combine(table[ROUTE])) == min(self.keys)
        return count_by_type(rows, self.types, once)

    def rows(self, table: pa.Table) -> EventBatch:
        """Convert a shard's table to an ``EventBatch``."""
        # Read like any table: moments are UTC regardless of the session's zone, and null if no date can represent them.
        read = read_table(table)
        columns = {name: _combine(read.columns[column]) for name, column in self.columns.items()}
        if not columns:
            columns[_HIDDEN] = _combine(table[TIME])
        hits = np.asarray(_combine(table[HITS])) if self.predicates else None
        if self.kind_names is None:
            kinds, kind_names = type_codes(read, KIND)
        elif self.single_type:
            kinds, kind_names = np.zeros(table.num_rows, np.int32), list(self.kind_names)
        else:
            kinds, kind_names = np.asarray(_combine(table[KIND])).astype(np.int32), list(self.kind_names)
        return EventBatch(
            time=np.asarray(_combine(table[TIME])),
            type_codes=kinds,
            type_names=kind_names,
            columns=columns,
            keys={
                route: {key_name: _combine(read.columns[column]) for key_name, column in keys}
                for route, keys in self.keys.items()
            },
            identity=np.asarray(_combine(table[IDENTITY]))
            if self.identity is None
            else identities([columns[self.identity]], {}),
            tie_breakers=[read.columns[name] for name in self.ranks],
            route=np.asarray(_combine(table[ROUTE])) if len(self.keys) > 1 else None,
            predicate_masks={}
            if hits is None
            else {n: (hits >> bit & 1).astype(bool) for bit, n in enumerate(self.predicates)},
            computed_columns={text: _combine(read.columns[name]) for text, name in self.computed_columns.items()},
            relations={name: Relation(rows) for name, rows in self.relations.items()},
            dedupe=self.dedupe,
        )

    def _counted(
        self, rows: pa.Table, counters: Mapping[str, int], table: pa.Table, bad: int, by_type: list[int]
    ) -> pa.Table:
        """Append one row with the counters; the driver sums these rows and removes them."""
        counts = {**dict.fromkeys(OF_A_BATCH, 0), **counters, "bad": bad + counters.get("bad", 0)}
        counts["events"] = self.once(table).num_rows + bad
        type_counts = {f"{OF_TYPE}{i}": count for i, count in enumerate(by_type)}
        extra = pa.array([{name: counts[name] for name in OF_A_BATCH} | type_counts], self.schema.field(HITS).type)
        single = {f.name: pa.nulls(1, f.type) for f in self.schema if f.name != HITS}
        single[HITS] = extra
        matches = rows.append_column(HITS, pa.nulls(rows.num_rows, extra.type)).cast(self.schema)
        return pa.concat_tables([matches, pa.table([single[f.name] for f in self.schema], schema=self.schema)])


@dataclass(frozen=True)
class BroadcastTask(Job):
    """A batch task for a partition with the rows of several shards."""

    def by_query_partition(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each shard."""
        for shard, label in enumerate(labels(self.plan.shards)):
            partition_rows = table.filter(pc.equal(table[LABEL], label))
            if partition_rows.num_rows:
                yield shard, partition_rows


@dataclass(frozen=True)
class FinishTask(Sent):
    """The ``finish`` of an engine, as a ``mapInArrow`` function."""

    engine: Engine
    plan: Plan
    received: pa.Schema
    schema: pa.Schema
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Finish the rows of one partition."""
        result = [batch for batch in batches if batch.num_rows]
        if result:
            rows = pa.Table.from_batches(result).rename_columns(self.received.names).cast(self.received)
            assert self.engine.finish is not None
            finished = self.engine.finish(self.plan, rows)
            yield from finished.rename_columns(self.schema.names).cast(self.schema).to_batches(max_chunksize=65_536)


def _combine(column: Column) -> Column:
    """A column as a single chunk."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
