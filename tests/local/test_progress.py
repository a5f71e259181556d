"""The line of progress of long local matches: on a terminal and in notebooks only, and cleared at the end."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perseid as ps
from perseid.engines.sequence import local, run
from perseid.engines.sequence.local import match_locally
from perseid.runtime import cold_start, progress
from perseid.runtime.progress import ProgressLine, is_interactive

PATTERN = "pattern p match A a -> B b within 1 hour partition by k return b.n"
WAIT_S = 20


class Terminal:
    """A pseudo terminal as stderr."""

    def __init__(self) -> None:
        self._own, other = pty.openpty()
        self.stderr = os.fdopen(other, "w")
        self._read = b""

    def text(self) -> str:
        """The text that has been written so far."""
        while select.select([self._own], [], [], 0)[0]:
            self._read += os.read(self._own, 65_536)
        return self._read.decode()

    def lines(self) -> list[str]:
        """Returns the lines written over each other, in order."""
        return [line.rstrip() for line in self.text().split("\r") if line.strip()]

    def shown(self) -> str:
        """The line that is on the screen now."""
        line: list[str] = []
        column = 0
        for sign in self.text():
            if sign == "\r":
                column = 0
            else:
                line[column : column + 1] = [sign]
                column += 1
        return "".join(line).rstrip()

    def wait_for(self, text: str) -> None:
        """Wait until a text has been written."""
        end = time.monotonic() + WAIT_S
        while text not in self.text():
            assert time.monotonic() < end, f"{text!r} is not in {self.text()!r}"
            time.sleep(0.002)

    def close(self) -> None:
        self.stderr.close()
        os.close(self._own)


def set_stderr(monkeypatch: pytest.MonkeyPatch, stream: object) -> None:
    """Replace stderr for lines of progress: pytest replaces that of the process between a fixture and its test."""
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal as stderr, with a line that appears at once."""
    made = Terminal()
    set_stderr(monkeypatch, made.stderr)
    monkeypatch.delenv("PERSEID_PROGRESS", raising=False)
    monkeypatch.setattr(progress, "START_S", 0)
    monkeypatch.setattr(progress, "INTERVAL_S", 0.002)
    yield made
    made.close()


