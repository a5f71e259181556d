"""Properties of engines that retract matches: after every call, the current matches are those of the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from perseid.errors import PatternError
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines_for
from perseid.runtime.watermark import Watermark
from tests.blocks import blocks
from tests.contract.deep import deep_blocks, try_block
from tests.contract.inputs import PatternWorkload, inputs_of
from tests.contract.shards import ChangelogShard, supports
from tests.contract.streams import FAR, SECOND, StreamCall, calls_of, rows_of, unsuppressed
from tests.contract.test_streams import PLAIN, assert_same_step, make_workload, seconds

every_engine = pytest.mark.parametrize(
    "engine",
    [engine for engine in engines_for("patterns").values() if engine.capabilities.retracts],
    ids=lambda engine: engine.name,
)

whole_engine = pytest.mark.parametrize(
    "engine",
    [engine for engine in engines_for("patterns").values() if engine.capabilities.retracts and inputs_of(engine).whole],
    ids=lambda engine: engine.name,
)
"""Those of them that accept any pattern."""
WITHOUT = "match A a -> not C ->> B b\nwithin 10 seconds\npartition by k\nreturn a.v as v"


def by_event(engine: Engine, workload: PatternWorkload, seed: int) -> list[StreamCall]:
    """Return the same calls, cut after every event."""
    calls = []
    for call in calls_of(engine, workload, seed, wild=True):
        calls += [StreamCall([row], call.now) for row in call.data] or [call]
    return calls


def check_current_matches(
    engine: Engine, seed: int, workload: PatternWorkload, calls: Sequence[StreamCall], *, twice: bool = True
) -> tuple[int, int]:
    """Compare current matches with the oracle after every call; return the numbers of emitted and retracted matches."""
    inputs, chance = inputs_of(engine), random.Random(seed)
    shard, names = ChangelogShard(engine, workload), unsuppressed(workload)
    for call in calls:
        if chance.random() < 0.3:
            shard.restart()
        again = shard.step(call.data, Watermark(shard.now, call.now, False)) if twice else None
        step = shard.call(call.data, call.now)
        if again is not None:
            assert_same_step(step, again)
        if shard.horizon is not None:
            received = replace(workload, data=tuple(shard.accepted))
            known = rows_of(names, inputs.expected(received, shard.horizon))
            assert rows_of(names, shard.rows) == known, f"seed {seed} at {shard.horizon}"
    received = replace(workload, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(received), f"seed {seed}"
    assert not shard.counters["capped"]
    return len(shard.emitted), shard.counters["retracted"]


@every_engine
@pytest.mark.parametrize("block", blocks(1, 2))
def test_current_matches_after_every_call(engine: Engine, block: int) -> None:
    emitted = retracted = 0
    for seed in range(block * 40, block * 40 + 40):
        workload = inputs_of(engine).draw_workload(seed, False)
        counts = check_current_matches(
            engine, seed, workload, calls_of(engine, workload, seed, beyond=1 + seed % 2, wild=True)
        )
        emitted, retracted = emitted + counts[0], retracted + counts[1]
    assert emitted > 40
    assert retracted >= 1


@every_engine
def test_current_matches_after_every_event(engine: Engine) -> None:
    emitted = retracted = 0
    for seed in range(500, 520):
        workload = inputs_of(engine).draw_workload(seed, False)
        counts = check_current_matches(engine, seed, workload, by_event(engine, workload, seed))
        emitted, retracted = emitted + counts[0], retracted + counts[1]
    assert emitted > 20
    assert retracted >= 1


SHAPES = (
    "A a -> not C -> B b",
    "A a -> not C ->> B b",
    "A a ->> B b -> not C for 3 seconds",
    "A a -> B+ b -> C c",
    "A a -> B b [v > a.v]",
    "A a, B b",
    "A a & B b -> C c",
)
CLAUSES = (
    "",
    "after match skip past last",
    "report timeouts",
    "selection chronicle",
    "selection recent",
    "selection immediate",
    "selection strict immediate",
    "selection continuous",
)


@every_engine
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", blocks(1, 4))
def test_retractions_of_dependent_matches(engine: Engine, shape: str, part: int) -> None:
    """Patterns that late events invalidate, with each clause that makes matches depend on one another.

    Each part has a quarter of the clauses, and different ones for each shape.
    """
    retracted = asked = 0
    first = (part + SHAPES.index(shape)) % 4
    for seed, clause in list(enumerate(CLAUSES))[first::4]:
        chance = random.Random(f"{shape} {clause}")
        data = [
            {"second": chance.randrange(30), "type": chance.choice("AABBC"), "k": chance.randrange(2), "v": i % 3}
            for i in range(40)
        ]
        try:
            workload = make_workload(engine, [f"match {shape}\nwithin 8 seconds\npartition by k\n{clause}"], data)
        except PatternError:
            continue
        if not supports(engine, workload):
            continue
        asked += 1
        retracted += check_current_matches(engine, seed, workload, calls_of(engine, workload, seed, wild=True))[1]
        retracted += check_current_matches(engine, seed, workload, by_event(engine, workload, seed))[1]
    assert retracted > asked or not asked
    assert asked or not inputs_of(engine).whole


@every_engine
@pytest.mark.deep
@deep_blocks("current matches")
def test_current_matches_deep(engine: Engine, block: int) -> None:
    def run(workload: PatternWorkload, seed: int) -> None:
        calls = (
            by_event(engine, workload, seed) if seed % 8 == 0 else calls_of(engine, workload, seed, wild=seed % 2 > 0)
        )
        check_current_matches(engine, seed, workload, calls, twice=seed % 8 == 1)

    try_block(block, lambda seed: inputs_of(engine).draw_workload(seed, False), run)


@every_engine
def test_early_match_is_retracted(engine: Engine) -> None:
    """A match is emitted before the watermark, and retracted with all its columns by the late event that violates it."""
    workload = make_workload(engine, [WITHOUT], seconds((1, "A"), (5, "B"), (3, "C")))
    shard = ChangelogShard(engine, workload)
    shard.call(workload.data[:2], None)
    (match,) = shard.rows
    (row,) = shard.call(workload.data[2:], None).rows.to_pylist()
    assert (row["op"], row["match_id"], row["v"]) == ("-", match[1], 1)
    assert shard.rows == []
    assert shard.finish() == []


@whole_engine
def test_retracted_match_is_emitted_again(engine: Engine) -> None:
    """The result of a skip depends on earlier matches: a late event moves matches, and a later one may restore them."""
    text = "match A a -> A b\nwithin 10 seconds\npartition by k\nafter match skip past last"
    workload = make_workload(engine, [text], seconds((3, "A"), (4, "A"), (2, "A"), (1, "A")))
    shard = ChangelogShard(engine, workload)
    ops = [[(r["op"], r["revision"]) for r in shard.call([row], None).rows.to_pylist()] for row in workload.data]
    assert ops == [[], [("+", 4)], [("-", 5), ("+", 6)], [("-", 7), ("+", 8), ("+", 8)]]
    assert len({row[1] for row in shard.emitted}) == 3
    assert shard.finish() == inputs_of(engine).expected(workload)


@every_engine
def test_watermark_does_not_emit_a_match_again(engine: Engine) -> None:
    workload = make_workload(engine, [WITHOUT], seconds((1, "A"), (2, "B"), (3, "C"), (3, "A"), (4, "B"), (4, "A")))
    shard = ChangelogShard(engine, workload)
    assert shard.call(workload.data, None).rows.num_rows == 2
    for now in (1, 2, 3, 4, 20):
        assert shard.call((), now * SECOND).rows.num_rows == 0
    assert shard.state is None


@whole_engine
def test_matches_of_a_removed_pattern_are_retracted(engine: Engine) -> None:
    """They could never be confirmed."""
    both = make_workload(engine, [PLAIN, "match A a -> C c\nwithin 10 seconds\npartition by k\nreturn a.v as w"],
                   seconds((1, "A"), (2, "B"), (2, "C")))  # fmt: skip
    shard = ChangelogShard(engine, both)
    shard.call(both.data, None)
    assert len(shard.rows) == 2
    step = ChangelogShard(engine, replace(both, patterns=both.patterns[:1]), state=shard.state).step((), Watermark())
    assert [(row["op"], row["pattern"]) for row in step.rows.to_pylist()] == [("-", "p1")]


@every_engine
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.deep), 5])
def test_any_number_of_shards(engine: Engine, count: int) -> None:
    for seed in range(count * 20, count * 20 + 15):
        workload = inputs_of(engine).draw_workload(seed, True)
        place = random.Random(seed)
        shard_of: dict[object, int] = {}
        shards = [ChangelogShard(engine, workload, options={"shards": count}) for _ in range(count)]
        for call in calls_of(engine, workload, seed):
            for number, shard in enumerate(shards):
                mine = [row for row in call.data if shard_of.setdefault(row["k"], place.randrange(count)) == number]
                if mine or (shard.timer is not None and call.now is not None and shard.timer <= call.now):
                    shard.call(mine, call.now)
        for shard in shards:
            shard.call((), FAR)
            if shard.state is not None:
                shard.end()
        found = sorted((row for shard in shards for row in shard.rows), key=repr)
        assert found == inputs_of(engine).expected(workload), f"seed {seed}"
