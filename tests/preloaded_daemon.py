"""Parent process of Spark's Python workers in tests: it imports Perseid once, and workers fork with it.

A worker that imports Perseid itself takes three seconds for it, and Spark starts new ones all the time.
"""

from __future__ import annotations

import importlib
import pkgutil

from pyspark.daemon import manager

import perseid.engines
import perseid.runtime
import perseid.spark

if __name__ == "__main__":
    for package in (perseid.runtime, perseid.engines, perseid.spark):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith((".precompile", ".ahead", "__main__")):
                importlib.import_module(module.name)
    manager()
