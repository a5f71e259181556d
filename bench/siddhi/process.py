"""Siddhi in its own process, which reads events from a file."""

from __future__ import annotations

from pathlib import Path

from bench.java import Program
from bench.siddhi.queries import SiddhiForm

HERE = Path(__file__).parent
HEAP = "4g"
JVM = ("-XX:+UseSerialGC",)


def command(program: Program, form: SiddhiForm, events: Path, count: int, heap: str = HEAP) -> list[str]:
    """Command line of the process that runs one query over a file of events, as ``bench.esper.process`` writes it."""
    java = [program.java, f"-Xms{heap}", f"-Xmx{heap}", *JVM, "-cp", program.classpath]
    least = "none" if form.minimum_sum == float("-inf") else str(form.minimum_sum)
    return [*java, "SiddhiRounds", str(events), str(count), least, form.app]
