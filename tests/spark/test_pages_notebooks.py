"""The notebook for Spark has the output that it shows."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.notebooks import NOTEBOOKS, run_notebook


def test_notebook_shows_its_output(spark: SparkSession) -> None:
    assert spark is SparkSession.getActiveSession()  # the session that the notebook uses
    run_notebook(NOTEBOOKS / "02-on-spark.ipynb")
