"""The console sink: limited number of rows, no control characters, with and without rich."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import SparkSession

from perseid.sinks.console import Console
from perseid.sinks.failures import SinkError
from tests.sinks.match_changes import ADVERSARIAL_TEXTS, batch, broken, match_changes, matches


@pytest.mark.parametrize("rich", [True, False])
def test_console_shows_a_limited_number_of_rows_without_control_characters(
    spark: SparkSession, rich: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    rows = match_changes(spark, *((str(n), "+", 0, text) for n, text in enumerate(ADVERSARIAL_TEXTS)))
    Console(rows=7).write(batch(rows, 4))
    shown = capsys.readouterr().out
    assert "batch 4" in shown
    assert "and 2 more" in shown
    assert "\\x1b[2J\\x07" in shown
    assert "[bold]{not}" in shown
    assert not any(c in shown for c in "\0\x1b\x07")
    Console().write(batch(rows.limit(0)))
    assert capsys.readouterr().out == ""


def test_failing_rows_raise_a_sink_error(spark: SparkSession) -> None:
    with pytest.raises(SinkError, match=r"the console: Batch 3 was not written: .*the power went out"):
        Console().write(batch(broken(matches(spark, "a")), 3))
