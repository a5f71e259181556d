"""Inputs of the joins engine: subscriptions, documents, and shards that run over several calls."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.joins import subscription_groups
from perseid.engines.joins.engine import FILE, JOINS
from perseid.engines.joins.plan import JoinsPlan, make_plan
from perseid.engines.joins.shard import _SHARDS
from perseid.engines.joins.table import append, listed
from perseid.lang.subscriptions import print_subscription
from perseid.lang.xscl import parse_subscription
from perseid.reference.subscriptions import Document, notifications
from perseid.runtime.contract import StepResult
from perseid.runtime.document_columns import BODY, STREAM
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import ARRIVAL, Watermark
from tests.semantics.join_documents import random_documents, random_subscriptions, xml

COLUMNS = pa.schema([("n", pa.int64()), ("stream", pa.string())])
NotificationCounts = Counter[tuple[Any, ...]]
_READ = lru_cache(maxsize=1 << 14)(subscription_groups.parse_normal_form)


@pytest.fixture(autouse=True)
def cache_parsed_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse each text once for all shards and restarts: otherwise these tests mostly parse."""
    monkeypatch.setattr(subscription_groups, "parse_normal_form", _READ)


@dataclass(frozen=True)
class SubscriptionWorkload:
    """Texts of subscriptions, and documents."""

    texts: Mapping[str, str]
    documents: tuple[Document, ...]

    @property
    def expected_pairs(self) -> set[tuple[str, int, int]]:
        """Owner and two documents of each notification of the oracle."""
        return set(self.expected_counts)

    @property
    def expected_counts(self) -> Counter[tuple[str, int, int]]:
        """Number of notifications of the oracle by owner and pair of documents."""
        given = {name: parse_subscription(text) for name, text in self.texts.items()}
        return Counter((one.subscription, one.left, one.right) for one in notifications(given, self.documents))


def draw_workload(seed: int) -> SubscriptionWorkload:
    chance = random.Random(seed)
    given = random_subscriptions(chance, 8)
    return SubscriptionWorkload(
        {name: print_subscription(one) for name, one in given.items()}, tuple(random_documents(chance))
    )


def plan_of(workload: SubscriptionWorkload | None = None, **settings: Any) -> JoinsPlan:
    """Return the plan of a workload, or of a ``table``."""
    settings = {"expand": True, **settings}
    given = settings.pop("table", None) if workload is None else workload.texts
    return make_plan(given, COLUMNS, **settings)


def rows_of(plan: JoinsPlan, documents: Sequence[Document], share: int = 0, files: Sequence[str] = ()) -> EventBatch:
    """Return documents as ``prepare`` outputs them, and control rows of subscription files."""
    written = [xml(one.root) for one in documents]
    bodies = pa.array(written, pa.string()) if plan.texts else pa.array([one.encode() for one in written], pa.binary())
    streams = pa.array([one.stream for one in documents], pa.string())
    pieces = list(JOINS.prepare(plan, {BODY: bodies, STREAM: streams}))  # type: ignore[misc]
    assert not any(piece.bad for piece in pieces)
    at = np.concatenate([np.zeros(0, np.int64), *(piece.rows for piece in pieces)])
    there = [documents[i] for i in at.tolist()]
    many = len(there) + len(files)
    columns = {}
    for name, kind in plan.chain_columns.items():
        parts = [piece.columns[name] for piece in pieces]
        columns[name] = pa.concat_arrays([*parts, pa.nulls(len(files), kind)]) if many else pa.array([], kind)
    none = [None] * len(files)
    columns["n"] = pa.array([*(one.id for one in there), *none], pa.int64())
    columns["stream"] = pa.array([*(one.stream for one in there), *none], pa.string())
    columns[FILE] = pa.array([*(None for _ in there), *files], pa.string())
    return EventBatch(
        time=np.array([*(one.time for one in there), *(0 for _ in files)], np.int64),
        type_codes=np.zeros(many, np.int32),
        type_names=["document"],
        columns=columns,
        keys={},
        identity=np.array([*(one.id for one in there), *(0 for _ in files)], np.int64),
        control=np.array([0] * len(there) + [4] * len(files), np.int8),
        query_partition=share,
    )


