"""Local matching over columns: the same matches for every kind of input, equal to the oracle's."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perseid as ps
from perseid.compile.compiler import compile_set
from perseid.engines.sequence import bytecode as sequence_plan
from perseid.engines.sequence import local as local_engine
from perseid.engines.sequence import local_rows as local_inputs
from perseid.engines.sequence import run as sequence_run
from perseid.engines.sequence.local import match_locally
from perseid.engines.sequence.results import Matches
from perseid.engines.sequence.stream import Events, read_events
from perseid.errors import EventDataError, TypeMismatchError
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.runtime.jit import COMPILED
from perseid.semantics.detection import detect
from perseid.semantics.resolve import resolve
from tests.contract.rich import SCHEMA, make_rich_pair, make_rows
from tests.generators.random_patterns import SeededChooser, make_pattern

UTC = dt.UTC
SECOND = 1_000_000
Rows = list[dict[str, Any]]


def written(match: Any) -> tuple[object, ...]:
    """Returns a match in comparable form."""
    contributing = [(step, event.type, event.time, event.occurrence) for step, event in match.contributing]
    bound = {name: [event.attributes for event in events] for name, events in match.bindings.items()}
    return (
        match.pattern, match.match_id, match.kind, match.start_us, match.end_us, _values(match.key), _values(match.values),
        repr(contributing), repr(bound), repr(match.evidence), match.evidence_dropped,
    )  # fmt: skip


def _values(values: Mapping[str, Any]) -> str:
    """Numbers are equal by value: a column of results has one type."""
    return repr({name: _number(value) for name, value in values.items()})


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def same_as_oracle(text: str, stream: Any, *, horizon: int | None = None, relations: Any = None) -> Matches:
    """Returns the matches over columns; asserts that they equal the oracle's over the same rows as events."""
    declared = stream if isinstance(stream, Events) else Events(stream)
    moment = None if horizon is None else dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=horizon)
    patterns = ps.patterns(text)
    matches = patterns.match(declared, horizon=moment, relations=relations)
    expected = detect(
        patterns.sources.resolve(),
        read_events(declared),
        oracle_matcher(),
        horizon=horizon,
        strictly_later=declared.strictly_later,
        relations=relations,
    )
    assert sorted(map(written, matches)) == sorted(map(written, expected.matches))
    assert (matches.suppressed, matches.evidence_dropped, matches.capped) == (
        expected.suppressed,
        expected.evidence_dropped,
        expected.capped,
    )
    assert [(m.end_us, m.start_us) for m in matches] == [(m.end_us, m.start_us) for m in expected.matches]
    return matches


LOGIN = """
pattern p
match A a -> B+ b [i >= a.i or s = a.s] -> C c
where c.v <> a.v
within 20 seconds
partition by k
return a.i as first_i, count(b) as n, avg(b.d) as mean, c.s as last_s, max(b.t) as latest, collect(b.v) as all_v
"""


