"""Paper 2's laws hold for the existence of matches, and docs/laws.md is up to date."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perseid.semantics.events import Event
from tests.semantics.laws import (
    CLASSES,
    LAWS,
    OPERAND,
    Law,
    composite_cell,
    composites,
    counterexample,
    found,
    pattern_of,
    stream,
    table,
)

PAGE = Path(__file__).parents[2] / "docs" / "laws.md"


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_existence(law: Law) -> None:
    assert counterexample(law, None, sets=False) is None


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_laws_are_tested_with_and_without_matches(law: Law) -> None:
    """A law that never or always has a match would not be tested."""
    pattern = pattern_of(law, law.left)
    assert pattern is not None
    outcomes = {bool(found(pattern, stream(seed, law.framed))) for seed in range(200)}
    assert outcomes == {True, False}


def test_distributing_from_the_left_fails_for_a_sequence() -> None:
    """An alternation waits in the branch that begins first: on A C B it waits for D."""
    law = Law("", "A -> (B | (C -> D))", "(A -> B) | (A -> C -> D)")
    events = [Event(kind, i, {}, f"{kind}{i}", 0, (0, i)) for i, kind in enumerate("ACB", 1)]
    left, right = (pattern_of(law, side) for side in (law.left, law.right))
    assert left is not None
    assert right is not None
    assert (found(left, events), found(right, events)) == (set(), {("A1", "B3")})
    (distributive,) = (one for one in LAWS if one.name == "following distributes over or, from the left")
    assert composite_cell(distributive, CLASSES["sequences"]).startswith("no: ")


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_every_operand_of_a_law_is_replaced(law: Law) -> None:
    made = composites(law, CLASSES["sequences"])
    names = set(OPERAND.findall(f"{law.left} {law.right}"))
    assert len(made) == len(names) + 2
    assert all(one.left != law.left or one.right != law.right for one in made)
    assert {name for name in names if f"({name} -> " in made[-2].left + made[-2].right} == names


def test_within_and_holds_for_are_each_others_negation_except_at_equality() -> None:
    from perseid.lang.parser import parse_pattern
    from perseid.semantics.resolve import resolve

    def pattern(bound: str):
        return resolve(parse_pattern(f"pattern p match A -> B within {bound}"))

    short, long = pattern("3 microseconds"), pattern("forever holds for 3 microseconds")
    for seed in range(200):
        events = [e for e in stream(seed, False) if e.type in "AB"]
        if len(events) == 2 and [e.type for e in events] == ["A", "B"]:
            apart = events[1].time - events[0].time
            assert bool(found(short, events)) == (apart <= 3)
            assert bool(found(long, events)) == (apart >= 3)


@pytest.mark.timeout(900)
def test_page_of_laws_equals_the_oracle() -> None:
    text = table()
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text
