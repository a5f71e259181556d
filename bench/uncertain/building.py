"""A building of two floors with antennas only in its corridors, and a hidden Markov model of it.

The paper's own building is not published, only its numbers: two floors, 38 antennas, none in a room. Here a ring
corridor of 22 cells is on each floor, 19 of them with an antenna. Rooms are outside and inside of the ring, one door
each: 36 offices, a coffee room on each floor, a lecture room. Two stairs join the floors. A step is a second and a cell
of corridor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

import perseid as ps

WIDE, HIGH = 8, 5
ANTENNAS = 38
BARE = {(7, 0), (0, 4), (6, 4)}
"""Cells of each floor's corridor without an antenna."""
READ_RATE, WEAK_RATE = 0.65, 0.1


@dataclass(frozen=True)
class Place:
    """A place of a person, and its position in drawings; stairs are drawn on the floor below."""

    name: str
    kind: str
    """``hall``, ``office``, ``coffee``, ``lecture`` or ``stairs``."""
    x: float
    y: float
    floor: int

    @property
    def is_room(self) -> bool:
        return self.kind in {"office", "coffee", "lecture"}


@dataclass(frozen=True)
class Motion:
    """The model's assumptions about motion: whether people stay, and where they go if they do not."""

    stay_room: float = 0.985
    stay_hall: float = 0.1
    doors: Mapping[str, float] = field(
        default_factory=lambda: {"office": 0.08, "coffee": 0.3, "lecture": 0.2, "stairs": 0.3}
    )
    """By kind: weight of entering from its door, where a next cell of corridor weighs 1."""
    home: float = 1.0
    """The same for the door of a person's own office."""


@dataclass(frozen=True)
class Building:
    """Places, the edges between them, and the antennas."""

    places: tuple[Place, ...]
    neighbours: tuple[tuple[int, ...], ...]
    antennas: tuple[int, ...]
    """Number of its cell, by antenna."""
    read_rate: float
    """Fraction of the seconds in a cell with an antenna in which a tag is read, by that antenna or the next."""
    weak_rate: float
    """Fraction of the seconds in which an antenna reads a tag in an adjacent cell."""

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(place.name for place in self.places)

    @cached_property
    def rooms(self) -> Any:
        """By place: True for a room."""
        return np.array([place.is_room for place in self.places])

    def of_kind(self, kind: str) -> tuple[int, ...]:
        return tuple(number for number, place in enumerate(self.places) if place.kind == kind)

    @cached_property
    def distances(self) -> Any:
        """Steps between each two places."""
        count = len(self.places)
        steps = np.full((count, count), -1)
        for start in range(count):
            steps[start, start] = 0
            waiting = deque([start])
            while waiting:
                here = waiting.popleft()
                for there in self.neighbours[here]:
                    if steps[start, there] < 0:
                        steps[start, there] = steps[start, here] + 1
                        waiting.append(there)
        return steps

    @cached_property
    def rates(self) -> Any:
        """Probability that an antenna reads a tag within a second, by place and antenna, independent of other antennas.

        An antenna reaches its own cell and the adjacent ones, stairs too, and no room. In its own cell it reads as
        often as is needed for the read rate after its neighbors.
        """
        rates = np.zeros((len(self.places), len(self.antennas)))
        for antenna, cell in enumerate(self.antennas):
            beside = [there for there in self.neighbours[cell] if not self.rooms[there]]
            rates[beside, antenna] = self.weak_rate
        missed = np.prod(1 - rates, axis=1)
        cells = np.array(self.antennas)
        rates[cells, np.arange(len(cells))] = np.maximum(1 - (1 - self.read_rate) / missed[cells], 0)
        return rates

    def emissions(self) -> Any:
        """P(reading | place) if one of the antennas that read at once is reported at random; the last column is no
        reading."""
        chances = np.zeros((len(self.antennas) + 1, len(self.places)))
        for place, rates in enumerate(self.rates):
            near = np.flatnonzero(rates)
            for reads in product((False, True), repeat=len(near)):
                read = np.array(reads, bool)
                chance = np.prod(np.where(read, rates[near], 1 - rates[near]))
                chances[near[read] if read.any() else -1, place] += chance / max(read.sum(), 1)
        return chances

    def hidden_markov(self, motion: Motion | None = None, home: str | None = None) -> ps.uncertain.HiddenMarkov:
        """Model of a person's place; a known own office is likelier than others.

        Readings are the numbers of antennas as text, and null for no reading.
        """
        motion = Motion() if motion is None else motion
        moves = np.zeros((len(self.places), len(self.places)))
        for here, place in enumerate(self.places):
            beside = list(self.neighbours[here])
            weights = np.array([self._weight(motion, there, home) for there in beside])
            moves[here, here] = stay = motion.stay_room if place.is_room else motion.stay_hall
            moves[here, beside] = (1 - stay) * weights / weights.sum()
        return ps.uncertain.hidden_markov(
            values=self.values,
            transitions=moves,
            initial=np.full(len(self.places), 1 / len(self.places)),
            readings=self.emissions().T,
            reading_names=[*map(str, range(len(self.antennas))), None],
        )

    def _weight(self, motion: Motion, there: int, home: str | None) -> float:
        place = self.places[there]
        return motion.home if place.name == home else motion.doors.get(place.kind, 1.0)


