"""Simulation of people in the building, their objects, and the readings of the antennas.

A person sits in an office, goes for coffee, to another office, to the lecture or around the corridors, and comes back,
at about one cell per second along a shortest path. Objects are with their owners, except those left in a room until the
owner is back. As in the paper, two periods represent two days, each of which begins with all people in their office;
between them there are no readings and no true places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bench.uncertain.building import Building

KEPT = {"keys": 0.97, "mug": 0.8, "laptop": 0.9}
"""By kind of object: probability that its owner takes it along on leaving a room."""


@dataclass(frozen=True)
class Plans:
    """Activities of people, their probabilities after a time in the office, and their durations: shortest and mean, in
    seconds.

    The probability of coffee was chosen so that a trace of the paper's size has about as many events as the paper's,
    44.
    """

    coffee: float = 0.42
    visit: float = 0.3
    lecture: float = 0.05
    """The rest is a walk to a random place in the corridors."""
    straight_on: float = 0.3
    """Probability that a person continues to another place before the return."""
    linger: float = 0.1
    """Probability that a person stops for a second, on the way."""
    office_time: tuple[int, int] = (20, 240)
    coffee_time: tuple[int, int] = (10, 60)
    visit_time: tuple[int, int] = (20, 90)
    lecture_time: tuple[int, int] = (120, 300)
    walk_time: tuple[int, int] = (1, 4)


@dataclass(frozen=True)
class TraceSize:
    """Number of people and length of a trace: by default the paper's 8 people, 52 objects and 72 minutes."""

    people: int = 8
    objects: int = 52
    periods: int = 2
    period: int = 31 * 60
    pause: int = 10 * 60


SHORT = TraceSize(people=4, objects=6, period=5 * 60, pause=60)
"""Large enough for a test of correctness."""


@dataclass(frozen=True)
class Trace:
    """True places and reported antennas; people come first, then objects."""

    building: Building
    names: tuple[str, ...]
    people: int
    offices: tuple[int, ...]
    """By person: the number of the place of their office."""
    owners: tuple[int, ...]
    """By object: the number of its owner."""
    seconds: Any
    """Seconds of the periods, in order; those between are missing."""
    places: Any
    """By name and second: the number of the true place."""
    antennas: Any
    """By name and second: the antenna that was reported, or -1."""

    def readings(self, objects: bool = True) -> pa.Table:
        """Rows of (person, second, antenna), null if nothing was read; the name of an object is its own."""
        reported = self.antennas[: self._listed(objects)].ravel()
        return self._table("antenna", pa.array(reported, pa.int64(), mask=reported < 0), objects)

    def truth(self, objects: bool = True) -> pa.Table:
        """Rows of (person, second, place)."""
        known = pa.array(self.building.values)
        return self._table("place", known.take(pa.array(self.places[: self._listed(objects)].ravel())), objects)

    def labels(self, skew: int = 0, seed: int = 0) -> pa.Table:
        """Rows of (person, second): a person is in a coffee room, and was in none in each of the two seconds before.

        With a skew, labels are late by a whole number of seconds from 0 to the skew, uniformly distributed.
        """
        inside = np.isin(self.places[: self.people], self.building.of_kind("coffee"))
        at_once = self.seconds[2:] - self.seconds[:-2] == 2
        person, moment = np.nonzero(inside[:, 2:] & ~inside[:, 1:-1] & ~inside[:, :-2] & at_once)
        late = np.random.default_rng(seed).integers(0, skew + 1, len(person))
        names = pa.array(self.names).take(pa.array(person))
        return pa.table({"person": names, "second": pa.array(self.seconds[moment + 2] + late, pa.int64())})

    def read_rate(self) -> float:
        """Fraction of seconds with a reading, of those that tags spent in cells with an antenna."""
        covered = np.isin(self.places, self.building.antennas)
        return float((self.antennas[covered] >= 0).mean())

    def _listed(self, objects: bool) -> int:
        return len(self.names) if objects else self.people

    def _table(self, name: str, column: pa.Array, objects: bool) -> pa.Table:
        listed = self._listed(objects)
        who = pa.array(self.names).take(pa.array(np.repeat(np.arange(listed), len(self.seconds))))
        return pa.table({"person": who, "second": pa.array(np.tile(self.seconds, listed), pa.int64()), name: column})


