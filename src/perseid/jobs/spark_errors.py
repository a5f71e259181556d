"""Reduce errors of Spark to one sentence: the error of Perseid or Python in them, without stack traces of Java."""

from __future__ import annotations

import re

from perseid.redaction import redact
from perseid.spark.readable_sql import readable_sql
from perseid.spark.worker_errors import worker_hint

_PYTHON_ERROR = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
"""The last line of a Python traceback."""
_HINT = re.compile(r"^perseid\.\S*Error: .+\n {2}= (.+)$", re.MULTILINE)
"""The hint below the last line of a traceback."""
_PY4J_PREFIX = "An error occurred while calling "
_FAILED_TASK = re.compile(r"^.* most recent failure: Lost task .*?executor [^)]*\): ")


def is_python_error(error: BaseException) -> bool:
    """True if an error of Spark contains a Python error: a search failed, not a connector of Spark."""
    return _PYTHON_ERROR.search(str(error)) is not None and "Traceback" in str(error)


def hint_of(error: BaseException) -> str | None:
    """Return the hint for an error of Spark: for workers that cannot run Perseid, or of the Perseid error in it."""
    found = _HINT.findall(redact(readable_sql(str(error))))
    return worker_hint(error) or (found[-1] if found else None)


def first_line(error: BaseException) -> str:
    """Return the message of an error of Spark in one line: the message of a Perseid error if it contains one."""
    text = redact(readable_sql(str(error)))
    found = _PYTHON_ERROR.findall(text)
    if found:
        ours = [line for name, line in found if name.startswith("perseid.")]
        name, line = found[-1]
        return ours[-1] if ours else f"{name.rpartition('.')[2]}: {line}"
    lines = [line for line in text.strip().splitlines() if not line.startswith(_PY4J_PREFIX)]
    # The message of a failed task starts with the number of the task.
    line = _FAILED_TASK.sub("", next(iter(lines), "")).removeprefix(": ")
    return line or type(error).__name__
