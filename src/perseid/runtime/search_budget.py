"""The search budget: limits on the steps and matches of the search of one key in one call.

A step is one event that a partial match takes, or one start. Work that is much cheaper counts in eighths: events that a
partial match is compared with and does not take, and the events of a match that is written. Steps count work and not
time, so the same rows exceed a budget on every machine or on none.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_STEPS = 2_500_000
"""Steps that the search of one key may take in one call, in addition to those for each of its events."""
WORK_PER_STEP = 8
"""Units of cheaper work that make one step, in searches that run in Python."""
MAX_MATCHES = 1_000_000
"""Matches that one key may have in one call, in addition to those for each of its events."""
STEPS_PER_EVENT = 2_500
"""Steps that each event of the key adds to its budget."""
ATTEMPT_STEPS_PER_EVENT = 100
"""Steps that each event of the key adds to the budget of a single start, which otherwise has up to ``max_steps``."""
MATCHES_PER_EVENT = 10
"""Matches that each event of the key adds to its budget."""
MAX_WORKING_BYTES = 1 << 31
"""Bytes of working memory that one search may allocate."""
PYTHON_STEP_COST = 50
"""Steps that one step counts for if conditions of the pattern are evaluated in Python."""
UNLIMITED = 1 << 61
"""More steps than any search can take."""
MAX_LIMIT = 1_000_000_000_000
"""The largest limit that can be set."""


@dataclass(frozen=True)
class SearchBudget:
    """Limits of the search of one key in one call, without the part that grows with its events."""

    max_steps: int = MAX_STEPS
    max_matches: int = MAX_MATCHES

    def steps(self, events: int) -> int:
        """Steps that a key with this many events may take."""
        return self.max_steps + STEPS_PER_EVENT * events

    def matches(self, events: int) -> int:
        """Matches that a key with this many events may have."""
        return self.max_matches + MATCHES_PER_EVENT * events


DEFAULT_BUDGET = SearchBudget()
