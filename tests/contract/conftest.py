"""The Spark session of the tests that need one."""

from tests.spark.conftest import spark

__all__ = ["spark"]
