"""Golden states of every version: the patterns and rows that each is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

KINDS = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.duration("us"),
        pa.timestamp("us", "UTC"), pa.decimal128(12, 2), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()),
        pa.struct({"x": pa.int64(), "s": pa.string(), "on": pa.date32()}),
    )
}  # fmt: skip
"""Types of the columns of these states, by their names in the files."""
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
class GoldenStream:
    """Patterns and rows that lead to a state."""

    patterns: tuple[str, ...]
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]
    cut: int
    """Number of rows before the state."""
    now: int | None
    """Watermark in seconds."""
    order: str = "watermark"
    order_by: tuple[str, ...] = ()
    id: tuple[str, ...] = ("number",)
    before: tuple[str, ...] = ()
    """Patterns that are replaced after the first rows."""
    routed: bool = False
    batch: int = 1_000
    """Number of rows in one call."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the strategy, if it has any."""


def small_rows(*values: tuple[int, str], key: int = 1) -> tuple[dict[str, Any], ...]:
    return tuple({"second": second, "type": kind, "k": key, "v": second % 3} for second, kind in values)


def rich(second: int, kind: str) -> dict[str, Any]:
    """Return a row with values of every type and nulls; the same second has the same values in every version."""
    there = second % 4
    return {
        "second": second, "type": kind, "k": second % 2, "v": None if there == 3 else second,
        "s": (None, "é😀", "", "long " * 9)[there], "price": None if there == 2 else f"{second}.25",
        "day": None if there == 1 else f"2024-02-{second + 1:02}", "at": None if there == 0 else second * 86_400_000_001,
        "span": second * 1_500_000, "d": (0.5, 1e300, None, -2.0)[there], "f": (True, False, None, True)[there],
        "n": None if there == 3 else {"x": second, "s": None, "on": f"2023-12-{second + 1:02}"},
        "tags": (None, [], ["a", None], ["x"])[there], "bag": (None, [], [["a", 1]], [["b", None]])[there],
    }  # fmt: skip


