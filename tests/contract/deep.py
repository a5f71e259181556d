"""How many random cases the deep runs of streams out of order try.

A case is a pattern, a stream, an order in which its events come, a cut of that into calls, and restarts in between.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.contract.inputs import Question

BASE = int(os.environ.get("PERSEID_SEEDS", "2000000"))
"""Where the seeds of the deep runs begin."""
CASES = {"stands": 9_000, "stands of links": 2_000, "put together": 53_000, "promises": 7_000, "frontier": 20_000}
"""By what is tried; half an hour in all for two workers. What stands is tried of every engine that takes back."""
BLOCK = 1_000
"""Cases of one test, so that workers can share them."""
ORDERS = 3
"""In which each stream comes."""


def deep_blocks(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", range(CASES[name] // BLOCK))


def try_block(block: int, ask: Callable[[int], Question], run: Callable[[Question, int], object]) -> None:
    """Question after question, each in several orders, until there were as many cases as a block has."""
    cases, seed = 0, BASE + block * BLOCK
    while cases < BLOCK:
        question = ask(3 * seed + 2)  # such a seed has three patterns, if any has
        if question.data:
            for order in range(ORDERS):
                run(question, ORDERS * seed + order)
                cases += len(question.patterns)
        seed += 1
    assert seed <= BASE + (block + 1) * BLOCK, "the next block tries some of these again"
    print(f"{cases} cases of {seed - BASE - block * BLOCK} questions")
