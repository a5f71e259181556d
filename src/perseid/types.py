"""Types of declarations and results, for annotations."""

from __future__ import annotations

from perseid.engines.sequence.results import Matches
from perseid.engines.sequence.stream import Events
from perseid.semantics.detection import Match
from perseid.semantics.types import EventSchema

__all__ = [
    "EventSchema",
    "Events",
    "Match",
    "Matches",
]
