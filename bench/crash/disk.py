"""A disk that can be filled: a small file system if this process may mount one, otherwise a limit on file sizes."""

from __future__ import annotations

import contextlib
import errno
import resource
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

MEGABYTES = 512


class Disk:
    """Disk space for a job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={MEGABYTES}m", "perseid-crash", str(folder)]
        try:
            self.mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            self.mounted = False
        self._limited: dict[int, tuple[int, int]] = {}

    @property
    def way(self) -> str:
        return "a file system without room" if self.mounted else "RLIMIT_FSIZE"

    def fill(self, processes: Iterable[int]) -> None:
        """Make all further writes fail; with the limit on file sizes, only those of these processes."""
        if self.mounted:
            piece = bytes(1 << 20)
            with (self.folder / "ballast").open("wb", buffering=0) as out:
                while True:
                    try:
                        out.write(piece)
                    except OSError as error:
                        if error.errno == errno.ENOSPC and len(piece) == 1:
                            return
                        piece = piece[: max(1, len(piece) // 2)]
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (256, hard))
                self._limited[pid] = (soft, hard)

    def free(self) -> None:
        (self.folder / "ballast").unlink(missing_ok=True)
        for pid, limits in self._limited.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        self._limited.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()
        if self.mounted:
            # Lazy unmount: a process of a job that was just killed may still have an open file.
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False, capture_output=True)
