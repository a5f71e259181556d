"""Strings: conversion, search, substrings and concatenation within the maximum length of a string."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.lang.expressions import Expr, Like, Literal
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.case_folding import case_variants, fold_case
from perseid.semantics.evaluate import MAX_LIKE, like_stretches
from perseid.semantics.functions import literal_integer
from perseid.semantics.regular_expressions import fixed_search, problem_of
from perseid.spark.sql.literals import constant
from perseid.spark.sql.numbers import MAX_INT, digits
from perseid.spark.sql.pieces import NO_TRUTH, InexpressibleError, Names, Sql, firm, need, null, string
from perseid.spark.sql.times import moment_text


def as_text(value: Sql) -> str:
    match firm(value).type:
        case t.String():
            return value.text
        case t.Boolean() | t.Integer() | t.Decimal() | t.Date() | t.Duration():
            return digits(value)
        case t.Timestamp():
            return moment_text(value)
        case t.Double():
            raise InexpressibleError
    return null(t.String()).text


def concatenated(names: Names, values: Sequence[Sql]) -> Sql:
    def limited(*texts: str) -> str:
        size = " + ".join(f"cast(length({x}) as bigint)" for x in texts)
        return f"case when {size} <= {v.MAX_STRING}L then concat({', '.join(texts)}) end"

    return string(names.shared_texts([as_text(value) for value in values], limited))


def substring(names: Names, value: Sql, places: Sequence[tuple[Expr, Sql]]) -> Sql:
    """A substring, by its start and, optionally, its length."""
    text = need(value, t.String)
    numbers = [literal_integer(expr) for expr, _ in places]
    if all(number is not None and abs(number) < MAX_INT for number in numbers):
        # In Spark's two-argument form the length is the largest int, which reaches the end of any string.
        return string(f"substring({', '.join([text, *map(str, numbers)])})")

    def cut(text: str, start: str, length: str) -> str:
        near = f"cast(least({start}, {MAX_INT}L) as int)"
        size = f"cast(least(greatest({length}, 0L), {MAX_INT}L) as int)"
        # Spark's positions are ints: a start below their range becomes the first character, with the remaining length.
        # It is computed in decimals, because the optimizer may add bigints in an order that overflows.
        remaining = f"cast({start} as decimal(20,0)) + greatest({length}, 0L) + length({text})"
        far = f"substring({text}, 1, cast(least(greatest({remaining}, 0BD), {MAX_INT}BD) as int))"
        unknown = f"{start} is null or {length} is null"
        return (
            f"case when {unknown} then null when {start} < -{MAX_INT}L then {far} "
            f"else substring({text}, {near}, {size}) end"
        )

    start, length = [*(need(place, t.Integer) for _, place in places), f"{v.MAX_INTEGER}L"][:2]
    return string(names.shared_texts([text, start, length], cut))


def replaced(names: Names, text: str, old: str, new: str = "''") -> Sql:
    """Replace each occurrence; null if the result, computed beforehand, would be too long."""

    def limited(text: str, old: str, new: str) -> str:
        removed = f"cast(length({text}) - length(replace({text}, {old}, '')) as bigint)"
        growth = f"{removed} div cast(length({old}) as bigint) * (length({new}) - length({old}))"
        return (
            f"case when {old} = '' then if({new} is null, null, {text}) "
            f"when length({text}) + {growth} <= {v.MAX_STRING}L then replace({text}, {old}, {new}) end"
        )

    return string(names.shared_texts([text, old, new], limited))


def split_part(names: Names, text: str, mark: str, number: str) -> Sql:
    part = names.shared_text(number, lambda x: f"if({x} is null, null, greatest(least({x}, {MAX_INT}L), -{MAX_INT}L))")
    return string(f"split_part({text}, {mark}, cast(nullif({part}, 0L) as int))")


# like


def like(names: Names, value: Sql, expr: Like) -> str:
    """A literal pattern of ``like``, ``ilike`` or ``rlike`` as a search for fixed strings, which takes linear time."""
    written = expr.pattern
    if not isinstance(written, Literal) or not isinstance(written.value, str):
        raise InexpressibleError
    if isinstance(value.type, t.Null):
        return NO_TRUTH
    text = need(value, t.String)
    if expr.op == "rlike":
        return _fixed(text, written.value)
    if expr.op == "ilike":
        return _stretches(names, string(_folded(text, written.value)), fold_case(written.value))
    return _stretches(names, value, written.value)


def _fixed(text: str, expression: str) -> str:
    """A regular expression that is a search for a fixed string; Java's engine differs from RE2 in any other."""
    if problem_of(expression) is not None:
        return NO_TRUTH
    search = fixed_search(expression)
    if search is None:
        raise InexpressibleError
    literal_text = constant(search.text)
    if search.at_start and search.at_end:
        return f"({text} = {literal_text})"
    function = "startswith" if search.at_start else "endswith" if search.at_end else "contains"
    return f"{function}({text}, {literal_text})"


def _folded(text: str, pattern: str) -> str:
    """A text with the characters of the pattern in their folded form; ``lower`` of the JVM has another mapping."""
    folded = {char: variants[0] for one in pattern for variants in [case_variants(one)] for char in variants[1:]}
    if not folded:
        return text
    return f"translate({text}, {constant(''.join(folded))}, {constant(''.join(folded.values()))})"


def _stretches(names: Names, value: Sql, pattern: str) -> str:
    if len(pattern) > MAX_LIKE:
        return NO_TRUTH
    stretches = like_stretches(pattern)
    if stretches is None:
        return NO_TRUTH
    if any(one is None for stretch in stretches for one in stretch):
        # A pattern with ``_`` needs Spark's own ``like``. With several parts between ``%`` it takes more than linear
        # time, and Spark 4.0 splits characters beyond the first 65,536.
        if len(stretches) > 3 or any(ord(one) > 0xFFFF for one in pattern):
            raise InexpressibleError
        return f"({value.text} like {constant(pattern)})"
    texts = ["".join(one for one in stretch if one is not None) for stretch in stretches]
    if len(texts) == 1:
        return f"({value.text} = {constant(texts[0])})"
    head, *between, tail = texts
    return names.shared(value, lambda x: _search(x.text, head, [part for part in between if part], tail))


def _search(text: str, head: str, infixes: Sequence[str], tail: str) -> str:
    """Condition that a text begins with the head, ends with the tail, and has the wanted parts in between, in order."""
    tests = [f"startswith({text}, {constant(head)})"] if head else []
    tests += [f"endswith({text}, {constant(tail)})"] if tail else []
    if not infixes:
        tests.append(f"length({text}) >= {len(head) + len(tail)}")
    elif not head and not tail and len(infixes) == 1:
        tests.append(f"contains({text}, {constant(infixes[0])})")
    else:
        at = str(len(head) + 1)
        for part in infixes:
            # A part that is not found makes the position null, and with it the rest of the search.
            at = f"nullif(locate({constant(part)}, {text}, {at}), 0) + {len(part)}"
        # On a string a miss is null and must become false; on null the result stays null.
        tests.append(f"if({text} is null, null, coalesce({at} + {len(tail) - 1} <= length({text}), false))")
    return f"({' and '.join(tests)})"
