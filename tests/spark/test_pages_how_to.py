"""The how-to pages with Spark blocks show their actual output."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.test_guides import run_page
from tests.test_pages_how_to import ON_SPARK, PAGES


@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_how_to_page_prints_what_it_shows(name: str, spark: SparkSession) -> None:
    run_page(PAGES / name, spark=spark)
