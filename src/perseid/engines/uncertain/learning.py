"""Hidden Markov models from data: by counting where the hidden values are known, by expectation where they are not.

Both keep to what is allowed: where a floor plan has no door, none is learnt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perseid.engines.jit import jit
from perseid.engines.uncertain.inference import chain_of, evidence_of
from perseid.engines.uncertain.passes import LEAST, Chain, Evidence, fill_row, filter_all, step_back
from perseid.errors import BindingError, EventDataError
from perseid.semantics.hidden import Bools, Floats, HiddenMarkov, Value, hidden_markov


class Learnt(NamedTuple):
    """A model, and how likely the readings were under each one on the way to it."""

    model: HiddenMarkov
    log_likelihoods: list[float]
    """Of all readings: under the model begun with, then after each round. They never fall."""


class Expected(NamedTuple):
    """How often each thing is expected to have happened."""

    initial: Floats
    transitions: Floats
    emissions: Floats


def learn_labelled(
    traces: Iterable[Iterable[tuple[Value, Value]]],
    *,
    allowed: Mapping[Any, Iterable[Any]] | None = None,
    readings: Iterable[Value] | None = None,
    smoothing: float = 1.0,
) -> HiddenMarkov:
    """A model of traces whose hidden values are known: each trace a list of pairs, value and reading.

    ``allowed`` says where each value may go on to; a floor plan will do. Without it, anything may follow anything that was
    seen. ``smoothing`` is added to every count of what is allowed, so that what nobody saw is rare and not impossible;
    ``readings`` may name some that nobody saw.
    """
    if isinstance(smoothing, bool) or not isinstance(smoothing, int | float) or not 0 <= smoothing < float("inf"):
        raise BindingError(f"smoothing is a number of sightings to add, not {smoothing!r}.", hint="smoothing=1.0")
    walks = [_pairs(number, trace) for number, trace in enumerate(traces)]
    seen = dict.fromkeys(value for walk in walks for value, _ in walk)
    read = dict.fromkeys(reading for walk in walks for _, reading in walk)
    values = list(seen if allowed is None else allowed)
    names = list(read if readings is None else dict.fromkeys(readings))
    if not walks or not seen:
        raise EventDataError("There are no traces to count.", hint='learn_labelled([[("hall", "antenna1"), …], …])')
    _listed(seen, values, "values of allowed=…")
    _listed(read, names, "readings of readings=…")
    ways = {value: values if allowed is None else list(allowed[value]) for value in values}
    started = dict.fromkeys(values, float(smoothing))
    went = {value: dict.fromkeys(ways[value], float(smoothing)) for value in values}
    told = {value: dict.fromkeys(names, float(smoothing)) for value in values}
    for number, walk in enumerate(walks):
        for at, (value, reading) in enumerate(walk):
            told[value][reading] += 1
            if at == 0:
                started[value] += 1
            elif value in went[walk[at - 1][0]]:
                went[walk[at - 1][0]][value] += 1
            else:
                raise EventDataError(
                    f"Trace {number} goes from {walk[at - 1][0]!r} to {value!r}, which is not allowed.",
                    hint="Allow it, or leave the trace out: what is not allowed is not learnt.",
                )
    return hidden_markov(
        values=values,
        initial=_shares(started, "Nothing starts"),
        transitions={value: _shares(row, f"Nothing leaves {value!r}") for value, row in went.items()},
        readings={value: _shares(row, f"Nothing was read at {value!r}") for value, row in told.items()},
        reading_names=names,
    )


def _pairs(number: int, trace: Iterable[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    walk = list(trace)
    for step in walk:
        if isinstance(step, str) or not isinstance(step, Sequence) or len(step) != 2 or step[0] is None:
            raise EventDataError(
                f"Trace {number} has {step!r} for a step.",
                hint='A step is a value and a reading: ("hall", "antenna1").',
            )
    return walk


def _listed(seen: Iterable[Value], names: Sequence[Value], where: str) -> None:
    known = set(names)
    for name in seen:
        if name not in known:
            raise EventDataError(f"{name!r} was seen, and is not among the {where}.", hint="Add it there.")


def _shares(counts: Mapping[Value, float], what: str) -> dict[Value, float]:
    total = sum(counts.values())
    if total <= 0:
        raise EventDataError(
            f"{what}, so nothing can be said of it.", hint="Say smoothing=1.0, or allow what may happen."
        )
    return {name: count / total for name, count in counts.items()}


def learn(
    model: HiddenMarkov, codes: npt.ArrayLike, offsets: npt.ArrayLike, *, rounds: int = 100, tolerance: float = 1e-6
) -> Learnt:
    """A likelier model of the same shape, by readings alone (Baum and Welch's expectation and maximisation).

    What has probability 0 in the model begun with keeps it, and values of which nothing is expected keep all they
    had. Steps that say nothing, or what cannot be, count as moves without a reading. It ends after ``rounds``, or when one
    gains no more than ``tolerance`` in the logarithm of the likelihood.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 0 or not tolerance >= 0:
        raise BindingError(
            f"Learning takes a number of rounds and a gain to go on for, not {rounds!r} and {tolerance!r}.",
            hint="learn(model, codes, offsets, rounds=100, tolerance=1e-6)",
        )
    if np.ndim(codes) == 2:
        raise BindingError(
            "A model cannot be learnt from likelihoods: they say nothing of how readings come about.",
            hint="Give codes: model.codes(readings).",
        )
    evidence = evidence_of(model, codes, offsets)
    likely, expected = _expected(model, evidence)
    gains = [likely]
    for _ in range(rounds):
        likelier = _maximised(model, expected)
        likely, expected = _expected(likelier, evidence)
        if likely < gains[-1]:  # At the top, rounding has the last word.
            break
        model = likelier
        gains.append(likely)
        if gains[-1] - gains[-2] <= tolerance:
            break
    return Learnt(model, gains)


def _expected(model: HiddenMarkov, evidence: Evidence) -> tuple[float, Expected]:
    steps, keys, many = len(evidence.codes), len(evidence.offsets) - 1, len(model.values)
    chain, likely = chain_of(model), np.empty(keys)
    said = Evidence(model.emissions, evidence.codes, evidence.offsets)
    marginals, impossible = np.empty((steps, many)), np.zeros(steps, np.bool_)
    filter_all(chain, said, marginals, likely, impossible)
    expected = Expected(np.zeros(many), np.zeros(len(model.weights)), np.zeros(model.emissions.shape))
    expect_all(chain, said, marginals, impossible, expected)
    return float(likely.sum()), expected


@jit
def expect_all(chain: Chain, evidence: Evidence, marginals: Floats, impossible: Bools, expected: Expected) -> None:
    """Backward over what the filter knows, adding up how often everything is expected."""
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
    """The model under which what was expected is likeliest."""
    many = len(model.values)
    left = np.repeat(np.arange(many), np.diff(model.starts))
    leaves = np.bincount(left, expected.transitions, many)
    return replace(
        model,
        initial=_scaled(expected.initial, expected.initial.sum(), model.initial),
        weights=_scaled(expected.transitions, leaves[left], model.weights),
        emissions=_scaled(expected.emissions, expected.emissions.sum(axis=0), model.emissions),
    )


def _scaled(counts: Floats, totals: Any, otherwise: Floats) -> Floats:
    """Counts as shares of their totals; what was there before where nothing was counted."""
    enough = np.broadcast_to(totals, counts.shape) >= LEAST
    shares = otherwise.copy()
    np.divide(counts, totals, out=shares, where=enough)
    return shares.clip(0.0, 1.0)
