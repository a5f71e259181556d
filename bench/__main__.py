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


BENCHES: dict[str, tuple[str, Callable[[argparse.Namespace, Path], harness.Report]]] = {
    "sequence": (
        "one automaton over keyed events, beside bare Spark, Spark's limit, Spark SQL and DuckDB",
        _sequence,
    ),
    "stream": ("the same on a stream, beside a bare stateful query; small triggers, growing state", _stream),
    "disorder": (
        "paper 4's experiment: INFA-HTS, its baselines and the product's strategies, at 0 to 50 % delayed events",
        _disorder,
    ),
    "disorder-stream": ("its stream on Spark, every strategy beside a bare stateful query", _disorder_stream),
    "trees": ("paper 1's experiment: tree patterns over documents, beside expat, lxml and Spark's XML source", _trees),
    "joins": ("paper 3's experiments: very many queries that join documents, shared and one after the other", _joins),
    "joins-stream": (
        "subscriptions on Spark's stream beside a bare one, two ways to share them, changes",
        _joins_stream,
    ),
    "uncertain": ("paper 5's experiments: how good and how fast answers over uncertain streams are", _uncertain),
    "models": ("paper 2's live models: updates as models grow, beside asking everything anew", _models),
    "gestures": ("paper 2's gesture case: frames of bodies to gestures, two processes, no Spark", _gestures),
    "gestures-stream": (
        "the gesture case on a Spark stream, beside a bare query that moves the frames",
        _gestures_stream,
    ),
    "esper": ("the kernel alone and with ordering, beside Esper in memory, one thread each", _esper),
    "flink": ("a stream of ours beside Flink SQL and Flink CEP, Parquet to matches, all cores", _flink),
    "uncertain-stream": (
        "readings on a Spark stream: probabilities beside the likeliest place through the same pipeline",
        _uncertain_stream,
    ),
    "repair": ("paper 2's case: quick fixes of a model, by every strategy", _repair),
    "crash": ("a whole job with four sinks that is killed and hurt again and again, and what its sinks hold", _crash),
    "pipeline": (
        "a job from Kafka to Kafka beside a bare query: events in a time, and how late answers are",
        _pipeline,
    ),
    "quarantine": ("a job with ten rules of which one explodes, beside the same job without that rule", _quarantine),
    "soak": ("a job that runs for long, with keys that come and go: does anything grow", _soak),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one benchmark and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Perseid's benchmarks; speed is a ratio.")
    parser.add_argument("name", nargs="?", choices=sorted(BENCHES), metavar="NAME", help="which benchmark")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--size", choices=list(EVENTS), default="standard", help="how many events (default: standard)")
    parser.add_argument(
        "--only",
        type=lambda text: tuple(text.split(",")),
        default=None,
        metavar="Q1n,Q3",
        help="only these queries, or these parts of joins (flat,deep,feed,million); the others' targets are not checked",
    )
    parser.add_argument("--part", choices=["esma"], default=None, help="of trees: only this part; no target applies")
    parser.add_argument("--kills", type=int, default=None, metavar="N", help="of crash: how often the job is hurt")
    parser.add_argument("--seed", type=int, default=None, help="of crash: when, and in which order")
    parser.add_argument("--data", type=Path, default=None, help="folder to keep generated data in (default: temporary)")
    parser.add_argument("--out", type=Path, default=None, help="folder to write the figures to, as JSON")
    parser.add_argument(
        "--minutes",
        type=float,
        default=None,
        help="how long a soak goes on (default: by size); of crash: no fault after this time, and what was done is checked",
    )
    args = parser.parse_args(argv)
    if args.list:
        for name, (about, _) in BENCHES.items():
            harness.print_line(f"{name}: {about}")
        return 0
    if args.name is None:
        parser.error("say which benchmark, or --list")
    _check_names(parser, args.only or (), JOINS_PARTS if args.name == "joins" else tuple(QUERIES))
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
        if args.kills is not None and "harms" in targets:
            targets["harms"] = args.kills
        return harness.conclude(report, args.out, targets)


def _check_names(parser: argparse.ArgumentParser, texts: Sequence[str], known: Sequence[str]) -> None:
    for name in texts:
        if name not in known:
            parser.error(f"argument --only: {name!r}: there are {', '.join(known)}")


if __name__ == "__main__":
    sys.exit(main())
