"""check() warns of patterns with a search that can take exponential time, before any event is read."""

from __future__ import annotations

import warnings

import pytest

import perseid as ps


def warnings_of(match: str, rest: str) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ps.pattern(f"pattern p match {match} {rest}").check()
    return [str(one.message) for one in found]


@pytest.mark.parametrize(
    ("match", "rest", "because"),
    [
        ("A+ a -> A+ b", "where sum(b.v) > 3 within 1 day", "a and b can take the same events"),
        ("A+ a -> A+ b -> A+ c -> A+ d", "where sum(a.v) = -1 within 1 day", "a, b, c and d can take the same events"),
        ("A* a -> any{2,} b", "where sum(b.v) > sum(a.v) within 1 day", "a and b can take the same events"),
        ("A a ->> A b ->> A c", "within 1 day", "b and c follow by '->>' without a condition"),
        ("A a ->> B b ->> C c", "where b.v > 3 within 1 day", "b and c follow by '->>' without a condition"),
        ("A a ->> B b ->> C c", "within 1000 events", "b and c follow by '->>' without a condition"),
        ("A a ->> (B b ->> C c)+", "within 1 day", "a repetition with '->>' matches every combination"),
    ],
)
def test_pattern_with_an_exponential_search_is_a_warning(match: str, rest: str, because: str) -> None:
    (message,) = warnings_of(match, rest)
    assert message.startswith("Pattern p: ")
    assert because in message
    assert "SearchBudgetError" in message


@pytest.mark.parametrize(
    ("match", "rest"),
    [
        ("A+ a -> A+ b", "within 1 day"),  # no condition refers to earlier events: equal threads are merged
        ("A+ a -> B+ b", "where sum(b.v) > 3 within 1 day"),  # no event fits both
        ("A{1,3} a -> A{1,3} b", "where sum(b.v) > 3 within 1 day"),
        ("A+ a -> A b", "where sum(a.v) > 3 within 1 day"),
        ("A a ->> B b", "within 1 day"),
        ("A a ->> B b ->> C c", "within 10 events"),
        ("A a ->> B b ->> C c", "where b.v = a.v and c.v = a.v within 1 day"),
        ("A(v as x) a ->> B(v as x) b ->> C(v as x) c", "within 1 day"),
        ("A a ->> B b ->> C c", "within 1 day after match skip past last"),
        ("A+ a -> A+ b", "where sum(b.v) > 3 within 1 day selection chronicle"),
    ],
)
def test_bounded_search_is_no_warning(match: str, rest: str) -> None:
    assert warnings_of(match, rest) == []


def test_warning_names_only_patterns_of_the_set() -> None:
    both = ps.patterns("pattern p match A a ->> A b ->> A c within 1 day pattern q match p x -> A y within 1 day")
    with pytest.warns(ps.errors.PerseidWarning, match="Pattern p: "):
        both.check()
    both["q"].check()
