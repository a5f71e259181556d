"""Properties of the joins engine: the oracle's notifications for any calls, any number of shards, and any restarts."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perseid.engines.joins.documents import key_of
from perseid.engines.joins.plan import JoinsPlan
from perseid.engines.joins.table import SUFFIX, append, chains_in, listed
from perseid.errors import EventDataError, LimitError, PerseidError
from perseid.lang.xscl import parse_subscription
from perseid.reference.subscriptions import Document, results
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import ARRIVAL, WATERMARK, Watermark
from tests.contract.inputs import without_numba
from tests.contract.subscriptions import (
    RunningShards,
    SubscriptionWorkload,
    all_rows,
    arrivals,
    cache_parsed_texts,
    draw_timeline,
    draw_workload,
    plan_of,
    rows_of,
    rows_of_seeds,
    run_all_at_once,
    shift_times,
)
from tests.semantics.join_documents import element

__all__ = ["cache_parsed_texts"]

FAST = os.environ.get("PERSEID_NUMBA", "1") != "0"
SEEDS = range(60 if FAST else 4)


def test_notifications_equal_the_oracle() -> None:
    found = 0
    for seed in SEEDS:
        workload = draw_workload(seed)
        for expand in (True, False):
            emitted = run_all_at_once(workload, expand=expand).emitted
            counts: Counter[tuple[str, int, int]] = Counter()
            for one, many in emitted.items():
                counts[one[0], one[1], one[2]] += many
            assert counts == workload.expected_counts, f"seed {seed}"
        found += sum(counts.values())
    assert found > 80 or not FAST


@pytest.mark.parametrize("shares", [2, 3, 7])
def test_any_number_of_query_partitions(shares: int) -> None:
    for seed in SEEDS[shares % 3 :: 3]:
        workload = draw_workload(seed)
        for expand in (True, False):
            one, many = (run_all_at_once(workload, shards=count, expand=expand) for count in (1, shares))
            assert one.emitted == many.emitted, f"seed {seed}"
            rows = [sorted(map(repr, all_rows(running))) for running in (one, many)]
            assert rows[0] == rows[1], f"seed {seed}: rows do not depend on the query partition"


def check_any_calls(seed: int, shares: int, forgetful: bool) -> None:
    """In several calls, out of order within the watermark, the notifications are those of one call."""
    workload = shift_times(draw_workload(seed), 1_000_000)
    running = RunningShards(plan_of(workload, shards=shares), forgetful)
    for documents, now in arrivals(workload, seed):
        running.call(documents, Watermark(None, now, False))
        assert not any(len(step.late) for step in running.last.values())
    assert {one[:3] for one in running.emitted} == workload.expected_pairs, f"seed {seed}"
    assert running.emitted == run_all_at_once(workload).emitted, f"seed {seed}"


def test_any_calls_and_restarts() -> None:
    for seed in SEEDS:
        check_any_calls(seed, 1 + seed % 3, bool(seed % 2))


@pytest.mark.deep
@pytest.mark.parametrize("block", range(20))
def test_calls_and_restarts_deep(block: int) -> None:
    for seed in range(10_000 + block * 250, 10_250 + block * 250):
        check_any_calls(seed, 1 + seed % 5, bool(seed % 2))


def check_timeline(seed: int, order: str, folder: Path) -> tuple[int, int]:
    """Compare a timeline with the oracle; return the numbers of notifications and of calls with subscriptions."""
    timeline = draw_timeline(seed, order)
    expected_pairs = timeline.expected_pairs()
    runs = timeline.run(str(folder / str(seed)), [(shares, bool((seed + shares) % 2)) for shares in (1, 2, 3)])
    for running in runs:
        assert [{one[:3] for one in emitted} for emitted in running.history] == expected_pairs, (
            f"seed {seed}, {running.plan.shards} shares"
        )
        assert running.history == runs[0].history, f"seed {seed}, {running.plan.shards} shares"
    return sum(map(len, expected_pairs)), sum(call.announced > 0 for call in timeline.calls)


def test_subscriptions_are_added_and_removed(tmp_path: Path) -> None:
    """A subscription is notified of the oracle's pairs of documents that arrive after it, until it is removed."""
    orders = (WATERMARK, ARRIVAL)
    emitted, calls = zip(*(check_timeline(seed, orders[seed % 2], tmp_path) for seed in SEEDS[:30]), strict=True)
    assert min(sum(map(bool, emitted[some::2])) for some in (0, 1)) >= 2 or not FAST
    assert sum(emitted) > 30 or not FAST
    assert sum(calls) > 90 or not FAST


