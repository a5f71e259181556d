"""Strategy selection for ``disorder='auto'``."""

from __future__ import annotations

from perseid.compile.plan import Plan
from perseid.engines.disorder.slots import why_not_assembled
from perseid.engines.disorder.strategy import Assemble, Auto, Buffer, Strategy

SHORT = 1_000_000
"""Watermark delay, in microseconds, up to which ``buffer`` is chosen: a trigger interval is hardly shorter."""


def chosen(given: Strategy, plan: Plan, delay: int) -> tuple[Strategy, str]:
    """Return the strategy and the reason; ``delay`` is the distance of the watermark from the newest event.

    A strategy with retractions is never chosen, because changelog rows differ from match rows.
    """
    if not isinstance(given, Auto):
        return given, given.tells
    if delay <= SHORT:
        return Buffer(), f"{Buffer.tells}, because the watermark delay is at most one second"
    for pattern in plan.patterns:
        why = why_not_assembled(pattern)
        if why is not None:
            return Buffer(), f"{Buffer.tells}, because {pattern.name} cannot be assembled: {why}"
    return Assemble(), f"{Assemble.tells}; chosen because no match depends on another match"
