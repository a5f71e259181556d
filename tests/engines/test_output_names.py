"""Names of output columns: all differ, and every path that builds rows uses the same ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perseid as ps
from perseid.engines.sequence.engine import SEQUENCE
from perseid.engines.sequence.stream import read_events
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.detection import detect
from perseid.semantics.output_names import EVIDENCE_NAMES, STANDARD_NAMES, output_names
from perseid.semantics.types import Integer, String

NAMES = st.sampled_from([*STANDARD_NAMES, *EVIDENCE_NAMES, "user", "key_kind", "user_returned", "start_returned", "x"])
LISTS = st.lists(NAMES, unique=True, max_size=5).map(tuple)
ROWS = [
    {"ts": 0, "type": "A", "user": "u", "kind": "k", "v": 1},
    {"ts": 1, "type": "B", "user": "u", "kind": "k", "v": 2},
]
CLASHES = [
    ("partition by user return a.v as user, b.v as user_returned", {"user": "u", "user_returned_": 1, "user_returned": 2}),
    ("partition by kind return a.v as key_kind", {"key_kind": "k", "key_kind_returned": 1}),
    ("partition by user return a.v as start, b.v as start_returned", {"start_returned_": 1, "start_returned": 2}),
    ("partition by user return a.v as op", {"op_returned": 1}),
    ("partition by user return a.v as evidence, evidence limit 1", {"evidence_returned": 1, "evidence_dropped": 1}),
]  # fmt: skip


@given(LISTS, LISTS, st.booleans())
def test_all_names_differ_and_unreserved_names_are_unchanged(
    keys: tuple[str, ...], returned: tuple[str, ...], evidence: bool
) -> None:
    names = output_names(keys, returned, evidence)
    reserved = [*STANDARD_NAMES, *(EVIDENCE_NAMES if evidence else ())]
    every = [*reserved, *names.keys, *names.returned]
    assert len(set(every)) == len(every)
    for name, shown in zip(keys, names.keys, strict=True):
        assert shown == name or name in reserved
    for name, shown in zip(returned, names.returned, strict=True):
        assert shown == name or name in (*reserved, *names.keys)


@pytest.mark.parametrize(("clauses", "expected"), CLASHES)
def test_no_column_hides_another(clauses: str, expected: dict[str, object]) -> None:
    pattern = ps.pattern(f"pattern p match A a -> B b within 1 hour {clauses}")
    found = pattern.match(ROWS)
    (row,) = found.to_dicts()
    assert expected.items() <= row.items()
    (built,) = found.to_arrow().to_pylist()
    assert expected.items() <= built.items()
    types = {"user": String(), "kind": String(), "v": Integer()}
    plan = SEQUENCE.plan(pattern.sources.compile(), types)
    assert set(expected) <= set(plan.schema.names)


def test_suppression_by_a_key_compares_the_key_and_not_a_returned_value_of_its_name() -> None:
    rows = [{"ts": i, "type": "A", "user": "u", "v": i} for i in range(3)]
    pattern = ps.pattern("pattern p match A a partition by user suppress 1 hour by user return a.v as user")
    found = pattern.match(rows)
    assert [row["user_returned"] for row in found.to_dicts()] == [0]
    cores = [one.pattern for one in pattern.sources.compile().patterns]
    events = ps.events(rows)

    expected = detect(cores, read_events(events), oracle_matcher())
    assert [match.values for match in expected.matches] == [match.values for match in found]
