"""Random sequence patterns: the product and the second opinion find the same matches."""

from __future__ import annotations

import pytest

from tests.second_opinion.comparison import BLOCKS, DEEP_CASES, DEFAULT_CASES, block, check, compare
from tests.second_opinion.generate import sequence_case
from tests.second_opinion.sequences import matches


@pytest.mark.parametrize("number", range(BLOCKS))
def test_random_sequences_match_as_documented(number: int) -> None:
    check(compare(block(number, DEFAULT_CASES), sequence_case, matches))


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(BLOCKS))
def test_random_sequences_match_as_documented_deep(number: int) -> None:
    check(compare(block(number, DEEP_CASES), sequence_case, matches))
