"""``python -m bench gestures``: paper 2's gesture case, Section 7.4: bodies that turn the right arm, frame by frame.

It times ``pattern.match(ps.graph.frames(…))``, from a table of frames in memory to the gestures, in two processes with
half of the bodies each; and also the conversion of the frames alone to atomic events, ``frames.events(…)``. A time
counts only if every gesture and every atomic event is found, as computed from a cycle
(:func:`examples.gesture_frames.expected`). :mod:`bench.models.one_model` measures the paper's own setting.
"""

from __future__ import annotations

import statistics
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import perseid as ps
from bench.harness import Clock, Record, Report, Side, print_line, progress, run_rounds
from bench.models.one_model import POSTURES, measure_one_model
from examples import gesture_frames as g

TEXT = Path(__file__).parents[2] / "examples" / "gestures.perseid"
PROCESSES = 2
BODIES = (1, 2, 4, 8, 16, 24, 25)
MANY = 1_000
PAPER = {1: 414_248, 2: 380_749, 4: 396_562, 8: 251_442, 16: 210_017, 24: 145_322, 25: 123_664}
"""Atomic events per second in the paper's Table 3, by bodies; on other hardware."""
ONE_MODEL_BODIES = (1, 24)
ONE_MODEL_FRAMES = {"quick": 2 * g.CYCLE, "standard": 10 * g.CYCLE, "full": 25 * g.CYCLE}
SIZES = {"quick": (300_000, 3), "standard": (2_400_000, 5), "full": (9_600_000, 5)}
"""Frames of bodies in a table, and rounds."""
LIMITS = {"quick": (55.0, 30.0), "standard": (900.0, 120.0), "full": (3_600.0, 600.0)}


class BodyGroup:
    """Half of the bodies, with their frames in memory and the calls to time."""

    def __init__(self, bodies: int, frames: int, seed: int) -> None:
        model = ps.graph.metamodel(TEXT.read_text(encoding="utf-8"))
        self.pattern = ps.patterns(model)["forward"]
        self.stream = ps.graph.frames(
            g.traces(bodies, frames, seed=seed),
            model,
            each=g.body_parts(),
            columns=g.body_columns(),
            key="person",
            observe="raised",
        )

    def run_query(self, query: str) -> int:
        return len(self.pattern.match(self.stream)) if query == "gestures" else self.stream.events(*POSTURES).num_rows


def _serve(pipe: Connection, bodies: int, frames: int, seed: int) -> None:
    group = BodyGroup(bodies, frames, seed)
    pipe.send("ready")
    while (query := pipe.recv()) != "end":
        pipe.send(group.run_query(query))


class WorkerPool:
    """Processes with a part of the bodies each, which run calls together."""

    def __init__(self, bodies: int, frames: int) -> None:
        shares = [bodies // PROCESSES + (i < bodies % PROCESSES) for i in range(min(PROCESSES, bodies))]
        self.expected = [0, 0]
        self.pipes: list[Connection] = []
        self.members: list[Any] = []
        for seed, share in enumerate(shares):
            found = g.expected(share, frames, seed=seed)
            self.expected = [a + b for a, b in zip(self.expected, found, strict=True)]
            here, there = get_context("spawn").Pipe()
            member = get_context("spawn").Process(target=_serve, args=(there, share, frames, seed), daemon=True)
            member.start()
            self.pipes.append(here)
            self.members.append(member)
        for pipe in self.pipes:
            pipe.recv()

    def run_query(self, query: str) -> int:
        for pipe in self.pipes:
            pipe.send(query)
        return sum(pipe.recv() for pipe in self.pipes)

    def end(self) -> None:
        for pipe in self.pipes:
            pipe.send("end")
        for member in self.members:
            member.join()


def run(size: str) -> Report:
    """Measure the figures at a size."""
    report = Report("gestures", size)
    total, rounds = SIZES[size]
    clock = Clock(*LIMITS[size])
    lines = [f"{'bodies':>8}  {'atomic events/s':>16}  {'of frames alone':>16}  {'paper':>9}"]
    for bodies in (*((1, 24) if size == "quick" else BODIES), MANY):
        frames = max(total // bodies, g.CYCLE) // g.CYCLE * g.CYCLE
        progress(f"{bodies} bodies, {frames:,} frames each")
        records, events = _measured(bodies, frames, clock, rounds)
        rates = {name: _rate(record, events) for name, record in records.items()}
        lines.append(_line(bodies, rates))
        name = "many" if bodies == MANY else str(bodies)
        for record in records:
            reason = records[record].failure or ""
            report.add(f"bodies.{name}.{record}", rates[record], reason)
        report.records.update({f"{name}.{key}": record for key, record in records.items()})
        if bodies == MANY:
            rate = rates["gestures"]
            held = None if rate is None else rate / events * bodies * frames / g.FRAMES_PER_SECOND
            report.add("held_at_25_frames_per_second", held, records["gestures"].failure or "")
    print_line("\n".join(lines))
    print_line("the paper's figures are of other hardware\n")
    _measure_like_the_paper(report, size)
    return report


def _measure_like_the_paper(report: Report, size: str) -> None:
    """Measure all bodies in one live model, one transaction per frame, by the engine for any model; one process."""
    text = TEXT.read_text(encoding="utf-8")
    print_line(f"{'bodies':>8}  {'atomic events/s':>16}  {'x 25 frames/s':>14}  {'paper, events/s':>16}")
    measure_one_model(text, 1, g.CYCLE)
    for bodies in ONE_MODEL_BODIES:
        ran = measure_one_model(text, bodies, ONE_MODEL_FRAMES[size])
        report.add(f"one_model.{bodies}", ran.rate)
        report.add(f"one_model.{bodies}.speed", ran.speed)
        print_line(f"{bodies:>8}  {ran.rate:>16,.0f}  {ran.speed:>14.2f}  {PAPER[bodies]:>16,}")
    print_line("")


def _measured(bodies: int, frames: int, clock: Clock, rounds: int) -> tuple[dict[str, Record], int]:
    workers = WorkerPool(bodies, frames)
    try:
        events, gestures = workers.expected
        queries = [
            Side("gestures", lambda: workers.run_query("gestures"), gestures),
            Side("events", lambda: workers.run_query("events"), events),
        ]
        return run_rounds(queries, clock, rounds=rounds), events
    finally:
        workers.end()


def _rate(record: Record, events: int) -> float | None:
    return None if record.failure is not None or not record.seconds else events / statistics.median(record.seconds)


def _line(bodies: int, rates: dict[str, float | None]) -> str:
    shown = [f"{'-' if rate is None else f'{rate:,.0f}':>16}" for rate in (rates["gestures"], rates["events"])]
    paper = f"{PAPER[bodies]:,}" if bodies in PAPER else ""
    return f"{bodies:>8,}  {shown[0]}  {shown[1]}  {paper:>9}".rstrip()
