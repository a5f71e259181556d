"""A query partition of the subscriptions in one process: its index, and the documents that future ones may join.

Everything here is a cache, derived from a state and the files that it names. The state is authoritative: if it is not
the one that was written last, the cache is rebuilt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.joins import layout as y
from perseid.engines.joins.construction import ConstructionIndex
from perseid.engines.joins.documents import as_bindings, keys_of, retain_chains
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import Joined, Joiner
from perseid.engines.joins.output import NotificationWriter
from perseid.engines.joins.plan import CHAIN_COLUMNS, EPOCH, IDENTITY, TIME, JoinsPlan
from perseid.engines.joins.program import Constructions, QueryPartition, cut_texts
from perseid.engines.joins.register import IndexBuilder
from perseid.engines.joins.state import RetainedDocuments, read_state, write_state
from perseid.engines.joins.subscription_groups import NormalForm, SubscriptionGroups, group_by_shape
from perseid.engines.joins.table import read_file
from perseid.engines.joins.values import Values
from perseid.errors import LimitError
from perseid.lang.xscl_parts import Cutter
from perseid.runtime.arrays import BoolArray, Int8Array, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import ARRIVAL, Watermark

PART = 4_096
"""Documents joined per block before their output rows are built, so that both fit in memory."""


class PartitionIndex:
    """The index of a query partition's subscriptions after a number of files."""

    def __init__(self, plan: JoinsPlan, partition: QueryPartition) -> None:
        self.plan, self.partition = plan, partition
        self.index = Subscriptions(Values())
        self.builder = IndexBuilder(self.index, partition)
        self.constructions = ConstructionIndex()
        self._cutter = Cutter()
        self._shapes: dict[str, NormalForm] = {}
        self.files: list[str] = []
        self.keys: dict[int, int] = {}
        """The numbers of chains, by key."""
        self.since = np.zeros(0, np.int64)
        """By entry: the number of its file; it matches only documents that arrived after that file was loaded."""
        if plan.program is not None:
            self._add((), *plan.program.select(partition, plan.always), 0)

    def load(self, names: Sequence[str]) -> bool:
        """Load the files that are new, and return True if there are any."""
        new = [name for name in names if name not in self.files]
        for name in new:
            self.files.append(name)
            self._apply(read_file(self.plan.folder or "", name), len(self.files))
        return bool(new)

    def _apply(self, table: pa.Table, since: int) -> None:
        """Parse and apply the subscription changes of a file: a folder stores texts, and grows while the query runs."""
        owners = table["subscription"].to_pylist()
        if since > 1:
            self.index.remove(set(owners))
        table = table.filter(pc.is_valid(table["text"]))
        if self.partition.of > 1:
            table = table.filter(pa.array(_in_partition(table["parts"].combine_chunks(), self.partition)))
        texts = dict(zip(table["subscription"].to_pylist(), table["text"].to_pylist(), strict=True))
        cut = cut_texts(texts, self._cutter, self.plan.always)
        self._add(owners, group_by_shape(cut.sources, self._shapes), cut.selects, since)

    def _add(
        self, owners: Sequence[str], groups: SubscriptionGroups[str], selects: Constructions[str], since: int
    ) -> None:
        """Add subscriptions; earlier constructions of ``owners`` are removed."""
        before = len(self.index.numbers)
        self.builder.add_groups(groups)
        self.constructions.replace(owners, groups, selects if self.plan.results else {})
        added = len(self.index.numbers) - before
        self.since = np.concatenate([self.since, np.full(added, since, np.int64)])
        self.keys = {key: number for number, key in enumerate(keys_of(self.index.chains).tolist())}


def _in_partition(parts: pa.ListArray, partition: QueryPartition) -> BoolArray:
    """By subscription: True if one of its parts is in a partition."""
    in_partition = np.zeros(len(parts), np.bool_)
    values = np.asarray(parts.flatten())
    in_partition[np.asarray(pc.list_parent_indices(parts))[partition.owns(values)]] = True
    return in_partition


