"""Tree patterns: parsing, printing, limits, and error messages with their positions."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perseid.errors import LimitError, PatternError, PatternSyntaxError, PerseidError, SemanticError
from perseid.lang.expressions import Span
from perseid.lang.tree_parser import MAX_DEPTH, MAX_LENGTH, parse_tree
from perseid.lang.tree_patterns import (
    Axis,
    Comparison,
    Exists,
    LastPosition,
    NameTest,
    Position,
    SiblingAlternation,
    SiblingExpr,
    SiblingLink,
    SiblingRepeat,
    SiblingSequence,
    TreeNode,
    TreePattern,
    TreePredicate,
    print_tree,
    return_names,
    walk,
)
from tests.generators.tree_strategies import tree_patterns

TABLE_6 = {
    "Q1.1": "//dblp/article[/author][//title][//url][//ee]//year",
    "Q1.2": "//dblp[//article[/author->A][/title][/pages][/year]]",
    "Q1.3": "//dblp[//article(/author->A:/title:/pages:/year)]",
    "Q1.4": "//dblp[//article(/author->A:/title:(/pages|/year))]",
    "Q1.5": "//dblp[//article(/author->A:/title:(/pages*):/year)]",
    "Q2.1": "//S/VP//PP[//NN][//NP[//CD]/VBN]/IN",
    "Q2.2": "//VP[/PP[/IN][/NP->N[/CD][/VBN]]]",
    "Q2.3": "//VP[/PP(/IN:/NP->N[/CD][/VBN])]",
    "Q2.4": "//VP[/PP(/IN|/NP->N[/CD][/VBN])]",
    "Q2.5": "//VP[PP(/IN*|/NP->N[/CD][/VBN])]",
    "Q3.1": "//item[/location][//mailbox/mail//emph][/description//keyword]",
    "Q3.2": "//people[//person[/address->A[/zipcode]][/profile[/education][//age]]]",
    "Q3.3": "//people[//person(/address->A[/zipcode]:/profile[/education][//age])]",
    "Q3.4": "//people[//person(/address->A[/zipcode]|/profile[/education][//age])]",
    "Q3.5": "//people[//person((/address->A[/zipcode])*:/profile[/education][//age])]",
    "Q3.6": "//people[//person[/address->A[/zipcode=6]][/profile[/education][//age]]]",
}
PRINTED_OTHERWISE = {
    "Q1.5": "//dblp[//article(/author->A:/title:/pages*:/year)]",
    "Q2.5": "//VP[/PP(/IN*|/NP->N[/CD][/VBN])]",
    "Q3.5": "//people[//person(/address->A[/zipcode]*:/profile[/education][//age])]",
    "Q3.6": "//people[//person[/address->A[/zipcode = 6]][/profile[/education][//age]]]",
}


def child(
    name: str,
    *predicates: TreePredicate,
    returns: str | None = None,
    siblings: SiblingExpr | None = None,
    then: TreeNode | None = None,
) -> TreeNode:
    return TreeNode(Axis.CHILD, NameTest(name), False, returns, predicates, siblings, then)


def below(
    name: str,
    *predicates: TreePredicate,
    returns: str | None = None,
    then: TreeNode | None = None,
) -> TreeNode:
    return TreeNode(Axis.DESCENDANT, NameTest(name), False, returns, predicates, None, then)


def attribute(name: str) -> TreeNode:
    return TreeNode(Axis.CHILD, NameTest(name), is_attribute=True)


def root(text: str) -> SiblingExpr:
    return parse_tree(text).pattern.root


def error(text: str) -> PatternError:
    with pytest.raises(PatternError) as caught:
        parse_tree(text)
    assert caught.value.span is not None
    return caught.value


@pytest.mark.parametrize("name", TABLE_6)
def test_queries_of_table_6_are_printed_and_parsed_back(name: str) -> None:
    pattern = parse_tree(TABLE_6[name]).pattern
    assert print_tree(pattern) == PRINTED_OTHERWISE.get(name, TABLE_6[name])
    assert parse_tree(print_tree(pattern)).pattern == pattern


def test_path_continues_after_predicates() -> None:
    pp = below(
        "PP",
        Exists(below("NN")),
        Exists(below("NP", Exists(below("CD")), then=child("VBN"))),
        then=child("IN"),
    )
    assert root(TABLE_6["Q2.1"]) == below("S", then=child("VP", then=pp))


def test_siblings_with_an_alternation() -> None:
    run = SiblingSequence(
        (child("author", returns="A"), child("title"), SiblingAlternation((child("pages"), child("year")))),
        (SiblingLink.ADJACENT, SiblingLink.ADJACENT),
    )
    article = TreeNode(Axis.DESCENDANT, NameTest("article"), siblings=run)
    assert root(TABLE_6["Q1.4"]) == below("dblp", Exists(article))


def test_a_missing_slash_after_the_bracket_is_a_child_with_a_warning() -> None:
    parsed = parse_tree(TABLE_6["Q2.5"])
    np = child("NP", Exists(child("CD")), Exists(child("VBN")), returns="N")
    run = SiblingAlternation((SiblingRepeat(child("IN"), 0, None), np))
    assert parsed.pattern.root == below("VP", Exists(child("PP", siblings=run)))
    assert parsed.warnings == ("line 1, column 6: [PP is parsed as [/PP, a child",)
    assert parse_tree("//VP[/PP][@id]").warnings == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("//a->b", "//a -> b"),
        ("//a->b", "//a AS b"),
        ("//a->b", "//a\nas\tb"),
        ("//a->b", "//a→b"),
        ("//a[/b]->x", "//a->x[/b]"),
        ("//a(/b)[/c]", "//a[/c](/b)"),
        ("//a[//b]", "//a[.//b]"),
        ("//a[/b]", "//a[./b]"),
        ("//a(.//b:./c)", "//a(//b:/c)"),
        ("//a[@id]", "//a[/@id]"),
        ("//a[/b>=1]", "//a[/b ≥ 1]"),
        ("//a[/b<=1]", "//a[/b ≤ 1]"),
        ("//a[/b!=1]", "//a[/b ≠ 1]"),
        ("//a[/b='x']", '//a[/b="x"]'),
        ("//a[last()]", "//a[ last ( ) ]"),
        ("(/a*):((/b))", " / a * : / b "),
        ("/a{,3}", "/a{0,3}"),
        ("/a{0,}|/b{1,}|/c{0,1}", "/a*|/b+|/c?"),
        ("/a{2}", "/a{2,2}"),
    ],
)
def test_equivalent_notations_parse_equally(one: str, other: str) -> None:
    assert parse_tree(one).pattern == parse_tree(other).pattern


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("//a->b", below("a", returns="b")),
        ("//as as as", below("as", returns="as")),
        ("/a-b-->c", child("a-b-", returns="c")),
        ("/*", child("*")),
        ("/p:local", TreeNode(Axis.CHILD, NameTest("local", "p"))),
        ("//p:*", TreeNode(Axis.DESCENDANT, NameTest("*", "p"))),
        ("/**", SiblingRepeat(child("*"), 0, None)),
        ("/a/b*", SiblingRepeat(child("a", then=child("b")), 0, None)),
        ("/a[3][last()]", child("a", Position(3), LastPosition())),
        ("/a[last]", child("a", Exists(child("last")))),
        ("/a[. = 'it''s']", child("a", Comparison(None, "=", "it's"))),
        ('/a[/@id = "x""y"]', child("a", Comparison(attribute("id"), "=", 'x"y'))),
        ("/a[/b>-5]", child("a", Comparison(child("b"), ">", -5))),
        ("/a[/b < .5]", child("a", Comparison(child("b"), "<", Decimal("0.5")))),
        ("/a[/b = 0.10]", child("a", Comparison(child("b"), "=", Decimal("0.10")))),
    ],
)
def test_small_patterns(text: str, expected: SiblingExpr) -> None:
    assert root(text) == expected


def test_numbers_are_exact() -> None:
    pattern = root("/a[/b = 0.10][/c = 12345678901234567890]")
    assert isinstance(pattern, TreeNode)
    values = [p.value for p in pattern.predicates if isinstance(p, Comparison)]
    assert [str(v) for v in values] == ["0.10", "12345678901234567890"]
    assert [type(v) for v in values] == [Decimal, int]


def test_colon_is_a_prefix_between_names_and_a_sibling_before_a_step() -> None:
    items = (TreeNode(Axis.CHILD, NameTest("b", "a")), child("c"), child("d"))
    assert root("/a:b:/c::/d") == SiblingSequence(items, (SiblingLink.ADJACENT, SiblingLink.LATER))


def test_nested_groups_of_the_same_kind_are_preserved() -> None:
    assert print_tree(parse_tree("/a:(/b:/c)|(/d|(/e?)+)").pattern) == "/a:(/b:/c)|(/d|(/e?)+)"


def test_spans_count_from_the_start_of_the_tree_text() -> None:
    text = "//a\n  [/b > 1]\n/c"
    parts = [part for part, _ in walk(parse_tree(text).pattern)]
    spans = {print_tree(TreePattern(p)): p.span for p in parts if isinstance(p, TreeNode)}
    assert spans["/b"] == Span(7, 9, 2, 4)
    assert spans["/c"] == Span(15, 17, 3, 1)


def test_return_names_are_in_document_order() -> None:
    assert return_names(parse_tree("//a->x[/b->y]/c->z").pattern) == ("x", "y", "z")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "//order->o"),
        ("order[/x]", 1, "or // (a descendant): //order"),
        ("//", 3, "tag name"),
        ("//a ->", 7, "name of the returned node"),
        ("//a->1", 6, "name of the returned node"),
        ("//a[/b", 4, "close it with ]"),
        ("//a[/b)", 7, "Expected ']', got ')'"),
        ("//a]", 4, "Unmatched ']'"),
        ("//a[/b = 'x]", 10, "close it with '"),
        ("//a[/b = “x”]", 10, "straight quotes"),
        ("//a[/b > ]", 10, "number or a quoted string"),
        ("//a[/b == 1]", 9, "use one = for equality"),
        ("//a[/b <> 1]", 9, "use !="),
        ("//a[/b and /c]", 8, "side by side"),
        ("//a[/b or /c]", 8, "[/a|/b]"),
        ("//a[/b1 or /c]", 9, "[/a|/b]"),
        ("//a[@b = 'x' and @c = 'y']", 14, "each in its own [ ]"),
        ("//a[@b = 'x' or @c = 'y']", 14, "two tree patterns"),
        ("//a[/b > 1 or /c]", 12, "two tree patterns"),
        ("//p:id/text()->id", 8, "unsupported node test text()"),
        ("//p:id/text()->id", 8, "->name to return the text of a node"),
        ("//a[text() = 'x']", 5, "[. = 'x']"),
        ("//a/node()", 5, "unsupported node test node()"),
        ("//a[contains(p:title, 'W')]->a", 5, "unsupported function contains(…) in a tree pattern"),
        ("//a[contains(p:title, 'W')]->a", 5, "[title like '%W%']"),
        ("//a[@b = concat('x', 'y')]", 10, "unsupported function concat(…)"),
        ("//a[@b > now()]", 10, "unsupported function now(…)"),
        ("//a[position() = 1]", 5, "use [1] for the first"),
        ("//a[1 = position()]", 9, "use [1] for the first"),
        ("//a[not(@b)]", 5, "[title is null]"),
        ("//a[count(/b) > 3]", 5, "write a child of that name as /count"),
        ("/a: b", 5, "write :/b"),
        ("/a*?", 4, "parentheses"),
        ("(/a|/b)/c", 8, "cannot continue after a group"),
        ("/a{x}", 4, "{2,5}"),
        ("/a{1.5}", 4, "a repetition must be a whole number, got 1.5"),
        ("/a{3,2}", 1, "{2,3}"),
        ("/a{0}", 1, "{0,1}"),
        ("/a[0]", 4, "position from 1, got 0"),
        ("/a[1.5]", 4, "a position must be a whole number, got 1.5"),
        ("/a(/b)[1]", 8, "before the parentheses"),
        ("/a(/b)(/c)", 1, "more than one ( )"),
        ("/a->x->y", 1, "more than one return name"),
        ("/a->x/b->x", 10, "duplicate return name 'x'"),
        ("/a->x|/b AS x", 13, "duplicate return name 'x'"),
        ("/a/@id/b", 7, "no children"),
        ("/a/@id[/b]", 3, "no children"),
        ("/a(/b:/@id)", 4, "no order"),
        ("/a $", 4, "continue a step with"),
    ],
)
def test_error_has_the_position_and_a_hint(text: str, column: int, message: str) -> None:
    found = error(text)
    assert isinstance(found, PatternSyntaxError)
    assert (found.line, found.column) == (1, column)
    assert message.lower() in str(found).lower()


@pytest.mark.parametrize(
    "text",
    ["//a[/not(/b)]", "//a[/count(/b) > 3]", "//text(/a)", "//a->not(/b)", "//a as count(/b)", "//a[. = 'not(/b)']", "//a[last( )]"],
)  # fmt: skip
def test_function_names_are_valid_node_names(text: str) -> None:
    parse_tree(text)


@pytest.mark.parametrize(
    ("tree", "line", "column", "shown"),
    [
        ("//a[/b == 1]", 2, 20, "="),
        ("//a\n  [0]", 3, 4, "0"),
        ("//a\n[/b]\n]", 4, 1, "]"),
        ("//a[/b", 2, 15, "["),
    ],
)
def test_error_positions_are_relative_to_the_outer_text(tree: str, line: int, column: int, shown: str) -> None:
    outer = f"match\n  Docs << {tree} >>"
    start = outer.index(tree)
    offset = Span(start, start + len(tree), 2, 12)
    with pytest.raises(PatternSyntaxError) as caught:
        parse_tree(tree, offset=offset)
    assert (caught.value.line, caught.value.column) == (line, column)
    span = caught.value.span
    assert span is not None
    assert outer[span.start : span.end] == shown
    assert caught.value.source is None


def test_warning_positions_are_relative_to_the_outer_text() -> None:
    parsed = parse_tree("//a\n[b]", offset=Span(30, 37, 5, 9))
    assert parsed.warnings == ("line 6, column 2: [b is parsed as [/b, a child",)


@pytest.mark.parametrize(
    "text",
    [
        "/" + "a" * MAX_LENGTH,
        "/a[" * 5000,
        "(" * (MAX_DEPTH + 1) + "/a" + ")" * (MAX_DEPTH + 1),
        "/a" * (MAX_DEPTH + 1),
        "/a/a/a[" * 50 + "/a" + "]" * 50,
        "(" * 60 + "/a" + "*:/b)" * 60,
        "/a{1,10001}",
        "/a{10001,}",
        "/a[" + "9" * 5000 + "]",
        "/a[/b = " + "9" * 101 + "]",
        "/a[/b = 1e1000]",
        "/a[/b = 1e" + "9" * 500 + "]",
    ],
)
def test_pattern_beyond_a_limit_is_a_limit_error(text: str) -> None:
    assert isinstance(error(text), LimitError)


def test_pattern_at_a_limit_can_be_hashed_and_printed() -> None:
    deep = "/a[" * 49 + "/a" + "]" * 49
    for text in [deep, "/a" * MAX_DEPTH, "(" * MAX_DEPTH + "/a" + ")" * MAX_DEPTH, ":".join(["/a"] * 6000)]:
        pattern = parse_tree(text).pattern
        assert hash(parse_tree(print_tree(pattern)).pattern) == hash(pattern)
        assert repr(pattern)


def test_node_without_a_text_form_is_rejected() -> None:
    for make in (
        lambda: NameTest("a b"),
        lambda: NameTest("a", "*"),
        lambda: child("a", returns="1"),
        lambda: TreePattern(child("a", returns="x", then=child("b", returns="x"))),
        lambda: SiblingAlternation((child("a"),)),
        lambda: SiblingSequence((child("a"), child("b")), ()),
        lambda: SiblingRepeat(attribute("a"), 0, None),
        lambda: Comparison(None, "=", True),
        lambda: Comparison(None, "=", Decimal("NaN")),
        lambda: Comparison(None, "~", 1),  # type: ignore[arg-type]
    ):
        with pytest.raises(SemanticError):
            make()


@given(tree_patterns())
def test_what_is_printed_is_read_as_the_same(pattern: TreePattern) -> None:
    parsed = parse_tree(print_tree(pattern))
    assert parsed.pattern == pattern
    assert parsed.warnings == ()
    assert print_tree(parsed.pattern) == print_tree(pattern)


SCRAPS = st.sampled_from(
    [*"/|:*+?.@()[]{},'\"<>=!-≥→ \n1", "//", "->", "::", " as ", "a", "b:c", "last()", "/a", "2.5"]
)


@given(st.one_of(st.text(), st.lists(SCRAPS, max_size=25).map("".join)))
@example("/a[\ud800]")
@example("\x00")
@example("/a[/b = ٣]")
def test_any_text_is_read_or_refused_politely(text: str) -> None:
    refused: PerseidError | None = None
    try:
        pattern = parse_tree(text).pattern
    except PerseidError as raised:
        refused = raised
    if refused is None:
        assert parse_tree(print_tree(pattern)).pattern == pattern
    else:
        assert isinstance(refused, PatternSyntaxError | LimitError)
        assert refused.span is not None
        assert str(refused)
