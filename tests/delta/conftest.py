"""The Spark session that knows Delta, as the pipeline's tests have it."""

from tests.pipeline.conftest import jars, spark

__all__ = ["jars", "spark"]
