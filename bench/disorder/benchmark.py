"""Paper 4's experiment: its methods event by event, INFA-HTS by hash bits, and the product's engines in calls."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from bench.disorder import measurements as m
from bench.disorder import printed
from bench.disorder.calls import run_calls
from bench.disorder.claims import GROUPS, check_claims
from bench.disorder.measurements import MethodMeasurement
from bench.disorder.methods import METHODS, SHARED, STACKS, PreparedStream, run_method
from bench.disorder.workload import (
    COLUMNS,
    DELAY,
    PATTERN,
    TAGS,
    UNIT,
    WITHOUT_NEGATION,
    Quality,
    RunOutput,
    Stream,
    events_of,
    expected_matches,
    make_stream,
    name_of,
)
from bench.harness import Clock, Record, Report, Side, Timed, paired_ratio, print_line, progress, run_rounds
from perseid.runtime.registry import engines

COUNTS = {"quick": 10_000, "standard": 100_000, "full": 1_000_000}
CALLED = {"quick": 10_000, "standard": 100_000, "full": 100_000}
"""Events for the engines."""
ROUNDS = {"quick": 3, "standard": 7, "full": 5}
DENSE_ROUNDS = {"quick": 1, "standard": 3, "full": 3}
CALL_ROUNDS = {"quick": 1, "standard": 3, "full": 3}
WARM_UP_EVENTS = 2_000
"""Of a stream that each engine gets before it is timed."""
LIMITS = {"quick": (55.0, 20.0), "standard": (1800.0, 120.0), "full": (3600.0, 240.0)}
DISORDER = {"quick": (0, 20, 50), "standard": (0, 10, 20, 30, 40, 50), "full": (0, 10, 20, 30, 40, 50)}
DENSE_DISORDER = {"quick": (), "standard": (0, 20, 50), "full": (0, 10, 20, 30, 40, 50)}
"""Percentages at the higher rate, which has many more matches."""
RATE, DENSE_RATE = 1.0, 1.5
"""Reads of a tag in a time unit."""
CALLS = (1_000, 10_000)
"""Arrivals in a call of an engine."""
STRATEGIES = {
    "buffer": "sequence",
    "assemble": "assemble",
    "early": "early",
    "aggressive": "aggressive",
    "conservative": "conservative",
    "adaptive": "adaptive",
}
"""By strategy of the product: its engine."""
LOSSY = ("adaptive",)
"""Strategies that may drop events, and matches with them: their recall is measured, not required."""
HASH_BITS = {"quick": (1, 4, 10), "standard": tuple(range(1, 11)), "full": tuple(range(1, 11))}
HASH_TAGS = (TAGS, 1_000)
HASH_PERCENT = 20


class Tables:
    """Markdown of a run, printed as it is made."""

    def __init__(self) -> None:
        self.text: list[str] = []

    def add(self, title: str, table: str) -> None:
        self.text.append(f"**{title}**\n\n{table}\n")
        print_line(f"\n{self.text[-1]}")


def run(size: str, out: Path | None = None) -> Report:
    """Measure at a size; tables and charts are written to the folder of the figures."""
    clock, report, tables = Clock(*LIMITS[size]), Report("disorder", size), Tables()
    rows = _event_by_event(report, clock, tables, out)
    rows += _by_hash_bits(report, clock, tables)
    rows += _in_calls(report, clock, tables)
    tables.add("Table 12. All rows", m.all_rows(rows))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        text = f"# Tables of `python -m bench disorder --size {size}`\n\n" + "\n".join(tables.text)
        (out / "tables.md").write_text(text, encoding="utf-8")
    return report


def _event_by_event(report: Report, clock: Clock, tables: Tables, out: Path | None) -> list[MethodMeasurement]:
    """The methods as the paper measures them, and its claims."""
    size = report.size
    main, extra = _methods(report, clock, RATE, DISORDER[size], ROUNDS[size], "")
    events = f"{COUNTS[size]:,} events, {ROUNDS[size]} rounds"
    tables.add(f"Table 1. Execution time, ms ({events})", m.pivot(main, m.time_cell))
    ratios = [
        [f"{percent} %", *(_figure(report, f"assemble.{percent}{kind}") for kind in (".stacks", ""))]
        for percent in DISORDER[size]
    ]
    head = ["delayed", "against the fastest method over stacks", "against the fastest other over the shared search"]
    tables.add("Table 2. Speed of assemble (INFA-HTS), median of paired ratios", m.table(head, ratios))
    tables.add("Table 3. Throughput, thousand events/s", m.pivot(main, m.rate_cell))
    tables.add("Table 4. Largest state, bytes", m.pivot(main, m.bytes_cell))
    tables.add("Table 5. Mean latency, arrivals (ms at full speed)", m.pivot(main, m.latency_cell))
    tables.add(
        "Table 6. Recall / precision of all emitted matches → after retractions, %", m.pivot(main, m.quality_cell)
    )
    head = ["delayed", "assemble without !C: latency, arrivals"]
    head += [f"Algorithm 1 {how}: emitted, recall / precision %" for how in ("as printed", "with its counter fixed")]
    tables.add("Table 7. Without negation, and Algorithm 1 as printed", m.table(head, extra))
    claims = ([f"{claim.figure}", claim.text, *verdicts] for claim, verdicts in check_claims(main))
    tables.add("Table 8. Claims of the paper in this run", m.table(["figure", "claim", *GROUPS], claims))
    ends = [one.rate for one in main if one.method == "assemble"]
    report.add("assemble.steady", ends[-1] / ends[0] if ends else None, "not measured")
    if DENSE_DISORDER[size]:
        dense, _ = _methods(
            report, clock, DENSE_RATE, DENSE_DISORDER[size], DENSE_ROUNDS[size], f"rate {DENSE_RATE:g} "
        )
        title = f"Table 9. {DENSE_RATE:g} reads of a tag in a unit: execution time, ms; largest state, bytes; recall / precision, %"
        tables.add(
            title,
            m.pivot(dense, lambda one: f"{m.time_cell(one)}; {m.bytes_cell(one)}; {m.quality_cell(one)}"),
        )
    if out is not None and main:
        from bench.disorder.charts import draw

        values = [asdict(one) | asdict(one.quality) | {"rate": one.rate} for one in main]
        for path in draw(values, out):
            print_line(f"chart: {path.name}")
    return main


def _methods(
    report: Report, clock: Clock, rate: float, percents: Sequence[int], rounds: int, prefix: str
) -> tuple[list[MethodMeasurement], list[list[str]]]:
    """Measurements of all methods; and by percentage, cells on assemble without negation and on Algorithm 1."""
    plan = engines()["assemble"].plan(PATTERN.plan(), COLUMNS)
    unforced = engines()["assemble"].plan(WITHOUT_NEGATION.plan(), COLUMNS)
    measurements: list[MethodMeasurement] = []
    extra = []
    for percent in percents:
        stream = make_stream(COUNTS[report.size], percent, rate=rate)
        right = np.sort(name_of(events_of(expected_matches(stream))))
        bare = stream.without_punctuations()
        plain, punctuated = (PreparedStream.make(plan, one.rows, DELAY, UNIT) for one in (bare, stream))

        def run_once(name: str, plain: PreparedStream = plain, punctuated: PreparedStream = punctuated) -> RunOutput:
            return run_method(name, punctuated if name.startswith("conservative") else plain)

        records, some = _run_methods(clock, METHODS, run_once, stream, right, rounds)
        measurements += some
        for one in some:
            report.add(f"{prefix}{one.method}.{percent}.accuracy", one.quality.recall)
            report.add(f"{prefix}{one.method}.{percent}.emitted_precision", one.quality.emitted_precision)
        report.records.update({f"{prefix}{percent} % {name}": record for name, record in records.items()})
        _against(report, f"{prefix}assemble.{percent}", records, [name for name in SHARED if name != "assemble"])
        _against(report, f"{prefix}assemble.{percent}.stacks", records, STACKS)
        free = run_method("assemble", PreparedStream.make(unforced, bare.rows, DELAY, UNIT))
        cells = [f"{percent} %", f"{stream.latency(free.events, free.moment).mean():.1f}"]
        for fixed in (False, True):
            found = name_of(printed.run_printed(stream, fixed=fixed))
            hits = np.isin(np.unique(found), right).sum()
            shares = m.share(hits / len(right)), m.share(hits / max(len(np.unique(found)), 1))
            cells.append(f"{len(found):,} matches, {' / '.join(shares)}")
        extra.append(cells)
        progress(f"{prefix}{percent} % ({stream.disorder:.0%} out of order), {len(right):,} matches")
    return measurements, extra


def _by_hash_bits(report: Report, clock: Clock, tables: Tables) -> list[MethodMeasurement]:
    """INFA-HTS with hash tables of the paper's 1 to 10 address bits, and with dense numbers for keys."""
    plan = engines()["assemble"].plan(PATTERN.plan(), COLUMNS)
    widths = (0, *HASH_BITS[report.size])
    rows: list[MethodMeasurement] = []
    columns: list[list[str]] = []
    for tags in HASH_TAGS:
        stream = make_stream(COUNTS[report.size], HASH_PERCENT, tags=tags)
        right = np.sort(name_of(events_of(expected_matches(stream))))
        prepared = PreparedStream.make(plan, stream.without_punctuations().rows, DELAY, UNIT)
        names = {f"assemble, {tags:,} tags, {f'{bits} hash bits' if bits else 'dense keys'}": bits for bits in widths}

        def run_once(
            name: str, prepared: PreparedStream = prepared, names: dict[str, int] = names
        ) -> RunOutput:  # fmt: skip
            return run_method("assemble", prepared, names[name])

        records, some = _run_methods(clock, tuple(names), run_once, stream, right, ROUNDS[report.size])
        report.records.update({f"hash {name}": record for name, record in records.items()})
        rows += some
        known = {one.method: one for one in some}
        columns.append(
            [f"{m.time_cell(known[name])}; {m.bytes_cell(known[name])}" if name in known else "-" for name in names]
        )
        progress(f"hash tables, {tags:,} tags")
    cells = ([str(bits) if bits else "none: dense keys", *pair] for bits, *pair in zip(widths, *columns, strict=True))
    head = ["hash bits", *(f"{tags:,} tags: ms; bytes" for tags in HASH_TAGS)]
    tables.add(f"Table 10. INFA-HTS by bits of the hash table, {HASH_PERCENT} % delayed", m.table(head, cells))
    return rows


