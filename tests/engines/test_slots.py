"""Analysis of slots: which conditions of a pattern bits per event decide, and for which patterns they decide all."""

from __future__ import annotations

import pytest

import perseid as ps
from perseid.engines.disorder.slots import slots_in
from perseid.runtime.registry import engines
from perseid.semantics import types as t

COLUMNS = {"k": t.Integer(), "v": t.Integer()}

CASES = [
    ("A a ->> B b", True, [False, False]),
    ("A a ->> B b [v > 1]", True, [False, False]),
    ("A a ->> B b must (v > 1)", True, [False, False]),
    ("A a -> not C ->> B b", True, [False, True]),
    ("A a -> not C [v > 1] ->> B b ->> D d", True, [False, True, False]),
    ("A a -> not C -> not D ->> B b", True, [False, True]),
    # what follows is known by the search, but says not all
    ("A a -> not C ->> B b [v > a.v]", False, [False, True]),
    ("A a -> not C ->> B b ->> within 5 seconds D d", False, [False, True, False]),
    ("A a -> not C ->> B b -> not D [v > a.v] ->> E e", False, [False, True, False]),
    # nothing of this can be known by bits
    ("A a -> not C [v > a.v] ->> B b", False, [False, False]),
    ("A a -> not C for 2 seconds ->> B b", False, [False, False]),
    ("A a -> not C for 2 seconds -> not D ->> B b", False, [False, False]),
    ("A a ->> B b -> not C", False, [False, False]),
    ("A a ->> (B b -> not C ->> D d within 5 seconds)", False, [False, False, False]),
]


@pytest.mark.parametrize(("match", "plain", "between"), CASES, ids=[case[0] for case in CASES])
def test_slots_of_a_pattern(match: str, plain: bool, between: list[bool]) -> None:
    pattern = ps.pattern(f"pattern p match {match} within 1 minute partition by k")
    engine = engines()["assemble"]
    slots = slots_in(engine.plan(pattern.plan(), COLUMNS).patterns[0])
    assert (slots.plain, [bool(bits) for bits in slots.between]) == (plain, between)
    last = max((i for i, has_bits in enumerate(between) if has_bits), default=-1)
    assert slots.decides == (last if plain else -1)


def test_equal_times_cannot_be_decided_by_bits() -> None:
    pattern = ps.pattern("pattern p match A a -> not C ->> B b within 1 minute partition by k")
    engine = engines()["assemble"]
    (numbered,) = engine.plan(pattern.plan(), COLUMNS, strictly_later=True).patterns
    assert not slots_in(numbered).plain
    assert not any(slots_in(numbered).between)
