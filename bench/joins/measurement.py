"""Times of the join alone, by method: ours with each kind of views, Sequential, and SQL per template on DuckDB.

Documents come in parts of ``PART`` documents. A repetition is one part, or the first documents of a part that takes too
long. Loading documents (the dictionary of texts and the arrays of the state) is outside all times, as in the paper.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.joins.sequential import list_rows, sequential
from bench.joins.sql_templates import PAIRS, VARIANTS, SqlTemplates
from perseid.engines.joins import layout as y
from perseid.engines.joins.graph import ENDLESS
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import ChainBindings, Joiner

VIEWS = {"no views": y.NO_VIEWS, "shared views": y.SHARED, "cached views": y.CACHED}
SEQUENTIAL, SQL, SQL_BATCHES = "Sequential", "SQL per template", "SQL, batches"
METHODS = (*VIEWS, SEQUENTIAL, SQL, SQL_BATCHES)
PART = 200
"""Documents of one call of ours, of one repetition, and of one batch in SQL."""
REPETITIONS = 5
"""Parts that are timed: 1,000 documents."""
SEQUENTIAL_LIMIT_S = 15.0
"""Seconds for 1,000 documents above which fewer are timed."""
STATEMENTS_LIMIT_S = 20.0
"""Seconds for the statements of one batch above which there is no time."""
COMPARISON_LIMIT_S = 3.0
"""The same limit in the comparison of SQL variants."""

Part = tuple[Any, ChainBindings]


@dataclass
class Timing:
    """Seconds per document of each repetition, and how many documents were timed in all."""

    repetitions: list[float] = field(default_factory=list)
    documents: int = 0

    def add(self, seconds: float, documents: int) -> None:
        self.repetitions.append(seconds / documents)
        self.documents += documents

    @property
    def median(self) -> float:
        return statistics.median(self.repetitions)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile; the extremes of fewer than four repetitions."""
        if len(self.repetitions) < 4:
            return min(self.repetitions), max(self.repetitions)
        first, _, third = statistics.quantiles(self.repetitions, n=4, method="inclusive")
        return first, third


class LoadTimingJoiner(Joiner):
    """A joiner that measures the time to load documents."""

    load_s = 0.0

    def append(self, times: Any, given: ChainBindings) -> None:
        start = time.perf_counter()
        super().append(times, given)
        self.load_s += time.perf_counter() - start


@dataclass(frozen=True)
class Joined:
    """Ours over parts: the join and loading by part in seconds, and the notifications of each document."""

    join_s: list[float]
    load_s: list[float]
    due: Any


def join_parts(subscriptions: Subscriptions, views: int, parts: Sequence[Part]) -> Joined:
    """Join parts from an empty state."""
    joiner = LoadTimingJoiner(subscriptions, views)
    joiner.index = subscriptions.compiled()
    taken, loading, due = [], [], []
    for times, bindings in parts:
        before, first = joiner.load_s, joiner.count
        start = time.perf_counter()
        rows = joiner.add(times, bindings).rows
        whole = time.perf_counter() - start
        loading.append(joiner.load_s - before)
        taken.append(whole - loading[-1])
        due.append(np.bincount(rows[:, y.O_NEWER] - first, rows[:, y.O_COUNT], minlength=len(times)))
    return Joined(taken, loading, np.concatenate(due).astype(np.int64))


