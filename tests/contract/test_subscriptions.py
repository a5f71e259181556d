"""What the joins engine keeps to: the oracle's answer, whatever the cuts, the shares and the restarts."""

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
    Question,
    Running,
    all_rows,
    answers,
    arrivals,
    ask,
    live,
    moved,
    plan_of,
    read_once,
    rows_of,
    whole,
)
from tests.semantics.join_documents import element

__all__ = ["read_once"]

FAST = os.environ.get("PERSEID_NUMBA", "1") != "0"
SEEDS = range(60 if FAST else 4)


def test_equals_the_oracle() -> None:
    found = 0
    for seed in SEEDS:
        question = ask(seed)
        for expand in (True, False):
            told = whole(question, expand=expand).told
            counts: Counter[tuple[str, int, int]] = Counter()
            for one, many in told.items():
                counts[one[0], one[1], one[2]] += many
            assert counts == question.due_counts, f"seed {seed}"
        found += sum(counts.values())
    assert found > 80 or not FAST


@pytest.mark.parametrize("shares", [2, 3, 7])
def test_any_number_of_shares(shares: int) -> None:
    for seed in SEEDS[shares % 3 :: 3]:
        question = ask(seed)
        for expand in (True, False):
            one, many = (whole(question, shards=count, expand=expand) for count in (1, shares))
            assert one.told == many.told, f"seed {seed}"
            rows = [sorted(map(repr, all_rows(running))) for running in (one, many)]
            assert rows[0] == rows[1], f"seed {seed}: what is told together is so wherever it is found"


def cut(seed: int, shares: int, forgetful: bool) -> None:
    """In pieces, out of order, as the watermark allows: what is told in all is what is told at once."""
    question = moved(ask(seed), 1_000_000)
    running = Running(plan_of(question, shards=shares), forgetful)
    for documents, now in arrivals(question, seed):
        running.call(documents, Watermark(None, now, False))
        assert not any(len(step.late) for step in running.last.values())
    assert {one[:3] for one in running.told} == question.due, f"seed {seed}"
    assert running.told == whole(question).told, f"seed {seed}"


def test_any_cut_and_any_restart() -> None:
    for seed in SEEDS:
        cut(seed, 1 + seed % 3, bool(seed % 2))


@pytest.mark.deep
@pytest.mark.parametrize("block", range(20))
def test_many_cuts_and_restarts(block: int) -> None:
    for seed in range(10_000 + block * 250, 10_250 + block * 250):
        cut(seed, 1 + seed % 5, bool(seed % 2))


def come_and_go(seed: int, order: str, folder: Path) -> tuple[int, int]:
    """Files and documents, call by call, the same in any number of shares: how much is told, and calls with subscriptions."""
    life = live(seed, order)
    due = life.due()
    runs = life.run(str(folder / str(seed)), [(shares, bool((seed + shares) % 2)) for shares in (1, 2, 3)])
    for running in runs:
        assert [{one[:3] for one in told} for told in running.history] == due, (
            f"seed {seed}, {running.plan.shards} shares"
        )
        assert running.history == runs[0].history, f"seed {seed}, {running.plan.shards} shares"
    return sum(map(len, due)), sum(call.heard > 0 for call in life.calls)


def test_subscriptions_come_and_go(tmp_path: Path) -> None:
    """Each is told of pairs whose documents came with it or later, as long as it stands; that is the oracle's answer."""
    orders = (WATERMARK, ARRIVAL)
    told, calls = zip(*(come_and_go(seed, orders[seed % 2], tmp_path) for seed in SEEDS[:30]), strict=True)
    assert min(sum(map(bool, told[some::2])) for some in (0, 1)) >= 2 or not FAST
    assert sum(told) > 30 or not FAST
    assert sum(calls) > 90 or not FAST


