"""State of the joins engine: rejected with a reason if damaged or foreign, and readable by later versions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.joins.engine import JOINS
from perseid.engines.joins.plan import CHAINS, NODES, TEXTS, JoinsPlan
from perseid.engines.joins.shard import _SHARDS
from perseid.engines.joins.state import EPOCH, TIME
from perseid.engines.joins.table import append, files_in, listed
from perseid.errors import DocumentError, StateError
from perseid.reference.subscriptions import Document
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.state_codec import MAX_FACTS, DecodedState, decode_state, encode_state
from perseid.runtime.watermark import ARRIVAL, Watermark
from perseid.semantics import values as v
from tests.contract.malformed_states import HEAD, mutations, nested, reseal
from tests.contract.subscriptions import RunningShards, SubscriptionWorkload, cache_parsed_texts, plan_of, rows_of
from tests.semantics.join_documents import element

__all__ = ["cache_parsed_texts"]

SECOND = 1_000_000
TEXTS_ASKED = {
    "pair": "S//r[/a->x][/b->y] FOLLOWED BY{x = u AND y = w, 20 seconds} S//r[/a->u][/b->w]",
    "one": "SELECT <pair>{x}{y}</pair> FROM S//a->x JOIN{x = y, 9 seconds} S//a->y",
    "more": "S//r[/a->x][/b->y] FOLLOWED BY{x = u AND y < w AND w != 'q', 5 seconds} S//r[/a->u][/b->w]",
}


def document(n: int, second: int) -> Document:
    root = element("r", element("a", str(n % 2)), element("b", str(n % 3)), element("a", "é" * (n % 4)))
    return Document(n, second * SECOND, "S", root)


WORKLOAD = SubscriptionWorkload(TEXTS_ASKED, tuple(document(n, 1 + n) for n in range(12)))
DIGESTS = [
    "0bcf5433a42f619d496fa092a264100a",
    "69e257dde45eac5d9ab55329461416ae",
    "0c0116cc88c8383a7ba8ef06cf8e49ff",
    "2e28533ddb99ae1766c2406abce7f648",
]
"""Yield plans of subscriptions, with results, of a folder, and without subscriptions."""


class JoinStateReader:
    """Reads states as a restarted shard in the middle of a stream does."""

    def __init__(self, **settings: Any) -> None:
        self.plan: JoinsPlan = plan_of(WORKLOAD, **settings)
        running = RunningShards(self.plan)
        running.call(WORKLOAD.documents[:10], Watermark(None, None, False))
        running.call((), Watermark(None, 6 * SECOND, False))
        state = running.states[0]
        assert state is not None
        self.state = state
        self.rows: EventBatch = rows_of(self.plan, WORKLOAD.documents[10:])

    def read(self, state: bytes, plan: JoinsPlan | None = None) -> StepResult:
        _SHARDS.clear()
        return JOINS.run_step(plan or self.plan, self.rows, state, Watermark(None, 10 * SECOND, False))

    def rejects(self, state: bytes, plan: JoinsPlan | None = None) -> str:
        with pytest.raises(StateError) as found:
            self.read(state, plan)
        return str(found.value)


@lru_cache
def reader_of(results: bool = False, order: str = "watermark") -> JoinStateReader:
    return JoinStateReader(results=results, order=order)


READERS = pytest.mark.parametrize(("results", "order"), [(False, "watermark"), (True, "watermark"), (False, ARRIVAL)])


@READERS
def test_join_state_round_trip(results: bool, order: str) -> None:
    reader = reader_of(results, order)
    sealed = decode_state(reader.state)
    assert encode_state(sealed.facts, sealed.tables) == reader.state
    assert sealed.facts["joined"] == (6 if order != ARRIVAL else 10)
    assert JOINS.report is not None
    report = JOINS.report(reader.state)
    assert (report.events, report.buffered) == (10, 10 - sealed.facts["joined"])
    assert (report.shards, report.horizon, report.oldest) == (1, 6 * SECOND, SECOND)
    assert reader.read(reader.state).rows.num_rows > 0


def test_any_changed_byte_of_a_join_state_is_detected() -> None:
    """Also any truncation."""
    reader = reader_of(True)
    changed = bytearray(reader.state)
    for at in range(0, len(changed), 3):
        flipped = 1 << at % 8
        changed[at] ^= flipped
        reader.rejects(bytes(changed))
        changed[at] ^= flipped
    for size in (*range(0, len(changed), 101), len(changed) - 1):
        reader.rejects(reader.state[:size])
    for wrong in (b"", b"PRSD", bytes(24), reader.state + b"\0", reader.state * 2):
        reader.rejects(wrong)


def test_foreign_join_state_is_rejected() -> None:
    """Another engine, version, number of shards, order, set of subscriptions or columns is rejected with a hint."""
    reader = reader_of()
    sealed = decode_state(reader.state)
    for name, value in (
        ("engine", "sequence"), ("version", 999), ("shards", 5), ("order", "arrival"), ("subscriptions", "another"),
    ):  # fmt: skip
        said = reader.rejects(encode_state({**sealed.facts, name: value}, sealed.tables))
        assert str(value) in said
        without = {fact: about for fact, about in sealed.facts.items() if fact != name}
        reader.rejects(encode_state(without, sealed.tables))
    for plan in (
        replace(reader.plan, shards=2),
        replace(reader.plan, order=ARRIVAL),
        plan_of(WORKLOAD, results=False, order="watermark", always=True),
        plan_of(replace(WORKLOAD, texts={**TEXTS_ASKED, "new": TEXTS_ASKED["more"]})),
    ):
        reader.rejects(reader.state, plan)
    other = pa.schema([("n", pa.string()), ("stream", pa.string())])
    assert "'n' was int64 when the checkpoint was made, and is string now" in reader.rejects(
        reader.state, replace(reader.plan, columns=other)
    )


def test_added_and_removed_columns() -> None:
    """In retained documents an added column is null, and a removed column is dropped."""
    reader = reader_of()
    few = replace(reader.plan, columns=pa.schema([("n", pa.int64())]))
    rows = reader.read(reader.state, few).rows
    assert rows.num_rows > 0
    assert {*rows["left"][0].as_py()} == {"n"}
    more = replace(reader.plan, columns=pa.schema([*reader.plan.columns, ("new", pa.string())]))
    given = replace(reader.rows, columns={**reader.rows.columns, "new": pa.array(["x"] * len(reader.rows))})
    _SHARDS.clear()
    emitted = JOINS.run_step(more, given, reader.state, Watermark(ended=True)).rows.to_pylist()
    assert {(row[side]["n"] >= 10, row[side]["new"]) for row in emitted for side in ("left", "right")} == {
        (False, None),
        (True, "x"),
    }


def _changed(sealed: DecodedState, name: str, values: Any) -> bytes:
    (table,) = sealed.tables
    at = table.schema.get_field_index(name)
    kind = table.schema.field(at).type
    made = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return encode_state(sealed.facts, (table.set_column(at, name, made),))


Crafted = Callable[[list[Any]], list[Any]]
CRAFTED: dict[str, tuple[str, Crafted]] = {
    "times in no order": (TIME, lambda times: times[::-1]),
    "one that was joined before its time": (TIME, lambda times: [*times[:5], times[6], *times[6:]]),
    "one that waits after its time": (TIME, lambda times: [*times[:6], times[5], *times[7:]]),
    "a time before all": (TIME, lambda times: [v.EARLIEST - 1, *times[1:]]),
    "a time after all": (TIME, lambda times: [*times[:-1], v.LATEST + 1]),
    "no time": (TIME, lambda times: [*times[:-1], None]),
    "an epoch before all": (EPOCH, lambda epochs: [-1, *epochs[1:]]),
    "a chain too many": (CHAINS, lambda lists: [[*lists[0], lists[0][0]], *lists[1:]]),
    "a text too few": (TEXTS, lambda lists: [lists[0][1:], *lists[1:]]),
    "texts of another": (TEXTS, lambda lists: [[], lists[0] + lists[1], *lists[2:]]),
    "no text": (TEXTS, lambda lists: [[None, *lists[0][1:]], *lists[1:]]),
    "no texts": (TEXTS, lambda lists: [None, *lists[1:]]),
    "a node too many": (NODES, lambda lists: [*lists[:-1], [*lists[-1], 1]]),
    "a node too few": (NODES, lambda lists: [*lists[:-1], lists[-1][1:]]),
    "chains without nodes": (CHAINS, lambda lists: [[key & ~127 for key in one] for one in lists]),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_malformed_tables_are_rejected(name: str) -> None:
    reader = reader_of()
    sealed = decode_state(reader.state)
    column, change = CRAFTED[name]
    values = sealed.tables[0].column(column).to_pylist()
    assert "Malformed state of engine 'joins'" in reader.rejects(_changed(sealed, column, change(values)))


def test_malformed_facts_are_rejected() -> None:
    reader = reader_of(order=ARRIVAL)
    sealed = decode_state(reader.state)
    many = sealed.tables[0].num_rows
    wrong: dict[str, tuple[Any, ...]] = {
        "joined": (-1, many + 1, 2**63, 10**30, 1.0, True, None, "1", [1]),
        "horizon": (2**63, -(2**63) - 1, 1.5, "1", True, []),
        "newest": (2**63, -(2**63) - 1, 1.5, "1", True, []),
        "files": (None, "x", {}, [1], [None], [["x"]], nested(100)),
    }
    for name, values in wrong.items():
        for value in values:
            reader.rejects(encode_state({**sealed.facts, name: value}, sealed.tables))
        if name != "newest":  # the first states lack it
            reader.rejects(
                encode_state({fact: about for fact, about in sealed.facts.items() if fact != name}, sealed.tables)
            )
    for tables in ((), sealed.tables * 2, (sealed.tables[0].slice(0, 3),), (sealed.tables[0].select([0, 1, 2]),)):
        reader.rejects(encode_state(sealed.facts, tables))


def test_oversized_join_state_is_rejected_before_allocation() -> None:
    """Few bytes that expand to many, or declare a large size, are rejected before memory is allocated."""
    reader = reader_of()
    sealed = decode_state(reader.state)
    (table,) = sealed.tables
    began = time.monotonic()
    sink = pa.BufferOutputStream()
    many = pa.record_batch([pa.array(np.zeros(1 << 24, np.int64))], names=[TIME])
    with pa.ipc.new_stream(sink, many.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(many)
    packed = bytes(sink.getvalue())
    reader.rejects(reseal(reader.state, body=len(packed).to_bytes(8, "little") + packed))
    for length in (2**64 - 1, 2**40):
        reader.rejects(reseal(reader.state, body=length.to_bytes(8, "little") + b"x" * 64))
    for facts_size, size in ((2**32 - 1, 0), (MAX_FACTS + 1, 0), (10, 2**64 - 1)):
        reader.rejects(HEAD.pack(b"PRSD", 1, 1, 0, facts_size, size) + bytes(100))
    for name in (TIME, CHAINS):
        for column in (pa.nulls(table.num_rows), pa.array(["x" * 9] * table.num_rows).dictionary_encode()):
            reader.rejects(_changed(sealed, name, column))
    files = [f"{i:012}" for i in range(200_000)]
    with pytest.raises(StateError):
        reader.read(encode_state({**sealed.facts, "files": files, "subscriptions": "x"}, sealed.tables))
    deep = json.dumps(dict(sealed.facts))[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000 + "}"
    reader.rejects(reseal(reader.state, facts=deep.encode()))
    assert time.monotonic() - began < 20


@READERS
def test_mutated_join_state_is_rejected_or_continued(results: bool, order: str) -> None:
    """With a valid checksum, each is rejected as a state, or read and continued; no other error occurs."""
    reader = reader_of(results, order)
    reader.read(reader.state)  # kernels are compiled before time is measured
    assert JOINS.report is not None
    nothing = rows_of(reader.plan, [])
    refused, longest = 0, 0.0
    for what, state in mutations(reader.state, 250, seed=int(results) + 2 * (order == ARRIVAL)):
        began = time.monotonic()
        try:
            JOINS.report(state)
            JOINS.run_step(reader.plan, nothing, state, Watermark())
            step = reader.read(state)
        except StateError:
            refused += 1
        except DocumentError:
            assert results, "nobody else looks into bodies"
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        else:
            if step.state is not None:
                reader.read(step.state)
        longest = max(longest, time.monotonic() - began)
    assert 80 < refused < 245
    assert longest < 10


def test_plan_digest_equals_earlier_versions() -> None:
    """A state belongs to a digest of owners and texts in their order, and of the output."""
    assert [
        plan_of(WORKLOAD).digest, plan_of(WORKLOAD, results=True).digest, plan_of(table="/a/b").digest,
        plan_of(SubscriptionWorkload({}, ())).digest,
    ] == DIGESTS  # fmt: skip
    pair, more = TEXTS_ASKED["pair"], TEXTS_ASKED["more"]
    for texts in (
        {"pair": pair},
        {**TEXTS_ASKED, "more": pair},
        {**TEXTS_ASKED, "other": more},
        dict(list(TEXTS_ASKED.items())[::-1]),
    ):
        assert plan_of(replace(WORKLOAD, texts=texts)).digest != DIGESTS[0]


def test_unused_chains_are_dropped() -> None:
    """From joined documents and from waiting ones."""
    reader = reader_of()
    sealed = decode_state(reader.state)
    lists = sealed.tables[0].column(CHAINS).to_pylist()
    others = [[key ^ 1 << 40 for key in one] if n in (2, 8) else one for n, one in enumerate(lists)]
    emitted = {(row["left"]["n"], row["right"]["n"]) for row in reader.read(reader.state).rows.to_pylist()}
    found = {
        (row["left"]["n"], row["right"]["n"]) for row in reader.read(_changed(sealed, CHAINS, others)).rows.to_pylist()
    }
    assert found == {pair for pair in emitted if not {*pair} & {2, 8}} != emitted


# Version 1: alternatives of an OR in separate query partitions


EITHER = {"either": "S//r[/a->x][/b->y] FOLLOWED BY{x = u OR y = w, 20 seconds} S//r[/a->u][/b->w]"}
WORD = {"word": "S//r[/a->x] FOLLOWED BY{x = u AND x != 'this or that', 20 seconds} S//r[/a->u]"}


def _states(plan: JoinsPlan, files: Sequence[str] = ()) -> dict[int, bytes]:
    """Return the state after some documents by query partition, if it has one."""
    running = RunningShards(plan)
    running.call(WORKLOAD.documents[:10], Watermark(None, None, False), files)
    running.call((), Watermark(None, 6 * SECOND, False))
    return {share: state for share, state in running.states.items() if state is not None}


def _of_version(state: bytes, version: int) -> bytes:
    sealed = decode_state(state)
    return encode_state({**sealed.facts, "version": version}, sealed.tables)


def _restored(plan: JoinsPlan, share: int, state: bytes) -> list[dict[str, Any]]:
    """Return the output of a query partition that starts from a state."""
    _SHARDS.clear()
    rows = rows_of(plan, WORKLOAD.documents[10:], share)
    found: list[dict[str, Any]] = JOINS.run_step(
        plan, rows, state, Watermark(None, 10 * SECOND, False)
    ).rows.to_pylist()
    return found


def _assert_rejected(plan: JoinsPlan, states: Mapping[int, bytes]) -> None:
    assert states
    for share, state in states.items():
        _restored(plan, share, state)
        with pytest.raises(StateError, match="alternatives of an OR in different query partitions") as found:
            _restored(plan, share, _of_version(state, 1))
        assert "new checkpoint" in (found.value.hint or "")


def _assert_accepted(plan: JoinsPlan, states: Mapping[int, bytes]) -> None:
    emitted = 0
    for share, state in states.items():
        rows = _restored(plan, share, _of_version(state, 1))
        assert rows == _restored(plan, share, state)
        emitted += len(rows)
    assert emitted


def test_new_state_has_version_2() -> None:
    assert decode_state(reader_of().state).facts["version"] == 2


@pytest.mark.parametrize("texts", [EITHER, {**TEXTS_ASKED, **EITHER}], ids=["alone", "beside others"])
def test_version_1_with_or_and_several_shares_is_rejected_in_every_share(texts: dict[str, str]) -> None:
    plan = plan_of(replace(WORKLOAD, texts=texts), shards=3)
    _assert_rejected(plan, _states(plan))


@pytest.mark.parametrize(
    ("texts", "shards"),
    [(EITHER, 1), (TEXTS_ASKED, 3), (WORD, 3)],
    ids=["one share", "without OR", "or in a constant"],
)
def test_version_1_is_read_with_one_share_or_without_or(texts: dict[str, str], shards: int) -> None:
    plan = plan_of(replace(WORKLOAD, texts=texts), shards=shards)
    _assert_accepted(plan, _states(plan))


def test_version_1_is_read_after_the_subscription_with_or_was_removed(tmp_path: Path) -> None:
    folder = str(tmp_path)
    plan = plan_of(table=folder, shards=3)
    names = [append(folder, listed({**TEXTS_ASKED, **EITHER}))]
    _assert_rejected(plan, _states(plan, names))
    names.append(append(folder, listed({"either": None})))
    _assert_accepted(plan, _states(plan, names))


# States of earlier versions


FOLDER = Path(__file__).parent / "states"
WATCHED = "joins-files"
"""A folder of subscriptions next to the states; its files are from some version, too."""
FILES: tuple[Mapping[str, str | None], ...] = (
    {"pair": TEXTS_ASKED["pair"], "gone": TEXTS_ASKED["more"]},
    {"gone": None, "more": TEXTS_ASKED["more"], "pair": TEXTS_ASKED["one"]},
)
CASES: dict[str, dict[str, Any]] = {
    "waiting": {"now": None},
    "both": {"now": 6},
    "arrival": {"now": None, "settings": {"order": ARRIVAL}},
    "arrival with time": {"now": 6, "settings": {"order": ARRIVAL, "expand": False}},
    "a share": {"now": 6, "share": 1, "settings": {"shards": 2}},
    "bodies": {"now": 6, "settings": {"results": True, "always": True}},
    "texts": {"now": 4, "settings": {"results": True, "texts": True, "expand": False}},
    "files": {"now": 6, "files": 2},
    "files by arrival": {"now": 3, "files": 2, "share": 1, "settings": {"order": ARRIVAL, "shards": 2}},
}
REFUSED: frozenset[str] = frozenset()
"""Names of states that this version does not load any more."""


def plan_of_case(about: Mapping[str, Any]) -> JoinsPlan:
    settings = about.get("settings", {})
    return plan_of(table=WATCHED, **settings) if about.get("files") else plan_of(WORKLOAD, **settings)


def rows_of_case(
    plan: JoinsPlan, about: Mapping[str, Any], documents: Sequence[Document], files: Sequence[str] = ()
) -> EventBatch:
    return rows_of(plan, documents, about.get("share", 0), files)


def encode_join_case(about: Mapping[str, Any]) -> bytes:
    """Return the state of a case."""
    plan = plan_of_case(about)
    state: bytes | None = None
    names = files_in(WATCHED)[: about.get("files", 0)]
    for documents, files, now in (
        (WORKLOAD.documents[:4], names[:1], None),
        (WORKLOAD.documents[4:8], names[1:], None),
        ((), (), about["now"]),
    ):
        clock = Watermark(None, None if now is None else now * SECOND, False)
        state = JOINS.run_step(plan, rows_of_case(plan, about, documents, files), state, clock).state
    assert state is not None
    return state


def continue_joins(about: Mapping[str, Any], state: bytes | None) -> list[list[Any]]:
    """Return the output of each call from a state on: documents one by one, then the watermark."""
    plan = plan_of_case(about)
    emitted = []
    now = about["now"]
    for documents, later in (*(([one], now) for one in WORKLOAD.documents[8:]), ((), 10), ((), 40)):
        _SHARDS.clear()
        clock = Watermark(None, None if later is None else later * SECOND, False)
        step = JOINS.run_step(plan, rows_of_case(plan, about, documents), state, clock)
        state = step.state
        rows = [[one["n"] if isinstance(one, dict) else one for one in row.values()] for row in step.rows.to_pylist()]
        emitted.append(sorted(json.loads(json.dumps(rows)), key=repr))
    assert (state is None) == (not about.get("files"))
    return emitted


def name_of(title: str) -> str:
    return f"joins {title}".replace(" ", "-")


@pytest.fixture
def in_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a working directory in which the relative path of the subscriptions in a state is valid."""
    monkeypatch.chdir(FOLDER)


