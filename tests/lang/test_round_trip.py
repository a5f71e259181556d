"""Printed patterns, elements, expressions and files parse back to equal trees."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from perseid.errors import PatternError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.parser import parse_element, parse_expression, parse_file, parse_pattern
from perseid.lang.printer import print_element, print_expr, print_file, print_pattern
from tests.generators.expression_strategies import expressions
from tests.generators.pattern_strategies import constants, elements, pattern_files, patterns

pytestmark = pytest.mark.timeout(7200)
LARGE = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
)


def spans_point_into(text: str, tree: object) -> None:
    """Check that offset, line and column of every span agree and are within the text."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend(node)
        elif hasattr(node, "__dataclass_fields__") and not isinstance(node, ast.TreeMatch):
            span = getattr(node, "span", None)
            if span is not None:
                assert 0 <= span.start < span.end <= len(text)
                assert starts[span.line - 1] + span.column - 1 == span.start < starts[span.line]
            waiting.extend(getattr(node, name) for name in node.__dataclass_fields__ if name != "span")


def texts_are_plain(tree: object) -> None:
    """Check that the tree contains plain strings, not parser tokens, which are equal but pickle and print differently."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        assert not isinstance(node, str) or type(node) is str
        if isinstance(node, tuple):
            waiting.extend(node)
        elif hasattr(node, "__dataclass_fields__"):
            waiting.extend(getattr(node, name) for name in node.__dataclass_fields__)


@LARGE
@given(patterns())
def test_a_printed_pattern_reads_back_as_itself(pattern: ast.PatternDefinition) -> None:
    text = print_pattern(pattern)
    again = parse_pattern(text)
    assert again == pattern
    assert hash(again) == hash(pattern)
    assert print_pattern(again) == text
    spans_point_into(text, again)
    texts_are_plain(again)


@LARGE
@given(elements(max_leaves=8))
def test_a_printed_element_reads_back_as_itself(element: ast.Element) -> None:
    text = print_element(element)
    assert parse_element(text) == element
    assert print_element(parse_element(text)) == text


@LARGE
@given(expressions())
def test_a_printed_expression_reads_back_as_itself(expr: ex.Expr) -> None:
    text = print_expr(expr)
    assert parse_expression(text) == expr
    assert print_expr(parse_expression(text)) == text


@LARGE
@given(pattern_files())
def test_a_printed_file_reads_back_as_itself(file: ast.PatternFile) -> None:
    text = print_file(file)
    assert parse_file(text) == file
    assert print_file(parse_file(text)) == text


@LARGE
@given(constants())
def test_a_printed_default_keeps_every_digit(literal: ex.Literal) -> None:
    pattern = ast.PatternDefinition("p", ast.Step(ast.AnyEvent()), (ast.Parameter("x", "decimal", literal),))
    assert repr(parse_pattern(print_pattern(pattern))) == repr(pattern)


EVERY_NODE = frozenset(
    kind
    for module in (ast, ex)
    for kind in vars(module).values()
    if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__") and kind.__module__ == module.__name__
)


def test_strategies_generate_every_node_and_field() -> None:
    """Every node type is generated, and every field of it with more than one value."""
    seen: dict[tuple[type, str], set[str]] = {}

    @settings(max_examples=150, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(pattern_files())
    def collect(file: ast.PatternFile) -> None:
        waiting: list[object] = [file]
        while waiting:
            node = waiting.pop()
            if isinstance(node, tuple):
                waiting.extend(node)
            elif type(node) in EVERY_NODE:
                for name in getattr(node, "__dataclass_fields__"):  # noqa: B009
                    value = getattr(node, name)
                    waiting.append(value)
                    seen.setdefault((type(node), name), set()).add(repr(value))

    collect()
    wanted = {(kind, name) for kind in EVERY_NODE - {ex.Span} for name in kind.__dataclass_fields__ if name != "span"}
    assert not {place for place in wanted if len(seen.get(place, ())) < 2}


@pytest.mark.parametrize(
    "text",
    [
        "timestamp '0001-01-01 00:00:00+14:00'",
        "timestamp '9999-12-31 23:59:59-14:00'",
        "x > 5 \u017feconds",
        "x > 5 wee\u212as",
        "x > \u0665",
        "'\ud800'",
        "`" + "\u0130" * 200 + "`(x)",
    ],
)
def test_unprintable_text_is_rejected(text: str) -> None:
    with pytest.raises(PatternError) as raised:
        parse_expression(text)
    str(raised.value).encode()


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("Decimal( 10 , 02 )", "decimal(10,2)"),
        ("LIST OF String", "list of string"),
        ("`my Type`", "`my type`"),
        ("struct<A:Int,`b c`:array<`of`>>", "struct<A:int,`b c`:array<`of`>>"),
    ],
)
def test_types_have_one_spelling(text: str, type_: str) -> None:
    cast = parse_expression(f"cast(x as {text})")
    assert isinstance(cast, ex.Cast)
    assert cast.type == type_
    assert parse_expression(print_expr(cast)) == cast
