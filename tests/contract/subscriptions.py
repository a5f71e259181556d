"""How the joins engine is asked in its contract: subscriptions, documents, and shares that live from call to call."""

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
Told = Counter[tuple[Any, ...]]
_READ = lru_cache(maxsize=1 << 14)(subscription_groups.parse_normal_form)


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is parsed once however many shares and restarts there are: else these tests do little but parse."""
    monkeypatch.setattr(subscription_groups, "parse_normal_form", _READ)


@dataclass(frozen=True)
class Question:
    """Subscriptions as texts, and documents."""

    texts: Mapping[str, str]
    documents: tuple[Document, ...]

    @property
    def due(self) -> set[tuple[str, int, int]]:
        """As the oracle has it: who, and the two documents."""
        return set(self.due_counts)

    @property
    def due_counts(self) -> Counter[tuple[str, int, int]]:
        """How many notifications of the oracle each owner has of each pair of documents."""
        given = {name: parse_subscription(text) for name, text in self.texts.items()}
        return Counter((one.subscription, one.left, one.right) for one in notifications(given, self.documents))


def ask(seed: int) -> Question:
    chance = random.Random(seed)
    given = random_subscriptions(chance, 8)
    return Question({name: print_subscription(one) for name, one in given.items()}, tuple(random_documents(chance)))


def plan_of(question: Question | None = None, **settings: Any) -> JoinsPlan:
    """For a question, or for a ``table``."""
    settings = {"expand": True, **settings}
    given = settings.pop("table", None) if question is None else question.texts
    return make_plan(given, COLUMNS, **settings)


def rows_of(plan: JoinsPlan, documents: Sequence[Document], share: int = 0, files: Sequence[str] = ()) -> EventBatch:
    """Documents as they come out of ``prepare``, and files that are news."""
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


def told_in(step: StepResult) -> Told:
    rows = step.rows.to_pylist()
    if "subscriptions" in step.rows.column_names:
        return Counter((who, r["left"]["n"], r["right"]["n"]) for r in rows for who in r["subscriptions"])
    return Counter((r["subscription"], r["left"]["n"], r["right"]["n"], tuple(sorted(r["values"]))) for r in rows)


@dataclass
class Running:
    """Shares of a query that runs, in one process or, with ``forgetful``, in a new one each time."""

    plan: JoinsPlan
    forgetful: bool = False
    states: dict[int, bytes | None] = field(default_factory=dict)
    told: Told = field(default_factory=Counter)
    last: dict[int, StepResult] = field(default_factory=dict)
    history: list[Told] = field(default_factory=list)
    """What was told in each call."""

    def call(self, documents: Sequence[Document], watermark: Watermark, files: Sequence[str] = ()) -> None:
        self.give(rows_of(self.plan, documents, files=files), watermark)

    def give(self, rows: EventBatch, watermark: Watermark) -> None:
        told: Told = Counter()
        for share in range(self.plan.shards):
            if self.forgetful:
                _SHARDS.pop((self.plan, share), None)
            step = JOINS.run_step(self.plan, replace(rows, query_partition=share), self.states.get(share), watermark)
            self.states[share] = step.state
            self.last[share] = step
            told += told_in(step)
        self.told += told
        self.history.append(told)


def whole(question: Question, **settings: Any) -> Running:
    """All at once."""
    running = Running(plan_of(question, **settings))
    running.call(question.documents, Watermark(ended=True))
    return running


def answers(seeds: Sequence[int]) -> list[list[str]]:
    """The rows of some questions, so that another process can print them."""
    return [[repr(row) for row in all_rows(whole(ask(seed)))] for seed in seeds]


def all_rows(running: Running) -> list[object]:
    return [row for step in running.last.values() for row in step.rows.to_pylist()]


def in_order(documents: Sequence[Document]) -> list[Document]:
    return sorted(documents, key=lambda one: (one.time, one.id))


def arrivals(question: Question, seed: int) -> list[tuple[list[Document], int | None]]:
    """Documents in calls, out of order, with a watermark that none is behind of."""
    chance = random.Random(seed)
    left = in_order(question.documents)
    calls: list[tuple[list[Document], int | None]] = []
    now: int | None = None
    while left:
        taken = [left.pop(chance.randrange(min(3, len(left)))) for _ in range(chance.randrange(min(4, len(left) + 1)))]
        calls.append((taken, now))
        if chance.random() < 0.8:
            oldest = min((one.time for one in left), default=10**9)
            now = max(now or 0, oldest - 1) if oldest else now
    return [*calls, ([], 10**9)]


def moved(question: Question, by: int) -> Question:
    """The same at other times: none at 0."""
    return replace(question, documents=tuple(replace(one, time=one.time + by) for one in question.documents))


# Subscriptions that come and go


@dataclass(frozen=True)
class Call:
    """What comes together."""

    files: tuple[Mapping[str, str | None], ...]
    """Files that are written before it; those without a text go."""
    heard: int
    """How many of all files written so far it was told of: readers may see one before that."""
    documents: tuple[Document, ...]
    now: int | None


@dataclass(frozen=True)
class Life:
    """A folder of subscriptions and a stream of documents, call by call."""

    calls: tuple[Call, ...]
    order: str
    pairs: Mapping[str, set[tuple[int, int]]]
    """By text, from the oracle: all documents that it is about, whenever they came."""

    def due(self) -> list[set[tuple[str, int, int]]]:
        """By call: a pair is due to a text that stands when it is told, if both came with its file or later."""
        came = {one.id: c for c, call in enumerate(self.calls) for one in call.documents}
        documents = in_order([one for call in self.calls for one in call.documents])
        told: dict[int, int] = {}
        for one in documents:
            passed = (c for c, call in enumerate(self.calls) if call.now is not None and call.now >= one.time)
            told[one.id] = came[one.id] if self.order == ARRIVAL else next(passed)
        found: list[set[tuple[str, int, int]]] = [set() for _ in self.calls]
        for name, text, begin, end in self._tenures():
            for left, right in self.pairs[text]:
                when = max(told[left], told[right])
                if min(came[left], came[right]) >= begin and when < end:
                    found[when].add((name, left, right))
        return found

    def _tenures(self) -> Iterator[tuple[str, str, int, int]]:
        """Every text that stood: whose, what, from which call on, and in which no more."""
        files = [one for call in self.calls for one in call.files]
        standing: dict[str, tuple[str, int]] = {}
        heard = 0
        for c, call in enumerate(self.calls):
            for one in files[heard : call.heard]:
                for name, text in one.items():
                    if name in standing:
                        yield name, *standing.pop(name), c
                    if text is not None:
                        standing[name] = text, c
            heard = call.heard
        yield from ((name, *since, len(self.calls)) for name, since in standing.items())

    def run(self, folder: str, ways: Sequence[tuple[int, bool]]) -> list[Running]:
        """The same by the engine, with so many shares each, forgetful or not."""
        runs = [
            Running(plan_of(table=folder, shards=shares, order=self.order), forgetful) for shares, forgetful in ways
        ]
        names: list[str] = []
        heard = 0
        for call in self.calls:
            names += [append(folder, listed(one)) for one in call.files]
            rows = rows_of(runs[0].plan, call.documents, files=names[heard : call.heard])
            for running in runs:
                running.give(rows, Watermark(None, call.now, False))
                assert not any(len(step.late) for step in running.last.values())
            heard = call.heard
        return runs


def live(seed: int, order: str) -> Life:
    chance = random.Random(seed)
    given = [*random_documents(chance), *(replace(one, time=one.time + 3_000_000) for one in random_documents(chance))]
    numbered = [replace(one, id=i, time=one.time + 1_000_000) for i, one in enumerate(in_order(given))]
    asked = random_subscriptions(chance, 16)
    pairs: dict[str, set[tuple[int, int]]] = {}
    for name, one in asked.items():
        found = notifications({name: one}, numbered)
        if found or chance.random() < 0.2:
            pairs[print_subscription(one)] = {(told.left, told.right) for told in found}
    texts = list(pairs)
    arriving = arrivals(Question({}, tuple(numbered)), seed)
    if order == ARRIVAL:
        waiting = iter(numbered)
        arriving = [([next(waiting) for _ in documents], None) for documents, _ in arriving]
    calls: list[Call] = []
    written = heard = 0
    for documents, now in arriving:
        files = [_file(chance, texts) for _ in range(chance.choice([0, 0, 0, 1, 1, 2] if calls else [0, 1, 2]))]
        written += len(files)
        heard = chance.choice([written, written, heard])
        calls.append(Call(tuple(files), heard, tuple(documents), now))
    return Life(tuple(calls), order, pairs)


def _file(chance: random.Random, texts: Sequence[str]) -> dict[str, str | None]:
    names = chance.sample("abcdefgh", chance.randrange(1, 4))
    return {name: chance.choice(texts) if texts and chance.random() < 0.75 else None for name in names}
