"""Starts a job with its child processes, and ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOOKS = Path(__file__).with_name("hooks")
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A job runs for at most a minute here: this reduces the time of the JIT compiler."""
STOP_TIMEOUT_S = 180.0
"""Seconds that a job has for a graceful stop."""


class JobProcess:
    """``perseid run`` in its own session, so that exactly its processes can be found."""

    def __init__(self, file: Path, log: Path, hooks: Path | None = None, more: Sequence[str] = ()) -> None:
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTEST"))}
        paths = [str(ROOT / "src"), *([] if hooks is None else [str(HOOKS)])]
        clean |= {"PYTHONPATH": os.pathsep.join(paths), "SPARK_LOCAL_IP": "127.0.0.1"}
        clean["SPARK_SUBMIT_OPTS"] = SHORT_LIVED_JVM
        if hooks is not None:
            hooks.mkdir(exist_ok=True)
            clean["PERSEID_HOOKS"] = str(hooks)
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "perseid", "run", str(file), "--master", "local[2]", *more],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=clean,
                start_new_session=True,
            )

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def processes(self) -> list[int]:
        """Every process of its session: Spark's workers have their own process group, but not their own session."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError):
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.process.pid and state != "Z":
                    found.append(int(stat.parent.name))
        return found

    def workers(self) -> list[int]:
        """The Python processes that run the kernel."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    found.append(pid)
        return found

    def kill(self) -> None:
        """Kill all processes at once with SIGKILL."""
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        self.process.wait(STOP_TIMEOUT_S)

    def kill_workers(self) -> int:
        """Kill only the workers and return their number."""
        hit = self.workers()
        for pid in hit:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(hit)

    def leave(self) -> int:
        """Stop gracefully and return the exit status."""
        if not self.ended:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)
