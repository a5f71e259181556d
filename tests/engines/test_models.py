"""The engine of live models against recomputation over random models, queries and changes, at every transaction."""

from __future__ import annotations

from collections import Counter

import pytest

from perseid.engines.models.live import LiveModel
from perseid.lang import models as m
from perseid.lang.model_printer import print_models
from perseid.reference.models import Recomputed
from tests.blocks import blocks
from tests.generators.random_models import ModelCase, make_model_case

CASES = 500
DEEP = 3_000_000
"""First seed of the deep runs."""


def check_case(seed: int) -> Counter[str]:
    """Asserts that engine and recomputation agree on every transaction of a case, and returns the changes by kind."""
    case = make_model_case(seed)
    queries = case.checked
    oracle, engine = Recomputed(queries), LiveModel(queries)
    counts: Counter[str] = Counter()
    for time, changes in case.transactions:
        wanted, found = oracle.transact(time, changes), engine.transact(time, changes)
        assert found.done == wanted.done, shown(seed, case)
        assert found.refused == wanted.refused, shown(seed, case)
        assert found.changes == wanted.changes, shown(seed, case)
        # 1 equals 1.0 and true: the same value of the same type is wanted.
        assert repr(found.changes) == repr(wanted.changes), shown(seed, case)
        counts.update(change.change for change in wanted.changes)
        counts["refused"] += len(wanted.refused)
    for name, matches in engine.matches.items():
        assert matches.standing == oracle.matches[name], shown(seed, case)
    return counts


def shown(seed: int, case: ModelCase) -> str:
    return f"seed {seed}\n{print_models(m.ModelFile(case.metamodel, case.queries))}"


def check_block(first: int, count: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        counts += check_case(seed)
    return counts


@pytest.mark.parametrize("block", blocks(4, 10))
def test_every_transaction_equals_recomputation(block: int) -> None:
    count = CASES // 10
    counts = check_block(block * count, count)
    # Of cases in which nothing is found or lost nothing would be learned.
    assert min(counts[change] for change in ("found", "lost", "updated", "refused")) > 2 * count


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(40))
def test_every_transaction_equals_recomputation_deep(block: int) -> None:
    assert check_block(DEEP + 500 * block, 500)["lost"] > 1_000


def constructs(case: ModelCase) -> set[str]:
    """Returns the names of the language constructs in a case."""
    found: set[str] = set()
    for query in case.queries:
        if query.top is not None:
            found |= {"top", *(["top per"] if query.top.per else [])}
        if isinstance(query.alternatives, m.Components):
            found.add("components" if query.alternatives.nodes is None else "components over")
            continue
        found |= {"several ways"} if len(query.alternatives) > 1 else set()
        for way in query.alternatives:
            found |= {"let" if isinstance(d, m.Let) else d.function for d in way.definitions}
            found |= _constraint_constructs(way.constraints)
    text = print_models(m.ModelFile(case.metamodel, case.queries))
    return found | {
        word for word in ("moving_avg", "moving_count", "abstract", " one\n", "second", "ascending") if word in text
    }


def _constraint_constructs(constraints: tuple[m.Constraint, ...]) -> set[str]:
    found: set[str] = set()
    for constraint in constraints:
        if isinstance(constraint, m.No):
            found |= {"no", *(["no where"] if constraint.where is not None else [])}
            inside = _constraint_constructs(constraint.constraints)
            found |= inside | ({"no in no"} if "no" in inside else set())
        elif isinstance(constraint, m.IsNode):
            found.add("is")
        else:
            found.add(f"{type(constraint).__name__} {constraint.low} to {constraint.high}")
    return found


def test_random_cases_cover_every_construct_of_the_language() -> None:
    counts: Counter[str] = Counter()
    for seed in range(CASES):
        counts.update(constructs(make_model_case(seed)))
    wanted = {
        "top", "top per", "components", "components over", "several ways", "let", "count", "sum", "min", "max", "avg",
        "no", "no where", "no in no", "is", "moving_avg", "moving_count", "abstract", " one\n", "second", "ascending",
        *(f"{kind} {steps}" for kind in ("Walk", "QueryCall") for steps in ("1 to 1", "1 to None", "0 to None", "1 to 2", "2 to 2")),
    }  # fmt: skip
    rare = {name: counts[name] for name in wanted if counts[name] < 8}
    assert not rare
