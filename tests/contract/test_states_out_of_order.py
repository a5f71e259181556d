"""Well-formed states of streams out of order with false contents: rejected as states, or continued to the end."""

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
from tests.contract.malformed_states import TYPES, mutations, nested
from tests.contract.test_golden_states import FOLDER, encode_case, loaded
from tests.contract.test_states import StateReader

SLOW = 10.0
"""Limit of seconds for one state."""


@dataclass(frozen=True)
class DecodedStream:
    """A stream in progress, and the parts of its state."""

    reader: StateReader
    state: bytes
    facts: Mapping[str, Any]
    searched: bytes | None
    punctuations: bytes | None
    emitted: pa.RecordBatch | None

    def with_facts(self, **facts: Any) -> bytes:
        """Return the state with other facts; a fact ``...`` is removed."""
        said = {name: fact for name, fact in {**self.facts, **facts}.items() if fact is not ...}
        return self.with_parts(facts=said)

    def with_parts(self, **parts: Any) -> bytes:
        """Return the state with other parts."""
        have = {**vars(self), **parts}
        tables = [body(have["searched"], have["punctuations"]), *([] if have["emitted"] is None else [have["emitted"]])]
        return encode_state(have["facts"], tuple(tables))

    def is_rejected(self, state: bytes) -> bool:
        """Return true if the state is rejected; otherwise it is read, and the state is empty at the end of the stream."""
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
def middle_of(name: str, title: str) -> DecodedStream:
    engine = engines()[name]
    state, about = encode_case(engine, OUT_OF_ORDER[name][title])
    reader = StateReader(loaded(engine, about, state))
    reader.read(state)  # kernels are compiled before time is measured
    sealed = decode_state(state)
    first, *emitted = sealed.tables
    searched, punctuations = first.column(0).to_pylist()
    return DecodedStream(reader, state, sealed.facts, searched, punctuations, emitted[0] if emitted else None)


def of_strategies(*names: str) -> pytest.MarkDecorator:
    """Parametrize a test with one state of each strategy, or of some."""
    chosen = names or OUT_OF_ORDER
    return pytest.mark.parametrize("middle", [(name, next(iter(OUT_OF_ORDER[name]))) for name in chosen],
                                   ids=lambda pair: pair[0], indirect=True)  # fmt: skip


def of_retractable(*titles: str) -> pytest.MarkDecorator:
    """Parametrize a test with states whose matches may be retracted."""
    return pytest.mark.parametrize("middle", [("aggressive", title) for title in titles],
                                   ids=lambda pair: pair[1], indirect=True)  # fmt: skip


@pytest.fixture
def middle(request: pytest.FixtureRequest) -> DecodedStream:
    return middle_of(*request.param)


# Facts


def assert_all_rejected(middle: DecodedStream, name: str, values: Iterable[Any]) -> None:
    for value in values:
        assert middle.is_rejected(middle.with_facts(**{name: value})), f"{name} is {str(value)[:60]}"


@of_strategies()
def test_state_of_another_strategy_is_rejected(middle: DecodedStream) -> None:
    mine = middle.facts["strategy"]
    others = [name for name in (*engines_for("patterns"), "buffer", "auto") if name != mine]
    assert_all_rejected(middle, "strategy", (*others, "", mine.upper(), "x" * 100_000, 5, None, [mine], {}, ...))


@of_strategies()
def test_state_of_another_version_or_engine_is_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(middle, "version", (0, 2, 999, -1, 2**70, "1", None, [1], {}, ...))
    assert_all_rejected(middle, "engine", ("sequence", middle.facts["strategy"], "", None, 5, [], ...))
    assert_all_rejected(middle, "shards", (0, 2, -1, 10**30, "1", None, 1.5, [], ...))


TIMES: tuple[Any, ...] = ("x", 1.5, 2**63, -(2**63) - 1, True, [], {}, nested(400))
"""Invalid times."""
ENDS_OF_TIME = (-(2**63), 2**63 - 1, 0, None)


