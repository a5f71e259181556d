"""HTML for notebooks: texts as they are in a terminal, and tables of matches with a timeline."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice

MAX_ROWS_SHOWN = 20
"""Rows of a table in a notebook."""
TIMELINE_WIDTH_PX = 200
_BAR_HEIGHT_PX = 10
_MIN_BAR_PX = 2


class DisplayedText(str):
    """A text that notebooks show with its layout, and an SVG that they draw."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self) if self.startswith("<svg") else text_html(self)


def text_html(text: str) -> str:
    """A text with its layout."""
    return f"<pre>{escape(text)}</pre>"


def roles_html(title: str, roles: Mapping[str, object]) -> str:
    """A declared stream: the roles of its columns."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in roles.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def matches_html(title: str, rows: Iterable[Mapping[str, object]], notes: Iterable[str]) -> str:
    """A table of the first matches with one bar for each, from its start to its end; ``notes`` are below it."""
    shown = list(islice(rows, MAX_ROWS_SHOWN))
    names = list(dict.fromkeys(name for row in shown for name in row if name != "match_id"))
    bars = _bars(shown)
    columns = [*names, "timeline"] if any(bars) else names
    rows_html = "".join(
        "<tr>"
        + "".join(f"<td>{escape(_cell(row.get(name)))}</td>" for name in names)
        + (f"<td>{bar}</td></tr>" if any(bars) else "</tr>")
        for row, bar in zip(shown, bars, strict=True)
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    table = [f"<table><tr>{head}</tr>{rows_html}</table>"] if shown else []
    return "\n".join([f"<p>{escape(title)}</p>", *table, *(f"<p>{escape(note)}</p>" for note in notes)])


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


def _bars(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """A bar for each row, on one time axis; empty for a row without a start or an end."""
    times = [(row.get("start"), row.get("end")) for row in rows]
    known = [moment for pair in times for moment in pair if isinstance(moment, dt.datetime)]
    if not known:
        return [""] * len(rows)
    first, last = min(known), max(known)
    span_s = (last - first).total_seconds() or 1.0
    return [_bar(start, end, first, span_s) for start, end in times]


def _bar(start: object, end: object, first: dt.datetime, span_s: float) -> str:
    if not isinstance(start, dt.datetime) or not isinstance(end, dt.datetime):
        return ""
    left = (start - first).total_seconds() / span_s * (TIMELINE_WIDTH_PX - _MIN_BAR_PX)
    width = max(_MIN_BAR_PX, (end - start).total_seconds() / span_s * TIMELINE_WIDTH_PX)
    return (
        f'<svg width="{TIMELINE_WIDTH_PX}" height="{_BAR_HEIGHT_PX}" role="img">'
        f"<title>{escape(str(start))} to {escape(str(end))}</title>"
        f'<rect x="{left:.1f}" y="1" width="{width:.1f}" height="{_BAR_HEIGHT_PX - 2}" fill="#0072b2"/></svg>'
    )
