"""Java programs beside us: what they are asked, what they answer, and how they end."""

from __future__ import annotations

import sys
import threading

import pytest

from bench import java
from bench.harness import Timed
from bench.truth import Answer


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def test_a_round_is_a_line() -> None:
    assert java.parse_round("round 2.443 12645 12407377963\n") == Timed(2.443, Answer(12645, 12407377963))


@pytest.mark.parametrize("line", ["", "round", "round 0.9 12645", "Picked up JAVA_TOOL_OPTIONS: -Xint", "round x 1 2"])
def test_other_lines_are_no_rounds(line: str) -> None:
    assert java.parse_round(line) is None


def test_rounds_are_asked_one_by_one_and_the_process_ends_with_its_input() -> None:
    answering = "import sys\nprint('a warning')\nfor n, _ in enumerate(sys.stdin): print('round 0.5', n, 7, flush=True)"
    with java.Rounds(python(answering)) as process:
        assert process.round() == Timed(0.5, Answer(0, 7))
        process.stop()  # nobody asks: it goes on waiting
        assert process.round() == Timed(0.5, Answer(1, 7))
    assert process._process.returncode == 0


def test_a_process_that_dies_is_quoted() -> None:
    with java.Rounds(python("raise SystemExit('no such table')")) as process:
        process._process.wait()
        with pytest.raises(java.RoundsError, match="no such table"):
            process.round()


def test_a_round_can_be_ended_from_another_thread() -> None:
    with java.Rounds(python("import sys, time; sys.stdin.readline(); time.sleep(60)")) as process:
        waiting = threading.Timer(0.5, process.stop)
        waiting.start()
        with pytest.raises(java.RoundsError, match="ended with status"):
            process.round()
        waiting.join()


def test_a_process_that_does_not_answer_is_ended() -> None:
    with pytest.raises(KeyboardInterrupt), java.Rounds(python("import time; time.sleep(60)")) as process:
        raise KeyboardInterrupt
    assert process._process.returncode is not None
