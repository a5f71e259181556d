"""The operations pages show real output."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.test_guides import run_page

PAGES = Path(__file__).parents[2] / "docs" / "operations"


def test_the_checklist_for_missing_matches(spark: SparkSession) -> None:
    run_page(PAGES / "no-matches.md", spark=spark)
