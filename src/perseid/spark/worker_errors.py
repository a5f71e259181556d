"""Hints for failures of Spark's Python workers that a wrong Python or a missing package causes."""

from __future__ import annotations

import re

GUIDE = "docs/guides/executors.md"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(perseid|lark|numba|numpy|pyarrow)\b[^']*'")
_OTHER_PYTHON = ("PYTHON_VERSION_MISMATCH", "Cannot run program")
_SET = (
    "Set PYSPARK_PYTHON before the session starts, or spark.pyspark.python, to a Python with the minor version of the "
    f"driver, perseid and its dependencies. {GUIDE} describes each way; `perseid doctor` checks the executors."
)


def worker_hint(error: BaseException) -> str | None:
    """Settings to change if Python workers lack a package of perseid or run another Python; None for other errors."""
    text = str(error)
    found = _MISSING.search(text)
    if found is not None:
        return f"{found[1]} is not installed for the Python of Spark's workers. {_SET}"
    if any(sign in text for sign in _OTHER_PYTHON):
        return f"Spark's workers cannot run the Python of the driver. {_SET}"
    return None
