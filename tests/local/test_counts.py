"""Counting without enumerating gives what enumerating gives."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import perseid as ps
from perseid.local.rows import Events, read_events
from perseid.semantics.detection import detect, oracle_matcher

CHAINS = (
    "match A a ->> B b within 5 seconds partition by k",
    "match A a ->> B b ->> C c within 4 seconds",
    "match A a ->> B b ->> A c within forever partition by k",
    "match A a ->> B b [v > 1] ->> B c [v < 3] within 6 seconds",
    "match A a ->> B+ b combinations ->> C c within 4 seconds",
    "match A+ a combinations ->> B b within 3 seconds",
    "match A+ a combinations within 4 seconds",
    "match A a ->> B+ b combinations within 5 seconds",
    "match A(v as x) a ->> B(v as x) b ->> C(v as x) c within 6 seconds partition by k",
    "match A a within 5 seconds",
)
OTHERS = ("match A a -> B b within 5 seconds", "match A a ->> B b [v > a.v] within 5 seconds partition by k")


def _rows(seed: int, count: int = 14) -> list[dict[str, Any]]:
    random = Random(seed)
    time, rows = 0, []
    for i in range(count):
        time += random.choice((0, 1, 1, 2))
        value = None if random.random() < 0.1 else random.randrange(4)
        rows.append({"ts": time, "type": random.choice("ABC"), "v": value, "k": random.randrange(2), "n": i})
    return rows


@pytest.mark.parametrize("text", CHAINS + OTHERS)
def test_counts_equal_the_oracle(text: str) -> None:
    pattern = ps.pattern("pattern p\n" + text)
    plan = pattern.plan()
    for seed in range(25):
        rows = _rows(seed)
        stream = Events(rows, id=("n",))
        wanted = detect([plan.patterns[0].pattern], read_events(stream), oracle_matcher())
        (counts,) = pattern.count(stream)
        assert counts.total == len(wanted.matches), (text, seed)
        assert (counts.enumerated is None) is (text in CHAINS)
        by_key: dict[tuple[object, ...], int] = {}
        for match in wanted.matches:
            by_key[tuple(match.key.values())] = by_key.get(tuple(match.key.values()), 0) + 1
        assert dict(counts.by_key) == by_key


def test_more_matches_than_any_memory_holds() -> None:
    rows = [{"ts": 0, "type": "A"}, *({"ts": i, "type": "B"} for i in range(1, 301)), {"ts": 400, "type": "C"}]
    (counts,) = ps.pattern("pattern p match A a ->> B+ b combinations ->> C c within forever").count(rows)
    assert counts.total == 2**300 - 1
    (pairs,) = ps.pattern("pattern p match A a ->> B b ->> B c ->> B d within 200 seconds").count(rows)
    assert pairs.total == 200 * 199 * 198 // 6
