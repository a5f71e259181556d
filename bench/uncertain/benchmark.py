"""Paper 5's Section 4, and real walks: quality and speed of probabilistic matching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness
from bench.uncertain import charts, rooms, speed, wifi
from bench.uncertain import quality as q
from bench.uncertain.building import Motion
from bench.uncertain.scoring import TOLERANCE, interval

FINE_TAGS = 10
MOST_SAFE_TAGS = 50
"""Tags in Figure 14: the time of sampling grows faster than their number."""
TOLERANCES = (10, TOLERANCE, 60)
PAPER = {q.LIVE: "+16 precision, +11 recall, at most", q.ARCHIVED: "+20 precision, +47 recall at ρ 0.12"}
OURS = {q.LIVE: q.INDEPENDENT, q.ARCHIVED: q.MARKOV}
ALIKE = Motion(doors=dict.fromkeys(("office", "coffee", "lecture"), 0.2) | {"stairs": 0.3})
"""A model without a preference for coffee rooms: all doors have the same weight."""
SETUPS = {
    "as above": q.VariedSetting(),
    "read rate 0.45": q.VariedSetting(0.45),
    "read rate 0.3": q.VariedSetting(0.3),
    "doors alike": q.VariedSetting(motion=ALIKE),
    "doors alike, read rate 0.4": q.VariedSetting(0.4, ALIKE),
    "model thinks 0.65, is 0.4": q.VariedSetting(0.4, believed_rate=0.65),
}


@dataclass(frozen=True)
class UncertainSize:
    """Extent of the measurements."""

    seeds: int
    varied: int
    """Seeds for the varied settings; 0: no variation."""
    tags: tuple[int, ...]
    minutes: tuple[int, ...]
    """Lengths of traces for the safe plan."""
    kernel: tuple[int, int]
    """People and steps."""
    folds: int
    every: int
    """Interval of the queried regions of the walks: 1 for each, 2 for every second …"""
    rounds: int


SIZES = {
    "quick": UncertainSize(2, 0, (1, 10), (), (50, 400), 1, 4, 1),
    "standard": UncertainSize(20, 10, (1, 10, 25, 50, 100), (1, 2, 5, 10), (100, 1_000), 5, 1, 3),
    "full": UncertainSize(20, 20, (1, 5, 10, 25, 50, 75, 100), (1, 2, 5, 10, 20, 50), (200, 2_000), 5, 1, 5),
}


def run(size: str, out: Path | None) -> harness.Report:
    report, chosen = harness.Report("uncertain", size), SIZES[size]
    _quality(chosen, report, out)
    _rooms(report, out)
    _kernel(chosen, report)
    _throughput(chosen, report, out)
    _sizes(chosen, report, out)
    _safe(chosen, report, out)
    _walks(chosen, report)
    return report


# Figures 9 and 10 -------------------------------------------------------------------------------------------------------


def _quality(size: UncertainSize, report: harness.Report, out: Path | None) -> None:
    found = q.measure(q.VariedSetting(), range(size.seeds), tolerances=TOLERANCES)
    harness.progress(f"{size.seeds} traces of 72 minutes are scored")
    here = {one.name: found[one.name, TOLERANCE] for one in q.APPROACHES}
    best = {name: q.best(curves) for name, curves in here.items()}
    harness.print_line(_scores([one.name for one in q.APPROACHES], best, size.seeds))
    for when, baseline in q.BASELINES.items():
        ours = OURS[when]
        gained = q.gains(best[ours.name], best[baseline.name])
        name = "live" if when == q.LIVE else "archived"
        for measure, (mean, _) in gained.items():
            report.add(f"{name}.{measure}", mean)
        harness.print_line(f"\nPoints over the {baseline.name}, {when} (paper: {PAPER[when]}):")
        for one in (one for one in q.APPROACHES if one.when == when and not one.certain):
            harness.print_line(_gains(one.name, here[one.name], here[baseline.name]))
    hopping = here[q.HOPPING.name]
    harness.print_line(f"\nPoints over the {q.HOPPING.name}, real time:")
    for one in (q.INDEPENDENT, q.PARTICLE):
        harness.print_line(_gains(one.name, here[one.name], hopping))
    _paper_claims(here)
    _split(best)
    _tolerances(found)
    if out is not None:
        for when, number in ((q.LIVE, 9), (q.ARCHIVED, 10)):
            names = [one.name for one in q.APPROACHES if one.when == when]
            rows = [
                {"who": name, "measure": measure, "rho": float(rho), "value": float(value)}
                for name in names
                for measure, values in _measures(here[name]).items()
                for rho, value, found in zip(q.THRESHOLDS, values, here[name].recall.mean(axis=0), strict=True)
                if found > 0 or measure != "precision"  # with no detection, none is right or wrong
            ]
            charts.draw_quality(rows, f"Coffee, {when} (Figure {number})", out / f"uncertain-{number}.svg")
    if size.varied:
        _varied(size)


def _measures(curves: q.Curves) -> dict[str, Any]:
    return {
        "precision": curves.precision.mean(axis=0),
        "recall": curves.recall.mean(axis=0),
        "F1": curves.f1.mean(axis=0),
    }


def _plus(gain: tuple[float, float]) -> str:
    mean, apart = gain
    return f"{mean:+.1f}" + (f" ± {apart:.1f}" if np.isfinite(apart) else "")


def _scores(names: Sequence[str], best: Mapping[str, q.Best], seeds: int) -> str:
    lines = [f"\n| {seeds} traces | ρ | precision | recall | F1 |", "|---|---|---|---|---|"]
    for name in names:
        cells = [interval(100 * getattr(best[name], one)) for one in ("precision", "recall", "f1")]
        certain = name in charts.CERTAIN
        shown = " | ".join(_plus(cell).removeprefix("+") for cell in cells)
        lines.append(f"| {name} | {'' if certain else f'{best[name].threshold:g}'} | {shown} |")
    return "\n".join(lines)


def _gains(name: str, ours: q.Curves, theirs: q.Curves) -> str:
    gained, even = q.gains(q.best(ours), q.best(theirs)), q.gains_at_equal(ours, theirs)
    fixed = q.gains_at(ours, theirs, 0.12)
    return (
        f"- {name}: at its best ρ (ours) "
        + ", ".join(f"{measure} {_plus(gain)}" for measure, gain in gained.items())
        + f"; at ρ 0.12 precision {_plus(fixed['precision'])}, recall {_plus(fixed['recall'])}"
        + f"; precision {even['precision']:+.1f} at no less recall, recall {even['recall']:+.1f} at no less precision"
    )


def _paper_claims(here: Mapping[str, q.Curves]) -> None:
    """Compare the paper's measures and claims with ours: maximum over ρ in [0.1, 0.5], F1 over all ρ, MAP's recall."""
    harness.print_line(
        "\nThe paper's measure: the most points that a mean is better by at any ρ in [0.1, 0.5], and at which ρ"
    )
    harness.print_line("\n| over | who | precision | recall | F1 | the paper |\n|---|---|---|---|---|---|")
    for when, baseline in q.BASELINES.items():
        for one in (one for one in q.APPROACHES if one.when == when and not one.certain):
            found = q.max_gains(here[one.name], here[baseline.name])
            cells = " | ".join(f"{a.points:+.1f} (ρ {a.threshold:g}, recall {a.recall:.0f})" for a in found.values())
            harness.print_line(
                f"| {baseline.name} | {one.name} | {cells} | {PAPER[when] if one == OURS[when] else ''} |"
            )
    markov, viterbi = (100 * here[one.name].f1.mean(axis=0) for one in (q.MARKOV, q.MAP))
    above = markov > viterbi
    shown = ", ".join(f"{rho:g}" for rho in q.THRESHOLDS[~above]) or "none"
    harness.print_line(
        f"\nThe paper: Markov has a higher F1 than the most likely path over all ρ in [0, 0.5]. Here: at {above.sum()} of "
        f"{len(above)} values of ρ; lower or equal at: {shown}. At ρ 0.5: {markov[-1]:.1f} against {viterbi[-1]:.1f}."
    )
    for one in (q.MLE, q.HOPPING):
        apart = interval(100 * (here[q.MAP.name].recall[:, 0] - here[one.name].recall[:, 0]))
        harness.print_line(
            f"The paper: the most likely path has a lower recall than the most likely place. Here: {_plus(apart)} points "
            f"against the {one.name}."
        )


def _split(best: Mapping[str, q.Best]) -> None:
    """Print the gain of smoothing, and the further gain of correlations."""
    steps = (q.INDEPENDENT, q.SMOOTHED, q.MARKOV)
    harness.print_line("\nThe archived gain, split:")
    for before, after, what in ((steps[0], steps[1], "smoothing"), (steps[1], steps[2], "correlations")):
        gained = q.gains(best[after.name], best[before.name])
        harness.print_line(f"- {what}: " + ", ".join(f"{measure} {_plus(gain)}" for measure, gain in gained.items()))


def _tolerances(found: Mapping[tuple[str, int], q.Curves]) -> None:
    harness.print_line(f"\n| F1 within | {' | '.join(f'{d} s' for d in TOLERANCES)} |\n|---|{'---|' * len(TOLERANCES)}")
    for one in q.APPROACHES:
        cells = [_plus(interval(100 * q.best(found[one.name, d]).f1)).removeprefix("+") for d in TOLERANCES]
        harness.print_line(f"| {one.name} | {' | '.join(cells)} |")


def _varied(size: UncertainSize) -> None:
    """Vary the setting to explain the gains: antennas that read less, a model with less knowledge, or a wrong one."""
    some = (q.INDEPENDENT, q.MLE, q.HOPPING, q.MARKOV, q.MAP)
    harness.print_line(f"\nGains at the best ρ when the setting is varied, {size.varied} traces each:\n")
    harness.print_line(
        "| setting | real time precision | recall | F1 | archived precision | recall | F1 | MLE P / R | MAP P / R |"
    )
    harness.print_line("|---|---|---|---|---|---|---|---|---|")
    for name, setup in SETUPS.items():
        found = q.measure(setup, range(size.varied), some)
        best = {one.name: q.best(found[one.name, TOLERANCE]) for one in some}
        cells = [
            _plus(gain)
            for when in q.BASELINES
            for gain in q.gains(best[OURS[when].name], best[q.BASELINES[when].name]).values()
        ]
        for baseline in (q.MLE, q.MAP):
            own = best[baseline.name]
            cells.append(f"{100 * own.precision.mean():.0f} / {100 * own.recall.mean():.0f}")
        harness.print_line(f"| {name} | {' | '.join(cells)} |")
        harness.progress(f"varied: {name}")


# Figure 11 --------------------------------------------------------------------------------------------------------------


def _rooms(report: harness.Report, out: Path | None) -> None:
    drawn = rooms.lines()
    harness.print_line(
        f"\nFigure 11: the highest probability of having been in the room for k seconds, {rooms.ROOMS} rooms alike"
    )
    names = list(dict.fromkeys(line.approach for line in drawn))
    harness.print_line(f"| | {' | '.join(f'k = {k}' for k in rooms.SECONDS)} |\n|---|{'---|' * len(rooms.SECONDS)}")
    highest = {(line.approach, line.k): float(line.probability.max()) for line in drawn}
    for name in names:
        harness.print_line(f"| {name} | {' | '.join(f'{highest[name, k]:.3g}' for k in rooms.SECONDS)} |")
    report.add("rooms.markov_against_independent", highest[q.MARKOV.name, 3] / highest[q.SMOOTHED.name, 3])
    if out is not None:
        rows = [
            {"who": line.approach, "k": line.k, "second": second, "value": float(value)}
            for line in drawn
            for second, value in enumerate(line.probability)
        ]
        charts.draw_rooms(rows, out / "uncertain-11.svg")


# Speed ------------------------------------------------------------------------------------------------------------------


def _kernel(size: UncertainSize, report: harness.Report) -> None:
    harness.print_line("\n| 20 places, one core | tuples/s | steps/s |\n|---|---|---|")
    figures = {
        "independent rows, kernel": "kernel.tuples_per_second",
        "independent rows, reading and kernel": "engine.tuples_per_second",
        "readings, kernel": "readings.tuples_per_second",
    }
    for rate in speed.kernel_rates(*size.kernel, rounds=size.rounds):
        harness.print_line(f"| {rate.name} | {rate.per_second:,.0f} | {rate.effective:,.0f} |")
        if rate.name in figures:
            report.add(figures[rate.name], rate.per_second)
    harness.progress("the kernel is timed")


def _throughput(size: UncertainSize, report: harness.Report, out: Path | None) -> None:
    points = []
    harness.print_line("\n| figure | query | tags | who | tuples/s | effective objects/s | seconds | without reading |")
    harness.print_line("|---|---|---|---|---|---|---|---|")
    for point in speed.throughputs(size.tags, size.rounds):
        points.append(point)
        for who, rate in point.whole.items():
            alone = f"{point.engine[who]:.4f}" if who in point.engine else ""
            harness.print_line(
                f"| {point.figure.split()[1]} | {point.query} | {point.tags} | {who} | {rate.per_second:,.0f} | "
                f"{rate.effective:,.0f} | {rate.seconds:.4f} | {alone} |"
            )
    harness.progress("Figures 12 and 13 are timed")
    most = max(size.tags)
    harness.print_line(
        f"\nExact against sampling (ε = δ = 0.1), {most} tags: how many times as long sampling takes\n\n"
        "| | query | steps that lie prepared | end to end, match |\n|---|---|---|---|"
    )
    for point in (point for point in points if point.tags == most):
        when = "real time" if point.figure == "Figure 12" else "archived"
        harness.print_line(
            f"| {when} | {point.query} | {point.engine_against_sampling:.1f} | {point.against_sampling:.1f} |"
        )
    for point in (point for point in points if point.tags == most):
        name = f"{'live' if point.figure == 'Figure 12' else 'archived'}.{point.query}"
        report.add(f"{name}.sampling", point.engine_against_sampling)
        report.add(f"{name}.sampling_whole", point.against_sampling)
        baseline = "most likely place" if point.figure == "Figure 12" else "most likely path"
        report.add(f"{name}.guess_whole", point.whole[baseline].seconds / point.whole["Perseid"].seconds)
    harness.print_line(
        f"\nlive.*, archived.*: {most} tags for {speed.SECONDS} s; live.Q2.sampling_at_0.01: {FINE_TAGS} tags."
    )
    fine = speed.fine_sampling(FINE_TAGS)
    harness.print_line(
        f"\nSampling as finely as 0.01 takes {fine:,.0f} times the seconds of the exact answer, without reading (Q2, {FINE_TAGS} tags)."
    )
    report.add("live.Q2.sampling_at_0.01", fine)
    if out is not None:
        for figure in ("Figure 12", "Figure 13"):
            rows = [
                {"who": who, "panel": point.query, "x": point.tags, "tuples/s": r.per_second, "objects/s": r.effective}
                for point in points
                if point.figure == figure
                for who, r in point.whole.items()
            ]
            title = f"{'Real time' if figure == 'Figure 12' else 'Archived'}, reading included ({figure})"
            path = out / f"uncertain-{figure.split()[1]}.svg"
            charts.draw_speed(rows, title, "tags", path, ("tuples/s", "objects/s"))


def _sizes(size: UncertainSize, report: harness.Report, out: Path | None) -> None:
    tags = 50 if size.varied else 10
    sizes = speed.query_sizes(tags, size.rounds)
    harness.print_line(
        f"\nA minute of {tags} tags takes so many seconds:\n\n| subgoals | real time | archived |\n|---|---|---|"
    )
    for one in sizes:
        harness.print_line(f"| {one.subgoals} | {one.live:.3f} | {one.archived:.3f} |")
    harness.print_line(f"\nsubgoals.6.*: {tags} tags for {speed.SECONDS} s.")
    report.add("subgoals.6.live", speed.SECONDS / sizes[-1].live)
    report.add("subgoals.6.archived", speed.SECONDS / sizes[-1].archived)
    if out is not None:
        rows = [
            {"who": who, "panel": f"{tags} tags", "x": one.subgoals, "seconds": taken}
            for one in sizes
            for who, taken in (("real time", one.live), ("archived", one.archived))
        ]
        charts.draw_speed(rows, "Seconds for a minute", "subgoals", out / "uncertain-size.svg", ("seconds",))


def _safe(size: UncertainSize, report: harness.Report, out: Path | None) -> None:
    numbers = [tags for tags in size.tags if 1 < tags <= MOST_SAFE_TAGS]
    points = speed.safe_points(numbers, [60 * minutes for minutes in size.minutes])
    harness.print_line(
        "\nFigure 14. Safe variant: kind = 'even' twice, then 'odd'. The paper's: At(p); At(p); At(q), which is Unsafe here.\n\n"
        "| tags | seconds of trace | tuples | Safe variant, plan, tuples/s | Safe variant, sampled | the paper's, sampled |\n"
        "|---|---|---|---|---|---|"
    )
    for point in points:
        rates = " | ".join(f"{point.tuples / taken:,.0f}" for _, taken in _ways(point))
        harness.print_line(f"| {point.tags} | {point.seconds} | {point.tuples:,} | {rates} |")
    by_tags, longer = points[: len(numbers)], points[len(numbers) :]
    last = by_tags[-1]
    harness.print_line(f"\nsafe.sampling_whole: {last.tags} tags for {last.seconds} s.")
    report.add("safe.sampling_whole", last.sampling / last.plan)
    if out is None:
        return
    for some, panel, axis, letter in (
        (by_tags, "a minute of trace", "tags", "a"),
        (longer, "10 tags", "minutes of trace", "b"),
    ):
        rows = [
            {
                "who": who,
                "panel": panel,
                "x": point.tags if letter == "a" else point.seconds / 60,
                "tuples/s": point.tuples / taken,
            }
            for point in some
            for who, taken in _ways(point)
        ]
        if rows:
            path = out / f"uncertain-14{letter}.svg"
            charts.draw_speed(
                rows, f"A Safe query, and the printed one (Figure 14 {letter})", axis, path, ("tuples/s",)
            )


def _ways(point: speed.SafePoint) -> list[tuple[str, float]]:
    return [("safe plan", point.plan), ("sampling", point.sampling), ("the paper's, sampling", point.printed)]


# Walks ------------------------------------------------------------------------------------------------------------------


def _walks(size: UncertainSize, report: harness.Report) -> None:
    if not wifi.has_data():
        harness.print_line("\nThe Wi-Fi walks are not on this machine: left out (PERSEID_DATA says where they are).")
        return
    found, regions, entered = wifi.measure(size.folds, size.every)
    walks = len(next(iter(found.values())).precision)
    harness.print_line(
        f"\n{walks} real walks, {regions} regions, {entered} entries; F1 at the best ρ of the other walks:\n"
    )
    harness.print_line(
        f"| within | {' | '.join(f'{d} samples' for d in wifi.TOLERANCES)} | precision, recall at {wifi.TOLERANCES[0]} |"
    )
    harness.print_line(f"|---|{'---|' * (len(wifi.TOLERANCES) + 1)}")
    for one in wifi.APPROACHES:
        best = {d: q.best(found[one.name, d]) for d in wifi.TOLERANCES}
        cells = [_plus(interval(100 * best[d].f1)).removeprefix("+") for d in wifi.TOLERANCES]
        first = best[wifi.TOLERANCES[0]]
        cells.append(f"{100 * first.precision.mean():.1f}, {100 * first.recall.mean():.1f}")
        harness.print_line(f"| {one.name} | {' | '.join(cells)} |")
    for ours, theirs, name in ((q.FILTERED, q.MLE, "live"), (q.MARKOV, q.MAP, "archived")):
        for d in wifi.TOLERANCES:
            gained = q.gains(q.best(found[ours.name, d]), q.best(found[theirs.name, d]))
            shown = ", ".join(f"{measure} {_plus(gain)}" for measure, gain in gained.items())
            harness.print_line(f"- {ours.name} over {theirs.name}, within {d}: {shown}")
            report.add(f"walks.{name}.f1.within_{d}", gained["f1"][0])
    harness.progress("walks are scored")
