"""The sequence engine as drivers know it: a plan, and one step over the rows of a shard.

A driver only plans: what is compiled is imported where it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.contract import WATERMARK, Clock, Engine, Rows, StateReport, Step
from perseid.engines.sequence.plan import Numbered, number
from perseid.engines.sequence.schema import output_schema
from perseid.semantics import types as t
from perseid.semantics import values as v

if TYPE_CHECKING:
    from perseid.engines.sequence.output import Found


@dataclass(frozen=True)
class SequencePlan:
    """A compiled set in the numbers of its kernels, for columns of known types."""

    plan: Plan
    patterns: tuple[Numbered, ...]
    schema: Any
    """The Arrow schema of the rows that come out."""
    strictly_later: bool = False
    order: str = WATERMARK
    """What a stream is searched by: the watermark, or the order in which events of a key arrive."""
    delay: int = 0
    """Microseconds that the watermark is behind the newest event."""
    shards: int = 1
    max_state: int = 1 << 28
    """Bytes of state that one shard may have."""
    links: tuple[Link, ...] = ()
    """Where patterns take matches of others: what is searched after what."""

    def types_of_matches(self, pattern: Numbered) -> dict[str, t.Type]:
        """The types of the columns that matches have which a pattern takes."""
        from perseid.engines.sequence.columns import arrow_type

        columns = next((link.columns for link in self.links if pattern in link.patterns), {})
        return {name: arrow_type(kind) for name, kind in columns.items()}


@dataclass(frozen=True)
class Link:
    """Patterns that take matches of the same patterns."""

    plan: Plan
    patterns: tuple[Numbered, ...]
    takes: tuple[str, ...]
    columns: Mapping[str, Any]
    """What matches have as events, with their types."""
    label: str
    """What it is in a state: empty for patterns that take no matches, else what those mean that it takes."""


def make_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    arrow: Mapping[str, Any] | None = None,
    strictly_later: bool = False,
) -> SequencePlan:
    """Number every pattern, each on its own; ``arrow`` has the exact types of columns that are returned as they are."""
    numbered = tuple(number(plan, pattern, types, strictly_later) for pattern in plan.patterns)
    return SequencePlan(plan, numbered, output_schema(numbered, types, arrow or {}), strictly_later)


def make_linked_plan(
    plan: Plan,
    types: Mapping[str, t.Type],
    *,
    arrow: Mapping[str, Any] | None = None,
    strictly_later: bool = False,
) -> SequencePlan:
    """The same, with links where patterns take matches of others."""
    if not any(pattern.feeds_on for pattern in plan.patterns):
        return make_plan(plan, types, arrow=arrow, strictly_later=strictly_later)
    from perseid.engines.sequence.chain import make_chain

    numbered, schema, links = make_chain(plan, types, arrow or {}, strictly_later)
    return SequencePlan(plan, numbered, schema, strictly_later, links=links)


def wanted_rows(plan: SequencePlan, rows: Rows) -> Any:
    """True for rows some step may want, where events that fit no step may be dropped; None for all."""
    if plan.plan.event_types is None or len(rows.kind_names) == 0:
        return None
    hits = are_of(plan.plan.event_types, rows.kinds, rows.kind_names)
    return None if hits.all() else hits


def are_of(types: Collection[str], kinds: Any, kind_names: Sequence[str]) -> Any:
    """Which rows are of one of these types, by the codes of theirs."""
    return np.array([*(name in types for name in kind_names), False])[kinds]  # -1, null, is the last place


def find_all(
    plan: SequencePlan,
    rows: Rows,
    *,
    horizon: int | None = None,
    threads: int = 1,
    compiled: bool = True,
) -> list[Found]:
    """The matches of every pattern in numbers, with what is needed to make rows of them."""
    from perseid.engines.sequence.columns import Batch, batch_in
    from perseid.engines.sequence.output import Found
    from perseid.engines.sequence.run import find

    wanted = wanted_rows(plan, rows)
    chosen = None if wanted is None else np.flatnonzero(wanted)
    places: dict[int, tuple[Batch, Any, Any, int]] = {}
    out = []
    for numbered in plan.patterns:
        route = numbered.pattern.route
        if route not in places:
            order, offsets, occurrence, duplicates = arranged(rows, route, chosen)
            places[route] = batch_in(rows, order), offsets, occurrence, duplicates
        shared, offsets, occurrence, duplicates = places[route]
        batch = replace(shared)  # what was loaded serves all patterns; the codes of texts are each pattern's own
        raw, arrays = find(numbered, batch, offsets, horizon=horizon, threads=threads, compiled=compiled)
        out.append(Found(numbered, raw, batch, offsets, occurrence, arrays, duplicates))
    return out


def arranged(rows: Rows, route: int, chosen: Any) -> tuple[Any, Any, Any, int]:
    """Row numbers in order, where partitions begin, occurrence numbers and how many rows were duplicates."""
    from perseid.engines.order import arrange

    if rows.route is not None:
        mine = np.flatnonzero(rows.route == route)
        chosen = mine if chosen is None else np.intersect1d(mine, chosen, assume_unique=True)
    keys = [comparable(key) for key in rows.keys[route].values()]
    time, identity, ranks = rows.time, rows.identity, list(rows.ranks)
    if chosen is not None:
        keys = [key.take(pa.array(chosen)) for key in keys]
        time, identity = time[chosen], identity[chosen]
        ranks = [rank.take(pa.array(chosen)) for rank in ranks]
    arrangement = arrange(keys, time, ranks, identity)
    order = arrangement.order if chosen is None else chosen[arrangement.order]
    if rows.dedupe and arrangement.occurrence is not None:
        once = arrangement.occurrence == 0
        before = np.concatenate([[0], np.cumsum(once)])
        return order[once], before[arrangement.offsets], None, len(order) - int(before[-1])
    return order, arrangement.offsets, arrangement.occurrence, 0


def comparable(key: Any) -> Any:
    """A key whose values are of several kinds as a number for each distinct one."""
    if not isinstance(key, list):
        return key
    codes: dict[object, int] = {}
    return pa.array([codes.setdefault(v.identity(v.plain(value)), len(codes)) for value in key], pa.int64())


def step(plan: SequencePlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    """The matches of a shard: of all its rows where they have all come, else what is decided by now."""
    if plan.links:
        from perseid.engines.sequence.chain import advance_chain

        return advance_chain(plan, rows, state, clock)
    if not clock.ended or state is not None:
        from perseid.engines.sequence.stream import advance

        return advance(plan, rows, state, clock)
    from perseid.engines.sequence.output import match_table

    found = find_all(plan, rows)
    table, counters = match_table(found, rows, plan.schema)
    # A row that goes several ways is one event: it is counted on the first.
    duplicates = next((one.duplicates for one in found if one.numbered.pattern.route == min(rows.keys)), 0)
    return Step(table, None, None, {"events": len(rows), "duplicates": duplicates, **counters})


def report(state: bytes) -> StateReport:
    """What a state of this engine's holds."""
    from perseid.engines.sequence.report import report as reported

    return reported(state)


SEQUENCE = Engine(
    name="sequence",
    plan=make_linked_plan,
    step=step,
    report=report,
    guide="docs/guides/streaming.md",
    example="examples/takeover_on_spark.py",
)
