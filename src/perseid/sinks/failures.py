"""Errors of sinks: the sink, the batch and the cause, without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from perseid.errors import PerseidError
from perseid.redaction import redact
from perseid.settings import Secret
from perseid.sinks.contract import Batch
from perseid.sinks.transience import is_transient
from perseid.spark.readable_sql import readable_sql
from perseid.spark.worker_errors import worker_hint

LONGEST = 800
"""Maximum characters of the cause in a message."""
_SECRETIVE = re.compile(
    r"password|passwd|passphrase|secret|token(?!.endpoint)|jaas|credential|authorization|cookie|signature|(api|access|private|account|keystore)[._-]?key",
    re.IGNORECASE,
)
_NOISE = ("Traceback (most recent call last)", "An exception was thrown from the Python worker", "JVM stacktrace")


class SinkError(PerseidError):
    """A batch that could not be written; it is retried when the job is started again.

    ``transient``: a retry of the job may succeed. ``interrupted``: the job was stopped while the sink waited for a
    retry.
    """

    code = "sink"

    def __init__(
        self,
        message: str,
        *,
        sink: str,
        batch: int | None,
        hint: str | None = None,
        transient: bool = False,
        interrupted: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.sink = sink
        self.batch = batch
        self.transient = transient
        self.interrupted = interrupted


class RestoredCheckpointError(SinkError):
    """The checkpoint was restored from an older copy and the sink cannot accept its batches; the hint is the remedy."""

    code = "restored-checkpoint"


@contextmanager
def failing(sink: str, batch: Batch | None, secrets: Collection[str] = ()) -> Iterator[None]:
    """Convert every exception inside to an error of this sink."""
    try:
        yield
    except SinkError:
        raise
    except Exception as error:
        outcome = "This sink cannot be used" if batch is None else f"Batch {batch.number} was not written"
        hint = error.hint if isinstance(error, PerseidError) else worker_hint(error)
        number = None if batch is None else batch.number
        # Without "from None" the original text would be shown, with any secrets in it.
        message = f"{sink}: {outcome}: {error_summary(error, secrets)}"
        raise SinkError(message, sink=sink, batch=number, hint=hint, transient=is_transient(error)) from None


def error_summary(error: BaseException, secrets: Collection[str] = ()) -> str:
    """The message of an error in one bounded paragraph: without stack traces, without secrets."""
    text = error.message if isinstance(error, PerseidError) else readable_sql(str(error))
    lines = (line.rstrip() for line in redact(text, secrets).splitlines())
    summary = " ".join(line for line in lines if line and not line[0].isspace() and not line.startswith(_NOISE))
    summary = "".join(c if c.isprintable() else "�" for c in summary) or type(error).__name__
    return summary if len(summary) <= LONGEST else f"{summary[:LONGEST]} …"


def without_literal_secrets(options: dict[str, str | Secret]) -> dict[str, str | Secret]:
    """Return the options; raise if one with the name of a secret is no reference to a secret."""
    for name, value in options.items():
        if not isinstance(value, Secret) and _SECRETIVE.search(name):
            raise ValueError(f"{name!r} is a secret and must not be in the file; use {{env: NAME}} or {{file: PATH}}")
    return options
