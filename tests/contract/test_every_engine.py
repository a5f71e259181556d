"""Properties of every stateful engine of the registry."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from perseid.errors import StateError
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines, report_of, stateful_engines
from perseid.runtime.watermark import Watermark
from tests.blocks import blocks
from tests.contract.cases import FAR, SECOND, EngineInputs, GoldenCase, Output, run_batch, some_rows
from tests.contract.inputs import without_numba
from tests.contract.registered_inputs import inputs_for
from tests.contract.stream_driver import StreamDriver, make_calls, same_step, start, start_shards
from tests.contract.subscriptions import cache_parsed_texts
from tests.security.adversarial_states import mutate_state

__all__ = ["cache_parsed_texts", "outputs"]

every_engine = pytest.mark.parametrize("engine", stateful_engines().values(), ids=lambda engine: engine.name)
STATES = Path(__file__).parent / "states"
IMPATIENT = [engine for engine in stateful_engines().values() if not engine.capabilities.waits_for_watermark]
DENSE = 20
"""Number of calls of a shard that is called at many times."""
MUTATIONS = 100
"""Number of malformed states of one test."""


def seeds_of(inputs: EngineInputs, block: int = 0) -> range:
    return range(block * inputs.seeds, (block + 1) * inputs.seeds)


@every_engine
def test_engine_has_inputs(engine: Engine) -> None:
    assert inputs_for(engine)


@every_engine
@pytest.mark.parametrize("block", blocks(1, 4))
def test_batch_equals_the_oracle(engine: Engine, block: int) -> None:
    inputs, found = inputs_for(engine), 0
    for seed in seeds_of(inputs, block):
        case = inputs.make_case(seed)
        found += case.check(run_batch(engine, case))
    assert found >= inputs.seeds // 4


def check_cut(engine: Engine, inputs: EngineInputs, seed: int, beyond: float = 1.0) -> tuple[int, int]:
    """The output of a stream is that of a batch over the rows that were not late; every call can be repeated."""
    case = inputs.make_case(seed)
    driver = start(engine, case)
    for call in make_calls(case, seed, beyond):
        inputs.drop_caches()
        again = driver.try_call(*call)
        inputs.drop_caches()
        same_step(driver.call(*call), again)
    assert sorted([*driver.accepted, *driver.late]) == list(range(len(case.rows)))
    output = driver.finish()
    assert output == case.read(run_batch(engine, case, sorted(driver.accepted))), f"seed {seed}"
    return len(output), len(driver.late)


@every_engine
@pytest.mark.parametrize("block", blocks(1, 4))
def test_any_cut_into_calls(engine: Engine, block: int) -> None:
    inputs = inputs_for(engine)
    found, late = zip(*(check_cut(engine, inputs, seed) for seed in seeds_of(inputs, block)), strict=True)
    assert sum(found) >= inputs.seeds // 4
    assert not sum(late) or not engine.capabilities.waits_for_watermark


@every_engine
@pytest.mark.parametrize("block", blocks(1, 4))
def test_late_rows_are_counted_and_left_out(engine: Engine, block: int) -> None:
    inputs = inputs_for(engine)
    late = [check_cut(engine, inputs, seed, beyond=4.0)[1] for seed in seeds_of(inputs, block)]
    assert sum(late) >= inputs.seeds // 8


@pytest.mark.parametrize("engine", IMPATIENT, ids=lambda engine: engine.name)
def test_engine_that_does_not_wait_for_the_watermark_drops_more_rows(engine: Engine) -> None:
    """A row far behind a long stream in order is late without a watermark; otherwise the engine must declare that it waits."""
    for seed in range(20):
        case = inputs_for(engine).make_case(seed)
        many, rounds = len(case.rows), 40
        span = int(case.rows.time.max(initial=0) - case.rows.time.min(initial=0)) + SECOND
        rows = some_rows(case, np.tile(np.argsort(case.rows.time), rounds))
        shifted = replace(rows, time=np.asarray(rows.time) + np.repeat(np.arange(rounds) * span, many))
        driver = start(engine, replace(case, rows=shifted))
        for first in range(many, len(shifted), 40):
            driver.call(range(first, min(first + 40, len(shifted))), None)
        driver.late.clear()
        driver.call(range(many), None)
        if driver.late:
            return
    raise AssertionError("no row was late")


@every_engine
def test_restart_before_every_call_does_not_change_the_output(engine: Engine) -> None:
    """Only the bytes of the state pass from one call to the next."""
    inputs = inputs_for(engine)
    for seed in seeds_of(inputs):
        case = inputs.make_case(seed)
        calls = make_calls(case, seed)
        one, other = start(engine, case), start(engine, case)
        straight = [one.call(*call) for call in calls]
        for call, before in zip(calls, straight, strict=True):
            other.restart()
            inputs.drop_caches()
            after = other.call(*call)
            assert case.read([after.rows]) == case.read([before.rows]) or engine.capabilities.retracts
            assert after.next_timer == before.next_timer, f"seed {seed}"
            assert dict(after.counters) == dict(before.counters), f"seed {seed}"
        assert one.finish() == other.finish(), f"seed {seed}"


@every_engine
def test_any_order_of_rows(engine: Engine) -> None:
    inputs = inputs_for(engine)
    for seed in seeds_of(inputs):
        case = inputs.make_case(seed)
        order = list(range(len(case.rows)))
        random.Random(seed).shuffle(order)
        assert case.read(run_batch(engine, case, order)) == case.read(run_batch(engine, case)), f"seed {seed}"


@every_engine
@pytest.mark.parametrize("count", [2, pytest.param(5, marks=pytest.mark.deep)])
def test_any_number_of_shards(engine: Engine, count: int) -> None:
    """Each shard has its own state, and may be called or not if it receives no rows."""
    inputs, divided = inputs_for(engine), 0
    for seed in seeds_of(inputs):
        case = inputs.make_case(seed)
        if case.owners is None and not engine.capabilities.broadcast:
            continue
        chance = random.Random(seed * count)
        place = [chance.randrange(count) for _ in range(max([0, *([] if case.owners is None else case.owners)]) + 1)]
        shards = start_shards(engine, case, count)
        for numbers, now in make_calls(case, seed, beyond=chance.choice([1.0, 4.0])):
            for number, shard in enumerate(shards):
                own = numbers
                if not engine.capabilities.broadcast:
                    assert case.owners is not None
                    own = [row for row in numbers if place[case.owners[row]] == number]
                expected_pairs = shard.timer is not None and now is not None and shard.timer <= now
                if own or expected_pairs or chance.random() < 0.5:
                    shard.call(own, now)
        accepted = sorted({row for shard in shards for row in shard.accepted})
        tables = [table for shard in shards if shard.finish() is not None for table in shard.tables]
        assert case.read(tables) == case.read(run_batch(engine, case, accepted)), f"seed {seed}"
        divided += 1
    assert divided >= inputs.seeds // 4


# Timers


@every_engine
@pytest.mark.parametrize("block", blocks(1, 3))
def test_timers_are_sufficient(engine: Engine, block: int) -> None:
    """Nothing is emitted before the timer, and calls at timers emit each row as early as calls at every moment."""
    inputs, emitted = inputs_for(engine), 0
    for seed in seeds_of(inputs, block):
        case = inputs.make_case(seed)
        if not case.bounded or engine.capabilities.retracts:
            continue
        rare, dense = start(engine, case), start(engine, case)
        for call in make_calls(case, seed):
            rare.call(*call)
            dense.call(*call)
        known = len(rare.output)
        at = call_at_timers(rare, case.moments)
        chosen = random.Random(seed).sample(case.moments, min(len(case.moments), DENSE))
        for moment in sorted(chosen):
            if dense.now is None or moment > dense.now:
                for row in case.read([dense.call((), moment).rows]):
                    assert at[row] <= moment, f"seed {seed}: {row} was emitted late"
        assert rare.finish() == dense.finish() == case.read(run_batch(engine, case, sorted(rare.accepted)))
        emitted += len(rare.output) - known
    assert emitted >= inputs.seeds // 8 or engine.capabilities.retracts


def call_at_timers(driver: StreamDriver, moments: Sequence[int]) -> dict[str, int]:
    """Call the shard only at its timers, a timer at the next microsecond at any time; return the time of each output row."""
    emitted: dict[str, int] = {}
    calls = 0
    while driver.timer is not None and driver.timer < FAR:
        timer = driver.timer
        if driver.now is None or timer > driver.now + 1:
            assert driver.try_call((), timer - 1).rows.num_rows == 0, "a row is emitted before the timer"
        else:
            timer = next((moment for moment in moments if moment >= timer), FAR)
        step = driver.call((), timer)
        emitted.update(dict.fromkeys(driver.case.read([step.rows]), timer))
        calls += 1
        assert calls <= 2 * len(moments) + 10, "the shard sets timers again and again"
    return emitted


# State


@every_engine
def test_state_expires_or_not_as_declared(engine: Engine) -> None:
    """A bounded stream leaves no state, which every call of ``finish`` asserts; an unbounded one must have a state."""
    inputs, left = inputs_for(engine), 0
    for seed in seeds_of(inputs):
        case = inputs.make_case(seed)
        driver = start(engine, case)
        driver.call(range(len(case.rows)), None)
        driver.call((), FAR)
        left += case.bounded and driver.state is not None
    assert (left == 0) == engine.capabilities.state_expires


@every_engine
def test_state_does_not_grow_with_the_stream(engine: Engine) -> None:
    """The same rows repeatedly: after each round the state has about the size of the first rounds."""
    cases = (case for seed in range(100) if (case := inputs_for(engine).make_case(seed)).bounded and len(case.rows))
    for case in islice(cases, 3):
        times = np.asarray(case.rows.time)
        period = int(times.max() - times.min()) // SECOND * SECOND + 60 * SECOND
        driver, rounds = start(engine, case), 12
        for number in range(rounds):
            driver.case = replace(case, rows=replace(case.rows, time=times + number * period))
            driver.call(range(len(times)), None if number == 0 else int(times.min()) + number * period - 1)
        # An engine that estimates delays has a few more bytes with each estimate, up to a limit.
        half = rounds // 2
        assert max(driver.sizes[half:]) <= 1.25 * max(driver.sizes[:half]) + 64, driver.sizes
    assert next(cases), "there are too few bounded cases"


def states_of(engine: Engine, inputs: EngineInputs, seeds: range) -> list[tuple[StreamDriver, bytes]]:
    """Yield states in the middle of a stream."""
    found = []
    for seed in seeds:
        case = inputs.make_case(seed)
        driver = start(engine, case)
        for call in make_calls(case, seed)[: 2 + seed % 4]:
            driver.call(*call)
        if driver.state is not None:
            found.append((driver, driver.state))
    assert len(found) >= 3
    return found


@every_engine
@pytest.mark.parametrize("block", blocks(1, 10))
def test_malformed_state_is_a_state_error_or_a_state(engine: Engine, block: int) -> None:
    """With a valid checksum: the state is rejected, or the stream continues with it to its end."""
    inputs, chance, rejected = inputs_for(engine), random.Random(block), 0
    states = states_of(engine, inputs, seeds_of(inputs, block))
    for number in range(MUTATIONS):
        driver, state = states[number % len(states)]
        what, changed = mutate_state(state, chance)
        inputs.drop_caches()
        try:
            if engine.report is not None:
                engine.report(changed)
            other = replace(driver, state=changed, tables=[])
            step = other.try_call(range(len(driver.case.rows)), driver.now)
            if step.state is not None:
                inputs.drop_caches()
                replace(other, state=step.state).try_call((), None, ended=True)
        except StateError:
            rejected += 1
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
    assert rejected > MUTATIONS // 4


@every_engine
def test_cut_or_foreign_state_is_a_state_error(engine: Engine) -> None:
    inputs = inputs_for(engine)
    for driver, state in states_of(engine, inputs, seeds_of(inputs))[:3]:
        flipped = bytearray(state)
        flipped[len(state) // 2] ^= 1
        for wrong in (b"", b"PRSD", state[: len(state) // 2], state[:-1], state + b"x", bytes(flipped)):
            inputs.drop_caches()
            with pytest.raises(StateError):
                replace(driver, state=wrong).try_call((), driver.now)
        inputs.drop_caches()
        with pytest.raises(StateError, match="shards"):
            replace(driver, plan=replace(driver.plan, shards=driver.plan.shards + 1)).try_call((), driver.now)


GOLDEN = [
    pytest.param(engine, name, id=f"{engine.name}-{name.replace(' ', '-')}")
    for engine in stateful_engines().values()
    for name in inputs_for(engine).golden
]


def continued(engine: Engine, golden: GoldenCase, state: bytes) -> Output:
    """Return the output from a state on, for the remaining rows."""
    driver = replace(start(engine, golden.case), state=state, now=golden.now)
    half = len(golden.after) // 2
    for rows in (golden.after[:half], golden.after[half:]):
        driver.call(rows.tolist(), golden.now)
    return driver.finish()


def rounded(output: Output) -> Output:
    """Round numbers, because processors may differ in the last bits."""
    return [re.sub(r"\d+\.\d+(e-\d+)?", lambda number: f"{float(number[0]):.9f}", row) for row in output]


@pytest.mark.parametrize(("engine", "name"), GOLDEN)
def test_state_of_an_earlier_version_continues(engine: Engine, name: str, request: pytest.FixtureRequest) -> None:
    """``PERSEID_ADD_STATES=1`` writes missing states, and never overwrites one."""
    inputs = inputs_for(engine)
    golden = inputs.golden[name]()
    path = STATES / f"{request.node.callspec.id}.bin"
    driver = start(engine, golden.case)
    driver.call(golden.before.tolist(), None)
    driver.call((), golden.now)
    assert driver.state is not None
    inputs.drop_caches()
    output = rounded(continued(engine, golden, driver.state))
    if os.environ.get("PERSEID_ADD_STATES") and not path.exists():
        path.write_bytes(driver.state)
        path.with_suffix(".json").write_text(json.dumps({"output": output}, indent=1) + "\n", encoding="utf-8")
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["output"]
    assert expected
    assert output == expected
    inputs.drop_caches()
    assert rounded(continued(engine, golden, path.read_bytes())) == expected


@every_engine
def test_engine_has_states_of_earlier_versions(engine: Engine) -> None:
    assert any(path.stem.startswith(f"{engine.name}-") for path in STATES.glob("*.bin"))


@every_engine
def test_report_describes_the_state(engine: Engine) -> None:
    inputs = inputs_for(engine)
    assert engine.report is not None
    for driver, state in states_of(engine, inputs, seeds_of(inputs)):
        report = report_of(state)
        assert report == engine.report(state)
        assert (report.shards, report.bytes) == (driver.plan.shards, len(state))
        assert report.events >= 0
        assert report.buffered >= 0


# Plans and steps


@every_engine
def test_plan_can_be_pickled(engine: Engine) -> None:
    inputs = inputs_for(engine)
    for seed in seeds_of(inputs):
        case = inputs.make_case(seed)
        carried = replace(case, plan=pickle.loads(pickle.dumps(case.plan)))
        assert case.read(run_batch(engine, carried)) == case.read(run_batch(engine, case)), f"seed {seed}"


@every_engine
def test_empty_input(engine: Engine) -> None:
    """No rows: no output, no state, and the same columns."""
    inputs = inputs_for(engine)
    for seed in seeds_of(inputs)[:6]:
        case = inputs.make_case(seed)
        (table, *_), (whole, *_) = run_batch(engine, case, []), run_batch(engine, case)
        assert table.num_rows == 0
        assert table.schema.names == whole.schema.names
        pairs = zip(table.schema.types, whole.schema.types, strict=True)
        assert all(pa.types.is_null(one) or one == other for one, other in pairs)
        driver = start(engine, case)
        driver.call((), None)
        assert driver.finish() == []


@every_engine
def test_rows_are_of_declared_kinds(engine: Engine) -> None:
    inputs, kinds, ops = inputs_for(engine), set(), set()
    for seed in seeds_of(inputs):
        case = inputs.make_case(seed)
        driver = start(engine, case)
        for call in make_calls(case, seed, wild=True):
            driver.call(*call)
        driver.finish()
        for table in [*run_batch(engine, case), *driver.tables]:
            column = "what" if "what" in table.schema.names else "kind"
            kinds |= {*table[column].to_pylist()} if column in table.schema.names else set()
            ops |= {*table["op"].to_pylist()} if "op" in table.schema.names else set()
    assert kinds <= {*engine.capabilities.row_kinds}
    assert "-" not in ops or engine.capabilities.retracts  # test_declared shows that those which declare it retract


def outputs(name: str, seeds: Sequence[int]) -> list[Output]:
    """Return the output of a stream by seed, so that another process can print it."""
    engine = engines()[name]
    found = []
    for seed in seeds:
        case = inputs_for(engine).make_case(seed)
        driver = start(engine, case)
        for call in make_calls(case, seed):
            driver.call(*call)
        found.append(driver.finish())
    return found


@pytest.mark.deep
@every_engine
def test_same_output_without_numba(engine: Engine) -> None:
    plain = without_numba("tests.contract.test_every_engine", f"outputs({engine.name!r}, range(6))")
    assert plain == json.loads(json.dumps(outputs(engine.name, range(6))))


@every_engine
def test_shards_receive_rows_as_declared(engine: Engine) -> None:
    """One shard that receives all rows has all output, unless every shard evaluates a partition of the queries."""
    inputs, partial = inputs_for(engine), 0
    for seed in seeds_of(inputs)[:8]:
        case = inputs.make_case(seed)
        plan = replace(case.plan, shards=2)
        rows = some_rows(case, range(len(case.rows)))
        first = engine.run_step(plan, rows, None, Watermark(ended=True)).rows
        partial += case.read([first]) != case.read(run_batch(engine, case))
    assert (partial > 0) == engine.capabilities.broadcast
