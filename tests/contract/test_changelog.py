"""What an engine keeps to that takes back what it told: after every call, what stands is the oracle's answer."""

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
from tests.contract.inputs import Question, inputs_of
from tests.contract.shards import Changing, takes
from tests.contract.streams import FAR, SECOND, Call, calls_of, rows_of, unsuppressed
from tests.contract.test_streams import PLAIN, same, seconds, written

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
"""For those, among them, that can be asked any pattern."""
WITHOUT = "match A a -> not C ->> B b\nwithin 10 seconds\npartition by k\nreturn a.v as v"


def by_event(engine: Engine, question: Question, seed: int) -> list[Call]:
    """The same calls, cut after every event."""
    calls = []
    for call in calls_of(engine, question, seed, wild=True):
        calls += [Call([row], call.now) for row in call.data] or [call]
    return calls


def stands(
    engine: Engine, seed: int, question: Question, calls: Sequence[Call], *, twice: bool = True
) -> tuple[int, int]:
    """What stands is the oracle's at the horizon, after every call; how much was told and taken back."""
    inputs, chance = inputs_of(engine), random.Random(seed)
    shard, names = Changing(engine, question), unsuppressed(question)
    for call in calls:
        if chance.random() < 0.3:
            shard.restart()
        again = shard.step(call.data, Watermark(shard.now, call.now, False)) if twice else None
        step = shard.call(call.data, call.now)
        if again is not None:
            same(step, again)
        if shard.horizon is not None:
            come = replace(question, data=tuple(shard.accepted))
            known = rows_of(names, inputs.expected(come, shard.horizon))
            assert rows_of(names, shard.rows) == known, f"seed {seed} at {shard.horizon}"
    come = replace(question, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(come), f"seed {seed}"
    assert not shard.counters["capped"]
    return len(shard.told), shard.counters["retracted"]


@every_engine
@pytest.mark.parametrize("block", blocks(1, 2))
def test_what_stands_after_every_call(engine: Engine, block: int) -> None:
    told = taken_back = 0
    for seed in range(block * 40, block * 40 + 40):
        question = inputs_of(engine).ask(seed, False)
        counts = stands(engine, seed, question, calls_of(engine, question, seed, beyond=1 + seed % 2, wild=True))
        told, taken_back = told + counts[0], taken_back + counts[1]
    assert told > 40
    assert taken_back >= 1


@every_engine
def test_what_stands_after_every_event(engine: Engine) -> None:
    told = taken_back = 0
    for seed in range(500, 520):
        question = inputs_of(engine).ask(seed, False)
        counts = stands(engine, seed, question, by_event(engine, question, seed))
        told, taken_back = told + counts[0], taken_back + counts[1]
    assert told > 20
    assert taken_back >= 1


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
def test_what_is_taken_back(engine: Engine, shape: str, part: int) -> None:
    """Patterns that late events break, under everything that makes matches depend on one another.

    Each part has a quarter of the clauses, and other ones with each shape.
    """
    taken_back = asked = 0
    first = (part + SHAPES.index(shape)) % 4
    for seed, clause in list(enumerate(CLAUSES))[first::4]:
        chance = random.Random(f"{shape} {clause}")
        data = [
            {"second": chance.randrange(30), "type": chance.choice("AABBC"), "k": chance.randrange(2), "v": i % 3}
            for i in range(40)
        ]
        try:
            question = written(engine, [f"match {shape}\nwithin 8 seconds\npartition by k\n{clause}"], data)
        except PatternError:
            continue
        if not takes(engine, question):
            continue
        asked += 1
        taken_back += stands(engine, seed, question, calls_of(engine, question, seed, wild=True))[1]
        taken_back += stands(engine, seed, question, by_event(engine, question, seed))[1]
    assert taken_back > asked or not asked
    assert asked or not inputs_of(engine).whole


@every_engine
@pytest.mark.deep
@deep_blocks("stands")
def test_what_stands_deep(engine: Engine, block: int) -> None:
    def run(question: Question, seed: int) -> None:
        calls = (
            by_event(engine, question, seed) if seed % 8 == 0 else calls_of(engine, question, seed, wild=seed % 2 > 0)
        )
        stands(engine, seed, question, calls, twice=seed % 8 == 1)

    try_block(block, lambda seed: inputs_of(engine).ask(seed, False), run)


@every_engine
def test_told_at_once_and_taken_back(engine: Engine) -> None:
    """A match is told before its watermark; the late event that breaks it takes it back, with all it said."""
    question = written(engine, [WITHOUT], seconds((1, "A"), (5, "B"), (3, "C")))
    shard = Changing(engine, question)
    shard.call(question.data[:2], None)
    (match,) = shard.rows
    (row,) = shard.call(question.data[2:], None).rows.to_pylist()
    assert (row["op"], row["match_id"], row["v"]) == ("-", match[1], 1)
    assert shard.rows == []
    assert shard.finish() == []


@whole_engine
def test_a_match_comes_back(engine: Engine) -> None:
    """What skips depends on what stands before it: a late event moves matches, a later one may move them back."""
    text = "match A a -> A b\nwithin 10 seconds\npartition by k\nafter match skip past last"
    question = written(engine, [text], seconds((3, "A"), (4, "A"), (2, "A"), (1, "A")))
    shard = Changing(engine, question)
    ops = [[(r["op"], r["revision"]) for r in shard.call([row], None).rows.to_pylist()] for row in question.data]
    assert ops == [[], [("+", 4)], [("-", 5), ("+", 6)], [("-", 7), ("+", 8), ("+", 8)]]
    assert len({row[1] for row in shard.told}) == 3
    assert shard.finish() == inputs_of(engine).expected(question)


@every_engine
def test_nothing_is_told_again_when_the_watermark_comes(engine: Engine) -> None:
    question = written(engine, [WITHOUT], seconds((1, "A"), (2, "B"), (3, "C"), (3, "A"), (4, "B"), (4, "A")))
    shard = Changing(engine, question)
    assert shard.call(question.data, None).rows.num_rows == 2
    for now in (1, 2, 3, 4, 20):
        assert shard.call((), now * SECOND).rows.num_rows == 0
    assert shard.state is None


@whole_engine
def test_what_a_removed_pattern_told_is_taken_back(engine: Engine) -> None:
    """Nobody would ever know whether it was right."""
    both = written(engine, [PLAIN, "match A a -> C c\nwithin 10 seconds\npartition by k\nreturn a.v as w"],
                   seconds((1, "A"), (2, "B"), (2, "C")))  # fmt: skip
    shard = Changing(engine, both)
    shard.call(both.data, None)
    assert len(shard.rows) == 2
    step = Changing(engine, replace(both, patterns=both.patterns[:1]), state=shard.state).step((), Watermark())
    assert [(row["op"], row["pattern"]) for row in step.rows.to_pylist()] == [("-", "p1")]


@every_engine
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.deep), 5])
def test_any_number_of_shards(engine: Engine, count: int) -> None:
    for seed in range(count * 20, count * 20 + 15):
        question = inputs_of(engine).ask(seed, True)
        place = random.Random(seed)
        shard_of: dict[object, int] = {}
        shards = [Changing(engine, question, options={"shards": count}) for _ in range(count)]
        for call in calls_of(engine, question, seed):
            for number, shard in enumerate(shards):
                mine = [row for row in call.data if shard_of.setdefault(row["k"], place.randrange(count)) == number]
                if mine or (shard.wake is not None and call.now is not None and shard.wake <= call.now):
                    shard.call(mine, call.now)
        for shard in shards:
            shard.call((), FAR)
            if shard.state is not None:
                shard.end()
        found = sorted((row for shard in shards for row in shard.rows), key=repr)
        assert found == inputs_of(engine).expected(question), f"seed {seed}"
