"""Reasons why a row is late."""

from __future__ import annotations

from enum import IntEnum


class LateReason(IntEnum):
    """The reason why a row is late, as one byte per row."""

    NOT = 0
    """The row is in time."""
    BEHIND_WATERMARK = 1
    """Its time is at or before the watermark."""
    OUT_OF_ORDER = 2
    """It is older than an earlier row of its key, and the stream declares ``order="arrival"``."""
    AFTER_PUNCTUATION = 3
    """A punctuation has closed its time."""
    BEHIND_FRONTIER = 4
    """The engine does not wait for it, although the watermark has not passed it."""