@pytest.mark.deep
@pytest.mark.parametrize("order", [WATERMARK, ARRIVAL])
@pytest.mark.parametrize("block", range(20))
def test_subscriptions_are_added_and_removed_deep(block: int, order: str, tmp_path: Path) -> None:
    seeds = range(10_000 + block * 250, 10_250 + block * 250)
    assert sum(check_timeline(seed, order, tmp_path)[0] for seed in seeds) > 500


def test_values_are_of_compared_nodes() -> None:
    """Not of their ancestors, whose texts are only extracted if another subscription needs them."""
    parted = {"q": "S//a->x[/b->y][/c->z] FOLLOWED BY{y = v AND z = w, 1 day} S//a->u[/b->v][/c->w]"}
    other = {"r": "S//a->x FOLLOWED BY{x = y, 1 day} S//a->y"}
    documents = tuple(Document(n, n, "S", element("a", element("b", "1"), element("c", "2"))) for n in range(2))
    emitted = [
        run_all_at_once(SubscriptionWorkload(texts, documents)).emitted for texts in (parted, {**parted, **other})
    ]
    assert [one for one in emitted[1] if one[0] == "q"] == list(emitted[0])
    assert list(emitted[0]) == [("q", 0, 1, (("v", "1"), ("w", "2"), ("y", "1"), ("z", "2")))]


AFTER = "S//a->x FOLLOWED BY{x = y, 10 seconds} S//a->y"
SECOND = 1_000_000


def one(n: int, second: int, name: str = "a", text: str = "1") -> Document:
    return Document(n, second * SECOND, "S", element("r", element(name, text)))


def pairs(running: RunningShards) -> set[tuple[int, int]]:
    return {emitted[1:3] for emitted in running.emitted}


def test_late_documents_are_rejected() -> None:
    """At the watermark or before it, with the reason; all others are accepted."""
    for shares in (1, 3):
        running = RunningShards(plan_of(SubscriptionWorkload({"q": AFTER}, ()), shards=shares))
        given = [one(1, 10), one(2, 5), one(3, 4), one(4, 6)]
        running.call([one(0, 6)], Watermark(None, 3 * SECOND, False))
        running.call(given, Watermark(3 * SECOND, 5 * SECOND, False))
        for step in running.last.values():
            assert [given[i].id for i in step.late] == [2, 3]
            assert list(step.late_reasons) == [LateReason.BEHIND_WATERMARK] * 2
            assert (step.counters["events"], step.counters["late"]) == (2, 2)
        running.call([one(5, 4)], Watermark(5 * SECOND, 4 * SECOND, False))  # the watermark does not move back
        assert all(list(step.late) == [0] for step in running.last.values() if step.state is not None)
        running.call([], Watermark(5 * SECOND, 30 * SECOND, False))
        assert pairs(running) == {(0, 1), (4, 1)}