def build(read_rate: float = READ_RATE, weak_rate: float = WEAK_RATE) -> Building:
    """Build the building with antennas of these read rates."""
    places: list[Place] = []
    ways: list[tuple[int, int]] = []
    antennas: list[int] = []
    stairs: dict[int, list[int]] = {}
    for floor in (1, 2):
        numbered = {at: len(places) + number for number, at in enumerate(_ring())}
        places += [Place(f"hall {floor}.{n:02d}", "hall", *at, floor) for n, at in enumerate(_ring(), 1)]
        ways += [(numbered[at], numbered[other]) for at, other in zip(_ring(), _ring()[1:] + _ring()[:1], strict=True)]
        antennas += [numbered[at] for at in _ring() if at not in BARE]
        stairs[floor] = [numbered[0, 2], numbered[WIDE - 1, 2]]
        for name, kind, at, door in _rooms(floor):
            ways.append((len(places), numbered[door]))
            places.append(Place(name, kind, *at, floor))
    for name, x, below, above in zip(("west", "east"), (-1, WIDE), stairs[1], stairs[2], strict=True):
        ways += [(len(places), below), (len(places), above)]
        places.append(Place(f"stairs {name}", "stairs", x, 2, 1))
    return Building(tuple(places), _both_ways(len(places), ways), tuple(antennas), read_rate, weak_rate)


def _ring() -> list[tuple[int, int]]:
    """Cells of a floor's corridor, in order around it."""
    top = [(x, 0) for x in range(WIDE)]
    right = [(WIDE - 1, y) for y in range(1, HIGH)]
    bottom = [(x, HIGH - 1) for x in range(WIDE - 2, -1, -1)]
    left = [(0, y) for y in range(HIGH - 2, 0, -1)]
    return top + right + bottom + left


def _rooms(floor: int) -> list[tuple[str, str, tuple[float, float], tuple[int, int]]]:
    """Rooms of a floor: name, kind, position, and the cell at its door."""
    coffee = (4, -1) if floor == 1 else (2, HIGH)
    outside = [((x, y), (x, door)) for y, door in ((-1, 0), (HIGH, HIGH - 1)) for x in range(WIDE)]
    inside = [((x, 1), (x, 0)) for x in (1, 3, 5)]
    made = []
    for at, door in outside + inside:
        name, kind = (
            (f"coffee {floor}", "coffee") if at == coffee else (f"office {floor}.{len(made) + 1:02d}", "office")
        )
        made.append((name, kind, at, door))
    return made + ([("lecture", "lecture", (5, HIGH - 2), (5, HIGH - 1))] if floor == 1 else [])


def _both_ways(count: int, ways: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    joined: list[set[int]] = [set() for _ in range(count)]
    for here, there in ways:
        joined[here].add(there)
        joined[there].add(here)
    return tuple(tuple(sorted(beside)) for beside in joined)
