"""Help for testing patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perseid.api.patterns import Pattern

__all__ = ["assert_matches"]


def assert_matches(pattern: Pattern, events: object, number: int, key: object = None) -> None:
    """Assert how many matches there are; where they are too few, the message says why."""
    found = pattern.match(events)
    if len(found) == number:
        return
    # Attempts that did not match explain nothing where there are too many that did.
    why = f"\n{pattern.why_not(events, key=key)}" if len(found) < number else ""
    raise AssertionError(f"{number} expected, and found:\n{found}{why}")
