"""Match the first small local inputs of a process in plain Python, without loading or compiling kernels.

Kernels of one engine take a minute or more to compile, and seconds to load. They are compiled once for a machine, a
version of the source and a version of Numba, by another process; a marker file in the cache folder says that it is done.
Small inputs run on the same source as plain Python: until the kernels are compiled, and for the first rows of every
process. A search that turns out to be long continues compiled.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock

from perseid.runtime import jit
from perseid.runtime.progress import write_message

PLAIN_ROWS = 1_000
"""Rows of one input up to which plain Python takes less time than a first compilation."""
PLAIN_ROWS_OF_PROCESS = 2_000
"""Rows of all inputs of a process up to which plain Python takes less time than loading compiled kernels."""
STALE_LOCK_S = 900
"""Age of a lock file at which the process that wrote it is taken for dead."""
POLL_INTERVAL_S = 0.1

ENTRY_MODULES = {"sequence": "perseid.engines.sequence.run"}
"""By engine, the module that imports all its kernels."""

_LOCK = Lock()
_BUILDS: dict[str, subprocess.Popen[bytes]] = {}
_ROWS = Counter[str]()
"""By engine, rows that this process has matched in plain Python."""


@contextmanager
def small_input(engine: str, rows: int | None) -> Iterator[None]:
    """Run kernels as plain Python inside this context if none is loaded in this process and the input is small.

    ``rows`` is None for input of unknown size. It waits for the compilation, as larger input does.
    """
    in_use = not jit.COMPILED or jit.is_any_compiled(f"perseid.engines.{engine}.")
    marker = None if in_use else marker_of(engine)
    if marker is None:
        yield
        return
    is_built = marker.exists()
    if not is_built:
        _start(engine, marker)
    most = PLAIN_ROWS if not is_built else min(PLAIN_ROWS, PLAIN_ROWS_OF_PROCESS - _ROWS[engine])
    if rows is not None and rows <= most:
        _ROWS[engine] += rows
        with jit.plain_kernels():
            yield
    else:
        wait_for_build(engine)
        yield


@cache
def marker_of(engine: str) -> Path | None:
    """The file that says that the kernels of an engine are compiled; None without a cache folder."""
    folder = jit.cache_folder()
    if folder is None:
        return None
    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = "unknown"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return folder / f"compiled-{jit.source_hash(ENTRY_MODULES[engine])}-python-{python}-numba-{numba}"


def mark_compiled(engine: str) -> None:
    """Record that the kernels of an engine are compiled."""
    marker = marker_of(engine)
    if marker is not None:
        marker.touch()
        _lock_of(marker).unlink(missing_ok=True)


def _lock_of(marker: Path) -> Path:
    return marker.with_name(f"{marker.name}.lock")


def _start(engine: str, marker: Path) -> None:
    """Start the compilation in another process, unless one is under way."""
    with _LOCK:
        if engine in _BUILDS:
            return
        lock = _lock_of(marker)
        try:
            if lock.exists() and time.time() - lock.stat().st_mtime > STALE_LOCK_S:
                lock.unlink()
            lock.touch(exist_ok=False)
        except OSError:
            return
        command = [sys.executable, "-m", "perseid.runtime.precompile", engine]
        quiet = subprocess.DEVNULL
        try:
            _BUILDS[engine] = subprocess.Popen(  # noqa: S603 (this Python, on a module of this package)
                command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
            lock.write_text(str(_BUILDS[engine].pid), encoding="ascii")
        except OSError:
            lock.unlink(missing_ok=True)


def wait_for_build(engine: str) -> None:
    """Wait for a compilation that this process started, with one line if a person waits for it."""
    build = _BUILDS.get(engine)
    if build is None or build.poll() is not None:
        return
    write_message("Compiling kernels, once per machine; this takes one to two minutes.")
    while build.poll() is None:
        time.sleep(POLL_INTERVAL_S)
