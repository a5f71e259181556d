"""One line of progress on stderr for a long run that a person waits for, overwritten in place and cleared at the end.

A thread writes the line, also while a kernel runs: kernels release the lock of the interpreter. The run only names its
phases, and the thread reads the number of searched rows from the arena of the search. One thread serves all runs, because
starting one takes longer than a small match may wait.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import TextIO

START_S = 2.0
"""Run time before the line appears."""
INTERVAL_S = 0.25
"""Time between two updates of the line."""
IDLE_S = 5.0
"""Time without a run after which the thread ends."""
DEFAULT_WIDTH = 80
"""Width of the line, in characters, if the terminal does not report its own."""


def is_interactive() -> bool:
    """True if stderr is a terminal or the output of a notebook, unless the environment variable PERSEID_PROGRESS is 0."""
    stream = sys.stderr
    if stream is None or getattr(stream, "closed", False) or os.environ.get("PERSEID_PROGRESS") == "0":
        return False
    return type(stream).__module__.startswith("ipykernel.") or stream.isatty()


def write_message(text: str) -> None:
    """Write a message to stderr if a person waits, on a line of its own."""
    if is_interactive():
        shown = _WATCHER.run
        if shown is not None:
            shown.clear()
        sys.stderr.write(f"{text}\n")


class ProgressLine:
    """The progress of one run. As a context, it writes the line if a person waits."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._piece, self._pieces = 1, 1
        self._pattern, self._patterns = 1, 1
        self._rows = 0
        self._phase = "Reading events"
        self._searched: Callable[[], float] | None = None
        self._written = 0
        self._writing = Lock()
        self._stream: TextIO | None = None

    def __enter__(self) -> ProgressLine:
        if is_interactive():
            self._stream = sys.stderr
            if not _WATCHER.show(self):
                self._stream = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            _WATCHER.hide()
            self.clear()
            self._stream = None

    def begin_piece(self, piece: int, pieces: int) -> None:
        """Begin to read one of several pieces of the input, counted from 1."""
        self._phase, self._searched = "Reading", None
        self._piece, self._pieces = piece, pieces

    def begin_search(self, rows: int, patterns: int) -> None:
        """Begin to search the rows that were read, once for each pattern."""
        self._rows, self._patterns = rows, patterns
        self.begin_pattern(1)

    def begin_pattern(self, number: int) -> None:
        """Begin to search for a pattern, counted from 1."""
        self._pattern = number
        self.watch(lambda: 0.0)

    def watch(self, searched: Callable[[], float]) -> None:
        """Read the fraction of the rows that are searched from a function, which another thread calls."""
        self._searched = searched

    def begin_output(self) -> None:
        """Begin to build the rows of matches."""
        self._phase, self._searched = "Building matches", None

    def line(self) -> str:
        """The line for the current state."""
        seconds, searched = int(time.monotonic() - self._started_s), self._searched
        elapsed = f"{seconds // 60}:{seconds % 60:02}"
        piece = [f"piece {self._piece:,} of {self._pieces:,}"] if self._pieces > 1 else []
        if searched is None:
            return f"{' '.join([self._phase, *piece])}, {elapsed}"
        pattern = [f"pattern {self._pattern:,} of {self._patterns:,}"] if self._patterns > 1 else []
        fraction = min(max(searched(), 0.0), 1.0)
        done = (self._pattern - 1 + fraction) / self._patterns
        percent = min(int(100 * (self._piece - 1 + done) / self._pieces), 100)
        where = ", ".join(["Matching", *piece, *pattern])
        return f"{where}: {int(fraction * self._rows):,} of {self._rows:,} rows, {percent} %, {elapsed}"

    def clear(self) -> None:
        """Clear the line if it is shown; the next update writes it again."""
        with self._writing, suppress(OSError, ValueError):
            self._write("")

    def update(self) -> None:
        """Write the current line, once the run has taken long enough."""
        if time.monotonic() - self._started_s >= START_S:
            line = self.line()
            with self._writing, suppress(OSError, ValueError):  # the stream is closed, or its terminal is gone
                if _WATCHER.run is self:
                    self._write(line)

    def _write(self, line: str) -> None:
        """Replace the shown line. Spaces clear it, because notebooks know no control sequence for that."""
        if self._stream is None or not (line or self._written):
            return
        line = line[: _width(self._stream) - 1]
        end = "" if line else "\r"
        self._stream.write(f"\r{line.ljust(self._written)}{end}")
        self._stream.flush()
        self._written = len(line)


def _width(stream: TextIO) -> int:
    """The width of a terminal in characters."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


class _Watcher:
    """The thread that updates the line of a run. It ends without a run for a while, and starts again with the next."""

    def __init__(self) -> None:
        self.run: ProgressLine | None = None
        """The run that shows its line."""
        self.thread: Thread | None = None
        self._lock = Lock()

    def show(self, run: ProgressLine) -> bool:
        """Show the line of a run; False if another run shows one."""
        with self._lock:
            if self.run is not None:
                return False
            self.run = run
            if self.thread is None or not self.thread.is_alive():  # after a fork it is not
                self.thread = Thread(target=self._update, name="perseid-progress", daemon=True)
                self.thread.start()
            return True

    def hide(self) -> None:
        """Show no run."""
        with self._lock:
            self.run = None

    def _update(self) -> None:
        idle_s = 0.0
        while True:
            time.sleep(INTERVAL_S)
            run = self.run
            if run is not None:
                idle_s = 0.0
                run.update()
                continue
            idle_s += INTERVAL_S
            with self._lock:
                if idle_s >= IDLE_S and self.run is None:
                    self.thread = None
                    return


_WATCHER = _Watcher()
