"""The benchmark against Flink, without Java: files, commands, failures and figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench import java, stream
from bench.flink import benchmark, queries
from bench.flink.lanes import TURN, lanes
from bench.flink.process import Flink
from bench.harness import Clock, Report, Timed, targets_of
from bench.truth import MatchChecksum
from bench.workload import QUERIES

RIGHT = MatchChecksum(3, 12)


def compare(sql: Callable[[], Timed], cep: Callable[[], Timed]) -> Report:
    report = Report("flink", "standard")
    benchmark.compare(
        report,
        "Q1",
        ours=lambda: Timed(0.5, RIGHT),
        proof=lambda: Timed(9.0, RIGHT),
        theirs={"flink_sql": sql, "flink_cep": cep},
        baseline=lambda: Timed(0.25, None),
        right=RIGHT,
        rounds=3,
        clock=Clock(3600, 60),
        stop=lambda: None,
    )
    return report


def test_lanes_have_every_row_in_time_order(tmp_path: Path) -> None:
    pieces = stream.pieces(tmp_path, "plain", 10_500)
    folder = lanes(pieces, 2)
    first, second = (pq.read_table(folder / f"{lane}.parquet").column("id").to_pylist() for lane in range(2))
    assert sorted(first + second) == [-1, *range(10_500)]
    for ids in (first, second):
        events = [id_ for id_ in ids if id_ >= 0]
        assert events == sorted(events)
        assert ids.index(-1) == len(ids) - 1 if -1 in ids else True
    assert first[:TURN] == list(range(TURN))
    assert second[:TURN] == list(range(TURN, 2 * TURN))
    assert lanes(pieces, 2) == folder


def test_allowed_lateness_equals_that_of_the_stream_benchmark() -> None:
    assert f"{queries.DELAY_MS // 1000} second" == stream.DELAY


def test_queries_read_only_the_types_and_columns_that_they_need() -> None:
    assert queries.cep_form(QUERIES["Q2"]).types == ""
    assert queries.cep_form(QUERIES["Q4"]) == queries.CepForm("Q4", 30_000, "AB", reads_v=False, long_keys=False)
    assert queries.cep_form(QUERIES["Q1w"]).long_keys
    assert "where type in" not in queries.SQL["Q3"]
    assert "`v`" not in queries.table(QUERIES["Q5"], "folder")


def test_command_has_its_files_and_temporary_folder(tmp_path: Path) -> None:
    flink = Flink(java.Program("java", "classes"), tmp_path, 2)
    for command in (flink.sql(QUERIES["Q1"], tmp_path / "lanes"), flink.cep(queries.cep_form(QUERIES["Q1"]), tmp_path)):
        assert f"-Djava.io.tmpdir={tmp_path}" in command
        assert command[command.index("FlinkRounds") + 1] == "2"
        assert any(str(tmp_path) in word for word in command[command.index("FlinkRounds") :])


def test_both_baselines_are_compared() -> None:
    report = compare(lambda: Timed(5.0, RIGHT), lambda: Timed(2.5, RIGHT))
    assert report.figures == {
        "Q1.flink_sql": 10.0,
        "Q1.flink_sql.bare": 20.0,
        "Q1.flink_cep": 5.0,
        "Q1.flink_cep.bare": 10.0,
    }
    assert len(report.records["Q1 flink_sql"].seconds) == 3


def test_other_matches_equal_in_number_give_no_figure_and_spare_the_other_rival() -> None:
    report = compare(lambda: Timed(5.0, MatchChecksum(3, 13)), lambda: Timed(2.5, RIGHT))
    assert (report.figures["Q1.flink_sql"], report.figures["Q1.flink_cep"]) == (None, 5.0)
    assert report.reasons["Q1.flink_sql"] == "theirs: wrong answer: (3, 13), right is (3, 12)"


def test_failed_baseline_gives_no_figure() -> None:
    def fail() -> Timed:
        raise java.RoundsError("out of memory")

    report = compare(fail, lambda: Timed(2.5, RIGHT))
    assert report.reasons["Q1.flink_sql"] == "theirs: RoundsError: out of memory"
    assert report.short({"Q1.flink_sql": 3.0}) == ["Q1.flink_sql"]


def test_where_a_rival_can_do_only_fewer_the_others_do_all() -> None:
    parts = dict(benchmark._parts([QUERIES["Q1"], QUERIES["Q1w"]], 1_000_000))
    assert parts == {
        1_000_000: {"Q1": ("flink_sql", "flink_cep"), "Q1w": ("flink_cep",)},
        200_000: {"Q1w": ("flink_sql",)},
    }


@pytest.mark.parametrize("size", ["standard", "full"])
def test_every_form_has_a_target_and_no_other_query_has(size: str) -> None:
    assert set(targets_of("flink", size)) == {
        f"{name}.{rival}" for name in queries.SQL for rival in benchmark.BASELINES
    }