def count_notifications(step: StepResult) -> NotificationCounts:
    rows = step.rows.to_pylist()
    if "subscriptions" in step.rows.column_names:
        return Counter((who, r["left"]["n"], r["right"]["n"]) for r in rows for who in r["subscriptions"])
    return Counter((r["subscription"], r["left"]["n"], r["right"]["n"], tuple(sorted(r["values"]))) for r in rows)


@dataclass
class RunningShards:
    """Running shards of a query, in one process, or with ``forgetful`` in a new one for each call."""

    plan: JoinsPlan
    forgetful: bool = False
    states: dict[int, bytes | None] = field(default_factory=dict)
    emitted: NotificationCounts = field(default_factory=Counter)
    last: dict[int, StepResult] = field(default_factory=dict)
    history: list[NotificationCounts] = field(default_factory=list)
    """Notifications of each call."""

    def call(self, documents: Sequence[Document], watermark: Watermark, files: Sequence[str] = ()) -> None:
        self.call_with_rows(rows_of(self.plan, documents, files=files), watermark)

    def call_with_rows(self, rows: EventBatch, watermark: Watermark) -> None:
        emitted: NotificationCounts = Counter()
        for share in range(self.plan.shards):
            if self.forgetful:
                _SHARDS.pop((self.plan, share), None)
            step = JOINS.run_step(self.plan, replace(rows, query_partition=share), self.states.get(share), watermark)
            self.states[share] = step.state
            self.last[share] = step
            emitted += count_notifications(step)
        self.emitted += emitted
        self.history.append(emitted)


def run_all_at_once(workload: SubscriptionWorkload, **settings: Any) -> RunningShards:
    """Run a workload in one call."""
    running = RunningShards(plan_of(workload, **settings))
    running.call(workload.documents, Watermark(ended=True))
    return running


def rows_of_seeds(seeds: Sequence[int]) -> list[list[str]]:
    """Return the rows of some workloads, so that another process can print them."""
    return [[repr(row) for row in all_rows(run_all_at_once(draw_workload(seed)))] for seed in seeds]


def all_rows(running: RunningShards) -> list[object]:
    return [row for step in running.last.values() for row in step.rows.to_pylist()]


def in_order(documents: Sequence[Document]) -> list[Document]:
    return sorted(documents, key=lambda one: (one.time, one.id))


def arrivals(workload: SubscriptionWorkload, seed: int) -> list[tuple[list[Document], int | None]]:
    """Return the documents in calls, out of order, with a watermark that makes none late."""
    chance = random.Random(seed)
    left = in_order(workload.documents)
    calls: list[tuple[list[Document], int | None]] = []
    now: int | None = None
    while left:
        taken = [left.pop(chance.randrange(min(3, len(left)))) for _ in range(chance.randrange(min(4, len(left) + 1)))]
        calls.append((taken, now))
        if chance.random() < 0.8:
            oldest = min((one.time for one in left), default=10**9)
            now = max(now or 0, oldest - 1) if oldest else now
    return [*calls, ([], 10**9)]


def shift_times(workload: SubscriptionWorkload, by: int) -> SubscriptionWorkload:
    """Return the workload with shifted times, so that none is 0."""
    return replace(workload, documents=tuple(replace(one, time=one.time + by) for one in workload.documents))


# Changing subscriptions


@dataclass(frozen=True)
class SubscriptionCall:
    """Files and documents of one call."""

    files: tuple[Mapping[str, str | None], ...]
    """Files written before the call; a null text removes the subscription."""
    announced: int
    """Number of files announced so far, which can be less than the number written: readers may see a file early."""
    documents: tuple[Document, ...]
    now: int | None


