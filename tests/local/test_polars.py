"""Frames of Polars: the same matches, with the same ids, as the same rows in dicts."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import perseid as ps
from perseid.errors import EventDataError

pl = pytest.importorskip("polars")

START = dt.datetime(2026, 3, 1, 9, tzinfo=dt.UTC)
ROWS: list[dict[str, Any]] = [
    {
        "ts": START,
        "type": "Login",
        "user": "ann",
        "address": "10.0.0.1, longer than twelve bytes",
        "day": dt.date(2026, 3, 1),
        "tags": ["vpn", "a tag that is longer than twelve bytes", None],
        "place": {"city": "Rome", "zones": [{"name": "a"}, {"name": None}]},
        "amount": None,
        "spent": dt.timedelta(seconds=3),
        "raw": b"a",
    },
    {
        "ts": START + dt.timedelta(seconds=5),
        "type": "Login",
        "user": "ann",
        "address": None,
        "day": None,
        "tags": None,
        "place": None,
        "amount": 1.5,
        "spent": None,
        "raw": None,
    },
    {
        "ts": START + dt.timedelta(seconds=9),
        "type": "Transfer",
        "user": "ann",
        "address": "203.0.113.9",
        "day": dt.date(2026, 3, 2),
        "tags": [],
        "place": {"city": None, "zones": []},
        "amount": 700.25,
        "spent": dt.timedelta(0),
        "raw": b"longer than twelve bytes",
    },
    {**dict.fromkeys(("address", "day", "tags", "place", "amount", "spent", "raw")), "ts": START, "type": None, "user": None},
]  # fmt: skip
PATTERN = ps.pattern("""
    pattern spent
    match   Login a -> Login b -> Transfer t [amount > 500]
    within  5 minutes
    partition by user
    return  a.day as day, a.tags as tags, a.place as place, t.place.city as city, b.tags as none, t.spent as spent,
            b.amount as amount, t.raw as raw, t.day - a.day as days, evidence
""")


def frame(**casts: Any) -> Any:
    return pl.DataFrame(ROWS).with_columns(pl.col(name).cast(kind) for name, kind in casts.items())


def results(matches: ps.Matches) -> list[tuple[Any, ...]]:
    return [
        (match.match_id, match.key, match.values, match.evidence, match.start_us, match.end_us) for match in matches
    ]


LISTS_OF_CODES = {
    "tags": pl.List(pl.Categorical),
    "place": pl.Struct({"city": pl.Categorical, "zones": pl.List(pl.Struct({"name": pl.Categorical}))}),
}


@pytest.mark.parametrize(
    "casts",
    [
        {},
        {"type": pl.Categorical, "user": pl.Enum(["bob", "ann"]), "address": pl.Categorical},
        LISTS_OF_CODES,
        {"ts": pl.Datetime("ms", "Europe/Rome")},
        {"ts": pl.Datetime("ns")},
        {"spent": pl.Duration("ns"), "amount": pl.Float32},
    ],
    ids=["plain", "categoricals", "nested categoricals", "zone", "ns", "sizes"],
)
@pytest.mark.parametrize("form", ["frame", "lazy", "chunks"])
def test_a_frame_has_the_matches_of_its_rows(casts: dict[str, Any], form: str) -> None:
    data = frame(**casts)
    if form == "lazy":
        data = data.lazy().filter(pl.col("ts").is_not_null())
    elif form == "chunks":
        data = pl.concat([data[:1], data[1:]], rechunk=False)
    expected = results(PATTERN.match(ROWS))
    assert len(expected) == 1
    assert results(PATTERN.match(data)) == expected
    assert PATTERN.match(data).to_arrow().num_rows == 1
    assert [match.match_id for match in PATTERN.match(ps.events(data, id="ts"))] == [
        match.match_id for match in PATTERN.match(ps.events(ROWS, id="ts"))
    ]


def test_frames_by_event_type() -> None:
    whole = frame(user=pl.Categorical)
    parts = {kind: whole.filter(pl.col("type") == kind).drop("type") for kind in ("Login", "Transfer")}
    parts["Transfer"] = parts["Transfer"].lazy()
    rows = {
        kind: [{k: v for k, v in row.items() if k != "type"} for row in ROWS if row["type"] == kind] for kind in parts
    }
    found = PATTERN.match(ps.events(parts))
    assert results(found) == results(PATTERN.match(ps.events(rows)))
    assert len(found) == 1


def test_fed_patterns_and_why_not() -> None:
    pair = ps.patterns(
        "pattern twice match Login a -> Login b within 1 hour partition by user return b.amount\n"
        "pattern then match twice x -> Transfer t within 1 hour partition by user return x.amount, t.tags as tags"
    )
    data = frame(user=pl.Categorical, **LISTS_OF_CODES)
    assert results(pair.match(data)) == results(pair.match(ROWS))
    assert len(pair.match(data)) == 2
    assert str(PATTERN.why_not(data)) == str(PATTERN.why_not(ROWS))


def test_a_frame_of_documents() -> None:
    data = pl.DataFrame({"ts": [START], "xml": ["<order><total>120</total></order>"], "feed": ["Orders"]})
    trees = ps.xml.tree_patterns("//order/total->total")
    for one in (data, data.lazy(), data.with_columns(pl.col("feed").cast(pl.Categorical))):
        assert trees.match(ps.documents(one, body="xml", type="feed"))["total"].to_pylist() == [["120"]]


def test_a_frame_as_a_lookup_table() -> None:
    pattern = ps.pattern("pattern p match Login a [(user, amount) in Office]")
    for office in (pl.DataFrame({"u": ["ann"], "n": [1.5]}), pl.LazyFrame({"u": ["ann"], "n": [1.5]})):
        assert len(pattern.match(frame(), relations={"Office": office})) == 1


def test_empty_frames() -> None:
    assert len(PATTERN.match(frame(user=pl.Categorical, **LISTS_OF_CODES).head(0))) == 0
    assert len(PATTERN.match(pl.DataFrame())) == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: frame().with_columns(pl.lit(1).cast(pl.Int128).alias("n")), r"The polars\.DataFrame cannot be read as an Arrow"),
        (lambda: frame().with_columns(pl.Series("o", [object()] * 4, dtype=pl.Object)), r"Column 'o' of the polars\.DataFrame has Python"),
        (lambda: frame()["user"], r"The polars\.Series cannot be read as an Arrow table"),
    ],
    ids=["int128", "object", "series"],
)  # fmt: skip
def test_values_without_an_arrow_type_are_an_error(data: Any, message: str) -> None:
    with pytest.raises(EventDataError, match=message):
        PATTERN.match(data())
