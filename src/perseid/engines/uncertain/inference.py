"""Inference in hidden Markov models, for many keys at once.

Readings are codes, i.e. rows of the model's ``emissions`` (:meth:`HiddenMarkov.codes`), or a matrix of likelihoods with
a row for each step, where a sensor's reading is not one of a list. Code -1, or a row of ones, is uninformative. The
steps of all keys are concatenated; ``offsets`` has the start of each key, and the end of the last.

A reading with zero likelihood, given those before it, is flagged in ``impossible`` and ignored as if nothing had been
read, so that one broken antenna does not invalidate all later steps. The flag means the same in every function but
:func:`particle_filter`, whose particles may miss possible values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perseid.engines.uncertain import particles as sampling
from perseid.engines.uncertain import passes
from perseid.engines.uncertain.passes import Likelihoods, TransitionTables
from perseid.errors import BindingError, EventDataError
from perseid.semantics.hidden import UNKNOWN, Bools, Floats, HiddenMarkov, Ints

MAX_LIKELIHOOD = 1e100
"""Upper limit of a likelihood. Densities are unbounded, and sums of larger ones could overflow."""
MAX_PARTICLES = 1 << 30


class Marginals(NamedTuple):
    """A distribution over the model's values for each step."""

    marginals: Floats
    log_likelihoods: Floats
    """Log likelihood of all readings of each key, except those with zero likelihood."""
    impossible: Bools


class InhomogeneousChain(NamedTuple):
    """A Markov chain with transition probabilities of its own at every step."""

    marginals: Floats
    """Marginal of each step given all readings; the first one of a key is its initial distribution."""
    weights: Floats
    """By step and transition of the model: the probability of the transition into this step, given the value before."""
    log_likelihoods: Floats
    impossible: Bools


class LaterLikelihoods(NamedTuple):
    """Likelihood of later readings given each value of a step, up to a factor."""

    weights: Floats
    impossible: Bools


class Paths(NamedTuple):
    """One value for each step."""

    path: Ints
    log_probabilities: Floats
    """Log of the joint probability of each key's path and its readings."""
    impossible: Bools


class ParticleFractions(NamedTuple):
    """Fraction of particles at each value, by step."""

    marginals: Floats
    impossible: Bools


def filtered(model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike) -> Marginals:
    """Filtered marginals: each step given the readings up to it."""
    return _filtered(chain_of(model), evidence_of(model, codes, offsets))


def smoothed(model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike) -> Marginals:
    """Smoothed marginals: each step given all readings of its key."""
    chain, evidence = chain_of(model), evidence_of(model, codes, offsets)
    marginals_of_steps = _filtered(chain, evidence)
    passes.smooth_all(chain, evidence.offsets, marginals_of_steps.marginals)
    return marginals_of_steps


def smoothed_tables(model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike) -> InhomogeneousChain:
    """Smoothed chain: marginals, and the transition probabilities of each step given all readings.

    Weights are aligned with the model's transitions. They are 0 for transitions from an impossible value, and for all
    transitions into the first step of a key, which has its marginal instead.
    """
    chain, evidence = chain_of(model), evidence_of(model, codes, offsets)
    marginals_of_steps = _filtered(chain, evidence)
    weights = np.zeros((len(evidence.codes), len(model.weights)))
    passes.tabulate_all(chain, evidence.offsets, marginals_of_steps.marginals, weights)
    return InhomogeneousChain(
        marginals_of_steps.marginals, weights, marginals_of_steps.log_likelihoods, marginals_of_steps.impossible
    )


def lagged(model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike, lag: int) -> Marginals:
    """Fixed-lag marginals: each step given the readings up to ``lag`` steps later, or to the end of its key."""
    chain, evidence = chain_of(model), evidence_of(model, codes, offsets)
    marginals_of_steps = _filtered(chain, evidence)
    passes.weigh_all(marginals_of_steps.marginals, _lookahead(chain, evidence, marginals_of_steps, _lag(lag)))
    return marginals_of_steps