@pytest.mark.parametrize("forgetful", [False, True])
def test_document_older_than_the_newest_is_rejected_in_arrival_order(forgetful: bool) -> None:
    """In every query partition, also in one without a subscription for it, and without state."""
    texts = {"a": AFTER, "b": AFTER.replace("//a", "//b"), "c": AFTER.replace("//a", "//c")}
    for shares in (1, 2, 3):
        running = RunningShards(plan_of(SubscriptionWorkload(texts, ()), shards=shares, order=ARRIVAL), forgetful)
        running.call([one(0, 5, "a")], Watermark())
        given = [one(1, 4, "b"), one(2, 5, "b"), one(3, 7, "c"), one(4, 6, "b")]
        running.call(given, Watermark())
        running.call([one(5, 6, "b"), one(6, 6, "a"), one(7, 8, "b")], Watermark())
        for step in running.last.values():
            assert list(step.late) == [0, 1]
            assert list(step.late_reasons) == [LateReason.OUT_OF_ORDER] * 2
            assert step.counters["events"] + step.counters["late"] == 3
        assert running.emitted.keys() == {("b", 2, 4, B), ("b", 2, 7, B), ("b", 4, 7, B)}
        assert any(running.states.values())
        wakes = [step.next_timer for step in running.last.values()]
        assert all(timer is not None for timer in wakes)
        running.call([], Watermark(None, max(filter(None, wakes)), False))
        assert not any(running.states.values())


B = (("x", "1"), ("y", "1"))


def test_oldest_documents_above_max_state_are_dropped() -> None:
    """They are counted, the notifications are a subset of those of the oracle, and restarts change nothing."""
    documents = tuple(one(n, n, text="1" * 50) for n in range(1, 60))
    workload = SubscriptionWorkload({"q": AFTER.replace("10 seconds", "forever")}, documents)
    room = 4_000
    emitted = []
    for forgetful in (False, True):
        running = RunningShards(plan_of(workload, max_state=room), forgetful)
        capped = 0
        for begin in range(0, len(documents), 4):
            running.call(documents[begin : begin + 4], Watermark(None, begin * SECOND, False))
            (step,) = running.last.values()
            assert step.state is not None
            assert len(step.state) <= room
            assert step.counters["state_bytes"] == len(step.state)
            capped += step.counters["capped"]
            assert capped + step.counters["retained_events"] == min(begin + 4, len(documents))
        assert capped > 20
        emitted.append(running.emitted)
        assert {one[:3] for one in running.emitted} < workload.expected_pairs
        assert {(n, n + 1) for n in range(1, 50)} <= pairs(running), "the newest are kept"
    assert emitted[0] == emitted[1]


def test_waiting_documents_above_max_state_are_an_error() -> None:
    documents = [one(n, n, text="1" * 50) for n in range(1, 60)]
    running = RunningShards(plan_of(SubscriptionWorkload({"q": AFTER}, ()), max_state=4_000))
    with pytest.raises(LimitError, match="max_state allows 4,000"):
        running.call(documents, Watermark(None, 0, False))


