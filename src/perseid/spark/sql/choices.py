"""Expressions that select a value: ``case``, ``if``, ``coalesce``, ``nullif``, ``greatest``, ``least``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from perseid.lang.expressions import Expr
from perseid.semantics import types as t
from perseid.semantics.functions import literal_integer
from perseid.spark.sql.columns import is_comparable_as_is
from perseid.spark.sql.comparisons import compared
from perseid.spark.sql.numbers import as_decimal, as_double, exact_size
from perseid.spark.sql.pieces import InexpressibleError, Names, Sql, moment, null, truth
from perseid.spark.sql.times import micros

_EXACT_IN_DOUBLE = 2**53

Parts = Sequence[tuple[Expr, Sql]]
"""Values, each as tree node and SQL."""


def case(names: Names, operand: Sql | None, tests: Sequence[Sql], thens: Parts) -> Sql:
    """The value of the first test that holds; one value more than tests is the ``else``."""
    texts, result = _of_one_type(thens)
    if not tests:
        raise InexpressibleError
    last = f" else {texts[-1]}" if len(texts) > len(tests) else ""

    def branches(conditions: Sequence[str]) -> str:
        arms = " ".join(f"when {x} then {y}" for x, y in zip(conditions, texts, strict=False))
        return f"case {arms}{last} end"

    if operand is None:
        return replace(result, text=branches([truth(test) for test in tests]))
    return replace(result, text=names.shared(operand, lambda x: branches([compared("=", x, test) for test in tests])))


def if_(condition: Sql, branches: Parts) -> Sql:
    texts, result = _of_one_type(branches)
    return replace(result, text=f"if({truth(condition)}, {texts[0]}, {texts[1]})")


def nullif(names: Names, value: Sql, other: Sql) -> Sql:
    text = names.shared(value, lambda x: f"if({compared('=', x, other)}, null, {x.text})")
    return replace(value, text=text, micros=None)


def one_of(name: str, parts: Parts) -> Sql:
    """``coalesce``, ``greatest`` or ``least``."""
    texts, result = _of_one_type(parts)
    if name != "coalesce":
        if not t.is_orderable(result.type) or (result.raw is not None and not is_comparable_as_is(result.raw)):
            raise InexpressibleError
        texts = [text for text, (_, part) in zip(texts, parts, strict=True) if not isinstance(part.type, t.Null)]
    if isinstance(result.type, t.Null):
        return result
    return replace(result, text=texts[0] if len(texts) == 1 else f"{name}({', '.join(texts)})")


def _of_one_type(parts: Parts) -> tuple[list[str], Sql]:
    """Convert the values to one type; the second result has that type and no text."""
    typed = [part for _, part in parts if not isinstance(part.type, t.Null)]
    if not typed:
        return ["null"] * len(parts), null(t.Null())
    first = typed[0]
    if all(part.type == first.type and part.raw == first.raw for part in typed):
        loose = any(part.loose for part in typed)
        return [part.text for _, part in parts], replace(first, text="", micros=None, loose=loose)
    common = t.widest([part.type for part in typed])
    in_common = _into(common, parts, typed)
    texts = [part.text if isinstance(part.type, t.Null) else in_common(part) for _, part in parts]
    return texts, Sql("", common or t.Unknown(), loose=True)


def _into(common: t.Type | None, parts: Parts, typed: Sequence[Sql]) -> Callable[[Sql], str]:
    """The conversion of each value to the common type; raises if it would change a value."""
    match common:
        case t.Double():
            if not all(_is_exact_double(*part) for part in parts):
                raise InexpressibleError
            return as_double
        case t.Decimal():
            exact_size(typed)
            return lambda part: as_decimal(part, common)
        case t.Timestamp():
            return lambda part: part.text if isinstance(part.type, t.Timestamp) else moment(micros(part)).text
    raise InexpressibleError


def _is_exact_double(expr: Expr, part: Sql) -> bool:
    small = literal_integer(expr)
    return isinstance(part.type, t.Double | t.Null) or (small is not None and abs(small) < _EXACT_IN_DOUBLE)
