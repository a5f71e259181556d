"""A wrong Python environment on Spark workers gives an error with the settings to change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from perseid.jobs.batch_handler import BatchHandler
from perseid.jobs.job_plan import JobError
from perseid.jobs.runner import JobRunner
from perseid.sinks.failures import SinkError, failing
from perseid.spark.worker_errors import worker_hint

TRACE = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    '  File "/usr/lib/spark/python/pyspark/worker.py", line 3, in main\nModuleNotFoundError: No module named {}\n'
)
SETTINGS = ("PYSPARK_PYTHON", "spark.pyspark.python", "docs/guides/executors.md")


@pytest.mark.parametrize("name", ["perseid", "perseid.spark", "numba", "pyarrow.compute"])
def test_missing_package_on_a_worker_has_a_hint(name: str) -> None:
    hint = worker_hint(RuntimeError(TRACE.format(repr(name))))
    assert hint is not None
    assert f"{name.partition('.')[0]} is not installed for the Python of Spark's workers." in hint
    assert all(word in hint for word in SETTINGS)


@pytest.mark.parametrize(
    ("text", "hinted"),
    [
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", True),
        ('java.io.IOException: Cannot run program "python9": error=2', True),
        (TRACE.format("'mine'"), False),
        (TRACE.format("'numbaish'"), False),
        ("ValueError: odd", False),
    ],
)
def test_only_failures_of_the_workers_python_have_a_hint(text: str, hinted: bool) -> None:
    assert (worker_hint(RuntimeError(text)) is not None) == hinted


@pytest.mark.parametrize("by_sink", [False, True])
def test_job_that_fails_for_a_missing_package_has_the_hint(by_sink: bool) -> None:
    error = RuntimeError(TRACE.format("'perseid'"))
    handle = SimpleNamespace(ended=False, error=error if by_sink else None)
    runner = cast(Any, SimpleNamespace(job=SimpleNamespace(name="watch")))
    with pytest.raises(JobError, match="ModuleNotFoundError: No module named 'perseid'") as caught:
        JobRunner._raise_cause(runner, cast(BatchHandler, handle), error)
    assert all(word in str(caught.value) for word in SETTINGS)


def test_sink_that_fails_for_a_missing_package_has_the_hint() -> None:
    with pytest.raises(SinkError) as caught, failing("parquet", None):
        raise RuntimeError(TRACE.format("'numba'"))
    assert all(word in str(caught.value) for word in SETTINGS)
