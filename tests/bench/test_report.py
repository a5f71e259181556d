"""The report: validity of rounds, continuation, ratios, the page and its charts, from a recorded journal."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bench.__main__ import main
from bench.harness import MissingToolError
from bench.report import benchmark, by_hand
from bench.report.charts import draw_all, rate_rows, ratio_rows
from bench.report.engines import Call, Engine, Run, Workload, compare_ids, just, measure
from bench.report.journal import Journal
from bench.report.page import markdown, write_page
from bench.report.papers import HEADLINES
from bench.report.registry import ENGINES, QUERIES
from bench.report.results import paired_ratios, spread, summarize
from bench.workload import QUERIES as TEXTS
from bench.workload import Query

from .test_bench import naive_ids, small

RECORDED = Path(__file__).with_name("report.jsonl")
DOCS = Path(__file__).parents[2] / "docs"


def results() -> dict[str, Any]:
    return summarize(Journal(RECORDED), ENGINES, QUERIES, "quick", 1_000, 2)


def test_ratio_pairs_rounds_and_is_below_one_if_perseid_is_slower() -> None:
    ours, theirs = {(1, 0): 0.25, (1, 1): 0.5, (1, 2): 1.0}, {(1, 0): 0.125, (1, 1): 0.375, (2, 2): 9.0}
    assert paired_ratios(ours, theirs) == [0.5, 0.75]
    assert spread([0.5, 0.75, 3.0]) == {"median": 0.75, "min": 0.5, "max": 3.0}
    row = next(row for row in results()["ratios"] if (row["ours"], row["peer"]) == ("perseid-local", "duckdb"))
    assert row["queries"]["Q1n"] == {"median": 0.625, "min": 0.5, "max": 0.75, "rounds": 2}
    assert row["queries"]["Q2"] == {"missing": "no common rounds"}
    assert row["queries"]["Q1"] == {"missing": "not expressible"}
    assert row["queries"]["Q3"] == {"missing": "other matches"}


def test_every_engine_has_a_cell_with_a_figure_or_a_reason() -> None:
    cells = results()["cells"]
    assert cells["Q1n"]["duckdb"] == {
        "seconds": {"median": 0.2, "min": 0.1, "max": 0.3},
        "rounds": 2,
        "thousand_events_per_second": 5.0,
    }
    assert cells["Q2"]["duckdb"]["rounds"] == 1  # it failed first, and a later call succeeded
    assert cells["Q2"]["trino"]["missing"] == "not run"
    assert cells["Q2"]["esper"] == {"missing": "not run", "reason": "not selected"}
    for query in QUERIES:
        assert cells[query].keys() == ENGINES.keys()
        assert all(cell.get("reason") or cell.get("rounds") for cell in cells[query].values())


def test_ratios_compare_engines_of_one_group() -> None:
    for row in results()["ratios"]:
        assert ENGINES[row["ours"]].ours
        assert not ENGINES[row["peer"]].ours
        assert ENGINES[row["ours"]].group == ENGINES[row["peer"]].group
    assert {row["peer"] for row in results()["ratios"]} == {name for name, one in ENGINES.items() if not one.ours}


def test_page_shows_losses_reasons_and_the_size() -> None:
    page = markdown(results(), set())
    assert "Perseid is slower than another engine" in page
    assert "- Perseid, local against DuckDB, SQL by hand: Q1n 0.625\n" in page
    assert "0.625 (0.5 to 0.75)" in page
    assert "**not run**: no JDK 24 or later \\| set TRINO_JAVA_HOME" in page
    assert "DuckDB, SQL by hand: other matches: 1 of 3 missing, 0 wrong, 0 repeated." in page
    assert "do not cite" in page
    assert all(engine.title in page for engine in ENGINES.values())
    assert "<picture>" not in page
    full = results() | {"size": "full"}
    assert "do not cite" not in markdown(full, set())


def test_tables_have_equal_columns() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", markdown(results(), set()), re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table


def test_page_folder_has_data_and_charts_for_light_and_dark(tmp_path: Path) -> None:
    files = {path.name for path in write_page(results(), tmp_path)}
    assert {"index.md", "report.json", "q1n-light.svg", "q1n-dark.svg", "ratios-light.svg", "ratios-dark.svg"} <= files
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == results()
    page = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r'"(\S+\.svg)"', page)) == {name for name in files if name.endswith(".svg")}
    light, dark = ((tmp_path / f"q1n-{theme}.svg").read_text(encoding="utf-8") for theme in ("light", "dark"))
    assert "#0072b2" in light
    assert "#56b4e9" in dark


def test_chart_rows_have_rates_and_ratios_with_their_spread() -> None:
    rows = {row["engine"]: row for row in rate_rows(results(), "Q1n")}
    assert rows.keys() == {"Perseid, local", "DuckDB, SQL by hand"}
    duckdb = rows["DuckDB, SQL by hand"]
    assert (duckdb["rate"], duckdb["kind"]) == (5_000, "other engine")
    assert duckdb["low"] < duckdb["rate"] < duckdb["high"]
    assert {(row["query"], row["kind"]) for row in ratio_rows(results())} == {("Q1n", "other engine")}


def test_no_charts_without_figures(tmp_path: Path) -> None:
    empty = summarize(Journal(tmp_path / "none"), ENGINES, QUERIES, "quick", 1_000, 1)
    assert list(draw_all(empty, tmp_path)) == []
    assert "not selected" in markdown(empty, set())


@pytest.mark.parametrize("one", HEADLINES, ids=lambda one: f"{one.page} {one.result}")
def test_figures_of_papers_are_quoted_from_the_experiments(one: Any) -> None:
    page = (DOCS / "experiments" / one.page).read_text(encoding="utf-8")
    assert all(quote in page for quote in one.quotes)
    quoted = set(re.findall(r"\d[\d,.]*\d|\d", " ".join(one.quotes)))
    assert set(re.findall(r"\d[\d,.]*\d|\d", f"{one.theirs} {one.ours}")) <= quoted


# validity of a run


def test_sets_of_matches_are_compared_and_not_their_number() -> None:
    expected = np.array([1, 4, 9])
    assert compare_ids(np.array([9, 1, 4]), expected) == ""
    assert compare_ids(np.array([1, 4, 8]), expected) == "1 of 3 missing, 1 wrong, 0 repeated"
    assert compare_ids(np.array([1, 4, 4, 9]), expected) == "0 of 3 missing, 0 wrong, 1 repeated"
    assert measure(lambda: Run(0.5, np.array([5, 4, 5])), np.array([4, 5, 5]), 9, None).seconds == 0.5
    outcome = measure(lambda: Run(0.5, np.array([5, 4])), np.array([3, 6]), 9, None)
    assert (outcome.seconds, outcome.failure) == (None, "other matches")


def test_failures_have_a_reason() -> None:
    def fail() -> Run:
        raise ValueError("no table\nat line 7")

    assert measure(fail, np.array([1]), 9, None).reason == "ValueError: no table"
    assert measure(fail, np.array([1]), 0, None).reason == "the run's time was up"


def test_run_that_ends_after_its_limit_has_no_time() -> None:
    def sleep() -> Run:
        time.sleep(0.1)
        return Run(0.1, np.array([1]))

    outcome = measure(sleep, np.array([1]), 0.05, lambda: None)
    assert (outcome.seconds, outcome.failure) == (None, "failed")


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("step", [1, 7, 1_000_000])
def test_program_by_hand_finds_the_expected_matches_in_batches_of_any_size(query: str, step: int) -> None:
    events = small("plain", 2_000, 10)
    found: list[int] = []
    for key in range(10):
        mine = [i for i in range(len(events)) if events.key[i] == key]
        rows: list[by_hand.Row] = []
        free = -1
        for at in range(0, len(mine) + step, step):
            new = mine[at : at + step]
            rows += [
                (int(events.ts[i]), int(events.id[i]), "ABCDEFGHIJ"[events.type[i]], float(events.v[i])) for i in new
            ]
            watermark = int(events.ts[new[-1]]) if new else 10**15
            decision = by_hand.decide(query, rows, free, watermark)
            found, rows, free = found + decision.ids, decision.rows, decision.free
            assert (decision.due is None) or decision.due > watermark
        assert rows == []
    assert found == naive_ids(query, events)


# rounds and continuation


class FakeEngine:
    """Counts its runs; from a given run on it fails."""

    def __init__(self, ids: list[int], fails_at: int = 10**9) -> None:
        self.ids, self.fails_at, self.runs = ids, fails_at, 0

    def versions(self) -> dict[str, str]:
        return {"fake": "1"}

    def prepare(self, query: Query) -> Any:
        return just(cast(Call, self._run))

    def _run(self) -> Run:
        self.runs += 1
        if self.runs >= self.fails_at:
            raise RuntimeError("gone")
        return Run(0.5, np.array(self.ids))

    def stop(self) -> None:
        pass

    @contextmanager
    def open(self, workload: Workload) -> Iterator[FakeEngine]:
        yield self


def fake(name: str, opened: FakeEngine, **more: Any) -> Engine:
    return Engine(name, name, "batch", "", opened.open, **more)


def run_fakes(journal: Journal, engines: list[Engine]) -> None:
    workload = cast(Workload, SimpleNamespace(expected=lambda query: np.array([1, 2])))
    runner = benchmark.Runner(journal, workload, rounds=3, warm=1, limits=(60, 9))
    with ExitStack() as stack:
        runner.run(engines, [TEXTS["Q2"]], stack)


def test_later_call_continues_and_repeats_only_failures(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    good, fails, wrong = FakeEngine([2, 1]), FakeEngine([1, 2], fails_at=3), FakeEngine([1, 3])
    run_fakes(Journal(path), [fake("good", good), fake("fails", fails), fake("wrong", wrong)])
    assert (good.runs, fails.runs, wrong.runs) == (4, 3, 1)
    first = Journal(path)
    assert [number for _, number in first.rounds("good", "Q2")] == [0, 1, 2]
    assert [number for _, number in first.rounds("fails", "Q2")] == [0]
    assert first.is_done("wrong", "Q2", 3)
    assert not first.is_done("fails", "Q2", 3)
    again = FakeEngine([1, 2])
    run_fakes(Journal(path), [fake("good", good), fake("fails", again), fake("wrong", wrong)])
    assert (good.runs, again.runs, wrong.runs) == (4, 3, 1)
    assert Journal(path).is_done("fails", "Q2", 3)
    assert Journal(path).failure("fails", "Q2") is None


def test_ours_runs_again_in_the_rounds_that_a_peer_misses(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    ours, peer = FakeEngine([1, 2]), FakeEngine([1, 2], fails_at=4)
    for _ in range(2):
        journal.add("call")
        run_fakes(journal, [fake("ours", ours, ours=True), fake("peer", peer)])
        peer.fails_at = 99
    assert list(journal.rounds("peer", "Q2")) == [(1, 0), (1, 1), (2, 2)]
    assert list(journal.rounds("ours", "Q2")) == [(1, 0), (1, 1), (1, 2), (2, 2)]


def test_engine_that_is_not_installed_is_listed_with_the_reason(tmp_path: Path) -> None:
    def missing(workload: Workload) -> Any:
        raise MissingToolError("`mvn` is not on the path")

    journal = Journal(tmp_path / "journal")
    run_fakes(journal, [Engine("peer", "Peer", "batch", "", missing), fake("ours", FakeEngine([1, 2]), ours=True)])
    engines = {"peer": Engine("peer", "Peer", "batch", "", missing)}
    found = summarize(journal, engines, ("Q2",), "quick", 100, 3)
    assert found["cells"]["Q2"]["peer"] == {"missing": "not run", "reason": "`mvn` is not on the path"}
    assert found["engines"][0]["not_run"] == "`mvn` is not on the path"


def test_incomplete_line_of_an_interrupted_call_is_ignored(tmp_path: Path) -> None:
    copy = tmp_path / "journal"
    shutil.copy(RECORDED, copy)
    journal = Journal(copy)
    assert len(journal.entries) == 14
    journal.add("round", engine="duckdb", query="Q4", call=1, round=0, seconds=0.1, load=1)
    journal.add("round", engine="duckdb", query="Q4", call=1, round=1, seconds=0.2, load=1)
    assert Journal(copy).rounds("duckdb", "Q4") == {(1, 0): 0.1, (1, 1): 0.2}


def test_report_is_listed_and_knows_its_engines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "\nreport: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["report", "--only", "spade"])
    assert "there are perseid-local, perseid-spark, spark-sql" in capsys.readouterr().err
