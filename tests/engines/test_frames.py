"""Frames evaluated all at once, frame by frame, and from scratch: the same events in the same order."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perseid as ps
from perseid.engines.models import frame_events
from perseid.engines.models.events import EventRows
from perseid.engines.models.stream import Models
from perseid.reference.models import Recomputed
from perseid.semantics.functions import FUNCTIONS
from perseid.semantics.model_steps import EventStreamFilter

METAMODEL = """
model body
node Body (name string, on boolean)
abstract node Joint (x double, y double, n bigint, on boolean, label string)
node Hand is Joint
node Foot is Joint
edge part Body -> Joint
edge next Joint -> Joint
"""
EACH: list[dict[str, Any]] = [
    {"change": "create", "element": "b", "kind": "Body"},
    *({"change": "create", "element": e, "kind": k} for e, k in (("h", "Hand"), ("i", "Hand"), ("f", "Foot"))),
    *({"change": "link", "element": "b", "kind": "part", "target": e} for e in ("h", "i", "f")),
    {"change": "link", "element": "h", "kind": "next", "target": "i"},
    {"change": "link", "element": "i", "kind": "next", "target": "f"},
    {"change": "set", "element": "f", "attribute": "x", "value": 1.0},
    {"change": "set", "element": "f", "attribute": "n", "value": 3},
    {"change": "set", "element": "h", "attribute": "label", "value": "right"},
    {"change": "set", "element": "b", "attribute": "name", "value": "ann"},
]
COLUMNS = {
    "hx": ("h", "x"), "hy": ("h", "y"), "hn": ("h", "n"), "hon": ("h", "on"),
    "ix": ("i", "x"), "iy": ("i", "y"), "in": ("i", "n"), "fy": ("f", "y"), "fon": ("f", "on"),
}  # fmt: skip
DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.inf, -math.inf, math.nan, 1e308, None]
INTEGERS = [0, 1, -1, 3, 2**62, -(2**63), 2**63 - 1, None]
BOOLEANS = [True, False, None]


def rows_of(choice: random.Random, frames: int) -> list[dict[str, Any]]:
    """Returns frames of a few models in any order, some with equal times and some with special values."""
    odd = choice.random() < 0.4
    gone = choice.random() < 0.4

    def value(column: str) -> Any:
        attribute = COLUMNS[column][1]
        kinds = {"n": INTEGERS, "on": BOOLEANS}.get(attribute, DOUBLES)
        usual = [v for v in kinds if v is not None or gone]
        return choice.choice(usual if odd else [v for v in usual if v is None or (v == v and abs(v) < 10)])

    return [
        {"ts": choice.randint(0, frames), "who": choice.choice(["ann", "bob", "cy"]), **{c: value(c) for c in COLUMNS}}
        for _ in range(frames)
    ]


ATTRIBUTES = {"d": ("x", "y", "moving_avg({v}.x, 2)", "moving_max({v}.y, 3)", "moving_sum({v}.y, 2 seconds)"), "i": ("n", "moving_count({v}.x, 3)", "moving_min({v}.n, 2)", "moving_max({v}.n, 4 seconds)"), "b": ("on",)}  # fmt: skip


class FrameQueryWriter:
    """Random queries, as text."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice

    def attribute(self, kind: str, variables: list[str]) -> str:
        variable, named = self.choice.choice(variables), self.choice.choice(ATTRIBUTES[kind])
        return named.format(v=variable) if "{" in named else f"{variable}.{named}"

    def number(self, variables: list[str], depth: int) -> str:
        pick = self.choice.random()
        if depth == 0 or pick < 0.35:
            return self.attribute(self.choice.choice("di"), variables)
        if pick < 0.45:
            return self.choice.choice(["0", "1.5", "2", "0.5e0", "-1"])
        inner = [self.number(variables, depth - 1) for _ in range(3)]
        if pick < 0.75:
            return f"({inner[0]} {self.choice.choice('+-*/%')} {inner[1]})"
        if pick < 0.85:
            return f"{self.choice.choice(['abs', 'sqrt', 'floor', 'ceil', '-'])}({inner[0]})"
        kind = self.choice.choice("di")
        alike = [self.attribute(kind, variables) for _ in range(2)]
        if pick < 0.92:
            return f"{self.choice.choice(['greatest', 'least', 'coalesce'])}({alike[0]}, {alike[1]})"
        if pick < 0.95:
            return f"if({self.condition(variables, 0)}, {alike[0]}, {alike[1]})"
        return f"angle({', '.join(self.attribute('d', variables) for _ in range(6))})"

    def condition(self, variables: list[str], depth: int) -> str:
        pick = self.choice.random()
        if depth and pick < 0.4:
            sides = [self.condition(variables, depth - 1) for _ in range(2)]
            return f"({sides[0]} {self.choice.choice(['and', 'or'])} {sides[1]})"
        if depth and pick < 0.5:
            return f"not {self.condition(variables, depth - 1)}"
        if pick < 0.6:
            return self.attribute("b", variables)
        a, b, c = (self.number(variables, depth) for _ in range(3))
        if pick < 0.65:
            return f"{a} is {self.choice.choice(['', 'not '])}null"
        if pick < 0.7:
            return f"{a} between {b} and {c}"
        if pick < 0.75:
            return f"{self.attribute('i', variables)} in (0, {self.attribute('i', variables)}, 1)"
        if pick < 0.8:  # the language rejects equality of doubles
            whole = [self.attribute("i", variables) for _ in range(2)]
            return f"{whole[0]} {self.choice.choice(['=', '<>', '<=>'])} {whole[1]}"
        return f"{a} {self.choice.choice(['<', '<=', '>', '>='])} {b}"

    def queries(self) -> str:
        where = self.condition
        text = f"query above(a, b) find p -part-> a: Hand, p -part-> b where {where(['a', 'b'], 1)}\n"
        text += f"query one(p) find p: Body, above(a, _), p -part-> a where {where(['a'], 2)}\n"
        text += f"query two(a) find a: Joint, not above(a, _) where {where(['a'], 2)}\n"
        text += (
            "query three(a, b) find a -next+-> b, not (c: Foot, above(b, c) where "
            f"{where(['a', 'c'], 1)}) let v = {self.number(['a', 'b'], 1)} where v > 0 or {where(['b'], 1)}\n"
            f"or find a -next-> b where {where(['a', 'b'], 1)}\n"
        )
        text += f"query four(p) find p: Body let n = count of above(_, b) where n >= {self.choice.randint(1, 3)}\n"
        text += f"query still(a, b) find a: Joint, b: Joint, a -next*-> b where a.label = 'right' and b.n > {self.choice.randint(0, 4)}\n"
        return text


