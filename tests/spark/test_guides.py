"""Guides and examples that need Spark show their real output."""

from __future__ import annotations

import runpy
import sys
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.test_guides import GUIDES, ON_SPARK, run_page


@pytest.mark.parametrize("name", ON_SPARK)
def test_guide(name: str, spark: SparkSession) -> None:
    run_page(GUIDES / name, spark=spark)


def output_of(example: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the printed output of an example that runs in the session of the tests."""
    assert spark is SparkSession.getActiveSession()
    with patch.object(sys, "argv", [example]):
        runpy.run_path(str(GUIDES.parents[1] / "examples" / f"{example}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_the_example_of_a_takeover(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    said = output_of("takeover_on_spark", spark, capsys)
    assert "|ann |10.0.0.1|93.5.7.2|2        |13000 |2024-05-01 10:00:00|2024-05-01 10:04:00|" in said
    assert all(count in said for count in ("'events': 8", "'bad': 0", "'matches': 1"))
    assert "Logout at 2024-05-01 10:02:00 occurred; 'not Logout' forbids it." in said


def test_the_example_of_a_stream(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    said = output_of("unpaid_on_a_stream", spark, capsys)
    assert "batch 3: match  ann  20.0" in said
    assert 'batch 3: late   ann  {"ts":"2026-03-01T09:10:00.000Z"' in said
    assert "filtered          1" in said


def test_the_example_of_gates(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    said = output_of("goods_through_gates", spark, capsys)
    assert "batch 1: alarm, gin (e200-31) at the south door" in said
    assert "batch 2: retraction, gin (e200-31) at the south door" in said
    assert "current matches: [('razor', 'north')]" in said
    assert "2 matches, 1 retracted" in said


def test_the_example_of_documents(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    said = output_of("orders_in_documents", spark, capsys)
    assert "order 17: wrap the pen" in said
    assert "cannot be read: Unclosed token, line 2" in said
    assert "order 19: eve has not paid 310.0 by 2026-03-01 10:05:00" in said
    assert "unpaid: 2, documents that cannot be read: 1" in said


def test_the_example_of_news(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    said = output_of("news_watch", spark, capsys)
    assert "09:00:50  ann  items 0, 1  {'t': 'storm ahead', 'u': 'storm ahead'}" in said
    before, after = said.split("cat subscribes, ann unsubscribes")
    assert "  cat  items" not in before
    assert "  cat  items" in after
    assert "  ann  items" not in after


def test_the_example_of_the_coffee_room(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    said = output_of("coffee_room", spark, capsys)
    assert "person2 at second  42: p = 0.47" in said
    assert "27 visits, 24 of them detected; 18 alerts, 18 of them correct" in said
