"""Runs commands of the command line in the test process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from perseid.cli.app import app


def invoked(*arguments: str | Path, given: bytes = b"", environment: Mapping[str, str] | None = None) -> Result:
    """Run a command and return its result; it must not fail with a traceback."""
    done = CliRunner().invoke(app, [str(one) for one in arguments], input=given, env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done
