"""What every registered engine says of itself, and has: no engine is there half."""

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
def test_it_does_something(engine: Engine) -> None:
    assert engine.step is not None or engine.prepare is not None
    assert (engine.step is None) == (engine.report is None), "what keeps a state can say what is in it"
    assert isinstance(engine.capabilities.passes, Passes)


@every_engine
@pytest.mark.parametrize("what", ["guide", "example"])
def test_it_has_a_page_and_a_program(engine: Engine, what: str) -> None:
    said = getattr(engine, what)
    assert said, f"The engine {engine.name!r} names no {what}."
    page = ROOT / said
    assert page.is_file(), f"The {what} of the engine {engine.name!r}, {said}, is not there."
    # Whoever reads it finds the word that chooses the engine, or the one that declares its streams.
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
def test_the_changelog_has_a_line_of_it(engine: Engine) -> None:
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
def test_its_rows_are_what_it_says(engine: Engine) -> None:
    """In a batch and in every call of a stream: kinds, changes, and the columns that the plan declares."""
    ops, kinds = set(), set()
    for seed in range(12):
        question = inputs_of(engine).ask(seed, False)
        shard = shard_of(engine, question)
        steps = [run(engine, question)]
        for call in arrivals(engine, question, seed, wild=True):
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


def test_a_state_of_nobody() -> None:
    with pytest.raises(StateError, match="Unknown engine 'nobody'"):
        report_of(encode_state({"engine": "nobody"}, ()))


def test_names_are_taken_once() -> None:
    with pytest.raises(ValueError, match="Engine 'toy' is already registered"):
        register(TOY)


def test_the_toy_is_small() -> None:
    """What it takes to add an engine."""
    assert len((ROOT / TOY.example).read_text(encoding="utf-8").splitlines()) < 150
