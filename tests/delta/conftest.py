"""The Spark session with Delta from tests/pipeline."""

from tests.pipeline.conftest import jars, spark

__all__ = ["jars", "spark"]
