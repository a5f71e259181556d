"""The loops of inference in hidden Markov models, for many keys of any lengths at once.

A key is gone through by itself, step by step, each sum in the order of the model: what comes out for it is the same to
the last bit whatever other keys are in the call. A key's distributions are kept normalised, so nothing underflows
however long it is. What is less likely than ``LEAST`` counts as what cannot be: below it a double has no digits left.

Going backwards, nothing is multiplied up either. The ratio of a value's probability by all readings to the one that was
predicted for it is what later readings say about it, and it weighs the step that led there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perseid.runtime.jit import jit
from perseid.semantics.hidden import Bools, Floats, Ints

LEAST = 1e-300
"""Probabilities below it count as zero, and so do likelihoods of readings."""
MOST = 1e100
"""Where the weight of a value that cannot be is cut off, lest it become infinite."""


class Chain(NamedTuple):
    """How hidden values move: the transitions by the value they leave, and by the value they lead to."""

    initial: Floats
    starts: Ints
    targets: Ints
    weights: Floats
    arrivals: Ints
    sources: Ints
    inflows: Floats


class Evidence(NamedTuple):
    """What was read: at each step a row of likelihoods, by its number; one below 0 says nothing. Keys lie in a row."""

    table: Floats
    codes: Ints
    offsets: Ints


@jit
def predict(chain: Chain, before: Floats, after: Floats) -> None:
    """The distribution one step on."""
    for value in range(after.size):
        total = 0.0
        for way in range(chain.arrivals[value], chain.arrivals[value + 1]):
            total += before[chain.sources[way]] * chain.inflows[way]
        after[value] = total if total >= LEAST else 0.0


@jit
def condition(now: Floats, table: Floats, code: int) -> float:
    """Weigh a prediction by what was read; how likely that was: 0 if it could not be, 1 where nothing was said.

    In both of these cases the prediction is all that is known.
    """
    total = 0.0
    if code >= 0:
        for value in range(now.size):
            total += now[value] * table[code, value]
        if total >= LEAST:
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
def filter_all(chain: Chain, evidence: Evidence, marginals: Floats, likelihoods: Floats, impossible: Bools) -> None:
    """Forward: each step's distribution by the readings up to it."""
    for key in range(evidence.offsets.size - 1):
        said = 0.0
        for step in range(evidence.offsets[key], evidence.offsets[key + 1]):
            now = marginals[step]
            if step == evidence.offsets[key]:
                for value in range(now.size):
                    now[value] = chain.initial[value] if chain.initial[value] >= LEAST else 0.0
            else:
                predict(chain, marginals[step - 1], now)
            likely = condition(now, evidence.table, evidence.codes[step])
            impossible[step] = likely == 0.0
            if likely > 0.0:
                said += math.log(likely)
        likelihoods[key] = said


@jit
def filter_on(
    chain: Chain, table: Floats, offsets: Ints, afresh: Bools, begin: Floats, marginals: Floats, impossible: Bools
) -> None:
    """Forward, with a row of the table for each step; keys that do not begin afresh go on from what was known of them."""
    for key in range(offsets.size - 1):
        for step in range(offsets[key], offsets[key + 1]):
            now = marginals[step]
            if step > offsets[key]:
                predict(chain, marginals[step - 1], now)
            elif afresh[key]:
                for value in range(now.size):
                    now[value] = chain.initial[value] if chain.initial[value] >= LEAST else 0.0
            else:
                predict(chain, begin[key], now)
            impossible[step] = condition(now, table, step) == 0.0


@jit
def step_back(chain: Chain, before: Floats, after: Floats, ratio: Floats) -> None:
    """Make ``before``, known by readings up to it, known by all of them, as ``after`` is; what those say in ``ratio``."""
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
def smooth_all(chain: Chain, offsets: Ints, marginals: Floats) -> None:
    """Backward, in place: what :func:`filter_all` knows becomes what all readings say."""
    ratio = np.empty(chain.initial.size)
    for key in range(offsets.size - 1):
        for step in range(offsets[key + 1] - 1, offsets[key], -1):
            step_back(chain, marginals[step - 1], marginals[step], ratio)


