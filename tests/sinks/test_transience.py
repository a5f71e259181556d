"""Classification of failures: only failures that are known to be transient are retried."""

from __future__ import annotations

import errno

import psycopg
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

from perseid.errors import EventDataError, SettingsError
from perseid.sinks.failures import SinkError, failing
from perseid.sinks.postgres_tables import LostStagingError
from perseid.sinks.staging import StagingError
from perseid.sinks.transience import LOST_CONNECTION, is_transient


def of_worker(name: str) -> PythonException:
    """Return an error of a Python worker, as Spark reports it."""
    return PythonException(
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 "
        "in stage 1.0 (TID 1) (localhost executor driver): org.apache.spark.api.python.PythonException: "
        'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n    process()\n'
        f"{name}: said so\n\n\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:840)\nCaused by: java.io.EOFException\n"
    )


def of_query(text: str) -> StreamingQueryException:
    return StreamingQueryException(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {text}")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("refused"),
        TimeoutError("slow"),
        OSError(errno.ENOSPC, "No space left on device"),
        psycopg.OperationalError("connection failed"),
        psycopg.errors.AdminShutdown("terminating connection"),
        psycopg.errors.SerializationFailure("could not serialize"),
        psycopg.errors.TooManyConnections("sorry"),
        LostStagingError("gone"),
        SinkError("gone", sink="s", batch=1, transient=True),
        of_worker("ConnectionResetError"),
        of_worker(f"perseid.sinks.staging.StagingError: {LOST_CONNECTION}"),
        of_query("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment"),
        of_query("org.apache.kafka.common.errors.NotLeaderOrFollowerException: no leader"),
        of_query("Python worker exited unexpectedly (crashed)\nCaused by: java.io.EOFException"),
        of_query("java.net.ConnectException: Connection refused"),
        of_query("Lost task 1.0 in stage 8.0: java.io.IOException: Stream closed"),  # a worker that was killed
        of_query("software.amazon.awssdk.services.s3.model.S3Exception: SlowDown (Service: S3, Status Code: 503)"),
        of_query("java.io.IOException: No space left on device"),
    ],
    ids=lambda error: f"{type(error).__name__}: {str(error)[-60:]!r}",
)
def test_recognized_failure_is_transient(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("Connection reset"),
        RuntimeError("unknown"),
        KeyError("a"),
        MemoryError(),
        FileNotFoundError("no such file"),
        PermissionError("not allowed"),
        psycopg.errors.UndefinedTable("no table"),
        psycopg.errors.InsufficientPrivilege("permission denied"),
        psycopg.errors.UniqueViolation("twice"),
        psycopg.errors.NumericValueOutOfRange("large"),
        SettingsError("wrong"),
        EventDataError("no time"),
        SinkError("400", sink="s", batch=1),
        AnalysisException("TABLE_OR_VIEW_NOT_FOUND"),
        Py4JNetworkError("Connection refused"),
        of_worker("ValueError"),
        of_worker("ZeroDivisionError"),
        of_worker("perseid.errors.EventDataError"),
        of_worker("perseid.sinks.staging.StagingError"),
        of_query("[DIVIDE_BY_ZERO] Division by zero."),
        of_query("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: no such topic"),
        of_query("org.apache.kafka.common.errors.TopicAuthorizationException: not authorized"),
        of_query("[CANNOT_LOAD_STATE_STORE] of a file that is cut\nCaused by: java.io.EOFException"),
        of_query("java.io.IOException: Could not read footer"),
        of_query("S3Exception: Access Denied (Service: S3, Status Code: 403)"),
    ],
    ids=lambda error: f"{type(error).__name__}: {str(error)[-60:]!r}",
)
def test_other_failure_is_permanent(error: Exception | None) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize(
    ("error", "transient"),
    [(psycopg.OperationalError("gone"), True), (ValueError("wrong"), False), (StagingError("x"), False)],
)
def test_error_of_a_sink_carries_the_class_of_its_cause(error: Exception, transient: bool) -> None:
    with pytest.raises(SinkError) as caught, failing("sink", None):
        raise error
    assert caught.value.transient is transient
