"""why_not(): golden files of typical uses, and agreement with the interpreter."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perseid as ps
from perseid.compile.compiler import compile_set
from perseid.lang.parser import parse_file
from perseid.reference.plan_matcher import plan_matcher
from perseid.semantics.binding import bind
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import detect
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve
from perseid.testing.cases import read_cases
from perseid.viz.attempts import TracedRun
from perseid.viz.why_not import WhyNot, why_not
from tests.generators.random_patterns import core_patterns, event_streams, make_pair
from tests.golden import check_golden

FOLDER = Path(__file__).parent / "golden" / "why_not"
CASES = Path(__file__).parents[1] / "semantics" / "cases"


def render_why_not(text: str) -> str:
    """Return why_not() of a golden input: a pattern, a line ``key`` with an optional value, then events as JSON lines."""
    head, _, rows = text.partition("\nkey")
    key, _, lines = rows.partition("\n")
    events = [json.loads(line) for line in lines.splitlines() if line.strip()]
    result = ps.pattern(head).why_not(events, key=json.loads(key) if key.strip() else None)
    return repr(result) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    check_golden(path, render_why_not)
    assert max(map(len, render_why_not(path.read_text(encoding="utf-8").partition("----\n")[0]).splitlines())) <= 100


def agrees(pattern: CorePattern, events: list[Event], strictly_later: bool) -> WhyNot:
    plan = compile_set([pattern])
    core = plan.patterns[0].pattern
    found = detect([core], events, plan_matcher(plan), strictly_later=strictly_later)
    result = why_not(plan, core.name, events, strictly_later=strictly_later)
    matches = [m for m in found.matches if m.kind == "match"]
    assert result.matches == len(matches)
    starts = {a.start.id for a in result.attempts if a.matched}
    reported = {m.contributing[0][1].id for m in matches}
    assert starts >= reported if result.suppressed else starts == reported
    assert all(len(line) <= 100 for line in repr(result).splitlines())
    ended = sum(row["ended"] for row in result.funnel)
    assert ended == sum(not a.matched for a in result.attempts)
    return result


@given(core_patterns(), event_streams(), st.booleans())
def test_it_finds_what_the_interpreter_finds(pattern: CorePattern, events: list[Event], strictly_later: bool) -> None:
    agrees(pattern, events, strictly_later)


@pytest.mark.parametrize("block", range(4))
def test_random_patterns_agree_with_the_interpreter(block: int) -> None:
    reasons: set[str] = set()
    for seed in range(block * 60, block * 60 + 60):
        result = agrees(*make_pair(seed), seed % 3 == 0)
        reasons |= {a.reason for a in result.attempts}
    assert {"condition", "matched", "no event"} <= reasons


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda p: p.stem)
def test_every_hand_worked_case_is_explained(path: Path) -> None:
    """The cases include patterns that feed others, and relations."""
    for case in read_cases(path):
        parsed = parse_file(case.text).patterns
        plan = compile_set([resolve(bind(p, case.bound if p.parameters else None)) for p in parsed])
        for own in plan.patterns:
            result = why_not(plan, own.name, case.events, strictly_later=case.strictly_later, relations=case.relations)
            assert max(map(len, repr(result).splitlines())) <= 100


# inputs and keys

RISING = "pattern rising match Reading a -> Reading b [value > a.value + 10] within 1 minute partition by sensor"
ROWS: list[dict[str, Any]] = [
    {"ts": "2026-03-01T10:00:00Z", "type": "Reading", "sensor": "s1", "value": 10},
    {"ts": "2026-03-01T10:00:30Z", "type": "Reading", "sensor": "s1", "value": 15},
    {"ts": "2026-03-01T10:01:05Z", "type": "Reading", "sensor": "s1", "value": 40},
    {"ts": "2026-03-01T10:00:00Z", "type": "Reading", "sensor": "s2", "value": 10},
    {"ts": "2026-03-01T10:00:59Z", "type": "Reading", "sensor": "s2", "value": 30},
]


def only(result: WhyNot, start: str) -> TracedRun:
    moment = dt.datetime.fromisoformat(start)
    start_time = int(moment.timestamp()) * 1_000_000
    (found,) = [a for a in result.attempts if a.start.time == start_time]
    return found


def test_closed_window_is_the_reason() -> None:
    result = ps.pattern(RISING).why_not(ROWS[:1] + ROWS[2:3], key="s1")
    first = only(result, "2026-03-01T10:00:00+00:00")
    assert (first.reason, first.steps, first.waited_for) == ("window", 1, "b: Reading")
    assert "5 seconds after the window (within 1 minute) closed" in first.details[0]


def test_matches_are_counted_by_their_start() -> None:
    result = ps.pattern(RISING).why_not(ROWS, key="s2")
    assert result.matches == 1
    assert repr(result).startswith("rising, sensor = 's2': 1 match from 1 candidate")


def test_without_a_key_all_partitions_are_counted() -> None:
    result = ps.pattern(RISING).why_not(ROWS)
    assert (result.partitions, result.matches, len(result.attempts)) == (2, 2, 5)
    assert result.funnel[0]["bound"] == 5


@pytest.mark.parametrize("key", ["s1", ("s1",), {"sensor": "s1"}])
def test_key_can_be_a_value_a_tuple_or_a_dictionary(key: object) -> None:
    assert ps.pattern(RISING).why_not(ROWS, key=key).events == 3


def test_invalid_key_is_an_error() -> None:
    with pytest.raises(ps.errors.BindingError, match="Did you mean 'sensor'"):
        ps.pattern(RISING).why_not(ROWS, key={"senor": "s1"})
    with pytest.raises(ps.errors.BindingError, match="expected 1 value, got 2"):
        ps.pattern(RISING).why_not(ROWS, key=("s1", "s2"))
    with pytest.raises(ps.errors.BindingError, match="no 'partition by'"):
        ps.pattern("pattern p match A").why_not([], key=1)


def test_unknown_key_suggests_an_existing_one() -> None:
    assert "Did you mean sensor = 's1'?" in repr(ps.pattern(RISING).why_not(ROWS, key="S1"))


def test_result_is_equal_for_all_input_types(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    expected = repr(ps.pattern(RISING).why_not(ROWS, key="s1"))
    for data in (table, table.to_pandas(), tmp_path / "rows.parquet", str(tmp_path)):
        assert repr(ps.pattern(RISING).why_not(data, key="s1")) == expected


def test_why_not_of_several_inputs() -> None:
    logins = [{"at": 0, "who": "ann"}, {"at": 5, "who": "bob"}]
    moves = [{"ts": 100, "user": "ann", "amount": 5}]
    stream = ps.events(
        {"Login": logins, "Transfer": moves},
        time={"Login": "at", "Transfer": "ts"},
        key={"Login": "who", "Transfer": "user"},
    )
    result = ps.pattern("pattern p match Login a -> Transfer t [amount > 10] within 1 hour").why_not(stream, key="ann")
    (attempt,) = result.attempts
    assert attempt.why == "amount > 10 was not true"


def test_row_limit_counts_only_rows_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.api.stream_kinds.events.MAX_EVENTS", 4)
    table = pa.Table.from_pylist(ROWS)
    for data in (ROWS, table, table.to_pandas()):
        assert ps.pattern(RISING).why_not(data, key="s1").events == 3
        with pytest.raises(ps.errors.EventDataError, match="Use a key"):
            ps.pattern(RISING).why_not(data)
    monkeypatch.setattr("perseid.api.stream_kinds.events.MAX_EVENTS", 2)
    with pytest.raises(ps.errors.EventDataError, match="Filter the data"):
        ps.pattern(RISING).why_not(ROWS, key="s1")


def test_exceeded_work_limit_is_reported() -> None:
    rows = [{"ts": i, "type": "A" if i % 2 else "B", "v": i} for i in range(400)]
    pattern = ps.pattern("pattern p match A a -> B b [v > a.v + 1000] within forever")
    plan = pattern.plan()
    events = [Event(r["type"], i * 1_000_000, {"v": i}, str(i)) for i, r in enumerate(rows)]
    result = why_not(plan, "p", events, max_work=3_000)
    assert "limit exceeded:" in repr(result)
    assert 0 < len(result.attempts) < 200
    # The traced candidates are a sample of the whole input.
    assert result.attempts[-1].start.time > 300_000_000


def test_partial_match_beyond_the_work_limit_is_not_traced() -> None:
    pattern = ps.pattern("pattern p match A a -> B b [v > a.v + 1000] within forever selection chronicle")
    events = [Event("A" if i % 2 else "B", i * 1_000_000, {"v": i}, str(i)) for i in range(400)]
    result = why_not(pattern.plan(), "p", events, max_work=3_000)
    assert "limit exceeded:" in repr(result)
    assert result.attempts[-1].reason == "not traced"


def test_quoted_type_is_reported_with_its_other_keys() -> None:
    rows = [{"ts": 1, "type": "my type", "k": 1}, {"ts": 2, "type": "B", "k": 2}]
    result = ps.pattern("pattern p match `my type` a -> B b within 1 hour partition by k").why_not(rows, key=2)
    assert "no my type has this key; 1 have other keys." in repr(result)


def test_set_of_patterns_is_rejected() -> None:
    both = ps.patterns("pattern p match A\npattern q match B")
    with pytest.raises(ps.errors.UnsupportedError, match="one pattern"):
        both.why_not([])
    assert both["q"].why_not([{"ts": 1, "type": "B"}]).matches == 1


def test_duplicate_rows_are_one_event() -> None:
    rows = [{"ts": 1, "type": "A", "k": 1}] * 3
    assert len(ps.pattern("pattern p match A a, A b within 1 hour").why_not(ps.events(rows, dedupe=True)).attempts) == 1
