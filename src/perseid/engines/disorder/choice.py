"""Which strategy suits a set of patterns, where the stream leaves it open."""

from __future__ import annotations

from perseid.compile.plan import Plan
from perseid.engines.disorder.slots import why_not_assembled
from perseid.engines.disorder.strategy import Assemble, Auto, Buffer, Strategy

SHORT = 1_000_000
"""Microseconds of delay that are not worth anything else than waiting: no trigger is much faster."""


def chosen(given: Strategy, plan: Plan, delay: int) -> tuple[Strategy, str]:
    """The strategy, and why; ``delay`` is how far the watermark is behind the newest event.

    What takes back is never chosen: rows that are changes are something else than rows that are matches.
    """
    if not isinstance(given, Auto):
        return given, given.tells
    if delay <= SHORT:
        return Buffer(), f"{Buffer.tells}, because that is no more than a second behind"
    for pattern in plan.patterns:
        why = why_not_assembled(pattern)
        if why is not None:
            return Buffer(), f"{Buffer.tells}, because {pattern.name} cannot be assembled: {why}"
    return Assemble(), f"{Assemble.tells}; chosen because no match depends on another"
