"""Safe plans against possible worlds: sequences whose prefix has its own bindings, and what follows from other streams."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.contract import Rows
from perseid.engines.uncertain.automaton import TooManyStates
from perseid.engines.uncertain.plan import ask
from perseid.engines.uncertain.safe import safely
from perseid.engines.uncertain.streams import CHANCE, GIVEN, Known, Stream, Streams
from perseid.lang.parser import parse_pattern
from perseid.semantics.classes import QueryClass
from perseid.semantics.core import CorePattern
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve
from perseid.semantics.worlds import Chain, Possible, answers
from perseid.testing.random_patterns import SECOND

SHAPES = (
    "A(k as x) a{V} -> B(k as x) b{V} -> C c{V}{M}",
    "A(k as x) a{V} -> B(k as x)+ b{M} -> C c{V}",
    "A(k as x) a{V} -> B(k as x) b{V} -> C c{V} -> D d{V}{M}",
    "A(k as x, l as y) a{V} -> B(k as x, l as y) b{V} -> C(k as x) c{V}{M}",
    "A(k as x) a{V} -> A(k as x) a2{V}{M} -> C c{V}{M}",
)
"""{V} may become a condition that chooses, {M} a test."""


class Case:
    """A Safe pattern and a stream for it, from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pattern = self._pattern()
        self.steps = self.chance.randint(3, 4)
        self.rows: list[dict[str, Any]] = []
        self.chains: list[Chain] = []
        self.certain: list[Event] = []
        self.budget = 1
        kinds = sorted({step.kind.name for step in self.pattern.steps})  # type: ignore[union-attr]
        self.streams = Streams(tuple(self._stream(kind) for kind in kinds), SECOND)

    def _pattern(self) -> CorePattern:
        text = self.chance.choice(SHAPES)
        for mark, ways in (("{V}", ("", "", " [v = 1]", " [v <> 2]")), ("{M}", ("", " must (v > 0)"))):
            while mark in text:
                text = text.replace(mark, self.chance.choice(ways), 1)
        by = "partition by g" if self.chance.random() < 0.2 else ""
        return resolve(parse_pattern(f"pattern q match {text} within forever {by} selection successor"))

    def _stream(self, kind: str) -> Stream:
        chance = self.chance
        two = any(name == "y" for step in self.pattern.steps for _, name in step.unify if step.kind.name == kind)  # type: ignore[union-attr]
        of = ("k", "l") if two else ("k",)
        known = chance.choice((Known.INDEPENDENT, Known.INDEPENDENT, Known.LINKED, Known.CERTAIN))
        for k in range(chance.choice((1, 1, 2))):
            key = {"k": k, "l": chance.randint(0, 1) if two else 0, "g": 0}
            if known is Known.CERTAIN:
                self._certain(kind, key)
            elif self.budget * 2**self.steps <= 2_000:
                self.budget *= 2**self.steps
                self._chain(kind, key, known is Known.LINKED)
        return Stream(kind, known, of, () if known is Known.CERTAIN else ("v",))

    def _certain(self, kind: str, key: dict[str, Any]) -> None:
        for second in range(self.steps):
            if self.chance.random() < 0.5:
                value = self.chance.choice((0, 1, 1, 2))
                self.certain.append(Event(kind, second * SECOND, {**key, "v": value}, f"{kind}{key}{second}"))
                self.rows.append({"type": kind, "time": second * SECOND, "v": value, **key})

    def _chain(self, kind: str, key: dict[str, Any], linked: bool) -> None:
        steps = []
        for second in range(self.steps):
            table = []
            for before in (None, 1) if linked else (None,):
                if self.chance.random() < 0.85:
                    share, value = (
                        self.chance.choice((1.0, self.chance.random())),
                        1 if linked else self.chance.choice((1, 1, 2)),
                    )
                    table.append(Possible((("v", value),), share, None if before is None else (("v", before),)))
                    row = {"type": kind, "time": second * SECOND, "v": value, "was": before, "p": share, **key}
                    self.rows.append(row)
            steps.append((second * SECOND, table))
        self.chains.append(Chain(kind, key, steps, linked))

    def table(self) -> Rows:
        kinds = sorted({row["type"] for row in self.rows})
        columns = {name: pa.array([row.get(name) for row in self.rows], pa.int64()) for name in "klgv"}
        columns[GIVEN + "v"] = pa.array([row.get("was") for row in self.rows], pa.int64())
        columns[CHANCE] = pa.array([row.get("p") for row in self.rows], pa.float64())
        time = np.array([row["time"] for row in self.rows], np.int64)
        codes = np.array([kinds.index(row["type"]) for row in self.rows], np.int32)
        return Rows(time, codes, kinds, columns, {}, np.arange(len(self.rows)))


def check(first: int, many: int) -> Counter[str]:
    met: Counter[str] = Counter()
    for seed in range(first, first + many):
        case = Case(seed)
        if not case.rows:
            continue
        asked = ask(case.pattern, case.streams)
        assert asked.classified.kind is QueryClass.SAFE, asked.classified
        try:
            told = safely(asked, case.streams, case.table())
        except TooManyStates:
            met["sampled"] += 1  # intervals of what follows a linked chain, or behind a test
            continue
        groups = [tuple(key[i].as_py() for key in told.keys) for i in range(int(told.group.max()) + 1)]
        keys = [(groups[group], int(step) * SECOND) for group, step in zip(told.group, told.step, strict=True)]
        found = dict(zip(keys, told.probability.tolist(), strict=True))
        due = answers(case.pattern, case.chains, case.certain)
        for key in found.keys() | due.keys():
            expected = due[key].probability if key in due else 0.0
            assert found.get(key, 0.0) == pytest.approx(expected, abs=1e-9), f"seed {seed}, {key}"
        met["exact"] += 1
        met["told"] += bool(due)
    return met


def test_safe_plans_say_what_worlds_do() -> None:
    met = check(0, 120)
    assert met["exact"] > 90
    assert met["told"] >= 20


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(10))
def test_many_safe_plans_say_what_worlds_do(block: int) -> None:
    assert check(1_000_000 + 1_000 * block, 500)["told"] > 60
