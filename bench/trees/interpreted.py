"""Algorithm ESMA of paper 1 and our matcher, both as interpreted Python, on small documents.

ESMA (``esma.py``) gets its tokens from expat, which is compiled. The matcher reads bytes, checks that they are well
formed and matches, all of it in Python if the compiler is off. So the tokenizers differ. Two further figures show their
part: expat with two Python handlers that do nothing, and the matcher as plain Python with a pattern that matches no
element.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.parsers import expat

from bench.harness import Clock, Record, Report, Side, paired_ratio, progress, run_rounds
from bench.trees import baselines, esma
from bench.trees.dblp import dblp
from bench.trees.figures import DOCUMENTS
from bench.trees.queries import MEGABYTES, QUERIES, XMARK_SCALES, TreeQuery
from bench.trees.treebank import treebank
from bench.trees.xmark import xmark
from perseid.engines.trees.matcher import TreeMatcher
from perseid.lang.tree_parser import parse_tree

SLICE_MB = {"quick": 0.05, "standard": 1.0, "full": 1.0}
"""Size of each document."""
PLAIN_LIMIT_S = {"quick": 12.0, "standard": 90.0, "full": 90.0}
"""Time for all queries by the matcher as plain Python; queries that are not done by then have no figure."""
ROUNDS = {"quick": 1, "standard": 3, "full": 3}
RECORD_BYTES = 355
"""Size of an article of the generated DBLP."""


@dataclass(frozen=True)
class InterpretedRow:
    """The times of one query on a document."""

    query: TreeQuery
    path: Path
    results: int
    records: dict[str, Record]

    @property
    def megabytes(self) -> float:
        return self.path.stat().st_size / 1e6

    def rate(self, name: str) -> float | None:
        """Megabytes per second; None if it was not measured."""
        seconds = self.records[name].seconds
        return self.megabytes / statistics.median(seconds) if seconds else None


COLUMNS = ("bare expat", "empty handlers", "ESMA", "plain scan", "plain", "safe")
HEADINGS = {
    "bare expat": "expat, no handlers",
    "empty handlers": "expat, empty Python handlers",
    "ESMA": "ESMA, Python over expat",
    "plain scan": "matcher, plain Python, no element matches",
    "plain": "matcher, plain Python",
    "safe": "matcher, compiled",
}


def measure(
    size: str,
    clock: Clock,
    report: Report,
    data: Path,
    matcher_of: Callable[[Sequence[str]], TreeMatcher],
    count: Callable[[TreeMatcher, Path, bool], tuple[int, ...]],
) -> str:
    """Measure all queries and return a Markdown table; the ratios are added to the report."""
    rows: list[InterpretedRow] = []
    for kind, path in _documents(size, data):
        progress(f"ESMA: {kind}, {path.stat().st_size / 1e6:.2f} MB")
        for query in QUERIES.values():
            if query.document != kind or (size == "quick" and query.name[-1] not in "13"):
                continue
            matcher = matcher_of([query.text])
            program = esma.EsmaProgram(parse_tree(query.text).pattern)
            right = count(matcher, path, False)
            sides = [
                Side("safe", partial(count, matcher, path, False), right),
                Side("ESMA", partial(esma.count_matches, program, path), right[0]),
                Side("empty handlers", partial(run_empty_handlers, path)),
                Side("bare expat", partial(baselines.bare_expat, path)),
            ]
            rows.append(InterpretedRow(query, path, right[0], run_rounds(sides, clock, rounds=ROUNDS[size])))
    progress("the matcher as plain Python")
    run_plain(rows, min(PLAIN_LIMIT_S[size], clock.allowance()))
    _add_ratios(rows, report)
    return format_table(rows)


def _add_ratios(rows: Sequence[InterpretedRow], report: Report) -> None:
    ratios: dict[str, list[float]] = {}
    for row in rows:
        for name, record in row.records.items():
            report.records[f"{row.query.document} {row.megabytes:.2f} {row.query.name} {name}"] = record
            if record.failure is not None:
                progress(f"{row.query.name} {name}: {record.failure}")
        for ours in ("safe", "plain"):
            figure, reason = _ratio(row.records[ours], row.records["ESMA"])
            if figure is None:
                report.add(f"{row.query.name}.{ours}.esma", None, reason)
            else:
                ratios.setdefault(f"{row.query.document}.{ours}.esma", []).append(figure)
    for name, found in ratios.items():
        report.add(name, statistics.median(found))


def _ratio(ours: Record, theirs: Record) -> tuple[float | None, str]:
    """Pair rounds where there are as many; the matcher as plain Python runs once."""
    if ours.failure is None and theirs.failure is None and len(ours.seconds) == 1 and theirs.seconds:
        return statistics.median(theirs.seconds) / ours.seconds[0], ""
    return paired_ratio(ours, theirs)


def _documents(size: str, data: Path) -> Iterator[tuple[str, Path]]:
    megabytes = SLICE_MB[size]
    made: dict[str, Callable[[], Iterator[bytes]]] = {
        "dblp": lambda: dblp(int(megabytes * 1e6 / RECORD_BYTES)),
        "treebank": lambda: treebank(int(megabytes * 1e6)),
        "xmark": lambda: xmark(XMARK_SCALES[2] * megabytes / MEGABYTES["xmark"][2]),
    }
    for kind, pieces in made.items():
        path = data / f"{kind}-slice-{size}.xml"
        if not path.exists():
            path.write_bytes(b"".join(pieces()))
        yield kind, path


def run_empty_handlers(path: Path) -> None:
    """Parse with two Python handlers that do nothing."""
    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.StartElementHandler = _ignore_start
    parser.EndElementHandler = _ignore_end
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(esma.CHUNK_BYTES):
            parser.Parse(chunk, False)
    parser.Parse(b"", True)


def _ignore_start(_tag: str, _attributes: object) -> None:
    pass


def _ignore_end(_tag: str) -> None:
    pass


def run_plain(rows: Sequence[InterpretedRow], seconds: float) -> None:
    """Time our matcher as plain Python in its own process, once for each query, until the time is up."""
    failure, output = "the run's time was up", ""
    if seconds > 0:
        scans = dict.fromkeys(f"={row.path}" for row in rows)
        queries = [f"{row.query.name}={row.path}" for row in rows]
        failure, output = _run_plain_process([*scans, *queries], seconds)
    found = {one["argument"]: one for one in map(json.loads, output.splitlines())}
    for row in rows:
        for name, argument, results in (
            ("plain scan", f"={row.path}", 0),
            ("plain", f"{row.query.name}={row.path}", row.results),
        ):
            one = found.get(argument)
            if one is None:
                row.records[name] = Record(failure=failure)
            elif one["results"] == results:
                row.records[name] = Record([one["seconds"]])
            else:
                row.records[name] = Record(failure=f"wrong answer: {one['results']}, right is {results}")


def _run_plain_process(arguments: Sequence[str], seconds: float) -> tuple[str, str]:
    """The reason for missing lines, and the lines that were printed."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "bench.trees.plain", *arguments],
            capture_output=True, text=True, check=False, timeout=seconds, env=os.environ | {"PERSEID_NUMBA": "0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        # The last line may be cut.
        whole = output[: output.rfind("\n") + 1]
        return f"not done after {seconds:.0f} s for all queries", whole
    return (ran.stderr.strip().splitlines() or ["no reason given"])[-1], ran.stdout


def format_table(rows: Sequence[InterpretedRow], columns: Sequence[str] = COLUMNS) -> str:
    """A Markdown table with a row for each query."""
    lines = [
        "| query | document | results | " + " | ".join(f"{HEADINGS[name]}, MB/s" for name in columns) + " |",
        "|---|---|--:|" + "--:|" * len(columns),
    ]
    for row in rows:
        rates = [row.rate(name) for name in columns]
        cells = ["-" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.2g}" for rate in rates]
        document = f"{DOCUMENTS[row.query.document]}, {row.megabytes:.2f} MB"
        lines.append(f"| {row.query.name} | {document} | {row.results:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
