"""Streams out of order: output by punctuations, by an adaptive frontier, and by assembling."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from perseid.engines.disorder import adaptive
from perseid.engines.disorder.strategy import STRATEGIES, Adaptive, Aggressive, Assemble, Conservative, strategy_of
from perseid.errors import EventDataError, StateError, UnsupportedError
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines, engines_for
from perseid.runtime.state_codec import decode_state
from perseid.runtime.watermark import Watermark
from tests.contract.deep import CASES, deep_blocks, try_block
from tests.contract.inputs import PatternWorkload, inputs_of
from tests.contract.shards import OF_ALL, PunctuatedShard, moments, with_punctuations
from tests.contract.streams import SECOND, Shard, calls_of, key_of, rows_of, times_of, unsuppressed
from tests.contract.test_streams import PLAIN, make_workload, seconds

ASSEMBLE, ADAPTIVE, CONSERVATIVE = (engines()[name] for name in ("assemble", "adaptive", "conservative"))


# Punctuations


def complete_until(
    workload: PatternWorkload, punctuations: Sequence[Mapping[str, Any]], key: object, now: int | None
) -> int | None:
    """Return the time up to which a key is complete, computed from all punctuations."""
    types = workload.plan.event_types
    names: Sequence[str | None] = [None] if types is None else types
    least = None
    for name in names:
        said = [
            row["ts"]
            for row in punctuations
            if (row["any_type"] or row["type"] == name)
            and (row["promise"] == OF_ALL or key_of(workload, moments([row])[0]) == key)
        ]
        upto = max(said, default=None)
        if upto is None:
            return now
        least = upto if least is None else min(least, upto)
    return least if now is None or (least is not None and least > now) else now


def check_punctuations(workload: PatternWorkload, seed: int) -> tuple[int, int]:
    """Compare each key with the oracle up to its punctuations; return the numbers of matches and of early matches."""
    chance = random.Random(seed)
    calls = with_punctuations(CONSERVATIVE, workload, calls_of(CONSERVATIVE, workload, seed, wild=seed % 4 > 2), chance)
    shard, names = PunctuatedShard(CONSERVATIVE, workload), unsuppressed(workload)
    said: list[Mapping[str, Any]] = []
    early = 0
    for call in calls:
        if chance.random() < 0.3:
            shard.restart()
        shard.call(moments(call.data), call.now)
        said += [row for row in call.data if "promise" in row]
        expected = []
        for key in {key_of(workload, row) for row in shard.accepted}:
            mine = tuple(row for row in shard.accepted if key_of(workload, row) == key)
            upto = complete_until(workload, said, key, call.now)
            if upto is not None:
                expected += inputs_of(CONSERVATIVE).expected(replace(workload, data=mine), upto)
        emitted = rows_of(names, shard.rows)
        assert emitted == rows_of(names, sorted(expected, key=repr)), f"seed {seed} at {call.now}"
        whole = replace(workload, data=tuple(shard.accepted))
        known = [] if call.now is None else rows_of(names, inputs_of(CONSERVATIVE).expected(whole, call.now))
        early += len(emitted) - len(known)
    assert not shard.late
    assert shard.finish() == inputs_of(CONSERVATIVE).expected(workload), f"seed {seed}"
    return len(shard.emitted), early


def sum_counts(
    engine: Engine, run: Callable[[PatternWorkload, int], tuple[int, ...]], seeds: Iterable[int]
) -> list[int]:
    """Return the summed counts of the workloads of these seeds."""
    counts = (run(inputs_of(engine).draw_workload(seed, False), seed) for seed in seeds)
    return [sum(each) for each in zip(*counts, strict=True)]


def try_deep_block(engine: Engine, block: int, run: Callable[[PatternWorkload, int], object]) -> None:
    try_block(block, lambda seed: inputs_of(engine).draw_workload(seed, False), run)


def test_every_key_is_matched_up_to_its_punctuations() -> None:
    emitted, early = sum_counts(CONSERVATIVE, check_punctuations, range(45))
    assert emitted > 25
    assert early > 10


@pytest.mark.deep
@deep_blocks("punctuations")
def test_punctuations_deep(block: int) -> None:
    try_deep_block(CONSERVATIVE, block, check_punctuations)


def test_row_that_violates_a_punctuation_is_late() -> None:
    rows = seconds((1, "A"), (5, "B"), (3, "B"))
    workload = make_workload(CONSERVATIVE, [PLAIN], rows)
    shard = PunctuatedShard(CONSERVATIVE, workload)
    punctuation = {**workload.data[0], "promise": OF_ALL, "any_type": True, "ts": 4 * SECOND}
    shard.call([*workload.data[:1], *moments([punctuation])], None)
    shard.call(workload.data[1:], None)
    assert [row["number"] for row in shard.late] == [2]
    shard.call(moments([{**punctuation, "ts": 5 * SECOND}]), None)
    assert len(shard.emitted) == 1


# Adaptive frontier


@pytest.mark.parametrize("loss", [0.0, 0.02, 0.2])
def test_adaptive_matches_of_accepted_rows_are_exact(loss: float) -> None:
    """Without the late rows, the matches are the oracle's, also after restarts."""
    late = 0
    for seed in range(25):
        workload = inputs_of(ADAPTIVE).draw_workload(seed, False)
        shard = Shard(ADAPTIVE, workload, options={"strategy": Adaptive(loss)})
        for call in calls_of(ADAPTIVE, workload, seed, beyond=3):
            shard.call(call.data, call.now)
        received = replace(workload, data=tuple(shard.accepted))
        late += len(shard.late)
        assert len(shard.accepted) + len(shard.late) == len(workload.data)
        assert shard.finish() == inputs_of(ADAPTIVE).expected(received), f"seed {seed}"
    assert late > 5


