"""XSCL text: parsing, printing, and error messages."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

import perseid as ps
from perseid.lang.subscriptions import Operand, TemporalRelation, comparisons, print_subscription
from perseid.lang.xscl import MAX_LENGTH, parse_subscription
from perseid.lang.xscl_shapes import fill_marks, place_of, shaped

BOOKS = (
    "S//book->x1[.//author->x2][.//title->x3] FOLLOWED BY{x2=x5 AND x3=x6, 1 day} "
    "S//blog->x4[.//author->x5][.//title->x6]"
)


@pytest.mark.parametrize(
    "text",
    [
        BOOKS,
        "SELECT * FROM " + BOOKS,
        "FROM " + BOOKS,
        "S//book AS b[/author as a] join {a = c, forever} T//blog AS d[/@by AS c]",
        'SELECT <hit who="{a}">don\'t come FROM {b}</hit> FROM S//x->a JOIN{a=b,2 hours} S//y->b PUBLISH hits',
        "S//book->b FOLLOWED BY{b//author = d/@by AND (b/title = d OR b/title contains 'it''s'), 10 minutes} S//blog->d",
        "S//a->a[/price < 10][/title = 'x'] JOIN{a >= b AND b != 3 AND 2.5 < a AND a = b, 1 week} `my feed`//b->b(/c:/d)",
        "S//join->a JOIN{a = b, 1 day} from_here//followed->b[//by]",
    ],
)
def test_printed_subscription_parses_back(text: str) -> None:
    read = parse_subscription(text)
    printed = print_subscription(read)
    assert parse_subscription(printed) == read
    assert print_subscription(parse_subscription(printed)) == printed


def test_parsed_subscription_has_its_parts() -> None:
    read = parse_subscription(BOOKS)
    assert read.source.relation is TemporalRelation.FOLLOWED_BY
    assert read.source.window == 24 * 3600 * 1_000_000
    assert (read.source.left.stream, read.source.left.variables) == ("S", ("x1", "x2", "x3"))
    assert (read.select, read.publish) == (None, None)
    with_select = parse_subscription("SELECT <a>{x1}{x4} {x1}</a> FROM " + BOOKS + " PUBLISH both")
    assert with_select.select is not None
    assert (with_select.select.variables, with_select.publish) == (("x1", "x4"), "both")
    turned = parse_subscription("S//a->a JOIN{3 < a AND a = b, forever} S//b->b")
    assert "a > 3" in print_subscription(turned)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S//book->a", "Missing JOIN"),
        ("S//book->a JOIN{a=b} S//c->b", "Unexpected text between the braces"),
        ("S//book->a JOIN{a=b, 1 day S//c->b", "Unclosed '{'"),
        ("//book->a JOIN{a=b, 1 day} S//c->b", "Add it before the path: S//book->a"),
        ("S JOIN{a=b, 1 day} S//c->b", "Missing path after the stream"),
        ("S//book->a JOIN{a=c, 1 day} S//c->b", "Unknown node 'c'"),
        ("S//book->author JOIN{auther=b, 1 day} S//c->b", "Did you mean 'author'"),
        ("S//book->a JOIN{a=b, 1 dy} S//c->b", "Did you mean 'days'? Available: microseconds"),
        ("S//book->a JOIN{a=b, 5 events} S//c->b", "The window must be a duration or forever."),
        ("S//book->a JOIN{a=a, 1 day} S//c->a", "Both blocks have a variable 'a'"),
        ("S//book[->a JOIN{a=b, 1 day} S//c->b", "Missing JOIN"),
        ("S//book->a[/x JOIN{a=b, 1 day}] S//c->b", "Missing JOIN"),
        ("S//a->a JOIN{a=b, 1 day} S//b->b JOIN{b=c, 1 day} S//c->c", "PUBLISH the first pair"),
        ("SELECT a FROM S//a->a JOIN{a=b, 1 day} S//b->b", "Expected XML or * after SELECT"),
        ("SELECT <a>{a}</a> S//a->a JOIN{a=b, 1 day} S//b->b", "Missing FROM after SELECT"),
        ("SELECT <a>{z}</a> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "Unknown node 'z'"),
        ("SELECT <a>{a} FROM S//a->a JOIN{a=b, 1 day} S//b->b", "not well-formed XML: no element found"),
        ("SELECT <a>{a}</b> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "not well-formed XML: mismatched tag"),
        ("SELECT <a/><b/> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "junk after document element"),
        ("SELECT <a>&b;</a> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "undefined entity"),
        ("SELECT <p:a/> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "unbound prefix"),
        ("SELECT <!DOCTYPE a><a/> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "Unsupported markup in SELECT"),
        (
            'SELECT <a><!DOCTYPE a [<!ENTITY b "c">]></a> FROM S//a->a JOIN{a=b, 1 day} S//b->b',
            "expected elements, attributes and text",
        ),
        ("SELECT <a><!-- {a} --></a> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "expected elements, attributes and text"),
        ("SELECT <a>{a/b}</a> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "the name of one variable"),
        ("SELECT <a>}</a> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "the name of one variable"),
        ("SELECT <a xmlns:p='{a}'/> FROM S//a->a JOIN{a=b, 1 day} S//b->b", "Unexpected variable in a namespace"),
        ("SELECT " + "<a>" * 61 + "</a>" * 61 + " FROM S//a->a JOIN{a=b, 1 day} S//b->b", "nested more than 60 deep"),
        ("S//a->a JOIN{a=b, 1 day} S//b->b PUBLISH two words", "Invalid name 'two words' after PUBLISH"),
        ("S//a->a JOIN{a contains '', 1 day} S//b->b", "a non-empty string"),
        ("S(/a:/b) JOIN{a=b, 1 day} S//b->b", "must be one path, got a sibling expression"),
        ("S//a->a JOIN{a=b, 1 day} S//b->b FROM x", "Unexpected FROM."),
    ],
)
def test_invalid_subscription_is_an_error_with_its_reason(text: str, message: str) -> None:
    with pytest.raises(ps.errors.PatternError) as raised:
        parse_subscription(text)
    assert message.lower() in str(raised.value).lower()


@pytest.mark.parametrize(
    ("text", "line", "column", "under"),
    [
        ("SELECT <a>\n  {zz}</a> FROM S//a->a JOIN{a=b, 1 day} S//b->b", 2, 3, "{zz}"),
        ("SELECT\n <ä>{a}\n<b></ä> FROM S//a->a JOIN{a=b, 1 day} S//b->b", 3, 6, "ä"),
        ("SELECT <a>{a}{b c}</a> FROM S//a->a JOIN{a=b, 1 day} S//b->b", 1, 14, "{b c}"),
    ],
)
def test_error_in_select_has_its_position(text: str, line: int, column: int, under: str) -> None:
    with pytest.raises(ps.errors.PatternError) as raised:
        parse_subscription(text)
    assert (raised.value.line, raised.value.column) == (line, column)
    assert raised.value.span is not None
    assert text[raised.value.span.start : raised.value.span.end] == under


@pytest.mark.parametrize(
    "text", ["x" * (MAX_LENGTH + 1), "S//a->a JOIN{" + "(" * 5000, "S//a" + "[" * 5000 + " JOIN{a=b, 1 day} S//b"]
)
def test_oversized_text_is_rejected(text: str) -> None:
    with pytest.raises(ps.errors.PatternError):
        parse_subscription(text)


@pytest.mark.parametrize(
    ("text", "constants", "window"),
    [
        ("S//a->a JOIN{a = b AND a = 'x', 5 seconds} S//b->b", ("x",), 5_000_000),
        ("S//a->a[/p < 10][/q = 'it''s'] JOIN{a = b AND b contains \"y\", forever} S//b->b", (10, "it's", "y"), None),
        ("S//a[2]->a JOIN{a = b AND 3 < a, 1 day} S//b->b", (), 86_400_000_000),
        ("S//a->a JOIN{a = b AND a > -1.5 AND a != 2e3, 1 day} S//b->b", (Decimal("-1.5"), 2000), 86_400_000_000),
    ],
)
def test_shape_has_the_constants_and_the_window(text: str, constants: tuple[object, ...], window: int | None) -> None:
    """The shape of a subscription parses to the same tree, with marks in place of constants."""
    found = shaped(text)
    assert found is not None
    assert (found.constants, found.window) == (constants, window)
    whole, marked = (list(comparisons(parse_subscription(one).source.predicate)) for one in (text, found.shape))
    for one, other in zip(whole, marked, strict=True):
        place = None if isinstance(other.right, Operand) else place_of(other.right)
        assert one.right == (other.right if place is None else found.constants[place])
        assert (one.left, one.op) == (other.left, other.op)
    read, filled = parse_subscription(text), fill_marks(parse_subscription(found.shape), found.constants)
    assert replace(filled, source=replace(filled.source, window=window)) == read


@pytest.mark.parametrize(
    "text",
    ["'" * 200_001, "= " * 50_000, "S//a->a JOIN{a contains '', 1 day} S//b->b", "\ue0001", "a, 1 day}, 2 days}"],
)
def test_text_without_a_shape(text: str) -> None:
    assert shaped(text) is None


def test_too_many_comparisons_are_rejected() -> None:
    many = " AND ".join(["a = b"] * 65)
    with pytest.raises(ps.errors.LimitError, match="65 comparisons"):
        parse_subscription(f"S//a->a JOIN{{{many}, 1 day}} S//b->b")
