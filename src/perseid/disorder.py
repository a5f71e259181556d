"""Strategies for events out of order, and the changelogs of those that retract matches."""

from __future__ import annotations

from perseid.api.changelog import current_matches, merge_into
from perseid.engines.disorder.strategy import Adaptive, Aggressive, Assemble, Buffer, Conservative, Early

__all__ = [
    "Adaptive",
    "Aggressive",
    "Assemble",
    "Buffer",
    "Conservative",
    "Early",
    "current_matches",
    "merge_into",
]
