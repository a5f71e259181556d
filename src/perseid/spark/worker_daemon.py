"""Daemon of Python workers that imports their libraries once; Spark forks each worker from it.

A failed task ends its worker. Without this daemon, the next worker imports the libraries again, which takes seconds.
The setting ``spark.python.daemon.module`` selects the daemon. The executors must find this module when they start, so
``perseid run`` sets it for local masters only.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

import numpy as np
from pyspark.daemon import manager

import perseid.spark.worker  # noqa: F401  It imports pyarrow.
from perseid.runtime.hashing import mix_word


def import_libraries() -> None:
    """Import pandas and initialize Numba; if one is missing or damaged, the worker that needs it raises the error."""
    with suppress(Exception):
        import_module("pandas")
    with suppress(Exception):
        mix_word(np.uint64(0), np.uint64(0))  # the first kernel of a process initializes the compiler


if __name__ == "__main__":
    import_libraries()
    manager()
