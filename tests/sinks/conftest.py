"""The Spark session of tests/spark."""

from tests.spark.conftest import spark

__all__ = ["spark"]
