"""Declarations, documentation and examples of every registered engine are complete."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from perseid.errors import StateError
from perseid.runtime.contract import Engine, Passes
from perseid.runtime.counters import COUNTERS
from perseid.runtime.registry import engines, register, report_of
from perseid.runtime.state_codec import encode_state
from perseid.runtime.watermark import Watermark
from tests.contract.inputs import inputs_of, run
from tests.contract.shards import arrivals, shard_of
from tests.contract.test_contract import every_engine as stepping_engine
from tests.contract.toy import TOY

ROOT = Path(__file__).parents[2]
every_engine = pytest.mark.parametrize("engine", engines().values(), ids=lambda engine: engine.name)


@every_engine
def test_engine_has_a_function(engine: Engine) -> None:
    assert engine.step is not None or engine.prepare is not None
    assert (engine.step is None) == (engine.report is None), "what keeps a state can say what is in it"
    assert isinstance(engine.capabilities.passes, Passes)


@every_engine
@pytest.mark.parametrize("what", ["guide", "example"])
def test_engine_has_a_page_and_an_example(engine: Engine, what: str) -> None:
    said = getattr(engine, what)
    assert said, f"The engine {engine.name!r} names no {what}."
    page = ROOT / said
    assert page.is_file(), f"The {what} of the engine {engine.name!r}, {said}, is not there."
    # A reader finds the option that selects the engine, or the function that declares its streams.
    words = {
        "sequence": "ps.events",
        "trees": "ps.documents",
        "joins": "ps.xscl.subscriptions",
        "uncertain": "ps.uncertain_events",
        "models": "ps.graph.model",
        "rules": "ps.graph.react",
    }
    if what == "guide":
        assert words.get(engine.name, engine.name) in page.read_text(encoding="utf-8")


@every_engine
def test_changelog_mentions_the_engine(engine: Engine) -> None:
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").lower()
    words = {
        "sequence": "kernels",
        "trees": "ps.documents",
        "joins": "ps.xscl.subscriptions",
        "uncertain": "ps.uncertain_events",
        "models": "ps.graph.model",
        "rules": "ps.graph.react",
        "toy": "docs/engines.md",
    }
    assert words.get(engine.name, f'"{engine.name}"') in log


@stepping_engine
def test_output_rows_match_the_declaration(engine: Engine) -> None:
    """In a batch and in every call of a stream: kinds, changes, and the columns of the plan."""
    ops, kinds = set(), set()
    for seed in range(12):
        workload = inputs_of(engine).draw_workload(seed, False)
        shard = shard_of(engine, workload)
        steps = [run(engine, workload)]
        for call in arrivals(engine, workload, seed, wild=True):
            steps.append(shard.step(call.data, Watermark(shard.now, call.now, False)))
            shard.call(call.data, call.now)
        for step in steps:
            assert step.rows.column_names == shard.plan.schema.names
            kinds |= set(step.rows["kind"].to_pylist())
            if "op" in step.rows.column_names:
                ops |= set(step.rows["op"].to_pylist())
            assert all(
                pa.types.is_null(declared) or declared == found
                for declared, found in zip(shard.plan.schema.types, step.rows.schema.types, strict=True)
            )
            assert {*step.counters} <= {*COUNTERS}, "what no driver knows would be counted for nobody"
    assert kinds <= {*engine.capabilities.row_kinds}
    assert ("-" in ops) == engine.capabilities.retracts


def test_state_of_an_unknown_engine() -> None:
    with pytest.raises(StateError, match="Unknown engine 'nobody'"):
        report_of(encode_state({"engine": "nobody"}, ()))


def test_duplicate_engine_name_is_rejected() -> None:
    with pytest.raises(ValueError, match="Engine 'toy' is already registered"):
        register(TOY)


def test_toy_engine_is_small() -> None:
    """The toy engine shows the size of a minimal engine."""
    assert len((ROOT / TOY.example).read_text(encoding="utf-8").splitlines()) < 150
