"""The paper's Figure 11: somebody walks down a hall into one of six rooms without antennas, and stays.

Nothing tells the rooms apart, so each has a sixth of the probability; how probable it is that one was in the same room for
k seconds depends on whether it is known that people stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from bench.uncertain.quality import HOPPING, MAP, MARKOV, MLE, SMOOTHED, Approach, believed, moments

ROOMS = 6
HALL = 6
"""Cells with an antenna; behind the last is one without, where the doors are."""
STAYS, READ = 0.9, 0.8
TRUE_ROOM = "room 4"
INSIDE = 20
SECONDS = (1, 3, 5, 10)
LINES: tuple[Approach, ...] = (MARKOV, SMOOTHED, MAP, MLE, HOPPING)


@dataclass(frozen=True)
class Line:
    """By second: how probable it is that somebody was in the room for the last k."""

    approach: str
    k: int
    probability: Any


def floor() -> Any:
    """The model: a hall, its end, and six doors alike."""
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
    """Where they are by second, and what is read: every cell of the hall once."""
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
    streams = {one.name: believed(readings, model, one, 5) for one in LINES}
    drawn = []
    for name, stream in streams.items():
        for k in ks:
            told = ps.pattern(in_the_room(k)).match(stream).to_arrow()
            chance = np.zeros(count)
            chance[np.asarray(told["time"].cast(pa.int64())) // 1_000_000] = np.asarray(told["p"])
            drawn.append(Line(name, k, chance))
    return drawn
