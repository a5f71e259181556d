"""Patterns over matches of other patterns on the same key: the contract holds for each pattern of the set."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from perseid.errors import StateError
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines
from perseid.runtime.state_codec import decode_state, encode_state
from tests.blocks import blocks
from tests.contract.deep import deep_blocks, try_block
from tests.contract.inputs import PatternWorkload, oracle, result_rows, run, write_sequence
from tests.contract.malformed_states import mutations
from tests.contract.streams import Shard, calls_of
from tests.contract.test_changelog import by_event, check_current_matches, whole_engine
from tests.contract.test_states import StateReader

ENGINE = engines()["sequence"]
FIRST = (
    "match A a -> B b within 10 seconds partition by k return a.v as va, b.v as vb",
    "match A a -> B+ b -> C c within 15 seconds partition by k return count(b) as n",
    "match A a -> not B for 4 seconds partition by k return a.v as va",
    "match A a, B b within 10 seconds partition by k suppress 5 seconds return b.v as vb",
    "match A a ->> B b within 8 seconds partition by k return b.v as vb",
    "match A a -> B b -> C c within 9 seconds partition by k report timeouts return a.v as va",
    "match A+ a within 6 seconds partition by k return count(a) as n, max(a.v) as top",
    "match A a -> B b within 12 seconds partition by k selection recent return a.v as va",
)
SECOND = (
    "match p0 x -> p0 y within 20 seconds partition by k return x.match_id as xid",
    "match p0 x -> C c within 12 seconds partition by k return c.v as cv",
    "match A a -> p0 x within 12 seconds partition by k return a.v as av, time(x) as at",
    "match p0 x -> not p0 for 6 seconds partition by k return 1 as one",
    "match p0+ x -> D d within 25 seconds partition by k return count(x) as nx",
    "match A a, p0 x within 12 seconds partition by k return a.v as av",
    "match any e, p0 x within 12 seconds partition by k where e.v > 2 return e.v as ev",
    "match p0 x where x.k = 1 partition by k suppress 10 seconds return x.match_id as m",
)
THIRD = (
    "match p0 x -> p1 y within 30 seconds partition by k return y.match_id as yid",
    "match p1 x -> p1 y within 40 seconds partition by k return 1 as done",
)


def draw_workload(seed: int) -> PatternWorkload:
    """Draw two or three patterns, at least one of which uses matches of another; few keys, many equal times."""
    chance = random.Random(seed)
    texts = [chance.choice(FIRST), chance.choice(SECOND)]
    if chance.random() < 0.6:
        texts.append(chance.choice((*FIRST, *SECOND, *THIRD)))
    own = [re.sub(r" as (\w+)", rf" as \1_{i}", text) for i, text in enumerate(texts)]
    said = [
        {"second": chance.randrange(40), "type": chance.choice("AABBCD"), "k": chance.choice([1, 1, 2]), "v": chance.randrange(6)}
        for _ in range(chance.randrange(4, 40))
    ]  # fmt: skip
    return write_sequence(own, sorted(said, key=lambda row: row["second"]))


def check(seeds: Sequence[int]) -> int:
    """Compare with the oracle in one call, in several, and at each horizon between them; return the number of matches."""
    matches = 0
    for seed in seeds:
        workload = draw_workload(seed)
        expected = oracle(workload)
        assert result_rows(run(ENGINE, workload), workload) == expected, seed
        shard = Shard(ENGINE, workload)
        for call in calls_of(ENGINE, workload, seed):
            shard.call(call.data, call.now)
            if call.now is not None:
                known = replace(workload, data=tuple(shard.accepted))
                assert shard.rows == oracle(known, call.now), (seed, call.now)
        assert shard.finish() == expected, seed
        matches += len(expected)
    return matches


@pytest.mark.parametrize("block", blocks(1, 2))
def test_composed_patterns_in_any_calls(block: int) -> None:
    assert check(range(block * 30, block * 30 + 30)) > 120


def check_composed(engine: Engine, workload: PatternWorkload, seed: int) -> tuple[int, int]:
    """Compare current matches of all patterns with the oracle after every call; return the numbers of emitted and retracted."""
    calls = calls_of(engine, workload, seed, beyond=1 + seed % 2, wild=seed % 3 > 0)
    if seed % 8 == 0:
        calls = by_event(engine, workload, seed)
    return check_current_matches(engine, seed, workload, calls, twice=seed % 8 == 1)


@whole_engine
def test_current_matches_of_composed_patterns(engine: Engine) -> None:
    emitted, retracted = map(
        sum, zip(*(check_composed(engine, draw_workload(seed), seed) for seed in range(12)), strict=True)
    )
    assert emitted > 50
    assert retracted > 10


@pytest.mark.deep
@whole_engine
@deep_blocks("current matches of composed patterns")
def test_current_matches_of_composed_patterns_deep(engine: Engine, block: int) -> None:
    try_block(block, draw_workload, lambda workload, seed: check_composed(engine, workload, seed))


@pytest.mark.deep
@pytest.mark.parametrize("block", blocks(4, 8))
def test_composed_patterns_deep(block: int) -> None:
    check(range(10_000 + 250 * block, 10_250 + 250 * block))


# State, and changed sets of patterns


def run_first_calls(texts: Sequence[str], seed: int = 5) -> Shard:
    chance = random.Random(seed)
    rows = [{"second": i, "type": chance.choice("AABBC"), "k": chance.choice([1, 2]), "v": 1} for i in range(60)]
    shard = Shard(ENGINE, write_sequence(texts, rows))
    shard.call(shard.workload.data[:30], None)
    shard.call(shard.workload.data[30:], 25 * 10**6)
    assert shard.state is not None
    return shard


PAIR = (FIRST[0], SECOND[1])


def test_malformed_states_of_composed_patterns() -> None:
    """Mutations of the whole state, and of a part within a valid whole: rejected, or read and continued."""
    shard = run_first_calls(PAIR)
    assert shard.state is not None
    sealed = decode_state(shard.state)
    bodies = sealed.tables[0].column(0).to_pylist()
    states = [state for _, state in mutations(shard.state, 100, seed=1)]
    for at, body in enumerate(bodies):
        for _, changed in mutations(body, 60, seed=at):
            parts = pa.record_batch(
                [pa.array([*bodies[:at], changed, *bodies[at + 1 :]], pa.large_binary())], ["state"]
            )
            states.append(encode_state(sealed.facts, (parts,)))
    whole = pa.record_batch([pa.array([shard.state, shard.state], pa.large_binary())], ["state"])
    states.append(encode_state(sealed.facts, (whole,)))
    reader, refused = StateReader(shard), 0
    for state in states:
        try:
            step = reader.read(state)
            if step.state is not None:
                reader.read(step.state)
            assert ENGINE.report is not None
            ENGINE.report(state)
        except StateError:
            refused += 1
    assert refused > 60


@pytest.mark.parametrize("texts", [PAIR[:1], (PAIR[0], SECOND[0]), (FIRST[4], PAIR[1]), (*PAIR, SECOND[3])])
def test_composed_patterns_continue_after_a_change(texts: Sequence[str]) -> None:
    """A retained pattern emits all its matches; a new one, or one with a new input pattern, starts at the change."""
    before = run_first_calls(PAIR)
    after = Shard(ENGINE, replace(before.workload, patterns=write_sequence(texts, ()).patterns), state=before.state)
    after.now = before.now
    after.call((), after.now)
    emitted = {row[:2] for row in after.finish()}
    rest = {row[:2] for row in before.finish()} - {row[:2] for row in run_first_calls(PAIR).rows}
    unchanged = [
        i for i, text in enumerate(texts) if i < len(PAIR) and text == PAIR[i] and (i == 0 or texts[0] == PAIR[0])
    ]
    for i in unchanged:
        assert {row for row in emitted if row[0] == f"p{i}"} == {row for row in rest if row[0] == f"p{i}"}
    assert emitted <= {row[:2] for row in oracle(after.workload)}  # and only matches


def test_plain_patterns_become_composed() -> None:
    before = run_first_calls(PAIR[:1])
    after = Shard(ENGINE, replace(before.workload, patterns=write_sequence(PAIR, ()).patterns), state=before.state)
    after.now = before.now
    after.call((), after.now)
    emitted = {row[:2] for row in after.finish()}
    rest = {row[:2] for row in before.finish()} - {row[:2] for row in run_first_calls(PAIR[:1]).rows}
    assert {row for row in emitted if row[0] == "p0"} == rest
    assert emitted <= {row[:2] for row in oracle(after.workload)}
