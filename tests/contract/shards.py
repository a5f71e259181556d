"""Test shards of engines that retract matches, and of engines that accept punctuations."""

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
from tests.contract.inputs import PatternWorkload, Row, inputs_of, result_rows
from tests.contract.streams import SECOND, Data, Shard, StreamCall, calls_of, key_of, times_of

Change = tuple[str, int, int | None, Row]
"""Operation, revision and horizon of a match."""


def shard_of(engine: Engine, workload: PatternWorkload, *args: Any, **options: Any) -> Shard:
    """Return a test shard for an engine with any type of output."""
    others = PunctuatedShard if inputs_of(engine).takes_punctuations else Shard
    kind = ChangelogShard if engine.capabilities.retracts else others
    return kind(engine, workload, *args, **options)


def supports(engine: Engine, workload: PatternWorkload) -> bool:
    """Return false if the engine rejects the patterns of the workload."""
    try:
        engine.plan(workload.plan, inputs_of(engine).types(workload))
    except UnsupportedError:
        return False
    return True


@dataclass
class ChangelogShard(Shard):
    """Shard with a changelog as output, and the current matches."""

    current: Counter[Row] = field(default_factory=Counter)
    revisions: dict[tuple[object, ...], int] = field(default_factory=dict)
    horizon: int | None = None
    changes: list[Change] = field(default_factory=list)
    """All changes so far."""

    def _read_output(self, step: StepResult, fresh: Data, now: int | None, ended: bool) -> list[Row]:
        times = [*times_of(self.engine, self.workload, fresh), *([] if now is None else [now])]
        self.horizon = max([*times, *([] if self.horizon is None else [self.horizon])], default=None)
        out = list(self._read(step))
        assert ended or all(horizon == self.horizon for _, _, horizon, _ in out)
        emitted, retracted = self.apply_changes(out)
        assert step.counters["retracted"] == len(retracted)
        return emitted

    def apply_changes(self, out: Iterable[Change]) -> tuple[list[Row], list[Row]]:
        """Apply changes: an inserted match must be absent, a retracted match must be present."""
        lists: dict[str, list[Row]] = {"+": [], "-": []}
        for op, revision, horizon, row in out:
            name = row[:3]
            assert revision > self.revisions.get(name, 0), "changes of a match are in order"
            self.revisions[name] = revision
            self.changes.append((op, revision, horizon, row))
            lists[op].append(row)
        for row in lists["-"]:
            assert self.current[row] == 1, f"retracted and never emitted: {row}"
            self.current[row] -= 1
        for row in lists["+"]:
            assert self.current[row] == 0, f"emitted twice: {row}"
            self.current[row] += 1
        return lists["+"], lists["-"]

    def _read(self, step: StepResult) -> Iterator[Change]:
        for i, out in enumerate(step.rows.to_pylist()):
            (row,) = result_rows(replace(step, rows=step.rows.slice(i, 1)), self.workload)
            horizon = None if out["horizon"] is None else (out["horizon"] - v.EPOCH) // dt.timedelta(microseconds=1)
            yield out["op"], out["revision"], horizon, row

    @property
    def rows(self) -> list[Row]:
        return sorted(self.current.elements(), key=repr)


@dataclass
class PunctuatedShard(Shard):
    """Shard that accepts punctuations: rows with ``promise``, of a type, or of all types with ``any_type``."""

    def step(self, data: Data, watermark: Watermark) -> StepResult:
        rows = self.inputs.rows(self.workload, data)
        kinds = rows.type_codes.copy()
        kinds[[i for i, row in enumerate(data) if row.get("any_type")]] = -1
        control = np.array([row.get("promise", 0) for row in data], np.int8)
        return self.engine.step(self.plan, replace(rows, type_codes=kinds, control=control), self.state, watermark)

    def _advance(self, data: Data, now: int | None, step: StepResult, ended: bool = False) -> StepResult:
        events = [i for i, row in enumerate(data) if "promise" not in row]
        assert step.counters["control_rows"] == len(data) - len(events)
        places = {row: i for i, row in enumerate(events)}
        renumbered = replace(step, late=[places[int(i)] for i in step.late])
        super()._advance([data[i] for i in events], now, renumbered, ended)
        return step


OF_KEY, OF_ALL = 1, 2
"""Scope of a punctuation."""


def with_punctuations(
    engine: Engine, workload: PatternWorkload, calls: Sequence[StreamCall], chance: random.Random
) -> list[StreamCall]:
    """Add valid punctuations between calls: of a type or of all types, of a key or of all keys."""
    out: list[StreamCall] = []
    for n, call in enumerate(calls):
        data: list[Mapping[str, Any]] = list(call.data)
        to_come = [row for later in calls[n + 1 :] for row in later.data]
        for _ in range(chance.randrange(4)):
            like = dict(chance.choice(workload.data))
            every_type, every_key = chance.random() < 0.4, chance.random() < 0.6
            about = [
                row
                for row in to_come
                if (every_type or row["type"] == like["type"])
                and (every_key or key_of(workload, row) == key_of(workload, like))
            ]
            newest = max(times_of(engine, workload, workload.data)) + SECOND
            upto = min(times_of(engine, workload, about), default=newest + 1) - 1
            like |= {"ts": upto, "promise": OF_ALL if every_key else OF_KEY, "any_type": every_type}
            data.append(like)
        out.append(StreamCall(data, call.now))
    return out


def moments(rows: Data) -> list[Mapping[str, Any]]:
    """Convert times in microseconds, which punctuations have, to datetimes."""
    return [{**row, "ts": v.moment(row["ts"])} if isinstance(row["ts"], int) else row for row in rows]


def arrivals(engine: Engine, workload: PatternWorkload, seed: int, **how: Any) -> list[StreamCall]:
    """Return the data in calls, out of order, with punctuations if the engine accepts them."""
    calls = calls_of(engine, workload, seed, **how)
    if not inputs_of(engine).takes_punctuations:
        return calls
    punctuated = with_punctuations(engine, workload, calls, random.Random(seed))
    return [StreamCall(moments(call.data), call.now) for call in punctuated]
