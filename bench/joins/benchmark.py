"""Paper 3's Section 6: queries shared by template, one by one, and as SQL per template; then a million
subscriptions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import harness
from bench.joins import claims
from bench.joins.charts import draw_all
from bench.joins.measurement import (
    METHODS,
    PART,
    REPETITIONS,
    SEQUENTIAL,
    SEQUENTIAL_LIMIT_S,
    SQL_BATCHES,
    VIEWS,
    Part,
    SqlChoice,
    Timing,
    compare_sql_variants,
    join_parts,
    open_sql,
    time_sequential,
    time_sql,
)
from bench.joins.million import run as run_million
from bench.joins.split import split
from bench.joins.workload import Drawn, Schema, pairs_of_documents
from bench.trees.feeds import items
from perseid.engines.joins.graph import NodeChain
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.program import compile_chains
from perseid.engines.joins.reading import ChainReader

PARTS = ("flat", "deep", "feed", "million")
"""Names for ``--only``: Figures 8 to 10 and 14; 11 to 13 and 15; 16; a million subscriptions."""
LEAVES = ("item_url", "channel_url", "title", "timestamp", "description")
DEFAULT_QUERIES, DEFAULT_LEAVES, DEFAULT_ZIPF, DEFAULT_JOINS = 1_000, 6, 0.8, 4


@dataclass(frozen=True)
class JoinsSize:
    """Points of the figures and how long each is timed."""

    queries: tuple[int, ...]
    leaves: tuple[int, ...]
    zipf: tuple[float, ...]
    joins: tuple[int, ...]
    items: int
    feed_queries: tuple[int, ...]
    passes: int
    """Passes of ours over the documents of a point."""
    sequential_s: float
    sql_s: float
    """Seconds in statements for each SQL variant at a point."""
    sql_repetitions: int
    """Minimum number of repetitions of SQL, regardless of their time."""
    split_pairs: int = 400
    """Pairs of documents that the kernel's parts are timed over."""
    sql_queries: tuple[int, ...] | None = None
    """The points of Figures 8, 11 and 16 that have SQL; None: all points of all figures."""


_ALL_QUERIES = (10, 100, 1_000, 10_000, 100_000)
_STANDARD = JoinsSize(
    _ALL_QUERIES, (4, 6, 8, 10, 12), (0.0, 0.4, 0.8, 1.2, 1.6), (2, 3, 4, 5), 20_000, _ALL_QUERIES, 3,
    SEQUENTIAL_LIMIT_S, 1.0, 3,
)  # fmt: skip
SIZES = {
    "quick": JoinsSize(
        (10, 1_000), (4, 12), (0.0, 1.6), (2, 5), 3_000, (100, 10_000), 1, 0.3, 0.1, 1, 50, sql_queries=(10, 100)
    ),
    "standard": _STANDARD,
    "full": replace(_STANDARD, items=225_000),
}


@dataclass(frozen=True)
class JoinsPoint:
    """One point of a figure: the times of each method. None is a method that exceeded its limit."""

    figure: str
    x: float
    times: Mapping[str, Timing | None]
    load_s: float
    """Seconds per document that loading takes, outside all times."""
    distinct: int
    templates: int
    found: int
    """Notifications of 1,000 documents: one pass of ours."""
    read_s: float | None = None
    """Seconds per document that the tree matcher takes, where documents are read."""


def run(size: str, out: Path | None, only: Sequence[str] | None = None) -> harness.Report:
    """Measure the figures, check the paper's claims and run a million subscriptions; ``only`` selects some of
    ``PARTS``."""
    report, chosen, wanted = harness.Report("joins", size), SIZES[size], only or PARTS
    points: list[JoinsPoint] = []
    splits: dict[str, Mapping[str, float]] = {}
    largest: dict[str, Subscriptions] = {}
    if "flat" in wanted:
        points += _measure_synthetic(_two_levels(chosen), chosen, Schema.flat(DEFAULT_LEAVES), DEFAULT_LEAVES, largest)
        points.append(_repeat_as(points, "Figure 8", "Figure 14"))
        splits["14"] = _split("Figure 14", Schema.flat(DEFAULT_LEAVES), largest.pop("Figure 8"), chosen)
    if "deep" in wanted:
        points += _measure_synthetic(_three_levels(chosen), chosen, Schema.three_levels(), DEFAULT_JOINS, largest)
        points.append(_repeat_as(points, "Figure 11", "Figure 15"))
        splits["15"] = _split("Figure 15", Schema.three_levels(), largest.pop("Figure 11"), chosen)
    if "feed" in wanted:
        points += _measure_feeds(chosen, report)
    if points:
        points.sort(key=lambda point: int(point.figure.split()[1]))
        _report_figures(points, report)
        harness.print_line(_table(points))
        harness.print_line("")
        harness.print_line("\n".join([claims.HEAD, *(claim.line() for claim in claims.check(points, splits))]))
        harness.print_line("")
        harness.print_line("\n".join(claims.slower(points)))
        if out is not None:
            draw_all(points, out)
    if "million" in wanted:
        run_million(size, report)
    return report


