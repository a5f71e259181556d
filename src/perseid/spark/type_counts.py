"""Rows per event type, as executors count them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perseid.engines.arrays import BoolArray
from perseid.engines.contract import Rows

OF_TYPE = "events of "
"""The prefix of the counters of one type each."""


def count_by_type(rows: Rows, types: Sequence[str], counted: BoolArray | None = None) -> list[int]:
    """Events of each type, without punctuation rows; ``counted`` masks those that are copies of others."""
    if not types:
        return []
    if rows.control is not None:
        events = rows.control == 0
        counted = events if counted is None else counted & events
    kinds = rows.kinds if counted is None else rows.kinds[counted]
    many = np.bincount(kinds[kinds >= 0], minlength=len(rows.kind_names)).tolist()
    by_name = dict(zip(rows.kind_names, many, strict=False))
    return [int(by_name.get(name, 0)) for name in types]
