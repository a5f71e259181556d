"""Commands in the process of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from perseid.cli.app import app


def invoked(*arguments: str | Path, given: bytes = b"", environment: Mapping[str, str] | None = None) -> Result:
    """What a command did; what goes wrong in it has to be told in words."""
    done = CliRunner().invoke(app, [str(one) for one in arguments], input=given, env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done
