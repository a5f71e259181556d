"""How the joins engine is asked in its contract: subscriptions, documents, and shares that live from call to call."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.contract import Clock, Rows, Step
from perseid.engines.joins.engine import FILE, JOINS
from perseid.engines.joins.plan import FOUND, JoinsPlan, make_plan
from perseid.engines.joins.shard import _SHARDS
from perseid.engines.joins.table import listed
from perseid.engines.trees.engine import BODY, STREAM
from perseid.lang.subscriptions import print_subscription
from perseid.semantics.joins import Document, notifications
from tests.semantics.join_documents import random_documents, random_subscriptions, xml

COLUMNS = pa.schema([("n", pa.int64()), ("stream", pa.string())])
Told = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Question:
    """Subscriptions as texts, and documents."""

    texts: Mapping[str, str]
    documents: tuple[Document, ...]

    @property
    def due(self) -> set[tuple[str, int, int]]:
        """As the oracle has it: who, and the two documents."""
        from perseid.lang.xscl import parse_subscription

        given = {name: parse_subscription(text) for name, text in self.texts.items()}
        return {(one.subscription, one.left, one.right) for one in notifications(given, self.documents)}


def ask(seed: int) -> Question:
    chance = random.Random(seed)
    given = random_subscriptions(chance, 8)
    return Question({name: print_subscription(one) for name, one in given.items()}, tuple(random_documents(chance)))


def plan_of(question: Question, **settings: Any) -> JoinsPlan:
    settings = {"expand": True, **settings}
    return make_plan(settings.pop("table", None) or listed(question.texts), COLUMNS, **settings)


def rows_of(plan: JoinsPlan, documents: Sequence[Document], share: int = 0, files: Sequence[str] = ()) -> Rows:
    """Documents as they come out of ``prepare``, and files that are news."""
    bodies = pa.array([xml(one.root).encode() for one in documents], pa.binary())
    streams = pa.array([one.stream for one in documents], pa.string())
    pieces = list(JOINS.prepare(plan, {BODY: bodies, STREAM: streams}))  # type: ignore[misc]
    assert not any(piece.bad for piece in pieces)
    at = np.concatenate([np.zeros(0, np.int64), *(piece.rows for piece in pieces)])
    there = [documents[i] for i in at.tolist()]
    many = len(there) + len(files)
    columns = {}
    for name, kind in FOUND.items():
        parts = [piece.columns[name] for piece in pieces]
        columns[name] = pa.concat_arrays([*parts, pa.nulls(len(files), kind)]) if many else pa.array([], kind)
    none = [None] * len(files)
    columns["n"] = pa.array([*(one.id for one in there), *none], pa.int64())
    columns["stream"] = pa.array([*(one.stream for one in there), *none], pa.string())
    columns[FILE] = pa.array([*(None for _ in there), *files], pa.string())
    return Rows(
        time=np.array([*(one.time for one in there), *(0 for _ in files)], np.int64),
        kinds=np.zeros(many, np.int32),
        kind_names=["document"],
        columns=columns,
        keys={},
        identity=np.array([*(one.id for one in there), *(0 for _ in files)], np.int64),
        control=np.array([0] * len(there) + [4] * len(files), np.int8),
        share=share,
    )


def told_in(step: Step) -> Told:
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
    last: dict[int, Step] = field(default_factory=dict)

    def call(self, documents: Sequence[Document], clock: Clock, files: Sequence[str] = ()) -> None:
        for share in range(self.plan.shards):
            if self.forgetful:
                _SHARDS.clear()
            rows = rows_of(self.plan, documents, share, files)
            step = JOINS.stepped(self.plan, rows, self.states.get(share), clock)
            self.states[share] = step.state
            self.last[share] = step
            self.told += told_in(step)


def whole(question: Question, **settings: Any) -> Running:
    """All at once."""
    running = Running(plan_of(question, **settings))
    running.call(question.documents, Clock(ended=True))
    return running


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
