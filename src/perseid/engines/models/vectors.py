"""Values of many frames at once: arrays with nulls, and what expressions do with them.

Each function gives, for every frame, what :mod:`perseid.semantics.evaluate` gives for the values of that frame alone: nulls
are SQL's, NaN equals itself and is above every number, and nothing raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from perseid.engines.models.windows import angles
from perseid.runtime.arrays import BoolArray
from perseid.runtime.key_encoding import read_only
from perseid.semantics import values as v

BOOLEAN, INTEGER, DOUBLE = "boolean", "integer", "double"
KINDS: dict[str, type[np.bool_ | np.int64 | np.float64]] = {BOOLEAN: np.bool_, INTEGER: np.int64, DOUBLE: np.float64}

Values: TypeAlias = NDArray[Any]
"""Of one of :data:`KINDS`: an array, or a NumPy value that stands for all frames and does what an array does."""
_FALSE, _TRUE = cast("BoolArray", np.False_), cast("BoolArray", np.True_)


@dataclass(frozen=True, slots=True)
class Vector:
    """A value for each frame, or one for all; a truth value is false where it is missing."""

    values: Values
    missing: BoolArray | None = None
    """Truth values; None where nothing is missing."""


def constant(value: v.Value) -> Vector:
    """One value for all frames."""
    return Vector(_FALSE, _TRUE) if value is None else Vector(np.asarray(value)[()])


def either(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    """What is missing where one of two values is."""
    return right if left is None else left if right is None else left | right


def _truth(values: Values, missing: BoolArray | None) -> Vector:
    return Vector(values if missing is None else values & ~missing, missing)


def as_double(value: Vector) -> Vector:
    return Vector(value.values.astype(np.float64), value.missing)


# truth


def conjunction(a: Vector, b: Vector) -> Vector:
    missing = either(a.missing, b.missing)
    return Vector(a.values & b.values, None if missing is None else missing & ~_false(a) & ~_false(b))


def disjunction(a: Vector, b: Vector) -> Vector:
    true, missing = a.values | b.values, either(a.missing, b.missing)
    return Vector(true, None if missing is None else missing & ~true)


def negation(a: Vector) -> Vector:
    return _truth(~a.values, a.missing)


def _false(a: Vector) -> BoolArray:
    return ~a.values if a.missing is None else ~a.values & ~a.missing


def is_null(a: Vector) -> Vector:
    return Vector(_FALSE if a.missing is None else a.missing)


def is_true(a: Vector) -> Vector:
    return Vector(a.values)


def is_false(a: Vector) -> Vector:
    return Vector(_false(a))


# comparisons

_QUICK: dict[str, np.ufunc] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def comparison(op: str, a: Vector, b: Vector) -> Vector:
    """Of two values of one kind."""
    x, y = a.values, b.values
    # A sum is quick and has NaN in it where a value has; it may be NaN without, and then the long way is right too.
    unknown = x.dtype == np.float64 and np.isnan(np.sum(x) + np.sum(y))
    found = _with_nan(op, x, y) if unknown else _QUICK[op](x, y)
    return _truth(found, either(a.missing, b.missing))


def _with_nan(op: str, x: Values, y: Values) -> BoolArray:
    equal: BoolArray = (x == y) | (np.isnan(x) & np.isnan(y))
    less: BoolArray = (x < y) | (np.isnan(y) & ~np.isnan(x))
    match op:
        case "=":
            return equal
        case "<>":
            return ~equal
        case "<":
            return less
        case "<=":
            return less | equal
        case ">":
            return ~(less | equal)
    return ~less


def null_safe_equal(a: Vector, b: Vector) -> Vector:
    both = is_null(a).values & is_null(b).values
    return Vector(comparison("=", a, b).values | both)


# numbers

_BY_OP: dict[str, np.ufunc] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}


def arithmetic_of_doubles(op: str, a: Vector, b: Vector) -> Vector:
    missing = either(a.missing, b.missing)
    if op in ("/", "%"):
        zero = b.values == 0.0
        if zero.any():
            missing = either(missing, zero)
    return Vector(_BY_OP[op](a.values, b.values), missing)


def arithmetic_of_integers(op: str, a: Vector, b: Vector) -> Vector:
    if op == "/":
        return arithmetic_of_doubles(op, as_double(a), as_double(b))
    missing = either(a.missing, b.missing)
    if op == "%":
        zero = b.values == 0
        # Nothing is left by minus one as by one; the processor would fail on the least integer.
        divisor = np.where(zero | (b.values == -1), 1, b.values)
        return Vector(np.fmod(a.values, divisor), either(missing, zero if zero.any() else None))
    x, y = np.broadcast_arrays(a.values, b.values)
    found = _BY_OP[op](x, y)
    # Doubles tell how large a result is: what may not fit is computed one by one.
    near = np.abs(_BY_OP[op](x.astype(np.float64), y.astype(np.float64)))
    doubtful = np.flatnonzero(near >= 2.0**62)
    if not len(doubtful):
        return Vector(found, missing)
    found, over = np.array(found), np.zeros(found.shape, np.bool_)
    for place in doubtful.tolist():
        exact = v.arithmetic(op, int(x.flat[place]), int(y.flat[place]))
        over.flat[place] = exact is None
        found.flat[place] = 0 if exact is None else exact
    return Vector(found, either(missing, over))


def negated(a: Vector) -> Vector:
    return Vector(-a.values, _without_least(a))


def absolute(a: Vector) -> Vector:
    return Vector(np.abs(a.values), _without_least(a))


def _without_least(a: Vector) -> BoolArray | None:
    """The least integer has no opposite."""
    if a.values.dtype != np.int64:
        return a.missing
    least = a.values == v.MIN_INTEGER
    return either(a.missing, least) if least.any() else a.missing


def square_root(a: Vector) -> Vector:
    return Vector(np.sqrt(a.values), a.missing)


def whole(toward: np.ufunc, a: Vector) -> Vector:
    """``floor`` or ``ceil`` of doubles, as integers; null where none holds them."""
    found = toward(a.values)
    fits = (found >= -(2.0**63)) & (found < 2.0**63)
    missing = a.missing if fits.all() else either(a.missing, ~fits)
    return Vector(np.where(fits, found, 0.0).astype(np.int64), missing)


def angle(points: Sequence[Vector]) -> Vector:
    """Degrees at the second of three points, by the same steps and the same library as for one frame."""
    given = np.broadcast_arrays(*(p.values for p in points))
    found, missing = np.empty(given[0].size), np.empty(given[0].size, np.bool_)
    angles(tuple(read_only(np.ascontiguousarray(g).reshape(-1)) for g in given), found, missing)
    unknown = missing.reshape(given[0].shape) if missing.any() else None
    for point in points:
        unknown = either(unknown, point.missing)
    return Vector(found.reshape(given[0].shape), unknown)


# choices


def chosen(condition: Vector, then: Vector, otherwise: Vector) -> Vector:
    """The second where the first is true, else the third."""
    values = np.where(condition.values, then.values, otherwise.values)
    if then.missing is None and otherwise.missing is None:
        return Vector(values)
    return Vector(values, np.where(condition.values, is_null(then).values, is_null(otherwise).values))


def extreme(op: str, a: Vector, b: Vector) -> Vector:
    """The better of two, where ``op`` says when the second is; one that is null is none."""
    better = (comparison(op, b, a).values | is_null(a).values) & ~is_null(b).values
    return chosen(Vector(better), b, a)
