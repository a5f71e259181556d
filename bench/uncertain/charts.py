"""Charts of paper 5's Figures 9 to 14."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = {
    "independent": "#0072b2",
    "exact": "#009e73",
    "particles, independent": "#56b4e9",
    "most likely place": "#8c8c8c",
    "most likely place of particles": "#d55e00",
    "Markov": "#0072b2",
    "smoothed, independent": "#56b4e9",
    "most likely path": "#cc79a7",
    "Perseid": "#0072b2",
    "Perseid, from readings": "#009e73",
    "safe plan": "#0072b2",
    "sampling": "#d55e00",
    "the paper's, sampling": "#cc79a7",
    "real time": "#d55e00",
    "archived": "#0072b2",
}
CERTAIN = {"most likely place", "most likely place of particles", "most likely path"}
LANE = 0.00025
"""Distance between lines at 0, in the units of an axis that is linear there."""
Rows = Sequence[Mapping[str, Any]]


def _chart(rows: Rows) -> Any:
    import altair as alt

    inline: Any = alt.Data  # altair has no types
    return alt.Chart(inline(values=list(rows)))


def _colour(rows: Rows) -> Any:
    """Color scale with only the drawn approaches in the legend, in the order of first drawing."""
    import altair as alt

    who = list(dict.fromkeys(row["who"] for row in rows))
    legend = alt.Legend(
        title=None, orient="bottom", columns=3, labelLimit=260, symbolType="stroke", symbolStrokeWidth=3, symbolSize=500
    )
    return alt.Color("who:N", scale=alt.Scale(domain=who, range=[COLOURS[name] for name in who]), legend=legend)


def _dash(rows: Rows) -> Any:
    """Dash scale: approaches that take one place as certain are dashed."""
    import altair as alt

    who = list(dict.fromkeys(row["who"] for row in rows))
    dashes = [[5, 4] if name in CERTAIN else [1, 0] for name in who]
    return alt.StrokeDash("who:N", scale=alt.Scale(domain=who, range=dashes), legend=None)


def draw_quality(rows: Rows, title: str, path: Path) -> None:
    """Draw precision, recall and F1 by threshold in columns; rows have who, measure, rho, value."""
    import altair as alt

    panels = [
        _chart([row for row in rows if row["measure"] == measure])
        .mark_line(strokeWidth=2.2)
        .encode(
            x=alt.X("rho:Q", title="threshold ρ", scale=alt.Scale(domain=[0, 0.5])),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1])),
            color=_colour(rows),
            strokeDash=_dash(rows),
        )
        .properties(title=measure, width=230, height=220)
        for measure in ("precision", "recall", "F1")
    ]
    _save(alt.hconcat(*panels), title, path)


def draw_rooms(rows: Rows, path: Path) -> None:
    """Draw probabilities by second, a panel for each k; rows have who, k, second, value.

    Lines at 0 have separate lanes in a band below the axis, because on one line they would hide each other.
    """
    import altair as alt

    who = list(dict.fromkeys(row["who"] for row in rows))
    lowest = -LANE * (len(who) + 0.5)
    drawn = [{**row, "y": row["value"] or -LANE * (who.index(row["who"]) + 0.75)} for row in rows]
    ticks = [lowest / 2, 0.001, 0.01, 0.1, 1]
    axis = alt.Axis(values=ticks, labelExpr="datum.value < 0 ? '0' : format(datum.value, '~g')")
    scale = alt.Scale(type="symlog", constant=0.001, domain=[lowest, 1], nice=False)

    def panel(k: int) -> Any:
        band = _chart([{"low": lowest, "high": 0}]).mark_rect(color="#f2f2f2")
        lines = _chart([row for row in drawn if row["k"] == k]).mark_line(strokeWidth=2.2, interpolate="step-after")
        return alt.layer(
            band.encode(y=alt.Y("low:Q", scale=scale, axis=axis, title=None), y2="high:Q"),
            lines.encode(
                x=alt.X("second:Q", title="second", scale=alt.Scale(nice=False)),
                y=alt.Y("y:Q", scale=scale, axis=axis, title=None),
                color=_colour(rows),
                strokeDash=_dash(rows),
            ),
        ).properties(title=f"for {k} second{'s' if k > 1 else ''}", width=330, height=210)

    panels = [panel(k) for k in sorted({row["k"] for row in rows})]
    _save(alt.vconcat(alt.hconcat(*panels[:2]), alt.hconcat(*panels[2:])), "In the room (Figure 11)", path)


def draw_speed(rows: Rows, title: str, axis: str, path: Path, measures: Sequence[str]) -> None:
    """Draw panels by measure and query; rows have who, panel, x, and each measure."""
    import altair as alt

    def panel(name: str, measure: str) -> Any:
        base = _chart([row for row in rows if row["panel"] == name]).encode(
            x=alt.X("x:Q", title=axis, axis=alt.Axis(tickMinStep=1)),
            y=alt.Y(
                f"{measure}:Q",
                title=measure,
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~g" if measure == "seconds" else "~s", tickCount=5),
            ),
            color=_colour(rows),
        )
        drawn = base.mark_line(strokeWidth=2) + base.mark_point(size=45, filled=True, opacity=1)
        return drawn.properties(title=name, width=300, height=190)

    names = list(dict.fromkeys(row["panel"] for row in rows))
    lines = [alt.hconcat(*[panel(name, measure) for name in names]) for measure in measures]
    _save(alt.vconcat(*lines), title, path)


def _save(chart: Any, title: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.properties(title=title).configure_legend(labelFontSize=12).configure_title(anchor="start").save(path)