def check_frontier(workload: PatternWorkload, seed: int) -> tuple[int, int, int]:
    """A row is late if the frontier has passed it, and a match is emitted when the new frontier makes it final.

    Returns the numbers of emitted matches, of those before the watermark, and of late rows.
    """
    inputs, chance = inputs_of(ADAPTIVE), random.Random(seed)
    shard = Shard(ADAPTIVE, workload, options={"strategy": Adaptive(chance.choice((0.0, 0.05, 0.2, 0.4)))})
    names, frontier, early = unsuppressed(workload), None, 0
    for call in calls_of(ADAPTIVE, workload, seed, beyond=1 + seed % 2, wild=seed % 3 > 0):
        if chance.random() < 0.3:
            shard.restart()
        judged = max((time for time in (frontier, call.now) if time is not None), default=None)
        times = times_of(ADAPTIVE, workload, call.data)
        gone = [row for row, time in zip(call.data, times, strict=True) if judged is not None and time <= judged]
        known = len(shard.late)
        shard.call(call.data, call.now)
        assert shard.late[known:] == gone, f"seed {seed} at {call.now}"
        frontier = call.now if shard.state is None else decode_state(shard.state).facts["horizon"]
        if frontier is None:
            assert shard.rows == [], f"seed {seed}"
            continue
        received = replace(workload, data=tuple(shard.accepted))
        emitted = rows_of(names, shard.rows)
        assert emitted == rows_of(names, inputs.expected(received, frontier)), f"seed {seed} at {frontier}"
        early += len(emitted) - (0 if call.now is None else len(rows_of(names, inputs.expected(received, call.now))))
    received = replace(workload, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(received), f"seed {seed}"
    return len(shard.emitted), early, len(shard.late)


@pytest.fixture
def estimate_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the number of events before the first estimate, so that short streams have a frontier."""
    monkeypatch.setattr(adaptive, "MIN_EVENTS", 4)


@pytest.mark.usefixtures("estimate_early")
def test_matches_are_exact_up_to_the_frontier() -> None:
    emitted, early, late = sum_counts(ADAPTIVE, check_frontier, range(40))
    assert emitted > 30
    assert early > 10
    assert late > 10


@pytest.mark.deep
@pytest.mark.usefixtures("estimate_early")
@deep_blocks("frontier")
def test_frontier_deep(block: int) -> None:
    try_deep_block(ADAPTIVE, block, check_frontier)


@pytest.mark.parametrize("loss", [0.001, 0.05, 0.2])
def test_adaptive_loss_is_within_the_limit(loss: float) -> None:
    """The estimated loss is close to the measured loss, and matches are much earlier than the watermark."""
    chance = random.Random(loss)
    rows = []
    for i in range(6_000):
        kind = "A" if i % 2 == 0 else "B"
        delay = chance.expovariate(1 / 3.0)
        rows.append((i * 0.1 + delay, {"second": 0, "type": kind, "k": i // 2 % 5, "v": 1, "at": i * 0.1}))
    rows.sort(key=lambda pair: pair[0])
    workload = make_workload(ADAPTIVE, [PLAIN], [row for _, row in rows])
    data = [{**row, "ts": int(said["at"] * SECOND)} for row, (_, said) in zip(workload.data, rows, strict=True)]
    shard = Shard(ADAPTIVE, workload, options={"strategy": Adaptive(loss)})
    for at in range(0, len(data), 50):
        shard.call(moments(data[at : at + 50]), None)
    lost = len(shard.late) / len(data)
    assert lost <= loss
    expected = shard.counters["late_expected"] / len(data)
    assert abs(expected - lost) <= 0.3 * loss + 0.002
    assert len(shard.emitted) > 1_000  # and there was no watermark at all


# Assembling


def check_assembling(workload: PatternWorkload, seed: int) -> tuple[int, int]:
    """Every emitted match is final, all matches that the watermark makes final are emitted, and matches without a
    negation immediately.

    Returns the numbers of emitted matches and of those before the watermark.
    """
    inputs, chance = inputs_of(ASSEMBLE), random.Random(seed)
    shard = Shard(ASSEMBLE, workload)
    negating = {p.name for p in workload.patterns if any(step.negated for step in p.steps)}
    early = 0
    for call in calls_of(ASSEMBLE, workload, seed, beyond=1 + seed % 2, wild=seed % 3 > 0):
        if chance.random() < 0.3:
            shard.restart()
        shard.call(call.data, call.now)
        received = replace(workload, data=tuple(shard.accepted))
        final = [] if call.now is None else inputs.expected(received, call.now)
        assert set(final) <= set(shard.rows), f"seed {seed} at {call.now}"
        at_once = [row for row in inputs.expected(received) if row[0] not in negating]
        assert [row for row in shard.rows if row[0] not in negating] == at_once, f"seed {seed} at {call.now}"
        early += len(shard.rows) - len(final)
    received = replace(workload, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(received), f"seed {seed}"
    return len(shard.emitted), early


def test_assembling_in_any_order() -> None:
    emitted, early = sum_counts(ASSEMBLE, check_assembling, range(60))
    assert emitted > 50
    assert early > 15


def test_assembling_one_event_per_call() -> None:
    for seed in range(1_000, 1_040):
        workload = inputs_of(ASSEMBLE).draw_workload(seed, False)
        shard = Shard(ASSEMBLE, workload)
        for call in calls_of(ASSEMBLE, workload, seed, wild=True):
            for row in call.data:
                shard.call([row], call.now)
        assert shard.finish() == inputs_of(ASSEMBLE).expected(workload), f"seed {seed}"


@pytest.mark.deep
@deep_blocks("assembling")
def test_assembling_deep(block: int) -> None:
    try_deep_block(ASSEMBLE, block, check_assembling)


def test_deep_runs_have_100000_cases() -> None:
    retracting = sum(engine.capabilities.retracts for engine in engines_for("patterns").values())
    assert sum(CASES.values()) + (retracting - 1) * CASES["current matches"] >= 100_000


def test_match_is_emitted_with_the_last_of_its_events() -> None:
    """In any order of arrival; only a negation waits for the watermark."""
    text = "match A a ->> B b ->> C c\nwithin 10 seconds\npartition by k"
    workload = make_workload(ASSEMBLE, [text], seconds((3, "C"), (1, "A"), (2, "B"), (2, "B"), (0, "A")))
    shard = Shard(ASSEMBLE, workload)
    emitted = []
    for row in workload.data:
        shard.call([row], None)
        emitted.append(len(shard.emitted))
    assert emitted == [0, 0, 1, 2, 4]
    assert shard.finish() == inputs_of(ASSEMBLE).expected(workload)


def test_negation_waits_for_the_watermark() -> None:
    text = "match A a -> not C ->> B b\nwithin 10 seconds\npartition by k"
    workload = make_workload(ASSEMBLE, [text], seconds((5, "B"), (1, "A"), (4, "A"), (2, "C")))
    shard = Shard(ASSEMBLE, workload)
    shard.call(workload.data[:3], None)
    assert shard.emitted == []
    shard.call(workload.data[3:], 1 * SECOND)
    shard.call((), 4 * SECOND)
    assert shard.emitted == []
    assert shard.timer == 5 * SECOND
    shard.call((), 5 * SECOND)
    assert [row[3] for row in shard.emitted] == [4 * SECOND]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("match A a -> B b\nwithin 10 seconds", "take the next event"),
        ("match A+ a ->> B b\nwithin 10 seconds", "a repetition"),
        ("match A a ->> B b\nwithin 10 seconds\nsuppress 3 seconds", "it suppresses matches"),
        ("match A a ->> B b\nwithin 5 events", "counts events"),
        ("match A a ->> B b\nwithin 10 seconds\nreport timeouts", "it reports timeouts"),
        ("match A a ->> B b\nwithin 10 seconds\nafter match skip past last", "depend on earlier matches"),
        ("match not C for 2 seconds -> A a ->> B b\nwithin 10 seconds", "events before its first event"),
        ("match A a -> not (C c -> D d) ->> B b\nwithin 10 seconds", "more than one event"),
        ("match A a ->> B b\nwithin forever", "its duration is unbounded"),
    ],
)
def test_unsupported_patterns_of_assemble(text: str, why: str) -> None:
    workload = make_workload(ASSEMBLE, [text], seconds((1, "A")))
    with pytest.raises(UnsupportedError, match=why):
        ASSEMBLE.plan(workload.plan, inputs_of(ASSEMBLE).types(workload))


# Declarations and states


def test_strategies_by_name() -> None:
    assert strategy_of("aggressive") == Aggressive()
    assert strategy_of(Adaptive(0.1)).loss == 0.1  # type: ignore[attr-defined]
    with pytest.raises(EventDataError, match="expected an instance, got a class"):
        strategy_of(Assemble)
    with pytest.raises(EventDataError, match="Did you mean 'assemble'"):
        strategy_of("assembel")
    with pytest.raises(EventDataError, match="from 0 to below 1"):
        Adaptive(loss=2)
    with pytest.raises(EventDataError, match="expected both or neither, because a key is complete"):
        Conservative(source="reader")
    assert Assemble().name == "assemble"


@pytest.mark.parametrize("name", sorted({*engines_for("patterns")} & {*STRATEGIES}))
def test_foreign_and_malformed_states_are_rejected(name: str) -> None:
    engine = engines()[name]
    workload = make_workload(
        engine, ["match A a ->> B b\nwithin 10 seconds\npartition by k"], seconds((1, "A"), (2, "B"))
    )
    plan = engine.plan(workload.plan, inputs_of(engine).types(workload))
    rows = inputs_of(engine).rows(workload, workload.data)
    state = engine.step(plan, rows, None, Watermark()).state
    assert state is not None
    assert engine.report is not None
    assert engine.report(state).events == 2
    for other in engines_for("patterns").values():
        if other is not engine:
            theirs = other.plan(workload.plan, inputs_of(other).types(workload))
            with pytest.raises(StateError):
                other.step(theirs, rows, state, Watermark())
    with pytest.raises(StateError, match="shards"):
        engine.step(replace(plan, shards=5), rows, state, Watermark())
    chance = random.Random(name)
    for _ in range(60):
        broken = bytearray(state)
        at = chance.randrange(len(broken))
        broken[at] ^= 1 << chance.randrange(8)
        with pytest.raises(StateError):
            engine.step(plan, rows, bytes(broken), Watermark())
    with pytest.raises(StateError):
        engine.step(plan, rows, state[: len(state) // 2], Watermark())
