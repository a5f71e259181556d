"""Cases of the engines that match patterns over events; the oracle is that of patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.registry import engines
from tests.contract.cases import SECOND, Case, Inputs, Output
from tests.contract.inputs import Question, Row, answer, inputs_of
from tests.contract.streams import bounded


def _read(question: Question, retracts: bool, tables: Sequence[pa.Table]) -> Output:
    """Matches that were emitted and not retracted."""
    standing: Counter[Row] = Counter()
    for table in tables:
        for sign, rows in ((-1, _of(table, "-")), (1, _of(table, "+"))) if retracts else ((1, table),):
            for row in answer(StepResult(rows), question):
                standing[row] += sign
    assert min(standing.values(), default=0) >= 0, "retracted and never emitted"
    assert not retracts or max(standing.values(), default=0) <= 1, "emitted twice"
    return sorted(map(repr, standing.elements()))


def _of(table: pa.Table, op: str) -> pa.Table:
    return table.filter(pc.equal(table["op"], op))


def _check(question: Question, engine: Engine, tables: Sequence[pa.Table]) -> int:
    expected = inputs_of(engine).expected(question)
    assert _read(question, engine.capabilities.retracts, tables) == sorted(map(repr, expected))
    return len(expected)


def _make_case(name: str, seed: int) -> Case:
    engine = engines()[name]
    inputs, keyed = inputs_of(engine), seed % 2 == 1
    question = inputs.ask(seed, keyed)
    plan = engine.plan(question.plan, inputs.types(question))
    rows = inputs.rows(question, question.data)
    keys = sorted({repr(row["k"]) for row in question.data})
    owners = np.array([keys.index(repr(row["k"])) for row in question.data], np.int64)
    spans = {0, *range(SECOND, 11 * SECOND, SECOND)}
    return Case(
        plan,
        rows,
        partial(_read, question, engine.capabilities.retracts),
        partial(_check, question, engine),
        owners if keyed else None,
        bounded=bounded(question),
        moments=sorted({int(time) + span for time in {*rows.time.tolist()} for span in spans}),
    )


def pattern_inputs(name: str) -> Inputs:
    return Inputs(partial(_make_case, name), seeds=12)
