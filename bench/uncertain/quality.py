"""How well events are detected (the paper's Figures 9 and 10): who goes to the coffee room, told by thresholds and by guesses.

A detection is a step whose probability is above ρ. Where an approach needs a ρ, it is chosen on the other seeds: what a seed
scores has no say in it.
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
from bench.uncertain.people import Plans, Setting, Trace, simulate
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
"""By how many seconds at most people are late to say that they have entered."""
THRESHOLDS = np.concatenate([[0, 0.002, 0.005], np.round(np.arange(0.01, 0.505, 0.01), 2)])
PARTICLES = 300
LIVE, ARCHIVED = "real time", "archived"


@dataclass(frozen=True)
class Approach:
    """A way from readings to detections."""

    name: str
    when: str
    inference: str
    correlations: bool = True
    certain: bool = False
    """Takes one value of each step for certain, and needs no threshold."""


INDEPENDENT = Approach("independent", LIVE, "filter", correlations=False)
FILTERED = Approach("exact", LIVE, "filter")
PARTICLE = Approach("particles, independent", LIVE, f"particles({PARTICLES})", correlations=False)
MLE = Approach("most likely place", LIVE, "likeliest", certain=True)
HOPPING = Approach("most likely place of particles", LIVE, f"particles({PARTICLES})", certain=True)
MARKOV = Approach("Markov", ARCHIVED, "smooth")
SMOOTHED = Approach("smoothed, independent", ARCHIVED, "smooth", correlations=False)
MAP = Approach("most likely path", ARCHIVED, "viterbi", certain=True)
APPROACHES = (INDEPENDENT, FILTERED, PARTICLE, MLE, HOPPING, MARKOV, SMOOTHED, MAP)
RIVALS = {LIVE: MLE, ARCHIVED: MAP}


def readings_of(trace: Trace) -> pa.Table:
    """What antennas said of people, with times."""
    told = trace.readings(objects=False)
    return pa.table(
        {"person": told["person"], "ts": moments(told["second"]), "antenna": told["antenna"].cast("string")}
    )


def moments(seconds: Any) -> Any:
    """Seconds as times."""
    return pc.multiply(seconds, 1_000_000).cast(pa.timestamp("us", tz="UTC"))


def relations_of(building: Building) -> dict[str, list[tuple[str]]]:
    return {
        "Rooms": [(place.name,) for place in building.places if place.is_room],
        "CoffeeRooms": [(place.name,) for place in building.places if place.kind == "coffee"],
    }


def believed(readings: pa.Table, model: Any, approach: Approach, seed: int = 0) -> Any:
    """The stream as an approach has it."""
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
    """The place that most particles of each step are in, taken for certain: what the paper's MLE chose from.

    Rows are by person and in order of time; a step without a row begins anew.
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


def answered(table: pa.Table) -> tuple[Moments, Any]:
    """UncertainMatches as moments, and their probabilities."""
    names = table["person"].combine_chunks().dictionary_encode()
    known = np.array(names.dictionary.to_pylist(), str) if len(names.dictionary) else np.zeros(1, str)
    keys = known[np.asarray(names.indices)] if table.num_rows else np.zeros(0, str)
    seconds = np.asarray(table["time"].cast(pa.int64())) // 1_000_000
    return Moments(keys, seconds), np.asarray(table["p"])


@dataclass(frozen=True)
class Setup:
    """What is varied: how often antennas read, what the model believes of people, and what people do."""

    read_rate: float = READ_RATE
    motion: Motion = field(default_factory=Motion)
    plans: Plans = field(default_factory=Plans)
    believed_rate: float | None = None
    """How often the model thinks that antennas read, if it is wrong."""


@dataclass(frozen=True)
class Curves:
    """By seed and threshold; of who needs none, all thresholds have the same."""

    precision: Any
    recall: Any

    @property
    def f1(self) -> Any:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / np.where(both > 0, both, 1)