def stream(text: str, rows: Any) -> ps.graph.Frames:
    return ps.graph.frames(rows, ps.graph.metamodel(METAMODEL + text), each=EACH, columns=COLUMNS, key="who")


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Returns the rows of a table, with NaN replaced by a value that equals itself."""
    rows = table.to_pylist()
    return [{name: repr(value) if value != value else value for name, value in row.items()} for row in rows]


def from_scratch(frames: ps.graph.Frames, watched: EventStreamFilter) -> list[dict[str, Any]]:
    """Returns the oracle's events; asserts that the frame-by-frame engine equals them."""
    rows = EventRows(frames.queries, watched, frames.key)
    models: dict[Any, Recomputed] = {}
    for (key, time, changes), (_, _, told) in zip(frames.transactions(), frames.effects(), strict=True):
        model = models.setdefault(key, Recomputed(frames.queries))
        expected = model.transact(time, changes)
        assert told.changes == expected.changes
        rows.add(key, time, expected)
    return plain(rows.table(*frames.name_types()))


@given(st.integers(0, 2**32))
def test_all_ways_agree(seed: int) -> None:
    choice = random.Random(seed)
    text, rows = FrameQueryWriter(choice).queries(), rows_of(choice, choice.randint(1, 25))
    frames = stream(text, rows)
    watched = EventStreamFilter(tuple(frames.queries.queries), ())
    usual = frame_events.BLOCK
    frame_events.BLOCK = choice.choice([1, 2, 5, usual])
    try:
        at_once = plain(frames.event_tables([watched])[0][0])
    finally:
        frame_events.BLOCK = usual
    assert at_once == from_scratch(frames, watched), text


def test_most_random_queries_are_vectorized() -> None:
    """Otherwise the test above would compare little."""
    chosen = [random.Random(seed) for seed in range(60)]
    streams = [stream(FrameQueryWriter(choice).queries(), rows_of(choice, 5)) for choice in chosen]
    reasons = [one.why_one_by_one(EventStreamFilter(tuple(one.queries.queries), ())) for one in streams]
    assert reasons.count(None) >= 40, reasons


@given(st.lists(st.tuples(*[st.floats(width=64)] * 6), min_size=1, max_size=20), st.integers(0, 2**32))
def test_angles_are_those_of_the_function_to_the_last_bit(points: list[tuple[float, ...]], seed: int) -> None:
    choice = random.Random(seed)
    points += [tuple(choice.uniform(-3, 3) for _ in range(6)) for _ in range(50)]
    points += [tuple(choice.choice([0.0, -0.0, 1.0, -1.0, 1e200]) for _ in range(6)) for _ in range(50)]
    from perseid.engines.models.vectors import Vector, angle

    columns = [pa.array(column).to_numpy() for column in zip(*points, strict=True)]
    with np.errstate(all="ignore"):  # as blocks are computed
        found = angle([Vector(column) for column in columns])
    missing = [False] * len(points) if found.missing is None else found.missing.tolist()
    here = [None if none else value for value, none in zip(found.values.tolist(), missing, strict=True)]
    assert here == [FUNCTIONS["angle"].run(*point) for point in points]


