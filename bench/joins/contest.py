"""Paper 3's Section 6, and more queries than it had: shared by template, and one query after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import harness
from bench.joins.charts import draw_all
from bench.joins.million import run as run_million
from bench.joins.sequential import list_rows, sequential
from bench.joins.split import split
from bench.joins.workload import Drawn, Schema, pairs_of_documents
from bench.trees.feeds import items
from perseid.engines.joins import layout as y
from perseid.engines.joins.graph import Chain
from perseid.engines.joins.index import ENDLESS, Subscriptions
from perseid.engines.joins.joiner import Bindings, Joiner
from perseid.engines.joins.reading import ChainReader

VIEWS = {"no views": y.NO_VIEWS, "shared views": y.SHARED, "cached views": y.CACHED}
LEAVES = ("item_url", "channel_url", "title", "timestamp", "description")
ROUNDS = 3


@dataclass(frozen=True)
class Size:
    """How much is done."""

    queries: tuple[int, ...]
    many: int
    """Queries where their number does not vary, and where the paper has 100,000."""
    pairs: int
    items: int
    feed_queries: tuple[int, ...]
    rival_items: int


SIZES = {
    "quick": Size((10, 100, 1_000, 10_000), 10_000, 20, 1_500, (100, 10_000), 200),
    "standard": Size((10, 100, 1_000, 10_000, 100_000), 100_000, 40, 20_000, (10, 100, 1_000, 10_000, 100_000), 200),
    "full": Size((10, 100, 1_000, 10_000, 100_000), 100_000, 100, 225_000, (10, 100, 1_000, 10_000, 100_000), 1_000),
}
DEFAULT_QUERIES, DEFAULT_LEAVES, DEFAULT_ZIPF, DEFAULT_JOINS = 1_000, 6, 0.8, 4


@dataclass(frozen=True)
class Point:
    """One place in a chart: seconds for a document, by who took them."""

    figure: str
    x: float
    seconds: dict[str, float]
    distinct: int
    templates: int
    found: int


def run(size: str, out: Path | None) -> harness.Report:
    report, chosen = harness.Report("joins", size), SIZES[size]
    points = []
    for part in (_two_levels(chosen), _three_levels(chosen), _views(chosen), _feeds(chosen, report)):
        for point in part:
            points.append(point)
            harness.say(_line(point))
    for figure, name in (("Figure 8", "flat"), ("Figure 11", "deep"), ("Figure 16", "feed")):
        last = [point for point in points if point.figure == figure][-1]
        ours = last.seconds.get("cached views, last items", last.seconds["cached views"])
        report.add(f"{name}.sequential", last.seconds["Sequential"] / ours)
    for figure, name in (("Figure 14", "flat"), ("Figure 15", "deep")):
        (point,) = (point for point in points if point.figure == figure)
        report.add(f"{name}.views", point.seconds["no views"] / point.seconds["cached views"])
    harness.say(_table(points))
    if out is not None:
        draw_all(points, out)
    run_million(size, report)
    return report


def _table(points: Sequence[Point]) -> str:
    """All points as Markdown: microseconds for a document."""
    names = list(dict.fromkeys(name for point in points for name in point.seconds))
    head = ["figure", "x", *names, "distinct", "templates", "found"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for point in points:
        taken = [f"{1e6 * point.seconds[name]:,.1f}" if name in point.seconds else "" for name in names]
        cells = [
            point.figure.split()[1],
            f"{point.x:,g}",
            *taken,
            *(f"{n:,}" for n in (point.distinct, point.templates, point.found)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _line(point: Point) -> str:
    shown = "  ".join(f"{name} {seconds * 1e6:,.1f} us" for name, seconds in point.seconds.items())
    return f"{point.figure:<10} {point.x:>10,g}  {shown}  ({point.distinct:,} distinct, {point.templates} templates, {point.found:,} found)"


def _two_levels(size: Size) -> Iterator[Point]:
    for queries in size.queries:
        yield _contest("Figure 8", queries, Schema.flat(DEFAULT_LEAVES), DEFAULT_LEAVES, DEFAULT_ZIPF, queries, size)
    for leaves in (4, 6, 8, 10, 12):
        yield _contest("Figure 9", leaves, Schema.flat(leaves), leaves, DEFAULT_ZIPF, DEFAULT_QUERIES, size)
    for zipf in (0.0, 0.4, 0.8, 1.2, 1.6):
        yield _contest("Figure 10", zipf, Schema.flat(DEFAULT_LEAVES), DEFAULT_LEAVES, zipf, DEFAULT_QUERIES, size)


def _three_levels(size: Size) -> Iterator[Point]:
    deep = Schema.three_levels()
    for queries in size.queries:
        yield _contest("Figure 11", queries, deep, DEFAULT_JOINS, DEFAULT_ZIPF, queries, size)
    for joins in (2, 3, 4, 5):
        yield _contest("Figure 12", joins, deep, joins, DEFAULT_ZIPF, DEFAULT_QUERIES, size)
    for zipf in (0.0, 0.4, 0.8, 1.2, 1.6):
        yield _contest("Figure 13", zipf, deep, DEFAULT_JOINS, zipf, DEFAULT_QUERIES, size)


def _views(size: Size) -> Iterator[Point]:
    for figure, schema, most in (
        ("Figure 14", Schema.flat(DEFAULT_LEAVES), DEFAULT_LEAVES),
        ("Figure 15", Schema.three_levels(), DEFAULT_JOINS),
    ):
        yield _contest(figure, size.many, schema, most, DEFAULT_ZIPF, size.many, size, tuple(VIEWS), rival=False)
        subscriptions = Drawn(schema, most, DEFAULT_ZIPF).subscriptions(size.many)
        times, bindings = pairs_of_documents(schema, list(subscriptions.chains), 10 * size.pairs)
        parts = split(subscriptions, times, bindings)
        shown = ", ".join(f"{name} {1e6 * seconds / len(times):,.2f} us" for name, seconds in parts.items())
        harness.say(f"{figure}  shared views, the kernel alone: {shown}")


def _contest(
    figure: str, x: float, schema: Schema, most: int, zipf: float, queries: int, size: Size,
    views: Sequence[str] = ("cached views",), rival: bool = True,
) -> Point:  # fmt: skip
    """The second document of each pair, after the first."""
    drawn = Drawn(schema, most, zipf)
    subscriptions = drawn.subscriptions(queries)
    times, bindings = pairs_of_documents(schema, list(subscriptions.chains), size.pairs)
    seconds, found = {}, set()
    for name in views:
        taken = []
        for turn in range(ROUNDS + 1):
            joiner = Joiner(subscriptions, VIEWS[name])
            joiner.index = subscriptions.compiled()
            start = time.perf_counter()
            joined = joiner.add(times, bindings)
            taken += [time.perf_counter() - start] if turn else []
            found.add(int(joined.rows[:, y.O_COUNT].sum()))
        seconds[name] = statistics.median(taken) / len(times)
    if rival:
        taken_by_rival, due = _sequentially(subscriptions, [(times, bindings)], [])
        seconds["Sequential"] = taken_by_rival / len(times)
        found.add(due)
    if len(found) != 1:
        raise AssertionError(f"{figure} at {x}: they found {found}")
    return Point(figure, x, seconds, drawn.distinct, len(subscriptions.templates), found.pop())


def _sequentially(
    subscriptions: Subscriptions,
    timed: Sequence[tuple[np.ndarray, Bindings]],
    before: Sequence[tuple[np.ndarray, Bindings]],
) -> tuple[float, int]:
    """The seconds that one query after the other takes for documents, those before not timed; and how much is due."""
    joiner = Joiner(subscriptions, y.CACHED, view_bytes=1 << 34)
    index = joiner.index = subscriptions.compiled()
    rows = [row for _, row in subscriptions.numbers]
    numbers = {template: i for i, template in enumerate(subscriptions.templates)}
    of = np.array([numbers[row.template] for row in rows], np.int64)
    paths = np.zeros((len(rows), 2 * max(len(row.asked) for row in rows)), np.int64)
    for i, row in enumerate(rows):
        for e, asked in enumerate(row.asked):
            assert asked.older is not None
            assert asked.newer is not None
            paths[i, 2 * e : 2 * e + 2] = subscriptions.chain(asked.older), subscriptions.chain(asked.newer)
    windows = np.full(len(rows), ENDLESS)
    for times, bindings in before:
        joiner.add(times, bindings)
    seconds, due = 0.0, 0
    sequential(index, joiner.store(), joiner.room(), of, paths, windows, 0, 0, 0)  # compiled before it is timed
    for times, bindings in timed:
        first = joiner.count
        joiner.append(times, bindings)
        store, room = joiner.store(), joiner.room()
        list_rows(store, room, len(joiner.heads))
        start = time.perf_counter()
        due += sequential(index, store, room, of, paths, windows, first, joiner.count, len(rows))
        seconds += time.perf_counter() - start
    return seconds, due


def _feeds(size: Size, report: harness.Report) -> Iterator[Point]:
    """Items of feeds: five leaves, windows without end, so that every item meets all before it."""
    bodies = list(items(size.items))
    for queries in size.feed_queries:
        drawn = Drawn(Schema.flat(len(LEAVES)), len(LEAVES), DEFAULT_ZIPF)
        subscriptions = drawn.subscriptions(queries)
        parts, reading = _read(bodies, list(subscriptions.chains))
        seconds, found = {}, set()
        for name, views in VIEWS.items():
            joiner, due = Joiner(subscriptions, views), 0
            start = time.perf_counter()
            for times, bindings in parts:
                due += int(joiner.add(times, bindings).rows[:, y.O_COUNT].sum())
            seconds[name] = (time.perf_counter() - start) / len(bodies)
            found.add(due)
        few = -(-size.rival_items // PART)
        mine, _ = _timed_last(subscriptions, parts, few)
        taken, _ = _sequentially(subscriptions, parts[-few:], parts[:-few])
        last = sum(len(times) for times, _ in parts[-few:])
        seconds["cached views, last items"], seconds["Sequential"] = mine / last, taken / last
        if len(found) != 1:
            raise AssertionError(f"Figure 16 at {queries}: they found {found}")
        report.add(f"feed.{queries}.items_per_second", 1 / seconds["cached views"])
        yield Point("Figure 16", queries, seconds, drawn.distinct, len(subscriptions.templates), found.pop())
        harness.progress(f"{queries:,} queries: {len(bodies) / reading:,.0f} items/s are read")


PART = 200
"""Items that come together."""


def _read(bodies: Sequence[bytes], chains: Sequence[Chain]) -> tuple[list[tuple[np.ndarray, Bindings]], float]:
    named = [Chain(chain.stream, _with_names(chain.tree), chain.height) for chain in chains]
    reader = ChainReader(named)
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


def _timed_last(
    subscriptions: Subscriptions, parts: Sequence[tuple[np.ndarray, Bindings]], few: int
) -> tuple[float, int]:
    joiner, due = Joiner(subscriptions, y.CACHED), 0
    for times, bindings in parts[:-few]:
        joiner.add(times, bindings)
    start = time.perf_counter()
    for times, bindings in parts[-few:]:
        due += int(joiner.add(times, bindings).rows[:, y.O_COUNT].sum())
    return time.perf_counter() - start, due
