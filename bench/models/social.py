"""Measurements of the social media case: twenty change sets at each size, each query alone and both together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.harness import Report, print_line, progress
from bench.models import ttc
from bench.models.measure import ModelPoint, ResultMismatchError, TimedModel, table

CASE = "social media"
WANTED = {"Q1": 0.001, "Q2": 0.002}
"""Maximum seconds of the median update at the largest size."""
OTHERS = """Saved figures of other tools, median update: another machine (the contest's, 2021) and a model 16 times our largest
(scale 1024), so they stand here to give a scale and not as rivals of this run.

| tool | Q1 | Q2 |
|---|---|---|
| YAMTL incremental | 0.42 ms | 0.55 ms |
| AOF | 0.63 ms | 0.52 ms |
| NMF incremental | 0.71 ms | 3.7 ms |
| differential dataflow, 1 worker | 0.85 ms | 1.5 ms |
| Neo4j incremental | 16 ms | - |
| differential Datalog | 22 ms | 699 ms |
| GraphBLAS incremental, 1 thread | 26 ms | 0.78 ms |
| PostgreSQL incremental | 197 ms | - |
"""


def measure(sizes: Sequence[int], rounds: int, report: Report) -> list[ModelPoint]:
    """Measure every size ``rounds`` times, load included; the figures are those of the largest size."""
    if not ttc.ARCHIVE.exists():
        for query in WANTED:
            report.add(f"social.{query}.in_time", None, "the data is not on this machine (PERSEID_DATA)")
            report.add(f"social.{query}.steady", None, "the data is not on this machine (PERSEID_DATA)")
        report.add("social.load_in_five_seconds", None, "the data is not on this machine (PERSEID_DATA)")
        return []
    points = []
    for size in sizes:
        progress(f"social media, size {size}")
        case = ttc.read([size])[size]
        points += [_point(which, size, case, rounds) for which in ttc.TEXTS]
    _print(points)
    for query, seconds in WANTED.items():
        own = [point for point in points if point.query == query]
        first, last = own[0].update("change set"), own[-1].update("change set")
        assert first is not None
        assert last is not None
        report.add(f"social.{query}.in_time", seconds / last)
        report.add(f"social.{query}.steady", first / last)
        report.add(f"social.{query}.by_hand", own[-1].against_hand("change set"))
    both = [point for point in points if point.query == "Q1 and Q2"][-1]
    report.add("social.load_in_five_seconds", 5 / min(both.load))
    return points


def _point(which: str, size: int, case: ttc.Case, rounds: int) -> ModelPoint:
    point = ModelPoint(CASE, which, size)
    names = [query for query in case.right if query in which]
    for _ in range(rounds):
        watch = TimedModel(point, ttc.queries(which), [name.lower() for name in names], case.initial)
        _check(watch, case, names)
        for changes in case.changes:
            watch.update("change set", changes)
            _check(watch, case, names)
    watch.evaluate_from_scratch()
    return point


def _check(watch: TimedModel, case: ttc.Case, names: list[str]) -> None:
    model, number = watch.model, watch.time - 1
    for name in names:
        found = ttc.first_three(model.matches[name.lower()].standing, model.graph)
        if found != case.right[name][number]:
            raise ResultMismatchError(f"{name}, size {watch.point.size}, after {number} sets of changes: {found}")


def _print(points: list[ModelPoint]) -> None:
    print_line("\nSocial media case (TTC 2018), the engine alone; medians over all sets of changes\n")
    columns: list[tuple[str, Callable[[ModelPoint], str]]] = [
        ("query", lambda point: point.query),
        ("size", lambda point: str(point.size)),
        ("nodes", lambda point: f"{point.elements:,}"),
        ("update, ms", lambda point: f"{1000 * (point.update('change set') or 0):.3f}"),
        ("anew by hand, ms", lambda point: f"{1000 * min(point.by_hand):.2f}"),
        ("anew by the engine, ms", lambda point: f"{1000 * min(point.fresh):.0f}"),
        ("load, s", lambda point: f"{min(point.load):.2f}"),
        ("by hand / update", lambda point: f"{point.against_hand('change set') or 0:,.1f}"),
        ("engine / update", lambda point: f"{point.against_fresh('change set') or 0:,.0f}"),
    ]
    print_line("\n".join(table(points, columns)))
    print_line("\n" + OTHERS)