STREAM = small_rows(
    (1, "A"), (2, "A"), (3, "B"), (5, "A"), (6, "C"), (7, "B"), (9, "A"), (12, "B"), (14, "B"), (40, "C")
)
TWO_KEYS = tuple({**row, "k": 1 + i % 2} for i, row in enumerate(STREAM))
CASES: dict[str, GoldenStream] = {
    "plain": GoldenStream((PLAIN,), SMALL, TWO_KEYS, 5, 4),
    "waiting": GoldenStream((PLAIN, GREEDY), SMALL, TWO_KEYS, 7, None),
    "several patterns": GoldenStream(
        (GREEDY, PLAIN, "match A a -> not C for 4 seconds\nreport timeouts\npartition by k"), SMALL, TWO_KEYS, 6, 5
    ),
    "fed": GoldenStream(
        (PLAIN, "match p0 x -> B b\nwithin 9 seconds\npartition by k\nreturn x.v as w"), SMALL, TWO_KEYS, 8, 7
    ),
    "several routes": GoldenStream(
        (PLAIN, "match A a ->> B b\nwithin 8 seconds", "match A a, A b\npartition by v, k"), SMALL, TWO_KEYS, 6, 5
    ),
    "rows by route": GoldenStream((PLAIN, "match A a ->> B b\nwithin 8 seconds"), SMALL, TWO_KEYS, 6, 5, routed=True),
    "every kind of column": GoldenStream(
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
    "keys and ranks of every kind": GoldenStream(
        ("match A a -> B b\nwithin 10 seconds\npartition by s, day, n.x", "match A a -> B b\nwithin 9 seconds"),
        RICH,
        tuple(rich(second // 2, "AB"[second % 2]) for second in range(16)),
        10,
        2,
        order_by=("price", "s"),
        id=("s", "type"),
    ),
    "occurrence": GoldenStream(
        ("match A a ->> B b\nwithin 10 seconds\npartition by k",),
        SMALL,
        tuple(
            {**row, "number": 7, "v": 1}
            for row in small_rows((1, "A"), (1, "A"), (1, "A"), (3, "B"), (3, "B"), (5, "B"))
        ),
        4,
        2,
    ),
    "suppressed": GoldenStream(
        (GREEDY + "\nsuppress 30 seconds",), SMALL, (*STREAM, *small_rows((41, "A"), (42, "B"))), 9, 13
    ),
    "suppressed groups alone": GoldenStream(
        (PLAIN + "\nsuppress 1 minute by v",),
        SMALL,
        (*STREAM[:6], *small_rows((40, "A"), (41, "B"), (43, "A"), (44, "B"), (80, "A"), (82, "B"))),
        6,
        30,
    ),
    "arrival": GoldenStream((PLAIN, GREEDY), SMALL, TWO_KEYS, 5, None, order="arrival"),
    "arrival with time": GoldenStream((GREEDY,), SMALL, TWO_KEYS, 6, 4, order="arrival", order_by=("v",)),
    "since": GoldenStream((PLAIN, GREEDY), SMALL, STREAM, 5, 4, before=(GREEDY,)),
    "context": GoldenStream((PLAIN + "\nselection chronicle", PLAIN + "\nselection recent"), SMALL, STREAM, 6, 6),
    "partial matches": GoldenStream(
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
    "partial matches by arrival": GoldenStream(
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
    "matches of a context that wait": GoldenStream(
        ("match A(k as u) a -> (C(k as u) c | B{1,9} b)\nwithin 12 seconds\nselection chronicle\nsuppress 2 seconds",),
        SMALL,
        STREAM,
        7,
        6,
    ),
    "combinations": GoldenStream(("match A a ->> B b ->> B c\nwithin 1 minute",), SMALL, STREAM, 6, 7),
    "looks back": GoldenStream(("match not C for 2 seconds -> A a -> B+ b\nwithin 6 seconds",), SMALL, STREAM, 6, 6),
    "forever": GoldenStream(
        ("match A a -> C c\nwithin forever\npartition by k", "match A a, B b"), SMALL, STREAM, 5, 5
    ),
}


# Streams out of order: rows are in order of arrival

LATE = small_rows(
    (2, "A"), (6, "B"), (5, "A"), (9, "B"), (7, "C"), (11, "B"),
    (4, "C"), (1, "A"), (8, "B"), (3, "B"), (12, "A"), (10, "B"), (40, "C"),
)  # fmt: skip
LATER = small_rows(
    (2, "A"), (4, "C"), (9, "B"), (5, "A"), (11, "B"), (7, "C"), (8, "B"), (6, "B"), (12, "A"), (13, "B"), (40, "C")
)  # fmt: skip
LATE_KEYS = tuple({**row, "k": 1 + i // 2 % 2} for i, row in enumerate(LATE))
RICH_LATE = tuple(rich(second, "AABBC"[second % 5]) for second in (5, 2, 3, 6, 8, 1, 0, 7, 9, 4, 12, 10, 11))
BROKEN = "match A a -> not C -> B b\nwithin 10 seconds\npartition by k\nreturn a.v as v"
ROW = "match A a ->> B b\nwithin 10 seconds\npartition by k\nreturn a.v as v"
ROW_WITHOUT = "match A a -> not C ->> B b ->> B c\nwithin 12 seconds\npartition by k\nreturn a.v as w"
SOURCED = {**SMALL, "s": "string"}


def behind(count: int) -> tuple[dict[str, Any], ...]:
    """Return a long stream with events up to three seconds late, and at the end one that is much later."""
    seconds = [max(i * 0.5 - i * 7 % 11 * 0.3, 0) for i in range(count)]
    rows = [{"second": second, "type": "AB"[i % 2], "k": i % 3, "v": i} for i, second in enumerate(seconds)]
    return (
        *rows,
        {"second": count / 4, "type": "B", "k": 1, "v": 0},
        {"second": count / 2, "type": "C", "k": 1, "v": 0},
    )


def punctuation(second: float, about: str, **values: Any) -> dict[str, Any]:
    """Return a punctuation up to this second: of the given key or of all keys, and of one type or of all types."""
    more = {"type": about} if about else {"type": "A", "any_type": True}
    return {"second": second, "k": 1, "v": 0, "promise": 1 if "k" in values else 2, **more, **values}


OTHERS: dict[str, dict[str, GoldenStream]] = {
    "toy": {
        "told and taken back": GoldenStream((BROKEN, PLAIN, GREEDY), SMALL, LATE_KEYS, 6, 0),
        "timed out": GoldenStream(
            (PLAIN + "\nreport timeouts",), SMALL, small_rows((1, "A"), (13, "A"), (20, "C"), (14, "B"), (4, "B")), 3, 0
        ),
    },
}
"""Cases by engine name; a new engine adds its cases here."""
OUT_OF_ORDER: dict[str, dict[str, GoldenStream]] = {
    "aggressive": {
        "told and taken back": GoldenStream((BROKEN, PLAIN, GREEDY), SMALL, LATE_KEYS, 6, 0),
        "some of it sure": GoldenStream((BROKEN, PLAIN), SMALL, LATER, 5, 5),
        "every kind of column": replace(CASES["every kind of column"], rows=RICH_LATE, cut=6, now=None),
        "fed": replace(CASES["fed"], rows=LATE_KEYS, cut=6, now=0),
        "rows by route": replace(CASES["rows by route"], rows=LATE_KEYS, cut=6, now=0),
        "timed out": GoldenStream((PLAIN + "\nreport timeouts",), SMALL, small_rows((1, "A"), (13, "A"), (20, "C"), (14, "B"), (4, "B")), 3, 0),
        "matches that depend on others": GoldenStream(
            (
                PLAIN + "\nselection chronicle",
                "match A a -> B b\nwithin 9 seconds\npartition by k\nafter match skip past last",
                GREEDY + "\nsuppress 5 seconds",
                "match A+ a -> B b\nwithin 12 seconds\npartition by k\nselection recent\nreport timeouts",
            ),
            SMALL,
            LATE,
            6,
            0,
        ),
        "since": GoldenStream((PLAIN, BROKEN), SMALL, LATER, 5, 3, before=(BROKEN,)),
    },
    "assemble": {
        "slots": GoldenStream((ROW, ROW_WITHOUT), SMALL, LATE_KEYS, 6, 0),
        "what waits": GoldenStream((ROW_WITHOUT + ", c.v as x",), SMALL, (*LATE[:6], *LATE[8:9], *LATE[10:]), 6, 5),
        "every kind of column": GoldenStream(
            (CASES["every kind of column"].patterns[0].replace("->", "->>"),), RICH, RICH_LATE, 6, None
        ),
        "occurrence": GoldenStream(
            (ROW,),
            SMALL,
            tuple({**row, "number": 7, "v": 1} for row in small_rows((3, "B"), (1, "A"), (1, "A"), (3, "B"), (1, "A"), (3, "B"))),
            4,
            0,
        ),
        "since": GoldenStream((ROW_WITHOUT, ROW), SMALL, (*small_rows((3, "A"), (4, "B")), *LATE[1:6], *LATE[8:]), 6, 2, before=(ROW,)),
    },
    "early": {
        "told and taken back": GoldenStream((BROKEN.replace("-> B", "->> B"), ROW), SMALL, LATER, 5, 1),
        "what waits": GoldenStream((ROW_WITHOUT + ", c.v as x",), SMALL, LATE_KEYS, 6, 0),
        "every kind of column": GoldenStream(
            (CASES["every kind of column"].patterns[0].replace("-> B", "-> not C ->> B"),), RICH, RICH_LATE, 6, None
        ),
        "how far time had come alone": GoldenStream((BROKEN.replace("-> B", "->> B"),), SMALL, small_rows((9, "D"), (2, "A"), (5, "B"), (3, "C")), 1, 1),
        "since": GoldenStream((ROW_WITHOUT, ROW), SMALL, LATER, 5, 3, before=(ROW,)),
    },
    "conservative": {
        "promises": GoldenStream(
            (BROKEN,),
            SMALL,
            (
                *LATE_KEYS[:5], punctuation(6, "A", k=1), punctuation(9, "C", k=1), punctuation(5.5, "B"), punctuation(3, ""), punctuation(4, "C"),
                *small_rows((5, "A")), *LATE_KEYS[8:9], punctuation(8, ""), *LATE_KEYS[10:11], punctuation(40, "A", k=1), punctuation(30, "B", k=1), *LATE_KEYS[11:],
            ),
            10,
            0,
        ),
        "sources": GoldenStream(
            (PLAIN,),
            SOURCED,
            (
                *({**row, "s": "xyz"[i % 3]} for i, row in enumerate(LATE[:5])),
                punctuation(5, "A", s="x"), punctuation(6, "A", s="y", k=1), punctuation(4, "A", s="z"),
                *({**row, "s": "xyz"[i % 3]} for i, row in enumerate(LATE[8:9])),
                punctuation(9, "A", s="z"), punctuation(9, "A", s=None),
                *({**row, "s": "x"} for row in LATE[10:]),
            ),
            8,
            1,
            settings={"source": "s", "sources": ["x", "y", "z"]},
        ),
        "keys of every kind": GoldenStream(
            ("match A a -> B b\nwithin 10 seconds\npartition by s, day, n.x",),
            RICH,
            (
                *(rich(second // 2, "AB"[second % 2]) for second in (5, 3, 4, 9, 8, 6)),
                *({**rich(second, "A"), "promise": 1, "any_type": True} for second in (2, 3)),
                *(rich(second // 2, "AB"[second % 2]) for second in (11, 10, 9, 14, 12)),
            ),
            8,
            0,
        ),
        "broken promises": GoldenStream(
            (BROKEN,),
            SMALL,
            (
                *LATE_KEYS[:5], punctuation(4, ""), punctuation(5.5, "B"), *small_rows((3, "B"), (4, "A"), key=2), *small_rows((5, "B"), (5, "A")),
                *LATE_KEYS[8:9], punctuation(9, ""), *LATE_KEYS[10:],
            ),
            7,
            0,
        ),
        "before any promise": GoldenStream((PLAIN, GREEDY), SMALL, (*LATE_KEYS[:6], punctuation(6, ""), *LATE_KEYS[8:9], *LATE_KEYS[10:]), 6, 1),
    },
    "adaptive": {
        "frontier": GoldenStream((PLAIN,), SMALL, behind(260), 240, 40, batch=20, settings={"loss": 0.05}),
        "late at once": GoldenStream((PLAIN,), SMALL, (*behind(240), *behind(250)[240:250]), 240, 40, batch=20, settings={"loss": 0.05}),
        "too few to say": GoldenStream((PLAIN, GREEDY), SMALL, behind(60), 50, 3, batch=20, settings={"loss": 0.05}),
    },
}  # fmt: skip
"""Cases of engines of streams out of order, by engine name."""
