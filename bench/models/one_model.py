"""The paper's own setting of the gesture case: all bodies in one live model, one transaction per frame.

`bench gestures` also times `ps.graph.frames`, which has one model per body and needs a structure that never changes.
This module measures the general engine, so that its rate can be compared with the paper's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import perseid as ps
from examples import gesture_frames as g

POSTURES = ("forward_start", "forward_end", "raised")


@dataclass(frozen=True)
class OneModelRun:
    """The result of one timed run."""

    bodies: int
    frames: int
    atomic_events: int
    seconds: float

    @property
    def rate(self) -> float:
        """Atomic events per second."""
        return self.atomic_events / self.seconds

    @property
    def speed(self) -> float:
        """Frames per second, as a multiple of the camera's 25."""
        return self.frames / self.seconds / g.FRAMES_PER_SECOND


def change_rows(bodies: int, frames: int, seed: int) -> list[dict[str, Any]]:
    """Rows of the model: the parts of every body at the time of the first frame, then 40 sets per body and frame."""
    rows = list(_part_rows(bodies))
    columns = g.body_columns()
    for frame in g.traces(bodies, frames, seed=seed).to_pylist():
        rows += (
            {"ts": frame["ts"], "change": "set", "element": f"{frame['person']}.{joint}", "attribute": axis,
             "value": frame[column]}
            for column, (joint, axis) in columns.items()
        )  # fmt: skip
    return rows


def _part_rows(bodies: int) -> Iterator[dict[str, Any]]:
    for body in range(bodies):
        for part in g.body_parts():
            named = {name: f"{body}.{part[name]}" for name in ("element", "target") if name in part}
            yield {"ts": g.BEGIN, **part, **named}


def measure_one_model(text: str, bodies: int, frames: int, seed: int = 0) -> OneModelRun:
    """Time `pattern.match(ps.graph.model(…))` over rows in memory; every gesture and atomic event must be found."""
    metamodel = ps.graph.metamodel(text)
    pattern = ps.pattern(
        "pattern forward\n"
        "match found forward_start a -> lost forward_start -> found forward_end -> lost forward_end b\n"
        "selection immediate within forever partition by body\n"
        "return time(a) as began, time(b) as ended"
    )
    rows = change_rows(bodies, frames, seed)
    events, gestures = g.expected(bodies, frames, seed=seed)
    found = ps.graph.model(rows, metamodel).events(*POSTURES).num_rows
    assert found == events, f"{found} atomic events instead of {events}"
    model = ps.graph.model(rows, metamodel, observe="raised")
    start = time.perf_counter()
    matches = len(pattern.match(model))
    seconds = time.perf_counter() - start
    assert matches == gestures, f"{matches} gestures instead of {gestures}"
    return OneModelRun(bodies, frames, events, seconds)