class JoinShard:
    """The index of a query partition, with its joined and its buffered documents."""

    def __init__(self, partition_index: PartitionIndex, retained: RetainedDocuments) -> None:
        self.partition_index, self.plan = partition_index, partition_index.plan
        self.horizon, self.newest = retained.horizon, retained.newest
        partition_index.load(retained.files)
        self.buffered = self._retain_requested(retained.buffered)
        partition_index.index.values.retain(np.zeros(0, np.int64))
        self.joiner = Joiner(partition_index.index, self.plan.views)
        present, columns = retain_chains(_chain_columns(retained.joined), partition_index.keys)
        self.joined = (
            retained.joined.take(pa.array(present)) if len(present) < retained.joined.num_rows else retained.joined
        )
        self.base = 0
        """The joiner's number of the first retained document: the number of documents evicted since it was created."""
        self.joiner.restore(np.asarray(self.joined[TIME]), as_bindings(columns, partition_index.keys))
        self.written: bytes | None = None
        self.has_dropped = False
        """True if documents inside a window were dropped because of the state limit, and the joiner still lists them."""

    def continues(self, state: bytes | None) -> bool:
        """Return True if this is the shard of a state: it has written the state, or neither has documents or files."""
        return self.written == state and not self.has_dropped and not (state is None and self.partition_index.files)

    def clear(self) -> None:
        """Release all documents; the compiled index is retained."""
        index = self.joiner.index
        self.partition_index.index.values.retain(np.zeros(0, np.int64))
        self.joiner = Joiner(self.partition_index.index, self.plan.views)
        self.joiner.index = index
        self.joined = self.buffered = self.plan.retained.empty_table()
        self.horizon, self.newest, self.base, self.has_dropped = None, None, 0, False

    def step(self, names: Sequence[str], documents: pa.Table, clock: Watermark) -> StepResult:
        """Load new files, buffer new documents, join those that are ready, and emit their notifications."""
        if self.partition_index.load(sorted(names)):
            self.joiner.changed()
        now = clock.current if self.horizon is None or clock.ended else max(self.horizon, clock.current or self.horizon)
        times = np.asarray(documents[TIME])
        reasons = self._classify_late(times, None if clock.ended else now)
        late = np.flatnonzero(reasons)
        self._buffer(documents, np.flatnonzero(reasons == LateReason.NOT))
        if self.plan.order == ARRIVAL:
            accepted_times = [
                *times[reasons == LateReason.NOT].tolist(),
                *([] if self.newest is None else [self.newest]),
            ]
            self.newest = max(accepted_times, default=None)
        writer = NotificationWriter(
            self.plan, self.partition_index.index, self.partition_index.since, self.partition_index.constructions
        )
        for part in self._ready(now, clock.ended):
            joined = self._join(part)
            writer.add(joined, self.joined, self.base, self.joiner)
        if not clock.ended:
            self.horizon = now
        capped = self._evict(clock.ended)
        counters = {
            "events": len(times) - len(late), "late": len(late), "matches": writer.rows, "timed_out": 0,
            "control_rows": len(names), "capped": capped, "live_keys": 0,
            "retained_events": self.joined.num_rows + self.buffered.num_rows,
            "state_bytes": 0 if self.written is None else len(self.written),
        }  # fmt: skip
        return StepResult(writer.table(), self.written, self._next_timer(), counters, late, reasons[late])

    def _classify_late(self, times: IntArray, now: int | None) -> Int8Array:
        reasons = np.zeros(len(times), np.int8)
        if now is not None:
            reasons[times <= now] = LateReason.BEHIND_WATERMARK
        if self.newest is not None:
            reasons[times < self.newest] = LateReason.OUT_OF_ORDER
        return reasons

    def _buffer(self, documents: pa.Table, accepted: IntArray) -> None:
        """Buffer accepted documents, with the number of loaded files as their epoch."""
        new = self._retain_requested(_rows(documents, accepted).combine_chunks())
        epoch = pa.array(np.full(new.num_rows, len(self.partition_index.files), np.int32))
        new = new.set_column(new.schema.get_field_index(EPOCH), new.schema.field(EPOCH), epoch)
        self.buffered = pa.concat_tables([self.buffered, new]).combine_chunks() if self.buffered.num_rows else new

    def _retain_requested(self, documents: pa.Table) -> pa.Table:
        """Retain the chains of the index in documents; drop documents without any."""
        present, chain_columns = retain_chains(_chain_columns(documents), self.partition_index.keys)
        documents = _rows(documents, present)
        columns = {**{name: documents[name] for name in documents.column_names}, **chain_columns}
        return pa.table([columns[name] for name in documents.column_names], schema=documents.schema)

    def _ready(self, now: int | None, ended: bool) -> list[pa.Table]:
        """Remove the documents up to the watermark from the buffer, all in arrival order; return them sorted, in blocks."""
        times, identities = (np.asarray(self.buffered[name]) for name in (TIME, IDENTITY))
        is_ready = np.ones(len(times), np.bool_) if ended or self.plan.order == ARRIVAL else times <= _number(now)
        order = np.lexsort((identities, times))
        ready = _rows(self.buffered, order[is_ready[order]])
        self.buffered = _rows(self.buffered, np.flatnonzero(~is_ready))
        return [ready.slice(at, PART) for at in range(0, ready.num_rows, PART)]

    def _join(self, part: pa.Table) -> Joined:
        # Chains without subscriptions were dropped on arrival; chains of later files were not extracted.
        self.joined = pa.concat_tables([self.joined, part])
        bindings = as_bindings(_chain_columns(part), self.partition_index.keys)
        return self.joiner.add(np.asarray(part[TIME]), bindings)

    def _evict(self, ended: bool) -> int:
        """Evict expired documents, drop the oldest until the state is within its limit, and encode the rest.

        Return the number of documents that were dropped because of the limit.
        """
        if ended:
            self.joined = self.joined.slice(0, 0)
            self.written = None
            return 0
        self.joined = self.joined.combine_chunks()
        times = np.asarray(self.joined[TIME])
        self._drop(int(np.searchsorted(times, self._reached(), "left")))
        capped = 0
        while True:
            retained = RetainedDocuments(
                self.horizon, tuple(self.partition_index.files), self.joined, self.buffered, self.newest
            )
            self.written = write_state(self.plan, retained)
            if self.written is None or len(self.written) <= self.plan.max_state:
                return capped
            if not self.joined.num_rows:
                raise LimitError(
                    f"{self.buffered.num_rows:,} documents buffered for the watermark take {len(self.written):,} bytes in one query partition; "
                    f"max_state allows {self.plan.max_state:,}. No document was dropped.",
                    hint="Restart the query with a larger max_state, in ps.StreamOptions(max_state=…) or as stream.max_state of a job: it "
                    "resumes from its checkpoint without loss. A shorter delay of the watermark buffers fewer documents.",
                )
            dropped = -(-self.joined.num_rows // 2)
            self._drop(dropped)
            capped += dropped
            self.has_dropped = True

    def _drop(self, count: int) -> None:
        self.joined = self.joined.slice(count)
        self.base += count

    def _widest(self) -> int:
        if self.joiner.index is None:
            self.joiner.index = self.partition_index.index.compiled()
        return int(self.joiner.index.sizes[y.X_WIDEST])

    def _reached(self) -> int:
        """Return the oldest time that is in the widest window of a future document."""
        if not self.joined.num_rows:
            return 0
        newest = int(self.joined[TIME][-1].as_py())
        if self.horizon is not None:
            newest = max(newest, self.horizon + 1) if self.plan.order == ARRIVAL else self.horizon + 1
        return newest - self._widest()

    def _next_timer(self) -> int | None:
        """Return the next timer: a buffered document becomes ready, the last joined one expires, or ``newest`` is passed."""
        if self.buffered.num_rows:
            return int(pc.min(self.buffered[TIME]).as_py())
        if not self.joined.num_rows:
            return self.newest if self.newest is not None and _number(self.horizon) < self.newest else None
        if self._widest() > 1 << 60:
            return None
        return int(self.joined[TIME][-1].as_py()) + self._widest() + 1


def _number(now: int | None) -> int:
    return -(2**63) if now is None else now


def _rows(documents: pa.Table, chosen: IntArray) -> pa.Table:
    """Return chosen rows; all in their order are not copied."""
    whole = len(chosen) == documents.num_rows and bool((chosen == np.arange(len(chosen))).all())
    return documents if whole else documents.take(pa.array(chosen))


def _chain_columns(documents: pa.Table) -> dict[str, pa.ListArray]:
    return {name: _whole(documents[name]) for name in CHAIN_COLUMNS}


def _whole(column: pa.ListArray | pa.ChunkedArray) -> pa.ListArray:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.offset:  # a sliced list array has offsets that do not begin at 0
        array = pa.concat_arrays([array])
    return array


_SHARDS: OrderedDict[tuple[JoinsPlan, int], JoinShard] = OrderedDict()
"""LRU cache of this process's query partitions."""
MAX_CACHED_SHARDS = 16


def shard_of(plan: JoinsPlan, number: int, state: bytes | None) -> JoinShard:
    """Return the query partition for a state, from the cache if it is current; ``cache_shard`` returns it after the call."""
    cached = _SHARDS.pop((plan, number), None)
    if cached is not None and cached.continues(state):
        return cached
    retained = read_state(plan, state)
    partition_index = None if cached is None else cached.partition_index
    if partition_index is None or tuple(partition_index.files) != retained.files[: len(partition_index.files)]:
        partition_index = PartitionIndex(plan, QueryPartition(number, plan.shards))
    return JoinShard(partition_index, retained)


def cache_shard(plan: JoinsPlan, number: int, shard: JoinShard) -> None:
    """Cache a query partition; one without a state is cached without documents."""
    if shard.written is None and not shard.partition_index.files:
        shard.clear()
    _SHARDS[plan, number] = shard
    while len(_SHARDS) > MAX_CACHED_SHARDS:
        _SHARDS.popitem(last=False)


def release(plan: JoinsPlan) -> None:
    """Remove the query partitions of a plan from the cache."""
    for number in range(plan.shards):
        _SHARDS.pop((plan, number), None)
