"""A Java program in its own process: built by Maven, and run one round per request.

The process opens no port. It reads requests from its standard input and ends when that is closed, so it does not
outlive the benchmark.
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

import numpy as np
import numpy.typing as npt

from bench.harness import MissingToolError, Timed
from bench.truth import MatchChecksum

OLDEST_JAVA = 17
BUILD_SECONDS = 900.0
LEAVE_SECONDS = 10.0
LAST_LINES = 5
INSTALL_HINT = (
    f"The benchmark needs a JDK {OLDEST_JAVA} or later and Maven (on Debian: apt-get install openjdk-17-jdk-headless "
    "maven); Maven downloads what it needs from wherever its own settings say."
)


class Program(NamedTuple):
    """A compiled program and the Java executable that runs it."""

    java: str
    classpath: str


def build(sources: Path, folder: Path) -> Program:
    """Compile the Java files next to a ``pom.xml`` into a folder, together with the jars that they need."""
    java = _java()
    folder.mkdir(parents=True, exist_ok=True)
    for path in (sources / "pom.xml", *sources.glob("*.java")):
        shutil.copy(path, folder)
    goals = ("compile", "dependency:copy-dependencies", "-DincludeScope=runtime")
    run_maven(folder, goals, seconds=BUILD_SECONDS, how=INSTALL_HINT)
    target = folder / "target"
    return Program(java, os.pathsep.join((str(target / "classes"), str(target / "dependency" / "*"))))


def run_maven(folder: Path, goals: Sequence[str], *, seconds: float, how: str) -> None:
    """Run Maven goals for the ``pom.xml`` in a folder; the error of a failure includes ``how`` to install it."""
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
        raise MissingToolError(f"Maven could not do it: {_maven_error(made.stdout)} {how}")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(java)
    if found is None:
        raise MissingToolError(f"`{java}` was not found. {INSTALL_HINT}")
    printed = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=LEAVE_SECONDS, check=False)
    version = re.search(r'version "(\d+)', printed.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise MissingToolError(f"`{found}` is version {version[1] if version else 'unknown'}. {INSTALL_HINT}")
    return found


def _maven_error(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return (errors or output.splitlines() or ["it did not say why"])[0].strip()


class RoundsError(Exception):
    """The process ended or did not start; the message has its last output."""


class Rounds:
    """A running process that executes one query round by round."""

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

    def round(self, ids: Path | None = None) -> Timed:
        """Run the query once more; the process measures the time, and then writes the ids of the matches to a file."""
        printed, answers = self._process.stdin, self._process.stdout
        assert printed is not None
        assert answers is not None
        said: list[str] = []
        self._busy = True
        try:
            printed.write("round\n" if ids is None else f"round {ids}\n")
            printed.flush()
        except BrokenPipeError:
            pass  # the process has ended: its output has the reason
        for line in answers:
            result = parse_round(line)
            if result is not None:
                self._busy = False
                return result
            if not line.startswith("\tat "):  # the message of a stack trace only
                said.append(line.strip())
        raise RoundsError("; ".join(said[:LAST_LINES]) or f"ended with status {self._process.wait()}")

    def stop(self) -> None:
        """End the process during a round, from another thread; an idle one may continue to wait."""
        if self._busy:
            self._process.kill()


def read_ids(path: Path) -> npt.NDArray[np.int64]:
    """Ids of matches as a process wrote them, in ascending order."""
    return np.sort(np.fromfile(path, "<i8").astype(np.int64))


def parse_round(line: str) -> Timed | None:
    """Parse the result in a line; None for any other line, such as output of the virtual machine."""
    found = re.fullmatch(r"round (\d+\.\d+) (\d+) (-?\d+)\s*", line)
    return None if found is None else Timed(float(found[1]), MatchChecksum(int(found[2]), int(found[3])))
