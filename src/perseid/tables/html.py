"""HTML for notebooks: texts as they are in a terminal, and tables of matches with a timeline."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from html import escape

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


def matches_html(title: str, rows: Sequence[Mapping[str, object]], notes: Iterable[str]) -> str:
    """A table of matches with one bar for each, from its start to its end; ``notes`` are below it."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "match_id"))
    lines = [[escape(_cell(row.get(name))) for name in names] for row in rows]
    head = [escape(name) for name in names]
    if any(bars := _bars(rows)):
        head.append("timeline")
        lines = [[*cells, bar] for cells, bar in zip(lines, bars, strict=True)]
    table = [f"<table>{_line('th', head)}{''.join(_line('td', cells) for cells in lines)}</table>"] if rows else []
    return "\n".join([f"<p>{escape(title)}</p>", *table, *(f"<p>{escape(note)}</p>" for note in notes)])


def _line(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


def _bars(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """A bar for each row, on one time axis; empty for a row without a start or an end."""
    times = [(row.get("start"), row.get("end")) for row in rows]
    moments = [moment for pair in times for moment in pair if isinstance(moment, dt.datetime)]
    if not moments:
        return [""] * len(rows)
    first, last = min(moments), max(moments)
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
