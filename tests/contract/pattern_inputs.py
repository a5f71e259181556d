"""Cases of the engines that match patterns over events, with the oracle of patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.registry import engines
from tests.contract.cases import SECOND, EngineCase, EngineInputs, Output
from tests.contract.inputs import PatternWorkload, Row, inputs_of, result_rows
from tests.contract.streams import bounded


def _read(workload: PatternWorkload, retracts: bool, tables: Sequence[pa.Table]) -> Output:
    """Return matches that were emitted and not retracted."""
    standing: Counter[Row] = Counter()
    for table in tables:
        for sign, rows in ((-1, _of(table, "-")), (1, _of(table, "+"))) if retracts else ((1, table),):
            for row in result_rows(StepResult(rows), workload):
                standing[row] += sign
    assert min(standing.values(), default=0) >= 0, "retracted and never emitted"
    assert not retracts or max(standing.values(), default=0) <= 1, "emitted twice"
    return sorted(map(repr, standing.elements()))


def _of(table: pa.Table, op: str) -> pa.Table:
    return table.filter(pc.equal(table["op"], op))


def _check(workload: PatternWorkload, engine: Engine, tables: Sequence[pa.Table]) -> int:
    expected = inputs_of(engine).expected(workload)
    assert _read(workload, engine.capabilities.retracts, tables) == sorted(map(repr, expected))
    return len(expected)


def _make_case(name: str, seed: int) -> EngineCase:
    engine = engines()[name]
    inputs, keyed = inputs_of(engine), seed % 2 == 1
    workload = inputs.draw_workload(seed, keyed)
    plan = engine.plan(workload.plan, inputs.types(workload))
    rows = inputs.rows(workload, workload.data)
    keys = sorted({repr(row["k"]) for row in workload.data})
    owners = np.array([keys.index(repr(row["k"])) for row in workload.data], np.int64)
    spans = {0, *range(SECOND, 11 * SECOND, SECOND)}
    return EngineCase(
        plan,
        rows,
        partial(_read, workload, engine.capabilities.retracts),
        partial(_check, workload, engine),
        owners if keyed else None,
        bounded=bounded(workload),
        moments=sorted({int(time) + span for time in {*rows.time.tolist()} for span in spans}),
    )


def pattern_inputs(name: str) -> EngineInputs:
    return EngineInputs(partial(_make_case, name), seeds=12)
