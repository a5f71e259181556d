"""A test case: one line of code with a combination that an engine rejects."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A rejected expression with its error; ``fixtures.names`` defines the names in it."""

    code: str
    reason: str
    """Part of the error message."""
    instead: str
    """Sentence for the page that names a supported alternative."""
    error: str = "UnsupportedError"
    spark: bool = False
    """The code needs a Spark session."""
