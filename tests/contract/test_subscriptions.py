"""What the joins engine keeps to: the oracle's answer, whatever the cuts, the shares and the restarts."""

from __future__ import annotations

import os
import pickle

import pytest

from perseid.engines.contract import Clock
from tests.contract.subscriptions import Running, arrivals, ask, moved, plan_of, whole

FAST = os.environ.get("PERSEID_NUMBA", "1") != "0"
SEEDS = range(60 if FAST else 4)


def test_equals_the_oracle() -> None:
    found = 0
    for seed in SEEDS:
        question = ask(seed)
        told = whole(question).told
        assert {one[:3] for one in told} == question.due, f"seed {seed}"
        found += len(told)
    assert found > 80 or not FAST


@pytest.mark.parametrize("shares", [2, 3, 7])
def test_any_number_of_shares(shares: int) -> None:
    for seed in SEEDS:
        question = ask(seed)
        for expand in (True, False):
            one, many = (whole(question, shards=count, expand=expand) for count in (1, shares))
            assert one.told == many.told, f"seed {seed}"
            rows = [sorted(map(repr, _rows(running))) for running in (one, many)]
            assert rows[0] == rows[1], f"seed {seed}: what is told together is so wherever it is found"


def _rows(running: Running) -> list[object]:
    return [row for step in running.last.values() for row in step.rows.to_pylist()]


@pytest.mark.parametrize("forgetful", [False, True])
def test_any_cut_and_any_restart(forgetful: bool) -> None:
    for seed in SEEDS:
        question = moved(ask(seed), 1_000_000)
        expected = whole(question).told
        running = Running(plan_of(question, shards=1 + seed % 3), forgetful)
        for documents, now in arrivals(question, seed):
            running.call(documents, Clock(None, now, False))
            assert not any(len(step.late) for step in running.last.values())
        assert running.told == expected, f"seed {seed}"


def test_a_plan_is_plain_data() -> None:
    for seed in SEEDS[:10]:
        question = ask(seed)
        plan = plan_of(question)
        carried = pickle.loads(pickle.dumps(plan))
        assert carried == plan
        one, other = Running(plan), Running(carried)
        for running in (one, other):
            running.call(question.documents, Clock(ended=True))
        assert one.told == other.told
