"""The console: bounded, harmless, with and without rich."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import SparkSession

from perseid.sinks.console import Console
from perseid.sinks.failures import SinkError
from tests.sinks.answers import HOSTILE, answers, batch, broken, matches


@pytest.mark.parametrize("rich", [True, False])
def test_a_few_rows_are_shown_and_nothing_moves_the_cursor(
    spark: SparkSession, rich: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    rows = answers(spark, *((str(n), "+", 0, text) for n, text in enumerate(HOSTILE)))
    Console(rows=7).write(batch(rows, 4))
    shown = capsys.readouterr().out
    assert "batch 4" in shown
    assert "and 2 more" in shown
    assert "\\x1b[2J\\x07" in shown
    assert "[bold]{not}" in shown
    assert not any(c in shown for c in "\0\x1b\x07")
    Console().write(batch(rows.limit(0)))
    assert capsys.readouterr().out == ""


def test_rows_that_fail_are_an_error_of_the_sink(spark: SparkSession) -> None:
    with pytest.raises(SinkError, match=r"the console: Batch 3 was not written: .*the power went out"):
        Console().write(batch(broken(matches(spark, "a")), 3))