def measure(
    setup: Setup,
    seeds: Sequence[int],
    approaches: Sequence[Approach] = APPROACHES,
    tolerances: Sequence[int] = (TOLERANCE,),
) -> dict[tuple[str, int], Curves]:
    """The scores of approaches, by their name and the tolerance."""
    building = build(setup.read_rate)
    model = build(setup.believed_rate or setup.read_rate).hidden_markov(setup.motion)
    pattern, relations = ps.pattern(COFFEE), relations_of(building)
    found: dict[tuple[str, int], list[Any]] = {(one.name, d): [] for one in approaches for d in tolerances}
    for seed in seeds:
        trace = simulate(building, seed, Setting(objects=0), setup.plans)
        readings, labels = readings_of(trace), Moments.of(trace.labels(SKEW, seed))
        for one in approaches:
            told, chance = answered(pattern.match(believed(readings, model, one, seed), relations=relations).to_arrow())
            for d in tolerances:
                scored = curve(told, chance, labels, THRESHOLDS, d)
                found[one.name, d].append((scored.precision, scored.recall))
    return {name: Curves(*np.array(rows).transpose(1, 0, 2)) for name, rows in found.items()}


@dataclass(frozen=True)
class Best:
    """The scores of seeds, each at the threshold that is best for the others."""

    threshold: float
    """The best for all."""
    precision: Any
    recall: Any
    f1: Any


def best(curves: Curves) -> Best:
    """By the mean of F1 over the other seeds; with one seed, over that one."""
    f1 = curves.f1
    rows = np.arange(len(f1))
    others = (f1.sum(axis=0) - f1 if len(f1) > 1 else f1).argmax(axis=1)
    whole = float(THRESHOLDS[f1.mean(axis=0).argmax()])
    return Best(whole, curves.precision[rows, others], curves.recall[rows, others], f1[rows, others])


def gains(ours: Best, theirs: Best) -> dict[str, tuple[float, float]]:
    """Points that we are better by: the mean over seeds, and how far to either side its 95 % confidence reaches."""
    return {
        name: interval(100 * (getattr(ours, name) - getattr(theirs, name))) for name in ("precision", "recall", "f1")
    }


@dataclass(frozen=True)
class Most:
    """The most points that a mean over seeds is better by, at which threshold, and our recall there."""

    points: float
    threshold: float
    recall: float


def most(ours: Curves, theirs: Curves, low: float = 0.1, high: float = 0.5) -> dict[str, Most]:
    """The paper's measure, "by as much as": the best over thresholds from ``low`` to ``high``, for each measure by itself.

    Only thresholds count at which every seed has a right detection: who detects nothing has a precision of 1.
    """
    found = {}
    asked = (low <= THRESHOLDS) & (high >= THRESHOLDS) & (ours.recall > 0).all(axis=0)
    for name in ("precision", "recall", "f1"):
        apart = 100 * (getattr(ours, name) - getattr(theirs, name)).mean(axis=0)
        where = int(np.where(asked, apart, -np.inf).argmax())
        recall = float(100 * ours.recall[:, where].mean())
        found[name] = (
            Most(float(apart[where]), float(THRESHOLDS[where]), recall) if asked.any() else Most(*[np.nan] * 3)
        )
    return found


def level(ours: Curves, theirs: Curves) -> dict[str, float]:
    """Points of precision where recall is no lower than theirs, and of recall where precision is not; of means over seeds."""
    precision, recall = ours.precision.mean(axis=0), ours.recall.mean(axis=0)
    least, found = theirs.precision.mean(axis=0)[0], theirs.recall.mean(axis=0)[0]
    as_found, as_right = precision[recall >= found], recall[precision >= least]
    return {
        "precision": float(100 * (as_found.max(initial=-np.inf) - least)),
        "recall": float(100 * (as_right.max(initial=-np.inf) - found)),
    }


def at(ours: Curves, theirs: Curves, threshold: float) -> Mapping[str, tuple[float, float]]:
    """Points that we are better by at one threshold."""
    where = int(np.abs(threshold - THRESHOLDS).argmin())
    return {
        name: interval(100 * (getattr(ours, name)[:, where] - getattr(theirs, name)[:, where]))
        for name in ("precision", "recall", "f1")
    }