@of_strategies()
def test_invalid_times_are_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(middle, "horizon", TIMES)
    assert_all_rejected(middle, "newest", TIMES)
    for name in ("horizon", "newest"):
        for value in ENDS_OF_TIME:
            middle.is_rejected(middle.with_facts(**{name: value}))


@of_strategies()
def test_missing_horizon_is_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(middle, "horizon", (...,))


@of_strategies()
def test_invalid_revisions_are_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(middle, "revision", (-1, 2**31 - 1, 2**31, 2**63, 10**30, 1.5, "3", True, None, [], ...))


@of_retractable("told and taken back")
def test_highest_revisions_are_rejected_or_continued(middle: DecodedStream) -> None:
    for revision in (2**31 - 5, 2**31 - 4, 2**31 - 3, 2**31 - 2):
        middle.is_rejected(middle.with_facts(revision=revision))


@of_strategies()
def test_invalid_loss_budgets_are_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(middle, "owed", (float("nan"), float("inf"), -float("inf"), "1", True, None, [], ...))
    for owed in (0, -5, 1e308, -1e308, 1.7976931348623157e308):
        middle.is_rejected(middle.with_facts(owed=owed))


@of_strategies()
def test_loss_budget_beyond_doubles_is_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(middle, "owed", (10**400, -(10**400)))


@of_strategies("adaptive")
def test_invalid_delays_are_rejected(middle: DecodedStream) -> None:
    bars = len(middle.facts["delays"])
    wrong: list[Any] = [
        None,
        "x",
        {},
        5,
        [0] * 1_000,
        *([odd] * bars for odd in (-1, 2**32, 2**63, True, 1.5, "1", None, [1])),
    ]
    assert_all_rejected(middle, "delays", wrong)
    for counts in ([0] * bars, [1] * bars, [2**32 - 1] * bars, [0] * (bars - 1) + [2**32 - 1], ...):
        for newest in (middle.facts["newest"], *ENDS_OF_TIME):
            middle.is_rejected(middle.with_facts(delays=counts, newest=newest))


@of_strategies("adaptive")
def test_delays_of_another_length_are_rejected(middle: DecodedStream) -> None:
    bars = len(middle.facts["delays"])
    assert_all_rejected(middle, "delays", ([], [0], [300], [0] * (bars - 1), [1] * (bars + 1), [0] * 999))


@of_strategies("adaptive")
def test_delays_without_the_newest_event_are_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(middle, "newest", (...,))


@of_strategies()
def test_invalid_punctuations_of_all_keys_are_rejected(middle: DecodedStream) -> None:
    assert_all_rejected(
        middle, "everywhere", (None, [], "x", 5, True, *({"A": time} for time in (*TIMES, None)), {"": []})
    )


@of_strategies("conservative")
def test_invented_punctuations_are_rejected_or_continued(middle: DecodedStream) -> None:
    names = ["", "A", "B", "C", "nobody", "\0"]
    for said in (*ENDS_OF_TIME[:3], 10**12):
        for name in names:
            middle.is_rejected(middle.with_facts(everywhere={name: said}))
        middle.is_rejected(middle.with_facts(everywhere=dict.fromkeys(names, said)))
    middle.is_rejected(middle.with_facts(everywhere={f"type {n}": n for n in range(100_000)}))


@of_strategies()
def test_unknown_facts_are_rejected_or_ignored(middle: DecodedStream) -> None:
    for more in (1, nested(400), "x" * 1_000_000, {"strategy": "auto"}, list(range(100_000))):
        middle.is_rejected(middle.with_facts(more=more))


# Tables


