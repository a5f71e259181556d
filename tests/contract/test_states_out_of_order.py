"""States of streams out of order that are well made and lie: refused as states, or read and gone on with to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.errors import StateError
from perseid.runtime.event_batch import take_events
from perseid.runtime.registry import engines, engines_for
from perseid.runtime.state_codec import decode_state, encode_state
from perseid.runtime.watermark import Watermark
from tests.contract.golden import OUT_OF_ORDER
from tests.contract.hostile import TYPES, mutations, nested
from tests.contract.test_golden_states import FOLDER, loaded, written
from tests.contract.test_states import Reader

SLOW = 10.0
"""Seconds that no state may take."""


@dataclass(frozen=True)
class Middle:
    """A stream in the middle of its life, and its state taken apart."""

    reader: Reader
    state: bytes
    facts: Mapping[str, Any]
    searched: bytes | None
    promised: bytes | None
    told: pa.RecordBatch | None

    def saying(self, **facts: Any) -> bytes:
        """The state with other facts; without those that are ``...``."""
        said = {name: fact for name, fact in {**self.facts, **facts}.items() if fact is not ...}
        return self.holding(facts=said)

    def holding(self, **parts: Any) -> bytes:
        """The state with other parts."""
        have = {**vars(self), **parts}
        tables = [body(have["searched"], have["promised"]), *([] if have["told"] is None else [have["told"]])]
        return encode_state(have["facts"], tuple(tables))

    def refused(self, state: bytes) -> bool:
        """Is it? Else it is read, and nothing of it is left where the stream ends; nothing else may come of it."""
        engine, began = self.reader.shard.engine, time.monotonic()
        assert engine.report is not None
        with suppress(StateError):
            engine.report(state)
        none = take_events(self.reader.rows, np.zeros(0, np.int64))
        try:
            step = self.reader.read(state)
            step.rows.validate(full=True)
            last = engine.step(
                self.reader.shard.plan, none, step.state, Watermark(self.reader.clock.current, None, True)
            )
        except StateError:
            return True
        finally:
            assert time.monotonic() - began < SLOW
        assert last.state is None
        return False


def body(*states: bytes | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(states, pa.large_binary())], names=["state"])


@cache
def middle_of(name: str, title: str) -> Middle:
    engine = engines()[name]
    state, about = written(engine, OUT_OF_ORDER[name][title])
    reader = Reader(loaded(engine, about, state))
    reader.read(state)  # what has to be compiled is, before time counts
    sealed = decode_state(state)
    first, *told = sealed.tables
    searched, promised = first.column(0).to_pylist()
    return Middle(reader, state, sealed.facts, searched, promised, told[0] if told else None)


def of_strategies(*names: str) -> pytest.MarkDecorator:
    """For one state of each strategy, or of some."""
    chosen = names or OUT_OF_ORDER
    return pytest.mark.parametrize("middle", [(name, next(iter(OUT_OF_ORDER[name]))) for name in chosen],
                                   ids=lambda pair: pair[0], indirect=True)  # fmt: skip


def of_told(*titles: str) -> pytest.MarkDecorator:
    """For states with matches that may be taken back."""
    return pytest.mark.parametrize("middle", [("aggressive", title) for title in titles],
                                   ids=lambda pair: pair[1], indirect=True)  # fmt: skip


@pytest.fixture
def middle(request: pytest.FixtureRequest) -> Middle:
    return middle_of(*request.param)


# Facts


def all_refused(middle: Middle, name: str, values: Iterable[Any]) -> None:
    for value in values:
        assert middle.refused(middle.saying(**{name: value})), f"{name} is {str(value)[:60]}"


@of_strategies()
def test_of_another_strategy(middle: Middle) -> None:
    mine = middle.facts["strategy"]
    others = [name for name in (*engines_for("patterns"), "buffer", "auto") if name != mine]
    all_refused(middle, "strategy", (*others, "", mine.upper(), "x" * 100_000, 5, None, [mine], {}, ...))


@of_strategies()
def test_of_another_version_or_engine(middle: Middle) -> None:
    all_refused(middle, "version", (0, 2, 999, -1, 2**70, "1", None, [1], {}, ...))
    all_refused(middle, "engine", ("sequence", middle.facts["strategy"], "", None, 5, [], ...))
    all_refused(middle, "shards", (0, 2, -1, 10**30, "1", None, 1.5, [], ...))


TIMES: tuple[Any, ...] = ("x", 1.5, 2**63, -(2**63) - 1, True, [], {}, nested(400))
"""That are none."""
ENDS_OF_TIME = (-(2**63), 2**63 - 1, 0, None)


@of_strategies()
def test_times_that_are_none(middle: Middle) -> None:
    all_refused(middle, "horizon", TIMES)
    all_refused(middle, "newest", TIMES)
    for name in ("horizon", "newest"):
        for value in ENDS_OF_TIME:
            middle.refused(middle.saying(**{name: value}))


@of_strategies()
def test_no_horizon(middle: Middle) -> None:
    all_refused(middle, "horizon", (...,))


@of_strategies()
def test_revisions(middle: Middle) -> None:
    all_refused(middle, "revision", (-1, 2**31 - 1, 2**31, 2**63, 10**30, 1.5, "3", True, None, [], ...))


@of_told("told and taken back")
def test_the_highest_revisions(middle: Middle) -> None:
    for revision in (2**31 - 5, 2**31 - 4, 2**31 - 3, 2**31 - 2):
        middle.refused(middle.saying(revision=revision))


@of_strategies()
def test_what_is_owed(middle: Middle) -> None:
    all_refused(middle, "owed", (float("nan"), float("inf"), -float("inf"), "1", True, None, [], ...))
    for owed in (0, -5, 1e308, -1e308, 1.7976931348623157e308):
        middle.refused(middle.saying(owed=owed))


@of_strategies()
def test_more_is_owed_than_there_are_numbers(middle: Middle) -> None:
    all_refused(middle, "owed", (10**400, -(10**400)))


@of_strategies("adaptive")
def test_delays(middle: Middle) -> None:
    bars = len(middle.facts["delays"])
    wrong: list[Any] = [
        None,
        "x",
        {},
        5,
        [0] * 1_000,
        *([odd] * bars for odd in (-1, 2**32, 2**63, True, 1.5, "1", None, [1])),
    ]
    all_refused(middle, "delays", wrong)
    for counts in ([0] * bars, [1] * bars, [2**32 - 1] * bars, [0] * (bars - 1) + [2**32 - 1], ...):
        for newest in (middle.facts["newest"], *ENDS_OF_TIME):
            middle.refused(middle.saying(delays=counts, newest=newest))


@of_strategies("adaptive")
def test_delays_of_another_length(middle: Middle) -> None:
    bars = len(middle.facts["delays"])
    all_refused(middle, "delays", ([], [0], [300], [0] * (bars - 1), [1] * (bars + 1), [0] * 999))


@of_strategies("adaptive")
def test_delays_without_the_newest_event(middle: Middle) -> None:
    all_refused(middle, "newest", (...,))


@of_strategies()
def test_promises_about_everything(middle: Middle) -> None:
    all_refused(middle, "everywhere", (None, [], "x", 5, True, *({"A": time} for time in (*TIMES, None)), {"": []}))


@of_strategies("conservative")
def test_promises_that_nobody_made(middle: Middle) -> None:
    names = ["", "A", "B", "C", "nobody", "\0"]
    for said in (*ENDS_OF_TIME[:3], 10**12):
        for name in names:
            middle.refused(middle.saying(everywhere={name: said}))
        middle.refused(middle.saying(everywhere=dict.fromkeys(names, said)))
    middle.refused(middle.saying(everywhere={f"type {n}": n for n in range(100_000)}))


@of_strategies()
def test_facts_that_nobody_knows(middle: Middle) -> None:
    for more in (1, nested(400), "x" * 1_000_000, {"strategy": "auto"}, list(range(100_000))):
        middle.refused(middle.saying(more=more))


# Tables


@of_strategies()
def test_another_number_of_tables(middle: Middle) -> None:
    first = body(middle.searched, middle.promised)
    told = middle_of("aggressive", "told and taken back").told
    for tables in (
        (), (first, first), (first, first, first), (first, told, told), (told,), (told, first),
        (first.slice(0, 0),), (first.slice(0, 1),), (body(middle.searched, middle.promised, None),), (body(),),
    ):  # fmt: skip
        assert middle.refused(encode_state(middle.facts, tables))
    states = [middle.searched, middle.promised]
    for kind in (pa.binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.large_binary())):
        assert middle.refused(encode_state(middle.facts, (pa.record_batch([pa.array(states, kind)], names=["state"]),)))
    for names in (["searched"], ["state", "more"], ["state", "state"]):
        columns = [first.column(0)] * len(names)
        assert middle.refused(encode_state(middle.facts, (pa.record_batch(columns, names=names),)))


def garbage(middle: Middle) -> list[bytes]:
    """What is no state of a search."""
    real, deep = middle.searched or b"", middle.state
    for _ in range(30):
        deep = encode_state(middle.facts, (body(deep, None),))
    cut = [real[:-1], real[: len(real) // 2], real[24:], real + b"\0", real * 2]
    return [b"", b"\0", b"garbage", b"PRSD", bytes(1_000), *cut, deep]


def links(middle: Middle) -> Iterator[bytes]:
    """Searches of patterns that feed others: with nothing in them, with too much, in one another."""
    for parts in ([middle.searched], [middle.searched, None], [None], [middle.state], []):
        for labels in ([f"link {n}" for n in range(len(parts))], [""] * len(parts), [5] * len(parts), None):
            found = encode_state({"engine": "sequence", "version": 2, "links": labels}, (body(*parts),))
            yield found
            yield encode_state({"engine": "sequence", "version": 2, "links": [""]}, (body(found),))


@of_strategies()
def test_a_search_that_is_none(middle: Middle) -> None:
    for state in garbage(middle):
        assert middle.refused(middle.holding(searched=state))
        assert middle.refused(state)
    assert middle.refused(middle.searched or b"")  # without what is said about it
    assert middle.refused(middle.holding(searched=middle.state))  # a container in a container


@of_strategies()
def test_a_search_of_links(middle: Middle) -> None:
    for state in links(middle):
        middle.refused(middle.holding(searched=state))


@of_strategies("conservative")
def test_promises_that_are_none(middle: Middle) -> None:
    for state in (*garbage(middle), middle.state):
        assert middle.refused(middle.holding(promised=state))
    for state in links(middle):
        middle.refused(middle.holding(promised=state))


def searches() -> Iterator[tuple[str, bytes]]:
    """Of other plans and of other engines."""
    for path in sorted(FOLDER.glob("*.bin")):
        state = path.read_bytes()
        parts = (
            decode_state(state).tables[0].column(0).to_pylist() if "strategy" in decode_state(state).facts else [state]
        )
        yield from ((path.stem, part) for part in parts if part is not None)


@of_strategies()
def test_the_search_of_another(middle: Middle) -> None:
    """Of another order it is refused; of another plan it is what a changed set of patterns finds: its own is gone on with."""
    mine = decode_state(middle.searched or b"").facts.get("order")
    read = 0
    for name, state in searches():
        facts = decode_state(state).facts
        refused = middle.refused(middle.holding(searched=state))
        assert refused or "links" in facts or facts["order"] == mine, name
        read += not refused
    assert read > 1


@of_strategies("conservative")
def test_the_promises_of_another(middle: Middle) -> None:
    for name, state in searches():
        facts = decode_state(state).facts
        assert middle.refused(middle.holding(promised=state)) or "links" in facts or facts["order"] == "conservative", (
            name
        )


@of_strategies()
def test_parts_of_another_strategy(middle: Middle) -> None:
    """Nobody would ever look at them, nor let them go."""
    mine = middle.facts["strategy"]
    if mine != "conservative":
        assert middle.refused(middle.holding(promised=middle.searched))
        assert middle.refused(middle.saying(everywhere={"A": 1}))
    if mine != "aggressive":
        assert middle.refused(middle.holding(told=middle_of("aggressive", "told and taken back").told))
    if mine != "adaptive":
        others = middle_of("adaptive", "frontier").facts
        assert middle.refused(middle.saying(delays=others["delays"], newest=others["newest"]))


# What was told


def told_of(middle: Middle) -> pa.RecordBatch:
    assert middle.told is not None
    return middle.told


def with_column(middle: Middle, name: str, column: Any) -> bytes:
    told = told_of(middle)
    return middle.holding(told=told.set_column(told.schema.names.index(name), name, column))


NAMING = ("pattern", "kind", "match_id")


@of_told("told and taken back", "every kind of column")
def test_matches_without_some_column(middle: Middle) -> None:
    names = told_of(middle).schema.names
    for name in names:
        rest = told_of(middle).select([other for other in names if other != name])
        assert middle.refused(middle.holding(told=rest)) or name not in NAMING
        renamed = told_of(middle).rename_columns({name: f"another {name}"})
        assert middle.refused(middle.holding(told=renamed)) or name not in NAMING
    middle.refused(middle.holding(told=told_of(middle).slice(0, 0)))
    middle.refused(
        middle.holding(told=told_of(middle).append_column("more", pa.array(range(told_of(middle).num_rows))))
    )
    for name in ("op", "revision", "horizon"):
        middle.refused(middle.holding(told=told_of(middle).append_column(name, told_of(middle).column(0))))


@of_told("told and taken back", "every kind of column", "fed", "timed out")
def test_matches_with_a_column_twice(middle: Middle) -> None:
    told = told_of(middle)
    for name in told.schema.names:
        twice = pa.record_batch([*told.columns, told.column(name)], names=[*told.schema.names, name])
        assert middle.refused(middle.holding(told=twice)), name


KINDS = (
    *TYPES, pa.large_binary(), pa.string_view(), pa.uint64(), pa.float16(), pa.timestamp("s"), pa.timestamp("ns"), pa.date64(),
    pa.time64("us"), pa.decimal256(60, 2), pa.binary(5), pa.large_list(pa.int64()), pa.month_day_nano_interval(),
)  # fmt: skip


def as_kind(column: Any, kind: Any) -> Any:
    """A column in another type; of nulls where it has no values there."""
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(pa.array([len(column)], pa.int32()), pa.array([1], pa.int64()))
    if pa.types.is_dictionary(kind):
        return pa.array(["x"] * len(column)).dictionary_encode()
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(column), kind)


@of_told("told and taken back")
def test_matches_of_other_types(middle: Middle) -> None:
    for field in told_of(middle).schema:
        for kind in KINDS:
            if kind != field.type:
                changed = with_column(middle, field.name, as_kind(told_of(middle).column(field.name), kind))
                assert middle.refused(changed) or field.name not in NAMING, f"{field.name} as {kind}"


@of_told("every kind of column")
def test_matches_of_other_types_than_any_plan_knows(middle: Middle) -> None:
    for name in ("s", "price", "n", "tags", "bag", "evidence"):
        for kind in (pa.int64(), pa.string(), pa.date32(), pa.list_(pa.int64()), pa.struct({"x": pa.string()})):
            middle.refused(with_column(middle, name, as_kind(told_of(middle).column(name), kind)))


@of_told("told and taken back", "every kind of column", "timed out")
def test_matches_without_values(middle: Middle) -> None:
    told = told_of(middle)
    for field in told.schema:
        if field.name not in NAMING:
            middle.refused(with_column(middle, field.name, pa.nulls(told.num_rows, field.type)))


@of_told("told and taken back")
def test_matches_without_names(middle: Middle) -> None:
    told = told_of(middle)
    for name in NAMING:
        assert middle.refused(with_column(middle, name, pa.nulls(told.num_rows, pa.string()))), name


def peak(run: Callable[[], object]) -> int:
    """The most memory that Arrow had for this."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        run()
    finally:
        pa.set_memory_pool(usual)
    return int(counting.max_memory())