def _in_calls(report: Report, clock: Clock, tables: Tables) -> list[MethodMeasurement]:
    """The product's engines: rows are sorted, state is decoded and encoded, and matches become Arrow tables."""
    used = {name: engines()[engine] for name, engine in STRATEGIES.items()}
    plans = {name: engine.plan(PATTERN.plan(), COLUMNS) for name, engine in used.items()}
    measurements: list[MethodMeasurement] = []
    for name, engine in used.items():
        run_calls(engine, plans[name], make_stream(WARM_UP_EVENTS, DISORDER[report.size][-1]), CALLS[0])
    for size in CALLS:
        for percent in DISORDER[report.size]:
            stream = make_stream(CALLED[report.size], percent)
            right = np.sort(name_of(events_of(expected_matches(stream))))

            def run_once(name: str, stream: Stream = stream, size: int = size) -> RunOutput:
                return run_calls(used[name], plans[name], stream, size)

            rounds = CALL_ROUNDS[report.size]
            records, some = _run_methods(
                clock, tuple(used), run_once, stream, right, rounds, warm=0, call=size, lossy=LOSSY
            )
            measurements += some
            for one in some:
                report.add(f"calls.{size}.{one.method}.{percent}.recall", one.quality.recall)
                report.add(f"calls.{size}.{one.method}.{percent}.emitted_precision", one.quality.emitted_precision)
            report.records.update({f"calls of {size} {percent} % {name}": record for name, record in records.items()})
            ratio, why = paired_ratio(records["early"], records["aggressive"])
            report.add(f"calls.{size}.early.{percent}.aggressive", ratio, why)
            progress(f"engines, calls of {size:,}, {percent} %")
    title = f"of the engines ({CALLED[report.size]:,} events, {CALL_ROUNDS[report.size]} rounds)"
    for letter, what, cell in (
        ("a", "Time {}, ms", m.time_cell),
        ("b", "Throughput {}, thousand events/s", m.rate_cell),
        ("c", "Largest state {}, bytes", m.bytes_cell),
        ("d", "Mean latency {}, arrivals (ms, measured)", m.latency_cell),
        ("e", "Recall / precision {}: all emitted matches → after retractions, %", m.quality_cell),
    ):
        tables.add(f"Table 11{letter}. {what.format(title)}", m.pivot(measurements, cell, calls=True))
    return measurements


