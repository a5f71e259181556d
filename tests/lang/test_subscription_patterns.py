"""Conversion of patterns to subscriptions and of subscriptions to patterns."""

from __future__ import annotations

import random

import pytest

import perseid as ps
from perseid.lang.parser import parse_pattern
from perseid.lang.printer import print_pattern
from perseid.lang.subscription_patterns import subscription_of
from perseid.lang.xscl import parse_subscription
from tests.lang.subscription_as_pattern import pattern_of
from tests.semantics.join_documents import random_subscriptions

STEPS = "Feed << //item->i[/author->x][/price->p] >> a -> Feed << //item->j[/author->y][/price->q] >> b"
AGAIN = f"pattern again match {STEPS} where a.x = b.y within 1 day selection followed by"
XSCL = "Feed//item->i[/author->x][/price->p] FOLLOWED BY{{x = y{}, 1 day}} Feed//item->j[/author->y][/price->q]"


@pytest.mark.parametrize(
    "text",
    [
        XSCL.format(""),
        XSCL.format(" AND p < q AND x != 'ann' AND p >= -2.5 AND 3 < q"),
        XSCL.format(" AND (x contains 'a' OR y > 'b')"),
        XSCL.format("").replace("FOLLOWED BY", "JOIN").replace("1 day", "forever"),
        "`my feed`//a->a(/c:/d)[/e < 5] JOIN{a = b, 1 hour} S/b/@k->b",
    ],
)
def test_subscription_round_trips_through_a_pattern(text: str) -> None:
    read = parse_subscription(text)
    pattern = pattern_of(read)
    assert subscription_of(pattern) == read
    printed = print_pattern(pattern)
    assert subscription_of(parse_pattern(printed)) == read
    assert print_pattern(parse_pattern(printed)) == printed


def test_random_subscriptions_round_trip_through_patterns() -> None:
    converted = 0
    for seed in range(100):
        for one in random_subscriptions(random.Random(seed)).values():
            try:
                pattern = pattern_of(one)
            except ps.errors.SemanticError:
                continue
            assert subscription_of(parse_pattern(print_pattern(pattern))) == one
            converted += 1
    assert converted > 50


@pytest.mark.parametrize(
    ("text", "xscl"),
    [
        (AGAIN, XSCL.format("")),
        (
            AGAIN.replace("a.x = b.y", "b.y = a.x and 'ann' = a.x"),
            XSCL.format(" AND x = 'ann'").replace("x = y", "y = x"),
        ),
        (AGAIN.replace(">> b where a.x = b.y", ">> b [y = a.x]"), XSCL.format("").replace("x = y", "y = x")),
        (
            "pattern same match S << //i->i[/k->k] >> & S << //i->i[/k->k][/k_2->k_2] >> within forever "
            "partition by k selection followed by",
            "S//i->i[/k->k] JOIN{k = k_3, forever} S//i->i_2[/k->k_3][/k_2->k_2]",
        ),
        (
            "pattern any match S << //i->i >> a & S << //j->j >> b where a.i = b.j within 1 day selection any",
            "S//i->i JOIN{i = j, 1 day} S//j->j",
        ),
        (
            "pattern p severity high match S << //i->i >> a -> T << //j->i >> b where a.i = b.i or "
            "cast(a.i as double) < cast(b.i as double) and a.i = b.i within 5 seconds selection followed by",
            "S//i->i FOLLOWED BY{i = i_2 OR i < i_2 AND i = i_2, 5 seconds} T//j->i_2",
        ),
    ],
)
def test_pattern_is_converted_to_the_expected_subscription(text: str, xscl: str) -> None:
    assert subscription_of(parse_pattern(text)) == parse_subscription(xscl)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" selection followed by", "", "Use selection followed by: it matches every pair"),
        (" selection followed by", " selection any", "its selection does not match every pair"),
        (" >> a -> Feed", " >> a ->> Feed", "the arrow between its steps is not a plain ->"),
        (" -> Feed", " -> A -> Feed", "two steps, each a tree pattern"),
        (STEPS, "A a -> B b", "two steps, each a tree pattern"),
        ("-> Feed", "-> within 5 seconds Feed", "the arrow between its steps is not a plain ->"),
        ("a.x = b.y", "a.x = 'ann'", "no condition compares nodes of the two documents with ="),
        ("where a.x = b.y ", "", "no condition compares nodes of the two documents with ="),
        ("a.x = b.y", "a.x = b.y and a.p < b.q", "unsupported comparison a.p < b.q"),
        ("a.x = b.y", "a.x = b.y and a.p < 10", "unsupported comparison a.p < 10"),
        ("a.x = b.y", "a.x = b.y and cast(a.p as double) <> 10", "unsupported comparison cast(a.p as double) <> 10"),
        ("a.x = b.y", "a.x = b.y and a.x <> b.y", "unsupported comparison a.x <> b.y"),
        ("a.x = b.y", "upper(a.x) = b.y", "neither a node nor a constant"),
        ("a.x = b.y", "a.x = b.y and a.x like 'a%'", "is not a comparison of nodes"),
        ("a.x = b.y", "a.x = b.y and 1 = 1", "1 = 1 contains no node"),
        ("a.x = b.y", "x = b.y", "is not a node of a step"),
        ("a.x = b.y", "a.xx = b.y", "Did you mean 'x'"),
        ("within 1 day", "within 5 events", "its window must be a duration or forever"),
        ("within 1 day", "within 1 day partition by x", "its key x is not a node of both steps"),
        ("selection followed by", "selection followed by return a.x", "'return' is unsupported"),
    ],
)
def test_pattern_without_equivalent_subscription_is_rejected(old: str, new: str, message: str) -> None:
    assert old in AGAIN
    with pytest.raises(ps.errors.PatternError) as raised:
        ps.xscl.subscriptions(AGAIN.replace(old, new))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT <a/> FROM " + XSCL.format(""), "this makes XML"),
        (XSCL.format("") + " PUBLISH b", "this makes XML"),
        (XSCL.format(" AND p != 5"), "different from every number"),
        (XSCL.format(" AND i//b = y"), "a path stands behind a variable"),
    ],
)
def test_subscription_without_equivalent_pattern_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ps.errors.SemanticError, match=message):
        pattern_of(parse_subscription(text))
