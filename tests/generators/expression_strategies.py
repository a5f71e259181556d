"""Random expressions for property tests, every kind of node among them; needs hypothesis.

What comes out is well formed and in the form the parser gives: a minus sign is a node of its own, a field of
a plain name belongs to the name, literals can be written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import get_args

from hypothesis import strategies as st

from perseid.lang.expressions import (
    Between,
    Binary,
    BinaryOp,
    Call,
    Case,
    Cast,
    Expr,
    InList,
    InRelation,
    Is,
    Item,
    Like,
    LikeOp,
    Literal,
    Member,
    Param,
    Ref,
    Unary,
)
from perseid.semantics.functions import FUNCTIONS, UNITS, Function
from perseid.semantics.values import MAX_INTEGER

DEFAULT_REFS = (("amount",), ("a", "amount"), ("a", "device", "os"), ("t", "x"), ("t",), ("u",))
CAST_TYPES = (
    "boolean",
    "bigint",
    "double",
    "decimal(18,2)",
    "decimal(38,0)",
    "string",
    "timestamp",
    "date",
    "duration",
)
_FIRST_MICROSECOND, _LAST_MICROSECOND = -62_135_596_800_000_000, 253_402_300_799_999_999
_STRINGS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
# The characters that mean something to like, casts and dates come up by chance too seldom.
_REGULAR_EXPRESSIONS = (
    "",
    "^a",
    "b$",
    "^é.$",
    "a+|b",
    "(?i)[a-f]+",
    "(a)(b)?",
    "\\d{2}",
    "\\.",
    "(",
    "(?=a)",
    "x{9999}",
)
_TELLING = st.text(st.sampled_from("%_\\'\" -:.0123456789eET+Zaé\n"), max_size=12)


def literals() -> st.SearchStrategy[Literal]:
    """Every kind of literal, with no sign: a minus is a node of its own."""
    decimals = st.builds(
        lambda digits, scale: Decimal((0, tuple(map(int, str(digits))), -scale)),
        st.integers(0, 10**30),
        st.integers(1, 8),
    )
    return st.one_of(
        st.just(Literal("null", None)),
        st.booleans().map(lambda x: Literal("boolean", x)),
        st.one_of(st.integers(0, 20), st.integers(0, MAX_INTEGER)).map(lambda x: Literal("integer", x)),
        decimals.map(lambda x: Literal("decimal", x)),
        st.floats(min_value=0.0, allow_nan=False, allow_infinity=False).map(lambda x: Literal("double", abs(x))),
        st.one_of(_STRINGS, _TELLING, st.sampled_from(UNITS)).map(lambda x: Literal("string", x)),
        st.integers(_FIRST_MICROSECOND, _LAST_MICROSECOND).map(lambda x: Literal("timestamp", x)),
        st.integers(-719_162, 2_932_896).map(lambda x: Literal("date", x)),
        st.one_of(st.integers(0, 10**7), st.integers(0, 10**16)).map(lambda x: Literal("duration", x)),
    )


def _string(value: str) -> Literal:
    return Literal("string", value)


def _calls(inner: st.SearchStrategy[Expr], function: Function) -> st.SearchStrategy[Expr]:
    most = function.low + 2 if function.high is None else function.high
    args = st.lists(inner, min_size=function.low, max_size=most).map(tuple)
    distinct = st.booleans() if function.distinct else st.just(False)
    return st.builds(Call, st.just(function.name), args, distinct)


def _compound(
    inner: st.SearchStrategy[Expr], params: Sequence[str], relations: Sequence[str]
) -> st.SearchStrategy[Expr]:
    yes = st.booleans()
    call = st.sampled_from(list(FUNCTIONS.values())).flatmap(lambda function: _calls(inner, function))
    item = st.builds(Item, inner, inner)
    items = st.lists(inner, min_size=1, max_size=3).map(tuple)
    whens = st.lists(st.tuples(inner, inner), min_size=1, max_size=3).map(tuple)
    one_param = st.sampled_from(list(params)).map(lambda name: (Param(name),))
    member = st.builds(Member, st.one_of(item, call), st.sampled_from(["os", "price", "x"]))
    return st.one_of(
        call,
        call,
        item,
        member,
        st.builds(Member, member, st.just("y")),
        st.builds(Unary, st.sampled_from(["-", "not"]), inner),
        st.builds(Binary, st.sampled_from(get_args(BinaryOp)), inner, inner),
        st.builds(Binary, st.sampled_from(get_args(BinaryOp)), inner, inner),
        st.builds(Between, inner, inner, inner, yes),
        st.builds(InList, inner, st.one_of(items, one_param), yes),
        st.builds(InRelation, items, st.sampled_from(list(relations)), yes),
        st.builds(Like, inner, inner, yes, st.sampled_from(get_args(LikeOp))),
        st.builds(Like, inner, st.sampled_from(_REGULAR_EXPRESSIONS).map(_string), yes, st.just("rlike")),
        st.builds(Is, inner, st.sampled_from(["null", "true", "false"]), yes),
        st.builds(Case, st.one_of(st.none(), inner), whens, st.one_of(st.none(), inner)),
        st.builds(Cast, inner, st.sampled_from(CAST_TYPES)),
    )


def expressions(
    refs: Sequence[tuple[str, ...]] = DEFAULT_REFS,
    params: Sequence[str] = ("p", "vips"),
    relations: Sequence[str] = ("Office",),
    max_leaves: int = 12,
) -> st.SearchStrategy[Expr]:
    """Any expression over these names; most have no sensible type, all have a meaning (often null)."""
    leaves: st.SearchStrategy[Expr] = st.one_of(
        literals(),
        st.sampled_from(list(refs)).map(Ref),
        st.sampled_from(list(params)).map(Param),
    )
    return st.recursive(leaves, lambda inner: _compound(inner, params, relations), max_leaves=max_leaves)
