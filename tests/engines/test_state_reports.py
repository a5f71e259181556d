"""Reports of states: a corrupted state is a StateError in a report too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from perseid.engines.models import engine as models
from perseid.engines.uncertain import engine as uncertain
from perseid.errors import StateError
from perseid.runtime.state_codec import DecodedState, decode_state, encode_state
from perseid.runtime.watermark import Watermark
from tests.engines import test_models_stream as model_streams
from tests.engines.test_uncertain_stream import chain
from tests.engines.watermarks import step_up_to


def with_tables(sealed: DecodedState, *tables: pa.RecordBatch, **facts: Any) -> bytes:
    return encode_state({**sealed.facts, **facts}, tables)


def test_report_of_a_state_of_models_without_its_parts_is_a_state_error() -> None:
    rows = model_streams.rows_of(model_streams.random_rows(1))
    state = step_up_to(models.step, model_streams.plan_of(), rows, None, 3_000_000).state
    assert state is not None
    sealed = decode_state(state)
    keys, waiting, nodes, *more = sealed.tables
    facts = {name: fact for name, fact in sealed.facts.items() if name != "shards"}
    for wrong in (
        with_tables(sealed),
        with_tables(sealed, keys, waiting),
        with_tables(sealed, keys, waiting.drop_columns(["time"]), nodes, *more),
        with_tables(sealed, keys, waiting, nodes.drop_columns(["model"]), *more),
        encode_state(facts, sealed.tables),
    ):
        with pytest.raises(StateError):
            models.report(wrong)


@pytest.mark.parametrize("name", ["time", "column _p"])
def test_uncertain_state_with_a_column_twice_is_a_state_error(name: str) -> None:
    plan, rows = chain(6)
    state = uncertain.step(plan, rows, None, Watermark(None, None, False)).state
    assert state is not None
    sealed = decode_state(state)
    first, *more = sealed.tables
    twice = pa.record_batch([*first.columns, first.column(name)], names=[*first.schema.names, name])
    wrong = with_tables(sealed, twice, *more)
    with pytest.raises(StateError):
        uncertain.report(wrong)
    with pytest.raises(StateError):
        uncertain.step(plan, rows, wrong, Watermark(None, 9_000_000, False))


@pytest.mark.parametrize("name", ["known", "done"])
def test_uncertain_state_without_its_steps_is_a_state_error(name: str) -> None:
    plan, rows = chain(6)
    state = uncertain.step(plan, rows, None, Watermark(None, None, False)).state
    assert state is not None
    sealed = decode_state(state)
    wrong = encode_state({fact: about for fact, about in sealed.facts.items() if fact != name}, sealed.tables)
    with pytest.raises(StateError):
        uncertain.report(wrong)
    with pytest.raises(StateError):
        uncertain.step(plan, rows, wrong, Watermark(None, 9_000_000, False))
