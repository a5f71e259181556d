"""``python -m bench.trees.cores FOLDER COUNT``: seconds for all documents of a folder on Spark, with COUNT cores.

A Spark task is a thread of the JVM and a Python process, so one task alone uses two cores: the limit on cores must
apply to all processes.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench import spark_baselines
from bench.trees.on_spark import find_all

ROUNDS = 3


def main(folder: Path, count: int) -> float:
    """Median of some rounds, after one warm-up."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-cores-") as scratch,
        spark_baselines.session(Path(scratch)) as spark,
    ):
        taken = []
        for _ in range(1 + ROUNDS):
            begun = time.perf_counter()
            find_all(spark, folder)
            taken.append(time.perf_counter() - begun)
    return statistics.median(taken[1:])


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2])))
