"""Kernels of inference in hidden Markov models, for many keys of any lengths.

Each key is processed by itself, step by step, with every sum in the order of the model: its result is the same to the
last bit whatever other keys are in the call. Distributions are normalized at each step, so nothing underflows. A
probability below ``MIN_PROBABILITY`` counts as 0: a double has no precision left below it.

Backward passes do not multiply up probabilities either. The ratio of the smoothed to the predicted probability of a
value is the evidence of later readings, and weighs the transitions into it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perseid.runtime.jit import jit
from perseid.semantics.hidden import Bools, Floats, Ints

MIN_PROBABILITY = 1e-300
"""Probabilities and likelihoods below it count as zero."""
MAX_WEIGHT = 1e100
"""Cap of the weight of an impossible value, which could become infinite."""


class TransitionTables(NamedTuple):
    """Transitions of the hidden values: by source value, and by target value."""

    initial: Floats
    starts: Ints
    targets: Ints
    weights: Floats
    arrivals: Ints
    sources: Ints
    inflows: Floats


class Likelihoods(NamedTuple):
    """Readings: by step a row of the likelihood table; negative numbers are uninformative. Keys are concatenated."""

    table: Floats
    codes: Ints
    offsets: Ints


@jit
def predict(chain: TransitionTables, before: Floats, after: Floats) -> None:
    """Advance a distribution by one step."""
    for value in range(after.size):
        total = 0.0
        for way in range(chain.arrivals[value], chain.arrivals[value + 1]):
            total += before[chain.sources[way]] * chain.inflows[way]
        after[value] = total if total >= MIN_PROBABILITY else 0.0


@jit
def condition(now: Floats, table: Floats, code: int) -> float:
    """Condition a prediction on a reading. Return its likelihood: 0 if it is impossible, 1 if there is no reading.

    In these two cases the result is the normalized prediction.
    """
    total = 0.0
    if code >= 0:
        for value in range(now.size):
            total += now[value] * table[code, value]
        if total >= MIN_PROBABILITY:
            for value in range(now.size):
                now[value] = now[value] * table[code, value] / total
            return total
        total = 0.0
    for value in range(now.size):
        total += now[value]
    for value in range(now.size):
        now[value] /= total
    return 1.0 if code < 0 else 0.0


@jit
def filter_all(
    chain: TransitionTables, evidence: Likelihoods, marginals: Floats, likelihoods: Floats, impossible: Bools
) -> None:
    """Forward pass: filtered distribution of each step, and log likelihood of each key's readings."""
    for key in range(evidence.offsets.size - 1):
        log_likelihood = 0.0
        for step in range(evidence.offsets[key], evidence.offsets[key + 1]):
            now = marginals[step]
            if step == evidence.offsets[key]:
                for value in range(now.size):
                    now[value] = chain.initial[value] if chain.initial[value] >= MIN_PROBABILITY else 0.0
            else:
                predict(chain, marginals[step - 1], now)
            likelihood = condition(now, evidence.table, evidence.codes[step])
            impossible[step] = likelihood == 0.0
            if likelihood > 0.0:
                log_likelihood += math.log(likelihood)
        likelihoods[key] = log_likelihood


@jit
def filter_on(
    chain: TransitionTables,
    table: Floats,
    offsets: Ints,
    afresh: Bools,
    begin: Floats,
    marginals: Floats,
    impossible: Bools,
) -> None:
    """Forward pass with one likelihood row per step; keys that do not start afresh continue from ``begin``."""
    for key in range(offsets.size - 1):
        for step in range(offsets[key], offsets[key + 1]):
            now = marginals[step]
            if step > offsets[key]:
                predict(chain, marginals[step - 1], now)
            elif afresh[key]:
                for value in range(now.size):
                    now[value] = chain.initial[value] if chain.initial[value] >= MIN_PROBABILITY else 0.0
            else:
                predict(chain, begin[key], now)
            impossible[step] = condition(now, table, step) == 0.0


@jit
def step_back(chain: TransitionTables, before: Floats, after: Floats, ratio: Floats) -> None:
    """Smooth the filtered ``before``, given the smoothed ``after``; ``ratio`` gets the evidence of later readings."""
    predict(chain, before, ratio)
    for value in range(after.size):
        ratio[value] = after[value] / ratio[value] if ratio[value] > 0.0 else 0.0
    total = 0.0
    for value in range(before.size):
        ahead = 0.0
        for way in range(chain.starts[value], chain.starts[value + 1]):
            ahead += chain.weights[way] * ratio[chain.targets[way]]
        before[value] *= ahead
        total += before[value]
    for value in range(before.size):
        before[value] /= total


@jit
def smooth_all(chain: TransitionTables, offsets: Ints, marginals: Floats) -> None:
    """Backward pass, in place: filtered distributions become smoothed ones."""
    ratio = np.empty(chain.initial.size)
    for key in range(offsets.size - 1):
        for step in range(offsets[key + 1] - 1, offsets[key], -1):
            step_back(chain, marginals[step - 1], marginals[step], ratio)


@jit
def fill_row(chain: TransitionTables, before: Floats, ratio: Floats, row: Floats) -> None:
    """Smoothed transition probabilities of one step; those from impossible values are 0."""
    for value in range(before.size):
        total = 0.0
        for way in range(chain.starts[value], chain.starts[value + 1]):
            row[way] = chain.weights[way] * ratio[chain.targets[way]]
            total += row[way]
        for way in range(chain.starts[value], chain.starts[value + 1]):
            row[way] = row[way] / total if before[value] > 0.0 else 0.0


