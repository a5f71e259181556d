"""Esper in a process of its own: built by Maven, fed from a file, asked for one round at a time.

The process listens on nothing. It reads questions from its standard input and ends where that ends, so also when
we are gone.
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

from bench.esper.queries import TICK_MS, Form
from bench.harness import MissingToolError, Timed
from bench.truth import Answer
from bench.workload import EventArrays

HERE = Path(__file__).parent
SOURCES = ("pom.xml", "EsperRounds.java")
OLDEST_JAVA = 17
# Room for 20 million events, taken before the clock starts; one thread collects, which was no slower than several.
JVM = ("-Xms6g", "-Xmx6g", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC")
BUILD_SECONDS = 600.0
LEAVE_SECONDS = 10.0
LAST_WORDS = 5
_HOW = (
    f"The benchmark needs a JDK {OLDEST_JAVA} or later and Maven (on Debian: apt-get install openjdk-17-jdk-headless "
    "maven); Maven downloads Esper from wherever its own settings say."
)


class Program(NamedTuple):
    """The compiled Java side."""

    java: str
    classpath: str

    def command(self, form: Form, events: Path, count: int) -> list[str]:
        """How the process is started that answers one query over a file of events."""
        streams = "by-type" if form.by_type else "together"
        main = ["EsperRounds", str(events), str(count), streams, str(TICK_MS), form.epl]
        return [self.java, *JVM, "-cp", self.classpath, *main]


def build(folder: Path) -> Program:
    """Compile the Java side into a folder, with Esper's jars beside it."""
    java, maven = _java(), shutil.which("mvn")
    if maven is None:
        raise MissingToolError(f"`mvn` is not on the path. {_HOW}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        shutil.copy(HERE / name, folder)
    command = [maven, "-B", "-q", "compile", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        made = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MissingToolError(f"Maven was not done after {BUILD_SECONDS:.0f} s. {_HOW}") from None
    if made.returncode != 0:
        raise MissingToolError(f"Maven could not build the Java side: {_reason(made.stdout)} {_HOW}")
    target = folder / "target"
    return Program(java, os.pathsep.join((str(target / "classes"), str(target / "dependency" / "*"))))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(java)
    if found is None:
        raise MissingToolError(f"`{java}` was not found. {_HOW}")
    asked = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=LEAVE_SECONDS, check=False)
    version = re.search(r'version "(\d+)', asked.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise MissingToolError(f"`{found}` is version {version[1] if version else 'unknown'}. {_HOW}")
    return found


def _reason(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return (errors or output.splitlines() or ["it did not say why"])[0].strip()


def write_events(events: EventArrays, path: Path) -> None:
    """The columns one after the other, as the Java side reads them."""
    columns = ((events.id, "<i8"), (events.ts, "<i8"), (events.key, "<i4"), (events.type, "<i1"), (events.v, "<f8"))
    with path.open("wb") as file:
        for values, kind in columns:
            file.write(values.astype(kind).tobytes())


class EsperError(Exception):
    """Esper's process ended, or never began, with what it said last."""


class Rival:
    """A running process that answers one query, round after round."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

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
        """Have all events sent once more; the seconds are those of sending alone."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        said: list[str] = []
        try:
            asked.write("round\n")
            asked.flush()
        except BrokenPipeError:
            pass  # it has ended: what it said tells why
        for line in answers:
            answer = parse_round(line)
            if answer is not None:
                return answer
            if not line.startswith("\tat "):  # of a stack trace only what it is about
                said.append(line.strip())
        raise EsperError("; ".join(said[:LAST_WORDS]) or f"ended with status {self._process.wait()}")


def parse_round(line: str) -> Timed | None:
    """The answer in a line; None where it is something else, as what the virtual machine may have to say."""
    found = re.fullmatch(r"round (\d+\.\d+) (\d+) (\d+)\s*", line)
    return None if found is None else Timed(float(found[1]), Answer(int(found[2]), int(found[3])))
