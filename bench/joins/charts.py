"""A chart for each of paper 3's Figures 8 to 16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
COLORS = {
    "Sequential": "#8c8c8c",
    "no views": "#d55e00",
    "shared views": "#0072b2",
    "cached views": "#009e73",
    "SQL per template": "#000000",
    "SQL, batches": "#cc79a7",
}


class RepeatedTiming(Protocol):
    @property
    def median(self) -> float: ...

    @property
    def quartiles(self) -> tuple[float, float]: ...


class PlottedPoint(Protocol):
    @property
    def figure(self) -> str: ...

    @property
    def x(self) -> float: ...

    @property
    def times(self) -> Mapping[str, RepeatedTiming | None]: ...


def draw_all(points: Sequence[PlottedPoint], folder: Path) -> None:
    """Write the charts: a line for each method, with its median and its quartiles."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure, (title, axis, wide) in AXES.items():
        rows = [
            {
                "x": point.x,
                "method": method,
                "microseconds": timing.median * 1e6,
                "low": timing.quartiles[0] * 1e6,
                "high": timing.quartiles[1] * 1e6,
            }
            for point in points
            if point.figure == figure
            for method, timing in point.times.items()
            if timing is not None
        ]
        if rows:
            _draw(rows, f"{title} ({figure})", axis, wide, folder / f"joins-{figure.split()[1]}.svg")


def _draw(rows: list[dict[str, Any]], title: str, axis: str, wide: bool, path: Path) -> None:
    import altair as alt

    inline: Any = alt.Data  # altair has no types
    scale = alt.Scale(domain=list(COLORS), range=list(COLORS.values()))
    microseconds = "microseconds per document"
    chart: Any
    if len({row["x"] for row in rows}) == 1:
        base = alt.Chart(inline(values=rows)).encode(
            y=alt.Y("method:N", title=None, sort=list(COLORS)),
            color=alt.Color("method:N", scale=scale, legend=None),
        )
        log = alt.Scale(type="log")
        chart = base.mark_rule(strokeWidth=3).encode(
            x=alt.X("low:Q", title=microseconds, scale=log), x2="high:Q"
        ) + base.mark_point(size=80, filled=True, opacity=1).encode(x=alt.X("microseconds:Q", scale=log))
    else:
        base = alt.Chart(inline(values=rows)).encode(
            x=alt.X("x:Q", title=axis, scale=alt.Scale(type="log" if wide else "linear")),
            y=alt.Y("microseconds:Q", title=microseconds, scale=alt.Scale(type="log")),
            color=alt.Color("method:N", scale=scale, title=None),
            shape=alt.Shape("method:N", scale=alt.Scale(domain=list(COLORS)), title=None),
        )
        spread = base.mark_rule(strokeWidth=1).encode(
            y=alt.Y("low:Q", title=microseconds, scale=alt.Scale(type="log")), y2="high:Q"
        )
        chart = base.mark_line(strokeWidth=2) + spread + base.mark_point(size=60, filled=True, opacity=1)
    chart.properties(title=title, width=420, height=260).configure_legend(labelFontSize=12).save(path)