@jit
def tabulate_all(chain: TransitionTables, offsets: Ints, marginals: Floats, tables: Floats) -> None:
    """Like :func:`smooth_all`, and also the transitions into each step; rows of first steps are not written."""
    ratio = np.empty(chain.initial.size)
    for key in range(offsets.size - 1):
        for step in range(offsets[key + 1] - 1, offsets[key], -1):
            step_back(chain, marginals[step - 1], marginals[step], ratio)
            fill_row(chain, marginals[step - 1], ratio, tables[step])


@jit
def look_back(chain: TransitionTables, table: Floats, code: int, ahead: Floats, now: Floats, weights: Floats) -> None:
    """Propagate likelihoods one step back: ``ahead``, multiplied by those of a reading, becomes ``weights``.

    Weights are scaled so that the largest one of a possible value is 1; those of impossible values are capped.
    """
    if code >= 0:
        for value in range(ahead.size):
            ahead[value] *= table[code, value]
    largest = 0.0
    for value in range(weights.size):
        total = 0.0
        for way in range(chain.starts[value], chain.starts[value + 1]):
            total += chain.weights[way] * ahead[chain.targets[way]]
        weights[value] = total
        if now[value] > 0.0 and total > largest:
            largest = total
    for value in range(weights.size):
        if largest >= MIN_PROBABILITY:
            weights[value] = min(weights[value] / largest, MAX_WEIGHT)
        else:
            weights[value] = 1.0


@jit
def look_ahead_all(
    chain: TransitionTables, evidence: Likelihoods, marginals: Floats, impossible: Bools, lag: int, weights: Floats
) -> None:
    """Likelihood of the next ``lag`` readings after each step, given its value; ``marginals`` are the filtered ones."""
    ahead = np.empty(chain.initial.size)
    for key in range(evidence.offsets.size - 1):
        first, last = evidence.offsets[key], evidence.offsets[key + 1] - 1
        for step in range(last, first - 1, -1):
            now = weights[step]
            # Near the end of a key all windows end with it, so each extends that of the next step by one reading.
            begin = step if step == last or step + lag < last else step + 1
            end = min(step + lag, last) if begin == step else begin
            if begin == step:
                now[:] = 1.0
            else:
                now[:] = weights[step + 1]
            for at in range(end, step, -1):
                ahead[:] = now
                code = -1 if impossible[at] else evidence.codes[at]
                look_back(chain, evidence.table, code, ahead, marginals[at - 1], now)


@jit
def weigh_all(marginals: Floats, weights: Floats) -> None:
    """Multiply distributions by weights and normalize, in place."""
    for step in range(marginals.shape[0]):
        total = 0.0
        for value in range(marginals.shape[1]):
            marginals[step, value] *= weights[step, value]
            total += marginals[step, value]
        for value in range(marginals.shape[1]):
            marginals[step, value] /= total


@jit
def largest_all(rows: Floats, chosen: Ints) -> None:
    """Index of the largest number of each row; of equals, the first."""
    for step in range(rows.shape[0]):
        best = 0
        for value in range(1, rows.shape[1]):
            if rows[step, value] > rows[step, best]:
                best = value
        chosen[step] = best


@jit
def logarithms(numbers: Floats, logs: Floats) -> None:
    """Logarithm of each number, minus infinity for 0; not vectorized, so that neighbors cannot change the result."""
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            logs[row, column] = math.log(numbers[row, column]) if numbers[row, column] > 0.0 else -np.inf


@jit
def likeliest_all(
    chain: TransitionTables, evidence: Likelihoods, impossible: Bools, backpointers: Ints, path: Ints, logs: Floats
) -> None:
    """Viterbi algorithm in logarithms; ``backpointers`` has backpointers for each step of the longest key."""
    before, now = np.empty(chain.initial.size), np.empty(chain.initial.size)
    for key in range(evidence.offsets.size - 1):
        first, last = evidence.offsets[key], evidence.offsets[key + 1] - 1
        logs[key] = 0.0
        for step in range(first, last + 1):
            if step == first:
                now[:] = chain.initial
            else:
                before[:] = now
                arrive(chain, before, now, backpointers[step - first])
            code = evidence.codes[step]
            if code >= 0 and not impossible[step]:
                for value in range(now.size):
                    now[value] += evidence.table[code, value]
        if first <= last:
            best = 0
            for value in range(1, now.size):
                if now[value] > now[best]:
                    best = value
            logs[key] = now[best]
            for step in range(last, first - 1, -1):
                path[step] = best
                best = backpointers[step - first, best]


@jit
def arrive(chain: TransitionTables, before: Floats, now: Floats, backpointers: Ints) -> None:
    """One Viterbi step: the best log probability of each value, and its backpointer; of equals, the first source."""
    for value in range(now.size):
        best, source = -np.inf, 0
        for way in range(chain.arrivals[value], chain.arrivals[value + 1]):
            log_probability = before[chain.sources[way]] + chain.inflows[way]
            if log_probability > best:
                best, source = log_probability, chain.sources[way]
        now[value] = best
        backpointers[value] = source