def some_rows(count: int = 200, keys: int = 5, seed: int = 1) -> Rows:
    """Plain rows without null columns, so that every kind of table holds the same."""
    pick = random.Random(seed)
    start = dt.datetime(2024, 1, 1, tzinfo=UTC)
    return [
        {
            "ts": start + dt.timedelta(seconds=pick.randrange(max(20, 3 * count // keys))),
            "type": pick.choice("ABBC"),
            "k": pick.randrange(keys),
            "i": pick.randrange(5),
            "d": pick.choice([0.5, 1.0, -2.0, None]),
            "s": pick.choice(["x", "y", "é", None]),
            "t": start + dt.timedelta(minutes=pick.randrange(9)),
            "v": pick.randrange(3),
        }
        for _ in range(count)
    ]


# Where rows come from


@pytest.fixture(scope="module")
def data() -> Rows:
    return some_rows()


def _folder(rows: Rows, path: Path) -> Path:
    folder = path / "parts"
    folder.mkdir()
    for number in range(3):
        pq.write_table(pa.Table.from_pylist(rows[number::3]), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def _file(rows: Rows, path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path / "whole.parquet")
    return path / "whole.parquet"


HOLDERS: dict[str, Callable[[Rows, Path], Any]] = {
    "dicts": lambda rows, path: rows,
    "generator": lambda rows, path: (row for row in rows),
    "pandas": lambda rows, path: pd.DataFrame(rows),
    "arrow": lambda rows, path: pa.Table.from_pylist(rows),
    "chunks": lambda rows, path: pa.concat_tables([pa.Table.from_pylist(rows[at : at + 7]) for at in range(0, 200, 7)]),
    "reader": lambda rows, path: pa.Table.from_pylist(rows).to_reader(20),
    "shuffled": lambda rows, path: random.Random(3).sample(rows, len(rows)),
    "dictionary": lambda rows, path: _with_dictionary(pa.Table.from_pylist(rows)),
    "file": _file,
    "file by name": lambda rows, path: str(_file(rows, path)),
    "folder": _folder,
    "files": lambda rows, path: sorted(_folder(rows, path).glob("*.parquet")),
}


def _with_dictionary(table: pa.Table) -> pa.Table:
    for name in ("type", "s"):
        table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
    return table


@pytest.mark.parametrize("holder", HOLDERS)
def test_matches_do_not_depend_on_the_kind_of_input(holder: str, data: Rows, tmp_path: Path) -> None:
    expected = detect(ps.patterns(LOGIN).sources.resolve(), read_events(Events(data)), oracle_matcher())
    assert len(expected.matches) > 10
    matches = ps.pattern(LOGIN).match(HOLDERS[holder](data, tmp_path))
    assert sorted(m.match_id for m in matches) == sorted(m.match_id for m in expected.matches)
    assert [_values(m.values) for m in sorted(matches, key=lambda m: m.match_id)] == [
        _values(m.values) for m in sorted(expected.matches, key=lambda m: m.match_id)
    ]


@pytest.mark.parametrize("by_id", [False, True], ids=["content", "id"])
@pytest.mark.parametrize("keys", [1, 3, 40])
def test_parquet_larger_than_memory(keys: int, by_id: bool, tmp_path: Path) -> None:
    rows = [{**row, "number": i, "unused": "x" * 50} for i, row in enumerate(some_rows(600, keys))]
    folder = _folder(rows, tmp_path)
    plan = compile_set([resolve(parse_pattern(LOGIN))])
    stream = ps.events(str(folder), id="number" if by_id else ())
    tables = []
    for limit in (None, 20_000, 1):
        matches = match_locally(plan, stream, {}, horizon=None, reported=["p"], columns=(), memory_limit=limit)
        assert len(matches) > 10
        tables.append(sorted(map(written, matches)))
        assert sorted(matches.to_arrow()["match_id"].to_pylist()) == sorted(m.match_id for m in matches)
    assert tables[0] == tables[1] == tables[2]


def test_parquet_larger_than_memory_without_a_key(tmp_path: Path) -> None:
    plan = compile_set([resolve(parse_pattern("pattern p match A a -> B b within 1 minute"))])
    stream = ps.events(str(_file(some_rows(), tmp_path)))
    with pytest.raises(EventDataError, match="without a key they cannot be split"):
        match_locally(plan, stream, {}, horizon=None, reported=["p"], columns=(), memory_limit=1)


def test_two_ways_of_partitioning_larger_than_memory(tmp_path: Path) -> None:
    """Pieces are made by the key columns that all patterns share."""
    text = (
        "pattern p match A a -> B b within 9 seconds partition by k, v "
        "pattern q match B b -> C c within 9 seconds partition by k"
    )
    rows = some_rows(300)
    plan = compile_set(ps.patterns(text).sources.resolve())
    stream = ps.events(str(_file(rows, tmp_path)))
    whole = same_as_oracle(text, rows)
    pieces = match_locally(plan, stream, {}, horizon=None, reported=["p", "q"], columns=(), memory_limit=1)
    assert sorted(m.match_id for m in pieces) == sorted(m.match_id for m in whole)


def test_unused_columns_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**row, "number": i, "wide": "x" * 100} for i, row in enumerate(some_rows())]
    read: list[Any] = []
    whole = local_inputs.read_table
    monkeypatch.setattr(local_inputs, "read_table", lambda data, needed: (read.append(data), whole(data, needed))[1])
    narrow = "pattern p match A a -> B b [i > a.i] within 9 seconds partition by k return b.v as v"
    matches = ps.pattern(narrow).match(ps.events(str(_file(rows, tmp_path)), id="number"))
    assert set(read[0].column_names) == {"ts", "type", "number", "k", "i", "v"}
    assert len(matches) > 10
    assert [m.match_id for m in matches] == [m.match_id for m in ps.pattern(narrow).match(ps.events(rows, id="number"))]


# What comes out


def test_results_agree_in_every_form() -> None:
    text = LOGIN.replace("all_v", "all_v, evidence limit 2") + "report timeouts"
    matches = same_as_oracle(text, some_rows(300))
    dicts = matches.to_dicts()
    assert {row["kind"] for row in dicts} == {"match", "timed out"}
    table, frame = matches.to_arrow(), matches.to_pandas()
    assert table.column_names == list(dicts[0]) == list(frame.columns)
    assert [plain(row) for row in table.to_pylist()] == [plain(row) for row in dicts]
    for name in ("match_id", "kind", "k", "n", "evidence_dropped"):
        assert frame[name].tolist() == [row[name] for row in dicts]
    assert [m.match_id for m in matches] == table["match_id"].to_pylist()
    assert [matches[i] for i in range(len(matches))] == list(matches)
    assert matches[1:4] == tuple(list(matches)[1:4])
    assert matches[-1] == list(matches)[-1]


def plain(row: Mapping[str, Any]) -> str:
    return repr({name: _plain(value) for name, value in row.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.astimezone(UTC) if isinstance(value, dt.datetime) else _number(value)


def test_a_set_reports_its_patterns_in_one_table() -> None:
    text = (
        "pattern p match A a -> B b within 9 seconds partition by k return a.i as x, b.s as only_p "
        "pattern q match B b -> C c within 9 seconds partition by s return c.i as x "
        "pattern r match C c [i = 99] within 9 seconds"
    )
    matches = same_as_oracle(text, some_rows())
    table = matches.to_arrow()
    assert set(table["pattern"].to_pylist()) == {"p", "q"}
    assert {"k", "s", "x", "only_p"} <= set(table.column_names)
    one = ps.patterns(text)["q"].match(some_rows())
    assert {m.pattern for m in one} == {"q"}
    assert len(one) == sum(m.pattern == "q" for m in matches)


def test_returned_columns_of_one_name_and_different_kinds() -> None:
    text = (
        "pattern p match A a -> B b within 9 seconds return a.i as x "
        "pattern q match B b -> C c within 9 seconds return c.s as x"
    )
    matches = same_as_oracle(text, some_rows())
    assert matches.to_arrow().num_rows == len(matches.to_dicts()) == len(matches.to_pandas())


def test_returned_columns_that_no_column_can_be() -> None:
    one = "pattern p match A a -> B+ b -> C c within 9 seconds return collect(b.i) as x"
    for other in ("c.s as x", "c.i as x"):
        text = f"{one} pattern q match B b -> C c within 9 seconds return {other}"
        with pytest.raises(
            TypeMismatchError, match=r"Patterns p and q have an output column 'x' with incompatible types: list<"
        ) as caught:
            ps.patterns(text).match(some_rows())
        assert "return … as x_q" in str(caught.value)
    nothing = f"{one} pattern q match B b -> C c within 9 seconds return null as x"
    assert ps.patterns(nothing).match(some_rows()).to_arrow()["x"].type == pa.list_(pa.int64())


def test_no_matches_still_have_all_columns() -> None:
    for rows in ([], some_rows()):
        matches = ps.pattern(LOGIN.replace("A a", "Z a")).match(rows)
        assert len(matches) == 0
        assert matches.to_dicts() == []
        names = [
            "pattern",
            "match_id",
            "kind",
            "start",
            "end",
            "k",
            "first_i",
            "n",
            "mean",
            "last_s",
            "latest",
            "all_v",
        ]
        assert matches.to_arrow().column_names == names
        assert list(matches.to_pandas().columns) == names


def test_returned_names_that_collide_with_standard_columns() -> None:
    text = "pattern p match A a -> B b within 9 seconds partition by kind return a.i as start, b.i as kind"
    rows = [{**row, "kind": row["k"]} for row in some_rows()]
    matches = same_as_oracle(text, rows)
    assert matches.to_arrow().column_names == list(matches.to_dicts()[0])


@pytest.mark.skipif(not COMPILED, reason="threads share compiled kernels only")
@pytest.mark.parametrize("tail", ["", "selection chronicle"])
def test_partitions_run_on_several_threads(tail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = LOGIN + tail
    rows = some_rows(2_000, keys=150)
    one = ps.pattern(text).match(rows)
    monkeypatch.setattr(sequence_run, "EVENTS_PER_THREAD", 50)
    monkeypatch.setattr(local_engine.os, "cpu_count", lambda: 4)
    shared = []
    own = sequence_run._partition_ranges
    monkeypatch.setattr(sequence_run, "_partition_ranges", lambda *asked: (shared.append(own(*asked)), shared[-1])[1])
    many = ps.pattern(text).match(rows)
    assert len(shared[0]) == 4
    assert list(map(written, many)) == list(map(written, one))
    assert len(one) > 50


def test_the_same_input_twice() -> None:
    one, other = (ps.pattern(LOGIN).match(some_rows()) for _ in range(2))
    assert list(one) == list(other)
    assert one.to_arrow() == other.to_arrow()


def test_matches_of_one_start_above_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_plan, "MATCH_CAP", 5)
    rows = [{"ts": 0, "type": "A"}, *({"ts": 1 + i, "type": "B"} for i in range(6)), {"ts": 9, "type": "C"}]
    matches = ps.pattern("pattern p match A a ->> B+ b combinations -> C c within forever").match(rows)
    assert len(matches) == 5
    assert matches.capped > 0
    assert "partial matches dropped: limit exceeded" in repr(matches)


# Comparison with the oracle


@pytest.mark.parametrize("horizon", [None, 60, 120])
@pytest.mark.parametrize(
    "clauses",
    [
        "report timeouts",
        "return evidence limit 1",
        "return a.i as x, evidence",
        "suppress 10 seconds",
        "return a.i as x suppress 30 seconds by x",
        "return a.i as x suppress 30 seconds by k, x",
        "report timeouts return count(b) as n, evidence limit 3 suppress 15 seconds",
        "after match skip past last report timeouts",
        "selection chronicle",
        "selection recent report timeouts suppress 5 seconds",
    ],
)
def test_clauses(clauses: str, horizon: int | None) -> None:
    text = f"pattern p match A a -> B+ b [i >= a.i] -> C c within 20 seconds partition by k {clauses}"
    start = int(dt.datetime(2024, 1, 1, tzinfo=UTC).timestamp())
    same_as_oracle(text, some_rows(150, 3), horizon=None if horizon is None else (start + horizon) * SECOND)


@pytest.mark.parametrize("block", range(4))
def test_random_patterns(block: int) -> None:
    """Through columns, keys, order_by and id columns, at the end and at a horizon."""
    for seed in range(block * 40, block * 40 + 40):
        chooser = SeededChooser(seed)
        core, text, _ = make_rich_pair(seed)
        rows = make_rows(chooser, 25, keys=3)
        data = pa.Table.from_pylist(rows, schema=SCHEMA) if seed % 2 else rows
        stream = ps.events(
            data,
            id=chooser.pick(((), (), ("number",), ("s", "number"))),
            order_by=chooser.pick(((), (), ("v",), ("d", "s"), ("n",))) if not seed % 2 else (),
            strictly_later=seed % 3 == 0,
        )
        horizon = chooser.pick((None, 8 * SECOND))
        try:
            expected = detect(
                [core], read_events(stream), oracle_matcher(), horizon=horizon, strictly_later=stream.strictly_later
            )
            plan = compile_set([core])
            matches = match_locally(plan, stream, {}, horizon=horizon, reported=["p"], columns=())
            assert sorted(map(written, matches)) == sorted(map(written, expected.matches))
            assert matches.to_arrow().num_rows == len(matches.to_dicts()) == len(expected.matches)
        except Exception as error:
            error.add_note(f"seed {seed}: {text}")
            raise


@pytest.mark.parametrize("block", range(2))
def test_random_sets(block: int) -> None:
    """Patterns of a set that share a scan, some with the keys of others."""
    for seed in range(block * 40, block * 40 + 40):
        chooser = SeededChooser(seed)
        cores = []
        while len(cores) < 3:
            core = make_pattern(chooser)
            if core is not None:
                cores.append(replace(core, name=f"p{len(cores)}"))
        stream = Events(make_rows(chooser, 25))
        expected = detect(cores, read_events(stream), oracle_matcher())
        names = [core.name for core in cores]
        matches = match_locally(compile_set(cores), stream, {}, horizon=None, reported=names, columns=())
        assert sorted(map(written, matches)) == sorted(map(written, expected.matches)), f"seed {seed}"


def test_patterns_that_feed_patterns() -> None:
    text = (
        "pattern pair match A a -> B b within 9 seconds partition by k return a.i as x "
        "pattern twice match pair p -> pair q [x = p.x] within 30 seconds partition by k"
    )
    assert len(same_as_oracle(text, some_rows())) > 10


def test_several_inputs() -> None:
    """Each has its own name for the key, and its own numbers for its events."""
    rows = some_rows(150)
    logins = [{"ts": row["ts"], "k": row["k"], "n": i} for i, row in enumerate(rows[:90])]
    moves = [{"at": row["ts"], "who": row["k"], "k": "own", "n": i} for i, row in enumerate(rows[90:])]
    text = (
        "pattern pair match Login a -> Move b within 9 seconds partition by k return a.n as x, b.n as y "
        "pattern both match any a [n < 9], any b within 9 seconds partition by k return a.k as k1 "
        "pattern twice match pair p -> pair q [x > p.x] within 30 seconds partition by k"
    )
    told = ps.patterns(text)
    for id in ((), ("n",)):
        stream = ps.events(
            {"Login": logins, "Move": pa.Table.from_pylist(moves)},
            time={"Login": "ts", "Move": "at"},
            key={"Login": "k", "Move": "who"},
            id=id,
        )
        expected = {
            m.match_id: _values(m.values)
            for m in detect(told.sources.resolve(), read_events(stream), oracle_matcher()).matches
        }
        fed = {m.match_id: _values(m.values) for m in told.match(stream)}
        assert fed == expected
        alone = ps.patterns("\n".join(str(told[name]) for name in ("pair", "both"))).match(stream)
        assert {m.match_id: _values(m.values) for m in alone}.items() < expected.items()
        assert {m.pattern for m in alone} == {"pair", "both"}


def test_options_of_several_inputs_are_validated() -> None:
    inputs = {"A": [{"ts": 1, "k": 1}], "B": [{"at": 1, "k": 1, "v": 2}]}
    pattern = ps.pattern("pattern p match A a -> B b within 1 minute")

    def check_error(text: str, data: Any, **said: Any) -> None:
        with pytest.raises(EventDataError, match=text):
            pattern.match(ps.events(data, **said))

    check_error("The dict of inputs is empty", {})
    check_error("No time column for the input 'B'", inputs, time={"A": "ts"})
    check_error("Unknown event type 'C' in time=", inputs, time={"A": "ts", "C": "at"})
    check_error("Use a dict for several inputs", inputs["A"], time={"A": "ts"})
    check_error(
        "Key of B: expected 1 columns as in the first input, got 2",
        inputs,
        time={"A": "ts", "B": "at"},
        key={"A": "k", "B": ["k", "v"]},
    )


def test_duplicates_are_one_event_also_where_patterns_feed() -> None:
    rows = [row for row in some_rows(60) for _ in range(2)]
    text = "pattern pair match A a, B b within 9 seconds partition by k"
    fed = f"{text} pattern twice match pair p -> pair q within 30 seconds partition by k"
    once, twice = (ps.patterns(fed).match(ps.events(data, dedupe=True)) for data in (some_rows(60), rows))
    assert [m.match_id for m in twice] == [m.match_id for m in once]
    assert {m.match_id for m in ps.pattern(text).match(ps.events(rows, dedupe=True))} == {
        m.match_id for m in twice if m.pattern == "pair"
    }


def test_relations() -> None:
    text = "pattern p match A a [(k, i) in Known] -> B b [s in Names or s = a.s] within 9 seconds"
    relations = {"Known": [(1, 2), (2, 3), (None, 1)], "Names": [("x",), (None,)]}
    assert len(same_as_oracle(text, some_rows(), relations=relations)) > 0


# Keys and times


def keyed(*keys: Any, column: str = "k") -> Rows:
    """For each key an A, and then for each a B."""
    rows = [{"ts": i, "type": "A", column: key, "v": i} for i, key in enumerate(keys)]
    return rows + [{"ts": 100 + i, "type": "B", column: key, "v": i} for i, key in enumerate(keys)]


PAIR = "pattern p match A a -> B b within forever partition by k return a.v as x, b.v as y"


@pytest.mark.parametrize(
    "keys",
    [
        [1, 2, 1],
        [None, 1, None],
        [math.nan, 1.5, math.nan, None],
        [0.0, -0.0, 1.0],
        ["a", "", None, "é"],
        [True, False, None],
        [1, 1.0, "1", True, None, Decimal(1)],
        [Decimal("1.5"), Decimal("1.50"), Decimal("2.00")],
        [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None],
        [dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC)],
        [dt.timedelta(1), dt.timedelta(2), None],
        [b"a", b"b", b"a"],
        [[1, 2], [2, 1], None, []],
        [{"x": 1}, {"x": 2}, None, {"x": None}],
        [2**63 - 1, -(2**63), 2**62],
        ["x" * 200_000, "x" * 199_999 + "y"],
        [None, None],
    ],
    ids=lambda keys: repr(keys)[:60],
)
def test_keys(keys: list[Any]) -> None:
    matches = same_as_oracle(PAIR, keyed(*keys))
    assert len(matches) == len(keys)
    assert matches.to_arrow().num_rows == len(keys)


@pytest.mark.parametrize("kind", [pa.float32(), pa.int8(), pa.uint16(), pa.large_string(), pa.decimal128(9, 2)])
def test_keys_of_other_arrow_types(kind: Any) -> None:
    one = Decimal(1) if pa.types.is_decimal(kind) else 1
    keys = ["a", "b", None] if pa.types.is_large_string(kind) else [one, 2 * one, None]
    rows = keyed(*keys)
    table = pa.Table.from_pylist(rows).drop_columns("k").append_column("k", pa.array([row["k"] for row in rows], kind))
    assert len(same_as_oracle(PAIR, table)) == 3


def test_composite_keys() -> None:
    rows = [{**row, "m": None if row["i"] == 3 else row["s"]} for row in some_rows(300)]
    same_as_oracle(PAIR.replace("by k", "by k, m, v"), rows)
    matches = same_as_oracle(PAIR.replace("by k", "by m, d"), rows)
    assert {tuple(m.key) for m in matches} == {("m", "d")}
    assert any(m.key["m"] is None for m in matches)


def test_a_key_inside_a_struct() -> None:
    text = PAIR.replace("by k", "by device.id")
    rows = [{**row, "device": None if row["i"] == 3 else {"id": row["k"], "os": "x"}} for row in some_rows()]
    for data in (rows, pa.Table.from_pylist(rows)):
        matches = same_as_oracle(text, data)
        assert {tuple(m.key) for m in matches} == {("device.id",)}
        assert "device.id" in matches.to_arrow().column_names
    same_as_oracle(PAIR.replace("by k", "by device.nowhere"), pa.Table.from_pylist(rows))
    same_as_oracle(PAIR.replace("by k", "by v.inside"), rows)


def test_a_key_with_a_dot_in_its_name() -> None:
    rows = [{**row, "a": {"b": row["v"]}} for row in some_rows(60)]
    named = [{**row, "a.b": row["k"]} for row in rows]
    text = PAIR.replace(" partition by k", "")
    holders = (HOLDERS["dicts"], HOLDERS["generator"], HOLDERS["pandas"], HOLDERS["arrow"], HOLDERS["reader"])
    for hold in holders:
        inside = ps.pattern(text).match(ps.events(hold(rows, Path()), key="a.b", id=["i", "k"]))
        assert {m.match_id for m in inside} == {
            m.match_id for m in same_as_oracle(f"{text} partition by a.b", ps.events(rows, id=["i", "k"]))
        }
        column = ps.pattern(text).match(ps.events(hold(named, Path()), key="a.b", id=["i", "k"]))
        assert {m.match_id for m in column} == {
            m.match_id for m in same_as_oracle(f"{text} partition by `a.b`", ps.events(named, id=["i", "k"]))
        }
        assert {m.key["a.b"] for m in column} != {m.key["a.b"] for m in inside}
    with pytest.raises(EventDataError, match=r"'k' of B cannot be renamed to 'a\.b'"):
        ps.pattern(text).match(ps.events({"A": rows, "B": rows}, key={"A": "a.b", "B": "k"}))


def test_missing_key_column_is_null_for_all_events() -> None:
    text = PAIR.replace("by k", "by nowhere")
    with pytest.warns(ps.errors.PerseidWarning, match="no event has a column 'nowhere'"):
        matches = same_as_oracle(text, some_rows(60))
    assert {m.key["nowhere"] for m in matches} == {None}
    assert any("nowhere" in note for note in matches.notes)


LOW = "pattern low match A a partition by user return a.user as who\n"


@pytest.mark.parametrize(
    "text",
    [
        "pattern p match A a -> B b within 1 minute partition by usr",
        "pattern p match A a -> B b within 1 minute partition by usr return a.usr",
        "pattern p match A a -> B b within 1 minute partition by usr.name",
    ],
)
def test_missing_key_column_is_a_warning(text: str, tmp_path: Path) -> None:
    rows = [{"ts": 0, "type": "A", "user": "ann"}, {"ts": 1, "type": "B", "user": "bob"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    rules = ps.patterns(text)
    for data in (rows, pd.DataFrame(rows), pa.Table.from_pylist(rows), tmp_path / "rows.parquet", {"A": rows}):
        for run in (rules.match, rules.count):
            with pytest.warns(
                ps.errors.PerseidWarning, match=r"one null key: .* 'usr'\. Did you mean 'user'"
            ) as caught:
                run(data)
            assert [warning.filename for warning in caught] == [__file__]
    assert not rules.match([])


def test_missing_key_column_of_a_feeding_pattern_is_a_warning() -> None:
    rules = ps.patterns("pattern low match A a partition by usr pattern high match low x -> low y within 1 minute")
    with pytest.warns(ps.errors.PerseidWarning, match=r"one null key: .* 'usr'\. Did you mean 'user'") as caught:
        rules.match([{"ts": 0, "type": "A", "user": "ann"}])
    assert [warning.filename for warning in caught] == [__file__]
    assert not rules.match([])


def test_key_column_of_some_events_is_no_warning() -> None:
    rows = [{"ts": 0, "type": "A"}, {"ts": 1, "type": "B", "user": "bob"}]
    assert not ps.pattern("pattern p match A a -> B b within 1 minute partition by user").match(rows)
    fed = ps.patterns(LOW + "pattern high match low x partition by who")
    assert [m.key for m in fed.match(rows) if m.pattern == "high"] == [{"who": None}]


def test_equal_times_and_equal_rows() -> None:
    one = {"ts": 1, "type": "A", "v": 1}
    two = {"ts": 1, "type": "B", "v": 2}
    rows = [one, two, one, two, {**two, "v": 3}, one]
    text = "pattern p match A a ->> B b within 1 minute return a.v as x, b.v as y"
    for stream in (Events(rows), Events(rows, strictly_later=True), Events(rows, order_by=("v",))):
        same_as_oracle(text, stream)
    assert len(same_as_oracle(text, Events(rows, order_by=("v",)))) == 9
    shuffled = [rows[i] for i in (3, 0, 5, 1, 4, 2)]
    ids = [sorted(m.match_id for m in ps.pattern(text).match(data)) for data in (rows, shuffled)]
    assert ids[0] == ids[1]


def test_equal_events_are_numbered_in_their_partition() -> None:
    rows = [{"ts": 1, "type": "A", "k": k, "n": 7} for k in (1, 2, 2, 3)]
    text = "pattern p match A a partition by k pattern q match A a, A b"
    for stream in (ps.events(rows, id="n"), ps.events(rows, id="n", order_by="k")):
        matches = same_as_oracle(text, stream)
        assert [[e.occurrence for _, e in m.contributing] for m in matches if m.pattern == "p"].count([0]) == 3


@pytest.mark.parametrize("order_by", ["v", "s", "d", "mixed"])
def test_order_by(order_by: str) -> None:
    pick = random.Random(5)
    rows = [
        {**row, "ts": row["ts"].replace(minute=0, second=row["i"]), "mixed": pick.choice([1, "a", None, 2.5, True])}
        for row in some_rows(60)
    ]
    same_as_oracle("pattern p match A a, B b within 1 minute partition by k", Events(rows, order_by=(order_by, "v")))


# Columns


def test_columns_of_several_kinds() -> None:
    pick = random.Random(7)
    rows = [
        {**row, "m": pick.choice([1, 2.0, "1", None, True, Decimal("1.0"), [1], {"x": 1}])} for row in some_rows(90)
    ]
    for condition in ("m = a.m", "m > 1", "m is null", "m <=> a.m", "m + 1 > a.i", "m.x = 1", "i > a.i"):
        text = f"pattern p match A a -> B b [{condition}] within 20 seconds return b.m as m, a.i as i"
        matches = same_as_oracle(text, rows)
        assert matches.to_arrow().num_rows == len(matches)
    same_as_oracle("pattern p match A a -> B+ b -> C c within 9 seconds return max(b.m) as m, evidence", rows)


def test_suppress_by_a_column_of_several_kinds() -> None:
    rows = [{"ts": i, "type": "A", "m": m} for i, m in enumerate([1, "1", True, "true", 1.0, None, "null", Decimal(1)])]
    text = "pattern p match A a within 1 minute return a.m as m suppress 1 minute by m"
    assert len(same_as_oracle(text, rows)) == 6


@pytest.mark.filterwarnings("ignore:All events share one null key")
def test_empty_and_single() -> None:
    for text in (
        LOGIN,
        PAIR,
        "pattern p match not B for 2 seconds -> A a",
        "pattern p match A a -> not B for 2 seconds",
    ):
        same_as_oracle(text, [])
        same_as_oracle(text, [{"ts": 1, "type": "A", "k": 1, "i": 1, "s": "x", "v": 1, "d": 1.0, "t": None}])
        same_as_oracle(text, [{"ts": 1, "type": "A"}])
    empty = pa.table({"ts": pa.array([], pa.timestamp("us")), "type": pa.array([], pa.string())})
    assert len(ps.pattern(PAIR).match(empty)) == 0
    assert len(ps.pattern(PAIR).match(pd.DataFrame({"ts": [], "type": []}))) == 0


def test_types_that_are_null_or_unknown() -> None:
    rows = [{"ts": i, "type": kind, "v": i} for i, kind in enumerate(["A", None, "Z", "B", None, "A", 1, "B"])]
    same_as_oracle("pattern p match A a, B b within 1 minute", rows)
    same_as_oracle("pattern p match A a, any x, any y within 1 minute", rows)
    same_as_oracle("pattern p match A a -> B b within 3 events", rows)


def test_huge_texts() -> None:
    big = "x" * 300_000
    rows = [
        {"ts": 1, "type": "A", "s": big},
        {"ts": 2, "type": "B", "s": big + "a"},
        {"ts": 3, "type": "B", "s": big},
        {"ts": 4, "type": "B", "s": ""},
    ]
    for op in ("=", "<", ">", "<>"):
        text = f"pattern p match A a ->> B b [s {op} a.s] within 1 minute return b.s as s, length(b.s) as n"
        assert len(same_as_oracle(text, rows)) > 0


def test_times_at_the_ends_of_the_calendar() -> None:
    rows = [
        {"ts": dt.datetime(1, 1, 1, tzinfo=UTC), "type": "A"},
        {"ts": dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "type": "B"},
    ]
    assert len(same_as_oracle("pattern p match A a -> B b within forever", rows)) == 1
    matches = same_as_oracle("pattern p match B b -> not A for 2 seconds", rows)
    assert matches.to_dicts()[0]["end"] is None
    assert matches.to_arrow()["end"].to_pylist() == [None]


def test_strictly_later() -> None:
    same_as_oracle(LOGIN, Events(some_rows(120), strictly_later=True))


# Unused event types are skipped while files are read


@pytest.fixture
def mixed_file(tmp_path: Path) -> tuple[pa.Table, str]:
    """Events of five types, one of them null, in row groups of seven."""
    rows = 200
    table = pa.table(
        {
            "ts": pa.array([i * 1_000_000 for i in range(rows)], pa.timestamp("us", "UTC")),
            "type": [("A", "x", "B", None, "b")[i * 7 % 5] for i in range(rows)],
            "id": list(range(rows)),
        }
    )
    path = tmp_path / "mixed.parquet"
    pq.write_table(table, path, row_group_size=7)
    return table, str(path)


PAIRS = "pattern p match A a -> B b within 1 minute return a.id as first, b.id as last"


def test_skipped_events_in_files_do_not_change_matches(mixed_file: tuple[pa.Table, str]) -> None:
    table, path = mixed_file
    there, here = (ps.pattern(PAIRS).match(ps.events(data, id="id")) for data in (path, table))
    assert there.to_arrow() == here.to_arrow()
    assert len(here) == 40


def test_unused_event_types_are_still_suggested(mixed_file: tuple[pa.Table, str]) -> None:
    table, path = mixed_file
    text = PAIRS.replace("A a", "X a")
    there, here = (ps.pattern(text).match(ps.events(data, id="id")).notes for data in (path, table))
    assert there == here
    assert "Did you mean 'x'" in " ".join(there)


@pytest.mark.parametrize("wrong", [None, 2**62])
def test_unused_event_without_a_time_is_an_error_with_its_row(
    wrong: int | None, mixed_file: tuple[pa.Table, str], tmp_path: Path
) -> None:
    table, _ = mixed_file
    times = table["ts"].cast(pa.int64()).to_pylist()
    times[103] = wrong
    assert table["type"][103].as_py() == "x"
    bad = table.set_column(0, "ts", pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")))
    pq.write_table(bad, tmp_path / "bad.parquet", row_group_size=7)
    for data in (bad, str(tmp_path / "bad.parquet")):
        with pytest.raises(ps.errors.EventDataError, match="Row 104"):
            ps.pattern(PAIRS).match(ps.events(data, id="id"))


def test_optional_step_without_an_event_is_null() -> None:
    """Conditions on one step alone are evaluated as columns; without an event, its columns are null."""
    rows = [{"ts": 1, "type": "A", "i": 5, "v": 0}, {"ts": 2, "type": "C", "i": 3, "v": 0}]
    for returned, value in (("coalesce(b.i, 7)", 7), ("b.i is null", True), ("hour(time(b))", None)):
        text = f"pattern p match A a -> B? b -> C c within 9 seconds return {returned} as x"
        assert [match.values["x"] for match in same_as_oracle(text, rows)] == [value]
    assert len(same_as_oracle("pattern p match A a -> B? b -> C c [coalesce(b.i, 0) = v] within 9 seconds", rows)) == 1


LONE = "\ud800"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("pattern p match A a return a.x", {"x": LONE}),
        ("pattern p match A a return a.x || 'b' as y", {"x": LONE}),
        ("pattern p match A a return evidence", {"x": {"y": [LONE]}}),
        ("pattern p match A a return evidence", {"x": {LONE: 1}}),
        ("pattern p match A a partition by x", {"x": LONE}),
        ("pattern q match A a return a.x as y pattern p match q b return b.y as z", {"x": LONE}),
    ],
)
def test_lone_surrogate_in_a_returned_column_is_an_event_data_error(text: str, row: dict[str, Any]) -> None:
    with pytest.raises(
        EventDataError, match=r"Column 'x' of the event at 1970-01-01 00:00:01 contains a lone surrogate"
    ):
        ps.patterns(text).match([{"type": "A", "ts": 1, **row}])


def test_lone_surrogate_in_the_name_of_a_column_is_an_event_data_error() -> None:
    with pytest.raises(EventDataError, match=r"The name of column '\\ud800' contains a lone surrogate"):
        ps.pattern("pattern p match A a return evidence").match([{"type": "A", "ts": 1, LONE: 1}])


def test_lone_surrogate_that_is_not_returned_is_compared_like_any_text() -> None:
    assert len(ps.pattern("pattern p match A a [x <> 'b']").match([{"type": "A", "ts": 1, "x": LONE}])) == 1
