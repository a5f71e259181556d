"""Helpers that pass rows and a watermark to an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.watermark import Watermark


def step_up_to(
    step: Callable[..., StepResult], plan: Any, rows: EventBatch, state: bytes | None, now: int
) -> StepResult:
    """Pass the rows, then advance the watermark to ``now`` in another call: in the same call rows up to it would be late."""
    waiting = step(plan, rows, state, Watermark())
    return step(plan, take_events(rows, np.zeros(0, np.int64)), waiting.state, Watermark(None, now))
