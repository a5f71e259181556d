"""Inputs of the contract tests by engine name; a new engine adds a line."""

from __future__ import annotations

from perseid.runtime.contract import Engine
from tests.contract import model_inputs, pattern_inputs, subscription_inputs, uncertain_inputs
from tests.contract.cases import EngineInputs
from tests.contract.inputs import INPUTS as PATTERNS

ENGINE_INPUTS: dict[str, EngineInputs] = {
    **{name: pattern_inputs.pattern_inputs(name) for name in PATTERNS},
    "uncertain": uncertain_inputs.INPUTS,
    "models": model_inputs.MODELS,
    "rules": model_inputs.RULES,
    "joins": subscription_inputs.INPUTS,
}


def inputs_for(engine: Engine) -> EngineInputs:
    found = ENGINE_INPUTS.get(engine.name)
    assert found is not None, (
        f"The engine {engine.name!r} has no inputs: add it to ENGINE_INPUTS in tests/contract/registered_inputs.py, "
        "so that the contract is tested for it."
    )
    return found
