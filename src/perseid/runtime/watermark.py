"""The watermark of a call: event time, in microseconds, up to which a stream is complete."""

from __future__ import annotations

from dataclasses import dataclass

WATERMARK, ARRIVAL = "watermark", "arrival"
"""What the time of a stream follows: its watermark, or the order in which events of a key arrive."""


@dataclass(frozen=True)
class Watermark:
    """Event time as the driver knows it, in microseconds."""

    previous: int | None = None
    """The watermark of the previous call."""
    current: int | None = None
    """No event at or before this time is still to come."""
    ended: bool = False
    """No further rows follow."""