@pytest.mark.usefixtures("in_state_folder")
@pytest.mark.skipif(not os.environ.get("PERSEID_ADD_STATES"), reason="Nothing writes over a state that is there.")
def test_add_join_states() -> None:
    for one in FILES[len(files_in(WATCHED)) :]:
        append(WATCHED, listed(one))
    for title, case in CASES.items():
        path = FOLDER / f"{name_of(title)}.bin"
        if not path.exists():
            state = encode_join_case(case)
            path.write_bytes(state)
            said = {**case, "texts": TEXTS_ASKED, "expected": continue_joins(case, state)}
            path.with_suffix(".json").write_text(json.dumps(said, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.mark.usefixtures("in_state_folder")
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("joins-*.bin")))
def test_joins_continue_from_state_of_earlier_version(name: str) -> None:
    about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert about["texts"] == TEXTS_ASKED, "what these states are of stays as it is: ask for more in another question"
    state = (FOLDER / f"{name}.bin").read_bytes()
    if name in REFUSED:
        with pytest.raises(StateError):
            continue_joins(about, state)
    else:
        assert continue_joins(about, state) == about["expected"]


@pytest.mark.usefixtures("in_state_folder")
@pytest.mark.parametrize("title", CASES)
def test_every_join_case_has_a_state(title: str) -> None:
    """PERSEID_ADD_STATES=1 adds a new case; a state of this version has the expected output too."""
    about = json.loads((FOLDER / f"{name_of(title)}.json").read_text(encoding="utf-8"))
    assert any(about["expected"]), "it has to say something"
    assert continue_joins(CASES[title], encode_join_case(CASES[title])) == about["expected"]
