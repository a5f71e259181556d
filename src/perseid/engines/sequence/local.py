"""Runs a plan in this process over columns: data that fits into memory, and Parquet files that fit on disk."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TypeAlias, overload

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.sequence.columns import OrderedEvents, column_type
from perseid.engines.sequence.engine import find_all
from perseid.engines.sequence.input_notes import notes, warn_of_keys
from perseid.engines.sequence.local_rows import row_pieces
from perseid.engines.sequence.matcher import kernel_matcher
from perseid.engines.sequence.output import (
    MatchRows,
    PatternMatches,
    cast_column,
    events_of,
    materialize,
    take,
)
from perseid.engines.sequence.plan import SequencePlan, make_plan
from perseid.engines.sequence.results import Matches
from perseid.engines.sequence.schema import STANDARD, common_type
from perseid.engines.sequence.stream import Events, read_events
from perseid.errors import EventDataError
from perseid.runtime.arrays import IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.progress import ProgressLine
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.detection import Match, check_relations, detect, make_match


def match_locally(
    plan: Plan,
    stream: Events,
    relations: Mapping[str, list[tuple[object, ...]]],
    *,
    horizon: int | None,
    reported: Sequence[str],
    columns: Sequence[str],
    memory_limit: int | None = None,
) -> Matches:
    """All matches of a plan's patterns over a declared stream."""
    with ProgressLine() as progress:
        if any(pattern.feeds_on for pattern in plan.patterns):
            found, counted, hints = _match_fed(plan, stream, relations, horizon, progress)
        else:
            found, counted, hints = _match_pieces(plan, stream, relations, horizon, memory_limit, progress)
    return Matches(found, counted, reported, columns, hints)


Matched: TypeAlias = tuple[Sequence[Match], Mapping[str, int], Sequence[str]]
"""Matches, counters and notes."""


def _match_pieces(
    plan: Plan,
    stream: Events,
    relations: Mapping[str, list[tuple[object, ...]]],
    horizon: int | None,
    memory_limit: int | None,
    progress: ProgressLine,
) -> Matched:
    check_relations([pattern.pattern for pattern in plan.patterns], relations)
    tables = {name: v.Relation(rows) for name, rows in relations.items()}
    found: list[Gathered] = []
    types: set[str] = set()
    names: set[str] = set()
    counted: Counter[str] = Counter()
    rows_seen = 0
    known: dict[str, t.Type] = {}
    for rows, piece_columns in row_pieces(plan, stream, tables, memory_limit, progress):
        found = [one if one.compact else _compact(one) for one in found]
        rows_seen += len(rows)
        types.update(rows.type_names)
        names |= piece_columns
        known = {name: column_type(column) for name, column in rows.columns.items()}
        progress.begin_search(len(rows), len(plan.patterns))
        try:
            compiled = make_plan(plan, known, strictly_later=stream.strictly_later)
            compiled = replace(compiled, budget=stream.budget)
            found.extend(_gather(compiled, rows, horizon, counted, progress))
        except UnicodeEncodeError:
            raise _lone_surrogate_in(_cells(rows)) from None
    return _LazyMatches(found), counted, notes(plan, types, names, known) if rows_seen else []


def _match_fed(
    plan: Plan,
    stream: Events,
    relations: Mapping[str, list[tuple[object, ...]]],
    horizon: int | None,
    progress: ProgressLine,
) -> Matched:
    """The matches of patterns that feed on others. Matches that feed are events too: they are built one by one."""
    events = read_events(stream)
    searched, total_events = 0, max(len(events) * len(plan.patterns), 1)

    def count(partition: int) -> None:
        nonlocal searched
        searched += partition

    progress.begin_search(len(events), 1)
    progress.watch(lambda: searched / total_events)
    try:
        detection = detect(
            [pattern.pattern for pattern in plan.patterns],
            events,
            kernel_matcher(plan, budget=stream.budget, count=count),
            horizon=horizon,
            strictly_later=stream.strictly_later,
            dedupe=stream.dedupe,
            relations=relations,
        )
    except UnicodeEncodeError:
        cells = ((name, value, e.time) for e in events for name, value in e.attributes.items())
        raise _lone_surrogate_in(cells) from None
    names = {name for e in events for name in e.attributes}
    if not events:
        return detection.matches, detection.counters(), []
    progress.clear()
    warn_of_keys(plan, names)
    return detection.matches, detection.counters(), notes(plan, {e.type for e in events if e.type}, names)


def _lone_surrogate_in(cells: Iterable[tuple[str, object, int]]) -> EventDataError:
    """The error for a string that Arrow cannot store; it names the first such cell of (column, value, time)."""
    hint = "Replace it: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
    problem = "contains a lone surrogate, which is not valid Unicode."
    for name, value, time in cells:
        if _has_lone_surrogate(name):
            return EventDataError(f"The name of column {name!r} {problem}", hint=hint)
        if _has_lone_surrogate(value):
            moment = v.text(v.plain(v.EPOCH + dt.timedelta(microseconds=time)))
            return EventDataError(f"Column {name!r} of the event at {moment} {problem}", hint=hint)
    return EventDataError(f"A string of an event or of a relation {problem}", hint=hint)


def _cells(rows: EventBatch) -> Iterator[tuple[str, object, int]]:
    for name, column in rows.columns.items():
        yield from zip(repeat(name), column if isinstance(column, list) else repeat(None), rows.time.tolist())


