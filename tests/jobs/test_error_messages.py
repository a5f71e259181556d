"""Messages of errors from Spark: the cause, without the stack of wrapped exceptions."""

from __future__ import annotations

import pytest

from perseid.jobs.spark_errors import first_line
from perseid.spark.inspection import first_message_line

TASK = "Job aborted due to stage failure: Task 1 in stage 9.0 failed 1 times, most recent failure: Lost task 1.0 in stage 9.0 (TID 17) (127.0.0.1 executor driver): "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"An error occurred while calling o637.collectToPython.\n: org.apache.spark.SparkException: {TASK}"
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.apache.Some.where",
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        ),
        ("An error occurred while calling o1.save.\n: java.io.IOException: No space left on device", "java.io.IOException: No space left on device"),
        ("[STREAM_FAILED] Query terminated.\n\tat x", "[STREAM_FAILED] Query terminated."),
        ("Traceback:\n  File x\nValueError: odd\n\tat y", "ValueError: odd"),
        ("Traceback:\nValueError: odd\nperseid.errors.StateError: The state is full.\nRuntimeError: x", "The state is full."),
        ("", "RuntimeError"),
    ],
)  # fmt: skip
def test_spark_error_is_shown_by_its_message(text: str, said: str) -> None:
    assert first_line(RuntimeError(text)) == said


def test_unreadable_state_is_shown_by_its_reason() -> None:
    cut = "An error occurred while calling o121.collectToPython.\n: java.io.EOFException: 1.delta is cut\n\tat x"
    assert first_message_line(RuntimeError(cut)) == "java.io.EOFException: 1.delta is cut"
    assert first_message_line(RuntimeError()) == "RuntimeError"