@of_told("told and taken back")
def test_a_million_matches(middle: Middle) -> None:
    """They are taken back, in a few times the memory that they are told in."""
    count = 1_000_000
    one = told_of(middle).take(pa.array(np.zeros(count, np.int64)))
    ids = pa.array(np.arange(count)).cast(pa.string())
    state = middle.holding(told=one.set_column(1, "match_id", ids))
    rows: list[int] = []
    began = time.monotonic()
    assert peak(lambda: rows.append(middle.reader.read(state).rows.num_rows)) < 8 * len(state)
    assert time.monotonic() - began < SLOW
    assert rows[0] >= count


def bombs(count: int) -> dict[str, Any]:
    """Few bytes that stand for many."""
    text, zeros = "x" * 50_000, pa.array(np.zeros(count, np.int32))
    dictionary = pa.DictionaryArray.from_arrays(zeros, pa.array([text]))
    return {
        "dictionary": dictionary,
        "dictionary in a struct": pa.StructArray.from_arrays([dictionary], names=["x"]),
        "dictionary in a list": pa.FixedSizeListArray.from_arrays(dictionary, 1),
        "run": pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), pa.array([text])),
        "view": pa.ListViewArray.from_arrays(zeros, pa.array([2_000] * count, pa.int32()), pa.array(["x"] * 2_000)),
    }


