"""Values of many frames at once: arrays with nulls, and the operations of expressions on them.

Each function returns, for every frame, the result of :mod:`perseid.semantics.evaluate` for the values of that frame:
nulls are SQL's, NaN equals itself and is above every number, and nothing raises.
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
"""An array of one of :data:`KINDS`, or a NumPy scalar for all frames, which supports the same operations."""
_FALSE, _TRUE = cast("BoolArray", np.False_), cast("BoolArray", np.True_)


@dataclass(frozen=True, slots=True)
class Vector:
    """A value for each frame, or one for all; a boolean is stored as false where it is missing."""

    values: Values
    missing: BoolArray | None = None
    """Mask of missing values; None if nothing is missing."""


def constant(value: v.Value) -> Vector:
    """Return one value for all frames."""
    return Vector(_FALSE, _TRUE) if value is None else Vector(np.asarray(value)[()])


def either(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    """Return the union of two masks of missing values."""
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
    """Compare two values of one kind."""
    x, y = a.values, b.values
    # A sum is cheap, and is NaN if a value is. It may be NaN otherwise; then the slow path is correct too.
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
        # The remainder by -1 is 0, as by 1; dividing the least integer by -1 would overflow.
        divisor = np.where(zero | (b.values == -1), 1, b.values)
        return Vector(np.fmod(a.values, divisor), either(missing, zero if zero.any() else None))
    x, y = np.broadcast_arrays(a.values, b.values)
    found = _BY_OP[op](x, y)
    # Doubles estimate the magnitude of a result: those that may overflow are computed one by one.
    estimate = np.abs(_BY_OP[op](x.astype(np.float64), y.astype(np.float64)))
    doubtful = np.flatnonzero(estimate >= 2.0**62)
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
    """Return the mask of missing values with the least integer added, which has no negation."""
    if a.values.dtype != np.int64:
        return a.missing
    least = a.values == v.MIN_INTEGER
    return either(a.missing, least) if least.any() else a.missing


def square_root(a: Vector) -> Vector:
    return Vector(np.sqrt(a.values), a.missing)


def rounded(toward: np.ufunc, a: Vector) -> Vector:
    """Return ``floor`` or ``ceil`` of doubles as integers; null where they are out of range."""
    found = toward(a.values)
    fits = (found >= -(2.0**63)) & (found < 2.0**63)
    missing = a.missing if fits.all() else either(a.missing, ~fits)
    return Vector(np.where(fits, found, 0.0).astype(np.int64), missing)


def angle(points: Sequence[Vector]) -> Vector:
    """Return the degrees at the second of three points, by the same steps and library as for one frame."""
    arrays = np.broadcast_arrays(*(p.values for p in points))
    found, missing = np.empty(arrays[0].size), np.empty(arrays[0].size, np.bool_)
    angles(tuple(read_only(np.ascontiguousarray(g).reshape(-1)) for g in arrays), found, missing)
    unknown = missing.reshape(arrays[0].shape) if missing.any() else None
    for point in points:
        unknown = either(unknown, point.missing)
    return Vector(found.reshape(arrays[0].shape), unknown)


# choices


def chosen(condition: Vector, then: Vector, otherwise: Vector) -> Vector:
    """Return ``then`` where the condition is true, else ``otherwise``."""
    values = np.where(condition.values, then.values, otherwise.values)
    if then.missing is None and otherwise.missing is None:
        return Vector(values)
    return Vector(values, np.where(condition.values, is_null(then).values, is_null(otherwise).values))


def extreme(op: str, a: Vector, b: Vector) -> Vector:
    """Return ``b`` where ``b op a`` holds or ``a`` is null, else ``a``; a null ``b`` is never chosen."""
    better = (comparison(op, b, a).values | is_null(a).values) & ~is_null(b).values
    return chosen(Vector(better), b, a)
