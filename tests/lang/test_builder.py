"""The builder and the parser produce equal patterns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from perseid.errors import PatternError, PatternSyntaxError
from perseid.lang import ast
from perseid.lang.builder import (
    Part,
    PatternBuilder,
    absent,
    all_of,
    any_event,
    any_of,
    build,
    change,
    found,
    group,
    lost,
    seq,
    step,
    tree,
    updated,
)
from perseid.lang.parser import parse_element, parse_pattern
from perseid.lang.printer import print_pattern

A, B, C, D = step("A"), step("B"), step("C"), step("D")

PARTS: list[tuple[Part, str]] = [
    (step("Login"), "Login"),
    (step("Login", "a"), "Login a"),
    (step("my event", "order"), "`my event` order"),
    (step("match", "`"), "`match` ````"),
    (any_event(), "any"),
    (any_event("x"), "any x"),
    (tree("Orders", "//order->o[/total > 100]", "d"), "Orders << //order->o[/total > 100] >> d"),
    (found("Overloaded", "h"), "found Overloaded h"),
    (updated("Overloaded"), "updated Overloaded"),
    (lost("Overloaded"), "lost Overloaded"),
    (change("create", "Host"), "change create Host"),
    (change("set", "Host.cpu", "c"), "change set Host.cpu c"),
    (step("A", "a").where("x > 1"), "A a [x > 1]"),
    (step("A").where("x = 1 or y = 2").where("z"), "A [(x = 1 or y = 2) and z]"),
    (step("A").must("x > prev(x)"), "A must (x > prev(x))"),
    (step("A").must("x").must("y").where("z"), "A [z] must (x and y)"),
    (step("A").bind(user="u"), "A(user as u)"),
    (step("A", "a").bind("device.os as o", user="u").bind(ip="i"), "A(device.os as o, user as u, ip as i) a"),
    (step("A", "a").where("x").stays("5 minutes"), "A a [x] stays 5 minutes"),
    (step("A").stays(dt.timedelta(seconds=90)).where("x"), "A [x] stays 90 seconds"),
    (A >> B >> C, "A -> B -> C"),
    (A >> (B >> C), "A -> (B -> C)"),
    (group(A >> B) >> C, "(A -> B) -> C"),
    (seq(A, B, C), "A -> B -> C"),
    (seq(A >> B, C), "(A -> B) -> C"),
    (A >> "B b [x = 1]", "A -> B b [x = 1]"),
    ("A a" >> B, "A a -> B"),
    (A >> "B -> C", "A -> (B -> C)"),
    ("A -> B" >> C, "(A -> B) -> C"),
    (A.then_any(B).then_next(C).then(D), "A ->> B, C -> D"),
    (A.then(B, within="30 seconds"), "A -> within 30 seconds B"),
    (
        A.then_any(B, after=":p", within=dt.timedelta(minutes=1)),
        "A ->> after :p within 60 seconds B",
    ),
    (A.then_next(B, after="0 seconds"), "A, after 0 seconds B"),
    (A | B | C, "A | B | C"),
    (A | (B | C), "A | (B | C)"),
    (group(A | B) | C, "(A | B) | C"),
    (any_of(A, B, C), "A | B | C"),
    ("A" | B, "A | B"),
    (A & B & C, "A & B & C"),
    (A & (B & C), "A & (B & C)"),
    (group(A & B) & C, "(A & B) & C"),
    (all_of(A, "B", C), "A & B & C"),
    ("A" & B, "A & B"),
    (A & B | C, "A & B | C"),
    (A & (B | C), "A & (B | C)"),
    (A >> (B | C & D), "A -> B | C & D"),
    ((A >> B) | C, "(A -> B) | C"),
    (A.plus(), "A+"),
    (step("A", "a").star().where("x"), "A* a [x]"),
    (A.optional(), "A?"),
    (A.times(3), "A{3}"),
    (A.times(2, 5), "A{2,5}"),
    (A.times(0, 1), "A?"),
    (A.at_least(2), "A{2,}"),
    (A.at_most(4), "A{,4}"),
    (A.plus().plus(), "(A+)+"),
    (A.plus().reluctant(), "A+?"),
    (A.optional().reluctant(), "A??"),
    (A.star().consecutive(), "A* consecutive"),
    (A.star().relaxed(), "A* relaxed"),
    (A.star().combinations().until(step("B").where("x").bind(y="u")), "A* combinations until B(y as u) [x]"),
    (step("A", "a").plus().must("x").until("B [x > 1]"), "A+ a must (x) until B [x > 1]"),
    ((A >> B).times(2, 3).reluctant().relaxed(), "(A -> B){2,3}? relaxed"),
    ((A | B).plus(), "(A | B)+"),
    (absent(A), "not A"),
    (absent(A.plus(), "30 seconds"), "not A+ for 30 seconds"),
    (absent(A >> B, for_=dt.timedelta(hours=1)), "not (A -> B) for 1 hour"),
    (absent(absent("A")), "not (not A)"),
    (A >> absent(B) >> C, "A -> not B -> C"),
    (group(A), "A"),
    (group(A >> B, within="5 minutes"), "(A -> B within 5 minutes)"),
    (group(A >> B, within="5 events", holds_for="1 second"), "(A -> B within 5 events holds for 1 second)"),
    (group(A, holds_for=":p").plus() >> B, "(A holds for :p)+ -> B"),
    (group(A, within="forever"), "(A within forever)"),
    (
        group(group(A | B, within=dt.timedelta(days=7)), within="2 weeks"),
        "((A | B within 1 week) within 2 weeks)",
    ),
]


@pytest.mark.parametrize(("part", "text"), PARTS, ids=[text for _, text in PARTS])
def test_built_element_equals_parsed_element(part: Part, text: str) -> None:
    assert part.element == parse_element(text)
    assert parse_element(str(part)) == part.element


def p() -> PatternBuilder:
    return build("p").match("A a")


PATTERNS: list[tuple[PatternBuilder, str]] = [
    (p(), ""),
    (p().where("a.x > 1"), "where a.x > 1"),
    (p().where("a.x = 1 or a.y = 2", "a.z").where("a.w"), "where (a.x = 1 or a.y = 2) and a.z and a.w"),
    (p().within("10 minutes"), "within 10 minutes"),
    (p().within("1 hour 30 minutes"), "within 90 minutes"),
    (p().within(dt.timedelta(minutes=10)), "within 10 minutes"),
    (p().within("20 events"), "within 20 events"),
    (p().within("forever"), "within forever"),
    (p().within(":w"), "within :w"),
    (p().holds_for("1 minute"), "holds for 1 minute"),
    (p().partition_by("user"), "partition by user"),
    (p().partition_by("user", "device.os", "`my column`"), "partition by user, device.os, `my column`"),
    (p().selection("followed by"), "selection followed by"),
    (p().selection("Strict  Immediate"), "selection strict immediate"),
    (p().selection(ast.Selection.RECENT), "selection recent"),
    (p().skip("none"), "after match skip none"),
    (p().skip("to next"), "after match skip to next"),
    (p().skip("past last"), "after match skip past last"),
    (p().skip("to first a"), "after match skip to first a"),
    (p().skip("to last `a b`"), "after match skip to last `a b`"),
    (p().report_timeouts(), "report timeouts"),
    (
        p().returns("a.x", "a.y as y", n="count(a)", order="a.z"),
        "return a.x, a.y as y, count(a) as n, a.z as order",
    ),
    (p().returns("a.x").returns(y="a.y"), "return a.x, a.y as y"),
    (p().returns("a.x", "evidence limit 5"), "return a.x, evidence limit 5"),
    (p().evidence(), "return evidence"),
    (p().returns("a.x").evidence(7), "return a.x, evidence limit 7"),
    (p().suppress("1 hour"), "suppress 1 hour"),
    (p().suppress("1 hour", by="user"), "suppress 1 hour by user"),
    (p().suppress(dt.timedelta(hours=1), by=["user", "a b"]), "suppress 1 hour by user, `a b`"),
    (
        p().severity("high").owner("it's us").tags("fraud", "match", "").description("a\nb"),
        "severity high owner 'it''s us' tags fraud, 'match', '' description 'a\nb'",
    ),
]


@pytest.mark.parametrize(("builder", "clauses"), PATTERNS, ids=[text for _, text in PATTERNS])
def test_built_clause_equals_parsed_clause(builder: PatternBuilder, clauses: str) -> None:
    assert builder.build() == parse_pattern(f"pattern p match A a {clauses}")


@pytest.mark.parametrize(
    ("default", "text"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        (-5, "-5"),
        (2.5, "2.5e0"),
        (-1e300, "-1e300"),
        (Decimal("-1.50"), "-1.50"),
        (Decimal("1E+3"), "1000.0"),
        ("it's", "'it''s'"),
        (dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC), "timestamp '2026-01-31 12:30:00Z'"),
        (dt.datetime(2026, 1, 31, 12, 30), "timestamp '2026-01-31 12:30:00Z'"),
        (
            dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "timestamp '2026-01-31 10:30:00Z'",
        ),
        (dt.date(2026, 1, 31), "date '2026-01-31'"),
        (dt.timedelta(seconds=90), "90 seconds"),
        (-dt.timedelta(seconds=90), "-90 seconds"),
    ],
)
def test_built_default_equals_parsed_default(default: Any, text: str) -> None:
    built = p().parameter("x", "Decimal( 10, 2 )").parameter("y", "list of string", default).build()
    assert built == parse_pattern(f"pattern p(x decimal(10,2), y list of string = {text}) match A a")


def test_built_takeover_pattern_equals_parsed_pattern() -> None:
    built = (
        build("takeover")
        .match(step("Login", "a") >> step("Login", "b") >> absent(step("Logout")) >> step("Transfer", "t").plus())
        .where("b.ip <> a.ip and sum(t.amount) > 10000")
        .within("10 minutes")
        .partition_by("user")
        .returns("a.ip as from_ip", "b.ip as to_ip", transfers="count(t)")
        .build()
    )
    text = """
        pattern takeover
        match Login a -> Login b -> not Logout -> Transfer+ t
        where b.ip <> a.ip and sum(t.amount) > 10000
        within 10 minutes
        partition by user
        return a.ip as from_ip, b.ip as to_ip, count(t) as transfers
    """
    assert built == parse_pattern(text)
    assert isinstance(built.match, ast.Sequence)
    assert len(built.match.elements) == 4


def test_spans_point_into_the_printed_text() -> None:
    built = p().where("a.x  >  1").build()
    text = print_pattern(built)
    assert built.where is not None
    assert built.where.span is not None
    assert text[built.where.span.start : built.where.span.end] == "a.x > 1"


def test_builder_methods_do_not_mutate() -> None:
    first = step("A")
    first.where("x").plus()
    assert first == step("A")
    begun = build("p").match(first)
    begun.within("1 hour").where("x")
    assert begun.build() == parse_pattern("pattern p match A")


MISUSE: list[tuple[Callable[[], Any], str]] = [
    (lambda: step(""), "1 to 200 characters"),
    (lambda: step("x" * 201), "1 to 200 characters"),
    (lambda: step("\ud800"), "contains an unpaired surrogate"),
    (lambda: step(5), "A name must be a string, got int"),  # type: ignore[arg-type]
    (lambda: step("A", 5), "A name must be a string, got int"),  # type: ignore[arg-type]
    (lambda: tree("Orders", "order"), "Missing / or // before order"),
    (lambda: change("move", "Host"), "Unknown model change 'move'"),
    (lambda: change("set", "Host.cpu.load"), "one feature of it, got 'Host.cpu.load'"),
    (lambda: A >> 5, "Expected a part of a pattern, got int"),  # type: ignore[operator]
    (lambda: A | None, "Expected a part of a pattern, got NoneType"),  # type: ignore[operator]
    (lambda: 5 & A, "Expected a part of a pattern, got int"),  # type: ignore[operator]
    (lambda: [A] >> B, "Expected a part of a pattern, got list"),  # type: ignore[operator]
    (lambda: A >> build("p"), "Name the other pattern"),  # type: ignore[operator]
    (lambda: any_of([A, B]), "one by one"),  # type: ignore[arg-type]
    (lambda: seq(A), "'seq' needs at least two parts"),
    (any_of, "'any_of' needs at least two parts"),
    (lambda: bool(A), "do not join"),
    (lambda: not A, "do not join"),
    (lambda: [*A], "not iterable"),
    (lambda: A > B, "cannot be compared"),
    (lambda: A < B, "cannot be compared"),
    (lambda: A.times(0), "Invalid repetition 0 to 0: it matches no event"),
    (lambda: A.times(3, 2), "Invalid repetition 3 to 2: the upper bound is below the lower bound"),
    (lambda: A.times(-1), "from 0 to 10,000, got -1"),
    (lambda: A.at_least(10_001), "from 0 to 10,000, got 10001"),
    (lambda: A.times(1.5), "Expected a whole number of repetitions, got 1.5"),  # type: ignore[arg-type]
    (lambda: A.times(True), "Expected a whole number of repetitions, got True"),
    (A.reluctant, "'reluctant' requires a repetition, got A"),
    (A.consecutive, "'consecutive' requires a repetition, got A"),
    (lambda: (A >> B).until(C), "'until' requires a repetition, got A -> B"),
    (lambda: group(A.plus()).reluctant(), "'reluctant' requires a repetition, got A+"),
    (lambda: A.plus().until(step("B", "b")), "without a name"),
    (lambda: A.plus().until(A >> B), "'until' expects an event"),
    (lambda: (A >> B).where("x"), "'where' applies to one step"),
    (lambda: absent(A).must("x"), "'must' applies to one step"),
    (A.bind, "'bind' needs at least one attribute"),
    (lambda: A.bind("user"), "Expected 'attribute as name', got 'user'"),
    (lambda: A.bind("x + 1 as u"), "Expected 'attribute as name', got 'x + 1 as u'"),
    (lambda: A.bind(user=""), "1 to 200 characters"),
    (lambda: A.plus().stays("1 minute"), "'stays' applies to one step"),
    (lambda: A.stays(5), "a number alone has no unit"),  # type: ignore[arg-type]
    (lambda: absent(A, for_=5), "a number alone has no unit"),  # type: ignore[arg-type]
    (lambda: A.then(B, within=dt.timedelta(seconds=-1)), "'within' must not be negative"),
    (lambda: A.where(True), "A condition must be a string, got bool"),  # type: ignore[arg-type]
    (lambda: build("p").build(), "has no 'match'"),
    (lambda: p().match("B"), "Duplicate clause 'match' in pattern p"),
    (lambda: p().within("1 hour").within("1 hour"), "Duplicate clause 'within' in pattern p"),
    (lambda: p().evidence().returns("evidence"), "Duplicate clause 'evidence' in pattern p"),
    (lambda: p().where(), "'where' needs at least one condition"),
    (lambda: p().tags(), "'tags' needs at least one tag"),
    (lambda: p().partition_by(), "'partition_by' needs at least one column"),
    (lambda: p().partition_by(["a", "b"]), "one by one: partition_by('a', 'b')"),  # type: ignore[arg-type]
    (lambda: build("p").match([{"ts": 1, "type": "A"}]), "Run it with ps.pattern(build(…)).match(events)"),  # type: ignore[arg-type]
    (lambda: p().returns(), "'returns' needs at least one output"),
    (lambda: p().selection("strickt"), "Did you mean 'strict'"),
    (lambda: p().evidence(-1), "from 0 to 100,000, got -1"),
    (lambda: p().parameter("x", "string", [1]), "Unsupported default [1]"),
    (lambda: p().parameter("x", "double", float("nan")), "Unsupported default nan"),
    (lambda: p().parameter("x", "bigint", 2**70), "the maximum is 9,223,372,036,854,775,807"),
    (lambda: p().suppress(5), "a number alone has no unit"),  # type: ignore[arg-type]
    (lambda: build("p").match(step("A").where(" and ".join(["x"] * 200))).build(), "levels deep"),
]


@pytest.mark.parametrize(("misuse", "message"), MISUSE, ids=[message for _, message in MISUSE])
def test_misuse_is_an_error_with_its_reason(misuse: Callable[[], Any], message: str) -> None:
    with pytest.raises(PatternError) as raised:
        misuse()
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("misuse", "column"),
    [
        (lambda: step("A").where("ip == 'x'"), 4),
        (lambda: p().where("a.x > "), 5),
        (lambda: p().within("10 parsecs"), 4),
        (lambda: p().returns("a.x as"), 7),
        (lambda: A >> "B [", 3),
        (lambda: p().skip("to second b"), 4),
        (lambda: p().partition_by("user, region"), 5),
        (lambda: p().parameter("x", "list off string"), 6),
    ],
)
def test_syntax_error_in_a_builder_argument_shows_the_column(misuse: Callable[[], Any], column: int) -> None:
    with pytest.raises(PatternSyntaxError) as raised:
        misuse()
    assert raised.value.column == column
    assert "^" in str(raised.value)
