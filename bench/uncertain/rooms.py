"""The paper's Figure 11: a person walks down a hall into one of six rooms without antennas, and stays.

Readings do not distinguish the rooms, so each has a sixth of the probability; the probability of having been in the
same room for k seconds depends on whether the model knows that people stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from bench.uncertain.quality import HOPPING, MAP, MARKOV, MLE, SMOOTHED, Approach, moments, uncertain_stream

ROOMS = 6
HALL = 6
"""Cells with an antenna; after the last one is a cell without, with the doors."""
STAYS, READ = 0.9, 0.8
TRUE_ROOM = "room 4"
INSIDE = 20
SECONDS = (1, 3, 5, 10)
LINES: tuple[Approach, ...] = (MARKOV, SMOOTHED, MAP, MLE, HOPPING)


@dataclass(frozen=True)
class Line:
    """By second: probability of having been in the room for the last k seconds."""

    approach: str
    k: int
    probability: Any


def floor() -> Any:
    """The model: a hall, its end, and six equal doors."""
    cells = [f"hall {i}" for i in range(1, HALL + 1)]
    rooms = [f"room {i}" for i in range(1, ROOMS + 1)]
    moves: dict[str, dict[str, float]] = {}
    for i, cell in enumerate(cells):
        beside = [*cells[max(i - 1, 0) : i], cells[i + 1] if i + 1 < HALL else "end"]
        moves[cell] = {cell: 0.1} | dict.fromkeys(beside, 0.9 / len(beside))
    moves["end"] = {"end": 0.1, cells[-1]: 0.3} | dict.fromkeys(rooms, 0.6 / ROOMS)
    moves |= {room: {room: STAYS, "end": 1 - STAYS} for room in rooms}
    seen: dict[str, dict[str | None, float]] = {cell: {cell: READ, None: 1 - READ} for cell in cells}
    seen |= {place: {None: 1.0} for place in ["end", *rooms]}
    return ps.uncertain.hidden_markov(transitions=moves, readings=seen, initial={cells[0]: 1.0})


def way() -> tuple[list[str], list[str | None]]:
    """True places by second, and the readings: every cell of the hall once."""
    cells = [f"hall {i}" for i in range(1, HALL + 1)]
    return [*cells, "end", *[TRUE_ROOM] * INSIDE], [*cells, *[None] * (1 + INSIDE)]


def in_the_room(k: int) -> str:
    first, *rest = (f"At s{i}" for i in range(k))
    steps = [f"{first} [place = '{TRUE_ROOM}']", *(f"{step} must (place = '{TRUE_ROOM}')" for step in rest)]
    return f"pattern stays match {' -> '.join(steps)} within forever partition by person selection successor"


def lines(ks: Sequence[int] = SECONDS) -> list[Line]:
    model = floor()
    places, read = way()
    count = len(places)
    readings = pa.table({"person": ["ann"] * count, "ts": moments(pa.array(range(count))), "antenna": read})
    streams = {one.name: uncertain_stream(readings, model, one, 5) for one in LINES}
    drawn = []
    for name, stream in streams.items():
        for k in ks:
            matches = ps.pattern(in_the_room(k)).match(stream).to_arrow()
            chance = np.zeros(count)
            chance[np.asarray(matches["time"].cast(pa.int64())) // 1_000_000] = np.asarray(matches["p"])
            drawn.append(Line(name, k, chance))
    return drawn
