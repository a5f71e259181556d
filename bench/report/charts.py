"""Charts of the report as SVG, each for a light and a dark page, in the colors of Okabe and Ito."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.report.engines import GROUPS
from bench.report.results import Data

SHAPES = {"Perseid": "circle", "other engine": "diamond"}
THEMES = {
    "light": {"text": "#1a1a1a", "grid": "#e0e0e0", "Perseid": "#0072b2", "other engine": "#d55e00"},
    "dark": {"text": "#f0f0f0", "grid": "#454545", "Perseid": "#56b4e9", "other engine": "#e69f00"},
}
"""Colors by theme: blue and orange differ for every kind of color vision. The background is transparent."""


def rate_rows(results: Data, query: str) -> list[dict[str, Any]]:
    """Rows of a query's chart: events per second of each engine with a figure, with the spread of the rounds."""
    rows = []
    for engine in results["engines"]:
        cell = results["cells"][query][engine["name"]]
        if "missing" in cell:
            continue
        seconds, count = cell["seconds"], results["events"]
        rows.append(
            {
                "engine": engine["title"],
                "group": engine["group"],
                "kind": "Perseid" if engine["ours"] else "other engine",
                "rate": count / seconds["median"],
                "low": count / seconds["max"],
                "high": count / seconds["min"],
            }
        )
    return rows


def ratio_rows(results: Data) -> list[dict[str, Any]]:
    """Rows of the chart of ratios."""
    titles = {engine["name"]: engine["title"] for engine in results["engines"]}
    return [
        {
            "pair": f"{titles[row['ours']]} against {titles[row['peer']]}",
            "group": row["group"],
            "query": query,
            "ratio": ratio["median"],
            "low": ratio["min"],
            "high": ratio["max"],
            "kind": "Perseid" if ratio["median"] >= 1 else "other engine",
        }
        for row in results["ratios"]
        for query, ratio in row["queries"].items()
        if "median" in ratio
    ]


def draw_all(results: Data, folder: Path) -> Iterator[Path]:
    """Write a chart for each query and one of all ratios."""
    for theme in THEMES:
        for query in results["cells"]:
            rows = rate_rows(results, query)
            if rows:
                path = folder / f"{query.lower()}-{theme}.svg"
                _draw(
                    rows, theme, path, row="engine", value="rate", axis="events/s", title=f"{query}: events per second"
                )
                yield path
        rows = ratio_rows(results)
        if rows:
            path = folder / f"ratios-{theme}.svg"
            title = "Speed of Perseid as a multiple of the other engine's; left of the line, Perseid is slower"
            _draw(rows, theme, path, row="pair", value="ratio", axis="multiple", title=title)
            yield path


def _draw(rows: list[dict[str, Any]], theme: str, path: Path, *, row: str, value: str, axis: str, title: str) -> None:
    """A panel for each group of engines, because only engines of one group measure the same work."""
    import altair as alt

    colors = THEMES[theme]
    panels = [
        _panel([one for one in rows if one["group"] == group], colors, row, value, axis).properties(
            title=alt.Title(GROUPS[group], fontSize=11, fontWeight="normal"), width=460
        )
        for group in dict.fromkeys(one["group"] for one in rows)
    ]
    chart: Any = alt.vconcat(*panels).resolve_scale(x="shared").properties(title=title)
    chart.configure(background="transparent").configure_view(stroke=colors["grid"]).configure_axis(
        gridColor=colors["grid"],
        labelColor=colors["text"],
        titleColor=colors["text"],
        domainColor=colors["grid"],
        tickColor=colors["grid"],
    ).configure_legend(labelColor=colors["text"], titleColor=colors["text"], labelFontSize=12).configure_title(
        color=colors["text"], anchor="start"
    ).save(path)


def _panel(rows: list[dict[str, Any]], colors: Mapping[str, str], row: str, value: str, axis: str) -> Any:
    import altair as alt

    inline: Any = alt.Data  # altair has no types
    x = {"scale": alt.Scale(type="log", nice=True), "axis": alt.Axis(tickCount=6, format="~s"), "title": axis}
    base = alt.Chart(inline(values=rows)).encode(
        y=alt.Y(f"{row}:N", title=None, sort=None, axis=alt.Axis(labelLimit=420)),
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=list(SHAPES), range=[colors[kind] for kind in SHAPES]),
            title="faster" if value == "ratio" else None,
        ),
    )
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=list(SHAPES), range=list(SHAPES.values())), title=None)
    if value == "ratio":
        legend = alt.Legend(symbolFillColor=colors["text"], symbolStrokeColor=colors["text"])
        shape = alt.Shape(
            "query:N", title="query", scale=alt.Scale(domain=["Q1", "Q1n", "Q2", "Q3", "Q4"]), legend=legend
        )
    spread = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **x), x2="high:Q")
    points = base.mark_point(size=70, filled=True, opacity=1).encode(x=alt.X(f"{value}:Q", **x), shape=shape)
    layers = [spread, points]
    if value == "ratio":
        one = alt.Chart(inline(values=[{"ratio": 1}])).mark_rule(color=colors["text"], strokeDash=[4, 4])
        layers.insert(0, one.encode(x=alt.X("ratio:Q", **x)))
    return alt.layer(*layers)
