"""A Java program in a process of its own: built by Maven, asked for one round at a time.

The process listens on nothing of ours. It reads questions from its standard input and ends where that ends, so also
when we are gone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from bench.harness import MissingToolError, Timed
from bench.truth import Answer

OLDEST_JAVA = 17
BUILD_SECONDS = 900.0
LEAVE_SECONDS = 10.0
LAST_WORDS = 5
HOW = (
    f"The benchmark needs a JDK {OLDEST_JAVA} or later and Maven (on Debian: apt-get install openjdk-17-jdk-headless "
    "maven); Maven downloads what it needs from wherever its own settings say."
)


class Program(NamedTuple):
    """A compiled program and the Java that runs it."""

    java: str
    classpath: str


def build(sources: Path, folder: Path) -> Program:
    """Compile the Java files beside a ``pom.xml`` into a folder, with the jars they run on beside them."""
    java = _java()
    folder.mkdir(parents=True, exist_ok=True)
    for path in (sources / "pom.xml", *sources.glob("*.java")):
        shutil.copy(path, folder)
    goals = ("compile", "dependency:copy-dependencies", "-DincludeScope=runtime")
    run_maven(folder, goals, seconds=BUILD_SECONDS, how=HOW)
    target = folder / "target"
    return Program(java, os.pathsep.join((str(target / "classes"), str(target / "dependency" / "*"))))


def run_maven(folder: Path, goals: Sequence[str], *, seconds: float, how: str) -> None:
    """Have Maven do something with the ``pom.xml`` in a folder; where it cannot, that and ``how`` to get it is said."""
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingToolError(f"`mvn` is not on the path. {how}")
    try:
        made = subprocess.run(
            [maven, "-B", "-q", *goals],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MissingToolError(f"Maven was not done after {seconds:.0f} s. {how}") from None
    if made.returncode != 0:
        raise MissingToolError(f"Maven could not do it: {_reason(made.stdout)} {how}")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(java)
    if found is None:
        raise MissingToolError(f"`{java}` was not found. {HOW}")
    asked = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=LEAVE_SECONDS, check=False)
    version = re.search(r'version "(\d+)', asked.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise MissingToolError(f"`{found}` is version {version[1] if version else 'unknown'}. {HOW}")
    return found


def _reason(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return (errors or output.splitlines() or ["it did not say why"])[0].strip()


class RoundsError(Exception):
    """The process ended, or never began, with what it said last."""


class Rounds:
    """A running process that answers one query, round after round."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._busy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        try:
            self._process.communicate(timeout=LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def round(self) -> Timed:
        """Have the query answered once more; the process keeps the time."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        said: list[str] = []
        self._busy = True
        try:
            asked.write("round\n")
            asked.flush()
        except BrokenPipeError:
            pass  # it has ended: what it said tells why
        for line in answers:
            answer = parse_round(line)
            if answer is not None:
                self._busy = False
                return answer
            if not line.startswith("\tat "):  # of a stack trace only what it is about
                said.append(line.strip())
        raise RoundsError("; ".join(said[:LAST_WORDS]) or f"ended with status {self._process.wait()}")

    def stop(self) -> None:
        """End the process if it is at a round, from another thread; one that waits for its turn may go on waiting."""
        if self._busy:
            self._process.kill()


def parse_round(line: str) -> Timed | None:
    """The answer in a line; None where it is something else, as what the virtual machine may have to say."""
    found = re.fullmatch(r"round (\d+\.\d+) (\d+) (-?\d+)\s*", line)
    return None if found is None else Timed(float(found[1]), Answer(int(found[2]), int(found[3])))
