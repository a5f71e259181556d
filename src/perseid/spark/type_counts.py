"""Count rows per event type on executors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perseid.runtime.arrays import BoolArray
from perseid.runtime.event_batch import EventBatch

OF_TYPE = "events of "
"""Name prefix of the counters of event types."""


def count_by_type(rows: EventBatch, types: Sequence[str], counted: BoolArray | None = None) -> list[int]:
    """Count events of each type, without punctuation rows; ``counted`` is a mask that leaves out copies of rows."""
    if not types:
        return []
    if rows.control is not None:
        events = rows.control == 0
        counted = events if counted is None else counted & events
    kinds = rows.type_codes if counted is None else rows.type_codes[counted]
    counts = np.bincount(kinds[kinds >= 0], minlength=len(rows.type_names)).tolist()
    by_name = dict(zip(rows.type_names, counts, strict=False))
    return [int(by_name.get(name, 0)) for name in types]
