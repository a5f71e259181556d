"""The claims of paper 3's Section 6, each with the figures of a run and whether it holds there.

The paper's MMQJP in Figures 8 to 13 is "no views". Where the paper has words instead of numbers, each claim names the bound
that it is tested with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.joins.measurement import SEQUENTIAL, SQL, SQL_BATCHES, VIEWS, Timing

NO_VIEWS, SHARED, CACHED = VIEWS
ALIKE, ORDERS, MUCH, SIX, TWO, LITTLE, FLAT = 2.0, 100.0, 10.0, (4.0, 9.0), 1.5, 1.5, 1.3


class MeasuredPoint(Protocol):
    """A point of a figure."""

    @property
    def figure(self) -> str: ...

    @property
    def x(self) -> float: ...

    @property
    def times(self) -> Mapping[str, Timing | None]: ...

    @property
    def read_s(self) -> float | None: ...


@dataclass(frozen=True)
class JoinClaim:
    """A claim of the paper with its bound, the figures that decide it, and its verdict."""

    figure: str
    text: str
    figures: str
    holds: bool

    def line(self) -> str:
        """The claim as a row of a Markdown table."""
        return f"| {self.figure} | {self.text} | {self.figures} | {'holds' if self.holds else '**does not hold**'} |"


HEAD = "| figure | claim | in this run | |\n|---|---|---|---|"


def check(points: Sequence[MeasuredPoint], splits: Mapping[str, Mapping[str, float]]) -> Iterator[JoinClaim]:
    """Check all claims that have measured points, by figure."""
    return iter(sorted(_checked(points, splits), key=lambda claim: int(claim.figure.split(",")[0])))


def _checked(points: Sequence[MeasuredPoint], splits: Mapping[str, Mapping[str, float]]) -> Iterator[JoinClaim]:
    by_figure: dict[str, list[MeasuredPoint]] = {}
    for point in points:
        by_figure.setdefault(point.figure.split()[1], []).append(point)
    for figure, claims in _CLAIMS.items():
        if figure in by_figure:
            for claim in claims:
                if made := claim(by_figure[figure]):
                    yield made
    for figure in ("14", "15"):
        if figure in splits:
            yield _views_are_small(figure, splits[figure])
    if "14" in by_figure and "15" in by_figure:
        yield _views_help_more(by_figure["14"], by_figure["15"])


def slower(points: Sequence[MeasuredPoint]) -> Iterator[str]:
    """For each method of ours: the points where a baseline is faster."""
    for baseline in (SEQUENTIAL, SQL, SQL_BATCHES):
        for method in VIEWS:
            found = [
                f"Figure {point.figure.split()[1]} at {point.x:,g} ({_ratio(point, method, baseline):.1f} times)"
                for point in points
                if point.times.get(baseline) and _ratio(point, method, baseline) > 1
            ]
            some = sum(1 for point in points if point.times.get(baseline))
            yield f"- {method} slower than {baseline}: {', '.join(found) or 'nowhere'}; {some} points compared."


def _median(point: MeasuredPoint, method: str) -> float:
    timing = point.times[method]
    assert timing is not None
    return timing.median


def _ratio(point: MeasuredPoint, one: str, other: str) -> float:
    return _median(point, one) / _median(point, other)


def _growth(points: Sequence[MeasuredPoint], method: str) -> float:
    """Cost at the last point divided by the cost at the first."""
    return _median(points[-1], method) / _median(points[0], method)


def _gains(point: MeasuredPoint) -> str:
    return ", ".join(f"{name} {_ratio(point, SEQUENTIAL, name):,.1f}" for name in VIEWS)


def _similar_at_small_sizes(figure: str) -> Callable[[Sequence[MeasuredPoint]], JoinClaim]:
    def claim(points: Sequence[MeasuredPoint]) -> JoinClaim:
        ratio = _ratio(points[0], SEQUENTIAL, NO_VIEWS)
        return JoinClaim(
            figure,
            f"With few queries MMQJP and Sequential do not differ much (within a factor of {ALIKE:g})",
            f"{points[0].x:,g} queries, Sequential by ours: {_gains(points[0])}",
            1 / ALIKE <= ratio <= ALIKE,
        )

    return claim


def _two_orders(figure: str) -> Callable[[Sequence[MeasuredPoint]], JoinClaim]:
    def claim(points: Sequence[MeasuredPoint]) -> JoinClaim:
        return JoinClaim(
            figure,
            f"With many queries MMQJP is two orders of magnitude faster than Sequential (at least {ORDERS:g} times)",
            f"{points[-1].x:,g} queries, Sequential by ours: {_gains(points[-1])}",
            _ratio(points[-1], SEQUENTIAL, NO_VIEWS) >= ORDERS,
        )

    return claim


def _leaves(points: Sequence[MeasuredPoint]) -> JoinClaim:
    ours, theirs = _growth(points, NO_VIEWS), _growth(points, SEQUENTIAL)
    return JoinClaim(
        "9",
        f"Both cost about 6 times as much with 12 leaves as with 4 ({SIX[0]:g} to {SIX[1]:g} times)",
        f"no views {ours:.1f} times, Sequential {theirs:.1f} times",
        all(SIX[0] <= each <= SIX[1] for each in (ours, theirs)),
    )


def _zipf_ours(points: Sequence[MeasuredPoint]) -> JoinClaim:
    medians = [_median(point, NO_VIEWS) for point in points]
    return JoinClaim(
        "10",
        f"The Zipf parameter has little impact on MMQJP (largest by smallest below {LITTLE:g})",
        f"no views, largest by smallest: {max(medians) / min(medians):.2f}",
        max(medians) / min(medians) < LITTLE,
    )


def _zipf_theirs(points: Sequence[MeasuredPoint]) -> JoinClaim:
    gain = 1 / _growth(points, SEQUENTIAL)
    return JoinClaim(
        "10",
        f"Sequential is twice as fast with Zipf parameter 1.6 as with 0 (at least {TWO:g} times)",
        f"Sequential {gain:.2f} times as fast",
        gain >= TWO,
    )


def _more_than_linear(points: Sequence[MeasuredPoint]) -> JoinClaim:
    more = points[-1].x / points[0].x
    ours, theirs = _growth(points, NO_VIEWS), _growth(points, SEQUENTIAL)
    return JoinClaim(
        "11",
        "Both costs grow more than linearly with the number of queries",
        f"{more:,g} times the queries: no views {ours:,.1f} times, Sequential {theirs:,.1f} times the cost",
        min(ours, theirs) > more,
    )


def _most_joins(points: Sequence[MeasuredPoint]) -> JoinClaim:
    ours, theirs = _growth(points, NO_VIEWS), _growth(points, SEQUENTIAL)
    return JoinClaim(
        "12",
        "The cost of MMQJP grows faster with K than that of Sequential",
        f"K = {points[0].x:g} to {points[-1].x:g}: no views {ours:.2f} times, Sequential {theirs:.2f} times",
        ours > theirs,
    )


def _zipf_three_levels(points: Sequence[MeasuredPoint]) -> JoinClaim:
    spread = {}
    for method in (NO_VIEWS, SEQUENTIAL):
        medians = [_median(point, method) for point in points]
        spread[method] = max(medians) / min(medians)
    return JoinClaim(
        "13",
        "The Zipf parameter has a larger impact on Sequential than on MMQJP (largest by smallest)",
        f"no views {spread[NO_VIEWS]:.2f}, Sequential {spread[SEQUENTIAL]:.2f}",
        spread[SEQUENTIAL] > spread[NO_VIEWS],
    )


def _views_are_small(figure: str, split: Mapping[str, float]) -> JoinClaim:
    views = split["Rvj"] + split["RL and RR"]
    return JoinClaim(
        figure,
        "Computing Rvj, RL and RR costs little beside the template queries (below a fifth)",
        f"{1e6 * views:.2f} us beside {1e6 * split['template queries']:.2f} us per document",
        views < 0.2 * split["template queries"],
    )


def _views_help(figure: str) -> Callable[[Sequence[MeasuredPoint]], JoinClaim]:
    def claim(points: Sequence[MeasuredPoint]) -> JoinClaim:
        return JoinClaim(
            figure,
            f"Views help greatly (at least {TWO:g} times)",
            f"no views by shared views {_ratio(points[-1], NO_VIEWS, SHARED):.2f}, "
            f"by cached views {_ratio(points[-1], NO_VIEWS, CACHED):.2f}",
            _ratio(points[-1], NO_VIEWS, SHARED) >= TWO,
        )

    return claim


def _views_help_more(flat: Sequence[MeasuredPoint], deep: Sequence[MeasuredPoint]) -> JoinClaim:
    one, other = (_ratio(points[-1], NO_VIEWS, SHARED) for points in (flat, deep))
    return JoinClaim(
        "14, 15",
        "Views help more with three levels, where there are more templates",
        f"no views by shared views: two levels {one:.2f}, three levels {other:.2f}",
        other > one,
    )


def _much_faster(points: Sequence[MeasuredPoint]) -> JoinClaim:
    return JoinClaim(
        "16",
        f"With many queries the throughput of MMQJP is far above that of Sequential (at least {MUCH:g} times)",
        f"{points[-1].x:,g} queries, Sequential by ours: {_gains(points[-1])}",
        _ratio(points[-1], SEQUENTIAL, NO_VIEWS) >= MUCH,
    )


def _reading_is_cheap(points: Sequence[MeasuredPoint]) -> JoinClaim | None:
    point = points[-1]
    if point.read_s is None:
        return None
    least = min(_median(point, name) for name in (*VIEWS, SEQUENTIAL))
    return JoinClaim(
        "16",
        "Reading the documents takes significantly less time than joining them with any method (below a half)",
        f"{point.x:,g} queries: reading {1e6 * point.read_s:.1f} us, no views {1e6 * _median(point, NO_VIEWS):.1f} us, "
        f"the fastest method {1e6 * least:.1f} us per document",
        point.read_s < 0.5 * least,
    )


def _stays_flat(points: Sequence[MeasuredPoint]) -> JoinClaim | None:
    late = [point for point in points if point.x >= 10_000]
    if len(late) < 2:
        return None
    spread = {
        name: max(_median(point, name) for point in late) / min(_median(point, name) for point in late)
        for name in VIEWS
    }
    return JoinClaim(
        "16",
        f"The throughput of MMQJP stays flat from 10,000 queries on (within a factor of {FLAT:g})",
        "slowest by fastest: " + ", ".join(f"{name} {each:.2f}" for name, each in spread.items()),
        max(spread.values()) < FLAT,
    )


def _views_help_feeds(points: Sequence[MeasuredPoint]) -> JoinClaim:
    gains = [_ratio(point, NO_VIEWS, SHARED) for point in points]
    return JoinClaim(
        "16",
        "Views raise the throughput further",
        f"no views by shared views: {min(gains):.2f} to {max(gains):.2f}",
        min(gains) > 1,
    )


def _slices_help(points: Sequence[MeasuredPoint]) -> JoinClaim:
    gains = [_ratio(point, SHARED, CACHED) for point in points]
    return JoinClaim(
        "16",
        "Cached slices of RL would raise it further (the paper's expectation)",
        f"shared views by cached views: {min(gains):.2f} to {max(gains):.2f}",
        min(gains) > 1,
    )


_CLAIMS: dict[str, tuple[Callable[[Sequence[MeasuredPoint]], JoinClaim | None], ...]] = {
    "8": (_similar_at_small_sizes("8"), _two_orders("8")),
    "9": (_leaves,),
    "10": (_zipf_ours, _zipf_theirs),
    "11": (_more_than_linear, _two_orders("11")),
    "12": (_most_joins,),
    "13": (_zipf_three_levels,),
    "14": (_views_help("14"),),
    "15": (_views_help("15"),),
    "16": (_much_faster, _stays_flat, _views_help_feeds, _slices_help, _reading_is_cheap),
}
