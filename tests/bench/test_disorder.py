"""Paper 4's experiment: every method finds the matches of a batch query, and the printed algorithm does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.disorder import printed
from bench.disorder.benchmark import LOSSY, STRATEGIES
from bench.disorder.calls import run_calls
from bench.disorder.claims import CLAIMS, check_claims
from bench.disorder.measurements import MethodMeasurement, all_rows, pivot, quality_cell
from bench.disorder.methods import METHODS, STACKS, PreparedStream, run_method
from bench.disorder.workload import (
    COLUMNS,
    DELAY,
    PATTERN,
    STEPS,
    UNIT,
    Quality,
    RunOutput,
    Stream,
    events_of,
    expected_matches,
    make_stream,
    name_of,
)
from perseid.runtime.registry import engines

COUNT = 3_000


@pytest.fixture(scope="module", params=[0, 30, 50])
def stream(request: pytest.FixtureRequest) -> Stream:
    return make_stream(COUNT, request.param, rate=1.5)


def test_stream_has_the_declared_disorder_and_correct_punctuations(stream: Stream) -> None:
    rows = stream.rows
    assert rows.control is not None
    events = rows.control == 0
    time = rows.time[events]
    assert time.min() >= 0
    late = np.maximum.accumulate(time) - time
    assert late.max() <= DELAY
    assert stream.disorder == pytest.approx((late > 0).mean())
    assert abs(stream.disorder - stream.percent / 100) < 0.05
    punctuations = np.flatnonzero(~events)
    assert len(punctuations) == COUNT // 5
    for at in punctuations[:: len(punctuations) // 50].tolist():
        later = rows.time[at + 1 :][events[at + 1 :] & (rows.type_codes[at + 1 :] == rows.type_codes[at])]
        assert (later > rows.time[at]).all()


def run_one(method: str, stream: Stream, bits: int = 0) -> RunOutput:
    plan = engines()["assemble"].plan(PATTERN.plan(), COLUMNS)
    events = stream if method.startswith("conservative") else stream.without_punctuations()
    return run_method(method, PreparedStream.make(plan, events.rows, DELAY, UNIT), bits)


def brute_force(stream: Stream) -> set[tuple[int, ...]]:
    """Find matches by nested loops over the events of each tag, without code of Perseid or of the methods."""
    rows = stream.without_punctuations().rows
    by_key: dict[int, list[tuple[int, int, int, str]]] = {}
    keys = rows.columns["key"].to_pylist()
    for i, (when, key, event) in enumerate(zip(rows.time.tolist(), keys, rows.identity.tolist(), strict=True)):
        by_key.setdefault(key, []).append((when, event, i, rows.type_names[rows.type_codes[i]]))
    found = set()
    for events in by_key.values():
        events.sort()
        partial: list[tuple[int, ...]] = [()]
        for name in STEPS.upper():
            partial = [
                (*taken, at)
                for taken in partial
                for at in range(taken[-1] + 1 if taken else 0, len(events))
                if events[at][3] == name and (not taken or events[at][0] - events[taken[0]][0] < 40 * UNIT)
            ]
        for taken in partial:
            if not any(events[at][3] == "C" for at in range(taken[1] + 1, taken[2])):
                found.add(tuple(events[at][1] for at in taken))
    return found


@pytest.mark.parametrize("method", METHODS)
def test_final_matches_of_a_method_are_those_of_a_batch_query(stream: Stream, method: str) -> None:
    course = run_one(method, stream)
    right = name_of(events_of(expected_matches(stream)))
    assert len(right) > 1_000
    emitted = name_of(course.events[~course.back])
    assert len(set(emitted.tolist())) == len(emitted), "each match is emitted once"
    assert course.final_matches().tolist() == sorted(right.tolist())
    assert (stream.latency(course.events, course.moment) >= 0).all()
    if method.startswith("aggressive"):
        assert (stream.latency(course.events, course.moment)[~course.back] == 0).all()
    else:
        assert not course.back.any()


@pytest.mark.parametrize("seed", range(12))
def test_stack_methods_find_the_matches_of_a_brute_force_search(seed: int) -> None:
    chance = np.random.default_rng(seed)
    percent, tags = int(chance.integers(0, 101)), int(chance.integers(1, 4))
    stream = make_stream(int(chance.integers(150, 300)), percent, seed, rate=1.0, tags=tags)
    expected = brute_force(stream)
    for method in STACKS:
        course = run_one(method, stream)
        emitted = {tuple(row) for row in course.events[~course.back].tolist()}
        retracted = {tuple(row) for row in course.events[course.back].tolist()}
        assert emitted - retracted == expected, method
        assert retracted <= emitted


def test_brute_force_agrees_with_the_engine() -> None:
    stream = make_stream(400, 30, rate=1.5, tags=2)
    right = brute_force(stream)
    assert len(right) > 100
    assert {tuple(row) for row in events_of(expected_matches(stream)).tolist()} == right


def test_stacks_and_shared_search_retract_the_same_matches() -> None:
    stream = make_stream(COUNT, 50, rate=1.5)
    shared, stacks = run_one("aggressive", stream), run_one("aggressive, stacks", stream)
    assert shared.back.any()
    pairs = [
        sorted(zip(name_of(one.events[one.back]).tolist(), one.moment[one.back].tolist(), strict=True))
        for one in (shared, stacks)
    ]
    assert pairs[0] == pairs[1]


def test_stacks_and_shared_search_emit_at_the_same_arrival(stream: Stream) -> None:
    for method in STACKS:
        timelines = []
        for name in (method, method.split(",")[0]):
            course = run_one(name, stream)
            emitted = ~course.back
            timelines.append(
                sorted(zip(name_of(course.events[emitted]).tolist(), course.moment[emitted].tolist(), strict=True))
            )
        assert timelines[0] == timelines[1], method


@pytest.mark.parametrize("bits", [1, 3, 10])
def test_hash_table_of_any_width_finds_the_same_matches(bits: int) -> None:
    stream = make_stream(COUNT, 20, rate=1.5, tags=40)
    right = name_of(events_of(expected_matches(stream)))
    dense, hashed = run_one("assemble", stream), run_one("assemble", stream, bits)
    assert hashed.final_matches().tolist() == sorted(right.tolist())
    assert hashed.peak == dense.peak + 8 * (1 + 2**bits + 3 * 40)


@pytest.mark.parametrize("name", STRATEGIES)
def test_final_matches_of_an_engine_are_those_of_a_batch_query(name: str) -> None:
    stream = make_stream(1_000, 30)
    engine = engines()[STRATEGIES[name]]
    course = run_calls(engine, engine.plan(PATTERN.plan(), COLUMNS), stream, 200)
    right = np.sort(name_of(events_of(expected_matches(stream))))
    made = Quality.of(course, right)
    assert made.precision == 1
    assert (made.recall == 1 and not course.late) or name in LOSSY
    assert course.peak > 0
    assert (course.milliseconds > 0).all()


def test_quality_counts_a_match_emitted_again_after_a_retraction() -> None:
    events = np.array([[1, 2], [1, 2], [1, 2], [3, 4], [3, 4], [5, 6]])
    back = np.array([False, True, False, False, True, False])
    course = RunOutput(1.0, 1, events, np.arange(6), back)
    made = Quality.of(course, np.sort(name_of(np.array([[1, 2], [7, 8]]))))
    assert (made.recall, made.precision) == (0.5, 0.5)
    assert (made.emitted_recall, made.emitted_precision) == (0.5, 0.5)
    assert made.retracted == 0.5


@pytest.mark.parametrize("fixed", [False, True])
def test_printed_algorithm_misses_matches(fixed: bool) -> None:
    stream = make_stream(COUNT, 0)
    found, expected = name_of(printed.run_printed(stream, fixed=fixed)), name_of(events_of(expected_matches(stream)))
    assert len(found) > 0
    assert np.isin(expected, found).mean() < 0.1


def measurements(**seconds: float) -> list[MethodMeasurement]:
    """A measurement of each method at two percentages; all alike but for the times given by method."""
    alike = Quality(1.0, 1.0, 0.0, 1.0, 1.0)
    return [
        MethodMeasurement(method, at, 10, seconds.get(method.replace("-", "_"), 0.1), 5, 2.0, 0.1, alike)
        for method in METHODS
        for at in (0, 50)
    ]


def test_claims_are_checked_against_the_measurements() -> None:
    fastest = {claim.text: verdicts for claim, verdicts in check_claims(measurements(assemble=0.05))}
    assert len(fastest) == len(CLAIMS)
    assert fastest["INFA-HTS has the least execution time"] == ["holds", "holds"]
    assert fastest["INFA-HTS needs the least memory"] == ["does not hold (tied at 2 of 2)"] * 2
    slow = {claim.text: verdicts for claim, verdicts in check_claims(measurements(K_slack=0.02))}
    assert slow["K-slack has the largest execution time"] == ["does not hold (tied at 2 of 2)", "does not hold"]
    assert {verdict for _, verdicts in check_claims([]) for verdict in verdicts} == {"not measured"}


def test_tables_have_all_measurements() -> None:
    some = measurements()
    assert len(all_rows(some).splitlines()) == 2 + len(some)
    lines = pivot(some, quality_cell).splitlines()
    assert lines[0] == "| delayed | " + " | ".join(METHODS) + " |"
    assert [line.count("100 / 100") for line in lines[2:]] == [len(METHODS)] * 2


def test_charts_show_all_methods(tmp_path: Path) -> None:
    from dataclasses import asdict

    from bench.disorder.charts import MEASURES, draw

    values = [asdict(one) | asdict(one.quality) | {"rate": one.rate} for one in measurements()]
    paths = list(draw(values, tmp_path))
    assert [path.stem for path in paths] == list(MEASURES)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<svg")
        assert all(method in text for method in METHODS)
