"""Help for testing patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perseid.api.patterns import Pattern

__all__ = ["assert_matches"]


def assert_matches(pattern: Pattern, events: object, number: int, key: object = None) -> None:
    """Assert the number of matches; if there are too few, the message explains why."""
    matches = pattern.match(events)
    if len(matches) == number:
        return
    # Failed partial matches explain too few matches, but not too many.
    explanation = f"\n{pattern.why_not(events, key=key)}" if len(matches) < number else ""
    raise AssertionError(f"expected {number}, found:\n{matches}{explanation}")
