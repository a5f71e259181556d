"""Starts without a match share the search states they reached: the work is linear, and the matches are the same."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

import perseid as ps
from perseid.engines.sequence import layout as y
from perseid.engines.sequence import run as sequence_run
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines
from perseid.runtime.search_budget import MAX_MATCHES, SearchBudget
from tests.contract.inputs import PatternWorkload, inputs_of
from tests.contract.streams import SECOND, Shard
from tests.contract.test_streams import check_any_cut

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
EVENTS = 5_000
STEPS_PER_EVENT = 12
"""Steps per event that count as linear: 5,000 starts over 5,000 events would take 2,500."""


@pytest.fixture
def linear_budget(monkeypatch: pytest.MonkeyPatch) -> SearchBudget:
    """A budget that only a linear search stays within."""
    for name in ("STEPS_PER_EVENT", "ATTEMPT_STEPS_PER_EVENT"):
        monkeypatch.setattr(sequence_run, name, 0)
    return SearchBudget(STEPS_PER_EVENT * EVENTS, MAX_MATCHES)


def sequence() -> Engine:
    return engines()["sequence"]


@pytest.mark.parametrize(
    "text",
    [
        "match A+ a -> B+ b",
        "match A+ a -> A+ b -> B c",
        "match A+ a -> A+ b",
        "match (A a -> A b)+ -> B c",
        "match A{2,4} a -> B b",
        "match (A a | C c)+ -> B b",
        "match A+? a -> B b",
    ],
)
def test_open_starts_over_equal_rows_take_linear_work(text: str, linear_budget: SearchBudget) -> None:
    data = [{"second": i, "type": "A", "k": 1, "v": 1} for i in range(EVENTS)]
    workload = inputs_of(sequence()).write([f"{text}\nwithin 1 day\npartition by k"], data)
    shard = Shard(sequence(), workload, options={"budget": linear_budget})
    shard.call(workload.data, None)
    step = shard.call((), EVENTS * SECOND)
    assert shard.emitted == []
    assert step.counters["retained_events"] == EVENTS


@pytest.mark.parametrize("skip", ["", "after match skip past last", "after match skip to next"])
def test_starts_that_fail_take_linear_work(skip: str, linear_budget: SearchBudget) -> None:
    """Each start takes every A, and then the next row is not the B that has to follow at once."""
    types = ["A"] * EVENTS + ["C", "B"]
    rows = [{"ts": START + dt.timedelta(seconds=i), "type": kind} for i, kind in enumerate(types)]
    pattern = ps.pattern(f"pattern p match A+ a , B b within 1 day {skip}")
    assert len(pattern.match(ps.events(rows, options=ps.StreamOptions(max_steps=linear_budget.max_steps)))) == 0


def test_without_merged_points_the_work_is_not_linear(
    linear_budget: SearchBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_run, "MERGE_AFTER_STEPS", y.FOREVER)
    with pytest.raises(ps.errors.SearchBudgetError):
        test_starts_that_fail_take_linear_work("", linear_budget)


def test_search_states_are_not_shared_across_different_window_ends() -> None:
    """A later start reaches events beyond the window of an earlier one."""
    types = "A" * 200 + "B"
    rows = [{"ts": START + dt.timedelta(seconds=i), "type": kind, "n": i} for i, kind in enumerate(types)]
    found = ps.pattern("pattern p match A+ a -> B b within 100 seconds return first(a.n) as n").match(ps.events(rows))
    assert [row["n"] for row in found.to_dicts()] == list(range(100, 200))


# The same matches as the oracle


def draw_element(chance: random.Random, names: list[str], depth: int) -> str:
    """A step or a group, often repeated; no condition refers to another event."""
    roll = chance.random()
    if depth == 0 or roll < 0.55:
        name = f"x{len(names)}"
        names.append(name)
        condition = f" [v > {chance.randrange(3)}]" if chance.random() < 0.3 else ""
        unified = "(v as u)" if chance.random() < 0.1 else ""
        repeat = chance.choice(("", "+", "+", "*", "?", "{2}", "{2,}", "{1,3}", "+?", "*?"))
        return f"{chance.choice('AAABC')}{unified}{repeat} {name}{condition}"
    inner = [draw_element(chance, names, depth - 1) for _ in range(2)]
    if roll < 0.7:
        return f"({inner[0]} | {inner[1]}){chance.choice(('', '+', '{1,2}'))}"
    if roll < 0.8:
        return f"({inner[0]} & {inner[1]})"
    arrow = chance.choice(("->", "->", ","))
    window = f" within {chance.randrange(2, 9)} seconds" if chance.random() < 0.2 else ""
    return f"({inner[0]} {arrow} {inner[1]}{window}){chance.choice(('', '+', '+?'))}"


def draw_input(seed: int) -> PatternWorkload | None:
    """Draws a pattern and very similar rows, so that starts may share search states; None if the pattern is invalid."""
    chance = random.Random(f"merged {seed}")
    names: list[str] = []
    text = draw_element(chance, names, 2)
    for _ in range(chance.randrange(1, 3)):
        text += f" {chance.choice(('->', '->', ','))} {draw_element(chance, names, 1)}"
    skip = chance.choice(("", "", "", "after match skip past last", "after match skip to next"))
    keyed = chance.choice(("", "partition by k"))
    clauses = f"match {text}\nwithin {chance.choice((5, 20, 60))} seconds\n{keyed}\n{skip}"
    data, second = [], 0
    # The oracle takes exponential time where repetitions are nested.
    for _ in range(chance.randrange(4, 12 if ")+" in text else 22)):
        second += chance.choice((0, 1, 1, 2))
        data.append(
            {"second": second, "type": chance.choice("AAAABCD"), "k": chance.randrange(2), "v": chance.randrange(4)}
        )
    try:
        return inputs_of(sequence()).write([clauses], data)
    except ps.errors.PatternError:
        return None


def compare(seeds: range) -> tuple[int, int]:
    """Compare streams and batches with the oracle; how many patterns merge points, and how many rows they have."""
    merged = found = 0
    for seed in seeds:
        workload = draw_input(seed)
        if workload is None:
            continue
        emitted = check_any_cut(sequence(), seed, workload)
        plan: Any = Shard(sequence(), workload).plan
        if any(numbered.tables[y.S_MERGES] for numbered in plan.patterns):
            merged += 1
            found += emitted
    return merged, found


def test_matches_are_those_of_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_run, "MERGE_AFTER_STEPS", 0)
    merged, found = compare(range(300))
    assert merged > 100
    assert found > 200


@pytest.mark.deep
@pytest.mark.parametrize("block", range(10))
def test_matches_of_shared_states_equal_the_oracle_deep(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_run, "MERGE_AFTER_STEPS", 0)
    merged, found = compare(range(2_000_000 + block * 2_000, 2_000_000 + (block + 1) * 2_000))
    assert merged > 700
    assert found > 1_000
