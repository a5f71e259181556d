"""Messages and plans contain the caller's columns and constants, and no internal names."""

from __future__ import annotations

import pytest

from perseid.errors import missing_column, nearest
from perseid.jobs.spark_errors import first_line
from perseid.sinks.failures import error_summary
from perseid.spark.readable_sql import readable_sql
from perseid.spark.sql.literals import constant


@pytest.mark.parametrize("value", ["a/b", "it's", "ä ö", "", "plain"])
def test_constant_is_shown_as_its_text(value: str) -> None:
    shown = readable_sql(f"coalesce((`v` = {constant(value)}), false)")
    assert shown == "coalesce((`v` = '" + value.replace("'", "''") + "'), false)"


def test_bytes_that_are_not_utf8_stay_unchanged() -> None:
    assert readable_sql("cast(X'FF' as string)") == "cast(X'FF' as string)"


def test_internal_column_is_shown_under_the_name_of_the_caller() -> None:
    assert readable_sql("`__perseid_own1` > 1", {"__perseid_own1": "odd`name"}) == "`odd``name` > 1"


@pytest.mark.parametrize("say", [first_line, error_summary])
def test_message_of_spark_shows_constants_as_text(say: object) -> None:
    assert callable(say)
    error = RuntimeError("[DATATYPE_MISMATCH] Cannot resolve \"(v = CAST(X'612F62' AS STRING))\".")
    assert say(error) == "[DATATYPE_MISMATCH] Cannot resolve \"(v = 'a/b')\"."


def test_internal_column_is_not_listed_and_not_suggested() -> None:
    there = ["ts", "_perseid_position", "__perseid_own0", "user"]
    said = str(missing_column("The DataFrame", "position", "time column", there, "ps.events(df, time=…)"))
    assert "perseid_" not in said
    assert "Available: ts, user." in said
    assert nearest("position", there) is None
    assert nearest("_perseid_positio", there) == "_perseid_position"
