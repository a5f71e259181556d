"""A chart for each of paper 3's Figures 8 to 16."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

AXES = {
    "Figure 8": ("Number of queries, two levels", "queries", True),
    "Figure 9": ("Number of leaves, two levels", "leaves", False),
    "Figure 10": ("Zipf parameter, two levels", "parameter", False),
    "Figure 11": ("Number of queries, three levels", "queries", True),
    "Figure 12": ("Most joins of a query, three levels", "joins", False),
    "Figure 13": ("Zipf parameter, three levels", "parameter", False),
    "Figure 14": ("Views, two levels", "queries", False),
    "Figure 15": ("Views, three levels", "queries", False),
    "Figure 16": ("Items of feeds", "queries", True),
}
COLOURS = {
    "Sequential": "#8c8c8c",
    "no views": "#d55e00",
    "shared views": "#0072b2",
    "cached views": "#009e73",
}


class Point(Protocol):
    figure: str
    x: float
    seconds: dict[str, float]


def draw_all(points: Sequence[Point], folder: Path) -> None:
    """Write the charts; who took the time is told by colour and mark."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure, (title, axis, wide) in AXES.items():
        rows = [
            {"x": point.x, "who": who, "microseconds": seconds * 1e6}
            for point in points
            if point.figure == figure
            for who, seconds in point.seconds.items()
            if who in COLOURS
        ]
        if rows:
            _draw(rows, f"{title} ({figure})", axis, wide, folder / f"joins-{figure.split()[1]}.svg")


def _draw(rows: list[dict[str, Any]], title: str, axis: str, wide: bool, path: Path) -> None:
    import altair as alt

    inline: Any = alt.Data  # it has no types
    colour = alt.Color("who:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), title=None)
    chart: Any
    if len({row["x"] for row in rows}) == 1:
        chart = (
            alt.Chart(inline(values=rows))
            .mark_bar()
            .encode(
                x=alt.X("microseconds:Q", title="microseconds a document"),
                y=alt.Y("who:N", title=None, sort=list(COLOURS)),
                color=alt.Color(
                    "who:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None
                ),
            )
        )
    else:
        base = alt.Chart(inline(values=rows)).encode(
            x=alt.X("x:Q", title=axis, scale=alt.Scale(type="log" if wide else "linear")),
            y=alt.Y("microseconds:Q", title="microseconds a document", scale=alt.Scale(type="log")),
            color=colour,
            shape=alt.Shape("who:N", scale=alt.Scale(domain=list(COLOURS)), title=None),
        )
        chart = base.mark_line(strokeWidth=2) + base.mark_point(size=60, filled=True, opacity=1)
    chart.properties(title=title, width=420, height=240).configure_legend(labelFontSize=12).save(path)
