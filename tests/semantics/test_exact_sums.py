"""Sums of doubles: correctly rounded, independent of the order, and exact after subtraction."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from perseid.semantics.exact_sums import ExactSum, exact_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY = st.floats()


def nearest(total: Fraction) -> float:
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(st.lists(FINITE, max_size=12))
def test_the_double_nearest_to_the_true_sum(values: list[float]) -> None:
    assert exact_sum(values).value() == nearest(sum(map(Fraction, values), Fraction()))


@given(st.lists(ANY, max_size=8).flatmap(lambda values: st.tuples(st.just(values), st.permutations(values))))
def test_the_order_does_not_count(pair: tuple[list[float], list[float]]) -> None:
    one, other = (exact_sum(values) for values in pair)
    assert one == other
    assert repr(one.value()) == repr(other.value())


@given(st.lists(ANY, max_size=6), st.lists(ANY, max_size=6))
def test_subtraction_restores_the_previous_sum(kept: list[float], gone: list[float]) -> None:
    total = exact_sum([*gone, *kept])
    for value in reversed(gone):
        total.add(value, -1)
    assert total == exact_sum(kept)


@given(FINITE, st.integers(1, 50))
def test_weight_adds_a_value_several_times(value: float, times: int) -> None:
    total = ExactSum()
    total.add(value, times)
    assert total == exact_sum([value] * times)


def test_infinities_and_nan_as_ieee_has_them() -> None:
    assert exact_sum([math.inf, 1.0]).value() == math.inf
    assert exact_sum([-math.inf, 1e308, 1e308]).value() == -math.inf
    assert math.isnan(exact_sum([math.inf, -math.inf]).value())
    assert math.isnan(exact_sum([math.nan, 1.0]).value())
    assert exact_sum([1e308, 1e308]).value() == math.inf
    assert exact_sum([1e308, 1e308, -1e308]).value() == 1e308  # where adding one by one would stay at infinity
    assert exact_sum([1e16, 1.0, -1e16]).value() == 1.0


def test_means() -> None:
    assert exact_sum([0.1, 0.2, 0.3]).mean() == 0.6 / 3
    assert math.isnan(exact_sum([math.nan]).mean())
    assert exact_sum([-0.0]).value() == 0.0
