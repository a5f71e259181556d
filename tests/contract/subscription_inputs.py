"""Cases of the joins engine; the oracle compares every pair of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import pyarrow as pa

from perseid.engines.joins.shard import _SHARDS
from perseid.runtime.contract import StepResult
from tests.contract.cases import SECOND, Case, Inputs, Output
from tests.contract.subscriptions import Question, Told, ask, moved, plan_of, rows_of, told_in


def _told(tables: Sequence[pa.Table]) -> Told:
    told: Told = Counter()
    for table in tables:
        told += told_in(StepResult(table))
    return told


def _read(tables: Sequence[pa.Table]) -> Output:
    return sorted(map(repr, _told(tables).elements()))


def _check(question: Question, tables: Sequence[pa.Table]) -> int:
    """Owners and pairs of documents, each as often as in the oracle."""
    found: Counter[tuple[str, int, int]] = Counter()
    for (owner, left, right, *_), count in _told(tables).items():
        found[owner, left, right] += count
    assert found == question.due_counts
    return sum(found.values())


@lru_cache(64)
def make_case(seed: int) -> Case:
    question = moved(ask(seed), SECOND)
    if seed % 2:  # a window that never closes is among most sets of subscriptions
        question = replace(question, texts={o: t.replace("forever", "5 seconds") for o, t in question.texts.items()})
    plan = plan_of(question, expand=seed % 3 > 0)
    rows = rows_of(plan, question.documents)
    bounded = not any("forever" in text for text in question.texts.values())
    moments = sorted({int(time) + span for time in rows.time for span in range(0, 7 * SECOND, SECOND)})
    moments = sorted({*moments, *(moment + 1 for moment in moments)})
    return Case(plan, rows, _read, partial(_check, question), bounded=bounded, moments=moments)


INPUTS = Inputs(make_case, _SHARDS.clear, seeds=24)
