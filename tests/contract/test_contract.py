"""What every engine keeps to, whichever it is: the oracle's answer, whatever the order, the shards and the compiler."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys

import pyarrow as pa
import pytest

from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines_for
from tests.blocks import blocks
from tests.contract.inputs import answer, answers, inputs_of, run, without_numba

every_engine = pytest.mark.parametrize("engine", engines_for("patterns").values(), ids=lambda engine: engine.name)
telling_engine = pytest.mark.parametrize(
    "engine",
    [engine for engine in engines_for("patterns").values() if not engine.retracts and inputs_of(engine).punctual],
    ids=lambda engine: engine.name,
)
"""For those that tell a match once and for all, and take every row that the watermark lets them."""
whole_engine = pytest.mark.parametrize(
    "engine",
    [engine for engine in engines_for("patterns").values() if not engine.retracts and inputs_of(engine).whole],
    ids=lambda engine: engine.name,
)
"""For those, among them, that can be asked any pattern."""


@every_engine
def test_it_has_inputs(engine: Engine) -> None:
    assert inputs_of(engine)


@every_engine
@pytest.mark.parametrize("block", blocks(1, 4))
def test_equals_the_oracle(engine: Engine, block: int) -> None:
    inputs = inputs_of(engine)
    found = 0
    for seed in range(block * 50, block * 50 + 50):
        question = inputs.ask(seed, False)
        expected = inputs.expected(question)
        assert answer(run(engine, question), question) == expected, f"seed {seed}"
        found += len(expected)
    assert found >= 50


@every_engine
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.deep), 7])
def test_any_number_of_shards(engine: Engine, count: int) -> None:
    """Rows of one key stay together; where a key goes does not matter."""
    for seed in range(16):
        question = inputs_of(engine).ask(seed, True)
        whole = answer(run(engine, question), question)
        place = random.Random(seed * count)
        shard_of = {key: place.randrange(count) for key in {row["k"] for row in question.data}}
        parts = []
        for shard in range(count):
            data = [row for row in question.data if shard_of[row["k"]] == shard]
            parts.extend(answer(run(engine, question, data), question))
        assert sorted(parts, key=repr) == whole, f"seed {seed}"


@every_engine
def test_the_same_input_gives_the_same_table(engine: Engine) -> None:
    for seed in range(20):
        one, other = (run(engine, inputs_of(engine).ask(seed, False)) for _ in range(2))
        assert one.rows.schema == other.rows.schema
        assert repr(one.rows.to_pydict()) == repr(other.rows.to_pydict()), f"seed {seed}"
        assert one.counters == other.counters


@every_engine
def test_any_order_of_rows(engine: Engine) -> None:
    for seed in range(20):
        question = inputs_of(engine).ask(seed, False)
        whole = answer(run(engine, question), question)
        data = list(question.data)
        for _ in range(2):
            random.Random(seed).shuffle(data)
            assert answer(run(engine, question, data), question) == whole, f"seed {seed}"


@pytest.mark.deep
@every_engine
def test_with_and_without_numba(engine: Engine) -> None:
    seeds = range(20)
    plain = without_numba("tests.contract.inputs", f"answers({engine.name!r}, {seeds!r})")
    assert plain == json.loads(json.dumps(answers(engine.name, seeds)))


@every_engine
def test_a_plan_is_plain_data(engine: Engine) -> None:
    inputs = inputs_of(engine)
    for seed in range(20):
        question = inputs.ask(seed, False)
        plan = engine.plan(question.plan, inputs.types())
        carried = pickle.loads(pickle.dumps(plan))
        step, other = run(engine, question, plan=plan), run(engine, question, plan=carried)
        assert answer(step, question) == answer(other, question), f"seed {seed}"
        assert step.counters == other.counters
        assert step.rows.schema == other.rows.schema


@every_engine
def test_what_a_step_is_made_of(engine: Engine) -> None:
    for seed in range(20):
        question = inputs_of(engine).ask(seed, False)
        step = run(engine, question)
        assert isinstance(step.rows, pa.Table)
        assert step.state is None or isinstance(step.state, bytes)
        assert step.next_timer is None or isinstance(step.next_timer, int)
        assert all(type(count) is int for count in step.counters.values()), step.counters
        assert step.counters["events"] == len(question.data)
        kinds = step.rows["kind"].to_pylist()
        assert step.counters["matches"] == kinds.count("match")
        assert step.counters["timed_out"] == kinds.count("timed out")
        ids = step.rows["match_id"].to_pylist()
        assert all(len(found) == 32 and int(found, 16) >= 0 for found in ids)
        assert len(set(zip(step.rows["pattern"].to_pylist(), ids, kinds, strict=True))) == len(ids), f"seed {seed}"


@every_engine
def test_no_rows(engine: Engine) -> None:
    """A shard may have none: nothing is found, and the columns are the ones that the others have."""
    for seed in range(20):
        question = inputs_of(engine).ask(seed, False)
        step, whole = run(engine, question, []), run(engine, question)
        assert step.rows.num_rows == 0
        assert step.counters["events"] == 0
        assert step.rows.column_names == whole.rows.column_names
        kinds = zip(step.rows.schema.types, whole.rows.schema.types, strict=True)
        assert all(pa.types.is_null(one) or one == other for one, other in kinds), f"seed {seed}"


def test_nothing_below_spark_imports_it() -> None:
    program = (
        "import importlib, pkgutil, sys\n"
        "import perseid\n"
        "for found in pkgutil.walk_packages(perseid.__path__, 'perseid.'):\n"
        "    if not found.name.startswith(('perseid.spark', 'perseid.sources', 'perseid.sinks', 'perseid.jobs', 'perseid.cli', 'perseid.__main__')):\n"
        "        importlib.import_module(found.name)\n"
        "assert len([name for name in sys.modules if name.startswith('perseid.')]) > 30\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])\n"
    )
    # What is imported does not depend on Numba, and without it nothing has to be compiled.
    env = {**os.environ, "PERSEID_NUMBA": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
