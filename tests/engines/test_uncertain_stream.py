"""Uncertain streams in batches: results equal those of finished data to the bit, with the state restored in each
batch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.uncertain import automaton, reading
from perseid.engines.uncertain.engine import make_plan, match_all, report, step
from perseid.engines.uncertain.output_policies import OutputPolicy
from perseid.engines.uncertain.plan import UncertainPlan, plan_query
from perseid.engines.uncertain.streams import (
    CHANCE,
    FILTER,
    GIVEN,
    READING,
    Inference,
    Known,
    Sampling,
    Stream,
    Streams,
)
from perseid.errors import EventDataError, PerseidError, StateError, UnsupportedError
from perseid.lang.parser import parse_pattern
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.state_codec import decode_state, encode_state
from perseid.runtime.watermark import Watermark
from perseid.semantics.hidden import hidden_markov
from perseid.semantics.resolve import resolve
from tests.blocks import blocks
from tests.contract.malformed_states import spoiled
from tests.generators.random_beliefs import Uncertain, make_uncertain, rows_of
from tests.generators.random_patterns import SECOND

OUTPUT_POLICIES = (OutputPolicy(), OutputPolicy(), OutputPolicy("alerts", 0.5, 0.3), OutputPolicy("spans", 0.4, 0.4))
NOTHING = np.zeros(0, np.int64)


def plan_random_case(
    seed: int, sampled: bool = False, long_after: bool = False, numbered: bool = True
) -> tuple[UncertainPlan, EventBatch, Uncertain] | None:
    """Returns a case that is supported on streams, with a random output policy, or None if the seed has none.

    With ``sampled``, cases that cannot be sampled are skipped. With ``long_after``, all rows are repeated much later.
    Without ``numbered``, streams have no ``every``.
    """
    case, chance = make_uncertain(seed), random.Random(seed)
    if any(part.inference.looks_back for part in case.streams.parts):
        return None
    ways = (FILTER, Inference("likeliest"), Inference("lag", 1))
    apart = chance.random() < 0.4
    parts = tuple(
        replace(part, correlations=False, inference=chance.choice(ways)) if apart and part.known is Known.READ else part
        for part in case.streams.parts
    )
    drawn = Sampling(0.25, 0.25, seed, always=sampled and chance.random() < 0.5)
    streams = Streams(parts, case.streams.every if numbered else None, drawn)
    asked = plan_query(case.pattern, streams)
    try:
        plan = make_plan([case.pattern], streams, {})
        plan.refuse_on_streams()
    except UnsupportedError:
        return None
    except EventDataError:
        if numbered:
            raise
        return None  # it has bounds on time
    if asked.is_sampled(streams) != sampled:
        return None
    results = OutputPolicy() if asked.groups < len(asked.unit) else chance.choice(OUTPUT_POLICIES)
    again = [{**row, "time": row["time"] + 60 * SECOND} for row in case.given] if long_after else []
    rows = rows_of([*case.given, *again])
    types = {name: column.type for name, column in rows.columns.items()}
    return make_plan([case.pattern], streams, types, output_policy=results), rows, case


def streamed(
    plan: UncertainPlan, rows: EventBatch, chance: random.Random, counted: Counter[str] | None = None
) -> Iterator[pa.Table]:
    """Yields the output of shuffled rows in batches of random size, each from the state of the previous one; adds up
    counters."""
    todo = list(range(len(rows)))
    chance.shuffle(todo)
    newest = int(rows.time.max())
    state, now = None, -1
    counted = Counter() if counted is None else counted
    while todo:
        size = chance.randint(1, len(todo) // 2 + 1)
        batch, todo = sorted(todo[:size]), todo[size:]
        done = step(plan, take_events(rows, np.array(batch)), state, Watermark(None, now if now >= 0 else None, False))
        assert not len(done.late)
        state = done.state
        counted.update(done.counters)
        yield done.rows
        if chance.random() < 0.8:
            now = max(now, min((int(rows.time[i]) for i in todo), default=newest) - 1)
    for _ in range(40):
        if state is None:
            return
        now = max(now, newest) + SECOND * chance.choice((1, 1, 3))
        done = step(plan, take_events(rows, NOTHING), state, Watermark(None, now, False))
        state = done.state
        counted.update(done.counters)
        yield done.rows
    if state is not None:
        done = step(plan, take_events(rows, NOTHING), state, Watermark(None, None, True))
        counted.update(done.counters)
        yield done.rows


def shown(tables: Any) -> list[str]:
    return sorted(repr(row) for row in pa.concat_tables(tables).to_pylist())


def test_stream_with_thirty_keys_draws_the_worlds_of_finished_data() -> None:
    """So many chains meet in one group that the events of a step cannot be numbered as letters."""
    text = "pattern p match B a -> A(k as x) b [v = 1] -> A(k as x) c [v = 0] within 4 seconds selection successor"
    parts = Stream("A", Known.INDEPENDENT, ("k",), ("v",)), Stream("B", Known.INDEPENDENT, (), ("v",))
    chance = random.Random(4)
    rows = [{"type": "B", "time": t * SECOND, "v": 1, CHANCE: 0.5} for t in range(6)]
    rows += [
        {"type": "A", "time": t * SECOND, "k": k, "v": v, CHANCE: chance.random() / 5}
        for t in range(6) for k in range(30) for v in (0, 1)
    ]  # fmt: skip
    given = rows_of(rows)
    types = {name: column.type for name, column in given.columns.items()}
    plan = make_plan([resolve(parse_pattern(text))], Streams(parts, SECOND, Sampling(0.3, 0.3, 2)), types)
    whole = match_all(plan, given).rows
    assert whole.num_rows >= 3
    for seed in range(3):
        assert shown(list(streamed(plan, given, random.Random(seed)))) == shown([whole])


def test_limit_of_letters_does_not_change_sampled_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on letters decides how worlds are advanced, and changes no bit."""
    monkeypatch.setattr(automaton, "MAX_LETTERS", 3)
    monkeypatch.setattr(reading, "MAX_LETTERS", 3)
    found = (one for seed in count(8_000) if (one := plan_random_case(seed, True)) is not None)
    for plan, rows, _ in islice(found, 25):
        few = match_all(plan, rows).rows
        monkeypatch.setattr(automaton, "MAX_LETTERS", 4_096)
        many = match_all(plan, rows).rows
        monkeypatch.setattr(automaton, "MAX_LETTERS", 3)
        assert shown([few]) == shown([many]) == shown(list(streamed(plan, rows, random.Random(1))))


