"""Why there is no match: what people would ask, as golden files, and agreement with the interpreter everywhere."""

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


def answer(text: str) -> str:
    """A pattern, a line ``key`` with a value or nothing, then events as JSON lines."""
    head, _, rows = text.partition("\nkey")
    key, _, lines = rows.partition("\n")
    events = [json.loads(line) for line in lines.splitlines() if line.strip()]
    asked = ps.pattern(head).why_not(events, key=json.loads(key) if key.strip() else None)
    return repr(asked) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    check_golden(path, answer)
    assert max(map(len, answer(path.read_text(encoding="utf-8").partition("----\n")[0]).splitlines())) <= 100


def agrees(pattern: CorePattern, events: list[Event], strictly_later: bool) -> WhyNot:
    plan = compile_set([pattern])
    core = plan.patterns[0].pattern
    found = detect([core], events, plan_matcher(plan), strictly_later=strictly_later)
    asked = why_not(plan, core.name, events, strictly_later=strictly_later)
    matches = [m for m in found.matches if m.kind == "match"]
    assert asked.matches == len(matches)
    starts = {a.start.id for a in asked.attempts if a.matched}
    reported = {m.contributing[0][1].id for m in matches}
    assert starts >= reported if asked.suppressed else starts == reported
    assert all(len(line) <= 100 for line in repr(asked).splitlines())
    ended = sum(row["ended"] for row in asked.funnel)
    assert ended == sum(not a.matched for a in asked.attempts)
    return asked


@given(core_patterns(), event_streams(), st.booleans())
def test_it_finds_what_the_interpreter_finds(pattern: CorePattern, events: list[Event], strictly_later: bool) -> None:
    agrees(pattern, events, strictly_later)


@pytest.mark.parametrize("block", range(4))
def test_on_seeds(block: int) -> None:
    reasons: set[str] = set()
    for seed in range(block * 60, block * 60 + 60):
        asked = agrees(*make_pair(seed), seed % 3 == 0)
        reasons |= {a.reason for a in asked.attempts}
    assert {"condition", "matched", "no event"} <= reasons


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda p: p.stem)
def test_every_case_is_explained(path: Path) -> None:
    """The hand-worked cases, patterns that feed others and relations among them."""
    for case in read_cases(path):
        parsed = parse_file(case.text).patterns
        plan = compile_set([resolve(bind(p, case.bound if p.parameters else None)) for p in parsed])
        for own in plan.patterns:
            asked = why_not(plan, own.name, case.events, strictly_later=case.strictly_later, relations=case.relations)
            assert max(map(len, repr(asked).splitlines())) <= 100


# what it is asked with

RISING = "pattern rising match Reading a -> Reading b [value > a.value + 10] within 1 minute partition by sensor"
ROWS: list[dict[str, Any]] = [
    {"ts": "2026-03-01T10:00:00Z", "type": "Reading", "sensor": "s1", "value": 10},
    {"ts": "2026-03-01T10:00:30Z", "type": "Reading", "sensor": "s1", "value": 15},
    {"ts": "2026-03-01T10:01:05Z", "type": "Reading", "sensor": "s1", "value": 40},
    {"ts": "2026-03-01T10:00:00Z", "type": "Reading", "sensor": "s2", "value": 10},
    {"ts": "2026-03-01T10:00:59Z", "type": "Reading", "sensor": "s2", "value": 30},
]


def only(asked: WhyNot, start: str) -> TracedRun:
    moment = dt.datetime.fromisoformat(start)
    wanted = int(moment.timestamp()) * 1_000_000
    (found,) = [a for a in asked.attempts if a.start.time == wanted]
    return found


def test_a_window_too_short() -> None:
    asked = ps.pattern(RISING).why_not(ROWS[:1] + ROWS[2:3], key="s1")
    first = only(asked, "2026-03-01T10:00:00+00:00")
    assert (first.reason, first.steps, first.waited_for) == ("window", 1, "b: Reading")
    assert "5 seconds after the window (within 1 minute) closed" in first.details[0]


def test_the_start_that_matched_is_told() -> None:
    asked = ps.pattern(RISING).why_not(ROWS, key="s2")
    assert asked.matches == 1
    assert repr(asked).startswith("rising, sensor = 's2': 1 match from 1 candidate")


def test_all_keys_are_counted() -> None:
    asked = ps.pattern(RISING).why_not(ROWS)
    assert (asked.partitions, asked.matches, len(asked.attempts)) == (2, 2, 5)
    assert asked.funnel[0]["bound"] == 5


