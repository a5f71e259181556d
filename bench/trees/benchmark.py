"""``python -m bench trees``: paper 1's experiment, compared with current tools and with the limits of one machine."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench.harness import Clock, Record, Report, Side, paired_ratio, print_line, progress, run_rounds, targets_of
from bench.trees import baselines, interpreted
from bench.trees.dblp import dblp
from bench.trees.figures import Measurement, compare_with_paper, draw, table
from bench.trees.many import generate_patterns
from bench.trees.queries import MEGABYTES, QUERIES, XMARK_SCALES, TreeQuery
from bench.trees.treebank import treebank
from bench.trees.xmark import xmark
from perseid.engines.trees import match_layout as y
from perseid.engines.trees.matcher import TreeMatcher
from perseid.engines.trees.plan import tree_plan
from perseid.engines.trees.reader import file_chunks
from perseid.lang.tree_parser import parse_tree

LIMITS = {"quick": (55.0, 20.0), "standard": (2400.0, 240.0), "full": (3 * 3600.0, 900.0)}
ROUNDS = {"quick": 1, "standard": 3, "full": 3}
SHARE = {"quick": 0.04, "standard": 1.0, "full": 1.0}
"""Size of the generated documents as a fraction of the paper's."""
XMARK_SIZES = {"quick": (0,), "standard": (0, 2), "full": (0, 1, 2, 3, 4)}
"""Indexes of the paper's five auction sites."""
MANY = 1000
LARGEST_FOR_TREES = 200
"""Megabytes above which no tree of a document is built: lxml's needs ten times as many."""
RECORD_BYTES = 355
"""Size of a generated article."""


def matcher_of(texts: Sequence[str]) -> TreeMatcher:
    """Compile patterns once, as for the other engines."""
    return TreeMatcher(tree_plan([parse_tree(text).pattern for text in texts]))


def ours(matcher: TreeMatcher, path: Path, trusted: bool) -> tuple[int, ...]:
    """Number of results at the top level of each pattern."""
    counts = np.zeros(len(matcher.plan.patterns), np.int64)
    for match in matcher.read(lambda: file_chunks(str(path)), trusted=trusted):
        if match is None:
            counts[:] = 0
        else:
            first = match.rows[match.rows[:, y.O_LEVEL] == 0, y.O_PATTERN]
            counts += np.bincount(first, minlength=len(counts))
    return tuple(counts.tolist())


def run(size: str, data: Path, out: Path | None, part: str | None = None) -> Report:
    """Measure at a size, with generated documents cached in a folder. ``part="esma"`` runs the paper's algorithm only."""
    clock, report = Clock(*LIMITS[size]), Report("trees" if part is None else f"trees-{part}", size)
    if part == "esma":
        print_line(interpreted.measure(size, clock, report, data, matcher_of, ours))
        return report
    documents = dict(_documents(size, data))
    measured: list[Measurement] = []
    for (kind, number), path in documents.items():
        progress(f"{kind}, {_megabytes(path):,.1f} MB")
        largest = (kind, number) in {("dblp", 0), ("treebank", 0), ("xmark", 0 if size == "quick" else 2)}
        measured += _run_queries(size, clock, report, kind, path, largest)
    _compare_validation(size, clock, report, documents["xmark", 0], data)
    _match_thousand_patterns(size, clock, report, documents["xmark", 0 if size == "quick" else 2])
    _memory(report, [path for (kind, _), path in documents.items() if kind == "xmark"])
    compared = interpreted.measure(size, clock, report, data, matcher_of, ours)
    if size != "quick":
        from bench.trees.on_spark import measure

        measured += measure(size, clock, report, data, documents)
    print_line(table(measured))
    print_line(compare_with_paper(measured, "safe"))
    print_line(f"\n{compared}\n\n{report.target_table(targets_of('trees', size))}\n")
    for path in draw(measured, out, f"trees-{size}", ("safe", "trusted")) if out is not None else ():
        print_line(f"written: {path}")
    return report


def _documents(size: str, data: Path) -> Iterator[tuple[tuple[str, int], Path]]:
    share = SHARE[size]
    made: list[tuple[str, int, Callable[[], Iterator[bytes]]]] = [
        ("dblp", 0, lambda: dblp(int(MEGABYTES["dblp"][0] * share * 1e6 / RECORD_BYTES))),
        ("treebank", 0, lambda: treebank(int(MEGABYTES["treebank"][0] * share * 1e6))),
    ]
    for number in XMARK_SIZES[size]:
        made.append(("xmark", number, partial(xmark, XMARK_SCALES[number] * (share if number else max(share, 0.4)))))
    for kind, number, pieces in made:
        path = data / f"{kind}-{number}-{size}.xml"
        if not path.exists():
            progress(f"making {path.name}")
            with path.open("wb") as file:
                for piece in pieces():
                    file.write(piece)
        yield (kind, number), path


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


