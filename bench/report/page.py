"""The page of the report: Markdown, the data as JSON, and charts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.report.charts import draw_all
from bench.report.papers import HEADLINES
from bench.report.results import Data

MEANING = {
    "Q1": "A, the first later B with a greater `v`, the first C after it, in less than 60 s; skip past each match",
    "Q1n": "the same from every A",
    "Q2": "A, B, C without another event between them, `b.v > a.v`, in less than 60 s",
    "Q3": "A, one or more B, C without another event between them, the sum of `b.v` above 100, in less than 60 s",
    "Q4": "every A with no B in less than 30 s",
}
GROUP_TITLES = {"batch": "Batch", "stream": "Stream", "memory": "In memory"}


def write_page(results: Data, out: Path) -> Iterator[Path]:
    """Write ``index.md``, ``report.json`` and the charts to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    charts = list(draw_all(results, out))
    yield from charts
    data = out / "report.json"
    data.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    yield data
    page = out / "index.md"
    page.write_text(markdown(results, {path.name for path in charts}), encoding="utf-8")
    yield page


def markdown(results: Data, charts: set[str]) -> str:
    """The text of the page; pictures only of charts that exist."""
    parts = [
        "# Benchmarks: all engines on one workload",
        "This page is for engineers who compare Perseid with other engines. `python -m bench report` measures every "
        "engine on the same events and writes this page. [Data of this page](report.json).",
        *_size_note(results),
        _losses(results),
        "## Conditions",
        _conditions(results),
        "## Engines",
        _engines(results),
        "## Perseid against each engine",
        "A figure is the time of the other engine divided by the time of Perseid: the median over the rounds, with the "
        "smallest and the largest in brackets. Above 1, Perseid is faster. Below 1, Perseid is slower. Only engines of "
        "one group are compared, because the groups measure different work.",
        *_picture("ratios", charts, "Ratios of Perseid and each engine, by query"),
        _ratio_table(results),
        "## Queries",
        *(text for query in results["cells"] for text in _query(results, query, charts)),
        "## Papers",
        "The pages of the experiments have the details and further claims, also those that do not hold.",
        _papers(),
        "## Reproduce",
        _reproduce(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _size_note(results: Data) -> list[str]:
    if results["size"] != "quick":
        return []
    return [
        f"**These figures are of the size quick: {results['events']:,} events and {results['rounds']} round. They test the benchmark. Fixed costs dominate them: do not cite "
        "them.**"
    ]


def _losses(results: Data) -> str:
    """Where Perseid is slower, before anything else."""
    titles = _titles(results)
    slower = [
        f"- {titles[row['ours']]} against {titles[row['peer']]}: "
        + ", ".join(f"{query} {times(ratio['median'])}" for query, ratio in losses)
        for row in results["ratios"]
        if (losses := [(q, r) for q, r in row["queries"].items() if "median" in r and r["median"] < 1])
    ]
    if not slower:
        return ""
    return "Perseid is slower than another engine in these cases:\n\n" + "\n".join(slower)


def _conditions(results: Data) -> str:
    machine, load = results["machine"], results["load"]
    lines = [
        f"- **Events**: {results['events']:,}, one per millisecond, 10,000 keys, types A to J, all values uniform with a "
        "fixed seed. All engines read the same rows: one Parquet file; for streams, files with the same rows; in "
        "memory, the same columns.",
        "- **Validity**: a time counts only if the set of matches is equal to the expected one, in the warm-up and in "
        "every round. A match is identified by the id of its first event; no two matches of a query share one, and "
        "none may be returned twice. Loops without any engine compute the expected set.",
        f"- **Rounds**: {results['rounds']}. In a round each engine runs once, in turn; every other round has the "
        "reverse order. Engines with a JIT compiler warm up before the first round. A process of Flink, Esper or Siddhi "
        "runs one query only.",
    ]
    if machine:
        lines.append(
            f"- **Machine**: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, "
            f"{machine['system']}, Java {machine['java']}, Python {machine['python']}."
        )
    if load:
        lines.append(
            f"- **Load** (runnable processes in the minute before a run; the engines themselves are a part of it): "
            f"median {load['median']:g}, {load['min']:g} to {load['max']:g}."
        )
    if results["from"]:
        when = results["from"] if results["from"] == results["to"] else f"{results['from']} to {results['to']}"
        commits = ", ".join(f"`{name}`" for name in results["commits"])
        lines.append(f"- **Time**: {when}, {results['calls']} call(s) of the benchmark. **Commits**: {commits}.")
    return "\n".join(lines)


def _engines(results: Data) -> str:
    lines = []
    for group, timed in results["groups"].items():
        lines += [f"**{GROUP_TITLES[group]}**: {timed}.", ""]
        lines += ["| engine | versions | conditions | run |", "|---|---|---|---|"]
        for engine in results["engines"]:
            if engine["group"] != group:
                continue
            versions = ", ".join(f"{name} {version}" for name, version in engine["versions"].items())
            ran = f"**not run**: {_plain(engine['not_run'])}" if engine["not_run"] else "yes"
            lines.append(f"| {engine['title']} | {versions} | {engine['conditions']} | {ran} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def _ratio_table(results: Data) -> str:
    titles, queries = _titles(results), list(results["cells"])
    lines = [f"| | {' | '.join(queries)} |", f"|---|{'--:|' * len(queries)}"]
    for row in results["ratios"]:
        cells = [_ratio(row["queries"][query]) for query in queries]
        lines.append(f"| {titles[row['ours']]} against {titles[row['peer']]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio(ratio: Data) -> str:
    if "missing" in ratio:
        return str(ratio["missing"])
    return f"{times(ratio['median'])} ({times(ratio['min'])} to {times(ratio['max'])})"


def times(value: float) -> str:
    """A ratio with three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _query(results: Data, query: str, charts: set[str]) -> Iterator[str]:
    yield f"### {query}"
    yield f"{MEANING[query][0].upper()}{MEANING[query][1:]}."
    yield f"```\n{results['queries'][query].strip()}\n```"
    yield from _picture(query.lower(), charts, f"Events per second of each engine for {query}")
    lines = [
        "| group | engine | seconds, median | min to max | rounds | thousand events/s |",
        "|---|---|--:|--:|--:|--:|",
    ]
    reasons = []
    for engine in results["engines"]:
        cell = results["cells"][query][engine["name"]]
        head = f"| {engine['group']} | {engine['title']} |"
        if "missing" in cell:
            lines.append(f"{head} {cell['missing']} | | | |")
            if not engine["not_run"]:
                reasons.append(f"- {engine['title']}: {cell['missing']}: {_plain(cell['reason'])}.")
        else:
            seconds = cell["seconds"]
            lines.append(
                f"{head} {seconds['median']:.3g} | {seconds['min']:.3g} to {seconds['max']:.3g} | {cell['rounds']} | "
                f"{cell['thousand_events_per_second']:,g} |"
            )
    yield "\n".join(lines)
    yield "\n".join(reasons)


def _picture(name: str, charts: set[str], text: str) -> Iterator[str]:
    if f"{name}-light.svg" in charts:
        yield (
            f'<picture>\n<source media="(prefers-color-scheme: dark)" srcset="{name}-dark.svg">\n'
            f'<img alt="{text}" src="{name}-light.svg">\n</picture>'
        )


def _papers() -> str:
    lines = ["| paper | result | paper's figure | ours | differences |", "|---|---|---|---|---|"]
    for one in HEADLINES:
        link = f"[{one.paper}](../experiments/{one.page})"
        lines.append(f"| {link} | {one.result} | {one.theirs} | {one.ours} | {one.difference} |")
    return "\n".join(lines)


def _reproduce() -> str:
    return """\
In a checkout with the [development requirements](../../bench/README.md), on a machine without other work:

```console
$ python -m bench report --size full --out docs/benchmarks
$ python -m bench report --size quick --out /tmp/report     # 100,000 events, one round
$ python -m bench report --size full --only perseid-local,duckdb --out docs/benchmarks
```

Results are appended to a journal in `build/report` (`--data DIR` names another folder). An interrupted call loses at most
one run: the next call continues, and tries again what failed. To start anew, delete the journal."""


def _titles(results: Data) -> dict[str, Any]:
    return {engine["name"]: engine["title"] for engine in results["engines"]}


def _plain(text: str) -> str:
    return text.replace("|", "\\|").strip().rstrip(".")
