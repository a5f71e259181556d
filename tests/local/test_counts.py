"""Counting without enumeration equals counting the enumerated matches."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import perseid as ps
from perseid.engines.sequence.stream import Events, read_events
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.detection import detect

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
    "match A a ->> B b ->> C c where b.v = a.v and c.v = b.v within 6 seconds partition by k",
    "match A a ->> B b ->> C c where b.v = a.v and a.v = c.v within 6 seconds",
    "match A(s.v as x) a ->> B(s.v as x) b within 6 seconds",
)
OTHERS = (
    "match A a -> B b within 5 seconds",
    "match A a ->> B b [v > a.v] within 5 seconds partition by k",
    "match A a ->> B b ->> C c where b.v = a.v and c.k = b.k within 6 seconds",
    "match A a ->> B b where b.s.v = a.s.v within 6 seconds",
    "match A a ->> B b where abs(b.v) = abs(a.v) within 6 seconds",
)


def _rows(seed: int, count: int = 14) -> list[dict[str, Any]]:
    random = Random(seed)
    time, rows = 0, []
    for i in range(count):
        time += random.choice((0, 1, 1, 2))
        value = None if random.random() < 0.1 else random.randrange(4)
        inside = {"v": random.randrange(3), "w": i}
        rows.append(
            {"ts": time, "type": random.choice("ABC"), "v": value, "k": random.randrange(2), "n": i, "s": inside}
        )
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


def test_order_and_duplicates_count() -> None:
    rows = [{"ts": 1, "type": t, "n": n, "o": o} for t, n, o in (("A", 5, 1), ("B", 1, 2), ("B", 1, 2), ("A", 0, 3))]
    pattern = ps.pattern("pattern p match A a ->> B b within 1 second")
    for stream, wanted in (
        (ps.events(rows, id="n", order_by="o"), 2),
        (ps.events(rows, id="n", order_by="o", dedupe=True), 1),
        (ps.events(rows, id="n", dedupe=True), 1),
    ):
        (counts,) = pattern.count(stream)
        assert counts.total == wanted == len(pattern.match(stream))


def test_a_count_that_would_not_be_exact_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.engines.sequence.bytecode.MATCH_CAP", 3)
    rows = [{"ts": i, "type": "B" if i else "A", "v": i} for i in range(9)]
    with pytest.raises(ps.errors.LimitError, match="a condition reads more than its own event"):
        ps.pattern("pattern p match A a ->> B b [v > a.v] within forever").count(rows)


def test_counts_that_cannot_be_enumerated() -> None:
    rows = [{"ts": 0, "type": "A"}, *({"ts": i, "type": "B"} for i in range(1, 301)), {"ts": 400, "type": "C"}]
    (counts,) = ps.pattern("pattern p match A a ->> B+ b combinations ->> C c within forever").count(rows)
    assert counts.total == 2**300 - 1
    (pairs,) = ps.pattern("pattern p match A a ->> B b ->> B c ->> B d within 200 seconds").count(rows)
    assert pairs.total == 200 * 199 * 198 // 6
