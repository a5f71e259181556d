"""Charts of update time and evaluation from scratch by the size of the model, one for each case."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.models.measure import ModelPoint

COLOURS = {
    "update": "#0072b2",
    "error comes": "#0072b2",
    "error repaired": "#009e73",
    "anew, by hand": "#d55e00",
    "anew, by the engine": "#8c8c8c",
}
KINDS = {"change set": "update", "inject": "error comes", "repair": "error repaired"}


def draw(points: Sequence[ModelPoint], folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for case in dict.fromkeys(point.case for point in points):
        path = folder / f"models-{case.replace(' ', '-')}.svg"
        _draw([point for point in points if point.case == case], path)
        yield path


def _rows(point: ModelPoint) -> Iterator[dict[str, Any]]:
    measured = {KINDS[kind]: seconds for kind, seconds in point.updates.items()}
    measured |= {"anew, by hand": point.by_hand, "anew, by the engine": point.fresh}
    for who, seconds in measured.items():
        yield {"size": point.size, "who": who, "milliseconds": 1000 * statistics.median(seconds)}


def _draw(points: Sequence[ModelPoint], path: Path) -> None:
    import altair as alt

    inline: Any = alt.Data  # altair has no types
    queries = list(dict.fromkeys(point.query for point in points))
    rows = [row for point in points for row in _rows(point)]
    who = [name for name in COLOURS if any(row["who"] == name for row in rows)]
    milliseconds = [row["milliseconds"] for row in rows]
    legend = alt.Legend(title=None, orient="bottom", symbolStrokeWidth=3, labelFontSize=12, columns=4)
    panels = []
    for query in queries:
        own = [row for point in points if point.query == query for row in _rows(point)]
        base = alt.Chart(inline(values=own)).encode(
            x=alt.X("size:Q", title="size", scale=alt.Scale(type="log", base=2)),
            y=alt.Y(
                "milliseconds:Q",
                title="milliseconds",
                scale=alt.Scale(type="log", domain=[min(milliseconds) / 2, max(milliseconds) * 2]),
                axis=alt.Axis(values=[10.0**power for power in range(-3, 6)], format="~g"),
            ),
            color=alt.Color("who:N", scale=alt.Scale(domain=who, range=[COLOURS[name] for name in who]), legend=legend),
            shape=alt.Shape("who:N", scale=alt.Scale(domain=who), legend=legend),
        )
        lines = base.mark_line(strokeWidth=2) + base.mark_point(size=50, filled=True, opacity=1)
        panels.append(lines.properties(title=query, width=230, height=190))
    chart: Any = alt.concat(*panels, columns=3)
    chart.save(path)
