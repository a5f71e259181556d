"""Strategy selection for ``disorder='auto'``."""

from __future__ import annotations

from perseid.compile.plan import Plan
from perseid.engines.disorder.slots import why_not_assembled
from perseid.engines.disorder.strategy import Assemble, Auto, Buffer, Strategy

SHORT_DELAY_US = 1_000_000
"""Watermark delay, in microseconds, up to which ``buffer`` is chosen: a trigger interval is hardly shorter."""


def choose_strategy(declared: Strategy, plan: Plan, delay: int) -> tuple[Strategy, str]:
    """Return the strategy and the reason; ``delay`` is the distance of the watermark from the newest event.

    A strategy with retractions is never chosen, because changelog rows differ from match rows.
    """
    if not isinstance(declared, Auto):
        return declared, declared.output_policy
    if delay <= SHORT_DELAY_US:
        return Buffer(), f"{Buffer.output_policy}, because the watermark delay is at most one second"
    for pattern in plan.patterns:
        reason = why_not_assembled(pattern)
        if reason is not None:
            return Buffer(), f"{Buffer.output_policy}, because {pattern.name} cannot be assembled: {reason}"
    return Assemble(), f"{Assemble.output_policy}; chosen because no match depends on another match"
