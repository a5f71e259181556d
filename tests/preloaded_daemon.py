"""Parent process of Spark's Python workers in tests: it imports Perseid and loads kernels once, and workers fork with them.

A worker that imports Perseid itself takes three seconds for it, and one second more for the kernels of its first match.
Spark starts new workers all the time.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil

from pyspark.daemon import manager

import perseid.engines
import perseid.runtime
import perseid.spark
from perseid.runtime.cold_start import marker_of
from perseid.runtime.jit import Kernel


def import_modules() -> None:
    for package in (perseid.runtime, perseid.engines, perseid.spark):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith((".precompile", ".ahead", "__main__")):
                importlib.import_module(module.name)


def load_kernels(engine: str) -> None:
    """Load the compiled kernels of an engine, unless they have yet to be compiled."""
    marker = marker_of(engine)
    if marker is None or not marker.exists():
        return
    package = importlib.import_module(f"perseid.engines.{engine}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel):
                value.compiled()


if __name__ == "__main__":
    import_modules()
    load_kernels("sequence")
    # A worker runs a full garbage collection after each task; it does not traverse objects shared with this process.
    gc.collect()
    gc.freeze()
    manager()
