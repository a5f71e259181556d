"""The concept pages that need Spark show actual output."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.test_guides import run_page
from tests.test_pages_concepts import CONCEPTS, ON_SPARK


@pytest.mark.parametrize("name", ON_SPARK)
def test_page_shows_its_output(name: str, spark: SparkSession) -> None:
    run_page(CONCEPTS / f"{name}.md", spark=spark)
