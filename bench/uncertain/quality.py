"""Quality of event detection (the paper's Figures 9 and 10): entries to the coffee room, by thresholds and by likeliest
values.

A detection is a step whose probability is above ρ. If an approach needs a ρ, it is chosen on the other seeds, so that
the score of a seed does not influence it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import perseid as ps
from bench.uncertain.building import READ_RATE, Building, Motion, build
from bench.uncertain.people import Plans, Trace, TraceSize, simulate
from bench.uncertain.scoring import TOLERANCE, Moments, curve, interval
from perseid.engines.uncertain.inference import likeliest_each, particle_filter

COFFEE = """
pattern coffee
match At a [place not in Rooms] -> At b must (place not in Rooms) -> At c must (place in CoffeeRooms)
within forever
partition by person
selection successor
"""
SKEW = 15
"""Maximum delay of people's labels, in seconds."""
THRESHOLDS = np.concatenate([[0, 0.002, 0.005], np.round(np.arange(0.01, 0.505, 0.01), 2)])
PARTICLES = 300
LIVE, ARCHIVED = "real time", "archived"


@dataclass(frozen=True)
class Approach:
    """A method from readings to detections."""

    name: str
    when: str
    inference: str
    correlations: bool = True
    certain: bool = False
    """Takes one value of each step as certain, and needs no threshold."""


INDEPENDENT = Approach("independent", LIVE, "filter", correlations=False)
FILTERED = Approach("exact", LIVE, "filter")
PARTICLE = Approach("particles, independent", LIVE, f"particles({PARTICLES})", correlations=False)
MLE = Approach("most likely place", LIVE, "likeliest", certain=True)
HOPPING = Approach("most likely place of particles", LIVE, f"particles({PARTICLES})", certain=True)
MARKOV = Approach("Markov", ARCHIVED, "smooth")
SMOOTHED = Approach("smoothed, independent", ARCHIVED, "smooth", correlations=False)
MAP = Approach("most likely path", ARCHIVED, "viterbi", certain=True)
APPROACHES = (INDEPENDENT, FILTERED, PARTICLE, MLE, HOPPING, MARKOV, SMOOTHED, MAP)
BASELINES = {LIVE: MLE, ARCHIVED: MAP}


def readings_of(trace: Trace) -> pa.Table:
    """Readings of people, with times."""
    detections = trace.readings(objects=False)
    return pa.table(
        {
            "person": detections["person"],
            "ts": moments(detections["second"]),
            "antenna": detections["antenna"].cast("string"),
        }
    )


def moments(seconds: Any) -> Any:
    """Convert seconds to timestamps."""
    return pc.multiply(seconds, 1_000_000).cast(pa.timestamp("us", tz="UTC"))


def relations_of(building: Building) -> dict[str, list[tuple[str]]]:
    return {
        "Rooms": [(place.name,) for place in building.places if place.is_room],
        "CoffeeRooms": [(place.name,) for place in building.places if place.kind == "coffee"],
    }


def uncertain_stream(readings: pa.Table, model: Any, approach: Approach, seed: int = 0) -> Any:
    """Build the uncertain stream of an approach."""
    if approach == HOPPING:
        guessed = guess(readings, model, seed)
        return ps.uncertain_events(
            guessed, event_type="At", key="person", value="place", probability="p", every="1 second"
        )
    return ps.uncertain_events(
        readings,
        event_type="At",
        key="person",
        value="place",
        reading="antenna",
        model=model,
        inference=approach.inference,
        correlated=approach.correlations,
        every="1 second",
        sampling=ps.uncertain.Sampling(seed=seed),
    )


def guess(readings: pa.Table, model: Any, seed: int) -> pa.Table:
    """The place with most particles at each step, taken as certain: the paper's MLE baseline.

    Rows are by person and in time order; a step without a row restarts.
    """
    second = np.asarray(readings["ts"].cast(pa.int64())) // 1_000_000
    person = np.asarray(readings["person"].combine_chunks().dictionary_encode().indices)
    new = np.ones(len(second), bool)
    new[1:] = (person[1:] != person[:-1]) | (second[1:] != second[:-1] + 1)
    begins = np.flatnonzero(new)
    offsets = np.append(begins, len(second))
    seeds = np.arange(len(begins)) + 1_000 * seed
    shares = particle_filter(model, model.codes(readings["antenna"].to_pylist()), offsets, PARTICLES, seeds).marginals
    places = pa.array(model.values).take(pa.array(likeliest_each(shares)))
    return pa.table({"person": readings["person"], "ts": readings["ts"], "place": places, "p": np.ones(len(second))})


def match_moments(table: pa.Table) -> tuple[Moments, Any]:
    """Convert matches to moments and their probabilities."""
    names = table["person"].combine_chunks().dictionary_encode()
    known = np.array(names.dictionary.to_pylist(), str) if len(names.dictionary) else np.zeros(1, str)
    keys = known[np.asarray(names.indices)] if table.num_rows else np.zeros(0, str)
    seconds = np.asarray(table["time"].cast(pa.int64())) // 1_000_000
    return Moments(keys, seconds), np.asarray(table["p"])


