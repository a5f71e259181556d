"""Secret settings of a Spark session: on no command line, and redacted in Spark's UI, REST API, plans and event log.

PySpark passes the settings of a new session to the JVM as arguments, which every user of the machine can read in the
list of processes. Here the JVM starts with the plain settings as arguments and with the secrets in a properties file of
mode 0600, which is removed once the JVM runs; the session then gets the exact values over PySpark's own connection.
"""

from __future__ import annotations

import atexit
import os
import re
import select
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from perseid.redaction import redact

REDACTED_KEYS = "spark.redaction.regex"
REDACTED_OPTIONS = "spark.sql.redaction.options.regex"
DEFAULT_REDACTED = {REDACTED_KEYS: "(?i)secret|password|token|access[.]?key", REDACTED_OPTIONS: "(?i)url"}
"""Spark's own defaults, which remain in force in addition to the names of secrets."""
DRAIN_TIMEOUT_S = 1.0
_OUTPUTS = (1, 2)
"""File descriptors of standard output and standard error."""
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_FILE_OPTION = "--properties-file"
_ON_COMMAND_LINES = re.compile(
    r"JavaOptions$|ExtraClassPath$|extraClassPath$|extraLibraryPath$"
    r"|^spark\.(master|app\.name|driver\.memory|executor\.memory|submit\..*)$"
    r"|^spark\.(rpc|network)|^spark\.auth(?!enticate\.secret$)|^spark\.ssl(?!.*Password)|\.port$"
)
"""Settings that Spark's launcher, or a cluster manager, passes to a JVM as arguments."""


def is_on_command_line(name: str) -> bool:
    """True for a setting that Spark shows in the list of processes, regardless of its source."""
    return _ON_COMMAND_LINES.search(name) is not None


def redacting(names: Collection[str], settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that make Spark redact the values of these names, in addition to those it redacts anyway."""
    if not names:
        return {}
    shown = sorted({form for name in names for form in (name, name.removeprefix("spark.hadoop."))})
    exact = f"(?i:^(?:spark\\.hadoop\\.)?(?:{'|'.join(map(re.escape, shown))})$)"
    return {key: f"{exact}|{settings.get(key) or default}" for key, default in DEFAULT_REDACTED.items()}


def start_driver(plain: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Start the JVM of the driver if none runs, without a secret among its arguments; return its redaction settings.

    Those come from spark-defaults.conf or from the arguments of spark-submit, and must not be replaced by weaker ones.
    """
    from pyspark import SparkContext

    with _submit_arguments(plain, secrets), redacted_output():
        found = {key: SparkContext.getSystemProperty(key) for key in DEFAULT_REDACTED}
    return {key: value for key, value in found.items() if value}


@contextmanager
def _submit_arguments(plain: Mapping[str, str], secrets: Mapping[str, str]) -> Iterator[None]:
    before = os.environ.get(_SUBMIT_ARGS)
    submit_arguments = before or "pyspark-shell"
    with tempfile.TemporaryDirectory(prefix="perseid-") as folder:  # mode 0700
        arguments = [part for name, value in plain.items() for part in ("--conf", f"{name}={value}")]
        if secrets and not any(one.split("=")[0] == _FILE_OPTION for one in shlex.split(submit_arguments)):
            path = Path(folder) / "spark.properties"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in secrets.items())
            arguments += [_FILE_OPTION, str(path), "--load-spark-defaults"]
        os.environ[_SUBMIT_ARGS] = f"{shlex.join(arguments)} {submit_arguments}"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SUBMIT_ARGS]
            else:
                os.environ[_SUBMIT_ARGS] = before


@contextmanager
def redacted_output() -> Iterator[None]:
    """Redact each line of the output of processes that start in this context; the output passes through this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {number: os.dup(number) for number in _OUTPUTS}
    for number, target in saved.items():
        reader, writer = os.pipe()
        os.dup2(writer, number)
        os.close(writer)
        threading.Thread(target=_forward, args=(reader, os.dup(target)), daemon=True).start()
        atexit.register(_drain, reader)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, target in saved.items():
            os.dup2(target, number)
            os.close(target)


def _forward(reader: int, target: int) -> None:
    """Copy lines, redacted, until every writer has closed the pipe."""
    with os.fdopen(reader, "rb", closefd=False) as lines, os.fdopen(target, "wb", buffering=0) as out:
        for line in lines:
            try:
                out.write(redact(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
            except OSError:
                continue  # the target is closed; drain the pipe so that the writer does not block


def _drain(reader: int) -> None:
    """Wait up to ``DRAIN_TIMEOUT_S`` for lines that were written and not yet copied."""
    end = time.monotonic() + DRAIN_TIMEOUT_S
    while time.monotonic() < end and select.select([reader], [], [], 0.02)[0]:
        time.sleep(0.01)


def _escaped(text: str) -> str:
    """Escape a key or a value for ``java.util.Properties``."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
