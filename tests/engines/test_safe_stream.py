"""Safe patterns within a window, in batches: results equal those of finished data to the bit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.uncertain.engine import make_plan, match_all, report, step
from perseid.engines.uncertain.output_policies import OutputPolicy
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.engines.uncertain.streams import CHANCE, GIVEN, Inference, Known, Sampling, Stream, Streams
from perseid.errors import PerseidError, StateError, UnsupportedError
from perseid.lang.parser import parse_pattern
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.state_codec import decode_state, encode_state
from perseid.runtime.watermark import Watermark
from perseid.semantics.resolve import resolve
from tests.contract.malformed_states import spoiled
from tests.engines.test_safe import SafePlanCase
from tests.engines.test_uncertain_stream import NOTHING, shown, streamed
from tests.generators.random_patterns import SECOND

OUTPUT_POLICIES = (
    OutputPolicy(),
    OutputPolicy(),
    OutputPolicy("alerts", 0.5, 0.3),
    OutputPolicy("spans", 0.2, 0.2),
    OutputPolicy("expected"),
)
INFERENCES = (Inference("filter"), Inference("likeliest"), Inference("lag", 1), Inference("lag", 2))


def safe_plan_case(seed: int) -> tuple[UncertainPlan, EventBatch] | None:
    """Returns a case with a safe plan over windows, or None if the seed has none.

    The rows are repeated later, so that windows open and close.
    """
    case, chance = SafePlanCase(seed, windows=True), random.Random(seed)
    if not case.rows:
        return None
    more: dict[str, Any] = {"inference": chance.choice(INFERENCES), "patience": chance.choice((0, 0, 2))}
    parts = (replace(part, **more) if part.known is Known.READ else part for part in case.streams.parts)
    streams = replace(case.streams, parts=tuple(parts))
    for off in (case.steps + chance.randint(0, 2), 12):
        case.rows += [{**row, "time": row["time"] + off * SECOND} for row in case.rows]
    rows = case.table()
    types = {name: column.type for name, column in rows.columns.items()}
    plan = make_plan([case.pattern], streams, types, output_policy=chance.choice(OUTPUT_POLICIES))
    if plan.queries[0].window is None:
        return None
    try:
        plan.refuse_on_streams()
    except UnsupportedError:
        assert plan.output_policy.counts  # counts are computed only for streams with one hidden value
        return None
    return plan, rows


def check_cuts(first: int, many: int) -> Counter[str]:
    met: Counter[str] = Counter()
    found = (one for seed in count(first) if (one := safe_plan_case(seed)) is not None)
    for plan, rows in islice(found, many):
        whole = match_all(plan, rows).rows
        cut = list(streamed(plan, rows, random.Random(first)))
        assert shown([plan.schema.empty_table(), *cut]) == shown([whole]), plan
        met["with matches"] += whole.num_rows > 0
        met.update({part.known.value for part in plan.streams.parts} if whole.num_rows else ())
    return met


def test_results_do_not_depend_on_batches_or_restarts() -> None:
    met = check_cuts(70_000, 40)
    assert met["with matches"] > 15
    assert min(met[known.value] for known in Known) > 3, met


def test_two_shards_equal_one_shard() -> None:
    """The groups of two shards, evaluated separately, have the same bits as those of one shard."""
    plan, rows = steady(12, more="partition by g")
    assert plan.queries[0].window == 5
    whole = match_all(plan, rows).rows
    shares = np.asarray(rows.columns["g"])
    apart = [take_events(rows, np.flatnonzero(shares == g)) for g in range(2)]
    tables = [table for shard in apart for table in streamed(plan, shard, random.Random(1))]
    assert shown(tables) == shown([whole])
    assert len({row["g"] for row in whole.to_pylist()}) == 2


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(8))
def test_results_do_not_depend_on_batches_or_restarts_deep(block: int) -> None:
    assert check_cuts(5_000_000 + 100_000 * block, 250)["with matches"] > 80


MATCH = "A(k as x) a [v = 1] -> B(k as x) b [v = 1] -> C c [v = 1]"


def steady(
    seconds: int, match: str = MATCH, within: str = "5 seconds", more: str = "", **said: Any
) -> tuple[UncertainPlan, EventBatch]:
    """Returns tables of A and distributions of B and C, of three keys at every second; g is 1 for the last key, else
    0."""
    parts = (
        Stream("A", Known.LINKED, ("k",), ("v",)),
        Stream("B", Known.INDEPENDENT, ("k",), ("v",)),
        Stream("C", Known.INDEPENDENT, ("k",), ("v",)),
    )
    chance = random.Random(3)
    given = [
        {"time": second * SECOND, "type": type_, "k": k, "v": 1, "was": was, "p": chance.random() / 2}
        for second in range(seconds)
        for k in range(3)
        for type_, before in (("A", (None, 1)), ("B", (None,)), ("C", (None,)))
        for was in before
    ]
    columns = {name: pa.array([row[name] for row in given], pa.int64()) for name in "kv"}
    columns["g"] = pa.array([row["k"] // 2 for row in given], pa.int64())
    columns[GIVEN + "v"] = pa.array([row["was"] for row in given], pa.int64())
    columns[CHANCE] = pa.array([row["p"] for row in given], pa.float64())
    kinds = np.array(["ABC".index(str(row["type"])) for row in given], np.int32)
    time = np.array([row["time"] for row in given], np.int64)
    rows = EventBatch(time, kinds, list("ABC"), columns, {}, np.arange(len(given)))
    text = f"pattern p match {match} within {within} {more} selection successor"
    types = {name: column.type for name, column in columns.items()}
    return make_plan([resolve(parse_pattern(text))], Streams(parts, SECOND), types, **said), rows


def calls(plan: UncertainPlan, rows: EventBatch, every: int, last: int) -> Iterator[Any]:
    """Yields the results of batches of so many seconds each."""
    state = None
    for second in range(0, last, every):
        batch = np.flatnonzero((rows.time >= second * SECOND) & (rows.time < (second + every) * SECOND))
        done = step(
            plan, take_events(rows, batch), state, Watermark(None, second * SECOND - 1 if second else None, False)
        )
        state = done.state
        yield done


def test_state_does_not_grow_with_the_stream() -> None:
    plan, rows = steady(60)
    done = list(calls(plan, rows, 3, 60))
    sizes = [one.counters["state_bytes"] for one in done[4:]]
    assert max(sizes) - min(sizes) < 200, sizes
    # The three seconds of the batch and the five that a window covers, with four rows of each key at each.
    assert {one.counters["retained_events"] for one in done[4:]} == {(3 + 5) * 3 * 4}
    rows_ = [row for one in done for row in one.rows.to_pylist()]
    assert len(rows_) == 57 - 2  # every step that has two before it


def test_state_is_released_after_the_last_window() -> None:
    plan, rows = steady(6)
    done = step(plan, rows, None, Watermark(None, None, False))
    times = []
    while done.state is not None:
        assert done.next_timer is not None
        times.append(done.next_timer)
        done = step(plan, take_events(rows, NOTHING), done.state, Watermark(None, done.next_timer, False))
    # Rows wait for their second; the last window closes after second 10, and no later timer is requested.
    assert times[-1] == 11 * SECOND - 1
    assert len(times) <= 6 + 1


def test_a_span_ends_without_a_row() -> None:
    plan, rows = steady(6, output_policy=OutputPolicy("spans", 0.01, 0.01))
    state = step(plan, rows, None, Watermark(None, None, False)).state
    done = step(plan, take_events(rows, NOTHING), state, Watermark(None, 6 * SECOND - 1, False))
    assert not done.rows.num_rows
    assert done.next_timer == 7 * SECOND - 1
    done = step(plan, take_events(rows, NOTHING), done.state, Watermark(None, done.next_timer, False))
    assert [(row["start"].second, row["end"].second) for row in done.rows.to_pylist()] == [(2, 5)]


def test_without_a_window_it_is_refused_on_streams() -> None:
    plan, _ = steady(1, within="forever")
    with pytest.raises(UnsupportedError, match=r"is Safe .* not supported on a stream without a window") as error:
        plan.refuse_on_streams()
    assert "within 1 minute" in str(error.value.hint)


def state_in_mid_stream() -> tuple[UncertainPlan, EventBatch, bytes]:
    plan, rows = steady(8, output_policy=OutputPolicy("alerts", 0.01, 0.01))
    state = step(plan, rows, None, Watermark(None, None, False)).state
    state = step(plan, take_events(rows, NOTHING), state, Watermark(None, 6 * SECOND - 1, False)).state
    assert state is not None
    return plan, rows, state


def test_broken_states_are_refused() -> None:
    plan, rows, state = state_in_mid_stream()
    seen = report(state)
    assert (seen.buffered, seen.events) == (2 * 12, 2 * 12 + 5 * 12)
    sealed = decode_state(state)
    (written,) = sealed.facts["patterns"]
    assert (written["begin"], written["starts"]) == (0, ["A"])
    chance = random.Random(7)
    refused = 0
    for _ in range(300):
        facts = spoiled(sealed.facts, chance)
        try:
            step(
                plan, take_events(rows, NOTHING), encode_state(facts, sealed.tables), Watermark(None, 9 * SECOND, False)
            )
        except StateError:
            refused += 1
    assert refused > 150
    for number, table in enumerate(sealed.tables):
        for name in table.schema.names:
            if name.startswith("column "):
                continue
            others = [*sealed.tables]
            others[number] = table.drop_columns([name])
            with pytest.raises(StateError):
                step(
                    plan,
                    take_events(rows, NOTHING),
                    encode_state(sealed.facts, tuple(others)),
                    Watermark(None, 9 * SECOND, False),
                )


def test_checkpoint_records_whether_it_was_sampled() -> None:
    plan, rows, state = state_in_mid_stream()
    none = take_events(rows, NOTHING)
    drawn = replace(plan, streams=replace(plan.streams, sampling=Sampling(always=True)))
    with pytest.raises(StateError, match="was evaluated exactly"):
        step(drawn, none, state, Watermark(None, 9 * SECOND, False))
    waiting = step(drawn, rows, None, Watermark(None, None, False)).state
    state_of_worlds = step(drawn, none, waiting, Watermark(None, 6 * SECOND - 1, False)).state
    with pytest.raises(StateError, match="was sampled"):
        step(plan, none, state_of_worlds, Watermark(None, 9 * SECOND, False))


def test_too_large_a_state_is_an_error() -> None:
    plan, rows = steady(20)
    with pytest.raises(PerseidError, match="bytes in one shard"):
        step(replace(plan, max_state=1_000), rows, None, Watermark(None, None, False))
