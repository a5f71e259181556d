"""Paper 4's experiment: every method finds what a batch finds, and the printed algorithm does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.disorder import printed
from bench.disorder.arriving import (
    COLUMNS,
    DELAY,
    PATTERN,
    UNIT,
    Stream,
    events_of,
    make_stream,
    name_of,
    right_answer,
)
from bench.disorder.calls import run_calls
from bench.disorder.contest import ENGINES, Measured
from bench.disorder.methods import METHODS, follow
from perseid.engines.registry import engines

COUNT = 3_000


@pytest.fixture(scope="module", params=[0, 30, 50])
def stream(request: pytest.FixtureRequest) -> Stream:
    return make_stream(COUNT, request.param, rate=1.5)


def test_the_stream_is_as_it_is_said_to_be(stream: Stream) -> None:
    rows = stream.rows
    assert rows.control is not None
    events = rows.control == 0
    time = rows.time[events]
    assert time.min() >= 0
    late = np.maximum.accumulate(time) - time
    assert late.max() <= DELAY
    assert stream.disorder == pytest.approx((late > 0).mean())
    assert abs(stream.disorder - stream.percent / 100) < 0.05
    promises = np.flatnonzero(~events)
    assert len(promises) == COUNT // 5
    for at in promises[:: len(promises) // 50].tolist():
        kept = rows.time[at + 1 :][events[at + 1 :] & (rows.kinds[at + 1 :] == rows.kinds[at])]
        assert (kept > rows.time[at]).all(), "a promise is kept"


@pytest.mark.parametrize("method", METHODS)
def test_a_method_tells_what_is_right(stream: Stream, method: str) -> None:
    plan = engines()["assemble"].plan(PATTERN.plan(), COLUMNS)
    given = stream if method == "conservative" else stream.without_promises()
    course = follow(method, plan, given.rows, DELAY, UNIT)
    right = name_of(events_of(right_answer(stream)))
    assert len(right) > 1_000
    told, back = name_of(course.events[~course.back]), name_of(course.events[course.back])
    assert len(set(told.tolist())) == len(told), "each is told once"
    assert sorted(set(told.tolist()) - set(back.tolist())) == sorted(right.tolist())
    assert (stream.latency(course.events, course.moment) >= 0).all()
    if method == "aggressive":
        assert (stream.latency(course.events, course.moment)[~course.back] == 0).all()
    else:
        assert not len(back)


def test_late_events_break_what_was_told_at_once() -> None:
    stream = make_stream(COUNT, 50, rate=1.5)
    plan = engines()["assemble"].plan(PATTERN.plan(), COLUMNS)
    assert follow("aggressive", plan, stream.without_promises().rows, DELAY, UNIT).back.any()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_tells_what_is_right(name: str) -> None:
    stream = make_stream(1_000, 30)
    engine = engines()[ENGINES[name]]
    told = run_calls(engine, engine.plan(PATTERN.plan(), COLUMNS), stream, 200)
    standing = set(name_of(told.events[~told.back]).tolist()) - set(name_of(told.events[told.back]).tolist())
    assert standing == set(name_of(events_of(right_answer(stream))).tolist())


@pytest.mark.parametrize("mended", [False, True])
def test_the_printed_algorithm_does_not(mended: bool) -> None:
    stream = make_stream(COUNT, 0)
    found, right = name_of(printed.told(stream, mended=mended)), name_of(events_of(right_answer(stream)))
    assert len(found) > 0
    assert np.isin(right, found).mean() < 0.1


def test_charts_are_drawn(tmp_path: Path) -> None:
    from dataclasses import asdict

    from bench.disorder.charts import MEASURES, draw

    measured = [Measured(method, at, 10, 0.1, 5, 2.0, 1.0, 0.99, 0.0) for method in METHODS for at in (0, 50)]
    paths = list(draw([asdict(one) | {"rate": one.rate} for one in measured], tmp_path, "some"))
    assert len(paths) == len(MEASURES)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<svg")
        assert all(method in text for method in METHODS)