@pytest.mark.deep
@pytest.mark.parametrize("order", [WATERMARK, ARRIVAL])
@pytest.mark.parametrize("block", range(20))
def test_many_subscriptions_come_and_go(block: int, order: str, tmp_path: Path) -> None:
    seeds = range(10_000 + block * 250, 10_250 + block * 250)
    assert sum(come_and_go(seed, order, tmp_path)[0] for seed in seeds) > 500


def test_values_are_of_what_is_compared() -> None:
    """Not of the nodes above, whose texts are known only where somebody else asks for them."""
    parted = {"q": "S//a->x[/b->y][/c->z] FOLLOWED BY{y = v AND z = w, 1 day} S//a->u[/b->v][/c->w]"}
    other = {"r": "S//a->x FOLLOWED BY{x = y, 1 day} S//a->y"}
    documents = tuple(Document(n, n, "S", element("a", element("b", "1"), element("c", "2"))) for n in range(2))
    told = [whole(Question(texts, documents)).told for texts in (parted, {**parted, **other})]
    assert [one for one in told[1] if one[0] == "q"] == list(told[0])
    assert list(told[0]) == [("q", 0, 1, (("v", "1"), ("w", "2"), ("y", "1"), ("z", "2")))]


AFTER = "S//a->x FOLLOWED BY{x = y, 10 seconds} S//a->y"
SECOND = 1_000_000


def one(n: int, second: int, name: str = "a", text: str = "1") -> Document:
    return Document(n, second * SECOND, "S", element("r", element(name, text)))


def pairs(running: Running) -> set[tuple[int, int]]:
    return {told[1:3] for told in running.told}


def test_late_by_the_watermark() -> None:
    """At the watermark or before it, with why; all others are taken."""
    for shares in (1, 3):
        running = Running(plan_of(Question({"q": AFTER}, ()), shards=shares))
        given = [one(1, 10), one(2, 5), one(3, 4), one(4, 6)]
        running.call([one(0, 6)], Watermark(None, 3 * SECOND, False))
        running.call(given, Watermark(3 * SECOND, 5 * SECOND, False))
        for step in running.last.values():
            assert [given[i].id for i in step.late] == [2, 3]
            assert list(step.late_reasons) == [LateReason.BEHIND_WATERMARK] * 2
            assert (step.counters["events"], step.counters["late"]) == (2, 2)
        running.call([one(5, 4)], Watermark(5 * SECOND, 4 * SECOND, False))  # time does not go back
        assert all(list(step.late) == [0] for step in running.last.values() if step.state is not None)
        running.call([], Watermark(5 * SECOND, 30 * SECOND, False))
        assert pairs(running) == {(0, 1), (4, 1)}


@pytest.mark.parametrize("forgetful", [False, True])
def test_out_of_turn(forgetful: bool) -> None:
    """Before one that came earlier, whatever the share: also where that had nothing for it, and nothing is kept."""
    texts = {"a": AFTER, "b": AFTER.replace("//a", "//b"), "c": AFTER.replace("//a", "//c")}
    for shares in (1, 2, 3):
        running = Running(plan_of(Question(texts, ()), shards=shares, order=ARRIVAL), forgetful)
        running.call([one(0, 5, "a")], Watermark())
        given = [one(1, 4, "b"), one(2, 5, "b"), one(3, 7, "c"), one(4, 6, "b")]
        running.call(given, Watermark())
        running.call([one(5, 6, "b"), one(6, 6, "a"), one(7, 8, "b")], Watermark())
        for step in running.last.values():
            assert list(step.late) == [0, 1]
            assert list(step.late_reasons) == [LateReason.OUT_OF_ORDER] * 2
            assert step.counters["events"] + step.counters["late"] == 3
        assert running.told.keys() == {("b", 2, 4, B), ("b", 2, 7, B), ("b", 4, 7, B)}
        assert any(running.states.values())
        wakes = [step.next_timer for step in running.last.values()]
        assert all(wake is not None for wake in wakes)
        running.call([], Watermark(None, max(filter(None, wakes)), False))
        assert not any(running.states.values())


B = (("x", "1"), ("y", "1"))