def _has_lone_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return v.has_lone_surrogate(value)
    if isinstance(value, Mapping):
        return any(_has_lone_surrogate(part) for pair in value.items() for part in pair)
    return isinstance(value, list | tuple) and any(map(_has_lone_surrogate, value))


def _compact(gathered: Gathered) -> Gathered:
    """Copy only the rows that matches refer to, so that the piece they were read from can be freed."""
    found, rows = gathered.found, gathered.rows
    raw, batch = found.raw, found.batch
    used = np.unique(raw.positions)
    at = used if batch.order is None else batch.order[used]
    unified = raw.unified.copy()
    unified[:, ::2] = np.where(unified[:, ::2] < 0, -1, np.searchsorted(used, unified[:, ::2]))
    small = OrderedEvents(
        time=batch.time[used],
        kinds=batch.kinds[used],
        kind_names=batch.kind_names,
        columns={name: take(column, at) for name, column in batch.columns.items()},
        relations=batch.relations,
    )
    compacted = replace(
        found,
        raw=replace(raw, positions=np.searchsorted(used, raw.positions), unified=unified),
        batch=small,
        occurrence=None if found.occurrence is None else found.occurrence[used],
        arrays=None,
    )
    small_rows = EventBatch(small.time, small.kinds, small.kind_names, small.columns, {}, rows.identity[at])
    return Gathered(compacted, small_rows, gathered.listing, gathered.order, True)


@dataclass(frozen=True)
class Gathered:
    """Matches of one pattern in order: encoded, as rows, and with the input rows to build :class:`Match` from."""

    found: PatternMatches
    rows: EventBatch
    listing: MatchRows
    order: IntArray
    compact: bool = False


def _gather(
    plan: SequencePlan, rows: EventBatch, horizon: int | None, counted: Counter[str], progress: ProgressLine
) -> Iterator[Gathered]:
    every = find_all(plan, rows, horizon=horizon, threads=os.cpu_count() or 1, progress=progress)
    progress.begin_output()
    for found in every:
        listing, order = materialize(found, rows, counted, horizon)
        yield Gathered(found, rows, listing, order)


class _LazyMatches(Sequence[Match]):
    """A sequence of matches that are built on access."""

    def __init__(self, gathered: Sequence[Gathered]) -> None:
        self.gathered = gathered
        which = [np.full(len(g.order), i) for i, g in enumerate(gathered)]
        index = [np.asarray(g.order) for g in gathered]
        ends = [g.found.raw.end[g.order] for g in gathered]
        starts = [g.found.batch.time[g.found.raw.starts[g.order]] for g in gathered]
        self.which = np.concatenate(which) if which else np.zeros(0, np.int64)
        self.rows_at = np.concatenate(index) if index else np.zeros(0, np.int64)
        if len(gathered) > 1 and len(self.which):
            order = np.lexsort((np.concatenate(starts), np.concatenate(ends)))
            self.which, self.rows_at = self.which[order], self.rows_at[order]

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, at: int) -> Match: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Match, ...]: ...
    def __getitem__(self, at: int | slice) -> Match | tuple[Match, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        return _match(self.gathered[int(self.which[at])], int(self.rows_at[at]))

    @property
    def timed_out(self) -> int:
        return sum(int(g.found.raw.timed_out[g.order].sum()) for g in self.gathered)

    def chosen(self, reported: Sequence[str]) -> _LazyMatches:
        return _LazyMatches([g for g in self.gathered if g.found.pattern.name in reported])

    def table(self) -> pa.Table:
        """All rows in order, as columns; absent ones are null."""
        pieces = _stacked([g.listing.table for g in self.gathered])
        starts = np.cumsum([0, *(g.listing.table.num_rows for g in self.gathered)])
        return pieces.take(pa.array(starts[self.which] + self.rows_at)).drop_columns(["op", "revision"])


def _stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables; columns of one name are cast to a common type."""
    kinds: dict[str, pa.DataType] = {}
    for table in tables:
        for field in table.schema:
            before = kinds.get(field.name)
            if before is None or pa.types.is_null(before):
                kinds[field.name] = field.type
            elif not pa.types.is_null(field.type) and field.type != before:
                kinds[field.name] = common_type(before, field.type)
    fitted = []
    for table in tables:
        columns = {name: cast_column(table[name], kinds[name]) for name in table.column_names}
        fitted.append(pa.table(columns))
    return pa.concat_tables(fitted, promote_options="default")


def _value(listing: MatchRows, name: str, i: int) -> object:
    return listing.loose[name][i] if name in listing.loose else v.plain(listing.table[name][i].as_py())


def _match(gathered: Gathered, i: int) -> Match:
    found, rows = gathered.found, gathered.rows
    core, raw, batch = found.pattern, found.raw, found.batch
    contributing = []
    for (step, event), (_, position) in zip(events_of(found, i), raw.bound_events(i), strict=True):
        occurrence = 0 if found.occurrence is None else int(found.occurrence[position])
        word = int(rows.identity[batch.row(position)])
        contributing.append((step, replace(event, id=str(word), occurrence=occurrence)))
    table = gathered.listing.table
    names = table.column_names[len(STANDARD) :]
    keys = [".".join(path.parts) for path in core.partition]
    cells = [_value(gathered.listing, name, i) for name in names]
    return make_match(
        core,
        contributing,
        match_id=table["match_id"][i].as_py(),
        kind=raw.kind(i),
        key=dict(zip(keys, cells, strict=False)),
        end=raw.ends(i),
        values=dict(zip((name for name, _ in core.returns), cells[len(keys) :], strict=False)),
    )
