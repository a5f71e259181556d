"""``rlike`` and ``regexp_extract``: RE2 agrees with Python's engine where both have a construct, and takes linear time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.errors import LimitError, PatternError, PatternSyntaxError, TypeMismatchError
from perseid.lang.expressions import Like, Literal, Ref
from perseid.lang.parser import parse_expression
from perseid.lang.printer import print_expr
from perseid.semantics.evaluate import evaluate, evaluate_all
from perseid.semantics.regular_expressions import (
    MAX_EXPRESSION,
    MAX_PROGRAM,
    count_groups,
    extract,
    fixed_search,
    matches,
    outline,
    problem_of,
    regexp_extract,
    rlike,
)
from perseid.semantics.typing import infer
from tests.semantics.test_expressions import NoSchema, Row

CHARACTERS = "ab.\né"
TEXTS = st.text(CHARACTERS, max_size=8)


def _atoms() -> st.SearchStrategy[str]:
    chars = st.sampled_from(
        ["a", "b", r"\.", "é", r"\n", ".", "[ab]", "[^a]", r"\w", r"\W", r"\d", "[a-b.]", r"[\n.]", "[^é]"]
    )
    return st.one_of(chars, chars, st.sampled_from(["^", "$", r"\b", r"\A", r"\z"]))


def _common_expressions() -> st.SearchStrategy[str]:
    """Expressions of the constructs that RE2 and Python share."""

    def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        repeated = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??", "{1,3}?"])
        group = st.sampled_from(["(", "(?:", "(?i:", "(?s:"])
        return st.one_of(
            st.lists(inner, min_size=2, max_size=4).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
            st.builds(lambda opening, part: f"{opening}{part})", group, inner),
            st.builds(lambda part, many: f"(?:{part}){many}", inner, repeated),
        )

    return st.recursive(_atoms(), compound, max_leaves=8)


def _in_python(expression: str) -> re.Pattern[str]:
    # RE2's $ is the very end, and its classes are those of ASCII.
    ends = re.sub(r"\\z|(?<!\\)\$", lambda _: r"\Z", expression)
    return re.compile(ends, re.ASCII)


@settings(max_examples=1500, deadline=None)
@given(_common_expressions(), st.lists(TEXTS, min_size=1, max_size=12))
def test_agrees_with_the_engine_of_python(expression: str, texts: list[str]) -> None:
    assert problem_of(expression) is None
    pattern = _in_python(expression)
    assert matches(texts, expression) == [pattern.search(text) is not None for text in texts]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b+", "(a|b)", "(b+?)", "(é?)", "(?P<x>[ab]*)", "[^a]", "(?i)A", "(?:a|(b))", r"\."]), min_size=1, max_size=5),
    st.lists(TEXTS, min_size=1, max_size=8),
)  # fmt: skip
def test_groups_agree_with_the_engine_of_python(parts: list[str], texts: list[str]) -> None:
    flags = [part for part in parts if part == "(?i)A"][:1]
    names: set[str] = set()
    kept = [part for part in parts if part != "(?i)A" and not ("<x>" in part and (part in names or names.add(part)))]
    expression = "".join([*flags, *kept])
    pattern = re.compile(expression, re.ASCII)
    assert count_groups(expression) == pattern.groups
    for group in range(pattern.groups + 1):
        wanted = [(found[group] or "") if (found := pattern.search(text)) else "" for text in texts]
        assert extract(texts, expression, group) == wanted, (expression, group)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "^", "$", ".", r"\.", r"\$", r"\\", "é", "\n", "*", r"\n", "-"]), max_size=5).map("".join),
    st.lists(st.text("ab.$\\é\n-^*", max_size=6), min_size=1, max_size=20),
)  # fmt: skip
def test_search_for_a_fixed_string_agrees_with_the_expression(expression: str, texts: list[str]) -> None:
    search = fixed_search(expression)
    if search is None or problem_of(expression) is not None:
        return
    if search.at_start and search.at_end:
        found = [text == search.text for text in texts]
    elif search.at_start:
        found = [text.startswith(search.text) for text in texts]
    elif search.at_end:
        found = [text.endswith(search.text) for text in texts]
    else:
        found = [search.text in text for text in texts]
    assert found == matches(texts, expression)


@given(st.text("ab()[]{}|*+?.^$\\QEpPLxnC:-<>i,0123", max_size=20))
@settings(max_examples=1000, deadline=None)
def test_any_text_is_valid_or_has_a_problem(expression: str) -> None:
    size, groups = outline(expression).size, count_groups(expression)
    assert size >= 0
    assert rlike("ab", expression) in (None, True, False)
    is_valid = problem_of(expression) is None
    assert (rlike("ab", expression) is not None) is is_valid
    for group in range(groups + 1):
        assert (regexp_extract("ab", expression, group) is not None) is is_valid
    assert regexp_extract("ab", expression, groups + 1) is None


@pytest.mark.parametrize(
    ("text", "expression", "wanted"),
    [
        ("admin", "^adm", True), ("xadmin", "^adm", False), ("a\nb", "a.b", False), ("a\nb", "(?s)a.b", True), ("b\n", "b$", False),
        ("a\nb", "^b", False), ("a\nb", "(?m)^b", True), ("ADMIN", "(?i)admin", True), ("é", "^.$", True), ("😀", "^.$", True),
        ("é", r"^\w$", False), ("é", r"^\pL$", True), ("", "", True), (None, "a", None), ("a", None, None), (1, "1", None), ("a\0b", "a\0b", True),
        ("\ud800", ".", None), ("a", "(", None), ("a", r"(a)\1", None), ("a", "a" * (MAX_EXPRESSION + 1), None), ("İ", "(?i)i", False), ("K", "(?i)k", True),
    ],
)  # fmt: skip
def test_rlike(text: object, expression: object, wanted: bool | None) -> None:
    assert rlike(text, expression) is wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expression", "group", "wanted"),
    [
        ("user 42", "([0-9]+)", 1, "42"), ("user 42", "[0-9]+", 0, "42"), ("user", "([0-9]+)", 1, ""), ("ab", "(a)(c)?", 2, ""), (None, "(a)", 1, None),
        ("ab", r"\(?(?P<n>a)(?:b)[(]?([b)]?)", 2, ""), ("k=v", "(?<k>k)=(?P<v>.)", 2, "v"), ("a", "(a)", 2, None), ("a", "(a)", -1, None), ("a", "(a)", True, None),
        ("a", "(", 0, None), (1, "(1)", 1, None), ("é=ü", "(.)=(.)", 2, "ü"), ("x" * 5000 + "1", "x(1)", 1, "1"),
    ],
)  # fmt: skip
def test_regexp_extract(text: object, expression: str, group: int, wanted: str | None) -> None:
    assert regexp_extract(text, expression, group) == wanted  # type: ignore[arg-type]


def test_evaluating_all_rows_agrees_with_one_row_at_a_time() -> None:
    rows = [Row({"x": value}) for value in ("ab", "b", None, "", 5, "\ud800", "x" * 300 + "a")]
    for text in (
        "x rlike 'a'",
        "x not rlike 'a'",
        "regexp_extract(x, '(a)')",
        "regexp_extract(x, 'a.?', 0)",
        "x like 'a%'",
        "regexp_extract(x, 'a', 7)",
    ):
        expr = parse_expression(text)
        assert evaluate_all(expr, rows) == [evaluate(expr, row) for row in rows], text
    assert evaluate_all(Like(Ref(("x",)), Literal("string", "(")), rows[:1]) == [False]


@pytest.mark.parametrize("expression", ["(a*)*b", "(a|a)*b", "(a|aa)+$", "(.*a){12}", "a?" * 300 + "a" * 300])
def test_no_expression_takes_exponential_time(expression: str) -> None:
    began = time.perf_counter()
    matches(["a" * 20_000 + "c"], expression)
    assert time.perf_counter() - began < 20


def test_size_of_a_program_is_bounded() -> None:
    for expression in (
        r"\pL{9}",
        "x{1000}",
        ".{900}",
        "(?:ab|cd){500}",
        r"[\pL\d]{9}",
        r"\w{1000}",
        "[A-Za-z0-9_]{1000}",
        "[^,]{600}",
    ):
        assert outline(expression).size <= MAX_PROGRAM
        assert problem_of(expression) is None
    for expression in (r"\pL{11}", "(x{100}){200}", "x{1000}" * 12, ".{1000}.", "((a{100}){100}){100}", r"[\pL\pN]{6}"):
        found = problem_of(expression)
        assert found is not None
        assert found.is_limit, expression


@pytest.mark.parametrize(
    ("text", "kind", "start", "end"),
    [
        ("x rlike 'it''s(?=b)'", PatternSyntaxError, 14, 17), ("x rlike '(a)\\1'", PatternSyntaxError, 12, 14), ("x rlike 'a('", PatternSyntaxError, 9, 11),
        ("x rlike '\\C'", PatternSyntaxError, 9, 11), ("x rlike 'a\n('", PatternSyntaxError, 8, 13), ("x rlike '((((a{9}){9}){9}){9}){9}'", LimitError, 8, 34),
        ("x rlike y", TypeMismatchError, 8, 9), ("x rlike null", TypeMismatchError, 8, 12), ("5 rlike 'a'", TypeMismatchError, 0, 1),
        ("regexp_extract(x, 'a')", TypeMismatchError, 18, 21), ("regexp_extract(x, '(a)', 2)", TypeMismatchError, 25, 26), ("regexp_extract(x, y)", TypeMismatchError, 18, 19),
    ],
)  # fmt: skip
def test_errors_point_at_the_wrong_part(text: str, kind: type[PatternError], start: int, end: int) -> None:
    with pytest.raises(kind) as caught:
        infer(parse_expression(text), NoSchema())
    assert caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (start, end)
    assert caught.value.hint


def test_operators_are_names_where_no_operator_can_stand() -> None:
    for text in ("ilike", "a.rlike", "rlike(x)", "x ILIKE 'a'", "not x RLike 'a'", "`ilike` not ilike `rlike`"):
        try:
            expr = parse_expression(text)
        except PatternSyntaxError:
            assert text == "rlike(x)"
            continue
        assert parse_expression(print_expr(expr)) == expr
