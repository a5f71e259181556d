"""The ordinary Spark session."""

from tests.spark.conftest import spark

__all__ = ["spark"]
