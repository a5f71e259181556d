"""Cases of the joins engine, with an oracle that compares every pair of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import pyarrow as pa

from perseid.engines.joins.shard import _SHARDS
from perseid.runtime.contract import StepResult
from tests.contract.cases import SECOND, EngineCase, EngineInputs, Output
from tests.contract.subscriptions import (
    NotificationCounts,
    SubscriptionWorkload,
    count_notifications,
    draw_workload,
    plan_of,
    rows_of,
    shift_times,
)


def _count_notifications(tables: Sequence[pa.Table]) -> NotificationCounts:
    emitted: NotificationCounts = Counter()
    for table in tables:
        emitted += count_notifications(StepResult(table))
    return emitted


def _read(tables: Sequence[pa.Table]) -> Output:
    return sorted(map(repr, _count_notifications(tables).elements()))


def _check(workload: SubscriptionWorkload, tables: Sequence[pa.Table]) -> int:
    """Compare owners and pairs of documents, with their counts, with the oracle."""
    found: Counter[tuple[str, int, int]] = Counter()
    for (owner, left, right, *_), count in _count_notifications(tables).items():
        found[owner, left, right] += count
    assert found == workload.expected_counts
    return sum(found.values())


@lru_cache(64)
def make_case(seed: int) -> EngineCase:
    workload = shift_times(draw_workload(seed), SECOND)
    if seed % 2:  # most sets of subscriptions have an unbounded window
        workload = replace(workload, texts={o: t.replace("forever", "5 seconds") for o, t in workload.texts.items()})
    plan = plan_of(workload, expand=seed % 3 > 0)
    rows = rows_of(plan, workload.documents)
    bounded = not any("forever" in text for text in workload.texts.values())
    moments = sorted({int(time) + span for time in rows.time for span in range(0, 7 * SECOND, SECOND)})
    moments = sorted({*moments, *(moment + 1 for moment in moments)})
    return EngineCase(plan, rows, _read, partial(_check, workload), bounded=bounded, moments=moments)


INPUTS = EngineInputs(make_case, _SHARDS.clear, seeds=24)
