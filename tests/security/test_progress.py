"""Every call of every engine returns or raises a typed error within its bound, for any input."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from perseid.engines.joins import subscription_groups
from perseid.engines.sequence import run as sequence_run
from perseid.runtime import precompile, registry
from perseid.runtime.registry import engines
from tests.contract.subscriptions import _READ
from tests.security.adversarial_beliefs import base_states as base_belief_states
from tests.security.adversarial_beliefs import make_belief_input
from tests.security.adversarial_documents import make_join_input, make_tree_input, warm_up_documents
from tests.security.adversarial_models import base_states as base_model_states
from tests.security.adversarial_models import make_model_input
from tests.security.adversarial_patterns import base_shards, make_pattern_input
from tests.security.progress import RESULT, Adversarial, run_inputs

BASE = int(os.environ.get("PERSEID_SEEDS", "2000000"))
INPUTS = 40
"""Inputs of each engine in the ordinary run."""
BLOCKS, BLOCK_INPUTS = 10, 1_000
"""Inputs of each engine in the deep run."""
STEPS_PER_EVENT, ATTEMPT_STEPS_PER_EVENT = 50, 20
"""Budgets below the defaults of the engine, so that searches exceed them quickly. Rules have budgets of their own."""

PATTERN_ENGINES = ("sequence", "aggressive", "assemble", "early", "adaptive", "conservative")
MAKERS: dict[str, Callable[[int], Adversarial]] = {
    **{name: partial(make_pattern_input, name) for name in PATTERN_ENGINES},
    "trees": make_tree_input,
    "joins": make_join_input,
    "uncertain": make_belief_input,
    "models": partial(make_model_input, "models"),
    "rules": partial(make_model_input, "rules"),
}
KINDS = {"trees": {"document"}, "joins": {"document", "state"}, "uncertain": {"pattern", "state"}}
"""Kinds of input by engine; the others have patterns and states, or models and states."""


def test_every_engine_has_adversarial_inputs() -> None:
    others = {
        engine.name for engine in registry._registered
    }  # engines of other packages, such as the one of the contract tests
    assert set(MAKERS) == set(engines()) - others


@pytest.fixture(autouse=True)
def _smaller_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_run, "STEPS_PER_EVENT", STEPS_PER_EVENT)
    monkeypatch.setattr(sequence_run, "ATTEMPT_STEPS_PER_EVENT", ATTEMPT_STEPS_PER_EVENT)
    monkeypatch.setattr(
        subscription_groups, "parse_normal_form", _READ
    )  # subscriptions repeat; each text is parsed once


def warm_up(name: str) -> None:
    """Load the kernels of an engine and create its base states, so that this does not count toward the time of an input."""
    folders = {"trees": ("trees",), "joins": ("trees", "joins"), "uncertain": ("uncertain",)}
    for module in precompile.modules(folders.get(name, ("sequence", "disorder", "models"))):
        importlib.import_module(module)
    if name in PATTERN_ENGINES:
        base_shards(name)
    elif name in ("trees", "joins"):
        warm_up_documents()
    elif name == "uncertain":
        base_belief_states()
    else:
        base_model_states(name)


def check_progress(name: str, seeds: Iterable[int], log: Path) -> tuple[Counter[str], Counter[str]]:
    """Run the inputs of an engine; return the numbers of results and of typed errors by kind of input."""
    warm_up(name)
    outcomes = run_inputs(name, MAKERS[name], seeds, log)
    print(name, dict(outcomes))
    results: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for outcome, count in outcomes.items():
        kind, end = outcome.split(": ")
        (results if end == RESULT else errors)[kind] += count
    return results, errors


@pytest.mark.parametrize("name", MAKERS)
def test_adversarial_inputs_end_within_their_bounds(name: str, tmp_path: Path) -> None:
    results, errors = check_progress(name, range(INPUTS), tmp_path / "last_input.log")
    assert min(results.total(), errors.total()) >= 5, (results, errors)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("models", 2_001_699),
        ("models", 2_003_021),
        ("models", 2_003_173),
        ("models", 2_003_621),
        ("rules", 2_003_106),
        ("rules", 2_006_213),
        ("rules", 2_006_480),
        ("rules", 2_007_794),
        ("rules", 2_009_015),
        ("uncertain", 2_004_097),
        ("uncertain", 2_006_338),
    ],
)
def test_input_that_failed_in_a_deep_run_ends_in_a_result_or_a_typed_error(
    name: str, seed: int, tmp_path: Path
) -> None:
    results, errors = check_progress(name, [seed], tmp_path / "last_input.log")
    assert results.total() + errors.total() == 1


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", MAKERS)
def test_many_adversarial_inputs_end_within_their_bounds(name: str, block: int, tmp_path: Path) -> None:
    first = BASE + block * BLOCK_INPUTS
    results, errors = check_progress(name, range(first, first + BLOCK_INPUTS), tmp_path / "last_input.log")
    assert results.total() + errors.total() == BLOCK_INPUTS
    for kind in KINDS.get(name, {"model", "state"} if name in ("models", "rules") else {"pattern", "state"}):
        # Bad documents of joins count as typed errors.
        assert min(results[kind], errors[kind]) >= 5, (kind, results, errors)
