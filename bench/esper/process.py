"""Esper in its own process, which reads events from a file."""

from __future__ import annotations

from pathlib import Path

from bench.esper.queries import TICK_MS, Form
from bench.java import Program
from bench.workload import EventArrays

HERE = Path(__file__).parent
# Heap for 20 million events, allocated before the clock starts; one garbage collector thread was no slower than
# several.
HEAP = "6g"
JVM = ("-XX:+AlwaysPreTouch", "-XX:+UseSerialGC")


def command(program: Program, form: Form, events: Path, count: int, heap: str = HEAP) -> list[str]:
    """Command line of the process that runs one query over a file of events."""
    streams = "by-type" if form.by_type else "together"
    main = ["EsperRounds", str(events), str(count), streams, str(TICK_MS), form.epl]
    return [program.java, f"-Xms{heap}", f"-Xmx{heap}", *JVM, "-cp", program.classpath, *main]


def write_events(events: EventArrays, path: Path) -> None:
    """Write the columns in sequence, in the format of the Java side."""
    columns = ((events.id, "<i8"), (events.ts, "<i8"), (events.key, "<i4"), (events.type, "<i1"), (events.v, "<f8"))
    with path.open("wb") as file:
        for values, kind in columns:
            file.write(values.astype(kind).tobytes())