@pytest.mark.parametrize("order", [WATERMARK, ARRIVAL])
def test_state_is_empty_after_the_last_window(order: str) -> None:
    """Called at its timers, a shard has no state at the end, and retains no document longer than a window."""
    for forgetful in (False, True):
        running = RunningShards(plan_of(SubscriptionWorkload({"q": AFTER}, ()), order=order, shards=2), forgetful)
        running.call([one(0, 20), one(1, 35), one(2, 41)], Watermark(None, SECOND, False))
        retained, calls = set(), 0
        while any(running.states.values()):
            wakes = [step.next_timer for step in running.last.values() if step.state is not None]
            assert None not in wakes
            now = min(filter(None, wakes))
            running.call([], Watermark(None, now, False))
            retained |= {(now // SECOND, step.counters["retained_events"]) for step in running.last.values()}
            calls += 1
            assert calls < 9, "it asks for more than it needs"
        assert pairs(running) == {(1, 2)}
        assert max(when for when, many in retained if many) < 41 + 11
        assert all(step.next_timer is None for step in running.last.values())


def test_unbounded_windows_stay_open() -> None:
    running = RunningShards(
        plan_of(SubscriptionWorkload({"q": AFTER.replace("10 seconds", "forever")}, ())), forgetful=True
    )
    running.call([one(0, 2)], Watermark(None, SECOND, False))
    running.call([], Watermark(None, 10**9 * SECOND, False))
    (step,) = running.last.values()
    assert (step.counters["retained_events"], step.next_timer) == (1, None)
    running.call([one(1, 10**9 + 1)], Watermark(None, 10**9 * SECOND, False))
    running.call([], Watermark(None, 10**10 * SECOND, False))
    assert pairs(running) == {(0, 1)}


MADE = {
    "made": "SELECT <pair>{x}{v}</pair> FROM S//a->x[/b->y] JOIN{y = w, 5 seconds} S//a->v[/b->w]",
    "not": "S//b->y FOLLOWED BY{y = w, 5 seconds} S//b->w",
}


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("expand", [False, True])
def test_results_for_any_calls(always: bool, expand: bool) -> None:
    """Bodies as text or bytes, with and without restarts; null for subscriptions without a SELECT."""
    chance = random.Random(7)
    documents = tuple(
        Document(n, SECOND * (n + 1), "S", element("a", element("b", chance.choice("12")), f"é{n}")) for n in range(8)
    )
    workload = SubscriptionWorkload(MADE, documents)
    expected_pairs = results({name: parse_subscription(text) for name, text in MADE.items()}, documents)
    expected = {
        (o.subscription, o.left, o.right, made if always or o.subscription == "made" else None)
        for o, made in expected_pairs.items()
    }
    assert len(expected) > 20
    for texts, forgetful, shares in ((False, False, 1), (True, True, 2), (False, True, 3)):
        plan = plan_of(workload, results=True, always=always, expand=expand, texts=texts, shards=shares)
        running = RunningShards(plan, forgetful)
        found = []
        for documents_now, now in arrivals(workload, 3):
            running.call(documents_now, Watermark(None, now, False))
            found += [row for step in running.last.values() for row in step.rows.to_pylist()]
        emitted = [
            (who, row["left"]["n"], row["right"]["n"], row["result"])
            for row in found
            for who in ([row["subscription"]] if expand else row["subscriptions"])
        ]
        assert {*emitted} == expected
        assert len(emitted) == len(expected)


def test_joins_plan_can_be_pickled() -> None:
    for seed in SEEDS[:10]:
        workload = draw_workload(seed)
        plan = plan_of(workload)
        carried = pickle.loads(pickle.dumps(plan))
        assert carried == plan
        one, other = RunningShards(plan), RunningShards(carried)
        for running in (one, other):
            running.call(workload.documents, Watermark(ended=True))
        assert one.emitted == other.emitted


# Files of subscriptions


def test_query_partition_of_a_group_is_stable() -> None:
    """Files contain query partitions: if this fails, raise ``table._VERSION``, or partitions of older files are wrong."""
    asked = {
        "plain": AFTER,
        "constant": "S//a->x[/c = 'z'] JOIN{x = y AND y contains 'k', 1 day} T//b->y",
        "either": "S//a->x[/b->y] FOLLOWED BY{x = v OR y = v, forever} S//c->v",
    }
    table = listed(asked)
    assert dict(zip(asked, table["parts"].to_pylist(), strict=True)) == PARTS
    assert [key_of(chain) for chain in chains_in(table.schema, "This")] == KEYS


PARTS = {
    "plain": [7320495552700011090],
    "constant": [6453999644272738786, 2115496204498692564],
    # Alternatives are in the partition of the first. An older file names both partitions, which is harmless:
    # a partition without an alternative of its own in a text drops the text.
    "either": [2168313447775795505, 2168313447775795505],
}
KEYS = [
    2903583055092505217,
    8398937595158643585,
    2608986289260249474,
    899930349892863745,
    793249209426511745,
    7308917833802372737,
]


def folder_with(path: Path, table: pa.Table) -> JoinsPlan:
    name = append(str(path), listed({"q": AFTER}))
    pq.write_table(table, path / name)
    return plan_of(table=str(path))


def assert_rejected(plan: JoinsPlan, *names: str) -> str:
    """Assert the same error when documents are read and when they are joined."""
    with pytest.raises(EventDataError) as found:
        RunningShards(plan).call_with_rows(
            replace(rows_of(plan_of(SubscriptionWorkload({}, ())), [], files=names)), Watermark()
        )
    if set(names) <= set(os.listdir(plan.folder or "")):
        with pytest.raises(EventDataError) as other:
            plan.chain_program()
        assert str(other.value) == str(found.value)
    return str(found.value)


FIRST = f"{1:012}{SUFFIX}"


def test_malformed_subscription_files_are_rejected(tmp_path: Path) -> None:
    good = listed({"q": AFTER})
    said = json.loads(good.schema.metadata[b"perseid.subscriptions"])
    metadata = {
        "none": None,
        "newer": {**said, "version": said["version"] + 1},
        "no version": {"chains": []},
        "no chains": {"version": said["version"]},
        "wrong chains": {**said, "chains": [["S", "//a"]]},
        "chains of no kind": {**said, "chains": 3},
        "list": [],
    }
    for name, value in metadata.items():
        about = None if value is None else {b"perseid.subscriptions": json.dumps(value).encode()}
        plan = folder_with(tmp_path / name, good.replace_schema_metadata(about))
        assert "is not a subscription table of this version" in assert_rejected(plan, FIRST), name
    for name, table in {
        "column": good.drop_columns(["parts"]),
        "type": good.set_column(1, "text", pa.array([1])),
        "more": good.append_column("more", pa.array([1])),
    }.items():
        plan = folder_with(tmp_path / name, table.replace_schema_metadata(good.schema.metadata))
        assert "is not a subscription table of this version" in assert_rejected(plan, FIRST), name
    plan = folder_with(tmp_path / "bytes", good)
    for content in (b"", b"PAR1", b"x" * 100, (tmp_path / "bytes" / FIRST).read_bytes()[:-9]):
        (tmp_path / "bytes" / FIRST).write_bytes(content)
        assert "Cannot read the subscription file" in assert_rejected(replace(plan, views=len(content)), FIRST)


def test_missing_subscription_file_is_rejected(tmp_path: Path) -> None:
    """Also one that a state names."""
    folder = str(tmp_path / "folder")
    names = [append(folder, listed({who: AFTER})) for who in "ab"]
    running = RunningShards(plan_of(table=folder), forgetful=True)
    running.call([one(0, 1)], Watermark(None, None, False), names)
    (tmp_path / "folder" / names[0]).unlink()
    with pytest.raises(EventDataError, match=f"Cannot read the subscription file {names[0]}"):
        running.call([one(1, 2)], Watermark(None, None, False))
    assert names[1] in assert_rejected(plan_of(table=str(tmp_path)), names[1])


def test_invalid_subscription_text_is_rejected(tmp_path: Path) -> None:
    """When it is written, or, in a file that another program wrote, when it is read as a whole."""
    for wrong in ("S//a", "S//a->x JOIN{x = z, 1 day} S//a->y", ""):
        with pytest.raises(PerseidError):
            listed({"good": AFTER, "q": wrong})
        table = listed({"good": AFTER, "q": AFTER})
        texts = pa.array([AFTER, wrong], pa.string())
        plan = folder_with(tmp_path / f"{len(wrong)}", table.set_column(1, table.schema.field(1), texts))
        for _ in range(2):
            with pytest.raises(PerseidError):
                RunningShards(plan).call([one(0, 1)], Watermark(), [FIRST])


# With and without Numba


def test_joins_without_numba_have_the_same_output() -> None:
    seeds = [seed for seed in SEEDS if draw_workload(seed).expected_pairs][:4]
    here = rows_of_seeds(seeds)
    assert all(here)
    assert without_numba("tests.contract.subscriptions", f"rows_of_seeds({seeds})") == here


def test_joins_of_no_rows() -> None:
    for order in (WATERMARK, ARRIVAL):
        for watermark in (Watermark(), Watermark(None, SECOND, False), Watermark(ended=True)):
            for expand in (True, False):
                running = RunningShards(
                    plan_of(SubscriptionWorkload({"q": AFTER}, ()), order=order, shards=2, expand=expand)
                )
                running.call([], watermark)
                running.call([one(0, 1, "z")], watermark)
                for step in running.last.values():
                    assert step.rows.schema.equals(running.plan.schema)
                    assert (step.rows.num_rows, step.state, step.next_timer, len(step.late)) == (0, None, None, 0)
