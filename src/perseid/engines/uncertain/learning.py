"""Learns hidden Markov models: by counting where hidden values are known, by expectation maximization otherwise.

Both retain zero probabilities: where a floor plan has no door, none is learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perseid.engines.uncertain.inference import chain_of, evidence_of
from perseid.engines.uncertain.passes import (
    MIN_PROBABILITY,
    Likelihoods,
    TransitionTables,
    fill_row,
    filter_all,
    step_back,
)
from perseid.errors import BindingError, EventDataError
from perseid.runtime.jit import jit
from perseid.semantics.hidden import Bools, Floats, HiddenMarkov


@dataclass(frozen=True)
class Learnt:
    """A learned model, and the log likelihood of the readings after each iteration."""

    model: HiddenMarkov
    log_likelihoods: tuple[float, ...]
    """Of all readings: under the initial model, then after each iteration. Without labels it never falls."""
    settled: bool
    """True if the last iteration gained no more than the tolerance; False if all iterations were used up."""

    def __repr__(self) -> str:
        rounds, (first, *_, last) = len(self.log_likelihoods) - 1, (*self.log_likelihoods, self.log_likelihoods[-1])
        ended = "converged" if self.settled else "not converged"
        steps = f"{rounds} iteration{'' if rounds == 1 else 's'}"
        return f"<learned in {steps}: log-likelihood {first:.3f} to {last:.3f}, {ended}>"


class Expected(NamedTuple):
    """Expected counts."""

    initial: Floats
    transitions: Floats
    emissions: Floats


def learn_labelled(
    model: HiddenMarkov, codes: npt.ArrayLike, hidden: npt.ArrayLike, offsets: npt.ArrayLike, *, smoothing: float = 1.0
) -> Learnt:
    """Learn a model of the same shape by counting; ``hidden`` has the number of each step's value, or -1 if unknown.

    Zero probabilities of the initial model are retained, and data that contradicts them is an error. ``smoothing`` is
    added to every count with a positive initial probability, so that unobserved events become rare, not impossible.
    Without it, distributions with no counts retain their initial probabilities.
    """
    if isinstance(smoothing, bool) or not isinstance(smoothing, int | float) or not 0 <= smoothing < float("inf"):
        raise BindingError(f"smoothing: expected a finite number from 0, got {smoothing!r}.", hint="Use smoothing=1.0.")
    evidence = evidence_of(model, codes, offsets)
    true_values, value_count = np.asarray(hidden, np.int64), len(model.values)
    is_known = true_values >= 0
    if not is_known.any():
        raise EventDataError("No step has a known true value, so there is nothing to count.", hint="Remove truth=….")
    first = np.zeros(len(true_values), np.bool_)
    first[evidence.offsets[:-1][np.diff(evidence.offsets) > 0]] = True
    began = true_values[first & is_known]
    _refuse(model.initial[began] == 0, lambda at: f"The data of a key begins with {model.values[began[at]]!r}")
    transition_steps = np.flatnonzero(is_known & np.roll(is_known, 1) & ~first)
    transition_keys = np.repeat(np.arange(value_count), np.diff(model.starts)) * value_count + model.targets
    transitions = true_values[transition_steps - 1] * value_count + true_values[transition_steps]
    transition_index = np.minimum(np.searchsorted(transition_keys, transitions), len(transition_keys) - 1)
    message = "The data has a transition from {!r} to {!r}".format
    _refuse((transition_keys[transition_index] != transitions) | (model.weights[transition_index] == 0),
            lambda at: message(model.values[true_values[transition_steps[at] - 1]], model.values[true_values[transition_steps[at]]]))  # fmt: skip
    reading_steps = np.flatnonzero(is_known & (evidence.codes >= 0))
    code, value = evidence.codes[reading_steps], true_values[reading_steps]
    _refuse(model.emissions[code, value] == 0,
            lambda at: f"{model.readings[code[at]]!r} was read at {model.values[value[at]]!r}")  # fmt: skip
    initial = (model.initial, model.weights, model.emissions)
    counts = Expected(*(np.where(one > 0, float(smoothing), 0.0) for one in initial))
    np.add.at(counts.initial, began, 1)
    np.add.at(counts.transitions, transition_index, 1)
    np.add.at(counts.emissions, (code, value), 1)
    counted = _maximised(model, counts)
    return Learnt(counted, (_expected(model, evidence)[0], _expected(counted, evidence)[0]), True)


def _refuse(contradictions: Bools, describe: Callable[[int], str]) -> None:
    """Raise an error that describes the first contradiction."""
    for at in np.flatnonzero(contradictions)[:1]:
        raise EventDataError(
            f"{describe(int(at))}, which has probability 0 in the initial model.",
            hint="Use an initial model in which it is possible, or remove the rows: a probability of 0 is never increased.",
        )


def learn(
    model: HiddenMarkov,
    codes: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
) -> Learnt:
    """Learn a more likely model of the same shape from readings alone (the Baum-Welch algorithm).

    Zero probabilities of the initial model are retained, and so are distributions with no expected counts. Steps with
    an uninformative reading, or one with zero likelihood, count as moves without a reading. Learning ends after the
    given number of iterations, or when one gains no more than ``tolerance`` in log likelihood.
    """
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or max_iterations < 0:
        raise BindingError(
            f"max_iterations={max_iterations!r}: expected an integer of at least 0.", hint="Use max_iterations=100."
        )
    if not tolerance >= 0:
        raise BindingError(f"tolerance={tolerance!r}: expected a number of at least 0.", hint="Use tolerance=1e-6.")
    if np.ndim(codes) == 2:
        raise BindingError(
            "A model cannot be learned from likelihoods: learning estimates the probabilities of readings.",
            hint="Use model.codes(readings).",
        )
    evidence = evidence_of(model, codes, offsets)
    likely, expected = _expected(model, evidence)
    gains, settled = [likely], False
    for _ in range(max_iterations):
        likelier = _maximised(model, expected)
        likely, expected = _expected(likelier, evidence)
        settled = likely - gains[-1] <= tolerance
        if likely < gains[-1]:  # At the maximum, rounding can lower the likelihood.
            break
        model = likelier
        gains.append(likely)
        if settled:
            break
    return Learnt(model, tuple(gains), settled)


def _expected(model: HiddenMarkov, evidence: Likelihoods) -> tuple[float, Expected]:
    steps, keys, value_count = len(evidence.codes), len(evidence.offsets) - 1, len(model.values)
    chain, likely = chain_of(model), np.empty(keys)
    evidence_of_model = Likelihoods(model.emissions, evidence.codes, evidence.offsets)
    marginals, impossible = np.empty((steps, value_count)), np.zeros(steps, np.bool_)
    filter_all(chain, evidence_of_model, marginals, likely, impossible)
    expected = Expected(np.zeros(value_count), np.zeros(len(model.weights)), np.zeros(model.emissions.shape))
    expect_all(chain, evidence_of_model, marginals, impossible, expected)
    return float(likely.sum()), expected


@jit
def expect_all(
    chain: TransitionTables, evidence: Likelihoods, marginals: Floats, impossible: Bools, expected: Expected
) -> None:
    """Backward pass over the filtered marginals that adds up expected counts."""
    ratio, row = np.empty(chain.initial.size), np.empty(chain.weights.size)
    for key in range(evidence.offsets.size - 1):
        first = evidence.offsets[key]
        for step in range(evidence.offsets[key + 1] - 1, first - 1, -1):
            code = evidence.codes[step]
            for value in range(chain.initial.size):
                if code >= 0 and not impossible[step]:
                    expected.emissions[code, value] += marginals[step, value]
                if step == first:
                    expected.initial[value] += marginals[step, value]
            if step > first:
                before = marginals[step - 1]
                step_back(chain, before, marginals[step], ratio)
                fill_row(chain, before, ratio, row)
                for value in range(before.size):
                    for way in range(chain.starts[value], chain.starts[value + 1]):
                        expected.transitions[way] += before[value] * row[way]


def _maximised(model: HiddenMarkov, expected: Expected) -> HiddenMarkov:
    """The model that maximizes the likelihood of the expected counts."""
    value_count = len(model.values)
    source = np.repeat(np.arange(value_count), np.diff(model.starts))
    totals = np.bincount(source, expected.transitions, value_count)
    return replace(
        model,
        initial=_scaled(expected.initial, expected.initial.sum(), model.initial),
        weights=_scaled(expected.transitions, totals[source], model.weights),
        emissions=_scaled(expected.emissions, expected.emissions.sum(axis=0), model.emissions),
    )


def _scaled(counts: Floats, totals: npt.ArrayLike, otherwise: Floats) -> Floats:
    """Normalize counts by their totals; where the total is too small, use the previous value."""
    enough = np.broadcast_to(totals, counts.shape) >= MIN_PROBABILITY
    normalized = otherwise.copy()
    np.divide(counts, totals, out=normalized, where=enough)
    return normalized.clip(0.0, 1.0)
