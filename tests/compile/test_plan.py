"""Plans as golden files, the pattern above and the plan below; and the sharing of predicates and routes."""

from __future__ import annotations

from pathlib import Path

import pytest

import perseid as ps
from perseid.api import pattern_sources
from perseid.compile.compiler import compile_set
from perseid.lang import ast
from perseid.lang.parser import parse_file
from perseid.semantics import check as checks
from perseid.semantics.binding import bind
from perseid.semantics.check import check
from perseid.semantics.core import CorePattern
from perseid.semantics.resolve import resolve
from tests.compile.plan_text import plan_text
from tests.golden import check_golden

PLANS = sorted((Path(__file__).parent / "plans").glob("*.txt"))


def compiled(text: str):
    return compile_set([resolve(bind(p)) for p in parse_file(text).patterns])


@pytest.mark.parametrize("path", PLANS, ids=lambda p: p.stem)
def test_plan(path: Path) -> None:
    check_golden(path, lambda text: plan_text(compiled(text)))


@pytest.mark.parametrize("path", PLANS, ids=lambda p: p.stem)
def test_check_returns_the_resolved_cores(path: Path) -> None:
    """The compiler builds a plan from these cores."""
    tree = parse_file(path.read_text(encoding="utf-8").split("----\n")[0])
    for pattern, core in zip(tree.patterns, check(tree), strict=True):
        assert core == resolve(bind(pattern)) or pattern.parameters


def test_plan_resolves_each_pattern_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ps.patterns(
        "pattern p match A a -> B b within 1 minute\npattern q match p x -> C c within 1 minute\n"
        "pattern r(low integer = 3) match A a [v > :low] -> B within 1 minute"
    )
    resolved: list[str] = []

    def count(pattern: ast.PatternDefinition) -> CorePattern:
        resolved.append(pattern.name)
        return resolve(pattern)

    for module in (checks, pattern_sources):
        monkeypatch.setattr(module, "resolve", count)
    assert rules.plan()
    assert [resolved.count(name) for name in ("p", "q")] == [1, 1]
    del resolved[:]
    rules["p"].match([])
    assert [resolved.count(name) for name in ("p", "q")] == [1, 1]


def test_at_least_eight_plans_are_covered() -> None:
    assert len(PLANS) >= 8


def test_compiling_twice_gives_the_same_plan() -> None:
    text = "pattern p match A a -> (B b | C c)+ -> D d [v > sum(b.v)] within 1 minute partition by k"
    assert compiled(text) == compiled(text)


def test_predicates_of_a_set_are_stored_once() -> None:
    one = "pattern {} match A [v > 5] -> B [v < 3] within 1 minute\n"
    plan = compiled("".join(one.format(f"p{i}") for i in range(50)))
    assert len(plan.patterns) == 50
    assert len(plan.predicates) == 2


def test_local_predicate_does_not_depend_on_the_step_name() -> None:
    plan = compiled(
        "pattern x match Login a [amount > 5 and a.v < 2] -> B within 1 minute\n"
        "pattern y match Login b [b.amount > 5 and v < 2] -> B within 1 minute\n"
    )
    assert len(plan.predicates) == 2


def test_predicates_over_other_steps_belong_to_their_pattern() -> None:
    plan = compiled(
        "pattern x match Login a -> Out b [v > a.v] within 1 minute\n"
        "pattern y match Transfer a -> Out b [v > a.v] within 1 minute\n"
    )
    assert len({p.identity for p in plan.predicates}) == 2


def test_locality_of_a_predicate_depends_on_its_place() -> None:
    plan = compiled("pattern x match A a [a.v > 1] -> A b [a.v > 1] within 1 minute")
    assert sorted(p.event_local for p in plan.predicates) == [False, True]


def test_routes_are_shared() -> None:
    text = "".join(f"pattern p{i} match A -> B within 1 minute partition by k{i % 3}\n" for i in range(9))
    plan = compiled(text)
    assert [route.columns for route in plan.routes] == [("k0",), ("k1",), ("k2",)]


def test_predicate_identity_does_not_depend_on_position() -> None:
    alone = compiled("pattern p match A [v > 5] -> B within 1 minute")
    both = compiled("pattern o match A [v > 1] -> B within 1 minute\npattern p match A [v > 5] -> B within 1 minute")
    assert alone.predicates[0].identity in {p.identity for p in both.predicates}
