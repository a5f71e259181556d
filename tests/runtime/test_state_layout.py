"""Every engine's declared state layout: golden states conform to it, and every violation of it is a StateError with its place."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.disorder import state as disorder
from perseid.engines.joins import state as joins
from perseid.engines.models import state as models
from perseid.engines.models import trigger_state as rules
from perseid.engines.models.engine import step as model_step
from perseid.engines.sequence import state as sequence
from perseid.engines.uncertain import state as uncertain
from perseid.engines.uncertain.engine import step as uncertain_step
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.errors import LimitError, StateError
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.fact_values import IntegerValue, ListValue, StateFact, TextValue
from perseid.runtime.state_codec import decode_state, encode_state
from perseid.runtime.state_layout import StateColumn, StateLayout, StateTable, decode, encode
from perseid.runtime.watermark import Watermark
from tests.contract import toy
from tests.engines.test_models_stream import side_stream_case, side_stream_rows
from tests.engines.test_rules_stream import some_state as rules_state
from tests.engines.test_safe_stream import state_in_mid_stream
from tests.engines.test_uncertain_stream import NOTHING, chain, plan_random_case
from tests.runtime.malformed_states import malformed_states

TESTS = Path(__file__).parent.parent
GOLDEN = (*sorted(TESTS.glob("contract/states/*.bin")), *sorted(TESTS.glob("engines/states/*.state")))
LAYOUTS = {
    "sequence": sequence.LAYOUT,
    "sequence links": sequence.LINKS_LAYOUT,
    "disorder": disorder.LAYOUT,
    "joins": joins.LAYOUT,
    "models": models.LAYOUT,
    "rules": rules.LAYOUT,
    "uncertain": uncertain.LAYOUT,
    "toy": toy.LAYOUT,
}


def _parts(state: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a state and the states nested in it, each with the name of its layout."""
    found = decode_state(state)
    name = str(found.facts["engine"])
    yield f"{name} links" if "links" in found.facts else name, state
    for table in found.tables:
        if "state" in table.schema.names and table.schema.field("state").type == pa.large_binary():
            for part in table.column("state").to_pylist():
                yield from () if part is None else _parts(part)


def _model_state_with_waiting_events() -> bytes:
    """Return a state of models with events that wait for the watermark, which no golden state has."""
    plan, rows, _ = side_stream_case(random.Random(1))
    state = model_step(plan, side_stream_rows(rows[:20]), None, Watermark(None, rows[10][0])).state
    assert state is not None
    return state


def _uncertain_states() -> Iterator[tuple[str, bytes]]:
    """States of uncertain streams in the middle: exact, sampled, with hidden chains, and looking back over windows."""
    yield "uncertain that looks back", state_in_mid_stream()[2]
    chained, chained_rows = chain(8)
    cases = [
        ("exact", chained, chained_rows),
        ("sampled", *random_case(5, sampled=True)),
        ("hidden", *random_case(113)),
    ]
    for title, plan, rows in cases:
        waiting = uncertain_step(plan, rows, None, Watermark(None, None, False)).state
        middle = Watermark(None, int(np.median(rows.time)), False)
        state = uncertain_step(plan, take_events(rows, NOTHING), waiting, middle).state
        assert waiting is not None
        assert state is not None
        yield f"uncertain {title} waiting", waiting
        yield f"uncertain {title}", state


def random_case(seed: int, sampled: bool = False) -> tuple[UncertainPlan, EventBatch]:
    found = plan_random_case(seed, sampled)
    assert found is not None
    return found[:2]


@cache
def samples() -> dict[str, dict[str, bytes]]:
    """Return golden and generated states by layout and file."""
    found: dict[str, dict[str, bytes]] = {}
    states = {path.stem: path.read_bytes() for path in GOLDEN}
    for stem, whole in {
        **states,
        "rules": rules_state(),
        "models with events": _model_state_with_waiting_events(),
        **dict(_uncertain_states()),
    }.items():
        for i, (name, state) in enumerate(_parts(whole)):
            found.setdefault(name, {})[f"{stem} {i}"] = state
    for name, sample, table, columns in COLUMNS_OF_NO_GOLDEN_STATE:
        found[name]["more columns"] = _with_columns(found[name][sample], table, columns)
    return found


COLUMNS_OF_NO_GOLDEN_STATE = (
    ("sequence", "sequence-plain 0", 0, {"is x": pa.bool_(), "made x": pa.date32()}),
    ("models", "models-1 0", 1, {"rank 0": pa.int64()}),
    ("uncertain", "uncertain that looks back 0", 2, {"key 0": pa.int64()}),
)
"""Declared columns that no golden state has, as layout, state, number of a table, and types by name."""


def _with_columns(state: bytes, number: int, columns: dict[str, pa.DataType]) -> bytes:
    facts, tables = decode_state(state).facts, [*decode_state(state).tables]
    for name, kind in columns.items():
        values = [False] * tables[number].num_rows if pa.types.is_boolean(kind) else [None] * tables[number].num_rows
        tables[number] = tables[number].append_column(name, pa.array(values, kind))
    return encode_state(facts, tuple(tables))


