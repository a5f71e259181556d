"""``python -m bench NAME [--size quick|standard|full]``: prints a table, then one line of JSON.

The exit status is 1 if a figure is below ``bench/targets.toml``, and 2 if the arguments are wrong or the machine lacks
something that the benchmark needs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import harness
from bench.workload import EVENTS, QUERIES

JOINS_PARTS = ("flat", "deep", "feed", "million")
"""Values of ``joins --only``."""


def _sequence(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.sequence import run

    return run(args.size, data, args.only)


def _stream(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.stream import run

    return run(args.size, data, args.only)


def _esper(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.esper.benchmark import run

    return run(args.size, data, args.only)


def _flink(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.flink.benchmark import run

    return run(args.size, data, args.only)


def _disorder(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.disorder.benchmark import run

    del data
    return run(args.size, args.out)


def _disorder_stream(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.disorder.on_spark import run

    return run(args.size, data)


def _joins_stream(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.joins.on_spark import run

    del data
    return run(args.size)


def _trees(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.trees.benchmark import run

    return run(args.size, data, args.out, args.part)


def _joins(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.joins.benchmark import run

    del data
    return run(args.size, args.out, args.only)


def _models(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.models.benchmark import run

    del data
    return run(args.size, args.out)


def _gestures(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.models.gestures import run

    del data
    return run(args.size)


def _gestures_stream(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.models.on_spark import run

    del data
    return run(args.size)


def _uncertain(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.uncertain.benchmark import run

    del data
    return run(args.size, args.out)


def _uncertain_stream(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.uncertain.on_spark import run

    del data
    return run(args.size)


def _repair(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.repair import run

    del data
    return run(args.size)


def _crash(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.crash.benchmark import run

    return run(args.size, data, args.kills, args.seed, args.minutes)


def _pipeline(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.pipeline.benchmark import run

    return run(args.size, data)


def _quarantine(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.quarantine import run

    return run(args.size, data)


def _soak(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.pipeline.soak import run

    del data
    return run(args.size, args.out, args.minutes)


def _report(args: argparse.Namespace, data: Path) -> harness.Report:
    from bench.report.benchmark import run

    del data  # the journal must outlive the call
    return run(args.size, args.data, args.out, args.only)


BENCHES: dict[str, tuple[str, Callable[[argparse.Namespace, Path], harness.Report]]] = {
    "sequence": (
        "Q1 to Q5 over keyed events, compared with baselines on Spark, Spark SQL and DuckDB",
        _sequence,
    ),
    "stream": ("the same on a stream, compared with a baseline stateful query; small triggers, growing state", _stream),
    "disorder": (
        "paper 4's experiment: INFA-HTS, its baselines and the product's strategies, at 0 to 50 % delayed events",
        _disorder,
    ),
    "disorder-stream": (
        "paper 4's stream on Spark: every strategy compared with a baseline stateful query",
        _disorder_stream,
    ),
    "trees": (
        "paper 1's experiment: tree patterns over documents, compared with expat, lxml and Spark's XML source",
        _trees,
    ),
    "joins": ("paper 3's experiments: very many queries that join documents, shared and one by one", _joins),
    "joins-stream": (
        "subscriptions on a Spark stream, compared with a baseline query; two partitioning schemes; changes at runtime",
        _joins_stream,
    ),
    "uncertain": ("paper 5's experiments: quality and speed of matching over uncertain streams", _uncertain),
    "models": ("paper 2's live models: updates as models grow, compared with evaluation from scratch", _models),
    "gestures": ("paper 2's gesture case: frames of bodies to gestures, two processes, no Spark", _gestures),
    "gestures-stream": (
        "the gesture case on a Spark stream, and a baseline stateful query over the same frames",
        _gestures_stream,
    ),
    "esper": ("the kernel alone and with ordering, compared with Esper in memory, one thread each", _esper),
    "flink": ("a Perseid stream, Flink SQL and Flink CEP, from Parquet to matches on all cores", _flink),
    "uncertain-stream": (
        "readings on a Spark stream: probabilities compared with the likeliest place in the same pipeline",
        _uncertain_stream,
    ),
    "repair": ("paper 2's case: quick fixes of a model, by every strategy", _repair),
    "crash": ("fault injection into a job with four sinks, then validation of their content", _crash),
    "pipeline": (
        "a job from Kafka to Kafka, compared with a baseline query: throughput and latency",
        _pipeline,
    ),
    "quarantine": (
        "a job with ten rules, one of which exceeds its search budget, and the same job without this rule",
        _quarantine,
    ),
    "report": (
        "every engine on one workload: Flink, Trino, DuckDB, Esper, Siddhi, Spark by hand; writes docs/benchmarks",
        _report,
    ),
    "soak": ("a long-running job with keys that come and go: growth of memory and state", _soak),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one benchmark and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Perseid's benchmarks; speed is a ratio.")
    parser.add_argument("name", nargs="?", choices=sorted(BENCHES), metavar="NAME", help="which benchmark")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--size", choices=list(EVENTS), default="standard", help="how many events (default: standard)")
    parser.add_argument(
        "--only",
        type=lambda text: tuple(text.split(",")),
        default=None,
        metavar="Q1n,Q3",
        help="only these queries, these parts of joins (flat,deep,feed,million), or these engines of report; the others' "
        "targets are not checked",
    )
    parser.add_argument(
        "--part", choices=["esma"], default=None, help="for trees: run only this part; targets are not checked"
    )
    parser.add_argument("--kills", type=int, default=None, metavar="N", help="for crash: number of injected faults")
    parser.add_argument(
        "--seed", type=int, default=None, help="for crash: seed for the times and the order of the faults"
    )
    parser.add_argument("--data", type=Path, default=None, help="folder to keep generated data in (default: temporary)")
    parser.add_argument("--out", type=Path, default=None, help="folder to write the figures to, as JSON")
    parser.add_argument(
        "--minutes",
        type=float,
        default=None,
        help="duration of soak (default: by size); for crash: time after which no fault is injected",
    )
    args = parser.parse_args(argv)
    if args.list:
        for name, (about, _) in BENCHES.items():
            harness.print_line(f"{name}: {about}")
        return 0
    if args.name is None:
        parser.error("expected the name of a benchmark, or --list")
    _check_names(parser, args.only or (), _known_names(args.name))
    if args.part is not None and args.name != "trees":
        parser.error("--part is an option of trees")
    with tempfile.TemporaryDirectory(prefix="perseid-bench-") as scratch:
        data = args.data or Path(scratch)
        data.mkdir(parents=True, exist_ok=True)
        try:
            report = BENCHES[args.name][1](args, data)
        except harness.MissingToolError as error:
            harness.print_line(f"{args.name}: {error}", "stderr")
            return 2
        targets = harness.targets_of(args.name, args.size)
        if args.only:
            targets = {name: least for name, least in targets.items() if name.split(".")[0] in args.only}
        if args.part is not None:
            targets = {}
        if args.kills is not None and "faults" in targets:
            targets["faults"] = args.kills
        # The report writes its own files: a page, and the same figures as JSON.
        return harness.conclude(report, None if args.name == "report" else args.out, targets)


def _known_names(bench: str) -> tuple[str, ...]:
    """Values of ``--only``."""
    if bench == "report":
        from bench.report.registry import ENGINES

        return tuple(ENGINES)
    return JOINS_PARTS if bench == "joins" else tuple(QUERIES)


def _check_names(parser: argparse.ArgumentParser, texts: Sequence[str], known: Sequence[str]) -> None:
    for name in texts:
        if name not in known:
            parser.error(f"argument --only: {name!r}: there are {', '.join(known)}")


if __name__ == "__main__":
    sys.exit(main())
