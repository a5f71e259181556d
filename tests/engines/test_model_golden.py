"""States of live models written by earlier versions: every later version must read and continue them.

``PERSEID_ADD_STATES=1`` writes the states of cases that have none yet. Existing states are never overwritten, because
users have such states on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perseid.engines.models import shard
from perseid.engines.models.engine import step
from perseid.engines.models.plan import ModelsPlan
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from tests.engines import test_frames_stream as frames
from tests.engines import test_models_stream as models
from tests.engines.watermarks import step_up_to

FOLDER = Path(__file__).parent / "states"
NOW = 5_000_000


class GoldenStateCase(NamedTuple):
    """A plan, the rows before and after its state was written, and a function that makes its output comparable."""

    plan: ModelsPlan
    before: EventBatch
    after: EventBatch
    comparable: Callable[[Any], Any]


def _models() -> GoldenStateCase:
    rows = models.random_rows(3)
    parts = [models.rows_of([row for row in rows if (row[0] <= NOW + 2_000_000) is early]) for early in (True, False)]
    return GoldenStateCase(models.plan_of(), *parts, models.match_rows)


def _frames() -> GoldenStateCase:
    rows = frames.random_frames(3)
    parts = [
        frames.rows_of([row for row in rows if (row["time"] <= NOW + 2_000_000) is early]) for early in (True, False)
    ]
    return GoldenStateCase(frames.plan_of(), *parts, frames.match_ids)


CASES = {"models-1": _models, "frames-1": _frames}


@pytest.mark.parametrize("name", CASES)
def test_state_of_an_earlier_version_continues(name: str) -> None:
    case, path = CASES[name](), FOLDER / f"{name}.state"
    own = step_up_to(step, case.plan, case.before, None, NOW).state
    assert own is not None
    if os.environ.get("PERSEID_ADD_STATES") and not path.exists():
        FOLDER.mkdir(exist_ok=True)
        path.write_bytes(own)
    found = []
    for state in (own, path.read_bytes()):
        shard._DECODED.clear()
        found.append(case.comparable(step(case.plan, case.after, state, Watermark(NOW, None, ended=True)).rows))
    assert found[0] == found[1]
    assert found[0]