@pytest.mark.parametrize("name", LAYOUTS)
def test_golden_states_conform(name: str) -> None:
    for sample, state in samples()[name].items():
        content = decode(LAYOUTS[name], state)
        assert content.version == decode_state(state).facts["version"], sample
        if content.version == LAYOUTS[name].version:
            facts = {fact: value for fact, value in content.facts.items() if fact not in ("engine", "version")}
            assert encode(LAYOUTS[name], facts, content.tables) == state, sample


@pytest.mark.parametrize("name", LAYOUTS)
def test_samples_have_every_declared_place(name: str) -> None:
    layout, found = LAYOUTS[name], set()
    declared = {fact.name for fact in layout.facts}
    for state in samples()[name].values():
        content = decode(layout, state)
        found |= {*content.facts}
        for table in layout.tables_of(content.facts):
            declared |= {f"{table.name}.{column.name}" for column in table.columns}
            names = [name for name in content.tables if name == table.name or name.startswith(f"{table.name} ")]
            for one in (table.column(column) for name in names for column in content.tables[name].schema.names):
                assert one is not None
                found.add(f"{table.name}.{one.name}")
    assert declared <= found


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_violation_is_a_state_error_that_names_the_place(name: str) -> None:
    violations: Counter[str] = Counter()
    for sample, state in samples()[name].items():
        for one in malformed_states(LAYOUTS[name], state):
            violations[one.violation] += 1
            with pytest.raises(StateError) as error:
                decode(LAYOUTS[name], one.state)
            assert one.place in str(error.value), f"{sample}: {one.violation} of {one.place}: {error.value}"
    assert violations["type"] >= 10
    assert violations["missing"] + violations["missing column"] >= len(samples()[name])


# A layout with every kind of declaration


WHOLE = StateLayout(
    "layout test",
    2,
    (
        StateFact("names", ListValue(items=TextValue())),
        StateFact("count", IntegerValue(low=0), mismatch="{found}, {now}"),
    ),
    (
        StateTable(
            "rows",
            (
                StateColumn("name", pa.int32(), into="names", low=-1),
                StateColumn("share", pa.float64(), low=0, high=1),
                StateColumn("sizes", pa.int32(), low=0, adds_up_to="parts"),
                StateColumn("left", pa.list_(pa.int64())),
                StateColumn("right", pa.list_(pa.int64()), items=StateColumn("item", pa.int64(), low=0)),
            ),
            same_sizes=("left", "right"),
        ),
        StateTable("parts", (StateColumn("row", pa.int32(), into="rows"),)),
    ),
    {1: lambda facts, tables: ({**facts, "count": len(facts["names"])}, tables)},
)
FACTS = {"names": ["a", "b"], "count": 2}
TABLES = {
    "rows": WHOLE.tables_of({})[0].batch([[-1, 1], [0.0, 1.0], [1, 2], [[1], []], [[5], []]]),
    "parts": WHOLE.tables_of({})[1].batch([[0, 1, 1]]),
}


def test_every_kind_of_violation_is_rejected() -> None:
    state = encode(WHOLE, FACTS, TABLES)
    violations: Counter[str] = Counter()
    for one in malformed_states(WHOLE, state):
        violations[one.violation] += 1
        with pytest.raises(StateError, match="Malformed state of engine 'layout test'"):
            decode(WHOLE, one.state)
    assert {"sum", "sizes", "range", "item range", "null", "unknown column", "column twice"} <= {*violations}


def test_older_version_is_migrated() -> None:
    old = encode_state({"engine": "layout test", "version": 1, "names": ["a", "b"]}, tuple(TABLES.values()))
    content = decode(WHOLE, old)
    assert (content.version, content.facts["count"]) == (1, 2)
    with pytest.raises(StateError, match="cannot be migrated from version 1"):
        decode(WHOLE, encode_state({"engine": "layout test", "version": 1}, tuple(TABLES.values())))
    for version in (0, 3, True, 1.0, "1", None):
        with pytest.raises(StateError, match="version"):
            decode(WHOLE, encode_state({"engine": "layout test", "version": version, **FACTS}, ()))


def test_fact_of_another_query_is_rejected_with_both_values() -> None:
    state = encode(WHOLE, FACTS, TABLES)
    assert decode(WHOLE, state, {"count": 2}).facts["count"] == 2
    with pytest.raises(StateError, match="2, 3"):
        decode(WHOLE, state, {"count": 3})


def test_state_with_121_tables_round_trips() -> None:
    """Forty patterns over an uncertain stream have up to 121 tables."""
    tables = (TABLES["parts"],) * 121
    assert decode_state(encode_state({}, tables)).tables == tables
    with pytest.raises(LimitError, match="4,097 tables"):
        encode_state({}, (TABLES["parts"],) * 4_097)
