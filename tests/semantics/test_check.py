"""Valid patterns, with and without a schema; tests/lang/errors has the invalid ones."""

from __future__ import annotations

import pytest

from perseid.errors import LimitError, PatternError, SemanticError, TypeMismatchError, UnknownNameError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.parser import parse_file, parse_pattern
from perseid.semantics.check import check, parameter_types
from perseid.semantics.types import schema

EVENTS = schema(
    {
        "Login": {"user": "string", "ip": "string", "at": "timestamp"},
        "Logout": {"user": "string", "at": "timestamp"},
        "Transfer": {
            "user": "string",
            "amount": "double",
            "fee": "decimal(18,2)",
            "account": "bigint",
            "ok": "boolean",
            "device": "struct<os:string>",
            "tags": "array<string>",
        },
        "Reading": {"sensor": "string", "temp": "double"},
    }
)

RIGHT = {
    "one step": "match Transfer t [amount > 100 and ok]",
    "bare column of the only step": "match Transfer where amount > 100 return account",
    "own name in its brackets": "match Transfer t [t.amount > 100 and device.os = 'ios' and tags[0] = 'x']",
    "columns of two steps": "match Login a -> Transfer t where a.user = t.user and t.amount > 5 within 1 day",
    "unified": "match Login(user as u) a -> Transfer(user as u) t [u <> 'x'] within 1 hour return u",
    "aggregates": "match Login a -> Transfer+ t where sum(t.amount) > 5 and count(t) > 2 within 1 hour "
    "return sum(t.fee) as fees, last(t.account) as account",
    "prev": "match Login a -> Transfer+ t [amount > prev(t.amount)] within 1 hour",
    "step functions": "match Login a -> Transfer t where time(t) - time(a) < 5 minutes within 1 hour",
    "negation": "match Login a -> not Logout b [user = a.user] -> Transfer t within 1 hour partition by user",
    "until": "match Login a -> Transfer+ t until Logout [user = a.user] within 1 hour",
    "stays": "match Reading r [temp > 80] stays 5 minutes partition by sensor",
    "any": "match Login a -> any x [user = a.user and fee > 1] within 1 hour",
    "conjunction": "match (Login a & Logout b) where a.user = b.user within 1 hour",
    "relation": "match Login a [(user, ip) in Known]",
    "null asked for": "match Transfer t [fee is null or fee <=> null]",
    "true by constants": "match Transfer t where 1 = 1",
    "not in a list": "match Login a [user not in ('a', 'b')]",
    "tree": "match Orders << //order->o >> x [x.anything > 5] -> Transfer t within 1 hour",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right(text: str) -> None:
    file = parse_file(f"pattern p {text}")
    assert [core.name for core in check(file)] == ["p"]
    known = all(not isinstance(s.kind, ast.TreeMatch) for s in ast.steps(file.patterns[0].match))
    assert len(check(file, EVENTS)) == 1 if known else check(file)


def test_a_pattern_by_itself() -> None:
    (core,) = check(parse_pattern("pattern p match Login a"), EVENTS)
    assert core.steps[0].name == "a"


def test_one_set_of_columns_for_all_types() -> None:
    flat = schema({"user": "string", "amount": "double"})
    check(parse_pattern("pattern p match Whatever a [amount > 5] partition by user"), flat)
    with pytest.raises(UnknownNameError) as caught:
        check(parse_pattern("pattern p match Whatever a [amout > 5]"), flat)
    assert caught.value.nearest == "amount"


FED = """
pattern big
match Transfer t [amount > 1000]
partition by user
return t.amount as total

pattern twice
match big x -> big y
where y.total > x.total and x.user = y.user and x.match_id like 'a%'
within 1 hour
partition by user
return y.total
"""


def test_fed_by_another_pattern() -> None:
    assert [core.name for core in check(parse_file(FED), EVENTS)] == ["big", "twice"]
    backwards = parse_file("pattern twice" + FED.split("pattern twice")[1] + FED.split("pattern twice", maxsplit=1)[0])
    assert [core.name for core in check(backwards, EVENTS)] == ["twice", "big"]


def test_types_of_a_feeding_pattern() -> None:
    wrong = FED.replace("y.total > x.total", "y.total = x.total")
    with pytest.raises(TypeMismatchError, match="rounding"):
        check(parse_file(wrong), EVENTS)
    # Without a schema it may be a decimal.
    assert check(parse_file(wrong))


def test_feeding_is_bounded() -> None:
    chain = "pattern p0 match Login a\n" + "\n".join(f"pattern p{i} match p{i - 1} a" for i in range(1, 80))
    assert len(check(parse_file(chain))) == 80
    backwards = "\n".join(reversed([line for line in chain.split("\n") if line]))
    assert len(check(parse_file(backwards))) == 80
    long = "\n".join(f"pattern p{i} match p{i + 1} a" for i in range(300))
    with pytest.raises(LimitError):
        check(parse_file(long))


def test_parameters_with_defaults_are_bound() -> None:
    head = "pattern p(least double = -5, w duration = 10 minutes)"
    text = f"{head} match Login a -> Transfer t [amount > :least] within :w"
    (core,) = check(parse_pattern(text), EVENTS)
    assert core.within == ast.TimeWindow(600_000_000)
    assert core.steps[1].choose[0].expr == ex.Binary(">", ex.Ref(("amount",)), ex.Unary("-", ex.Literal("integer", 5)))


def test_parameters_without_defaults_stay_open() -> None:
    text = "pattern p(least double, w duration) match Login a -> Transfer t [amount > :least] within :w"
    (core,) = check(parse_pattern(text), EVENTS)
    assert core.steps[1].choose[0].expr == ex.Binary(">", ex.Ref(("amount",)), ex.Param("least"))


def test_parameter_as_a_duration_is_no_contradiction() -> None:
    text = (
        "pattern p(w duration, g duration, n duration, h duration) "
        "match Login a -> after :n within :g Transfer t -> not Logout for 30 minutes within :w holds for :h"
    )
    assert check(parse_pattern(text))
    assert check(parse_pattern("pattern p(n duration) match Login a -> not Logout for :n within 1 second"))


def test_defaults_can_contradict() -> None:
    with pytest.raises(SemanticError, match="contradict"):
        check(parse_pattern("pattern p(x bigint = 5) match Transfer t [account > :x and account < 3]"))
    assert check(parse_pattern("pattern p(x bigint) match Transfer t [account > :x and account < 3]"))


def test_a_parameter_has_the_type_it_declares() -> None:
    with pytest.raises(TypeMismatchError, match="rounding") as caught:
        check(parse_pattern("pattern p(x double = 5)\nmatch Transfer t [account = :x]"), EVENTS)
    assert caught.value.line == 2
    assert check(parse_pattern("pattern p(x bigint = 5) match Transfer t [account = :x]"), EVENTS)
    check(parse_pattern("pattern p(us list of string) match Login a [user in :us]"), EVENTS)
    with pytest.raises(TypeMismatchError):
        check(parse_pattern("pattern p(us list of bigint) match Login a [user in :us]"), EVENTS)


@pytest.mark.parametrize(
    ("declared", "fits"),
    [
        ("double = 5", True), ("double = 1e3", True), ("decimal = 5.5", True), ("decimal = 1e3", False),
        ("bigint = 5", True), ("bigint = 5.5", False), ("string = 'x'", True), ("string = null", True),
        ("boolean = true", True), ("boolean = 1", False), ("duration = 5 minutes", True),
        ("duration = 5", False),
        ("list of string = 'x'", False), ("timestamp = timestamp '2026-01-01'", True), ("variant = 5", True),
    ],
)  # fmt: skip
def test_defaults(declared: str, fits: bool) -> None:
    pattern = parse_pattern(f"pattern p(x {declared}) match Login a")
    if fits:
        assert list(parameter_types(pattern)) == ["x"]
        return
    with pytest.raises(TypeMismatchError) as caught:
        parameter_types(pattern)
    assert caught.value.span is not None
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "match Login a -> Transfer+ t until Logot within 1 hour",
        "match Login a -> Transfer t within 1 hour partition by account",
        "match Login a -> not Reading -> Transfer t within 1 hour partition by user",
        "match Login(usr as u) a -> Transfer(user as u) t within 1 hour",
        "match Transfer t [device.os.name = 'x']",
        "match Login a must (amount > 5)",
        "match Login a -> Transfer t within 1 hour return collect(t)",
        "match Transfer t [fee not in (1, null)]",
        "match Transfer t [t.account < account]",
        "match Transfer t [false]",
        "match Transfer t [null]",
    ],
)
def test_refused_with_a_place(text: str) -> None:
    with pytest.raises(PatternError) as caught:
        check(parse_pattern(f"pattern p {text}"), EVENTS)
    assert caught.value.span is not None
    assert caught.value.source is None
    assert caught.value.hint or caught.value.nearest