@of_strategies()
def test_another_number_of_tables_is_rejected(middle: DecodedStream) -> None:
    first = body(middle.searched, middle.punctuations)
    emitted = middle_of("aggressive", "told and taken back").emitted
    for tables in (
        (), (first, first), (first, first, first), (first, emitted, emitted), (emitted,), (emitted, first),
        (first.slice(0, 0),), (first.slice(0, 1),), (body(middle.searched, middle.punctuations, None),), (body(),),
    ):  # fmt: skip
        assert middle.is_rejected(encode_state(middle.facts, tables))
    states = [middle.searched, middle.punctuations]
    for kind in (pa.binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.large_binary())):
        assert middle.is_rejected(
            encode_state(middle.facts, (pa.record_batch([pa.array(states, kind)], names=["state"]),))
        )
    for names in (["searched"], ["state", "more"], ["state", "state"]):
        columns = [first.column(0)] * len(names)
        assert middle.is_rejected(encode_state(middle.facts, (pa.record_batch(columns, names=names),)))


def garbage(middle: DecodedStream) -> list[bytes]:
    """Return byte strings that are no state of a search."""
    real, deep = middle.searched or b"", middle.state
    for _ in range(30):
        deep = encode_state(middle.facts, (body(deep, None),))
    cut = [real[:-1], real[: len(real) // 2], real[24:], real + b"\0", real * 2]
    return [b"", b"\0", b"garbage", b"PRSD", bytes(1_000), *cut, deep]


def links(middle: DecodedStream) -> Iterator[bytes]:
    """Yield states of composed patterns: empty, with too many parts, nested."""
    for parts in ([middle.searched], [middle.searched, None], [None], [middle.state], []):
        for labels in ([f"link {n}" for n in range(len(parts))], [""] * len(parts), [5] * len(parts), None):
            found = encode_state({"engine": "sequence", "version": 2, "links": labels}, (body(*parts),))
            yield found
            yield encode_state({"engine": "sequence", "version": 2, "links": [""]}, (body(found),))


@of_strategies()
def test_invalid_search_state_is_rejected(middle: DecodedStream) -> None:
    for state in garbage(middle):
        assert middle.is_rejected(middle.with_parts(searched=state))
        assert middle.is_rejected(state)
    assert middle.is_rejected(middle.searched or b"")  # without the facts of the strategy
    assert middle.is_rejected(middle.with_parts(searched=middle.state))  # a container in a container


@of_strategies()
def test_search_state_of_composed_patterns(middle: DecodedStream) -> None:
    for state in links(middle):
        middle.is_rejected(middle.with_parts(searched=state))


@of_strategies("conservative")
def test_invalid_punctuation_state_is_rejected(middle: DecodedStream) -> None:
    for state in (*garbage(middle), middle.state):
        assert middle.is_rejected(middle.with_parts(punctuations=state))
    for state in links(middle):
        middle.is_rejected(middle.with_parts(punctuations=state))


def searches() -> Iterator[tuple[str, bytes]]:
    """Yield search states of other plans and other engines."""
    for path in sorted(FOLDER.glob("*.bin")):
        state = path.read_bytes()
        parts = (
            decode_state(state).tables[0].column(0).to_pylist() if "strategy" in decode_state(state).facts else [state]
        )
        yield from ((path.stem, part) for part in parts if part is not None)


@of_strategies()
def test_foreign_search_state_is_rejected_or_continued(middle: DecodedStream) -> None:
    """A state of another order is rejected; one of another plan is continued as after a change of patterns."""
    mine = decode_state(middle.searched or b"").facts.get("order")
    read = 0
    for name, state in searches():
        facts = decode_state(state).facts
        is_rejected = middle.is_rejected(middle.with_parts(searched=state))
        assert is_rejected or "links" in facts or facts["order"] == mine, name
        read += not is_rejected
    assert read > 1


@of_strategies("conservative")
def test_foreign_punctuation_state_is_rejected(middle: DecodedStream) -> None:
    for name, state in searches():
        facts = decode_state(state).facts
        assert (
            middle.is_rejected(middle.with_parts(punctuations=state))
            or "links" in facts
            or facts["order"] == "conservative"
        ), name


@of_strategies()
def test_parts_of_another_strategy_are_rejected(middle: DecodedStream) -> None:
    """They would never be read nor evicted."""
    mine = middle.facts["strategy"]
    if mine != "conservative":
        assert middle.is_rejected(middle.with_parts(punctuations=middle.searched))
        assert middle.is_rejected(middle.with_facts(everywhere={"A": 1}))
    if mine != "aggressive":
        assert middle.is_rejected(middle.with_parts(emitted=middle_of("aggressive", "told and taken back").emitted))
    if mine != "adaptive":
        others = middle_of("adaptive", "frontier").facts
        assert middle.is_rejected(middle.with_facts(delays=others["delays"], newest=others["newest"]))


# Emitted matches


def emitted_of(middle: DecodedStream) -> pa.RecordBatch:
    assert middle.emitted is not None
    return middle.emitted


def with_column(middle: DecodedStream, name: str, column: Any) -> bytes:
    emitted = emitted_of(middle)
    return middle.with_parts(emitted=emitted.set_column(emitted.schema.names.index(name), name, column))


NAMING = ("pattern", "kind", "match_id")


@of_retractable("told and taken back", "every kind of column")
def test_missing_columns_of_emitted_matches_are_rejected(middle: DecodedStream) -> None:
    names = emitted_of(middle).schema.names
    for name in names:
        rest = emitted_of(middle).select([other for other in names if other != name])
        assert middle.is_rejected(middle.with_parts(emitted=rest)) or name not in NAMING
        renamed = emitted_of(middle).rename_columns({name: f"another {name}"})
        assert middle.is_rejected(middle.with_parts(emitted=renamed)) or name not in NAMING
    middle.is_rejected(middle.with_parts(emitted=emitted_of(middle).slice(0, 0)))
    middle.is_rejected(
        middle.with_parts(
            emitted=emitted_of(middle).append_column("more", pa.array(range(emitted_of(middle).num_rows)))
        )
    )
    for name in ("op", "revision", "horizon"):
        middle.is_rejected(
            middle.with_parts(emitted=emitted_of(middle).append_column(name, emitted_of(middle).column(0)))
        )


@of_retractable("told and taken back", "every kind of column", "fed", "timed out")
def test_duplicate_columns_of_emitted_matches_are_rejected(middle: DecodedStream) -> None:
    emitted = emitted_of(middle)
    for name in emitted.schema.names:
        twice = pa.record_batch([*emitted.columns, emitted.column(name)], names=[*emitted.schema.names, name])
        assert middle.is_rejected(middle.with_parts(emitted=twice)), name


KINDS = (
    *TYPES, pa.large_binary(), pa.string_view(), pa.uint64(), pa.float16(), pa.timestamp("s"), pa.timestamp("ns"), pa.date64(),
    pa.time64("us"), pa.decimal256(60, 2), pa.binary(5), pa.large_list(pa.int64()), pa.month_day_nano_interval(),
)  # fmt: skip


def as_kind(column: Any, kind: Any) -> Any:
    """Return a column in another type, with nulls for values that the type lacks."""
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(pa.array([len(column)], pa.int32()), pa.array([1], pa.int64()))
    if pa.types.is_dictionary(kind):
        return pa.array(["x"] * len(column)).dictionary_encode()
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(column), kind)


@of_retractable("told and taken back")
def test_emitted_matches_of_other_types(middle: DecodedStream) -> None:
    for field in emitted_of(middle).schema:
        for kind in KINDS:
            if kind != field.type:
                changed = with_column(middle, field.name, as_kind(emitted_of(middle).column(field.name), kind))
                assert middle.is_rejected(changed) or field.name not in NAMING, f"{field.name} as {kind}"


@of_retractable("every kind of column")
def test_emitted_matches_of_unsupported_types_are_rejected(middle: DecodedStream) -> None:
    for name in ("s", "price", "n", "tags", "bag", "evidence"):
        for kind in (pa.int64(), pa.string(), pa.date32(), pa.list_(pa.int64()), pa.struct({"x": pa.string()})):
            middle.is_rejected(with_column(middle, name, as_kind(emitted_of(middle).column(name), kind)))


@of_retractable("told and taken back", "every kind of column", "timed out")
def test_emitted_matches_without_values(middle: DecodedStream) -> None:
    emitted = emitted_of(middle)
    for field in emitted.schema:
        if field.name not in NAMING:
            middle.is_rejected(with_column(middle, field.name, pa.nulls(emitted.num_rows, field.type)))


@of_retractable("told and taken back")
def test_emitted_matches_without_names(middle: DecodedStream) -> None:
    emitted = emitted_of(middle)
    for name in NAMING:
        assert middle.is_rejected(with_column(middle, name, pa.nulls(emitted.num_rows, pa.string()))), name


def peak(run: Callable[[], object]) -> int:
    """Return the peak memory of Arrow during a call."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        run()
    finally:
        pa.set_memory_pool(usual)
    return int(counting.max_memory())


@of_retractable("told and taken back")
def test_retracting_a_million_matches(middle: DecodedStream) -> None:
    """Retractions take a few times the memory of the emitted matches."""
    count = 1_000_000
    one = emitted_of(middle).take(pa.array(np.zeros(count, np.int64)))
    ids = pa.array(np.arange(count)).cast(pa.string())
    state = middle.with_parts(emitted=one.set_column(1, "match_id", ids))
    rows: list[int] = []
    began = time.monotonic()
    assert peak(lambda: rows.append(middle.reader.read(state).rows.num_rows)) < 8 * len(state)
    assert time.monotonic() - began < SLOW
    assert rows[0] >= count


def bombs(count: int) -> dict[str, Any]:
    """Yield tables that expand from few bytes to many."""
    text, zeros = "x" * 50_000, pa.array(np.zeros(count, np.int32))
    dictionary = pa.DictionaryArray.from_arrays(zeros, pa.array([text]))
    return {
        "dictionary": dictionary,
        "dictionary in a struct": pa.StructArray.from_arrays([dictionary], names=["x"]),
        "dictionary in a list": pa.FixedSizeListArray.from_arrays(dictionary, 1),
        "run": pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), pa.array([text])),
        "view": pa.ListViewArray.from_arrays(zeros, pa.array([2_000] * count, pa.int32()), pa.array(["x"] * 2_000)),
    }


@of_retractable("told and taken back", "every kind of column")
def test_oversized_tables_are_rejected(middle: DecodedStream) -> None:
    count = 1_000
    many = emitted_of(middle).take(pa.array(np.zeros(count, np.int64)))
    for at, name in enumerate(many.schema.names):
        for what, bomb in bombs(count).items():
            state = middle.with_parts(emitted=many.set_column(at, name, bomb))
            assert peak(lambda state=state: middle.is_rejected(state)) < 20 * len(state), f"{name}: {what}"  # type: ignore[misc]


# Random mutations


def changed_parts(middle: DecodedStream, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield mutations of the state, and of one of its parts within a valid whole."""
    yield from mutations(middle.state, count, seed=1)
    for name in ("searched", "punctuations"):
        part = getattr(middle, name)
        for what, changed in mutations(part, count, seed=2) if part is not None else ():
            yield f"{name}: {what}", middle.with_parts(**{name: changed})


@of_strategies()
def test_mutated_states_are_rejected_or_continued(middle: DecodedStream) -> None:
    """With valid checksums, each is rejected as a state, or read and continued; no other error occurs."""
    rejected = read = 0
    for what, state in changed_parts(middle, 60):
        try:
            is_rejected = middle.is_rejected(state)
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        rejected, read = rejected + is_rejected, read + (not is_rejected)
    assert rejected > 30
    assert read > 5
