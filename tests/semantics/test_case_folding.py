"""``ilike``: one mapping of characters, the same in every evaluator."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.semantics.case_folding import LAST_CASED, case_variants, fold_case
from perseid.semantics.evaluate import ilike, like
from perseid.semantics.regular_expressions import matches

CASED = [chr(code) for code in range(LAST_CASED + 1) if len(case_variants(chr(code))) > 1]


def test_folding_is_one_character_to_one_and_complete() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        folded, variants = fold_case(char), case_variants(char)
        assert len(folded) == 1
        assert fold_case(folded) == folded
        assert variants[0] == folded
        assert char in variants
        assert code <= LAST_CASED or char.casefold() == char
    for left in CASED:
        assert {right for right in case_variants(left) if right.casefold() != left.casefold()} == set()


def test_no_character_folds_to_an_operator_of_like() -> None:
    assert {case_variants(char) for char in "%_\\"} == {"%", "_", "\\"}


def test_folding_agrees_with_the_expressions_that_ignore_case() -> None:
    """RE2 has its own tables, of another version of Unicode: three pairs are equal since Unicode 15.1."""
    later = {"\u0390", "\u1fd3", "\u03b0", "\u1fe3", "\ufb05", "\ufb06"}
    for variants in {case_variants(char) for char in CASED} - {case_variants(char) for char in later}:
        found = matches(CASED, f"^(?i:{variants[0]})$")
        assert {char for char, one in zip(CASED, found, strict=True) if one} == set(variants)


@given(st.text("aBkK\u212asſßẞσΣςİıi%_\\é", max_size=6), st.text("aBkK\u212asſßẞσΣςİıi%_\\É", max_size=6))
def test_ilike_is_like_of_folded_strings(value: str, pattern: str) -> None:
    assert ilike(value, pattern) is like(fold_case(value), fold_case(pattern))
    if like(value, pattern):
        assert ilike(value, pattern)


@pytest.mark.parametrize(
    ("value", "pattern", "wanted"),
    [
        ("ADMIN", "adm%", True), ("admin", "ADM%", True), ("Straße", "STRASSE", False), ("Straße", "STRAẞE", True), ("ΟΔΟΣ", "οδος", True), ("ΟΔΟΣ", "οδοσ%", True),
        ("ΑΣΑ", "ας%", True), ("İ", "i%", False), ("\u212a", "k", True), ("ſ", "S", True), ("A_B", r"a\_b", True), ("AxB", r"a\_b", False), ("É", "_", True),
        ("x", "\\", None), (None, "a", None), ("a", None, None), (1, "1", None), ("a" * 2000, "A%", True), ("a", "a" * 1001, None),
    ],
)  # fmt: skip
def test_ilike(value: object, pattern: object, wanted: bool | None) -> None:
    assert ilike(value, pattern) is wanted  # type: ignore[arg-type]
