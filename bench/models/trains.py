"""Measurements of railways: each query on its own model, with one injected error or repair per transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.harness import Report, print_line, progress
from bench.models import railway
from bench.models.measure import ModelPoint, TimedModel, table
from bench.models.railway_changes import NoErrorSiteError, RailwayEditor
from perseid.engines.models.ranks import in_order

CASE = "railway"
KINDS = ("inject", "repair")
NOTHING = "nothing of the kind could be done"


def measure(sizes: Sequence[int], updates: int, report: Report) -> list[ModelPoint]:
    """Measure every query at every size; the figures are those of the largest size."""
    points = []
    for size in sizes:
        initial = railway.of_size(size)
        for name in railway.QUERIES:
            progress(f"railway, size {size}, {name}")
            point = ModelPoint(CASE, name, size)
            watch = TimedModel(point, railway.queries(name), [name], initial)
            _work(watch, name, updates)
            watch.evaluate_from_scratch()
            points.append(point)
    _print(points)
    for point in points:
        if point.size == max(sizes):
            for kind in KINDS:
                report.add(f"railway.{point.query}.{kind}", point.against_fresh(kind), NOTHING)
                report.add(f"railway.{point.query}.{kind}.by_hand", point.against_hand(kind), NOTHING)
    return points


def _work(watch: TimedModel, name: str, updates: int) -> None:
    """Alternate one error and one repair, so that there is always a match to repair and the size of the model is
    constant."""
    editor = RailwayEditor(watch.model.graph)
    for _ in range(updates):
        try:
            watch.update("inject", editor.inject(name))
        except NoErrorSiteError:
            progress(f"railway, size {watch.point.size}, {name}: nothing left to break")
        standing = watch.model.matches[name].standing
        if standing:
            match = editor.rng.choice(list(in_order(standing)))
            watch.update("repair", editor.repair(name, match))


def _print(points: list[ModelPoint]) -> None:
    print_line(
        "\nRailways as in the Train Benchmark, the engine alone; medians of transactions with one error or repair each\n"
    )

    def shown(value: float | None, factor: float, form: str) -> str:
        return "-" if value is None else format(value * factor, form)

    columns: list[tuple[str, Callable[[ModelPoint], str]]] = [
        ("query", lambda point: point.query),
        ("size", lambda point: str(point.size)),
        ("nodes", lambda point: f"{point.elements:,}"),
        ("inject, µs", lambda point: shown(point.update("inject"), 1e6, ".0f")),
        ("repair, µs", lambda point: shown(point.update("repair"), 1e6, ".0f")),
        ("anew by hand, ms", lambda point: f"{1000 * min(point.by_hand):.2f}"),
        ("anew by the engine, ms", lambda point: f"{1000 * min(point.fresh):.0f}"),
        ("load, s", lambda point: f"{min(point.load):.2f}"),
        *(
            (f"{who} / {kind}", lambda point, kind=kind, ratio=ratio: shown(ratio(point, kind), 1, ",.0f"))
            for who, ratio in (("by hand", ModelPoint.against_hand), ("engine", ModelPoint.against_fresh))
            for kind in KINDS
        ),
    ]
    print_line("\n".join(table(sorted(points, key=lambda point: list(railway.QUERIES).index(point.query)), columns)))