@jit
def fill_row(chain: Chain, before: Floats, ratio: Floats, row: Floats) -> None:
    """The transitions of one step as all readings have them; those from values that cannot be are 0."""
    for value in range(before.size):
        total = 0.0
        for way in range(chain.starts[value], chain.starts[value + 1]):
            row[way] = chain.weights[way] * ratio[chain.targets[way]]
            total += row[way]
        for way in range(chain.starts[value], chain.starts[value + 1]):
            row[way] = row[way] / total if before[value] > 0.0 else 0.0


@jit
def tabulate_all(chain: Chain, offsets: Ints, marginals: Floats, tables: Floats) -> None:
    """Backward as :func:`smooth_all`, and the transitions into each step as well; those into a first one stay."""
    ratio = np.empty(chain.initial.size)
    for key in range(offsets.size - 1):
        for step in range(offsets[key + 1] - 1, offsets[key], -1):
            step_back(chain, marginals[step - 1], marginals[step], ratio)
            fill_row(chain, marginals[step - 1], ratio, tables[step])


@jit
def look_back(chain: Chain, table: Floats, code: int, ahead: Floats, now: Floats, weights: Floats) -> None:
    """What a reading, and all after it, say about the values a step before: ``ahead`` becomes ``weights``.

    The largest weight of a value that can be is one, whatever those that cannot be would get.
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
        if largest >= LEAST:
            weights[value] = min(weights[value] / largest, MOST)
        else:
            weights[value] = 1.0


@jit
def look_ahead_all(
    chain: Chain, evidence: Evidence, marginals: Floats, impossible: Bools, lag: int, weights: Floats
) -> None:
    """What at most ``lag`` readings after each step say about its values; ``marginals`` are those of the filter."""
    ahead = np.empty(chain.initial.size)
    for key in range(evidence.offsets.size - 1):
        first, last = evidence.offsets[key], evidence.offsets[key + 1] - 1
        for step in range(last, first - 1, -1):
            now = weights[step]
            # Near the end of a key all windows end with it, and each is the next one and a reading more.
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
    """Multiply distributions by weights, in place."""
    for step in range(marginals.shape[0]):
        total = 0.0
        for value in range(marginals.shape[1]):
            marginals[step, value] *= weights[step, value]
            total += marginals[step, value]
        for value in range(marginals.shape[1]):
            marginals[step, value] /= total


@jit
def largest_all(rows: Floats, chosen: Ints) -> None:
    """Where each row is largest; of equals, the first."""
    for step in range(rows.shape[0]):
        best = 0
        for value in range(1, rows.shape[1]):
            if rows[step, value] > rows[step, best]:
                best = value
        chosen[step] = best


@jit
def logarithms(given: Floats, logs: Floats) -> None:
    """Of each number, in an order that no neighbour changes; minus infinity for 0."""
    for row in range(given.shape[0]):
        for column in range(given.shape[1]):
            logs[row, column] = math.log(given[row, column]) if given[row, column] > 0.0 else -np.inf


@jit
def likeliest_all(chain: Chain, evidence: Evidence, impossible: Bools, came: Ints, path: Ints, logs: Floats) -> None:
    """Viterbi's path; chain and evidence are logarithms, ``came`` has a row for each step of the longest key."""
    before, now = np.empty(chain.initial.size), np.empty(chain.initial.size)
    for key in range(evidence.offsets.size - 1):
        first, last = evidence.offsets[key], evidence.offsets[key + 1] - 1
        logs[key] = 0.0
        for step in range(first, last + 1):
            if step == first:
                now[:] = chain.initial
            else:
                before[:] = now
                arrive(chain, before, now, came[step - first])
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
                best = came[step - first, best]


@jit
def arrive(chain: Chain, before: Floats, now: Floats, came: Ints) -> None:
    """The likeliest way to each value one step on, and whence it came; of equals, from the first value."""
    for value in range(now.size):
        best, whence = -np.inf, 0
        for way in range(chain.arrivals[value], chain.arrivals[value + 1]):
            there = before[chain.sources[way]] + chain.inflows[way]
            if there > best:
                best, whence = there, chain.sources[way]
        now[value] = best
        came[value] = whence
