"""Plans are data that people read: golden files, input above, plan below."""

from __future__ import annotations

from pathlib import Path

import pytest

from perseid.compile.compiler import compile_set
from perseid.compile.plan_text import plan_text
from perseid.lang.parser import parse_file
from perseid.semantics.binding import bind
from perseid.semantics.resolve import resolve
from tests.golden import check_golden

PLANS = sorted((Path(__file__).parent / "plans").glob("*.txt"))


def compiled(text: str):
    return compile_set([resolve(bind(p)) for p in parse_file(text).patterns])


@pytest.mark.parametrize("path", PLANS, ids=lambda p: p.stem)
def test_plan(path: Path) -> None:
    check_golden(path, lambda text: plan_text(compiled(text)))


def test_there_are_plans() -> None:
    assert len(PLANS) >= 8


def test_compiling_twice_gives_the_same_plan() -> None:
    text = "pattern p match A a -> (B b | C c)+ -> D d [v > sum(b.v)] within 1 minute partition by k"
    assert compiled(text) == compiled(text)


def test_predicates_of_a_set_are_stored_once() -> None:
    one = "pattern {} match A [v > 5] -> B [v < 3] within 1 minute\n"
    plan = compiled("".join(one.format(f"p{i}") for i in range(50)))
    assert len(plan.patterns) == 50
    assert len(plan.predicates) == 2


def test_routes_are_shared() -> None:
    text = "".join(f"pattern p{i} match A -> B within 1 minute partition by k{i % 3}\n" for i in range(9))
    plan = compiled(text)
    assert [route.columns for route in plan.routes] == [("k0",), ("k1",), ("k2",)]


def test_predicate_identity_does_not_depend_on_position() -> None:
    alone = compiled("pattern p match A [v > 5] -> B within 1 minute")
    beside = compiled("pattern o match A [v > 1] -> B within 1 minute\npattern p match A [v > 5] -> B within 1 minute")
    assert alone.predicates[0].identity in {p.identity for p in beside.predicates}
