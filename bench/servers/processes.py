"""Start, wait for and stop processes by their id."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

STOP_TIMEOUT_S = 20.0
"""Seconds that a server has for a graceful stop."""


class ServerError(Exception):
    """A server did not start; the message has its last output."""


def free_port() -> int:
    """A port on which no process listens now."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5):
        return True
    return False


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, seconds: float = 60.0) -> None:
    """Wait until a server is ready; raise an error with its last output if it ended or took too long."""
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
    """Terminate a process, and kill it if it does not end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