@of_told("told and taken back", "every kind of column")
def test_few_bytes_that_stand_for_many(middle: Middle) -> None:
    count = 1_000
    many = told_of(middle).take(pa.array(np.zeros(count, np.int64)))
    for at, name in enumerate(many.schema.names):
        for what, bomb in bombs(count).items():
            state = middle.holding(told=many.set_column(at, name, bomb))
            assert peak(lambda state=state: middle.refused(state)) < 20 * len(state), f"{name}: {what}"  # type: ignore[misc]


# Whatever comes


def changed_parts(middle: Middle, count: int) -> Iterator[tuple[str, bytes]]:
    """The state changed at random, and one of its parts in a whole that is as it should be."""
    yield from mutations(middle.state, count, seed=1)
    for name in ("searched", "promised"):
        part = getattr(middle, name)
        for what, changed in mutations(part, count, seed=2) if part is not None else ():
            yield f"{name}: {what}", middle.holding(**{name: changed})


@of_strategies()
def test_states_that_nobody_wrote(middle: Middle) -> None:
    """With the right checksums: each is refused as a state, or read and gone on with; nothing else comes of it."""
    refused = read = 0
    for what, state in changed_parts(middle, 60):
        try:
            gone = middle.refused(state)
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        refused, read = refused + gone, read + (not gone)
    assert refused > 30
    assert read > 5
