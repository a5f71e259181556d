"""The guides that need Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.test_guides import GUIDES, ON_SPARK, run_page

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize("name", ON_SPARK)
def test_guide(name: str, spark: SparkSession) -> None:
    run_page(GUIDES / name, spark=spark)
