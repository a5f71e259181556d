"""Hidden Markov models: a hidden value changes step by step, and a sensor reports uncertain readings of it.

Example: a person walks through rooms, one step a second; antennas report some of the steps, and sometimes the wrong
one. The model has the initial distribution, the transition probabilities, and the probability of each reading given the
value. :mod:`perseid.engines.uncertain` computes the posterior of the values from readings; Lahar's probabilistic
streams come from such models (Ré et al. 2008, Section 2.4).

Transitions are sparse, by source value: a floor plan of a thousand rooms has a few thousand transitions. Distributions
are never normalized: one that does not sum to one is rejected, with its sum.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from perseid.errors import BindingError, EventDataError, nearest, type_name

Value: TypeAlias = Hashable
"""A hidden value or a reading: text, number, time, or a tuple of these."""
_V = TypeVar("_V", bound=Value)
_R = TypeVar("_R", bound=Value)
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""Maximum deviation of a distribution's sum from one, which allows for rounding only."""
LARGEST = 100_000_000
"""Maximum number of array elements in a product of two models."""
UNKNOWN = -1
"""Code of a step without a reading."""
_SCALARS = (str, bytes, int, float, Decimal, dt.date, dt.time, dt.timedelta)


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """A hidden Markov model: values, transitions and emissions. Models with equal content are equal."""

    values: tuple[Value, ...]
    readings: tuple[Value, ...]
    """Possible sensor reports. ``None`` (nothing was read) is an ordinary reading if it is listed."""
    initial: Floats
    """Probability of each value at the first step of a key."""
    starts: Ints
    """Offset of each source value's transitions in the two arrays below, plus the end (CSR row pointers)."""
    targets: Ints
    """Target values of the transitions, ascending for each source value."""
    weights: Floats
    """Probability of each transition, given its source value."""
    emissions: Floats
    """Probability of a reading (row), given the value (column). Without readings, a model takes likelihoods only."""

    def __post_init__(self) -> None:
        values, readings = _names(self.values, "values"), _names(self.readings, "readings", none=True)
        if not values:
            raise BindingError("The model has no values.", hint='Add the hidden values: values=["hall", "office"].')
        size = len(values)
        starts = _integers(self.starts, "starts")
        targets = _integers(self.targets, "targets")
        if len(starts) != size + 1 or starts[0] != 0 or starts[-1] != len(targets) or (np.diff(starts) < 0).any():
            raise BindingError(
                f"The transitions of {size} values need {size + 1} ascending starts from 0 to the number of targets.",
                hint="Use hidden_markov(transitions=…) with a mapping or a matrix.",
            )
        left = np.repeat(np.arange(size), np.diff(starts))
        if len(targets) and not 0 <= targets.min() <= targets.max() < size:
            raise BindingError(f"Transition target out of range: expected a number from 0 to {size - 1}.")
        if ((np.diff(targets) <= 0) & (np.diff(left) == 0)).any():
            raise BindingError("The transition targets of a value must be ascending and unique.")
        initial = _probabilities(self.initial, (size,), "initial", lambda at: f"of the initial value {values[at[0]]!r}")
        weights = _probabilities(
            self.weights,
            (len(targets),),
            "transitions",
            lambda at: f"of the transition from {values[left[at[0]]]!r} to {values[targets[at[0]]]!r}",
        )
        emissions = _probabilities(
            self.emissions,
            (len(readings), size),
            "readings",
            lambda at: f"of reading {readings[at[0]]!r} at {values[at[1]]!r}",
        )
        _ones(np.array([math.fsum(initial)]), lambda _: "The initial probabilities")
        _ones(
            np.bincount(left, weights, size).astype(np.float64),
            lambda row: f"The transitions from {values[row]!r}",
            "Add all transitions of the value; a value without successors has one to itself: {'b': {'b': 1.0}}.",
        )
        if readings:
            _ones(
                emissions.sum(axis=0),
                lambda column: f"The readings at {values[column]!r}",
                "Add None if a sensor may report nothing: {'a': {'antenna': 0.7, None: 0.3}}.",
            )
        checked = (values, readings, initial, starts, targets, weights, emissions)
        for name, array in zip(self.__dataclass_fields__, checked, strict=True):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
            object.__setattr__(self, name, array)

    def reversed_transitions(self) -> tuple[Ints, Ints, Floats]:
        """Return the transitions by target value: offsets, sources in ascending order, weights."""
        return self._reversed

    @cached_property
    def _reversed(self) -> tuple[Ints, Ints, Floats]:
        size = len(self.values)
        order = np.argsort(self.targets, kind="stable")
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(self.targets, minlength=size), out=starts[1:])
        arrays = starts, np.repeat(np.arange(size), np.diff(self.starts))[order], self.weights[order]
        for array in arrays:
            array.flags.writeable = False
        return arrays

    def codes(self, readings: Iterable[Value]) -> Ints:
        """Return readings as rows of ``emissions``; ``None`` is ``UNKNOWN`` unless it is a reading of the model."""
        known = self._codes
        try:
            return np.fromiter((known[reading] for reading in readings), np.int64)
        except (KeyError, TypeError) as error:
            unknown = error.args[0] if isinstance(error, KeyError) else None
            raise EventDataError(
                f"Unknown reading {unknown!r}." if isinstance(error, KeyError) else str(error),
                hint=f"Available: {_some(self.readings)}. Use None for a step without a reading.",
                nearest=nearest(str(unknown), [str(name) for name in self.readings]),
            ) from None

    @cached_property
    def _codes(self) -> dict[Value, int]:
        return {None: UNKNOWN} | {reading: code for code, reading in enumerate(self.readings)}

    def product(self, other: HiddenMarkov) -> HiddenMarkov:
        """Return the product of two independent models: values and readings are pairs."""
        transitions, numbers = len(self.targets) * len(other.targets), self.emissions.size * other.emissions.size
        if max(transitions, numbers) > LARGEST:
            raise BindingError(
                f"The product has {transitions:,} transitions and {numbers:,} probabilities of readings; "
                f"the limit is {LARGEST:,}.",
                hint="Use a separate key for each model: their hidden values are independent.",
            )
        if bool(self.readings) != bool(other.readings):
            raise BindingError("Only one of the two models has readings.", hint="Add readings to both, or to neither.")
        ours, theirs = np.diff(self.starts), np.diff(other.starts)
        starts = np.zeros(len(ours) * len(theirs) + 1, np.int64)
        np.cumsum(np.outer(ours, theirs).ravel(), out=starts[1:])
        targets, weights = np.empty(starts[-1], np.int64), np.empty(starts[-1])
        for row, (a, b) in enumerate(np.ndindex(len(ours), len(theirs))):
            first, second = slice(*self.starts[a : a + 2]), slice(*other.starts[b : b + 2])
            row_range = slice(*starts[row : row + 2])
            targets[row_range] = np.add.outer(self.targets[first] * len(theirs), other.targets[second]).ravel()
            weights[row_range] = np.outer(self.weights[first], other.weights[second]).ravel()
        return HiddenMarkov(
            values=tuple((a, b) for a in self.values for b in other.values),
            readings=tuple((a, b) for a in self.readings for b in other.readings),
            initial=np.outer(self.initial, other.initial).ravel(),
            starts=starts,
            targets=targets,
            weights=weights,
            emissions=np.kron(self.emissions, other.emissions).astype(np.float64),
        )

    def digest(self) -> str:
        """Return a digest, equal in every process: state is stored with it and rejected under another model."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for names in (self.values, self.readings):
            written = repr(names).encode()
            digest.update(len(written).to_bytes(8, "little") + written)
        for array in (self.initial, self.starts, self.targets, self.weights, self.emissions):
            digest.update(array.size.to_bytes(8, "little") + array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest() == other.digest() if isinstance(other, HiddenMarkov) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest())

    def __reduce__(self) -> tuple[object, ...]:
        # Cached properties are not pickled, and arrays are read-only again after unpickling.
        return HiddenMarkov, tuple(getattr(self, name) for name in self.__dataclass_fields__)


def hidden_markov(
    *,
    transitions: Mapping[_V, Mapping[_V, float]] | npt.ArrayLike,
    values: Iterable[Value] | None = None,
    initial: Mapping[_V, float] | npt.ArrayLike | None = None,
    readings: Mapping[_V, Mapping[_R, float]] | npt.ArrayLike | None = None,
    reading_names: Iterable[Value] | None = None,
) -> HiddenMarkov:
    """Build a model from mappings, or from matrices with a row for each value.

    For each value, ``transitions`` has the distribution of the next value, and ``readings`` has the distribution of the
    reading: ``{"a": {"antenna": 0.7, None: 0.3}}``. Missing entries have probability 0. By default, values are the
    keys of ``transitions``, with a uniform initial distribution. A matrix of readings has a column for each of
    ``reading_names``. Without readings the model takes likelihoods only.
    """
    if values is None and not isinstance(transitions, Mapping):
        raise BindingError("A transition matrix needs names for its rows.", hint='Add values=["a", "b"].')
    listed = _names(transitions if values is None else values, "values")  # type: ignore[arg-type]
    numbers = {value: number for number, value in enumerate(listed)}
    if initial is None:
        initial = np.full(len(listed), 1 / max(1, len(listed)))
    elif isinstance(initial, Mapping):
        initial = _row(initial, numbers, "initial", "value")
    names, emissions = _emissions(readings, reading_names, numbers)
    rows = _sparse(transitions, numbers)
    starts = np.zeros(len(listed) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    return HiddenMarkov(
        values=listed,
        readings=names,
        initial=initial,  # type: ignore[arg-type]
        starts=starts,
        targets=np.array([target for row in rows for target, _ in row], np.int64),
        weights=np.array([weight for row in rows for _, weight in row], np.float64),
        emissions=emissions,
    )


def floor_plan(edges: Iterable[tuple[Value, Value]], stay: float = 0.8) -> dict[Value, dict[Value, float]]:
    """Return transitions on an undirected graph of rooms: stay, or go to each neighbor with equal probability."""
    if isinstance(stay, bool) or not isinstance(stay, int | float) or not 0 <= stay <= 1:
        raise BindingError(f"stay: expected a number from 0 to 1, got {stay!r}.", hint="Use stay=0.8.")
    neighbours: dict[Value, dict[Value, None]] = {}
    for edge in edges:
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
            raise BindingError(f"Expected an edge, got {edge!r}.", hint='Use a pair of rooms: ("hall", "office").')
        one, other = _names(edge, "rooms of an edge")
        neighbours.setdefault(one, {})[other] = None
        neighbours.setdefault(other, {})[one] = None
    return {
        room: {to: chance for to, chance in _moves(room, rooms, float(stay)) if chance > 0}
        for room, rooms in neighbours.items()
    }


def _moves(room: Value, neighbours: Iterable[Value], stay: float) -> Iterable[tuple[Value, float]]:
    targets = list(neighbours)
    return chain([(room, stay)], ((to, (1 - stay) / len(targets)) for to in targets))


def _sparse(given: object, numbers: Mapping[Value, int]) -> list[list[tuple[int, float]]]:
    """Return the transitions by source value, without those of probability 0."""
    if isinstance(given, Mapping):
        _known(given, numbers, "transitions", "value")
        rows = (_pairs(given.get(value, {}), numbers, "transitions", "value") for value in numbers)
        return [sorted((target, weight) for target, weight in row if weight != 0) for row in rows]
    named = list(numbers)
    matrix = _probabilities(
        given,
        (len(named),) * 2,
        "transitions",
        lambda at: f"of the transition from {named[at[0]]!r} to {named[at[1]]!r}",
    )
    return [[(int(target), float(row[target])) for target in np.flatnonzero(row)] for row in matrix]


def _emissions(
    given: object, named: Iterable[Value] | None, numbers: Mapping[Value, int]
) -> tuple[tuple[Value, ...], Floats]:
    """Return the readings and their probabilities: a row for each reading, a column for each value."""
    if given is None:
        if named is not None:
            raise BindingError("reading_names is set without readings.", hint="Add readings={'a': {'antenna': 1.0}}.")
        return (), np.zeros((0, len(numbers)))
    if isinstance(given, Mapping):
        _known(given, numbers, "readings", "value")
        rows = [_mapping(given.get(value, {}), "readings") for value in numbers]
        names = _names(dict.fromkeys(chain(*rows)) if named is None else named, "readings", none=True)
        codes = {name: code for code, name in enumerate(names)}
        return names, np.array([_row(row, codes, "readings", "reading") for row in rows]).reshape(-1, len(names)).T
    if named is None:
        raise BindingError("A matrix of readings needs names for its columns.", hint='Add reading_names=["a1", None].')
    names, values = _names(named, "readings", none=True), list(numbers)
    matrix = _probabilities(
        given,
        (len(values), len(names)),
        "readings",
        lambda at: f"of reading {names[at[1]]!r} at {values[at[0]]!r}",
    )
    return names, matrix.T


def _row(given: object, numbers: Mapping[Value, int], what: str, kind: str) -> Floats:
    """Convert a mapping to an array in the order of names; missing entries are 0."""
    row = np.zeros(len(numbers))
    for number, chance in _pairs(given, numbers, what, kind):
        row[number] = chance
    return row


def _pairs(given: Any, numbers: Mapping[Value, int], what: str, kind: str) -> list[tuple[int, float]]:
    """Convert a mapping to (index, probability) pairs."""
    _known(_mapping(given, what), numbers, what, kind)
    pairs = []
    for name, chance in given.items():
        if isinstance(chance, str | bytes) or not hasattr(chance, "__float__"):
            raise BindingError(f"{what}: expected a probability of {name!r}, got {chance!r}.")
        pairs.append((numbers[name], float(chance)))
    return pairs


def _mapping(given: object, what: str) -> Mapping[Value, object]:
    if isinstance(given, Mapping):
        return given
    raise BindingError(
        f"{what}: expected probabilities by name, got a {type_name(given)}.", hint="Use {'a': {'a': 0.9, 'b': 0.1}}."
    )


def _known(given: Iterable[Value], numbers: Mapping[Value, int], what: str, kind: str) -> None:
    for name in given:
        if name not in numbers:
            raise BindingError(
                f"{what}: unknown {kind} {name!r}.",
                hint=f"Available: {_some(numbers)}.",
                nearest=nearest(str(name), map(str, numbers)),
            )


def _some(names: Iterable[Value]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "") or "none"


def _names(given: Iterable[Value], what: str, none: bool = False) -> tuple[Value, ...]:
    """Return unique names as plain scalars."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BindingError(f"{what}: expected a list of names, got a {type_name(given)}.")
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in given)
    seen = set()
    for name in names:
        if not (_is_scalar(name) or (none and name is None)):
            raise BindingError(
                f"{what}: unsupported name {name!r}.", hint="Use strings, numbers, times, or tuples of these."
            )
        if name in seen:
            raise BindingError(f"{what}: {name!r} occurs twice.")
        seen.add(name)
    return names


