"""A PostgreSQL server in its own folder; if run as root, it uses Debian's user ``postgres``, because it refuses
root."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.harness import MissingToolError
from bench.servers.processes import free_port

SECONDS = 60


def _program(name: str) -> str:
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name) or ""]
    if not found[-1]:
        raise MissingToolError(f"`{name}` was not found. On Debian: apt-get install postgresql")
    return found[-1]


class Postgres:
    """Started by ``with``, with an empty database ``postgres``."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self._ctl = _program("pg_ctl")
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        self._run(_program("initdb"), "-A", "trust", "-U", "postgres", "-D", str(folder / "data"), "--no-sync")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def _run(self, *command: str) -> None:
        whole = (["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []) + list(command)
        made = subprocess.run(
            whole, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
        if made.returncode != 0:
            raise MissingToolError(f"{command[0]} said: {made.stderr.decode(errors='replace')[-500:]}")

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"
        log = str(self.folder / "server.log")
        self._run(self._ctl, "-w", "-D", str(self.folder / "data"), "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._run(self._ctl, "-w", "-D", str(self.folder / "data"), "-m", "fast", "stop")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
