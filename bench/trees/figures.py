"""Paper 1's Figures 1 and 2 with throughput instead of time, and the same as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.trees.queries import KINDS

DOCUMENTS = {"dblp": "DBLP", "treebank": "Treebank", "xmark": "XMark"}
ENGINES = {
    "trusted": ("#d55e00", "diamond"),
    "safe": ("#0072b2", "circle"),
    "iterparse": ("#009e73", "square"),
    "iterparse with XPath": ("#56b4e9", "cross"),
    "lxml XPath": ("#cc79a7", "triangle-up"),
    "Spark XML": ("#e69f00", "triangle-down"),
    "bare expat": ("#000000", "stroke"),
    "byte scan": ("#8c8c8c", "stroke"),
    "memcpy": ("#c8c8c8", "stroke"),
}
"""Color and mark by name, from ours to those that only read or copy. The last three run no query."""
FIGURE_1 = 118.6
"""Megabytes of the auction site in Figure 1."""
PRINTED = {"tree": 3_300, "comparison": 3_300, ":": 1_200, "|": 1_200, "*": 1_200}
"""Megabytes per second that the paper reports for large documents."""
_COLOURS = dict(zip(KINDS, ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7"), strict=True))


@dataclass(frozen=True)
class Measurement:
    """Measurement of an engine for a query on a document; query and kind are empty for a side that runs no query."""

    query: str
    kind: str
    document: str
    megabytes: float
    engine: str
    seconds: float
    results: int | None
    peak_mb: float | None
    """Peak memory, if measured."""

    @property
    def rate(self) -> float:
        """Megabytes per second."""
        return self.megabytes / self.seconds

    @property
    def of(self) -> str:
        """Display name of the document."""
        return f"{DOCUMENTS[self.document]}, {self.megabytes:,.1f} MB"


def table(measured: Sequence[Measurement]) -> str:
    """A part for each document: megabytes per second by query and engine; below, the sides that run no query; memory
    last."""
    return "\n\n".join(
        "\n".join(_part([one for one in measured if one.of == of])) for of in dict.fromkeys(one.of for one in measured)
    )


def _part(measured: Sequence[Measurement]) -> Iterator[str]:
    asked = [one for one in measured if one.query]
    engines = _engines(asked)
    widths = [max(8, len(engine)) for engine in engines]
    names = "".join(f"  {engine:>{width}}" for engine, width in zip(engines, widths, strict=True))
    yield f"{measured[0].of}: MB/s"
    if asked:
        yield f"{'query':<5}  {'kind':<10}  {'results':>10}{names}"
    for query in sorted({one.query for one in asked}):
        by = {one.engine: one for one in asked if one.query == query}
        known = next((one.results for one in by.values() if one.results is not None), None)
        rates = [f"{by[engine].rate:,.0f}" if engine in by else "-" for engine in engines]
        cells = "".join(f"  {rate:>{width}}" for rate, width in zip(rates, widths, strict=True))
        kind = next(iter(by.values())).kind
        yield f"{query:<5}  {kind:<10}  {'-' if known is None else f'{known:,}':>10}{cells}"
    for one in sorted((one for one in measured if not one.query), key=lambda one: one.rate):
        yield f"{one.engine}: {one.rate:,.0f}"
    held = {
        engine: max(peaks)
        for engine in _engines(measured)
        if (peaks := [one.peak_mb for one in measured if one.engine == engine and one.peak_mb is not None])
    }
    if held:
        yield "most memory, MB: " + ", ".join(f"{engine} {peak:,.0f}" for engine, peak in held.items())


def _engines(measured: Sequence[Measurement]) -> list[str]:
    there = dict.fromkeys(one.engine for one in measured)
    return [*(engine for engine in ENGINES if engine in there), *(engine for engine in there if engine not in ENGINES)]


def figure_1(measured: Sequence[Measurement]) -> Any:
    """Each query by each engine, on one document of each kind; lines are the sides that run no query."""
    import altair as alt

    shown = _of_figure_1(measured)
    engines = [engine for engine in ENGINES if any(one.engine == engine for one in shown)]
    inline: Any = alt.Data  # altair has no types
    values = [
        {"query": one.query, "engine": one.engine, "of": one.of, "rate": one.rate, "results": one.results}
        for one in shown
    ]
    colour = alt.Color(
        "engine:N", scale=alt.Scale(domain=engines, range=[ENGINES[engine][0] for engine in engines]), title=None
    )
    rate = alt.Y("rate:Q", title="MB a second", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s"))
    marks = alt.Scale(domain=engines, range=[ENGINES[engine][1] for engine in engines])
    points = (
        alt.Chart()
        .transform_filter("datum.query != ''")
        .mark_point(size=70, filled=True, opacity=1)
        .encode(
            x=alt.X("query:N", title=None, axis=alt.Axis(labelAngle=0)),
            y=rate,
            color=colour,
            shape=alt.Shape("engine:N", scale=marks, title=None),
            tooltip=["query:N", "engine:N", alt.Tooltip("rate:Q", format=",.0f"), "results:Q"],
        )
    )
    lines = (
        alt.Chart()
        .transform_filter("datum.query == ''")
        .mark_rule(strokeWidth=2, strokeDash=[6, 3])
        .encode(y=rate, color=colour)
    )
    return (
        alt.layer(lines, points, data=inline(values=values))
        .properties(width=230, height=300)
        .facet(column=alt.Column("of:N", title=None, header=alt.Header(labelFontSize=13)))
        .resolve_scale(x="independent")
        .properties(title="Throughput of each query (Figure 1)")
    )


def _of_figure_1(measured: Sequence[Measurement]) -> list[Measurement]:
    """Select, for each kind of document, the one nearest to the figure's size."""
    sizes: dict[str, set[float]] = {}
    for one in measured:
        sizes.setdefault(one.document, set()).add(one.megabytes)
    chosen = {
        document: min(there, key=lambda size: abs(math.log(size / FIGURE_1))) if document == "xmark" else max(there)
        for document, there in sizes.items()
    }
    return [one for one in measured if one.megabytes == chosen[one.document]]


