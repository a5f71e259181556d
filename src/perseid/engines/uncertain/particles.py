"""A particle filter: particles move at random, and are resampled by the likelihood of each reading.

Particles at the same value are equivalent, so the filter stores a count per value. Random numbers are counter-based:
they depend only on the key's seed, the step and the particle.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from perseid.engines.uncertain.passes import MIN_PROBABILITY, Likelihoods, TransitionTables, predict
from perseid.runtime.jit import jit, jit_with_overflow
from perseid.semantics.hidden import Bools, Floats, Ints

_GOLDEN, _M1, _M2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_UNIT = 1.0 / (1 << 53)


@jit_with_overflow
def mixed(word: np.uint64) -> np.uint64:
    """Hash a word (finalizer of splitmix64)."""
    word = (word ^ (word >> _30)) * _M1
    word = (word ^ (word >> _27)) * _M2
    return word ^ (word >> _31)


@jit_with_overflow
def uniform(seed: np.uint64, count: int) -> float:
    """Random number ``count`` of a seed's sequence, in [0, 1)."""
    return float(mixed(seed + np.uint64(count) * _GOLDEN) >> _11) * _UNIT


@jit
def redraw(mass: Floats, particles: int, first: float, counts: Ints) -> None:
    """Systematic resampling: distribute particles by mass, as evenly as possible, from a random offset."""
    total, reached, given, last = 0.0, 0.0, 0, 0
    for value in range(mass.size):
        total += mass[value]
    for value in range(mass.size):
        counts[value] = 0
        if mass[value] > 0.0:
            reached += mass[value]
            upto = min(max(math.ceil(particles * (reached / total) - first), given), particles)
            counts[value] = upto - given
            given, last = upto, value
    counts[last] += particles - given


@jit
def move(chain: TransitionTables, seed: np.uint64, count: int, before: Ints, after: Ints) -> None:
    """Move every particle by one random transition."""
    after[:] = 0
    for value in range(before.size):
        for _ in range(before[value]):
            chance, target = uniform(seed, count), value
            count += 1
            for way in range(chain.starts[value], chain.starts[value + 1]):
                if chain.weights[way] > 0.0:
                    target = chain.targets[way]
                    chance -= chain.weights[way]
                    if chance < 0.0:
                        break
            after[target] += 1


@jit
def weighed(mass: Floats, table: Floats, code: int) -> float:
    """Multiply mass by likelihoods; return the total."""
    total = 0.0
    for value in range(mass.size):
        mass[value] *= table[code, value]
        total += mass[value]
    return total


@jit
def particles_all(
    chain: TransitionTables,
    evidence: Likelihoods,
    seeds: npt.NDArray[np.uint64],
    particles: int,
    shares: Floats,
    impossible: Bools,
) -> None:
    """Compute the fraction of particles at each value, for each step of each key.

    Where no particle explains the reading, new ones are drawn from all values one step from the previous positions, not
    only from those reached. If the reading is impossible there too, they are drawn from the reading alone, and the step
    is flagged. A reading that no value explains leaves the particles where they moved.
    """
    many = chain.initial.size
    before, counts = np.zeros(many, np.int64), np.zeros(many, np.int64)
    mass, spread = np.empty(many), np.empty(many)
    for key in range(evidence.offsets.size - 1):
        first = evidence.offsets[key]
        seed = mixed(seeds[key])
        for step in range(first, evidence.offsets[key + 1]):
            count = (step - first) * (particles + 2)
            if step == first:
                redraw(chain.initial, particles, uniform(seed, count), counts)
            else:
                before[:] = counts
                move(chain, seed, count + 2, before, counts)
            code = evidence.codes[step]
            impossible[step] = False
            if code >= 0:
                mass[:] = counts
                total = weighed(mass, evidence.table, code)
                if total < MIN_PROBABILITY:
                    spread[:] = before
                    if step == first:
                        mass[:] = chain.initial
                    else:
                        predict(chain, spread, mass)
                    total = weighed(mass, evidence.table, code)
                if total < MIN_PROBABILITY:
                    impossible[step] = True
                    mass[:] = 1.0
                    total = weighed(mass, evidence.table, code)
                if total >= MIN_PROBABILITY:
                    redraw(mass, particles, uniform(seed, count + 1), counts)
            for value in range(many):
                shares[step, value] = counts[value] / particles