def time_sequential(
    subscriptions: Subscriptions, before: Sequence[Part], timed: Sequence[Part], due: Any, limit_s: float
) -> Timing:
    """Time one query after another over the first documents of each part; ``due`` are the expected notifications."""
    joiner = Joiner(subscriptions, y.CACHED, view_bytes=1 << 34)
    index = joiner.index = subscriptions.compiled()
    rows = [row for _, row in subscriptions.numbers]
    numbers = {template: i for i, template in enumerate(subscriptions.templates)}
    of = np.array([numbers[row.template] for row in rows], np.int64)
    paths = np.zeros((len(rows), 2 * max(len(row.edge_chains) for row in rows)), np.int64)
    for i, row in enumerate(rows):
        for e, asked in enumerate(row.edge_chains):
            assert asked.older is not None
            assert asked.newer is not None
            paths[i, 2 * e : 2 * e + 2] = subscriptions.chain(asked.older), subscriptions.chain(asked.newer)
    windows = np.full(len(rows), ENDLESS)

    def run(first: int, last: int, queries: int) -> tuple[float, int]:
        start = time.perf_counter()
        found = sequential(index, store, room, of, paths, windows, first, last, queries)
        return time.perf_counter() - start, found

    for times, bindings in before:
        joiner.append(times, bindings)
    store, room = joiner.store(), joiner.allocate_buffers()
    run(0, joiner.count, 0)  # without queries: documents enter the state
    timing, many, base = Timing(), PART, joiner.count
    for times, bindings in timed:
        first = joiner.count
        joiner.append(times, bindings)
        store, room = joiner.store(), joiner.allocate_buffers()
        list_rows(store, room, len(joiner.heads))
        seconds, found = run(first, first + 2, len(rows))
        if first == base:  # the first documents show the cost
            many = max(2, min(PART, int(limit_s / len(timed) / max(seconds / 2, 1e-9))) // 2 * 2)
        last = min(first + many, joiner.count)
        more_s, more = run(first + 2, last, len(rows))
        seconds, found = seconds + more_s, found + more
        expected = int(due[first - base : last - base].sum())
        if found != expected:
            raise AssertionError(f"Sequential found {found} notifications, not {expected}")
        timing.add(seconds, last - first)
        run(last, joiner.count, 0)
    return timing


@dataclass(frozen=True)
class SqlChoice:
    """The variant of SQL for single documents and the one for batches, each with or without indexes."""

    single: tuple[str, bool] = (PAIRS, False)
    batches: tuple[str, bool] = (PAIRS, False)


def open_sql(
    subscriptions: Subscriptions, variant: tuple[str, bool], before: Sequence[Part], timed: Sequence[Part]
) -> tuple[SqlTemplates, int]:
    """Open the baseline with all documents before the timed ones in its state; also return the number of the first
    timed one."""
    sql = SqlTemplates(subscriptions, *variant)
    sql.stage(*concatenate([*before, *timed]))
    base = sum(len(times) for times, _ in before)
    sql.retain(0, base)
    return sql, base


def concatenate(parts: Sequence[Part]) -> tuple[int, ChainBindings]:
    """Parts as one: how many documents, and their bindings."""
    documents, at, count, nodes = [], [], 0, 0
    for times, bindings in parts:
        documents.append(np.asarray(bindings.documents) + count)
        at.append(np.asarray(bindings.at) + nodes)
        count += len(times)
        nodes += len(bindings.nodes)
    return count, ChainBindings(
        np.concatenate(documents),
        np.concatenate([np.asarray(bindings.chains) for _, bindings in parts]),
        [text for _, bindings in parts for text in bindings.texts],
        np.concatenate(at),
        np.concatenate([np.asarray(bindings.nodes) for _, bindings in parts]),
    )


def time_sql(
    subscriptions: Subscriptions,
    choice: SqlChoice,
    before: Sequence[Part],
    timed: Sequence[Part],
    due: Any,
    budget_s: float,
    least: int,
) -> dict[str, Timing | None]:
    """Time SQL per template by single documents and in batches; None where one took longer than ``STATEMENTS_LIMIT_S``.

    Each has up to ``REPETITIONS`` repetitions in ``budget_s`` seconds, and at least ``least``, regardless of their
    time.
    """
    found: dict[str, Timing | None] = {}
    for name, variant, batch in ((SQL, choice.single, 1), (SQL_BATCHES, choice.batches, PART)):
        sql, base = open_sql(subscriptions, variant, before, timed)
        try:
            found[name] = _time_batches(sql, base, batch, due, budget_s, STATEMENTS_LIMIT_S, least)
        except TimeoutError:
            found[name] = None
        finally:
            sql.close()
    return found


def _time_batches(
    sql: SqlTemplates, base: int, batch: int, due: Any, budget_s: float, limit_s: float, least: int = 1
) -> Timing:
    timing, warm_up = Timing(), max(batch, 2)

    def run(first: int, documents: int) -> float:
        taken = 0.0
        for begin in range(first, first + documents, batch):
            seconds, found = sql.join(base + begin, base + begin + batch, limit_s)
            taken += seconds
            expected = int(due[begin : begin + batch].sum())
            if found != expected:
                raise AssertionError(f"SQL found {found} notifications, not {expected}")
        return taken

    cost = run(0, warm_up) / warm_up
    whole = max(batch, 2)  # pairs of documents stay together
    many = max(whole, min(PART, int(budget_s / REPETITIONS / cost)) // whole * whole)
    affordable = int(budget_s / (many * cost))
    repetitions = min(REPETITIONS, max(affordable, least))
    at = warm_up
    for _ in range(repetitions):
        if at + many > len(due):
            sql.reset(base)
            at = 0
        timing.add(run(at, many), many)
        at += many
    return timing


def compare_sql_variants(
    subscriptions: Subscriptions, before: Sequence[Part], timed: Sequence[Part], due: Any
) -> Iterator[tuple[int, tuple[str, bool], float | None]]:
    """Each variant of SQL: documents of a batch, the variant, and seconds per document or None above the limit."""
    for variant in (*((name, False) for name in VARIANTS), (PAIRS, True)):
        for batch in (1, PART):
            sql, base = open_sql(subscriptions, variant, before, timed)
            try:
                yield batch, variant, _time_batches(sql, base, batch, due, 0.0, COMPARISON_LIMIT_S).median
            except TimeoutError:
                yield batch, variant, None
            finally:
                sql.close()
