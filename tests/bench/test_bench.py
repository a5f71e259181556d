"""The benchmark harness accepts only correct results, and its expected results are correct."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import harness, ours, truth
from bench.__main__ import main
from bench.harness import Clock, Record, Report, Side, paired_ratio, run_rounds, targets_of
from bench.workload import EVENTS, QUERIES, EventArrays, Query, generate, parquet, rows

PUBLISHED = {"Q1": 10_929, "Q1n": 12_645, "Q2": 966, "Q3": 113, "Q4": 148_793}


def small(dataset: str, count: int = 6_000, keys: int = 30) -> EventArrays:
    """Return a small data set with as many events per key and minute as the measured ones."""
    events = generate(dataset, count, keys)
    return replace(events, ts=events.ts * (10_000 // keys))


def naive(query: str, events: list[tuple[int, int, str, float]]) -> Iterator[int]:
    """Yield the ids of a, from the ordered (id, ms, type, v) of one key, by a nested-loop search of all later events."""
    free = 0
    for i, (id_, ts, kind, v) in enumerate(events):
        later = events[i + 1 :]
        if kind != "A":
            continue
        if query in ("Q1", "Q1n", "Q1w"):
            b = next((j for j, e in enumerate(later) if e[2] == "B" and e[3] > v), None)
            c = None if b is None else next((j for j, e in enumerate(later) if j > b and e[2] == "C"), None)
            if c is not None and later[c][1] - ts < 60_000 and (query == "Q1n" or i >= free):
                free = i + 1 + c + 1
                yield id_
        elif query == "Q2":
            if [e[2] for e in later[:2]] == ["B", "C"] and later[0][3] > v and later[1][1] - ts < 60_000:
                yield id_
        elif query == "Q3":
            run = next((j for j, e in enumerate(later) if e[2] != "B"), None)
            if run and later[run][2] == "C" and sum(e[3] for e in later[:run]) > 100 and later[run][1] - ts < 60_000:
                yield id_
        elif query == "Q4":
            if not any(e[2] == "B" and e[1] - ts < 30_000 for e in later):
                yield id_
        elif query == "Q5":
            following = next((e for e in later if e[2] == "A"), None)
            if following is not None and following[1] - ts < 600_000:
                yield id_


def naive_ids(query: str, events: EventArrays) -> list[int]:
    """Return the ids of a in all matches, key by key."""
    streams: dict[int, list[tuple[int, int, str, float]]] = {}
    for i in range(len(events)):
        row = (int(events.id[i]), int(events.ts[i]), "ABCDEFGHIJ"[events.type[i]], float(events.v[i]))
        streams.setdefault(int(events.key[i]), []).append(row)
    return [id_ for key in sorted(streams) for id_ in naive(query, streams[key])]


def naive_result(query: str, events: EventArrays) -> truth.MatchChecksum:
    ids = naive_ids(query, events)
    return truth.MatchChecksum(len(ids), sum(ids))


@pytest.mark.parametrize("query", QUERIES.values(), ids=lambda q: q.name)
def test_expected_matches_equal_naive_search(query: Query) -> None:
    events = small(query.dataset)
    expected = naive_result(query.name, events)
    assert expected.matches > 0 or query.name == "Q3"
    assert truth.expected_result(query.name, events.by_key()) == expected
    ids = truth.expected_ids(query.name, events.by_key()).tolist()
    assert ids == sorted(set(naive_ids(query.name, events)))
    assert len(ids) == expected.matches


def test_expected_matches_equal_naive_search_with_frequent_repetitions() -> None:
    events = small("plain")
    events = replace(events, type=events.type % 3, ts=events.ts // 4)
    expected = naive_result("Q3", events)
    assert expected.matches > 10
    assert truth.expected_result("Q3", events.by_key()) == expected


def test_expected_match_counts_equal_the_published_ones() -> None:
    events = generate("plain", EVENTS["standard"]).by_key()
    assert {name: truth.expected_result(name, events).matches for name in PUBLISHED} == PUBLISHED


def test_a_fifth_of_the_busy_events_completes_a_match() -> None:
    events = generate("busy", EVENTS["standard"]).by_key()
    assert 0.19 < truth.expected_result("Q5", events).matches / len(events) < 0.2


@pytest.mark.parametrize("query", QUERIES.values(), ids=lambda q: q.name)
def test_pattern_finds_the_expected_matches(query: Query) -> None:
    events = small(query.dataset, 2_000, 10)
    table = rows(events, query.dataset, 10).select(["id", "ts", "key", "type", "v"])
    assert ours.in_memory(query, table.to_pylist()) == truth.expected_result(query.name, events.by_key())


def test_wide_file_has_thirty_extra_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(parquet(tmp_path, "wide", 1_000))
    assert table.num_columns == 2 + 30
    assert {len(key) for key in table["key"].to_pylist()} == {36}
    assert len(set(table["ts"].to_pylist())) == 250


def test_ratio_is_the_median_of_paired_rounds() -> None:
    ours_, theirs = Record([1.0, 2.0, 4.0]), Record([3.0, 2.0, 8.0])
    assert paired_ratio(ours_, theirs) == (2.0, "")
    assert paired_ratio(ours_, Record(failure="wrong answer")) == (None, "theirs: wrong answer")


def test_contestants_alternate_and_wrong_results_are_failures() -> None:
    order: list[str] = []

    def run(name: str, result: int) -> int:
        order.append(name)
        return result

    records = run_rounds(
        [
            Side("a", lambda: run("a", 7), 7),
            Side("b", lambda: run("b", 7), 7),
            Side("c", lambda: 6, 7),
        ],
        Clock(3600, 60),
    )
    assert order == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert [len(records[name].seconds) for name in "abc"] == [3, 3, 0]
    assert records["c"].failure == "wrong answer: 6, right is 7"


def test_what_takes_too_long_is_interrupted() -> None:
    records = run_rounds([Side("slow", lambda: time.sleep(30))], Clock(3600, 0.05))
    assert records["slow"].failure == "not done after 0 s"


def test_slow_job_is_stopped_by_the_stop_function() -> None:
    stopped = threading.Event()

    def job() -> None:
        assert stopped.wait(30)
        raise RuntimeError("cancelled")

    records = run_rounds([Side("job", job)], Clock(3600, 0.05), stop=stopped.set)
    assert records["job"].failure == "not done after 0 s"


def test_report_lists_missed_and_missing_targets_as_short(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = Report("sequence", "quick")
    report.add("Q1n.bare", 2.9)
    report.add("Q3.bare", 1.4)
    report.add("Q3.kernel", None, "not measured")
    report.add("Q3.defaults", 0.1)
    targets = {"Q1n.bare": 3.0, "Q3.bare": 1.3, "Q3.kernel": 30.0}
    assert harness.conclude(report, tmp_path, targets) == 1
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line == {
        "bench": "sequence",
        "size": "quick",
        "figures": {"Q1n.bare": 2.9, "Q3.bare": 1.4, "Q3.kernel": None, "Q3.defaults": 0.1},
        "short": ["Q1n.bare", "Q3.kernel"],
    }
    assert json.loads((tmp_path / "sequence-quick.json").read_text())["reasons"] == {"Q3.kernel": "not measured"}
    assert harness.conclude(report, None, {"Q3.bare": 1.3}) == 0


def test_targets_are_for_known_queries_and_quick_targets_are_lower() -> None:
    targets = {size: targets_of("sequence", size) for size in EVENTS}
    for least in targets.values():
        assert least
        assert {name.split(".")[0] for name in least} <= set(QUERIES)
    assert all(least < targets["standard"][name] for name, least in targets["quick"].items())


def test_list_prints_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.startswith("sequence: ")
