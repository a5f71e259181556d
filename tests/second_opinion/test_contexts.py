"""Random patterns with a selection: the product and the second opinion find the same matches."""

from __future__ import annotations

import pytest

from tests.second_opinion.comparison import BLOCKS, DEEP_CASES, DEFAULT_CASES, block, check, compare
from tests.second_opinion.contexts import selected_matches
from tests.second_opinion.generate import context_case


@pytest.mark.parametrize("number", range(BLOCKS))
def test_random_selections_match_as_documented(number: int) -> None:
    check(compare(block(number, DEFAULT_CASES), context_case, selected_matches))


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(BLOCKS))
def test_random_selections_match_as_documented_deep(number: int) -> None:
    check(compare(block(number, DEEP_CASES), context_case, selected_matches))
