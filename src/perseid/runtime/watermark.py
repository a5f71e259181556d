"""The watermark of a call: event time, in microseconds, up to which a stream is complete."""

from __future__ import annotations

from dataclasses import dataclass

WATERMARK, ARRIVAL = "watermark", "arrival"
"""The time basis of a stream: its watermark, or the order in which events of a key arrive."""


@dataclass(frozen=True)
class Watermark:
    """The watermark of a call, in microseconds of event time."""

    previous: int | None = None
    """The watermark of the previous call."""
    current: int | None = None
    """No more events at or before this time arrive."""
    ended: bool = False
    """No further rows follow."""