@pytest.mark.parametrize("key", ["s1", ("s1",), {"sensor": "s1"}])
def test_a_key_as_people_give_it(key: object) -> None:
    assert ps.pattern(RISING).why_not(ROWS, key=key).events == 3


def test_keys_that_cannot_be() -> None:
    with pytest.raises(ps.errors.BindingError, match="Did you mean 'sensor'"):
        ps.pattern(RISING).why_not(ROWS, key={"senor": "s1"})
    with pytest.raises(ps.errors.BindingError, match="expected 1 value, got 2"):
        ps.pattern(RISING).why_not(ROWS, key=("s1", "s2"))
    with pytest.raises(ps.errors.BindingError, match="no 'partition by'"):
        ps.pattern("pattern p match A").why_not([], key=1)


def test_a_wrong_key_names_one_that_is_there() -> None:
    assert "Did you mean sensor = 's1'?" in repr(ps.pattern(RISING).why_not(ROWS, key="S1"))


def test_every_kind_of_data(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    expected = repr(ps.pattern(RISING).why_not(ROWS, key="s1"))
    for data in (table, table.to_pandas(), tmp_path / "rows.parquet", str(tmp_path)):
        assert repr(ps.pattern(RISING).why_not(data, key="s1")) == expected


def test_several_inputs() -> None:
    logins = [{"at": 0, "who": "ann"}, {"at": 5, "who": "bob"}]
    moves = [{"ts": 100, "user": "ann", "amount": 5}]
    stream = ps.events(
        {"Login": logins, "Transfer": moves},
        time={"Login": "at", "Transfer": "ts"},
        key={"Login": "who", "Transfer": "user"},
    )
    asked = ps.pattern("pattern p match Login a -> Transfer t [amount > 10] within 1 hour").why_not(stream, key="ann")
    (attempt,) = asked.attempts
    assert attempt.why == "amount > 10 was not true"


def test_many_rows_are_narrowed_to_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.api.stream_kinds.events.MAX_EVENTS", 4)
    table = pa.Table.from_pylist(ROWS)
    for data in (ROWS, table, table.to_pandas()):
        assert ps.pattern(RISING).why_not(data, key="s1").events == 3
        with pytest.raises(ps.errors.EventDataError, match="Use a key"):
            ps.pattern(RISING).why_not(data)
    monkeypatch.setattr("perseid.api.stream_kinds.events.MAX_EVENTS", 2)
    with pytest.raises(ps.errors.EventDataError, match="Filter the data"):
        ps.pattern(RISING).why_not(ROWS, key="s1")


def test_too_much_work_is_said() -> None:
    rows = [{"ts": i, "type": "A" if i % 2 else "B", "v": i} for i in range(400)]
    pattern = ps.pattern("pattern p match A a -> B b [v > a.v + 1000] within forever")
    plan = pattern.plan()
    events = [Event(r["type"], i * 1_000_000, {"v": i}, str(i)) for i, r in enumerate(rows)]
    asked = why_not(plan, "p", events, max_work=3_000)
    assert "limit exceeded:" in repr(asked)
    assert 0 < len(asked.attempts) < 200
    # Those that were followed come from everywhere.
    assert asked.attempts[-1].start.time > 300_000_000


def test_partial_matches_that_were_not_followed_to_their_end_are_not_explained() -> None:
    pattern = ps.pattern("pattern p match A a -> B b [v > a.v + 1000] within forever selection chronicle")
    events = [Event("A" if i % 2 else "B", i * 1_000_000, {"v": i}, str(i)) for i in range(400)]
    asked = why_not(pattern.plan(), "p", events, max_work=3_000)
    assert "limit exceeded:" in repr(asked)
    assert asked.attempts[-1].reason == "not traced"


def test_a_type_that_has_to_be_quoted_has_other_keys() -> None:
    rows = [{"ts": 1, "type": "my type", "k": 1}, {"ts": 2, "type": "B", "k": 2}]
    asked = ps.pattern("pattern p match `my type` a -> B b within 1 hour partition by k").why_not(rows, key=2)
    assert "no my type has this key; 1 have other keys." in repr(asked)


def test_one_pattern_at_a_time() -> None:
    both = ps.patterns("pattern p match A\npattern q match B")
    with pytest.raises(ps.errors.UnsupportedError, match="one pattern"):
        both.why_not([])
    assert both["q"].why_not([{"ts": 1, "type": "B"}]).matches == 1


def test_duplicates_are_one_event() -> None:
    rows = [{"ts": 1, "type": "A", "k": 1}] * 3
    assert len(ps.pattern("pattern p match A a, A b within 1 hour").why_not(ps.events(rows, dedupe=True)).attempts) == 1
