"""Chart of a soak test: a panel for each memory and state level over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.pipeline.soak import Sample


def draw(samples: Sequence[Sample], warm: float, folder: Path) -> Path:
    import altair as alt

    inline: Any = alt.Data  # altair has no types
    folder.mkdir(parents=True, exist_ok=True)
    panels = []
    for name in samples[0].levels:
        rows = [{"minutes": one.seconds / 60, "level": one.levels[name]} for one in samples]
        unit = "events" if name == "events kept" else "MB"
        line = (
            alt.Chart(inline(values=rows))
            .mark_line(strokeWidth=2, color="#0072b2")
            .encode(
                x=alt.X("minutes:Q", title="minutes"),
                y=alt.Y("level:Q", title=unit, scale=alt.Scale(zero=True)),
            )
        )
        begins = alt.Chart(inline(values=[{"minutes": warm / 60}])).mark_rule(color="#8c8c8c", strokeDash=[4, 3])
        panels.append((line + begins.encode(x="minutes:Q")).properties(title=name, width=230, height=150))
    chart: Any = alt.concat(*panels, columns=3)
    path = folder / "soak.svg"
    chart.save(path)
    return path
