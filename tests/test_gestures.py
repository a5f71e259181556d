"""The gesture case of paper 2: all events and gestures are found, the example runs, and the docs have its picture."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import perseid as ps
from bench.models.gestures import BodyGroup
from examples import gesture_frames

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "gestures.py"
PICTURE = ROOT / "docs" / "experiments" / "gestures" / "filmstrip.svg"
POSTURES = ("forward_start", "forward_end", "raised")


@pytest.fixture(scope="module")
def model() -> ps.graph.Metamodel:
    return ps.graph.metamodel((ROOT / "examples" / "gestures.perseid").read_text(encoding="utf-8"))


def frames(model: ps.graph.Metamodel, table: Any) -> ps.graph.Frames:
    each, columns = gesture_frames.body_parts(), gesture_frames.body_columns()
    return ps.graph.frames(table, model, each=each, columns=columns, key="person", observe="raised")


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_all_events_and_gestures_are_found(model: ps.graph.Metamodel, backward: bool, recorded: bool) -> None:
    bodies, count = 7, 100
    stream = frames(model, gesture_frames.traces(bodies, count, seed=3, backward=backward, recorded=recorded))
    events, gestures = gesture_frames.expected(bodies, count, seed=3, backward=backward)
    assert stream.events(*POSTURES).num_rows == events
    found = {p.name: len(p.match(stream)) for p in ps.patterns(model)}
    assert found == ({"forward": 0, "backward": gestures} if backward else {"forward": gestures, "backward": 0})


def test_cycle_is_one_gesture_and_two_noise_events(model: ps.graph.Metamodel) -> None:
    stream = frames(model, gesture_frames.traces(1, gesture_frames.CYCLE))
    events = [(e["_type"], e["_time"].microsecond // 40_000) for e in stream.events(*POSTURES).to_pylist()]
    assert events == [
        ("found forward_start", 0), ("lost forward_start", 1), ("found forward_end", 6), ("lost forward_end", 7),
        ("found raised", 8), ("lost raised", 11),
    ]  # fmt: skip
    (found,) = ps.patterns(model)["forward"].match(stream).to_dicts()
    assert (found["began"].microsecond, found["ended"].microsecond) == (0, 280_000)


def test_noise_inside_a_gesture_ends_it(model: ps.graph.Metamodel) -> None:
    """In the immediate context, a raised hand between the postures is an event that matches no step."""
    table = gesture_frames.traces(1, gesture_frames.CYCLE)
    rows = table.to_pylist()
    rows[3]["right_hand_y"] = 3.0
    assert len(ps.patterns(model)["forward"].match(frames(model, rows))) == 0


def test_frame_by_frame_evaluation_has_the_same_events(model: ps.graph.Metamodel) -> None:
    stream = frames(model, gesture_frames.traces(2, 20, recorded=True))
    changes = [(time, change.change, change.query) for _, time, one in stream.effects() for change in one.changes]
    events = [(time, f"{change} {query}") for time, change, query in changes if query in POSTURES]
    here = [(int(e["_time"].timestamp() * 1e6), e["_type"]) for e in stream.events(*POSTURES).to_pylist()]
    assert here == events


def test_example_runs_and_docs_have_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = tmp_path / "gestures.svg"
    monkeypatch.setattr(sys, "argv", ["gestures.py", "2", str(drawn)])
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    output = capsys.readouterr().out
    assert "forwards: 2 bodies, 36 frames each, 6 gestures" in output
    assert "person 1  backward" in output
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        PICTURE.write_text(drawn.read_text(encoding="utf-8"), encoding="utf-8")
    assert PICTURE.read_text(encoding="utf-8") == drawn.read_text(encoding="utf-8")


def test_the_bench_knows_what_is_right() -> None:
    groups = [BodyGroup(share, 24, seed) for seed, share in enumerate((2, 1))]
    expected = [gesture_frames.expected(share, 24, seed=seed) for seed, share in enumerate((2, 1))]
    found = [sum(group.run_query(query) for group in groups) for query in ("events", "gestures")]
    assert found == [sum(part) for part in zip(*expected, strict=True)]
