"""A chart for each measure of paper 4's experiment, as its Figures 4 to 8 have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MEASURES = {
    "seconds": ("Execution time (Figure 4)", "seconds", ",.3f"),
    "peak_bytes": ("Largest state (Figure 5)", "bytes", "~s"),
    "latency": ("Latency (Figure 6)", "arrivals", ",.0f"),
    "emitted_precision": ("Precision of all emitted matches (Figure 7)", "share", ".2%"),
    "rate": ("Throughput (Figure 8)", "events/s", "~s"),
}
"""By measure: title, title of the axis, and format of its numbers."""
COLORS = {
    "K-slack": "#8c8c8c",
    "conservative": "#0072b2",
    "aggressive": "#d55e00",
    "assemble": "#009e73",
    "K-slack, stacks": "#8c8c8c",
    "conservative, stacks": "#0072b2",
    "aggressive, stacks": "#d55e00",
}
"""By method; a method over stacks has a dashed line and a mark of its own."""


def draw(measurements: Sequence[dict[str, Any]], folder: Path) -> Iterator[Path]:
    """Write the charts; methods differ in color, mark and dash."""
    import altair as alt

    folder.mkdir(parents=True, exist_ok=True)
    inline: Any = alt.Data  # altair has no types
    for measure, (title, unit, form) in MEASURES.items():
        low = 0.0 if measure != "emitted_precision" else min([0.98, *(one[measure] for one in measurements)])
        high = max(one[measure] for one in measurements) * (1.05 if measure != "emitted_precision" else 1)
        base = alt.Chart(inline(values=list(measurements))).encode(
            x=alt.X("disorder:Q", title="events delayed (%)", axis=alt.Axis(values=[0, 10, 20, 30, 40, 50])),
            y=alt.Y(f"{measure}:Q", title=unit, axis=alt.Axis(format=form), scale=alt.Scale(domain=[low, high])),
            color=alt.Color("method:N", scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())), title=None),
            shape=alt.Shape("method:N", scale=alt.Scale(domain=list(COLORS)), title=None),
            strokeDash=alt.StrokeDash(
                "method:N",
                scale=alt.Scale(
                    domain=list(COLORS), range=[[5, 4] if name.endswith("stacks") else [1, 0] for name in COLORS]
                ),
                title=None,
            ),
        )
        chart = (base.mark_line(strokeWidth=2) + base.mark_point(size=60, filled=True, opacity=1)).properties(
            title=title, width=420, height=240
        )
        path = folder / f"{measure}.svg"
        chart.configure_legend(orient="right", labelFontSize=12).configure_axis(grid=True, gridColor="#e6e6e6").save(
            path
        )
        yield path