@dataclass(frozen=True)
class VariedSetting:
    """Varied parameters: read rate of antennas, the model's assumptions about people, and people's behavior."""

    read_rate: float = READ_RATE
    motion: Motion = field(default_factory=Motion)
    plans: Plans = field(default_factory=Plans)
    believed_rate: float | None = None
    """Read rate that the model assumes, if it is wrong."""


@dataclass(frozen=True)
class Curves:
    """Scores by seed and threshold; equal at all thresholds for an approach that needs none."""

    precision: Any
    recall: Any

    @property
    def f1(self) -> Any:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / np.where(both > 0, both, 1)


def measure(
    setup: VariedSetting,
    seeds: Sequence[int],
    approaches: Sequence[Approach] = APPROACHES,
    tolerances: Sequence[int] = (TOLERANCE,),
) -> dict[tuple[str, int], Curves]:
    """Measure the scores of approaches, by their name and the tolerance."""
    building = build(setup.read_rate)
    model = build(setup.believed_rate or setup.read_rate).hidden_markov(setup.motion)
    pattern, relations = ps.pattern(COFFEE), relations_of(building)
    found: dict[tuple[str, int], list[Any]] = {(one.name, d): [] for one in approaches for d in tolerances}
    for seed in seeds:
        trace = simulate(building, seed, TraceSize(objects=0), setup.plans)
        readings, labels = readings_of(trace), Moments.of(trace.labels(SKEW, seed))
        for one in approaches:
            detections, chance = match_moments(
                pattern.match(uncertain_stream(readings, model, one, seed), relations=relations).to_arrow()
            )
            for d in tolerances:
                scored = curve(detections, chance, labels, THRESHOLDS, d)
                found[one.name, d].append((scored.precision, scored.recall))
    return {name: Curves(*np.array(rows).transpose(1, 0, 2)) for name, rows in found.items()}


@dataclass(frozen=True)
class Best:
    """Scores of seeds, each at the threshold that is best for the other seeds."""

    threshold: float
    """The best threshold over all seeds."""
    precision: Any
    recall: Any
    f1: Any


def best(curves: Curves) -> Best:
    """Choose thresholds by the mean of F1 over the other seeds; with one seed, over that one."""
    f1 = curves.f1
    rows = np.arange(len(f1))
    others = (f1.sum(axis=0) - f1 if len(f1) > 1 else f1).argmax(axis=1)
    whole = float(THRESHOLDS[f1.mean(axis=0).argmax()])
    return Best(whole, curves.precision[rows, others], curves.recall[rows, others], f1[rows, others])


def gains(ours: Best, theirs: Best) -> dict[str, tuple[float, float]]:
    """Gain in points: the mean over seeds, and the half width of its 95 % confidence interval."""
    return {
        name: interval(100 * (getattr(ours, name) - getattr(theirs, name))) for name in ("precision", "recall", "f1")
    }


@dataclass(frozen=True)
class MaxGain:
    """Maximum gain of a mean over seeds in points, its threshold, and our recall there."""

    points: float
    threshold: float
    recall: float


def max_gains(ours: Curves, theirs: Curves, low: float = 0.1, high: float = 0.5) -> dict[str, MaxGain]:
    """The paper's measure, "by as much as": the maximum over thresholds from ``low`` to ``high``, for each measure
    separately.

    Only thresholds count at which every seed has a right detection, because without detections precision is 1.
    """
    found = {}
    asked = (low <= THRESHOLDS) & (high >= THRESHOLDS) & (ours.recall > 0).all(axis=0)
    for name in ("precision", "recall", "f1"):
        apart = 100 * (getattr(ours, name) - getattr(theirs, name)).mean(axis=0)
        where = int(np.where(asked, apart, -np.inf).argmax())
        recall = float(100 * ours.recall[:, where].mean())
        found[name] = (
            MaxGain(float(apart[where]), float(THRESHOLDS[where]), recall) if asked.any() else MaxGain(*[np.nan] * 3)
        )
    return found


def gains_at_equal(ours: Curves, theirs: Curves) -> dict[str, float]:
    """Gain in precision at no lower recall, and in recall at no lower precision, in points; of means over seeds."""
    precision, recall = ours.precision.mean(axis=0), ours.recall.mean(axis=0)
    least, found = theirs.precision.mean(axis=0)[0], theirs.recall.mean(axis=0)[0]
    as_found, as_right = precision[recall >= found], recall[precision >= least]
    return {
        "precision": float(100 * (as_found.max(initial=-np.inf) - least)),
        "recall": float(100 * (as_right.max(initial=-np.inf) - found)),
    }


def gains_at(ours: Curves, theirs: Curves, threshold: float) -> Mapping[str, tuple[float, float]]:
    """Gain in points at one threshold."""
    where = int(np.abs(threshold - THRESHOLDS).argmin())
    return {
        name: interval(100 * (getattr(ours, name)[:, where] - getattr(theirs, name)[:, where]))
        for name in ("precision", "recall", "f1")
    }
