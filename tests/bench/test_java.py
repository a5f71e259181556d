"""Java baseline processes: the protocol of rounds, failures, and how processes end."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from bench import java
from bench.__main__ import main
from bench.flink.process import HERE
from bench.harness import MissingToolError, Timed
from bench.truth import MatchChecksum


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def test_a_round_is_a_line() -> None:
    assert java.parse_round("round 2.443 12645 12407377963\n") == Timed(2.443, MatchChecksum(12645, 12407377963))


@pytest.mark.parametrize("line", ["", "round", "round 0.9 12645", "Picked up JAVA_TOOL_OPTIONS: -Xint", "round x 1 2"])
def test_other_lines_are_not_rounds(line: str) -> None:
    assert java.parse_round(line) is None


def test_rounds_are_asked_one_by_one_and_the_process_ends_with_its_input() -> None:
    answering = "import sys\nprint('a warning')\nfor n, _ in enumerate(sys.stdin): print('round 0.5', n, 7, flush=True)"
    with java.Rounds(python(answering)) as process:
        assert process.round() == Timed(0.5, MatchChecksum(0, 7))
        process.stop()  # nobody asks: it goes on waiting
        assert process.round() == Timed(0.5, MatchChecksum(1, 7))
    assert process._process.returncode == 0


def test_output_of_a_failed_process_is_in_the_error() -> None:
    with java.Rounds(python("raise SystemExit('no such table')")) as process:
        process._process.wait()
        with pytest.raises(java.RoundsError, match="no such table"):
            process.round()


def test_round_can_be_stopped_from_another_thread() -> None:
    with java.Rounds(python("import sys, time; sys.stdin.readline(); time.sleep(60)")) as process:
        waiting = threading.Timer(0.5, process.stop)
        waiting.start()
        with pytest.raises(java.RoundsError, match="ended with status"):
            process.round()
        waiting.join()


def test_unresponsive_process_is_terminated() -> None:
    with pytest.raises(KeyboardInterrupt), java.Rounds(python("import time; time.sleep(60)")) as process:
        raise KeyboardInterrupt
    assert process._process.returncode is not None


@pytest.mark.parametrize("bench", ["esper", "flink"])
def test_missing_java_is_an_error_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], bench: str
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([bench, "--size", "quick", "--data", str(tmp_path / "data")]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "`java` was not found" in output.err
    assert "apt-get install" in output.err


@pytest.mark.parametrize(
    ("version", "tools", "message"),
    [
        ("11.0.2", ("java", "mvn"), "is version 11"),
        ("17.0.15", ("java",), "`mvn` is not on the path"),
    ],
)
def test_old_java_or_missing_maven_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, tools: tuple[str, ...], message: str
) -> None:
    for tool in tools:
        script(tmp_path / tool, f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=message):
        java.build(HERE, tmp_path / "build")


def test_error_of_maven_is_in_the_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "java", "echo 'openjdk version \"21\"' >&2")
    script(tmp_path / "mvn", "echo '[ERROR] no such artifact'; exit 1")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path), "/bin")))
    with pytest.raises(MissingToolError, match="no such artifact"):
        java.build(HERE, tmp_path / "build")