def test_an_update_is_a_change_of_a_named_node() -> None:
    text = "query q(a) find a: Hand where a.x > 0 query p(p) find p -part-> a: Hand where a.x > 0"
    rows = [{"ts": t, "who": "ann", **dict.fromkeys(COLUMNS), "hx": x, "hy": y} for t, x, y in [
        (0, 1.0, 0.0), (1, 1.0, 0.0), (2, 2.0, 0.0), (3, 2.0, math.nan), (4, 2.0, math.nan), (5, 2.0, None), (6, None, None),
    ]]  # fmt: skip
    events = stream(text, rows).events("q", "p")
    told = [(e["_type"], e["_time"].second) for e in plain(events)]
    assert told == [
        ("found q", 0), ("found p", 0), ("updated q", 2), ("updated q", 3), ("updated q", 5), ("lost q", 6), ("lost p", 6),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("query q(a, v) find a: Hand let v = a.x where v > 0", "v of q is a changing value"),
        ("query q(a) find a: Hand where a.x > 0 top 1 by a.x", "q has a top of changing values"),
        (
            "query e(a, b) find a -next-> b where a.x > 0 query q(a, b) find e+(a, b)",
            "a closure of the changing query e",
        ),
        (
            "query e(a, b) find a -next-> b where a.x > 0 query q(a, b) components of e",
            "q computes components of changing matches",
        ),
        (
            "query e(a) find a: Hand where a.x > 0 query q(p) find p: Body let s = sum(a.x) of e(a) where s > 1",
            "sum of changing matches",
        ),
        ("query q(a) find a: Hand where ln(a.x) > 0", "function ln has no array form"),
        ("query q(a) find a: Hand where a.x || '' = ''", "unsupported constant '' with changing values"),
    ],
)
def test_reason_for_evaluation_frame_by_frame_is_reported(text: str, because: str) -> None:
    frames = stream(text, rows_of(random.Random(1), 12))
    watched = EventStreamFilter(("q",), ())
    assert because in str(frames.why_one_by_one(watched))
    assert plain(frames.event_tables([watched])[0][0]) == from_scratch(frames, watched)


def test_columns_of_other_types_are_evaluated_frame_by_frame() -> None:
    rows = [{"ts": 0, "who": "ann", **dict.fromkeys(COLUMNS), "hn": 1.5, "hx": "2.5"}]
    frames = stream("query q(a) find a: Hand where a.x > 1 or a.n > 1", rows)
    assert "column hx is string" in str(frames.why_one_by_one(EventStreamFilter(("q",), ())))
    with pytest.warns(ps.errors.PerseidWarning, match="1 change rejected by the model"):
        assert [e["_type"] for e in plain(frames.events("q"))] == ["found q"]


def test_explain_shows_how_frames_are_evaluated() -> None:
    text = METAMODEL + "query q(a) find a: Hand where a.x > 1 query r(a) find a: Hand where ln(a.x) > 1 "
    text += "pattern p match found q pattern s match found r pattern c match change set Hand.x a"
    model = ps.graph.metamodel(text)
    rows = rows_of(random.Random(1), 3)
    said = " ".join(
        ps.patterns(model).explain(ps.graph.frames(rows, model, each=EACH, columns=COLUMNS, key="who")).split()
    )
    assert "frames of p all at once" in said
    assert "frames of s one by one: function ln" in said
    assert "frames of c one by one: patterns match elementary changes" in said


def test_no_frames_are_no_events() -> None:
    frames = stream("query q(a) find a: Hand where a.x > 1", [])
    assert frames.events("q").num_rows == 0
    assert frames.matches() == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": {"hx": ("hh", "x")}}, "unknown element 'hh' in the initial changes"),
        ({"columns": {"hx": ("h", "xx")}}, "Unknown attribute 'xx' of Hand"),
        ({"columns": {"hx": "h.x"}}, "expected a pair of element and attribute"),
        ({"columns": {}}, "with at least one column"),
        ({"columns": {"hx": ("h", "x"), "hy": ("h", "x")}}, "both set h.x"),
        ({"each": [*EACH, {"change": "create", "element": "h", "kind": "Foot"}]}, "Invalid initial changes"),
        ({"key": "person"}, "Column 'person' not found in the table of frames; it is configured as the key"),
        (
            {"columns": {"hz": ("h", "x")}},
            r"Column 'hz' not found in the table of frames; it is configured as the value of h\.x",
        ),
    ],
)
def test_misuse(change: dict[str, Any], said: str) -> None:
    given = {"each": EACH, "columns": COLUMNS, "key": "who", **change}
    model = ps.graph.metamodel(METAMODEL + "query q(a) find a: Hand where a.x > 1")
    with pytest.raises(ps.PerseidError, match=said):
        ps.graph.frames(rows_of(random.Random(1), 3), model, **given).events("q")


def test_a_key_that_is_a_parameter() -> None:
    frames = stream("query q(who) find who: Hand where who.x > 1", rows_of(random.Random(1), 3))
    with pytest.raises(ps.errors.UnsupportedError, match="'who' is both a parameter of the query q"):
        frames.events("q")
    assert isinstance(frames, Models)
