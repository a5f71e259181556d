"""Exact match counts: computed for chains of ``->>``, by enumeration for other patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from perseid.compile.plan import Plan
from perseid.engines.sequence.bytecode import MATCH_CAP, CompiledPattern
from perseid.engines.sequence.columns import OrderedEvents, column_type, kernel_arrays, value_at
from perseid.engines.sequence.counting import CountablePattern, chain_of, count_matches
from perseid.engines.sequence.engine import find_all
from perseid.engines.sequence.local_rows import row_pieces
from perseid.engines.sequence.output import PatternMatches
from perseid.engines.sequence.partition_sort import sort_partitions
from perseid.engines.sequence.plan import make_plan
from perseid.engines.sequence.run import make_space
from perseid.engines.sequence.stream import Events
from perseid.engines.sequence.stream_keys import field_inside
from perseid.errors import LimitError
from perseid.lang.expressions import Ref
from perseid.runtime.event_batch import EventBatch
from perseid.semantics import values as v
from perseid.semantics.detection import check_relations


@dataclass(frozen=True)
class Counts:
    """Number of matches of a pattern, in total and by key."""

    pattern: str
    total: int
    by_key: Mapping[tuple[object, ...], int]
    enumerated: str | None
    """The reason why matches were enumerated; None if they were not."""

    def __repr__(self) -> str:
        how = "" if self.enumerated is None else f", enumerated because {self.enumerated}"
        return f"<{self.total} matches of {self.pattern} in {len(self.by_key)} keys{how}>"


def count_locally(plan: Plan, stream: Events, relations: Mapping[str, list[tuple[object, ...]]]) -> list[Counts]:
    """Count the matches of every pattern of a set over finite data, without feeding matches to other patterns."""
    check_relations([pattern.pattern for pattern in plan.patterns], relations)
    tables = {name: v.Relation(rows) for name, rows in relations.items()}
    totals: dict[str, Counter[tuple[object, ...]]] = {pattern.name: Counter() for pattern in plan.patterns}
    why: dict[str, str | None] = {}
    for rows, _ in row_pieces(plan, stream, tables, None):
        known = {name: column_type(column) for name, column in rows.columns.items()}
        compiled = replace(make_plan(plan, known, strictly_later=stream.strictly_later), budget=stream.budget)
        chains = {bytecode.pattern.name: chain_of(bytecode) for bytecode in compiled.patterns}
        others = tuple(bytecode for bytecode in compiled.patterns if isinstance(chains[bytecode.pattern.name], str))
        enumerated = {
            bytecode.pattern.name: bytecode for bytecode in find_all(replace(compiled, patterns=others), rows)
        }
        for bytecode in compiled.patterns:
            chain = chains[bytecode.pattern.name]
            why[bytecode.pattern.name] = chain if isinstance(chain, str) else None
            found = (
                _counted(bytecode, chain, rows)
                if isinstance(chain, CountablePattern)
                else _enumerated(enumerated[bytecode.pattern.name], chain)
            )
            keys = list(rows.keys[bytecode.pattern.route].values())
            for row, count in found:
                if count:
                    totals[bytecode.pattern.name][tuple(_shown(value_at(key, row)) for key in keys)] += count
    return [Counts(name, sum(by_key.values()), by_key, why.get(name)) for name, by_key in totals.items()]


def _enumerated(found: PatternMatches, why: str) -> Iterator[tuple[int, int]]:
    """Yield a row of each partition with matches, and the number of its matches."""
    if found.raw.capped:
        raise LimitError(
            f"Pattern {found.pattern.name} has starts with more than {MATCH_CAP:,} matches, which must be enumerated, "
            f"because {why}.",
            hint="Use a shorter window or stricter conditions; chains of ->> with independent steps have no limit.",
        )
    parts, counts = np.unique(found.raw.partition[~found.raw.timed_out], return_counts=True)
    assert found.batch.order is not None
    yield from zip(found.batch.order[found.offsets[parts]].tolist(), counts.tolist(), strict=True)


def _shown(value: object) -> object:
    """A key as a hashable value."""
    return value if not isinstance(value, (list, dict)) else repr(value)


def _counted(bytecode: CompiledPattern, chain: CountablePattern, rows: EventBatch) -> Iterator[tuple[int, int]]:
    """Yield a row of each partition, and the number of its matches."""
    route, chosen = bytecode.pattern.route, None
    if chain.variable is not None:
        path = bytecode.columns[chain.variable].expr
        assert isinstance(path, Ref)
        column = field_inside(rows.columns[path.parts[0]], path.parts[1:])
        is_present = (
            [v.plain(x) is not None for x in column] if isinstance(column, list) else np.asarray(column.is_valid())
        )
        chosen = np.flatnonzero(is_present)
        # Partition by the unified column too, because each of its values is counted separately.
        rows = replace(rows, keys={route: {**rows.keys[route], "\0value": column}})
    order, offsets, _, _ = sort_partitions(rows, route, chosen)
    batch = OrderedEvents(
        rows.time[order],
        rows.type_codes[order],
        rows.type_names,
        rows.columns,
        order,
        rows.relations,
        rows.predicate_masks,
        rows.computed_columns,
    )
    arrays = kernel_arrays(bytecode, batch, *make_space(bytecode))
    counts = count_matches(chain, arrays, np.ascontiguousarray(offsets, np.int64), arrays.tables)
    for first, count in zip(offsets[:-1].tolist(), counts, strict=True):
        yield int(order[first]), count
