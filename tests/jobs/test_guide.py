"""The guides to jobs show real output."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.test_guides import GUIDES, run_page


def test_the_guide_of_jobs() -> None:
    run_page(GUIDES / "jobs.md")


@pytest.mark.timeout(240)
def test_the_guide_of_operations(spark: SparkSession) -> None:
    """With the recovery of a stream with a watermark in the future."""
    run_page(GUIDES / "operations.md", spark=spark)


@pytest.mark.parametrize("name", ["sources.md", "sinks.md"])
def test_guides_of_sources_and_sinks(spark: SparkSession, name: str) -> None:
    run_page(GUIDES / name, spark=spark)