def rows(count: int, keys: int = 7) -> list[dict[str, Any]]:
    return [{"ts": n, "type": "AB"[n % 2], "k": n // 2 % keys, "n": n} for n in range(count)]


def when_searched(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Call a function after each search, before its result is read."""
    search = run.PartitionSearch.run

    def searched(self: run.PartitionSearch, *given: int) -> bool:
        ended = search(self, *given)
        then()
        return ended

    monkeypatch.setattr(run.PartitionSearch, "run", searched)


def test_a_long_match_shows_rows_percent_and_time(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    when_searched(monkeypatch, lambda: terminal.wait_for("1,000 of 1,000 rows"))
    assert len(ps.pattern(PATTERN).match(rows(1_000))) == 500
    assert any(re.fullmatch(r"Matching: 1,000 of 1,000 rows, 100 %, 0:\d\d", line) for line in terminal.lines())
    assert "\n" not in terminal.text()
    assert terminal.shown() == ""


def test_short_match_shows_no_progress(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "START_S", WAIT_S)
    ps.pattern(PATTERN).match(rows(1_000))
    assert terminal.text() == ""


def test_several_patterns(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited = iter(["pattern 1 of 2: 100 of 100 rows, 50 %", "pattern 2 of 2: 100 of 100 rows, 100 %"])
    when_searched(monkeypatch, lambda: terminal.wait_for(next(awaited)))
    ps.patterns(PATTERN + "\npattern q match B b -> A a within 1 hour partition by k").match(rows(100))
    assert next(awaited, None) is None
    assert terminal.shown() == ""


def test_fed_patterns(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    when_searched(monkeypatch, lambda: terminal.wait_for("Matching: "))
    asked = ps.patterns(PATTERN + "\npattern q match p x -> p y within 1 hour partition by k")
    assert len(asked.match(rows(140))) > 70
    assert any(line.startswith("Matching: ") and " of 140 rows, " in line for line in terminal.lines())
    assert terminal.shown() == ""


def test_pieces_of_parquet(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.Table.from_pylist(rows(400)), tmp_path / "a.parquet")
    pieces: list[str] = []

    def searched() -> None:
        pieces.append(f"Matching, piece {len(pieces) + 1} of ")
        terminal.wait_for(pieces[-1])

    when_searched(monkeypatch, searched)
    pattern = ps.pattern(PATTERN)
    stream = ps.events(str(tmp_path / "a.parquet"))
    plan = pattern._sources.compile(stream)
    found = match_locally(plan, stream, {}, horizon=None, reported=["p"], columns=(), memory_limit=1_500)
    assert len(found) == 200
    assert len(pieces) > 2
    matching = [line for line in terminal.lines() if line.startswith("Matching")]
    assert f"piece {len(pieces)} of {len(pieces)}: " in matching[-1]
    percents = [int(line.split(" %")[0].rsplit(" ", 1)[1]) for line in matching]
    assert percents == sorted(percents)
    assert percents[-1] >= 100 * (len(pieces) - 1) // len(pieces)
    assert terminal.shown() == ""


def test_an_error_clears_the_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_all", lambda *_, **__: terminal.wait_for("Matching") or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ps.pattern(PATTERN).match(rows(10))
    assert terminal.shown() == ""


def test_message_and_warning_have_separate_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def build_is_running() -> int | None:
        terminal.wait_for("minutes.\r\n\rMatching")
        return 0

    class Build:
        def __init__(self) -> None:
            self.polls = iter([None, build_is_running])

        def poll(self) -> int | None:
            poll = next(self.polls)
            return poll if poll is None else poll()

    monkeypatch.setattr(cold_start, "_BUILDS", {"sequence": Build()})
    when_searched(monkeypatch, lambda: (terminal.wait_for("Matching"), cold_start.wait_for_build("sequence")))
    monkeypatch.setattr(cold_start, "marker_of", lambda engine: None)
    ps.pattern(PATTERN).match(rows(10))
    assert "\rCompiling kernels, once per machine" in terminal.text()


@pytest.mark.parametrize("why", ["variable", "pipe", "closed", "none"])
def test_no_progress_without_a_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    assert is_interactive()
    stream: io.StringIO | None = io.StringIO()
    if why == "variable":
        monkeypatch.setenv("PERSEID_PROGRESS", "0")
    elif why == "closed":
        terminal.stderr.close()
    else:
        stream = stream if why == "pipe" else None
        set_stderr(monkeypatch, stream)
    assert not is_interactive()
    monkeypatch.setattr(progress._WATCHER, "thread", None)
    threads: list[object] = []
    monkeypatch.setattr(progress, "Thread", lambda **_: threads.append(1))
    ps.pattern(PATTERN).match(rows(10))
    assert threads == []
    assert stream is None or stream.getvalue() == ""


def test_notebooks_show_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class OutStream(io.StringIO):
        """As in a notebook: no terminal, and no width."""

    OutStream.__module__ = "ipykernel.iostream"
    stream = OutStream()
    set_stderr(monkeypatch, stream)
    monkeypatch.delenv("PERSEID_PROGRESS", raising=False)
    monkeypatch.setattr(progress, "START_S", 0)

    def shown() -> None:
        end = time.monotonic() + WAIT_S
        while "Matching: " not in stream.getvalue():
            assert time.monotonic() < end
            time.sleep(0.002)

    monkeypatch.setattr(progress, "INTERVAL_S", 0.002)
    when_searched(monkeypatch, shown)
    ps.pattern(PATTERN).match(rows(10))
    *_, last, nothing = stream.getvalue().split("\r")
    assert last.strip() == nothing == ""
    assert "\x1b" not in stream.getvalue()


def test_concurrent_runs_show_one_line(terminal: Terminal) -> None:
    with ProgressLine(), ProgressLine() as other:
        terminal.wait_for("Reading events, 0:")
        other.begin_search(5, 1)
        time.sleep(0.05)
    assert "Matching" not in terminal.text()
    with ProgressLine() as again:
        again.begin_search(5, 1)
        terminal.wait_for("Matching: 0 of 5 rows, 0 %")


def test_the_thread_ends_without_runs(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProgressLine():
        terminal.wait_for("Reading events, 0:")
        watcher = progress._WATCHER.thread
        assert watcher is not None
        monkeypatch.setattr(progress, "IDLE_S", 0)
        time.sleep(0.02)
        assert watcher.is_alive()
    watcher.join(WAIT_S)
    assert progress._WATCHER.thread is None
    with ProgressLine() as again:
        again.begin_search(5, 1)
        terminal.wait_for("Matching: 0 of 5 rows, 0 %")


def test_a_narrow_terminal_cuts_the_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((12, 24)))
    with ProgressLine():
        terminal.wait_for("Reading eve")
    assert set(terminal.lines()) == {"Reading eve"}


def test_a_terminal_that_is_gone_ends_no_match(monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> None:
    monkeypatch.setattr(ProgressLine, "_write", lambda *_: os.write(-1, b""))
    assert len(ps.pattern(PATTERN).match(rows(10))) == 5


@pytest.mark.parametrize("selection", ["", "selection recent "])
def test_the_search_of_one_key_reports_where_it_is(selection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel records the event that it is at, not only the partition."""
    reached: list[float] = []
    evaluator = run.evaluator

    def watched(bytecode: Any, batch: Any, arrays: Any) -> Any:
        evaluate = evaluator(bytecode, batch, arrays)

        def evaluate_and_record(*given: int) -> int:
            reached.append(shown._searched())  # type: ignore[misc]
            return evaluate(*given)

        return evaluate_and_record

    class Shown(ProgressLine):
        def __init__(self) -> None:
            nonlocal shown
            super().__init__()
            shown = self

    shown: ProgressLine = ProgressLine()
    monkeypatch.setattr(run, "evaluator", watched)
    monkeypatch.setattr(local, "ProgressLine", Shown)
    # A text function of two events is evaluated in Python.
    text = f"pattern p match A a -> B b within 1 hour {selection} where concat(a.s, b.s) <> 'x'"
    ps.pattern(text).match([{"ts": n, "type": "AB"[n % 2], "s": str(n)} for n in range(60)])
    assert reached == sorted(reached)
    assert len({round(one, 3) for one in reached}) > 20
    assert reached[0] < 0.1
    assert 0.9 < reached[-1] < 1
