"""Processes that are started, waited for, and stopped by their id."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

LEAVE = 20.0
"""Seconds that a server has to leave when it is asked to."""


class ServerError(Exception):
    """A server did not come up, with what it said last."""


def free_port() -> int:
    """A port nobody listens on at this moment."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5):
        return True
    return False


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, seconds: float = 60.0) -> None:
    """Until a server is ready; an error with its last words where it ended, or took too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        if ready():
            return
        time.sleep(0.1)
    last = log.read_text(errors="replace")[-2000:] if log.exists() else ""
    raise ServerError(f"{process.args!r} was not ready after {seconds:.0f} s.\n{last}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to leave, then make it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LEAVE)