def look_ahead(model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike, lag: int) -> LaterLikelihoods:
    """Likelihood of the next ``lag`` readings given each value of a step, up to a factor per step.

    The largest weight among the possible values of a step is 1. Multiplying the marginals of :func:`filtered` by these
    weights gives those of :func:`lagged`.
    """
    chain, evidence = chain_of(model), evidence_of(model, codes, offsets)
    marginals_of_steps = _filtered(chain, evidence)
    return LaterLikelihoods(_lookahead(chain, evidence, marginals_of_steps, _lag(lag)), marginals_of_steps.impossible)


def likeliest_path(model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike) -> Paths:
    """Viterbi path of each key: the most probable path as a whole; of equals, the one from and to smaller numbers."""
    chain, evidence = chain_of(model), evidence_of(model, codes, offsets)
    impossible = _filtered(chain, evidence).impossible
    steps, keys = len(evidence.codes), len(evidence.offsets) - 1
    logs = TransitionTables(
        _logarithms(chain.initial), chain.starts, chain.targets, chain.weights, chain.arrivals, chain.sources,
        _logarithms(chain.inflows),
    )  # fmt: skip
    log_likelihoods = Likelihoods(_logarithms(evidence.table), evidence.codes, evidence.offsets)
    longest = int(np.diff(evidence.offsets).max(initial=0))
    backpointers = np.zeros((longest, len(model.values)), np.int64)
    paths = Paths(np.empty(steps, np.int64), np.empty(keys), impossible)
    passes.likeliest_all(logs, log_likelihoods, impossible, backpointers, paths.path, paths.log_probabilities)
    return paths