def _run_methods(
    clock: Clock,
    names: Sequence[str],
    run_once: Callable[[str], RunOutput],
    stream: Stream,
    right: np.ndarray,
    rounds: int,
    *,
    warm: int = 1,
    call: int = 1,
    lossy: Sequence[str] = (),
) -> tuple[dict[str, Record], list[MethodMeasurement]]:
    """Run all in turns; a run counts only if its final matches are the correct ones, unless the method is lossy."""
    runs: dict[str, RunOutput] = {}
    wanted = right.tobytes()

    def run_one(name: str) -> Timed:
        runs[name] = run_once(name)
        correct = name in lossy or runs[name].final_matches().tobytes() == wanted
        return Timed(runs[name].seconds, "the correct matches" if correct else "other matches")

    sides = [Side(name, partial(run_one, name), "the correct matches") for name in names]
    records = run_rounds(sides, clock, rounds=rounds, warm=warm)
    measurements = []
    for name, one in runs.items():
        if not records[name].seconds:
            print_line(f"{name}: {records[name].failure}")
            continue
        seconds, count = statistics.median(records[name].seconds), len(stream.arrival)
        waits = stream.latency(one.events, one.moment)[~one.back].mean()
        # Event by event, an arrival takes the mean time of one, and the match is emitted during one more.
        millis = (
            1000 * (waits + 1) * seconds / count if one.milliseconds is None else one.milliseconds[~one.back].mean()
        )
        made = Quality.of(one, right)
        measurements.append(
            MethodMeasurement(
                name, stream.percent, count, seconds, one.peak, float(waits), float(millis), made, one.late, call
            )
        )
    return records, measurements


def _against(report: Report, figure: str, records: dict[str, Record], others: Sequence[str]) -> None:
    """Add the speed of assemble as a multiple of that of the fastest other."""
    ratios = [paired_ratio(records["assemble"], records[name]) for name in others]
    known = [ratio for ratio, _ in ratios if ratio is not None]
    report.add(figure, min(known) if len(known) == len(ratios) else None, next((why for _, why in ratios if why), ""))


def _figure(report: Report, name: str) -> str:
    value = report.figures.get(name)
    return "-" if value is None else f"{value:.2f}"