def simulate(building: Building, seed: int, setting: TraceSize | None = None, plans: Plans | None = None) -> Trace:
    """Simulate people in the building; deterministic for a seed."""
    setting, plans = TraceSize() if setting is None else setting, Plans() if plans is None else plans
    living, carrying, reading = (np.random.default_rng((seed, part)) for part in range(3))
    offices = living.choice(building.of_kind("office"), setting.people, replace=False)
    owners = np.arange(setting.objects) % setting.people
    kinds = [tuple(KEPT)[number // setting.people % len(KEPT)] for number in range(setting.objects)]
    days = []
    for _ in range(setting.periods):
        people = [_day(building, plans, living, int(office), offices, setting.period) for office in offices]
        objects = [
            _carried(building, people[owner], KEPT[kind], carrying) for owner, kind in zip(owners, kinds, strict=True)
        ]
        days.append(np.array(people + objects))
    places = np.concatenate(days, axis=1)
    begins = np.arange(setting.periods) * (setting.period + setting.pause)
    named = [f"person {number + 1}" for number in range(setting.people)]
    named += [f"{kind} {number + 1}" for number, kind in enumerate(kinds)]
    return Trace(
        building,
        tuple(named),
        setting.people,
        tuple(offices.tolist()),
        tuple(owners.tolist()),
        (begins[:, None] + np.arange(setting.period)).ravel(),
        places,
        read(building, places, reading),
    )


def read(building: Building, places: Any, chance: np.random.Generator) -> Any:
    """By tag and second: one of the antennas that read the tag at once, uniformly drawn, or -1 for none."""
    reported = np.full(places.shape, -1)
    rates = building.rates
    for place in np.unique(places).tolist():
        near = np.flatnonzero(rates[place])
        here = places == place
        drawn = chance.random((int(here.sum()), len(near), 2))
        if len(near):
            order = np.where(drawn[:, :, 0] < rates[place, near], drawn[:, :, 1], -1.0)
            reported[here] = np.where(order.max(axis=1) < 0, -1, near[order.argmax(axis=1)])
    return reported


def _day(building: Building, plans: Plans, chance: np.random.Generator, office: int, offices: Any, period: int) -> Any:
    """Places of one person by second, from the office on."""
    where = [office] * _time(chance, plans.office_time)
    while len(where) < period:
        for goal, stay in _errand(building, plans, chance, office, offices):
            where += _way(building, chance, where[-1], goal, plans.linger)
            where += [goal] * stay
    return np.array(where[:period])


def _errand(
    building: Building, plans: Plans, chance: np.random.Generator, office: int, offices: Any
) -> Iterator[tuple[int, int]]:
    """Destinations and durations from leaving the office until the return."""
    doing = np.cumsum([plans.coffee, plans.visit, plans.lecture])
    while True:
        drawn = int(np.searchsorted(doing, chance.random(), side="right"))
        if drawn == 0:
            rooms = np.array(building.of_kind("coffee"))
            yield int(rooms[building.distances[office, rooms].argmin()]), _time(chance, plans.coffee_time)
        elif drawn == 1 and len(offices) > 1:
            yield int(chance.choice(offices[offices != office])), _time(chance, plans.visit_time)
        elif drawn == 2:
            yield building.of_kind("lecture")[0], _time(chance, plans.lecture_time)
        else:
            yield int(chance.choice(building.of_kind("hall"))), _time(chance, plans.walk_time)
        if chance.random() >= plans.straight_on:
            break
    yield office, _time(chance, plans.office_time)


def _time(chance: np.random.Generator, times: tuple[int, int]) -> int:
    shortest, mean = times
    return shortest + int(chance.exponential(mean - shortest))


def _way(building: Building, chance: np.random.Generator, here: int, goal: int, linger: float) -> list[int]:
    """Places by second on a path, including the first second at the goal."""
    way: list[int] = []
    while here != goal:
        nearer = [
            there
            for there in building.neighbours[here]
            if building.distances[there, goal] < building.distances[here, goal]
        ]
        if building.rooms[here] or chance.random() >= linger:
            here = int(chance.choice(nearer))
        way.append(here)
    return way


def _carried(building: Building, owner: Any, kept: float, chance: np.random.Generator) -> Any:
    """Places of an object by second: its owner's, or the room where it was left until the owner is back."""
    where = owner.copy()
    left = np.flatnonzero(building.rooms[owner[:-1]] & (owner[1:] != owner[:-1])) + 1
    forgotten = left[chance.random(len(left)) >= kept]
    until = 0
    for moment in forgotten.tolist():
        if moment < until:
            continue  # the object is not with its owner
        room = owner[moment - 1]
        back = np.flatnonzero(owner[moment:] == room)
        until = moment + int(back[0]) if len(back) else len(owner)
        where[moment:until] = room
    return where