def check_cuts(first: int, many: int, sampled: bool = False) -> int:
    """Asserts that batch boundaries do not change the results of `many` cases; returns how many cases have results."""
    results = 0
    found = (one for seed in count(first) if (one := plan_random_case(seed, sampled)) is not None)
    for plan, rows, _ in islice(found, many):
        whole = match_all(plan, rows).rows
        cut = list(streamed(plan, rows, random.Random(first)))
        assert shown([plan.schema.empty_table(), *cut]) == shown([whole]), plan
        results += whole.num_rows > 0
    return results


@pytest.mark.parametrize("block", blocks(1, 2))
def test_results_do_not_depend_on_batches_or_restarts(block: int) -> None:
    assert check_cuts(5_000 * block, 60) > 20


def test_rounding_error_is_discarded_with_an_ended_chain() -> None:
    """A gap ends a chain with the remaining probability 0.9999999999999998, and its rounding error is discarded with
    it."""
    one = plan_random_case(2_700_400)
    assert one is not None
    cut = list(streamed(*one[:2], random.Random(2_700_000)))
    assert shown(cut) == shown([match_all(*one[:2]).rows])


@pytest.mark.parametrize("block", blocks(1, 2))
def test_sampled_worlds_do_not_depend_on_batches_or_restarts(block: int) -> None:
    assert check_cuts(5_000 * block, 90, sampled=True) > 20


