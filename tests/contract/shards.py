"""Shards of engines that take back what they told, and of engines that are given promises."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perseid.errors import UnsupportedError
from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from tests.contract.inputs import Question, Row, answer, inputs_of
from tests.contract.streams import SECOND, Call, Data, Shard, calls_of, key_of, times_of

Change = tuple[str, int, int | None, Row]
"""What became of a match: in which revision, and up to when that holds."""


def shard_of(engine: Engine, question: Question, *given: Any, **options: Any) -> Shard:
    """A shard of an engine, whatever its rows are."""
    kind = Changing if engine.capabilities.retracts else Promising if inputs_of(engine).promises else Shard
    return kind(engine, question, *given, **options)


def takes(engine: Engine, question: Question) -> bool:
    """Some engines refuse some patterns."""
    try:
        engine.plan(question.plan, inputs_of(engine).types(question))
    except UnsupportedError:
        return False
    return True


@dataclass
class Changing(Shard):
    """A shard whose rows are changes: what stands is what was told and not taken back."""

    stands: Counter[Row] = field(default_factory=Counter)
    revisions: dict[tuple[object, ...], int] = field(default_factory=dict)
    horizon: int | None = None
    changes: list[Change] = field(default_factory=list)
    """All that was said."""

    def _heard(self, step: StepResult, fresh: Data, now: int | None, ended: bool) -> list[Row]:
        times = [*times_of(self.engine, self.question, fresh), *([] if now is None else [now])]
        self.horizon = max([*times, *([] if self.horizon is None else [self.horizon])], default=None)
        said = list(self._read(step))
        assert ended or all(horizon == self.horizon for _, _, horizon, _ in said)
        told, taken_back = self.hear(said)
        assert step.counters["retracted"] == len(taken_back)
        return told

    def hear(self, said: Iterable[Change]) -> tuple[list[Row], list[Row]]:
        """Go on from changes: what is told did not stand, what is taken back did."""
        lists: dict[str, list[Row]] = {"+": [], "-": []}
        for op, revision, horizon, row in said:
            name = row[:3]
            assert revision > self.revisions.get(name, 0), "changes of a match are in order"
            self.revisions[name] = revision
            self.changes.append((op, revision, horizon, row))
            lists[op].append(row)
        for row in lists["-"]:
            assert self.stands[row] == 1, f"taken back and never told: {row}"
            self.stands[row] -= 1
        for row in lists["+"]:
            assert self.stands[row] == 0, f"told twice: {row}"
            self.stands[row] += 1
        return lists["+"], lists["-"]

    def _read(self, step: StepResult) -> Iterator[Change]:
        for i, said in enumerate(step.rows.to_pylist()):
            (row,) = answer(replace(step, rows=step.rows.slice(i, 1)), self.question)
            horizon = None if said["horizon"] is None else (said["horizon"] - v.EPOCH) // dt.timedelta(microseconds=1)
            yield said["op"], said["revision"], horizon, row

    @property
    def rows(self) -> list[Row]:
        return sorted(self.stands.elements(), key=repr)


@dataclass
class Promising(Shard):
    """A shard that is given promises too: rows that say ``promise``, of a type, or of all where they say ``any_type``."""

    def step(self, data: Data, watermark: Watermark) -> StepResult:
        rows = self.inputs.rows(self.question, data)
        kinds = rows.type_codes.copy()
        kinds[[i for i, row in enumerate(data) if row.get("any_type")]] = -1
        control = np.array([row.get("promise", 0) for row in data], np.int8)
        return self.engine.step(self.plan, replace(rows, type_codes=kinds, control=control), self.state, watermark)

    def _gone_on(self, data: Data, now: int | None, step: StepResult, ended: bool = False) -> StepResult:
        events = [i for i, row in enumerate(data) if "promise" not in row]
        assert step.counters["control_rows"] == len(data) - len(events)
        places = {row: i for i, row in enumerate(events)}
        here = replace(step, late=[places[int(i)] for i in step.late])
        super()._gone_on([data[i] for i in events], now, here, ended)
        return step


OF_KEY, OF_ALL = 1, 2
"""What a promise is about."""


def with_promises(engine: Engine, question: Question, calls: Sequence[Call], chance: random.Random) -> list[Call]:
    """The calls with promises in between that are kept: of a type or of all, of a key or of all."""
    out: list[Call] = []
    for n, call in enumerate(calls):
        data: list[Mapping[str, Any]] = list(call.data)
        to_come = [row for later in calls[n + 1 :] for row in later.data]
        for _ in range(chance.randrange(4)):
            like = dict(chance.choice(question.data))
            every_type, every_key = chance.random() < 0.4, chance.random() < 0.6
            about = [
                row
                for row in to_come
                if (every_type or row["type"] == like["type"])
                and (every_key or key_of(question, row) == key_of(question, like))
            ]
            newest = max(times_of(engine, question, question.data)) + SECOND
            upto = min(times_of(engine, question, about), default=newest + 1) - 1
            like |= {"ts": upto, "promise": OF_ALL if every_key else OF_KEY, "any_type": every_type}
            data.append(like)
        out.append(Call(data, call.now))
    return out


def moments(rows: Data) -> list[Mapping[str, Any]]:
    """Promises have their times in microseconds; rows have moments."""
    return [{**row, "ts": v.moment(row["ts"])} if isinstance(row["ts"], int) else row for row in rows]


def arrivals(engine: Engine, question: Question, seed: int, **how: Any) -> list[Call]:
    """The data in calls, out of order, with promises where the engine takes them."""
    calls = calls_of(engine, question, seed, **how)
    if not inputs_of(engine).promises:
        return calls
    given = with_promises(engine, question, calls, random.Random(seed))
    return [Call(moments(call.data), call.now) for call in given]