def figure_2(measured: Sequence[Measurement], engine: str) -> Any:
    """Throughput of each kind of query by the size of the auction site, for one engine."""
    import altair as alt

    values = by_kind(measured, engine)
    kinds = [kind for kind in KINDS if any(one["kind"] == kind for one in values)]
    inline: Any = alt.Data
    sizes = sorted({one["megabytes"] for one in values})
    most = 1.05 * max((one["rate"] for one in values), default=1.0)
    base = alt.Chart(inline(values=values)).encode(
        x=alt.X(
            "megabytes:Q",
            title="size of the document (MB)",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(values=sizes, format=",.0f"),
        ),
        y=alt.Y("rate:Q", title="MB a second", scale=alt.Scale(domain=[0, most])),
        color=alt.Color(
            "kind:N", scale=alt.Scale(domain=kinds, range=[_COLOURS[kind] for kind in kinds]), title="kind of query"
        ),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds), title="kind of query"),
    )
    return (base.mark_line(strokeWidth=2) + base.mark_point(size=60, filled=True, opacity=1)).properties(
        title=f"Throughput by kind of query, {engine} (Figure 2)", width=420, height=260
    )


def by_kind(measured: Sequence[Measurement], engine: str) -> list[dict[str, Any]]:
    """Points of Figure 2: total bytes of an engine for the queries of a kind, divided by its total time."""
    found: dict[tuple[str, float], list[Measurement]] = {}
    for one in measured:
        if one.engine == engine and one.document == "xmark" and one.query:
            found.setdefault((one.kind, one.megabytes), []).append(one)
    return [
        {"kind": kind, "megabytes": size, "rate": sum(one.megabytes for one in some) / sum(one.seconds for one in some)}
        for (kind, size), some in sorted(found.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1]))
    ]


def compare_with_paper(measured: Sequence[Measurement], engine: str) -> str:
    """A line for each kind of query: our throughput on the largest auction site, and the paper's."""
    points = by_kind(measured, engine)
    largest = max((one["megabytes"] for one in points), default=0.0)
    return "\n".join(
        f"{one['kind']:<10}  {one['rate'] / 1000:6.2f} GB/s on {largest:,.0f} MB, {engine}; "
        f"printed: {PRINTED[one['kind']] / 1000:.1f} GB/s"
        for one in points
        if one["megabytes"] == largest
    )


def draw(
    measured: Sequence[Measurement], folder: Path, name: str, engines: Sequence[str] = ("safe",)
) -> Iterator[Path]:
    """Write Figure 1, and Figure 2 for each of the engines that was measured on the auction site."""
    folder.mkdir(parents=True, exist_ok=True)
    charts = {"queries": figure_1(measured)} | {
        f"sizes-{engine}": figure_2(measured, engine) for engine in engines if by_kind(measured, engine)
    }
    for part, chart in charts.items():
        path = folder / f"{name}-{part}.svg"
        chart.configure_legend(orient="right", labelFontSize=12).configure_axis(grid=True, gridColor="#e6e6e6").save(
            path
        )
        yield path
