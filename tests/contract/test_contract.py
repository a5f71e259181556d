"""Properties of every engine: the oracle's matches for any order, any number of shards, and with or without Numba."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines_for
from tests.blocks import blocks
from tests.contract.inputs import inputs_of, result_rows, run

every_engine = pytest.mark.parametrize("engine", engines_for("patterns").values(), ids=lambda engine: engine.name)
telling_engine = pytest.mark.parametrize(
    "engine",
    [
        engine
        for engine in engines_for("patterns").values()
        if not engine.capabilities.retracts and inputs_of(engine).punctual
    ],
    ids=lambda engine: engine.name,
)
"""Engines that never retract, and accept every row that the watermark has not passed."""
whole_engine = pytest.mark.parametrize(
    "engine",
    [
        engine
        for engine in engines_for("patterns").values()
        if not engine.capabilities.retracts and inputs_of(engine).whole
    ],
    ids=lambda engine: engine.name,
)
"""Those of them that accept any pattern."""


@every_engine
def test_pattern_engine_has_inputs(engine: Engine) -> None:
    assert inputs_of(engine)


@every_engine
@pytest.mark.parametrize("block", blocks(1, 4))
def test_output_equals_the_oracle(engine: Engine, block: int) -> None:
    inputs = inputs_of(engine)
    found = 0
    for seed in range(block * 50, block * 50 + 50):
        workload = inputs.draw_workload(seed, False)
        expected = inputs.expected(workload)
        assert result_rows(run(engine, workload), workload) == expected, f"seed {seed}"
        found += len(expected)
    assert found >= 50


@every_engine
def test_types_of_a_step_result(engine: Engine) -> None:
    for seed in range(20):
        workload = inputs_of(engine).draw_workload(seed, False)
        step = run(engine, workload)
        assert isinstance(step.rows, pa.Table)
        assert step.state is None or isinstance(step.state, bytes)
        assert step.next_timer is None or isinstance(step.next_timer, int)
        assert all(type(count) is int for count in step.counters.values()), step.counters
        assert step.counters["events"] == len(workload.data)
        kinds = step.rows["kind"].to_pylist()
        assert step.counters["matches"] == kinds.count("match")
        assert step.counters["timed_out"] == kinds.count("timed out")
        ids = step.rows["match_id"].to_pylist()
        assert all(len(found) == 32 and int(found, 16) >= 0 for found in ids)
        assert len(set(zip(step.rows["pattern"].to_pylist(), ids, kinds, strict=True))) == len(ids), f"seed {seed}"


def test_engines_do_not_import_spark() -> None:
    program = (
        "import importlib, pkgutil, sys\n"
        "import perseid\n"
        "for found in pkgutil.walk_packages(perseid.__path__, 'perseid.'):\n"
        "    if not found.name.startswith(('perseid.spark', 'perseid.sources', 'perseid.sinks', 'perseid.jobs', 'perseid.cli', 'perseid.__main__')):\n"
        "        importlib.import_module(found.name)\n"
        "assert len([name for name in sys.modules if name.startswith('perseid.')]) > 30\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])\n"
    )
    # Imports do not depend on Numba, and without it nothing is compiled.
    env = {**os.environ, "PERSEID_NUMBA": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
