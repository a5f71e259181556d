"""Safe plans against possible worlds, over all steps and within windows.

The patterns are sequences of a prefix with a shared variable, followed by steps of other streams.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.uncertain.automaton import StateLimitExceeded
from perseid.engines.uncertain.plan import plan_query
from perseid.engines.uncertain.safe import safely
from perseid.engines.uncertain.streams import CHANCE, GIVEN, READING, Inference, Known, Stream, Streams
from perseid.engines.uncertain.traces import gather
from perseid.lang.ast import EventType
from perseid.lang.parser import parse_pattern
from perseid.reference.worlds import Chain, HiddenChain, Possible, group_results
from perseid.runtime.event_batch import EventBatch
from perseid.semantics.classes import Keys, QueryClass, key_constants
from perseid.semantics.core import CorePattern
from perseid.semantics.events import Event
from perseid.semantics.hidden import hidden_markov
from perseid.semantics.resolve import resolve
from tests.generators.random_patterns import SECOND

SHAPES = (
    "A(k as x) a{V} -> B(k as x) b{V} -> C c{V}{M}",
    "A(k as x) a{V} -> B(k as x)+ b{M} -> C c{V}",
    "A(k as x) a{V} -> B(k as x) b{V} -> C c{V} -> D d{V}{M}",
    "A(k as x, l as y) a{V} -> B(k as x, l as y) b{V} -> C(k as x) c{V}{M}",
    "A(k as x) a{V} -> A(k as x) a2{V}{M} -> C c{V}{M}",
    "A(k as x) a [l = 0{W}] -> B(k as x) b{V} -> A c [l = 1{W}]{M}",
    "A(k as x) a [l = 0{W}] -> A(k as x) b [l = 0{W}]{M} -> A c [l in (1, 2){W}]{M}",
    "A(l as y) a [k = 0{W}] -> A(l as y)+ b [0 = k]{M} -> A c [k = 1{W}]",
    "A(k as x, l as y) a [m = 0{W}] -> B(k as x, l as y) b{V} -> A(k as x) c [m = 1{W}]{M}",
    "A(k as x) a [l = 0{W}] -> B(k as x) b{V} -> A c [l = 1{W}] -> A d [l = 2{W}]",
    "(A(k as x) a{V} -> within 2 seconds B(k as x) b{V}) -> C c{V}{M}",
    "A(k as x) a{V} -> (B(k as x) b{V} -> A(k as x) a2{V})* -> C c{V}",
)
"""Placeholders: {V} for a condition in brackets, {W} for another one, {M} for a must condition."""
MODEL = hidden_markov(
    values=[1, 2], initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.3, 0.7]], readings=[[0.8, 0.2], [0.3, 0.7]],
    reading_names=["r", "s"],
)  # fmt: skip


class SafePlanCase:
    """A Safe pattern and a stream for it, from a seed; with ``windows``, the pattern has a window."""

    def __init__(self, seed: int, windows: bool = False) -> None:
        self.chance = random.Random(seed)
        self.windows = windows
        self.steps = self.chance.randint(3, 5 if windows else 4)
        self.pattern = self._pattern()
        self.rows: list[dict[str, Any]] = []
        self.chains: list[Chain] = []
        self.certain: list[Event] = []
        self.worlds = 1
        kinds = sorted({step.kind.name for step in self.pattern.steps})  # type: ignore[union-attr]
        self.streams = Streams(tuple(self._stream(kind) for kind in kinds), SECOND)

    def _pattern(self) -> CorePattern:
        text = self.chance.choice(SHAPES)
        for mark, ways in (
            ("{V}", ("", "", " [v = 1]", " [v <> 2]")),
            ("{W}", ("", " and v = 1", " and v <> 2")),
            ("{M}", ("", " must (v > 0)")),
        ):
            while mark in text:
                text = text.replace(mark, self.chance.choice(ways), 1)
        by = "partition by g" if self.chance.random() < 0.2 else ""
        within = f"{self.chance.randint(2, self.steps - 1)} seconds" if self.windows else "forever"
        return resolve(parse_pattern(f"pattern q match {text} within {within} {by} selection successor"))

    def _stream(self, kind: str) -> Stream:
        chance = self.chance
        of = ("k", *(name for name in "lm" if self._constrains(kind, name)))
        ways = [Known.INDEPENDENT, Known.INDEPENDENT, Known.LINKED, Known.CERTAIN]
        known = chance.choice([*ways, Known.LINKED, Known.READ] if self.windows else ways)
        for key in self._keys(of):
            if known is Known.CERTAIN:
                self._certain(kind, key)
            elif known is Known.READ:
                self._readings(kind, key)
            else:
                self._chain(kind, key, known is Known.LINKED)
        if known is Known.READ:
            key_columns = (
                (*of, "g") if self.pattern.partition else of
            )  # only the key of a chain behind readings is known
            return Stream(kind, known, key_columns, ("v",), MODEL, Inference("filter"), correlations=False)
        return Stream(kind, known, of, () if known is Known.CERTAIN else ("v",))

    def _constrains(self, kind: str, column: str) -> bool:
        """Returns True if steps of a type constrain a column, by a variable or by a constant."""
        steps = [step for step in self.pattern.steps if step.kind == EventType(kind)]
        paths = {path.parts[0] for step in steps for path, _ in step.unify}
        constants = {name for step in steps for name in key_constants(step, Keys(None))}
        return column in paths | constants

    def _keys(self, of: tuple[str, ...]) -> list[dict[str, Any]]:
        """A few keys, all different."""
        if of == ("k",):
            return [{"k": k, "l": 0, "m": 0, "g": 0} for k in range(self.chance.choice((1, 1, 2)))]
        drawn = {tuple(self.chance.randint(0, 1) for _ in of) for _ in range(self.chance.choice((1, 2, 2, 3)))}
        return [{"k": 0, "l": 0, "m": 0, "g": 0} | dict(zip(of, key, strict=True)) for key in sorted(drawn)]

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
                    share, value = self._share(), 1 if linked else self.chance.choice((1, 1, 2))
                    table.append(Possible((("v", value),), share, None if before is None else (("v", before),)))
                    row = {"type": kind, "time": second * SECOND, "v": value, "was": before, "p": share, **key}
                    self.rows.append(row)
            steps.append((second * SECOND, table))
        self.chains.append(Chain(kind, key, steps, linked))

    def _share(self) -> float:
        """A probability, which is 1 once there are many worlds."""
        share = self.chance.choice((1.0, self.chance.random()))
        if share < 1 and self.worlds >= 100:
            return 1.0
        self.worlds *= 2 if share < 1 else 1
        return share

    def _readings(self, kind: str, key: dict[str, Any]) -> None:
        """Adds a chain with the filtered distribution of each step; the filter restarts after a step without a
        reading."""
        known, steps = None, []
        matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
        for second in range(self.steps):
            read = self.chance.choice(["r", "s", "s", None])
            if read is None or self.worlds >= 100:
                known = None
                steps.append((second * SECOND, []))
                continue
            known = np.array([0.5, 0.5]) if known is None else known @ matrix
            known = known * np.array([[0.8, 0.3], [0.2, 0.7]]["rs".index(read)])
            known = known / known.sum()
            self.worlds *= 2
            self.rows.append({"type": kind, "time": second * SECOND, READING: read, **key})
            steps.append((second * SECOND, [Possible((("v", v),), float(known[v - 1])) for v in (1, 2)]))
        self.chains.append(Chain(kind, key, steps))

    def table(self) -> EventBatch:
        kinds = sorted({row["type"] for row in self.rows})
        columns = {name: pa.array([row.get(name) for row in self.rows], pa.int64()) for name in "klmgv"}
        columns[GIVEN + "v"] = pa.array([row.get("was") for row in self.rows], pa.int64())
        columns[CHANCE] = pa.array([row.get("p") for row in self.rows], pa.float64())
        columns[READING] = pa.array([row.get(READING) for row in self.rows], pa.string())
        time = np.array([row["time"] for row in self.rows], np.int64)
        codes = np.array([kinds.index(row["type"]) for row in self.rows], np.int32)
        return EventBatch(time, codes, kinds, columns, {}, np.arange(len(self.rows)))


def check(first: int, many: int, windows: bool = False) -> Counter[str]:
    met: Counter[str] = Counter()
    for seed in range(first, first + many):
        case = SafePlanCase(seed, windows)
        if not case.rows:
            continue
        query = plan_query(case.pattern, case.streams)
        if windows and query.classified.kind is QueryClass.UNSAFE:
            assert "which is not used" in query.classified.why
            met["sampled"] += 1
            continue
        assert query.classified.kind is QueryClass.SAFE, query.classified
        assert (query.window is not None) == windows
        given, _ = gather(case.streams, case.table())
        try:
            probabilities, _ = safely(query, case.streams, given)
        except StateLimitExceeded:
            assert not windows, "what is declared says so"
            met["sampled"] += 1  # intervals of what follows a linked chain, or behind a test
            continue
        groups = [
            tuple(key[i].as_py() for key in probabilities.keys)
            for i in range(int(probabilities.group.max(initial=-1)) + 1)
        ]
        keys = [
            (groups[group], int(step) * SECOND)
            for group, step in zip(probabilities.group, probabilities.step, strict=True)
        ]
        found = dict(zip(keys, probabilities.probability.tolist(), strict=True))
        due = group_results(case.pattern, case.chains, case.certain)
        for key in found.keys() | due.keys():
            expected = due[key].probability if key in due else 0.0
            assert found.get(key, 0.0) == pytest.approx(expected, abs=1e-9), f"seed {seed}, {key}"
        met["exact"] += 1
        met["with matches"] += bool(due)
        kinds = [step.kind for step in case.pattern.steps]
        met["with matches and one type on both sides"] += bool(due) and kinds[-1] in kinds[:-1]
    return met


def test_safe_plans_equal_possible_worlds() -> None:
    met = check(0, 150)
    assert met["exact"] > 110
    assert met["with matches"] >= 20
    assert met["with matches and one type on both sides"] >= 4


def test_safe_plans_with_windows_equal_possible_worlds() -> None:
    met = check(50_000, 100, windows=True)
    assert met["exact"] > 70
    assert met["with matches"] > 20
    assert met["with matches and one type on both sides"] >= 2


@pytest.mark.parametrize("within", ["forever", "8 seconds", "3 seconds"])
def test_steps_without_rows_count_as_missing_readings(within: str) -> None:
    """Readings at 0, 3 and 7: the chain has a step at each second, also without a row of any stream."""
    text = f"pattern q match A(k as x) [v = 1] -> A(k as x) [v = 2] -> C within {within} selection successor"
    pattern = resolve(parse_pattern(text))
    read = Stream("A", Known.READ, ("k",), ("v",), MODEL, Inference("smooth"), patience=2)
    streams = Streams((read, Stream("C", Known.INDEPENDENT, ("k",), ("v",))), SECOND)
    case = SafePlanCase(0)
    case.rows = [{"type": "A", "time": second * SECOND, READING: "r", "k": 0} for second in (0, 3, 7)]
    case.rows += [{"type": "C", "time": second * SECOND, "k": 0, "v": 1, "p": 0.5} for second in (3, 10)]
    query = plan_query(pattern, streams)
    probabilities, _ = safely(query, streams, gather(streams, case.table())[0])
    nothing, seen = (1.0, 1.0), (0.8, 0.3)
    values = [(("v", 1),), (("v", 2),)]
    lives = [[(second * SECOND, seen if second in (0, 3) else nothing) for second in range(6)]]
    lives.append([(second * SECOND, seen if second == 7 else nothing) for second in range(7, 10)])
    chains: list[Chain | HiddenChain] = [
        HiddenChain("A", {"k": 0}, values, [0.5, 0.5], [[0.9, 0.1], [0.3, 0.7]], life, None) for life in lives
    ]
    possible = [Possible((("v", 1),), 0.5)]
    chains.append(Chain("C", {"k": 0}, [(3 * SECOND, possible), (10 * SECOND, possible)]))
    due = {end: one.probability for (_, end), one in group_results(pattern, chains).items()}
    found = {int(at) * SECOND: p for at, p in zip(probabilities.step, probabilities.probability, strict=True) if p > 0}
    assert found == pytest.approx(due)
    assert set(due) == {3 * SECOND, 10 * SECOND}


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(10))
def test_safe_plans_equal_possible_worlds_deep(block: int) -> None:
    assert check(1_000_000 + 1_000 * block, 500)["with matches"] > 60


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(4))
def test_safe_plans_with_windows_equal_possible_worlds_deep(block: int) -> None:
    assert check(3_000_000 + 1_000 * block, 500, windows=True)["with matches"] > 60