def likeliest_each(marginals: npt.ArrayLike) -> Ints:
    """The most probable value of each step by itself; of equals, the smallest number."""
    rows = np.ascontiguousarray(marginals, np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise EventDataError(f"Marginals need a row for each step and a column for each value, got shape {rows.shape}.")
    chosen = np.empty(len(rows), np.int64)
    passes.largest_all(rows, chosen)
    return chosen


def particle_filter(
    model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike, particles: int, seed: int | npt.ArrayLike
) -> ParticleFractions:
    """Approximate :func:`filtered` with that many particles, resampled after each reading (paper 5's source).

    ``seed`` is one number, or one for each key. A key's particles depend only on its seed, its readings and the model.
    Keys with the same seed have the same errors, so use one seed per key if errors are to average out. Where no
    particle explains a reading, new ones are drawn: see :func:`perseid.engines.uncertain.particles.particles_all`.
    """
    if isinstance(particles, bool) or not isinstance(particles, int | np.integer) or not 0 < particles <= MAX_PARTICLES:
        raise BindingError(
            f"particles: expected an integer from 1 to {MAX_PARTICLES:,}, got {particles!r}.",
            hint="Use particles=1000.",
        )
    chain, evidence = chain_of(model), evidence_of(model, codes, offsets)
    fractions = np.empty((len(evidence.codes), len(model.values)))
    result = ParticleFractions(fractions, np.zeros(len(evidence.codes), np.bool_))
    seeds = _seeds(seed, len(evidence.offsets) - 1)
    sampling.particles_all(chain, evidence, seeds, int(particles), result.marginals, result.impossible)
    return result


def chain_of(model: HiddenMarkov) -> TransitionTables:
    """Convert a model's transitions to the kernel's layout."""
    return TransitionTables(model.initial, model.starts, model.targets, model.weights, *model.reversed_transitions())


def evidence_of(model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike) -> Likelihoods:
    """Convert codes, or a matrix of likelihoods, to the kernel's layout: row numbers of a table."""
    array_like = _array(codes)
    if array_like.ndim == 2:
        table = _likelihoods(array_like, model)
        return Likelihoods(table, np.arange(len(table)), _offsets(offsets, len(table)))
    if array_like.ndim != 1 or (array_like.size and array_like.dtype.kind not in "iu"):
        raise EventDataError(
            "Readings must be codes, or likelihoods with a row for each step.",
            hint="Use model.codes(readings).",
        )
    reading_count = len(model.readings)
    if array_like.size and not (int(array_like.min()) >= UNKNOWN and int(array_like.max()) < reading_count):
        invalid = array_like.min() if array_like.min() < UNKNOWN else array_like.max()
        raise EventDataError(
            f"Unknown reading code {invalid}: the model has {reading_count} readings.",
            hint="Use model.codes(readings). Codes begin at 0; -1 is an unknown reading.",
        )
    return Likelihoods(model.emissions, array_like.astype(np.int64), _offsets(offsets, len(array_like)))


def _array(array_like: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert to an array; of zero dimensions if rows differ in length."""
    try:
        return np.asarray(array_like)
    except ValueError:
        return np.empty((), object)


def _likelihoods(array_like: npt.NDArray[Any], model: HiddenMarkov) -> Floats:
    if array_like.shape[1] != len(model.values) or array_like.dtype.kind not in "fiub":
        raise EventDataError(
            f"Likelihoods need {len(model.values)} columns of numbers, one for each value; got {array_like.shape[1]} of {array_like.dtype}.",
            hint="Use a row for each step: the likelihood of its reading under each value.",
        )
    table = np.array(array_like, np.float64, order="C")
    invalid = np.argwhere(~((table >= 0) & (table <= MAX_LIKELIHOOD)))
    if len(invalid):
        step, value = (int(at) for at in invalid[0])
        raise EventDataError(
            f"Step {step} has the invalid likelihood {table[step, value]} for {model.values[value]!r}.",
            hint=f"Use numbers from 0 to {MAX_LIKELIHOOD:g}; 1 for every value if the reading is unknown.",
        )
    table.flags.writeable = False  # like those of a model: kernels are compiled once for both
    return table


def _offsets(array_like: npt.ArrayLike, steps: int) -> Ints:
    offsets = _array(array_like)
    if offsets.ndim == 1 and offsets.size and offsets.dtype.kind in "iu":
        offsets = offsets.astype(np.int64)
        if offsets[0] == 0 and offsets[-1] == steps and (np.diff(offsets) >= 0).all():
            return offsets
    raise EventDataError(
        f"Offsets must ascend from 0 to the number of steps, {steps}: the first step of each key, and the end of the last key.",
        hint="Use [0, 3, 5] for two keys of three and two steps.",
    )


def _lag(lag: int) -> int:
    if isinstance(lag, bool) or not isinstance(lag, int | np.integer) or lag < 0:
        raise BindingError(f"lag: expected an integer from 0, got {lag!r}.", hint="Use lag=0 for no delay.")
    return min(int(lag), 1 << 40)


def _seeds(array_like: int | npt.ArrayLike, keys: int) -> npt.NDArray[np.uint64]:
    if isinstance(array_like, int) and not isinstance(array_like, bool):
        return np.full(keys, array_like % (1 << 64), np.uint64)
    seeds = _array(array_like)
    if seeds.dtype.kind not in "iu" or seeds.shape not in ((), (keys,)):
        raise BindingError("seed: expected an integer, or one for each key.", hint="Use seed=7.")
    return np.ascontiguousarray(np.broadcast_to(seeds, (keys,))).astype(np.uint64)


def _filtered(chain: TransitionTables, evidence: Likelihoods) -> Marginals:
    steps, keys = len(evidence.codes), len(evidence.offsets) - 1
    marginals_of_steps = Marginals(np.empty((steps, len(chain.initial))), np.empty(keys), np.zeros(steps, np.bool_))
    passes.filter_all(chain, evidence, *marginals_of_steps)
    return marginals_of_steps


def _lookahead(chain: TransitionTables, evidence: Likelihoods, marginals_of_steps: Marginals, lag: int) -> Floats:
    weights = np.empty_like(marginals_of_steps.marginals)
    passes.look_ahead_all(chain, evidence, marginals_of_steps.marginals, marginals_of_steps.impossible, lag, weights)
    return weights


def _logarithms(array_like: Floats) -> Floats:
    logs = np.empty_like(array_like)
    passes.logarithms(np.atleast_2d(array_like), np.atleast_2d(logs))
    return logs