def test_the_oldest_are_given_up() -> None:
    """Where there is no room: they are counted, what is told is some of what is due, and restarts change nothing."""
    documents = tuple(one(n, n, text="1" * 50) for n in range(1, 60))
    question = Question({"q": AFTER.replace("10 seconds", "forever")}, documents)
    room = 4_000
    told = []
    for forgetful in (False, True):
        running = Running(plan_of(question, max_state=room), forgetful)
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
        told.append(running.told)
        assert {one[:3] for one in running.told} < question.due
        assert {(n, n + 1) for n in range(1, 50)} <= pairs(running), "the newest are kept"
    assert told[0] == told[1]


def test_those_that_wait_are_not_given_up() -> None:
    documents = [one(n, n, text="1" * 50) for n in range(1, 60)]
    running = Running(plan_of(Question({"q": AFTER}, ()), max_state=4_000))
    with pytest.raises(LimitError, match="max_state allows 4,000"):
        running.call(documents, Watermark(None, 0, False))


@pytest.mark.parametrize("order", [WATERMARK, ARRIVAL])
def test_windows_close(order: str) -> None:
    """Called when it asks to be, a share keeps nothing in the end; and never longer than a window."""
    for forgetful in (False, True):
        running = Running(plan_of(Question({"q": AFTER}, ()), order=order, shards=2), forgetful)
        running.call([one(0, 20), one(1, 35), one(2, 41)], Watermark(None, SECOND, False))
        kept, calls = set(), 0
        while any(running.states.values()):
            wakes = [step.next_timer for step in running.last.values() if step.state is not None]
            assert None not in wakes
            now = min(filter(None, wakes))
            running.call([], Watermark(None, now, False))
            kept |= {(now // SECOND, step.counters["retained_events"]) for step in running.last.values()}
            calls += 1
            assert calls < 9, "it asks for more than it needs"
        assert pairs(running) == {(1, 2)}
        assert max(when for when, many in kept if many) < 41 + 11
        assert all(step.next_timer is None for step in running.last.values())


def test_windows_that_do_not_close() -> None:
    running = Running(plan_of(Question({"q": AFTER.replace("10 seconds", "forever")}, ())), forgetful=True)
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
def test_what_is_made_whatever_the_cut(always: bool, expand: bool) -> None:
    """And whether bodies are texts or bytes, and restarted or not; None for those that do not say what."""
    chance = random.Random(7)
    documents = tuple(
        Document(n, SECOND * (n + 1), "S", element("a", element("b", chance.choice("12")), f"é{n}")) for n in range(8)
    )
    question = Question(MADE, documents)
    due = results({name: parse_subscription(text) for name, text in MADE.items()}, documents)
    expected = {
        (o.subscription, o.left, o.right, made if always or o.subscription == "made" else None)
        for o, made in due.items()
    }
    assert len(expected) > 20
    for texts, forgetful, shares in ((False, False, 1), (True, True, 2), (False, True, 3)):
        plan = plan_of(question, results=True, always=always, expand=expand, texts=texts, shards=shares)
        running = Running(plan, forgetful)
        found = []
        for documents_now, now in arrivals(question, 3):
            running.call(documents_now, Watermark(None, now, False))
            found += [row for step in running.last.values() for row in step.rows.to_pylist()]
        told = [
            (who, row["left"]["n"], row["right"]["n"], row["result"])
            for row in found
            for who in ([row["subscription"]] if expand else row["subscriptions"])
        ]
        assert {*told} == expected
        assert len(told) == len(expected)


def test_a_plan_is_plain_data() -> None:
    for seed in SEEDS[:10]:
        question = ask(seed)
        plan = plan_of(question)
        carried = pickle.loads(pickle.dumps(plan))
        assert carried == plan
        one, other = Running(plan), Running(carried)
        for running in (one, other):
            running.call(question.documents, Watermark(ended=True))
        assert one.told == other.told


# Files of subscriptions


def test_the_part_of_a_group_is_what_it_was() -> None:
    """Files keep the parts of their subscriptions: if this fails, raise ``table._VERSION``, or shares of older files go astray."""
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
    # Alternatives go to the part of the first. A file that was written before names both parts, which is no harm:
    # a share that finds nothing of its own in a text drops it.
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


def refused(plan: JoinsPlan, *names: str) -> str:
    """By who reads documents and by who joins them, in the same words."""
    with pytest.raises(EventDataError) as found:
        Running(plan).give(replace(rows_of(plan_of(Question({}, ())), [], files=names)), Watermark())
    if set(names) <= set(os.listdir(plan.folder or "")):
        with pytest.raises(EventDataError) as other:
            plan.chain_program()
        assert str(other.value) == str(found.value)
    return str(found.value)


FIRST = f"{1:012}{SUFFIX}"


def test_files_that_nobody_wrote(tmp_path: Path) -> None:
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
    for name, told in metadata.items():
        about = None if told is None else {b"perseid.subscriptions": json.dumps(told).encode()}
        plan = folder_with(tmp_path / name, good.replace_schema_metadata(about))
        assert "is not a subscription table of this version" in refused(plan, FIRST), name
    for name, table in {
        "column": good.drop_columns(["parts"]),
        "type": good.set_column(1, "text", pa.array([1])),
        "more": good.append_column("more", pa.array([1])),
    }.items():
        plan = folder_with(tmp_path / name, table.replace_schema_metadata(good.schema.metadata))
        assert "is not a subscription table of this version" in refused(plan, FIRST), name
    plan = folder_with(tmp_path / "bytes", good)
    for content in (b"", b"PAR1", b"x" * 100, (tmp_path / "bytes" / FIRST).read_bytes()[:-9]):
        (tmp_path / "bytes" / FIRST).write_bytes(content)
        assert "Cannot read the subscription file" in refused(replace(plan, views=len(content)), FIRST)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """Also one that a state names."""
    folder = str(tmp_path / "folder")
    names = [append(folder, listed({who: AFTER})) for who in "ab"]
    running = Running(plan_of(table=folder), forgetful=True)
    running.call([one(0, 1)], Watermark(None, None, False), names)
    (tmp_path / "folder" / names[0]).unlink()
    with pytest.raises(EventDataError, match=f"Cannot read the subscription file {names[0]}"):
        running.call([one(1, 2)], Watermark(None, None, False))
    assert names[1] in refused(plan_of(table=str(tmp_path)), names[1])


def test_a_text_that_is_wrong(tmp_path: Path) -> None:
    """Refused when it is written; in a file that somebody else wrote, when it is read, and not half taken."""
    for wrong in ("S//a", "S//a->x JOIN{x = z, 1 day} S//a->y", ""):
        with pytest.raises(PerseidError):
            listed({"good": AFTER, "q": wrong})
        table = listed({"good": AFTER, "q": AFTER})
        texts = pa.array([AFTER, wrong], pa.string())
        plan = folder_with(tmp_path / f"{len(wrong)}", table.set_column(1, table.schema.field(1), texts))
        for _ in range(2):
            with pytest.raises(PerseidError):
                Running(plan).call([one(0, 1)], Watermark(), [FIRST])


# With and without a compiler


def test_the_same_without_numba() -> None:
    seeds = [seed for seed in SEEDS if ask(seed).due][:4]
    here = answers(seeds)
    assert all(here)
    assert without_numba("tests.contract.subscriptions", f"answers({seeds})") == here


def test_no_rows() -> None:
    for order in (WATERMARK, ARRIVAL):
        for watermark in (Watermark(), Watermark(None, SECOND, False), Watermark(ended=True)):
            for expand in (True, False):
                running = Running(plan_of(Question({"q": AFTER}, ()), order=order, shards=2, expand=expand))
                running.call([], watermark)
                running.call([one(0, 1, "z")], watermark)
                for step in running.last.values():
                    assert step.rows.schema.equals(running.plan.schema)
                    assert (step.rows.num_rows, step.state, step.next_timer, len(step.late)) == (0, None, None, 0)