def _report_figures(points: Sequence[JoinsPoint], report: harness.Report) -> None:
    for figure, name in (("Figure 8", "flat"), ("Figure 11", "deep"), ("Figure 16", "feed")):
        some = [point for point in points if point.figure == figure]
        if some:
            report.add(f"{name}.sequential", _quotient(some[-1], SEQUENTIAL, "cached views"))
            report.add(f"{name}.sequential_without_views", _quotient(some[-1], SEQUENTIAL, "no views"))
            with_sql = [point for point in some if point.times.get(SQL_BATCHES)]
            if with_sql:
                report.add(f"{name}.sql_batches", _quotient(with_sql[-1], SQL_BATCHES, "cached views"))
    for figure, name in (("Figure 14", "flat"), ("Figure 15", "deep")):
        for point in points:
            if point.figure == figure:
                report.add(f"{name}.views", _quotient(point, "no views", "cached views"))


def _quotient(point: JoinsPoint, one: str, other: str) -> float:
    a, b = point.times[one], point.times[other]
    assert a is not None
    assert b is not None
    return a.median / b.median


def _table(points: Sequence[JoinsPoint]) -> str:
    """All points as Markdown: microseconds per document."""
    head = ["figure", "x", *METHODS, "load", "distinct", "templates", "found"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for point in points:
        cells = [
            point.figure.split()[1],
            f"{point.x:,g}",
            *(_cell(point, name) for name in METHODS),
            f"{1e6 * point.load_s:,.1f}",
            *(f"{n:,}" for n in (point.distinct, point.templates, point.found)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(point: JoinsPoint, method: str) -> str:
    """Median, quartiles, and the number of documents if it is below 1,000."""
    if method not in point.times:
        return ""
    timing = point.times[method]
    if timing is None:
        return "over limit"
    low, high = timing.quartiles
    text = f"{_short(timing.median)} [{_short(low)}–{_short(high)}]"
    return text if timing.documents >= REPETITIONS * PART else f"{text} n={timing.documents}"


def _short(seconds: float) -> str:
    microseconds = 1e6 * seconds
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.1f}"


def _line(point: JoinsPoint) -> str:
    shown = "  ".join(f"{name} {_cell(point, name)} us" for name in METHODS if name in point.times)
    return f"{point.figure:<10} {point.x:>10,g}  {shown}  ({point.distinct:,} distinct, {point.templates} templates, {point.found:,} found)"


@dataclass(frozen=True)
class PointParameters:
    """The parameters of a point of Figures 8 to 13."""

    figure: str
    x: float
    schema: Schema
    most: int
    zipf: float
    queries: int


def _two_levels(size: JoinsSize) -> Iterator[PointParameters]:
    default = Schema.flat(DEFAULT_LEAVES)
    for queries in size.queries:
        yield PointParameters("Figure 8", queries, default, DEFAULT_LEAVES, DEFAULT_ZIPF, queries)
    for leaves in size.leaves:
        yield PointParameters("Figure 9", leaves, Schema.flat(leaves), leaves, DEFAULT_ZIPF, DEFAULT_QUERIES)
    for zipf in size.zipf:
        yield PointParameters("Figure 10", zipf, default, DEFAULT_LEAVES, zipf, DEFAULT_QUERIES)


def _three_levels(size: JoinsSize) -> Iterator[PointParameters]:
    deep = Schema.three_levels()
    for queries in size.queries:
        yield PointParameters("Figure 11", queries, deep, DEFAULT_JOINS, DEFAULT_ZIPF, queries)
    for joins in size.joins:
        yield PointParameters("Figure 12", joins, deep, joins, DEFAULT_ZIPF, DEFAULT_QUERIES)
    for zipf in size.zipf:
        yield PointParameters("Figure 13", zipf, deep, DEFAULT_JOINS, zipf, DEFAULT_QUERIES)


def _measure_synthetic(
    settings: Iterator[PointParameters], size: JoinsSize, schema: Schema, most: int, largest: dict[str, Subscriptions]
) -> Iterator[JoinsPoint]:
    """Measure the points of some figures; ``largest`` receives the queries of the last point of Figures 8 and 11."""
    choice = SqlChoice()
    if size.sql_queries is None:
        subscriptions = Drawn(schema, most, DEFAULT_ZIPF).subscriptions(DEFAULT_QUERIES)
        parts = _parts(schema, subscriptions)
        due = join_parts(subscriptions, VIEWS["shared views"], parts).due[PART:]
        kind = "two levels" if most == DEFAULT_LEAVES else "three levels"
        choice = _choose_sql(kind, subscriptions, parts[:1], parts[1:], due)
    for setting in settings:
        point = _measure(setting, size, choice, largest)
        harness.print_line(_line(point))
        harness.progress(f"{point.figure} at {point.x:,g}")
        yield point


def _parts(schema: Schema, subscriptions: Subscriptions) -> list[Part]:
    """The warm-up part, then the timed parts."""
    chains = list(subscriptions.chains)
    return [pairs_of_documents(schema, chains, PART // 2, part * PART // 2) for part in range(1 + REPETITIONS)]


def _measure(
    setting: PointParameters, size: JoinsSize, choice: SqlChoice, largest: dict[str, Subscriptions]
) -> JoinsPoint:
    drawn = Drawn(setting.schema, setting.most, setting.zipf)
    subscriptions = drawn.subscriptions(setting.queries)
    if setting.figure in ("Figure 8", "Figure 11") and setting.queries == size.queries[-1]:
        largest[setting.figure] = subscriptions
    parts = _parts(setting.schema, subscriptions)
    times: dict[str, Timing | None] = {}
    dues, load_s = [], 0.0
    for name, views in VIEWS.items():
        timing = Timing()
        for _ in range(size.passes):
            joined = join_parts(subscriptions, views, parts)
            for seconds in joined.join_s[1:]:
                timing.add(seconds, PART)
            dues.append(joined.due)
            # Later passes load texts that are in the dictionary.
            load_s = load_s or sum(joined.load_s[1:]) / (REPETITIONS * PART)
        times[name] = timing
    due = _same(f"{setting.figure} at {setting.x}", dues)[PART:]
    times[SEQUENTIAL] = time_sequential(subscriptions, parts[:1], parts[1:], due, size.sequential_s)
    if size.sql_queries is None or (setting.figure in ("Figure 8", "Figure 11") and setting.x in size.sql_queries):
        times |= time_sql(subscriptions, choice, parts[:1], parts[1:], due, size.sql_s, size.sql_repetitions)
    return JoinsPoint(
        setting.figure, setting.x, times, load_s, drawn.distinct, len(subscriptions.templates), int(due.sum())
    )


def _same(where: str, dues: Sequence[np.ndarray]) -> np.ndarray:
    if any(not np.array_equal(dues[0], other) for other in dues[1:]):
        raise AssertionError(f"{where}: the notifications of the documents differ between views")
    return dues[0]


def _choose_sql(
    kind: str, subscriptions: Subscriptions, before: Sequence[Part], timed: Sequence[Part], due: np.ndarray
) -> SqlChoice:
    """The fastest variants of SQL with the default number of queries."""
    best: dict[int, tuple[float, tuple[str, bool]]] = {}
    shown: dict[int, list[str]] = {1: [], PART: []}
    for batch, variant, seconds in compare_sql_variants(subscriptions, before, timed, due):
        name = f"{variant[0]}{' with indexes' if variant[1] else ''}"
        shown[batch].append(f"{name} {'over limit' if seconds is None else f'{1e6 * seconds:,.0f} us'}")
        if seconds is not None:
            best[batch] = min(best.get(batch, (seconds, variant)), (seconds, variant))
    sql, _ = open_sql(subscriptions, ("pairs", False), (), before)
    overhead = sql.measure_overhead()
    sql.close()
    default = (0.0, ("pairs", False))
    choice = SqlChoice(best.get(1, default)[1], best.get(PART, default)[1])
    harness.print_line(
        f"- SQL, {kind}, {DEFAULT_QUERIES:,} queries, per document: one document at a time {', '.join(shown[1])}; "
        f"batches of {PART} {', '.join(shown[PART])}. A statement that reads no table takes {1e6 * overhead:,.0f} us."
    )
    return choice


def _repeat_as(points: Sequence[JoinsPoint], figure: str, other: str) -> JoinsPoint:
    """The last point of a figure as the one of Figure 14 or 15, which has the same parameters."""
    return replace([point for point in points if point.figure == figure][-1], figure=other)


def _split(figure: str, schema: Schema, subscriptions: Subscriptions, size: JoinsSize) -> Mapping[str, float]:
    times, bindings = pairs_of_documents(schema, list(subscriptions.chains), size.split_pairs)
    parts = {name: seconds / len(times) for name, seconds in split(subscriptions, times, bindings).items()}
    shown = ", ".join(f"{name} {1e6 * seconds:,.2f} us" for name, seconds in parts.items())
    harness.print_line(f"- {figure}, shared views, the kernel alone, {len(times)} documents, medians of 9: {shown}")
    return parts


def _measure_feeds(size: JoinsSize, report: harness.Report) -> Iterator[JoinsPoint]:
    """Measure items of feeds: five leaves and infinite windows, so every item is joined with all earlier ones. The last
    1,000 are timed."""
    bodies = list(items(size.items))
    choice = SqlChoice()
    for queries in size.feed_queries:
        drawn = Drawn(Schema.flat(len(LEAVES)), len(LEAVES), DEFAULT_ZIPF)
        subscriptions = drawn.subscriptions(queries)
        parts, reading = _read(bodies, list(subscriptions.chains))
        times: dict[str, Timing | None] = {}
        dues, rates, load_s = [], [], 0.0
        for name, views in VIEWS.items():
            joined, timing = join_parts(subscriptions, views, parts), Timing()
            for seconds in joined.join_s[-REPETITIONS:]:
                timing.add(seconds, PART)
            times[name] = timing
            dues.append(joined.due)
            load_s = load_s or sum(joined.load_s) / len(bodies)
            rates.append(f"{name} {len(bodies) / sum(joined.join_s):,.0f}")
            if name == "cached views":
                report.add(f"feed.{queries}.items_per_second", len(bodies) / (sum(joined.join_s) + sum(joined.load_s)))
        whole = _same(f"Figure 16 at {queries}", dues)
        due = whole[-REPETITIONS * PART :]
        before, timed = parts[:-REPETITIONS], parts[-REPETITIONS:]
        times[SEQUENTIAL] = time_sequential(subscriptions, before, timed, due, size.sequential_s)
        if size.sql_queries is None and queries == size.feed_queries[0]:
            choice = _choose_sql_for_feeds(bodies)
        if size.sql_queries is None or queries in size.sql_queries:
            times |= time_sql(subscriptions, choice, before, timed, due, size.sql_s, size.sql_repetitions)
        point = JoinsPoint(
            "Figure 16", queries, times, load_s, drawn.distinct, len(subscriptions.templates), int(due.sum())
        )
        harness.print_line(_line(point))
        harness.print_line(
            f"- Figure 16, {queries:,} queries, all {len(bodies):,} items: {', '.join(rates)} items/s joined, "
            f"{len(bodies) / reading:,.0f} items/s read, {int(whole.sum()):,} notifications"
        )
        harness.progress(f"Figure 16 at {queries:,}")
        yield point


def _choose_sql_for_feeds(bodies: Sequence[bytes]) -> SqlChoice:
    subscriptions = Drawn(Schema.flat(len(LEAVES)), len(LEAVES), DEFAULT_ZIPF).subscriptions(DEFAULT_QUERIES)
    parts, _ = _read(bodies, list(subscriptions.chains))
    due = join_parts(subscriptions, VIEWS["shared views"], parts).due[-REPETITIONS * PART :]
    return _choose_sql("feeds", subscriptions, parts[:-REPETITIONS], parts[-REPETITIONS:], due)


def _read(bodies: Sequence[bytes], chains: Sequence[NodeChain]) -> tuple[list[Part], float]:
    """The items as parts, and the seconds that the tree matcher takes to read them."""
    named = [NodeChain(chain.stream, _with_names(chain.tree), chain.height) for chain in chains]
    reader = ChainReader(compile_chains(named))
    parts, start = [], time.perf_counter()
    for begin in range(0, len(bodies), PART):
        some = bodies[begin : begin + PART]
        bindings, _ = reader.read(pa.array(some, pa.binary()), ["S"] * len(some))
        parts.append((np.arange(begin, begin + len(some), dtype=np.int64), bindings))
    return parts, time.perf_counter() - start


def _with_names(tree: str) -> str:
    for number, name in enumerate(LEAVES):
        tree = tree.replace(f"n_{number}", name)
    return tree