@dataclass(frozen=True)
class SubscriptionTimeline:
    """A folder of subscriptions and a stream of documents, in calls."""

    calls: tuple[SubscriptionCall, ...]
    order: str
    pairs: Mapping[str, set[tuple[int, int]]]
    """Pairs of documents by subscription text, from the oracle, for any time of arrival."""

    def expected_pairs(self) -> list[set[tuple[str, int, int]]]:
        """Return the expected pairs of each call, for subscriptions that exist from the first document to the output."""
        arrived = {one.id: c for c, call in enumerate(self.calls) for one in call.documents}
        documents = in_order([one for call in self.calls for one in call.documents])
        final: dict[int, int] = {}
        for one in documents:
            final_calls = (c for c, call in enumerate(self.calls) if call.now is not None and call.now >= one.time)
            final[one.id] = arrived[one.id] if self.order == ARRIVAL else next(final_calls)
        found: list[set[tuple[str, int, int]]] = [set() for _ in self.calls]
        for name, text, begin, end in self._lifetimes():
            for left, right in self.pairs[text]:
                when = max(final[left], final[right])
                if min(arrived[left], arrived[right]) >= begin and when < end:
                    found[when].add((name, left, right))
        return found

    def _lifetimes(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield owner, text, first call and end of every subscription."""
        files = [one for call in self.calls for one in call.files]
        present: dict[str, tuple[str, int]] = {}
        announced = 0
        for c, call in enumerate(self.calls):
            for one in files[announced : call.announced]:
                for name, text in one.items():
                    if name in present:
                        yield name, *present.pop(name), c
                    if text is not None:
                        present[name] = text, c
            announced = call.announced
        yield from ((name, *since, len(self.calls)) for name, since in present.items())

    def run(self, folder: str, ways: Sequence[tuple[int, bool]]) -> list[RunningShards]:
        """Run the engine over the calls for each number of shards, forgetful or not."""
        runs = [
            RunningShards(plan_of(table=folder, shards=shares, order=self.order), forgetful)
            for shares, forgetful in ways
        ]
        names: list[str] = []
        announced = 0
        for call in self.calls:
            names += [append(folder, listed(one)) for one in call.files]
            rows = rows_of(runs[0].plan, call.documents, files=names[announced : call.announced])
            for running in runs:
                running.call_with_rows(rows, Watermark(None, call.now, False))
                assert not any(len(step.late) for step in running.last.values())
            announced = call.announced
        return runs


def draw_timeline(seed: int, order: str) -> SubscriptionTimeline:
    chance = random.Random(seed)
    given = [*random_documents(chance), *(replace(one, time=one.time + 3_000_000) for one in random_documents(chance))]
    numbered = [replace(one, id=i, time=one.time + 1_000_000) for i, one in enumerate(in_order(given))]
    asked = random_subscriptions(chance, 16)
    pairs: dict[str, set[tuple[int, int]]] = {}
    for name, one in asked.items():
        found = notifications({name: one}, numbered)
        if found or chance.random() < 0.2:
            pairs[print_subscription(one)] = {(one.left, one.right) for one in found}
    texts = list(pairs)
    arriving = arrivals(SubscriptionWorkload({}, tuple(numbered)), seed)
    if order == ARRIVAL:
        waiting = iter(numbered)
        arriving = [([next(waiting) for _ in documents], None) for documents, _ in arriving]
    calls: list[SubscriptionCall] = []
    written = announced = 0
    for documents, now in arriving:
        files = [_file(chance, texts) for _ in range(chance.choice([0, 0, 0, 1, 1, 2] if calls else [0, 1, 2]))]
        written += len(files)
        announced = chance.choice([written, written, announced])
        calls.append(SubscriptionCall(tuple(files), announced, tuple(documents), now))
    return SubscriptionTimeline(tuple(calls), order, pairs)


def _file(chance: random.Random, texts: Sequence[str]) -> dict[str, str | None]:
    names = chance.sample("abcdefgh", chance.randrange(1, 4))
    return {name: chance.choice(texts) if texts and chance.random() < 0.75 else None for name in names}
