"""Commands of Perseid as processes, each of which leads its own process group, so that a signal also ends its JVM."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

STOP_TIMEOUT_S = 120.0
"""Seconds that a job has to finish its batch."""
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The processes run for a minute or two: this reduces the time of the JIT compiler."""


class DemonstrationError(Exception):
    """A step failed; the message says which, with the end of the log."""


class PerseidProcess:
    """``perseid …`` with its output in a log."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
        clean |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": SHORT_LIVED_JVM}
        with log.open("ab") as out:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "perseid", *arguments, "--master", "local[2]"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=clean,
                start_new_session=True,
            )

    def wait(self, seconds: float) -> None:
        """Wait for the end of a command that ends by itself."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise DemonstrationError(f"A command did not end within {seconds:.0f} s.\n{self.log_tail()}") from None
        if status != 0:
            raise DemonstrationError(f"A command ended with status {status}.\n{self.log_tail()}")

    def kill(self) -> None:
        """Kill the driver and its JVM with SIGKILL; the Python workers end when their JVM is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = STOP_TIMEOUT_S) -> None:
        """End a job after its batch, as SIGTERM does."""
        self.process.send_signal(signal.SIGTERM)
        self.wait(seconds)

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class Job:
    """A job that runs until it is stopped or killed, and can be started again on its checkpoint."""

    def __init__(self, file: Path, checkpoint: Path, log: Path, timeout_s: float) -> None:
        self.log = log
        self._file, self._checkpoint, self._timeout_s = file, checkpoint, timeout_s
        self._running: PerseidProcess | None = None

    def start(self, *options: str) -> None:
        self._running = PerseidProcess(["run", str(self._file), *options], self.log)

    @property
    def running(self) -> PerseidProcess:
        assert self._running is not None
        return self._running

    def close(self) -> None:
        """Kill the job if it still runs."""
        if self._running is not None:
            self._running.kill()

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + self._timeout_s
        while not is_true():
            if self.running.process.poll() is not None:
                raise DemonstrationError(f"The job ended before {what}.\n{self.running.log_tail()}")
            if time.monotonic() > end:
                raise DemonstrationError(f"{what}: not within {self._timeout_s:.0f} s.\n{self.running.log_tail()}")
            time.sleep(0.1)

    def status(self) -> dict[str, Any]:
        """The object that ``perseid status --json`` prints; empty before the job has written it."""
        with contextlib.suppress(OSError, ValueError):
            status: dict[str, Any] = json.loads((self._checkpoint / "perseid" / "status.json").read_text())
            return status
        return {}

    def newest_batch(self, folder: str) -> int:
        """Number of the newest batch in ``offsets`` (begun) or ``commits`` (written)."""
        names = [path.name for path in (self._checkpoint / folder).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)
