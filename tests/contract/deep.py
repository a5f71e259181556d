"""Number of random cases of the deep runs of streams out of order.

A case is a pattern, a stream, an order of arrival, a cut into calls, and restarts between them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.contract.inputs import PatternWorkload

BASE = int(os.environ.get("PERSEID_SEEDS", "2000000"))
"""First seed of the deep runs."""
CASES = {
    "current matches": 9_000,
    "current matches of composed patterns": 2_000,
    "assembling": 53_000,
    "punctuations": 7_000,
    "frontier": 20_000,
}
"""Number of cases by test; half an hour in all for two workers. Every engine that retracts has ``current matches``."""
BLOCK = 1_000
"""Number of cases of one test, so that workers can share them."""
ORDERS = 3
"""Orders of arrival of each stream."""


def deep_blocks(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", range(CASES[name] // BLOCK))


def try_block(
    block: int, draw_workload: Callable[[int], PatternWorkload], run: Callable[[PatternWorkload, int], object]
) -> None:
    """Run workloads, each in several orders, until the block has enough cases."""
    cases, seed = 0, BASE + block * BLOCK
    while cases < BLOCK:
        workload = draw_workload(3 * seed + 2)  # such a seed draws up to three patterns
        if workload.data:
            for order in range(ORDERS):
                run(workload, ORDERS * seed + order)
                cases += len(workload.patterns)
        seed += 1
    assert seed <= BASE + (block + 1) * BLOCK, "the next block tries some of these again"
    print(f"{cases} cases of {seed - BASE - block * BLOCK} questions")
