"""The search budget of patterns that trigger rules: exploding patterns end with a typed error, locally and in a
shard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import perseid as ps
from perseid.engines.models import pattern_trigger, shard
from perseid.engines.models.engine import rules_step
from perseid.engines.models.plan import ROLES
from perseid.runtime.search_budget import SearchBudget
from perseid.runtime.watermark import Watermark
from perseid.semantics import model_rules
from tests.engines.test_rules_stream import Row, plan_of, rows_of
from tests.engines.test_search_budget import cpu_seconds
from tests.engines.watermarks import step_up_to
from tests.generators.random_patterns import SECOND

MODEL = "model site node A (n bigint) query q(a) find a: A "
DIVIDED = "match found q+ a -> found q+ b -> found q+ c -> found q+ d where count(d) = 77 within 1 day"
COMBINED = "match found q a ->> found q b ->> found q c ->> found q d ->> found q e ->> found q f within 1 day"
PAIRS = "match found q a ->> found q b within 1 day"
SECONDS_ALLOWED = 30.0


def rules_of(match: str) -> Any:
    return ps.graph.metamodel(f"{MODEL} pattern p {match} rule r on p do emit told(1 as n)").rules


def created(count: int, first: int = 0) -> list[Row]:
    names = range(first, first + count)
    return [(i * SECOND, {"change": "create", "element": f"a{i}", "kind": "A", "site": "s"}) for i in names]


@pytest.mark.parametrize("match", [DIVIDED, COMBINED])
def test_exploding_pattern_of_a_rule_ends_with_an_error_that_names_it(
    match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_trigger, "STEPS_PER_EVENT", 5)
    plan = replace(plan_of(rules_of(match)), budget=SearchBudget(5_000, 1))

    def search() -> None:
        with pytest.raises(ps.errors.SearchBudgetError, match=r"^Pattern p exceeded its search budget: .* steps"):
            rules_step(plan, rows_of(created(60)), None, Watermark(ended=True))

    assert cpu_seconds(search) < SECONDS_ALLOWED


def test_exploding_pattern_of_a_rule_ends_locally_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_trigger, "STEPS_PER_EVENT", 5)
    monkeypatch.setattr(pattern_trigger, "PYTHON_STEP_COST", 5_000)
    rows = [{**dict.fromkeys(ROLES), **row, "ts": time / SECOND} for time, row in created(30)]
    model = ps.graph.metamodel(f"{MODEL} pattern p {DIVIDED} rule r on p do emit told(1 as n)")
    with pytest.raises(ps.errors.SearchBudgetError, match="Pattern p exceeded"):
        ps.graph.react(ps.graph.model(rows, model))


def test_each_call_has_a_separate_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_trigger, "STEPS_PER_EVENT", 0)
    plan = replace(plan_of(rules_of(PAIRS)), budget=SearchBudget(20_000, 1))
    with pytest.raises(ps.errors.SearchBudgetError, match="Pattern p exceeded"):
        rules_step(plan, rows_of(created(30)), None, Watermark(ended=True))
    for restarts in (False, True):
        state, emitted = None, 0
        for first in range(0, 30, 3):
            if restarts:
                shard._DECODED.clear()
            step = step_up_to(rules_step, plan, rows_of(created(3, first)), state, (first + 3) * SECOND - 1)
            state = step.state
            emitted += step.rows["what"].to_pylist().count("emitted")
        assert emitted == 30 * 29 // 2


def test_events_add_to_the_budget() -> None:
    plan = replace(plan_of(rules_of(PAIRS)), budget=SearchBudget(1, 1))
    done = rules_step(plan, rows_of(created(30)), None, Watermark(ended=True))
    assert done.rows["what"].to_pylist().count("emitted") == 30 * 29 // 2


def test_rule_that_wakes_itself_up_to_a_far_watermark_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_rules, "MAX_MOMENTS", 50)
    rules = ps.graph.metamodel(
        f"{MODEL} pattern beat match change set A.n a -> not lost q for 1 second return a.element as who "
        "rule beats on beat do set who.n = 1 - who.n"
    ).rules
    rows = [*created(1), (SECOND, {"change": "set", "element": "a0", "attribute": "n", "value": "1", "site": "s"})]
    plan = plan_of(rules)
    step_up_to(rules_step, plan, rows_of(rows), None, 30 * SECOND)
    with pytest.raises(ps.PerseidError, match="still fires after 51 timers"):
        step_up_to(rules_step, plan, rows_of(rows), None, 300 * SECOND)


def test_max_steps_of_a_model_bounds_its_rules_and_its_patterns() -> None:
    model = ps.graph.metamodel(f"{MODEL} pattern p {PAIRS} rule r on p do emit told(1 as n)")
    rows = [{**dict.fromkeys(ROLES), **row, "ts": time / SECOND} for time, row in created(250)]
    with pytest.raises(
        ps.errors.SearchBudgetError, match=r"^Pattern p exceeded its search budget: more than .* steps"
    ) as raised:
        ps.graph.react(ps.graph.model(rows, model, options=ps.StreamOptions(max_steps=1)))
    assert "max_steps" in (raised.value.hint or "")
    with pytest.raises(ps.errors.SearchBudgetError, match=r"more than 2,501 matches"):
        ps.patterns(model).match(ps.graph.model(rows, model, options=ps.StreamOptions(max_matches=1)))
    assert (
        len(
            ps.graph.react(ps.graph.model(rows, model, options=ps.StreamOptions(max_steps=100_000_000))).emitted["told"]
        )
        == 250 * 249 // 2
    )


def test_limits_of_a_model_are_checked() -> None:
    model = ps.graph.metamodel(f"{MODEL} pattern p {PAIRS} rule r on p do emit told(1 as n)")
    with pytest.raises(ps.errors.EventDataError, match="max_steps=0: expected a number from 1 to 1,000,000,000,000"):
        ps.graph.model([], model, options=ps.StreamOptions(max_steps=0))
    assert "100 steps and 1,000,000 matches" in ps.patterns(model).explain(
        ps.graph.model([], model, options=ps.StreamOptions(max_steps=100))
    )