def _run_queries(
    size: str, clock: Clock, report: Report, kind: str, path: Path, all_engines: bool
) -> list[Measurement]:
    """Run all queries on a document: ours and the parser alone in rounds, the others once, because they take long."""
    out: list[Measurement] = []
    ratios: dict[str, list[float]] = {}
    for query in (one for one in QUERIES.values() if one.document == kind):
        if size == "quick" and query.name[-1] not in "13":
            continue
        matcher = matcher_of([query.text])
        right = baselines.iterparse(query.name, path) if all_engines else ours(matcher, path, False)[0]
        sides = [
            Side("safe", partial(ours, matcher, path, False), (right,)),
            Side("trusted", partial(ours, matcher, path, True), (right,)),
            Side("bare expat", partial(baselines.bare_expat, path)),
        ]
        records = run_rounds(sides, clock, rounds=ROUNDS[size])
        if all_engines:
            slow = [
                Side("iterparse", partial(baselines.iterparse, query.name, path), right),
                Side("iterparse with XPath", partial(baselines.iterparse_xpath, query.name, path), right),
            ]
            if _megabytes(path) <= LARGEST_FOR_TREES:
                slow.append(Side("lxml XPath", partial(baselines.xpath, query.name, path), right))
            records |= run_rounds(slow, clock, rounds=1, warm=0)
            gc.collect()
        out += _measurements(query, path, records, right)
        for name, record in records.items():
            report.records[f"{kind} {_megabytes(path):.0f} {query.name} {name}"] = record
        for ours_, theirs in (("safe", "bare expat"), ("trusted", "bare expat")):
            figure, reason = paired_ratio(records[ours_], records[theirs])
            if figure is None:
                report.add(f"{query.name}.{ours_}", None, reason)
            else:
                ratios.setdefault(f"{ours_}.expat", []).append(figure)
        if all_engines:
            mine = statistics.median(records["safe"].seconds) if records["safe"].seconds else None
            by_hand = [
                records[name].seconds[0] for name in ("iterparse", "iterparse with XPath") if records[name].seconds
            ]
            if mine and by_hand:
                ratios.setdefault("safe.iterparse", []).append(min(by_hand) / mine)
            xpath = records.get("lxml XPath")
            if mine and xpath is not None and xpath.seconds and query.kind in ("tree", "comparison"):
                ratios.setdefault("safe.xpath", []).append(xpath.seconds[0] / mine)
    if all_engines:
        for name, found in ratios.items():
            report.add(f"{kind}.{name}", statistics.median(found))
        whole = baselines.bytes_of(path)
        into = whole.copy()
        bare = run_rounds(
            [
                Side("byte scan", partial(baselines.byte_scan, whole), baselines.byte_scan(whole)),
                Side("memcpy", partial(baselines.memcpy, whole, into)),
            ],
            clock,
        )
        out += [_parser_measurement(name, path, kind, record) for name, record in bare.items()]
    expat = [one for one in out if one.engine == "bare expat"]
    out = [one for one in out if one.engine != "bare expat"]
    if expat:
        middle = statistics.median(one.seconds for one in expat)
        out.append(Measurement("", "", kind, _megabytes(path), "bare expat", middle, None, None))
    return out


def _parser_measurement(name: str, path: Path, kind: str, record: Record) -> Measurement:
    return Measurement("", "", kind, _megabytes(path), name, statistics.median(record.seconds), None, None)


def _measurements(query: TreeQuery, path: Path, records: dict[str, Record], right: int) -> Iterator[Measurement]:
    for name, record in records.items():
        if record.failure is not None:
            progress(f"{query.name} {name}: {record.failure}")
        elif record.seconds:
            seconds = statistics.median(record.seconds)
            yield Measurement(query.name, query.kind, query.document, _megabytes(path), name, seconds, right, None)


def _compare_validation(size: str, clock: Clock, report: Report, path: Path, data: Path) -> None:
    """Validate the same document with an external DTD, which of the parsers only expat can do."""
    doubtful = data / f"doubtful-{size}.xml"
    whole = path.read_bytes()
    after = whole.index(b"?>") + 2
    doubtful.write_bytes(whole[:after] + b'\n<!DOCTYPE site SYSTEM "auction.dtd">' + whole[after:])
    matcher = matcher_of([QUERIES["Q3.1"].text])
    sides = [
        Side("judged", partial(ours, matcher, doubtful, False), ours(matcher, path, True)),
        Side("bare expat", partial(baselines.bare_expat, doubtful)),
    ]
    records = run_rounds(sides, clock)
    report.add("judged.expat", *paired_ratio(records["judged"], records["bare expat"]))


def _match_thousand_patterns(size: str, clock: Clock, report: Report, path: Path) -> None:
    """Match sixteen and a thousand patterns in one pass, compared with one pattern."""
    sixteen = [query.text for query in QUERIES.values()]
    thousand = generate_patterns(MANY)
    one = QUERIES["Q3.2"].text
    matchers = {"1": matcher_of([one]), "16": matcher_of(sixteen), "1000": matcher_of(thousand)}
    right = {name: ours(matcher, path, False) for name, matcher in matchers.items()}
    sides = [Side(name, partial(ours, matcher, path, False), right[name]) for name, matcher in matchers.items()]
    records = run_rounds(sides, clock, rounds=ROUNDS[size])
    progress(f"1,000 patterns found {sum(right['1000']):,} results")
    for name in ("16", "1000"):
        report.records[f"{name} patterns"] = records[name]
        report.add(f"many.{name}", *paired_ratio(records[name], records["1"]))


def _memory(report: Report, paths: Sequence[Path]) -> None:
    """Peak memory of a process for the smallest and the largest document: 64 MB more is 1."""
    peaks = []
    for path in (paths[0], paths[-1]):
        ran = subprocess.run(
            [sys.executable, "-m", "bench.trees.peak", QUERIES["Q3.3"].text, str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            report.add("memory", None, ran.stderr.strip().splitlines()[-1])
            return
        peaks.append(float(ran.stdout))
        progress(f"{_megabytes(path):,.0f} MB: {peaks[-1]:,.1f} MB at most")
    report.add("memory", 64 / max(peaks[-1] - peaks[0], 0.1))
