"""States as some version wrote them: every later version must load these and go on, or refuse with a StateError.

Beside each state lies what it is of: the patterns, the rows that were still to come, and what is told from there on.
``PERSEID_ADD_STATES=1`` writes the states of cases that have none yet. Nothing writes over one that is there: it is
what lies on somebody's disk. Where a version can no longer load one, it says so: its name goes into ``REFUSED``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from perseid.engines.contract import Engine
from perseid.engines.registry import engines
from perseid.engines.state import unseal
from perseid.errors import StateError
from tests.contract.inputs import EPOCH, Question, inputs_of
from tests.contract.streams import SECOND, Shard

FOLDER = Path(__file__).parent / "states"
REFUSED: frozenset[str] = frozenset()
"""States that this version does not load any more, by name."""
KINDS = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.duration("us"),
        pa.timestamp("us", "UTC"), pa.decimal128(12, 2), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()),
        pa.struct({"x": pa.int64(), "s": pa.string(), "on": pa.date32()}),
    )
}  # fmt: skip
"""The types that columns of these states have, by how they are written down."""
SMALL = {"ts": "timestamp[us, tz=UTC]", "type": "string", "k": "int64", "v": "int64", "number": "int64"}
RICH = {
    **SMALL,
    "s": "string",
    "price": "decimal128(12, 2)",
    "day": "date32[day]",
    "at": "timestamp[us, tz=UTC]",
    "span": "duration[us]",
    "d": "double",
    "f": "bool",
    "n": str(pa.struct({"x": pa.int64(), "s": pa.string(), "on": pa.date32()})),
    "tags": str(pa.list_(pa.string())),
    "bag": str(pa.map_(pa.string(), pa.int64())),
}
PLAIN = "match A a -> B b\nwithin 10 seconds\npartition by k\nreturn a.v as v"
GREEDY = "match A a -> B+ b\nwithin 10 seconds\npartition by k"


@dataclass(frozen=True)
class Case:
    """How a state came to be."""

    patterns: tuple[str, ...]
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]
    cut: int
    """Rows that had come."""
    now: int | None
    """The second up to which everything had."""
    order: str = "watermark"
    order_by: tuple[str, ...] = ()
    id: tuple[str, ...] = ("number",)
    before: tuple[str, ...] = ()
    """The patterns that were there before those, up to the first row that had come."""
    routed: bool = False


def few(*said: tuple[int, str], key: int = 1) -> tuple[dict[str, Any], ...]:
    return tuple({"second": second, "type": kind, "k": key, "v": second % 3} for second, kind in said)


def rich(second: int, kind: str) -> dict[str, Any]:
    """Values of every kind, and nulls; the same second has the same values in every version."""
    there = second % 4
    return {
        "second": second, "type": kind, "k": second % 2, "v": None if there == 3 else second,
        "s": (None, "é😀", "", "long " * 9)[there], "price": None if there == 2 else f"{second}.25",
        "day": None if there == 1 else f"2024-02-{second + 1:02}", "at": None if there == 0 else second * 86_400_000_001,
        "span": second * 1_500_000, "d": (0.5, 1e300, None, -2.0)[there], "f": (True, False, None, True)[there],
        "n": None if there == 3 else {"x": second, "s": None, "on": f"2023-12-{second + 1:02}"},
        "tags": (None, [], ["a", None], ["x"])[there], "bag": (None, [], [["a", 1]], [["b", None]])[there],
    }  # fmt: skip


STREAM = few((1, "A"), (2, "A"), (3, "B"), (5, "A"), (6, "C"), (7, "B"), (9, "A"), (12, "B"), (14, "B"), (40, "C"))
TWO_KEYS = tuple({**row, "k": 1 + i % 2} for i, row in enumerate(STREAM))
CASES: dict[str, Case] = {
    "plain": Case((PLAIN,), SMALL, TWO_KEYS, 5, 4),
    "waiting": Case((PLAIN, GREEDY), SMALL, TWO_KEYS, 7, None),
    "several patterns": Case(
        (GREEDY, PLAIN, "match A a -> not C for 4 seconds\nreport timeouts\npartition by k"), SMALL, TWO_KEYS, 6, 5
    ),
    "fed": Case((PLAIN, "match p0 x -> B b\nwithin 9 seconds\npartition by k\nreturn x.v as w"), SMALL, TWO_KEYS, 8, 7),
    "several routes": Case(
        (PLAIN, "match A a ->> B b\nwithin 8 seconds", "match A a, A b\npartition by v, k"), SMALL, TWO_KEYS, 6, 5
    ),
    "rows by route": Case((PLAIN, "match A a ->> B b\nwithin 8 seconds"), SMALL, TWO_KEYS, 6, 5, routed=True),
    "every kind of column": Case(
        (
            "match A a -> B b\nwithin 10 seconds\npartition by k\n"
            "return a.s as s, a.price as price, a.day as day, a.at as at, a.span as span, a.d as d, a.f as f, "
            "a.n.x as x, a.n.on as on, a.v as v",
            "match A a -> B b\nwithin 10 seconds\nreturn a.n as n, a.tags as tags, a.bag as bag, evidence limit 1",
        ),
        RICH,
        tuple(rich(second, "ABC"[(second * 5) % 3]) for second in range(12)),
        8,
        4,
    ),
    "keys and ranks of every kind": Case(
        ("match A a -> B b\nwithin 10 seconds\npartition by s, day, n.x", "match A a -> B b\nwithin 9 seconds"),
        RICH,
        tuple(rich(second // 2, "AB"[second % 2]) for second in range(16)),
        10,
        2,
        order_by=("price", "s"),
        id=("s", "type"),
    ),
    "occurrence": Case(
        ("match A a ->> B b\nwithin 10 seconds\npartition by k",),
        SMALL,
        tuple({**row, "number": 7, "v": 1} for row in few((1, "A"), (1, "A"), (1, "A"), (3, "B"), (3, "B"), (5, "B"))),
        4,
        2,
    ),
    "suppressed": Case((GREEDY + "\nsuppress 30 seconds",), SMALL, (*STREAM, *few((41, "A"), (42, "B"))), 9, 13),
    "suppressed groups alone": Case(
        (PLAIN + "\nsuppress 1 minute by v",),
        SMALL,
        (*STREAM[:6], *few((40, "A"), (41, "B"), (43, "A"), (44, "B"), (80, "A"), (82, "B"))),
        6,
        30,
    ),
    "arrival": Case((PLAIN, GREEDY), SMALL, TWO_KEYS, 5, None, order="arrival"),
    "arrival with time": Case((GREEDY,), SMALL, TWO_KEYS, 6, 4, order="arrival", order_by=("v",)),
    "since": Case((PLAIN, GREEDY), SMALL, STREAM, 5, 4, before=(GREEDY,)),
    "context": Case((PLAIN + "\nselection chronicle", PLAIN + "\nselection recent"), SMALL, STREAM, 6, 6),
    "partial matches": Case(
        tuple(
            f"match {shape}\nwithin 12 seconds\npartition by k\nselection {context}\nreport timeouts"
            for context in ("chronicle", "immediate", "recent", "continuous")
            for shape in ("(A+ a)+ -> C c -> B b", "A a -> B b [v >= a.v] -> B c")
        ),
        SMALL,
        TWO_KEYS,
        7,
        7,
    ),
    "partial matches by arrival": Case(
        (
            PLAIN + "\nselection chronicle",
            "match A+ a -> B b [v < sum(a.v)]\nwithin 20 seconds\npartition by k\nselection recent\nreport timeouts",
        ),
        SMALL,
        STREAM,
        7,
        4,
        order="arrival",
    ),
    "matches of a context that wait": Case(
        ("match A(k as u) a -> (C(k as u) c | B{1,9} b)\nwithin 12 seconds\nselection chronicle\nsuppress 2 seconds",),
        SMALL,
        STREAM,
        7,
        6,
    ),
    "combinations": Case(("match A a ->> B b ->> B c\nwithin 1 minute",), SMALL, STREAM, 6, 7),
    "looks back": Case(("match not C for 2 seconds -> A a -> B+ b\nwithin 6 seconds",), SMALL, STREAM, 6, 6),
    "forever": Case(("match A a -> C c\nwithin forever\npartition by k", "match A a, B b"), SMALL, STREAM, 5, 5),
}


def value_of(kind: Any, said: Any) -> Any:
    """What stands in JSON for a value of a type, as that value."""
    if said is None:
        return None
    if pa.types.is_timestamp(kind):
        return EPOCH + dt.timedelta(microseconds=said)
    if pa.types.is_duration(kind):
        return dt.timedelta(microseconds=said)
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(said)
    if pa.types.is_decimal(kind):
        return Decimal(said)
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, said[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [(key, inner) for key, inner in said]
    return said


def question_of(engine: Engine, about: Mapping[str, Any], patterns: list[str]) -> Question:
    """The patterns, over all rows that are said."""
    schema = pa.schema({name: KINDS[kind] for name, kind in about["columns"].items()})
    kinds = dict(zip(schema.names, schema.types, strict=True))
    rows = [
        {name: said if name == "second" else value_of(kinds[name], said) for name, said in row.items()}
        for row in about["rows"]
    ]
    question = inputs_of(engine).write(patterns, rows, schema)
    return replace(question, id=tuple(about["id"]), order_by=tuple(about["order_by"]))


def loaded(engine: Engine, about: Mapping[str, Any], state: bytes | None) -> Shard:
    question = question_of(engine, about, about["patterns"])
    now = None if about["now"] is None else about["now"] * SECOND
    return Shard(engine, question, about["order"], routed=about["routed"], state=state, now=now)


def go_on(shard: Shard) -> list[list[Any]]:
    """Give the rest one by one, then let time go on: what is told, as JSON has it."""
    for row in shard.question.data:
        shard.call([row], shard.now)
    for second in (10, 15, 45, 95):
        shard.call((), max(shard.now or 0, second * SECOND))
    return json.loads(json.dumps(shard.finish()))  # type: ignore[no-any-return]


def written(engine: Engine, case: Case) -> tuple[bytes, dict[str, Any]]:
    """The state of a case, and what is to be known of it."""
    rows = [{**row, "number": row.get("number", i)} for i, row in enumerate(case.rows)]
    about = {
        "engine": engine.name, "patterns": list(case.patterns), "columns": dict(case.columns), "id": list(case.id),
        "order_by": list(case.order_by), "order": case.order, "routed": case.routed, "now": case.now,
        "rows": rows,
    }  # fmt: skip
    whole = loaded(engine, about, None)
    data, now = whole.question.data, whole.now
    shard = replace(whole, now=None)
    if case.before:
        first = replace(shard, question=question_of(engine, about, list(case.before)))
        first.call(data[:2], None)
        first.call((), 2 * SECOND)
        shard = replace(shard, state=first.state, now=first.now)
        shard.call(data[2 : case.cut], shard.now)
    else:
        shard.call(data[: case.cut], None)
    if now is not None:
        shard.call((), now)
    assert shard.state is not None
    about["rows"] = rows[case.cut :]
    rest = loaded(engine, about, shard.state)
    about["expected"] = go_on(rest)
    if not case.before:
        assert not rest.late
        assert sorted([*shard.told, *rest.told], key=repr) == inputs_of(engine).expected(whole.question)
    return shard.state, about


def states() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.bin"))


def whole() -> list[Engine]:
    """Engines that can be asked any pattern, and tell a match once and for all."""
    return [engine for engine in engines().values() if not engine.retracts and inputs_of(engine).whole]


def name_of(engine: Engine, name: str) -> str:
    return f"{engine.name} {name}".replace(" ", "-")


if os.environ.get("PERSEID_ADD_STATES"):
    for each in whole():
        for title, case in CASES.items():
            path = FOLDER / f"{name_of(each, title)}.bin"
            if not path.exists() and not path.with_suffix(".json").exists():
                blob, said = written(each, case)
                path.write_bytes(blob)
                path.with_suffix(".json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", states())
def test_a_state_of_an_earlier_version(name: str) -> None:
    state = (FOLDER / f"{name}.bin").read_bytes()
    about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    shard = loaded(engines()[about["engine"]], about, state)
    if name in REFUSED:
        with pytest.raises(StateError):
            go_on(shard)
    else:
        assert go_on(shard) == about["expected"]


@pytest.mark.parametrize("title", CASES)
def test_every_case_has_its_state(title: str) -> None:
    """A new case is added with PERSEID_ADD_STATES=1; what this version writes for it still reads as it should."""
    for engine in whole():
        assert name_of(engine, title) in states()
        _, about = written(engine, CASES[title])
        said = json.loads((FOLDER / f"{name_of(engine, title)}.json").read_text(encoding="utf-8"))
        assert about["expected"] == said["expected"]


def test_the_states_have_what_they_are_there_for() -> None:
    """Without this a case could be there and say nothing."""
    columns: set[str] = set()
    for name in states():
        sealed = unseal((FOLDER / f"{name}.bin").read_bytes())
        if "links" in sealed.facts:
            columns |= {"links"}
            continue
        columns |= {column.split(" ")[0] for column in sealed.tables[0].schema.names}
        beside = [one.to_pydict() for one in sealed.tables[1:]]
        columns |= {"groups"} if any("high" in one for one in beside) else set()
        for one in beside:
            if "taken" in one:
                ways = {taken["way"] for some in one["taken"] for taken in some}
                columns |= {"partials", f"partials of {sealed.facts['order']}"}
                columns |= {"another way"} if len(ways) > 1 else set()
                columns |= {"went on"} if any(one["went on"]) else set()
                columns |= {"untold"} if any(end is not None for end in one["end"]) else set()
        columns |= {"since"} if any(said["since"] is not None for said in sealed.facts["patterns"].values()) else set()
        columns |= {f"order {sealed.facts['order']}"}
    assert columns >= {
        "time",
        "kind",
        "route",
        "occurrence",
        "rank",
        "key",
        "column",
        "open",
        "groups",
        "since",
        "links",
    }
    assert columns >= {"order arrival", "order watermark"}
    assert columns >= {"partials of watermark", "partials of arrival", "another way", "went on", "untold"}
    total = sum(path.stat().st_size for path in FOLDER.iterdir())
    assert total < 250_000
