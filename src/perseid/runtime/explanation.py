"""The text of explanations: titled sections of rows, and the limits that every kind of stream declares."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from perseid.lang.printer import print_duration
from perseid.runtime.search_budget import MATCHES_PER_EVENT, STEPS_PER_EVENT, SearchBudget

LINE_WIDTH = 100
"""Characters of a line."""

Row = tuple[str, str]


def section(title: str, rows: Iterable[Row]) -> list[str]:
    """Format a title and its rows: a label, and a text that is wrapped at the line width."""
    non_empty = [(key, text) for key, text in rows if text]
    if not non_empty:
        return []
    wide = max(len(key) for key, _ in non_empty)
    out, before = [title], None
    for key, text in non_empty:
        lead = f"  {key if key != before else '':<{wide}}  "
        before = key
        out += textwrap.wrap(
            text,
            LINE_WIDTH,
            initial_indent=lead,
            subsequent_indent=" " * (len(lead) + 2),
            break_on_hyphens=False,
        )
    return [*out, ""]


def describe_max_ahead(max_ahead: int | None) -> str:
    """The bound on times beyond the arrival of a row, in words."""
    if max_ahead is None:
        return "unbounded: a row with any time advances the watermark, and all rows behind it are late"
    bound = print_duration(max_ahead)
    return (
        f"rows with a time more than {bound} after their arrival are rejected and counted as ahead; they do not advance "
        "the watermark"
    )


def describe_budget(budget: SearchBudget) -> str:
    """The limits of a search, for each pattern, key and call."""
    return (
        f"per pattern, key and call: {budget.max_steps:,} steps and {budget.max_matches:,} matches, plus "
        f"{STEPS_PER_EVENT:,} steps and {MATCHES_PER_EVENT} matches per event; exceeding it raises SearchBudgetError"
    )