def _is_scalar(name: object, nested: bool = False) -> bool:
    """Return True for names that are equal in every process, and equal to themselves."""
    if isinstance(name, tuple):
        return all(_is_scalar(part, nested=True) for part in name)
    if isinstance(name, Decimal | float) and math.isnan(name):
        return False
    return isinstance(name, _SCALARS) or (nested and name is None)


def _integers(given: object, what: str) -> Ints:
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.zeros((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise BindingError(f"{what}: expected an array of integers.")
    return array.astype(np.int64)


def _probabilities(
    given: object, shape: tuple[int, ...], what: str, describe: Callable[[tuple[int, ...]], str]
) -> Floats:
    """Copy numbers from 0 to 1 to an array; ``describe`` describes the probability at an index in errors."""
    try:
        array = np.asarray(given)
        if array.size and array.dtype.kind not in "fiubO":
            raise TypeError
        array = np.array(array, np.float64, order="C")
    except (TypeError, ValueError):
        raise BindingError(f"{what}: expected numbers in rows of equal length.") from None
    if array.shape != shape:
        raise BindingError(
            f"{what}: expected the shape {shape} of the names, got {array.shape}.",
            hint="Use a row for each value, in the order of values=…, and in readings a column for each reading.",
        )
    wrong = np.argwhere(~((array >= 0) & (array <= 1)))
    if len(wrong):
        at = tuple(int(index) for index in wrong[0])
        raise BindingError(f"The probability {describe(at)}: expected a number from 0 to 1, got {array[at]}.")
    return array


def _ones(sums: Floats, describe: Callable[[int], str], hint: str = "Correct them: they are not normalized.") -> None:
    """Raise unless all sums are one, within the tolerance."""
    for index in np.flatnonzero(~(np.abs(sums - 1) <= TOLERANCE))[:1]:
        raise BindingError(f"{describe(int(index))}: expected a sum of 1, got {float(sums[index])!r}.", hint=hint)
