"""The one Spark session of the tests."""

from tests.spark.conftest import spark

__all__ = ["spark"]
