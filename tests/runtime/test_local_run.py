"""Local runs of an engine: prepared rows of several tables, and one step over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from perseid.runtime.contract import BadRecord, Engine, Prepared, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.local_run import PrepareTable, prepare_local, run_local
from perseid.runtime.watermark import Watermark

TYPES = {"word": pa.string()}


def split_words(plan: str, columns: Mapping[str, pa.Array]) -> Iterator[Prepared]:
    """Yield one chunk for each text, with a row for each of its words; a null is a bad record."""
    for row, text in enumerate(columns["text"].to_pylist()):
        if text is None:
            yield Prepared([], {"word": pa.nulls(0, pa.string())}, [BadRecord(row, plan)])
        else:
            words = text.split()
            yield Prepared([row] * len(words), {"word": pa.array(words, pa.string())})


def return_rows(plan: str, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    assert state is None
    assert watermark == Watermark(ended=True)
    return StepResult(pa.table({**rows.columns, "time": rows.time, "identity": rows.identity}))


WORDS = Engine("words", plan=str, step=return_rows, prepare=split_words)


def table(first: int, *texts: str | None) -> PrepareTable:
    numbers = np.arange(first, first + len(texts))
    return PrepareTable({"text": pa.array(texts, pa.string())}, {"n": pa.array(numbers)}, numbers * 10, numbers)


def reject(bad: BadRecord) -> None:
    raise AssertionError(bad)


def test_prepared_rows_have_the_columns_time_and_identity_of_their_rows() -> None:
    rows = prepare_local(WORDS, "", TYPES, [table(0, "a b", ""), table(2, "c")], reject)
    assert run_local(WORDS, "", rows).rows.to_pylist() == [
        {"word": "a", "n": 0, "time": 0, "identity": 0},
        {"word": "b", "n": 0, "time": 0, "identity": 0},
        {"word": "c", "n": 2, "time": 20, "identity": 2},
    ]


def test_bad_records_are_numbered_across_all_tables() -> None:
    bad: list[BadRecord] = []
    rows = prepare_local(WORDS, "null", TYPES, [table(0, "a", None), table(2, None, "b")], bad.append)
    assert bad == [BadRecord(1, "null"), BadRecord(2, "null")]
    assert rows.columns["word"].to_pylist() == ["a", "b"]


def test_empty_input_has_all_columns() -> None:
    rows = prepare_local(WORDS, "", TYPES, [table(0)], reject)
    assert (len(rows), {name: column.type for name, column in rows.columns.items()}) == (
        0,
        {"word": pa.string(), "n": pa.int64()},
    )
    assert run_local(WORDS, "", rows).rows.num_rows == 0


def test_missing_prepare_or_step_is_an_error_with_the_engine_name() -> None:
    with pytest.raises(AssertionError, match="'words' has no prepare"):
        prepare_local(replace(WORDS, prepare=None), "", TYPES, [table(0)], reject)
    rows = prepare_local(WORDS, "", TYPES, [table(0)], reject)
    with pytest.raises(AssertionError, match="'words' has no step"):
        run_local(replace(WORDS, step=None), "", rows)