@pytest.fixture
def limit_states(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits the automaton to two states, so that groups are sampled almost at once."""
    reading._reader.cache_clear()
    monkeypatch.setattr(automaton, "MAX_STATES", 2)
    yield
    reading._reader.cache_clear()


def cases_sampled_midway(first: int) -> Iterator[tuple[UncertainPlan, EventBatch, pa.Table, int]]:
    """Yields cases in which a group is sampled from some step on, their results, and the number of sampled steps.

    All rows are repeated much later.
    """
    for seed in count(first):
        one = plan_random_case(seed, long_after=True)
        if one is None or any(part.known is Known.READ and part.hidden for part in one[0].streams.parts):
            continue  # streams with readings are not sampled
        done = match_all(*one[:2])
        whole, counted = done.rows, done.counters
        if counted["sampled"]:
            yield one[0], one[1], whole, counted["sampled"]


@pytest.mark.usefixtures("limit_states")
@pytest.mark.parametrize("block", range(1))
def test_sampled_steps_do_not_depend_on_batch_boundaries(block: int) -> None:
    both = returned = 0
    for plan, rows, whole, steps in islice(cases_sampled_midway(90_000 * (block + 1)), 40):
        counted: Counter[str] = Counter()
        cut = list(streamed(plan, rows, random.Random(block), counted))
        assert shown([plan.schema.empty_table(), *cut]) == shown([whole]), plan
        assert counted["sampled"] == steps
        errors = [row["error"] for row in whole.to_pylist()]
        both += 0.0 in errors and 0.25 in errors
        returned += any(before and not after for before, after in pairwise(errors)) and not plan.queries[0].unit
    assert both > 5
    assert returned


def tables_without_every(first: int, sampled: bool) -> Iterator[tuple[UncertainPlan, EventBatch]]:
    """Yields cases without ``every``, with a pattern over a chain of tables and another stream."""
    for seed in count(first):
        one = plan_random_case(seed, sampled, numbered=False)
        if one is None or len(one[0].streams.parts) < 2:
            continue
        if any(part.known is Known.LINKED for part in one[0].queries[0].hidden(one[0].streams)):
            yield one[:2]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("cut", blocks(1, 2))
def test_chains_of_tables_without_every_continue_across_batches(sampled: bool, cut: int) -> None:
    results = 0
    for plan, rows in islice(tables_without_every(40_000, sampled), 10):
        whole = match_all(plan, rows).rows
        pieces = list(streamed(plan, rows, random.Random(cut)))
        assert shown([plan.schema.empty_table(), *pieces]) == shown([whole]), plan
        results += whole.num_rows > 0
    assert results > 2


@pytest.mark.usefixtures("limit_states")
def test_chain_without_every_continues_when_its_group_becomes_sampled() -> None:
    """The group of each key becomes sampled at the B of second 2, in a call without rows of A; A was 1 one second
    before.

    At second 4, A becomes 0 with 0.9 if it was 1, which has probability 0.5.
    """
    branches = "(A a [v = 1] -> B b -> A c [v = 0]) | (B d [v = 2] -> B e [v = 3] -> A f [v = 4])"
    text = f"pattern p match ({branches}) within forever partition by k"
    parts = Stream("A", Known.LINKED, ("k",), ("v",)), Stream("B", Known.INDEPENDENT, ("k",), ("v",))
    rows = []
    for k in (0, 1):
        given = (1, None, 1, 0.5), (4, 1, 0, 0.9), (4, 2, 0, 1.0)
        rows += [
            {"type": "A", "time": t * SECOND, "k": k, GIVEN + "v": old, "v": new, CHANCE: p} for t, old, new, p in given
        ]
        rows += [{"type": "B", "time": t * SECOND, "k": k, "v": 2, CHANCE: p} for t, p in ((2, 0.5), (3, 1.0))]
    table = rows_of(rows)
    types = {name: column.type for name, column in table.columns.items()}
    streams = Streams(parts, None, Sampling(0.05, 0.01, 5))
    plan = make_plan([resolve(parse_pattern(text))], streams, types)
    done = match_all(plan, table)
    whole, counted = done.rows, done.counters
    assert counted["sampled"] > 0
    assert [(row["k"], row["p"]) for row in whole.to_pylist()] == [(k, pytest.approx(0.45, abs=0.05)) for k in (0, 1)]
    assert all(row["error"] > 0 for row in whole.to_pylist())
    state, results = None, [plan.schema.empty_table()]
    for second in (1, 2, 3, 4):
        here = np.flatnonzero(table.time == second * SECOND)
        done = step(plan, take_events(table, here), state, Watermark(None, (second - 1) * SECOND, False))
        state = done.state
        results.append(done.rows)
    results.append(step(plan, take_events(table, NOTHING), state, Watermark(None, None, True)).rows)
    assert shown(results) == shown([whole])


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(20))
def test_results_do_not_depend_on_batches_or_restarts_deep(block: int) -> None:
    assert check_cuts(2_000_000 + 100_000 * block, 250) > 80
    assert check_cuts(2_000_000 + 100_000 * block, 250, sampled=True) > 50


@pytest.mark.usefixtures("limit_states")
@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(10))
def test_groups_become_sampled_at_the_same_steps_deep(block: int) -> None:
    for plan, rows, whole, _ in islice(cases_sampled_midway(4_000_000 + 100_000 * block), 200):
        cut = list(streamed(plan, rows, random.Random(block)))
        assert shown([plan.schema.empty_table(), *cut]) == shown([whole]), plan


@pytest.mark.parametrize("correlations", [True, False])
def test_call_without_progress_retains_all_chains(correlations: bool) -> None:
    """Every second batch of a stream may be like this: one batch has rows, and the next one only advances the
    watermark."""
    model = hidden_markov(
        values=[1, 2], initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]], readings=[[0.8, 0.2], [0.2, 0.8]],
        reading_names=["r", "s"],
    )  # fmt: skip
    streams = Streams((Stream("At", Known.READ, ("k",), ("v",), model, correlations=correlations, patience=2),), SECOND)
    rows = rows_of([{"type": "At", "time": second * SECOND, "k": 1, READING: "r"} for second in range(6)])
    types = {name: column.type for name, column in rows.columns.items()}
    asked = parse_pattern("pattern p match At a [v = 1] -> At b [v = 2] within 5 seconds partition by k")
    plan = make_plan([resolve(asked)], streams, types)
    results, state = [], None
    for batch, now in (([0, 1, 2], None), ([], 3), ([], 3), ([3, 4, 5], 3), ([], 10)):
        watermark = Watermark(None, None if now is None else now * SECOND - 1, False)
        done = step(plan, take_events(rows, np.array(batch, np.int64)), state, watermark)
        state = done.state
        results.append(done.rows)
    assert shown(results) == shown([match_all(plan, rows).rows])


STEPS = "At a [v = 1] -> At b must (v = 2) -> At+ c must (v > 0) -> At d [v = 0]"


def chain(seconds: int, window: str = "within 5 seconds", match: str = STEPS) -> tuple[UncertainPlan, EventBatch]:
    streams = Streams((Stream("At", Known.INDEPENDENT, ("k",), ("v",)),), SECOND)
    text = f"pattern p match {match} {window} partition by k"
    chance = random.Random(3)
    given = [
        {"type": "At", "time": second * SECOND, "k": k, "v": v, CHANCE: chance.random() / 3}
        for second in range(seconds)
        for k in range(3)
        for v in range(3)
    ]
    rows = EventBatch(
        np.array([one["time"] for one in given], np.int64), np.zeros(len(given), np.int32), ["At"],
        {
            "k": pa.array([one["k"] for one in given], pa.int64()),
            "v": pa.array([one["v"] for one in given], pa.int64()),
            CHANCE: pa.array([one[CHANCE] for one in given], pa.float64()),
        },
        {}, np.arange(len(given)),
    )  # fmt: skip
    types = {name: column.type for name, column in rows.columns.items()}
    return make_plan([resolve(parse_pattern(text))], streams, types), rows


def test_state_of_a_key_does_not_grow_with_the_stream() -> None:
    plan, rows = chain(400, "within forever")
    state, sizes = None, []
    for second in range(0, 400, 20):
        batch = np.flatnonzero((rows.time >= second * SECOND) & (rows.time < (second + 20) * SECOND))
        done = step(
            plan, take_events(rows, batch), state, Watermark(None, second * SECOND - 1 if second else None, False)
        )
        state = done.state
        sizes.append(done.counters["state_bytes"])
    assert max(sizes[5:]) - min(sizes[5:]) < 200, sizes


def test_state_is_released_after_the_last_window() -> None:
    plan, rows = chain(10)
    done = step(plan, rows, None, Watermark(None, None, False))
    for later in (9, 12, 30):
        if done.state is not None:
            done = step(plan, take_events(rows, NOTHING), done.state, Watermark(None, later * SECOND, False))
    assert done.state is None


def test_state_of_sampled_groups_is_bounded_and_released() -> None:
    """A sampled pattern with references to earlier events has a bounded number of groups, and no state after its
    windows."""
    plan, rows = chain(40, match="At a [v = 1] -> At b [b.v >= a.v] -> At c [c.v < b.v]")
    assert plan.queries[0].is_sampled(plan.streams)
    done = step(plan, rows, None, Watermark(None, None, False))
    sizes = []
    for second in range(10, 40, 3):
        done = step(plan, take_events(rows, NOTHING), done.state, Watermark(None, second * SECOND - 1, False))
        assert done.counters["live_keys"] == 3
        sizes.append(done.counters["state_bytes"] - 30 * 9 * (40 - second))
    assert max(sizes) < 30_000, sizes
    done = step(plan, take_events(rows, NOTHING), done.state, Watermark(None, 60 * SECOND, False))
    assert done.state is None


def test_state_with_another_seed_or_epsilon_is_rejected() -> None:
    plan, rows = chain(10, match="At a [v = 1] -> At b [b.v >= a.v]")
    none = take_events(rows, NOTHING)
    waiting = step(plan, rows, None, Watermark(None, None, False)).state
    state = step(plan, none, waiting, Watermark(None, 5 * SECOND - 1, False)).state
    for sampling in (Sampling(seed=1), Sampling(epsilon=0.2)):
        other = replace(plan, streams=replace(plan.streams, sampling=sampling))
        with pytest.raises(StateError, match="sampled differently"):
            step(other, none, state, Watermark(None, 9 * SECOND, False))
    exact, rows = chain(10)
    waiting = step(exact, rows, None, Watermark(None, None, False)).state
    state = step(exact, none, waiting, Watermark(None, 5 * SECOND - 1, False)).state
    other = replace(exact, streams=replace(exact.streams, sampling=Sampling(always=True)))
    with pytest.raises(StateError, match="was evaluated exactly"):
        step(other, none, state, Watermark(None, 9 * SECOND, False))


def test_late_rows_are_left_out_and_counted() -> None:
    plan, rows = chain(4)
    done = step(plan, rows, None, Watermark(None, 2 * SECOND - 1, False))
    assert len(done.late) == 18
    assert done.counters["events"] == 18


@pytest.mark.parametrize("match", [STEPS, "At a [v = 1] -> At b [b.v >= a.v] -> At c [c.v < b.v]"])
def test_broken_states_are_refused(match: str) -> None:
    plan, rows = chain(6, match=match)
    state = step(plan, rows, None, Watermark(None, None, False)).state
    assert state is not None
    state = step(plan, take_events(rows, NOTHING), state, Watermark(None, 4 * SECOND - 1, False)).state
    assert state is not None
    assert report(state).buffered > 0
    assert list(report(state).open.values()) == [3]
    sealed = decode_state(state)
    chance = random.Random(7)
    refused = 0
    for _ in range(400):
        facts = spoiled(sealed.facts, chance)
        try:
            step(
                plan, take_events(rows, NOTHING), encode_state(facts, sealed.tables), Watermark(None, 9 * SECOND, False)
            )
        except StateError:
            refused += 1
    assert refused > 200
    for cut in range(0, len(state), 97):
        with pytest.raises(StateError):
            step(plan, rows, state[:cut], Watermark(None, None, False))
    other = replace(plan, streams=replace(plan.streams, every=2 * SECOND))
    with pytest.raises(StateError, match="declared differently"):
        step(other, take_events(rows, NOTHING), state, Watermark(None, 9 * SECOND, False))


def test_too_large_a_state_is_an_error() -> None:
    plan, rows = chain(20)
    with pytest.raises(PerseidError, match="bytes in one shard"):
        step(replace(plan, max_state=1_000), rows, None, Watermark(None, None, False))
