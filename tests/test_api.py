"""The public API with typical data: lists, pandas, Arrow, nulls, duplicates, unusual times, and mistakes."""

from __future__ import annotations

import datetime as dt
import inspect
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import perseid as ps
from perseid.builder import build

PAIR = ps.pattern("pattern pair match A a -> B b within 1 minute partition by k return a.v as x, b.v as y")


def row(second: float, kind: str, **more: object) -> dict[str, object]:
    return {"ts": second, "type": kind, **more}


ROWS = [row(0, "A", k=1, v=10), row(1, "A", k=2, v=20), row(2, "B", k=1, v=30), row(3, "B", k=2, v=None)]


def values(found: ps.types.Matches) -> list[dict[str, object]]:
    return [dict(m.values) for m in found]


def test_lists_pandas_and_arrow_agree() -> None:
    expected = [{"x": 10, "y": 30}, {"x": 20, "y": None}]
    assert values(PAIR.match(ROWS)) == expected
    assert values(PAIR.match(pa.Table.from_pylist(ROWS))) == expected
    assert values(PAIR.match(pd.DataFrame(ROWS))) == [{"x": 10, "y": 30.0}, {"x": 20, "y": None}]


def test_match_ids_do_not_depend_on_the_order_of_rows() -> None:
    expected = [m.match_id for m in PAIR.match(ROWS)]
    for seed in range(5):
        shuffled = random.Random(seed).sample(ROWS, len(ROWS))
        assert [m.match_id for m in PAIR.match(shuffled)] == expected


def test_names_and_metadata_do_not_change_ids() -> None:
    other = ps.pattern(
        "pattern other severity high tags a, b -- a comment\n match A a->B b within 60 seconds partition by k "
        "return a.v as x, b.v as y"
    )
    assert [m.match_id for m in other.match(ROWS)] == [m.match_id for m in PAIR.match(ROWS)]


def test_match_ids_differ_by_pattern_and_events() -> None:
    wider = ps.pattern("pattern pair match A a -> B b within 2 minutes partition by k")
    ids = [m.match_id for m in [*PAIR.match(ROWS), *wider.match(ROWS)]]
    assert len(set(ids)) == len(ids) == 4


def test_duplicate_events_are_two_events() -> None:
    twice = ps.pattern("pattern twice match A a, A b")
    assert len(twice.match([row(0, "A"), row(0, "A")])) == 1


def test_null_keys_are_one_key() -> None:
    found = PAIR.match([row(0, "A", k=None, v=1), row(1, "B", v=2)])
    assert [m.key for m in found] == [{"k": None}]


def test_equal_values_are_equal_keys() -> None:
    rows = [
        row(0, "A", k=0.0, v=1),
        row(1, "B", k=-0.0, v=2),
        row(2, "A", k=float("nan"), v=3),
        row(3, "B", k=float("nan"), v=4),
    ]
    assert len(PAIR.match(rows)) == 2


@pytest.mark.parametrize(
    "moment",
    [
        60,
        60.0,
        Decimal("60"),
        "1970-01-01T00:01:00Z",
        "1970-01-01 02:01:00+02:00",
        dt.datetime(1970, 1, 1, 0, 1),
        dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC),
        pd.Timestamp("1970-01-01 00:01:00"),
    ],
)
def test_time_formats(moment: object) -> None:
    single = ps.pattern("pattern single match A a")
    assert single.match([row(moment, "A")])[0].start == dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC)


def test_daylight_saving_does_not_shift_a_window() -> None:
    berlin = dt.timezone(dt.timedelta(hours=2)), dt.timezone(dt.timedelta(hours=1))
    rows = [
        row(dt.datetime(2026, 10, 25, 2, 59, 30, tzinfo=berlin[0]), "A", k=1, v=1),
        row(dt.datetime(2026, 10, 25, 2, 0, 10, tzinfo=berlin[1]), "B", k=1, v=2),
    ]
    assert len(PAIR.match(rows)) == 1


def test_first_and_last_year() -> None:
    rows = [row(dt.datetime(1, 1, 1), "A", k=1, v=1), row(dt.datetime(9999, 12, 31, 23, 59, 59, 999999), "A", k=1, v=2)]
    assert len(ps.pattern("pattern p match A a -> A b within forever").match(rows)) == 1


@pytest.mark.parametrize("moment", [None, "yesterday", True, float("nan"), 10**40, [1]])
def test_unreadable_time_is_an_error_with_the_row(moment: object) -> None:
    with pytest.raises(ps.errors.EventDataError, match="Row 2"):
        PAIR.match([row(0, "A"), row(moment, "B")])  # type: ignore[arg-type]


def test_missing_column_is_an_error_with_its_name() -> None:
    with pytest.raises(
        ps.errors.EventDataError,
        match=r"^Column 'ts' not found in row 1; it is configured as the time column\. Available: when, type\.\n",
    ) as caught:
        PAIR.match([{"when": 1, "type": "A"}])
    assert "ps.events(rows, time=" in str(caught.value)


@pytest.mark.parametrize("data", ["text", 5, {"ts": 1}, [1, 2]])
def test_input_that_is_not_rows_is_an_error(data: object) -> None:
    with pytest.raises(ps.errors.EventDataError):
        PAIR.match(data)


def test_order_by_orders_rows_of_equal_time() -> None:
    strict = ps.pattern("pattern strict match A, B")
    rows = [row(0, "B", n=2), row(0, "A", n=1)]
    assert len(strict.match(ps.events(rows, order_by="n"))) == 1
    assert len(strict.match(ps.events([{**r, "n": -r["n"]} for r in rows], order_by="n"))) == 0  # type: ignore[operator]


def test_strictly_later_steps_do_not_match_equal_times() -> None:
    rows = ps.events([row(0, "A", k=1, v=1, n=1), row(0, "B", k=1, v=2, n=2)], order_by="n", strictly_later=True)
    assert len(PAIR.match(rows)) == 0


def test_horizon_ends_a_negation() -> None:
    silent = ps.pattern("pattern silent match A a -> not B for 10 seconds")
    rows = [row(0, "A")]
    assert len(silent.match(rows, horizon=dt.datetime(1970, 1, 1, 0, 0, 9))) == 0
    assert len(silent.match(rows, horizon=dt.datetime(1970, 1, 1, 0, 0, 10))) == 1


def test_parameters_are_bound_and_validated() -> None:
    rule = ps.pattern("pattern big(limit integer, vips list of string) match A a [v > :limit and name in :vips]")
    rows = [row(0, "A", v=5, name="ann"), row(1, "A", v=5, name="bob")]
    assert len(rule.bind(limit=3, vips=["ann"]).match(rows)) == 1
    with pytest.raises(ps.errors.BindingError, match="Missing value for parameter :limit"):
        rule.match(rows)
    with pytest.raises(ps.errors.BindingError, match="Did you mean 'limit'"):
        rule.bind(limt=3)
    with pytest.raises(ps.errors.BindingError, match="expects a bigint, got '3'"):
        rule.bind(limit="3", vips=[])


def test_large_and_invalid_values_of_parameters() -> None:
    exact = ps.pattern("pattern p(x decimal(38,2) = -123456789012345678901234567890123456.78) match A a [v = :x]")
    assert len(exact.match([row(0, "A", v=Decimal("-123456789012345678901234567890123456.78"))])) == 1
    with pytest.raises(ps.errors.BindingError, match="non-negative duration"):
        ps.pattern("pattern p(d list of duration) match A a -> B b within :d").bind(d=[])
    with pytest.raises(ps.errors.BindingError, match="surrogate"):
        ps.pattern("pattern p(s string) match A a [v = :s]").bind(s="\ud800")


def test_built_pattern_matches() -> None:
    from perseid.builder import build, step

    built = ps.pattern(build("pair").match(step("A", "a") >> step("B", "b")).within("1 minute").partition_by("k"))
    assert len(built.match(ROWS)) == 2
    with pytest.raises(ps.errors.PatternError, match="Unknown step 'c'"):
        ps.pattern(build("pair").match(step("A", "a") >> "B b").where("c.v > 1").within("1 minute")).check()


def test_duration_can_be_a_parameter() -> None:
    rule = ps.pattern("pattern p(span duration = 1 second) match A a -> B b within :span")
    rows = [row(0, "A"), row(5, "B")]
    assert len(rule.match(rows)) == 0
    assert len(rule.bind(span=dt.timedelta(seconds=5)).match(rows)) == 1


def test_missing_relation_is_an_error() -> None:
    rule = ps.pattern("pattern p match A a [(x, y) in Office]")
    with pytest.raises(ps.errors.BindingError, match="'Office'"):
        rule.match([row(0, "A", x=1, y=2)])
    assert len(rule.match([row(0, "A", x=1, y=2)], relations={"Office": [(1, 2)]})) == 1


@pytest.mark.parametrize(
    "table",
    [
        [("AT",), ("DE",)],
        ["AT", "DE"],
        {"AT", "DE"},
        [{"country": "AT"}],
        pd.DataFrame({"country": ["AT"]}),
        pa.table({"country": ["AT"]}),
    ],
)
def test_relation_can_be_any_table_or_collection(table: object) -> None:
    rule = ps.pattern("pattern p match A a [country in Home]")
    assert len(rule.match([row(0, "A", country="AT")], relations={"Home": table})) == 1  # type: ignore[dict-item]


@pytest.mark.parametrize("table", ["AT", 5, [(1, 2), (3,)], [("AT", 1)], {"AT": 1}])
def test_relation_of_another_shape_is_an_error(table: object) -> None:
    rule = ps.pattern("pattern p match A a [country in Home]")
    with pytest.raises(ps.errors.BindingError):
        rule.match([row(0, "A", country="AT")], relations={"Home": table})  # type: ignore[dict-item]
    with pytest.raises(ps.errors.BindingError, match="by name"):
        rule.match([], relations=["AT"])  # type: ignore[arg-type]


def test_names_without_any_event_are_noted() -> None:
    rule = ps.pattern("pattern p match View v [prise > 3] partition by userid return v.prise")
    with pytest.warns(ps.errors.PerseidWarning, match="Did you mean 'user_id'"):
        found = rule.match([row(0, "view", price=5, user_id=1)])
    assert found.notes == (
        "no event has the type 'View'. Did you mean 'view'?",
        "no event has a column 'prise'. Did you mean 'price'?",
        "no event has a column 'userid'. Did you mean 'user_id'?",
    )
    assert "note: no event has the type 'View'" in repr(found)
    assert PAIR.match(ROWS).notes == ()


def test_milliseconds_are_an_error_with_a_hint() -> None:
    with pytest.raises(ps.errors.EventDataError, match="divide milliseconds by 1000"):
        PAIR.match([row(1_772_355_600_000, "A")])


def test_pattern_of_a_set_includes_the_patterns_that_feed_it() -> None:
    rules = ps.patterns("pattern low match A a\npattern high match low x -> low y within 1 minute")
    assert [m.pattern for m in rules["high"].match([row(0, "A"), row(1, "A")])] == ["high"]
    with pytest.raises(KeyError, match="there is 'high'"):
        rules["hihg"]


def test_parameters_are_converted_from_strings_and_floats() -> None:
    rule = ps.pattern("pattern p(big decimal(8,2), span duration) match A a [v > :big] -> B b within :span")
    assert len(rule.bind(big=899.5, span="10 minutes").match([row(0, "A", v=900), row(599, "B")])) == 1


def test_unused_parameter_is_a_warning() -> None:
    rule = ps.pattern("pattern p(x integer = 3) match A a [v > 1]")
    message = "Pattern p: parameter 'x' is declared but never used. Write it with a colon, :x"
    with pytest.warns(ps.errors.PerseidWarning, match=message):
        rule.check()
    with pytest.warns(ps.errors.PerseidWarning, match=message):
        assert len(rule.bind(x=5).match([row(0, "A", v=2)])) == 1
    with pytest.warns(ps.errors.PerseidWarning, match=message):
        assert len(rule.match([row(0, "A", v=2)])) == 1


def test_empty_result_has_all_columns() -> None:
    empty = PAIR.match([])
    assert {"k", "x", "y", "start"} <= set(empty.to_pandas().columns)
    assert {"k", "x", "y", "start"} <= set(empty.to_arrow().column_names)


def test_schema_expects_type_names() -> None:
    with pytest.raises(ps.errors.UnknownNameError):
        PAIR.check({"A": {"v": "integer", "k": "integer"}})
    with pytest.raises(
        ps.errors.TypeMismatchError, match=r"expected a string, got <class 'int'>\.\n.*'integer', 'string'"
    ):
        ps.schema({"A": {"v": int}})  # type: ignore[dict-item]


def test_repr_of_a_match_and_of_a_stream() -> None:
    assert repr(PAIR.match(ROWS)[0]) == "<match of pair: {'k': 1} a×1, b×1 {'x': 10, 'y': 30}>"
    assert repr(ps.events(ROWS)) == "<events: list of 4, time 'ts', type 'type'>"


def test_timed_out_partial_matches_are_counted_separately() -> None:
    rule = ps.pattern("pattern p match A a -> B b within 1 second report timeouts")
    assert repr(rule.match([row(0, "A")])).startswith("0 matches, 1 timed out")


def test_evidence_is_capped_and_dropped_events_are_counted() -> None:
    rule = ps.pattern("pattern p match A+ a -> B b within 1 minute after match skip past last return evidence limit 2")
    found = rule.match([row(i, "A", n=i) for i in range(5)] + [row(9, "B", n=9)])
    assert [e["n"] for e in found[0].evidence or ()] == [0, 1]
    assert found.evidence_dropped == found[0].evidence_dropped == 4


def test_suppressed_matches_are_counted() -> None:
    rule = ps.pattern("pattern p match A a partition by k suppress 1 minute")
    found = rule.match([row(i, "A", k=1) for i in range(4)])
    assert (len(found), found.suppressed) == (1, 3)
    assert "(3 suppressed)" in repr(found)


def test_step_of_another_kind_of_stream_is_an_error_with_that_kind() -> None:
    message = "Pattern p has {}"
    with pytest.raises(
        ps.errors.UnsupportedError,
        match=message.format("steps over queries over a live model, which need a graph model"),
    ) as caught:
        ps.pattern("pattern p match found Overloaded o").match([])
    assert caught.value.hint == "Use ps.graph.model(rows, ps.graph.metamodel(…))."
    with pytest.raises(
        ps.errors.UnsupportedError, match=message.format("tree patterns, which need a stream of documents")
    ) as caught:
        ps.pattern("pattern p match Orders << //order->o >>").match([])
    assert caught.value.hint == "Use ps.documents(df, body='xml', time=…)."


def test_patterns_of_a_set_run_together_and_feed_each_other() -> None:
    rules = ps.patterns("pattern low match A a\npattern high match low x -> low y within 1 minute")
    assert [m.pattern for m in rules.match([row(0, "A"), row(1, "A")])] == ["low", "high", "low"]
    assert rules.names == ("low", "high")
    assert rules["low"].name == "low"
    with pytest.raises(KeyError):
        rules["other"]


def test_matches_convert_to_tables() -> None:
    found = PAIR.match(ROWS)
    assert list(found.to_pandas()["x"]) == [10, 20]
    assert found.to_arrow().column("x").to_pylist() == [10, 20]
    assert found.to_dicts()[0]["k"] == 1


def test_printed_pattern_parses_back() -> None:
    assert ps.pattern(str(PAIR)) == PAIR
    assert repr(PAIR) == "<pattern pair>"


def test_long_list_of_matches_is_truncated() -> None:
    found = ps.pattern("pattern p match A a").match([row(i, "A") for i in range(50)])
    assert "and 30 more" in repr(found)


def test_huge_strings_and_deeply_nested_values_are_evaluated() -> None:
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    rule = ps.pattern("pattern p match A a [length(v) > 10 and w = w2]")
    assert len(rule.match([row(0, "A", v="x" * 2_000_000, w=deep, w2=deep)])) in (0, 1)


def test_notebook_shows_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = ps.pattern("pattern p match A a return a.v as x, a.none as y")
    shown = rule.match([row(i, "A", v="<b>") for i in range(25)])._repr_html_()
    assert shown is not None
    assert shown.startswith("<p>25 matches</p>\n<table")
    assert shown.count("<td>&lt;b&gt;</td>") == 20
    assert shown.endswith("<p>… and 5 more</p>\n<p>note: no event has a column &#x27;none&#x27;.</p>")
    assert shown.count("<rect") == 20, "each match has a bar on the timeline"
    assert PAIR.match([])._repr_html_() == "<p>0 matches</p>"
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert PAIR.match(ROWS)._repr_html_().startswith("<p>")
    assert rule._repr_html_().startswith("<pre>pattern p\nmatch A a")
    assert ps.events(ROWS)._repr_html_().startswith("<table")
    assert rule.explain()._repr_html_().startswith("<pre>")  # type: ignore[attr-defined]


class FakeSparkFrame:
    """Has the attributes by which Perseid recognizes a Spark DataFrame."""

    columns = ("ts", "type")

    def mapInArrow(self) -> None: ...


@pytest.mark.parametrize("stream", [FakeSparkFrame(), ps.events(FakeSparkFrame()), {"A": ROWS, "B": FakeSparkFrame()}])
def test_count_of_a_spark_dataframe_is_an_error(stream: object) -> None:
    with pytest.raises(ps.errors.EventDataError, match="count: expected local rows, got a Spark DataFrame") as caught:
        PAIR.count(stream)
    assert caught.value.hint == "Use df.limit(10_000).toArrow()."


@pytest.mark.parametrize(
    "stream", [FakeSparkFrame(), ps.events(FakeSparkFrame()), ps.documents(FakeSparkFrame(), body="xml")]
)
def test_horizon_is_unsupported_on_spark(stream: object) -> None:
    with pytest.raises(ps.errors.UnsupportedError, match=r"horizon= .* is unsupported on Spark DataFrames") as caught:
        PAIR.match(stream, horizon=dt.datetime(2026, 1, 1))
    assert caught.value.hint == "Remove the rows after it instead."


@pytest.mark.parametrize(
    "option", [{"checkpoint": "c"}, {"observation": object()}, {"rejected": True}, {"rejected": "bad"}]
)
@pytest.mark.parametrize("stream", [ROWS, ps.events(ROWS), ps.documents([{"ts": 0, "xml": "<a/>"}], body="xml")])
def test_spark_options_are_errors_for_local_rows(stream: object, option: dict[str, object]) -> None:
    name = next(iter(option))
    with pytest.raises(
        ps.errors.UnsupportedError, match=f"{name}= requires a Spark DataFrame, and these rows are local"
    ) as caught:
        PAIR.match(stream, **option)  # type: ignore[call-overload]
    assert caught.value.hint == f"Remove {name}=."


@pytest.mark.parametrize("types", [("A", "B"), ("B", "A")])
def test_mix_of_local_rows_and_spark_dataframes_is_an_error(types: tuple[str, str]) -> None:
    events = dict(zip(types, (ROWS, FakeSparkFrame()), strict=True))
    documents = ps.documents(dict(zip(types, ([{"ts": 0, "xml": "<a/>"}], FakeSparkFrame()), strict=True)), body="xml")
    trees = ps.xml.tree_patterns("//a->a")
    cases: list[tuple[Callable[[Any], object], object]] = [
        *((run, stream) for run in (PAIR.match, PAIR.explain, PAIR.why_not) for stream in (events, documents)),
        (trees.match, documents),
    ]
    for run, stream in cases:
        with pytest.raises(
            ps.errors.EventDataError, match="The inputs mix Spark DataFrames and local rows: got list"
        ) as caught:
            run(stream)
        assert caught.value.hint == "Use spark.createDataFrame(rows), or local rows for all inputs."


def test_detect_is_a_deprecated_name_of_match() -> None:
    message = "detect is deprecated and will be removed in 0.2. Use match."
    with pytest.warns(ps.errors.DeprecatedNameWarning, match=message) as caught:
        assert PAIR.detect(ROWS).to_dicts() == PAIR.match(ROWS).to_dicts()
    assert [warning.filename for warning in caught] == [__file__]
    with (
        pytest.warns(ps.errors.DeprecatedNameWarning, match=message),
        pytest.raises(ps.errors.EventDataError, match="match has no parameter 'disorder'"),
    ):
        PAIR.detect(ROWS, disorder="early")


@pytest.mark.parametrize(
    ("run", "options", "messages"),
    [
        (PAIR.match, {"time": "when"}, ["match has no parameter 'time'.", "ps.events(data, time=…)"]),
        (PAIR.match, {"timestamp": "when"}, ["match has no parameter 'timestamp'.", "ps.events(data, time=…)"]),
        (
            PAIR.match,
            {"relation": {}},
            ["Did you mean 'relations'?", "Available: relations, horizon, emit, observation, rejected, checkpoint."],
        ),
        (PAIR.count, {"key": "k"}, ["count has no parameter 'key'.", "ps.events(data, key=…)"]),
        (PAIR.match, {"disorder": "early"}, ["match has no parameter 'disorder'.", "ps.events(data, disorder=…)"]),
        (PAIR.why_not, {"user": "bob"}, ["why_not has no parameter 'user'.", "Available: key, relations, shown."]),
        (PAIR.draw, {"emit": 1}, ["draw has no parameter 'emit'.", "Available: stream, relations, key, truth."]),
        (
            ps.uncertain.learn,
            {"labels": "was"},
            ["learn has no parameter 'labels'.", "Available: truth, smoothing, max_iterations, tolerance."],
        ),
        (ps.uncertain.learn, {"time": "at"}, ["learn has no parameter 'time'.", "ps.uncertain_events(data, time=…)"]),
        (ps.graph.react, {"type": "what"}, ["react has no parameter 'type'.", "ps.graph.model(data, kind=…)"]),
        (ps.graph.react, {"dedupe": True}, ["react has no parameter 'dedupe'.", "ps.graph.model(data, time=…)"]),
        (
            ps.graph.find_repairs,
            {"lateness": "1 s"},
            ["find_repairs has no parameter", "ps.graph.model(data, lateness=…)"],
        ),
        (
            ps.events,
            {"timestamp": "when"},
            ["events has no parameter 'timestamp'.\n  = Did you mean 'time'?", "Available: time, "],
        ),
        (ps.events, {"strategy": "early"}, ["events has no parameter 'strategy'.\n  = Did you mean 'disorder'?"]),
        (ps.events, {"watermark": "1 hour"}, ["events has no parameter 'watermark'.", "df.withWatermark("]),
        (
            ps.uncertain_events,
            {"partition_by": "who"},
            [
                "uncertain_events has no parameter 'partition_by'.\n  = Did you mean 'key'?",
                "Available: event_type, key, value, ",
            ],
        ),
        (ps.uncertain_events, {"type": "At"}, ["has no parameter 'type'.\n  = Did you mean 'event_type'?"]),
        (
            ps.uncertain_events,
            {"order": "arrival"},
            ["uncertain_events has no parameter 'order'.\n", "Available: event_type, key, value, "],
        ),
        (
            ps.graph.model,
            {"type": "kind"},
            ["model has no parameter 'type'.\n  = Did you mean 'kind'?", "Available: time, key, "],
        ),
        (
            ps.graph.frames,
            {"order_by": "n"},
            ["frames has no parameter 'order_by'.", "Available: each, columns, time, "],
        ),
        (
            ps.xml.tree_patterns("//a->a").match,
            {"time": "when"},
            ["match has no parameter 'time'.", "ps.documents(data, time=…)"],
        ),
    ],
)
def test_unknown_parameter_is_an_error_with_a_hint(
    run: Callable[..., object], options: dict[str, object], messages: list[str]
) -> None:
    with pytest.raises(ps.errors.EventDataError) as caught:
        run(ROWS, **options)
    for part in messages:
        assert part in str(caught.value)


@pytest.mark.parametrize("run", [ps.uncertain_events, ps.graph.model, ps.graph.frames])
def test_hint_for_an_unknown_parameter_names_only_the_called_function(run: Callable[..., object]) -> None:
    for word in ("key", "order", "type", "id", "dedupe", "kee"):
        if word not in inspect.signature(run).parameters:
            with pytest.raises(ps.errors.EventDataError) as caught:
                run(ROWS, **{word: "x"})
            assert "ps.events" not in str(caught.value)


class Column:
    """Behaves like a Spark Column: it can be indexed, but has no truth value and cannot be iterated."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __iter__(self) -> object:
        raise TypeError("Column is not iterable")

    def __getitem__(self, place: object) -> Column:
        return self

    def __bool__(self) -> bool:
        raise ValueError("Cannot convert column into bool")

    def __repr__(self) -> str:
        return f"Column<'{self.text}'>"


Column.__module__ = "pyspark.sql.classic.column"
COMPUTED = Column("(at + 1)")
PLANE = ps.graph.metamodel("model plane node P (x bigint)")
FRAMES: dict[str, object] = {"each": [{"change": "create", "element": "p", "kind": "P"}], "columns": {"px": ("p", "x")}}
WHO: dict[str, object] = {"event_type": "At", "key": "who", "value": "place"}
MOVES = ps.uncertain.hidden_markov(transitions={"a": {"a": 1.0}}, readings={"a": {"A": 1.0}})
COLUMN_PARAMETERS: list[tuple[partial[Any], dict[str, object], list[str]]] = [
    (partial(ps.events, ROWS), {}, ["time", "type", "id", "order_by", "key"]),
    (partial(ps.documents, ROWS), {"body": "xml"}, ["body", "type", "time", "id", "order_by", "key"]),
    (partial(ps.documents, ROWS), {}, ["path"]),
    (partial(ps.uncertain_events, ROWS), WHO, ["key", "value", "probability", "previous", "time"]),
    (partial(ps.uncertain_events, ROWS), {**WHO, "model": MOVES}, ["reading", "likelihood"]),
    (
        partial(ps.graph.model, ROWS, PLANE),
        {},
        ["time", "key", "order_by", "change", "element", "kind", "attribute", "value", "target"],
    ),
    (partial(ps.graph.frames, ROWS, PLANE), FRAMES, ["time", "key"]),
]


def takes_several(declare: partial[object], parameter: str) -> bool:
    """Return whether a parameter accepts several columns; ``value`` of a model accepts only one."""
    return parameter in {"id", "order_by", "key", "previous"} or (declare.func, parameter) == (
        ps.uncertain_events,
        "value",
    )


@pytest.mark.parametrize(("declare", "fixed", "parameters"), COLUMN_PARAMETERS)
def test_column_object_equals_its_name(
    declare: partial[object], fixed: dict[str, object], parameters: list[str]
) -> None:
    for parameter in parameters:
        named = declare(**{**fixed, parameter: "at"})
        assert declare(**{**fixed, parameter: Column("at")}) == named
        assert declare(**{**fixed, parameter: Column("`at`")}) == named
        assert declare(**{**fixed, parameter: "other"}) != named
        if takes_several(declare, parameter):
            assert declare(**{**fixed, parameter: [Column("at")]}) == named


def test_column_objects_by_event_type_equal_their_names() -> None:
    data = {"A": ROWS, "B": ROWS}
    named = ps.events(data, time={"A": "at", "B": "on"}, key={"A": "k", "B": ("k", "v")})
    columns = ps.events(
        data,
        time={"A": Column("at"), "B": Column("on")},  # type: ignore[dict-item]
        key={"A": Column("k"), "B": ["k", Column("v")]},
    )
    assert columns == named


@pytest.mark.parametrize(("declare", "fixed", "parameters"), COLUMN_PARAMETERS)
def test_computed_column_is_an_error_at_the_declaration(
    declare: partial[object], fixed: dict[str, object], parameters: list[str]
) -> None:
    for parameter in parameters:
        for argument in [COMPUTED, *([[COMPUTED], ["k", COMPUTED]] if takes_several(declare, parameter) else [])]:
            with pytest.raises(ps.errors.EventDataError) as caught:
                declare(**{**fixed, parameter: argument})
            assert f"{parameter}= expected " in str(caught.value)
            assert "got the computed column Column<'(at + 1)'>." in str(caught.value)
            assert caught.value.hint == f"Add the column with df.withColumn('name', …) and use {parameter}='name'."


@pytest.mark.parametrize(
    ("argument", "got"),
    [
        ({"A": COMPUTED}, r"the computed column Column<'\(at \+ 1\)'>"),
        ({"A": 3}, "int"),
        (3, "int"),
        (None, "NoneType"),
        (["ts"], "list"),
        (pd.DataFrame(ROWS)["ts"], r"pandas\.Series"),
    ],
)
def test_time_that_is_not_a_name_is_an_error_at_the_declaration(argument: object, got: str) -> None:
    with pytest.raises(ps.errors.EventDataError, match=rf"^time= expected a column name, got {got}\.\n"):
        ps.events(ROWS, time=argument)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declare", "path"),
    [
        (partial(ps.documents, ROWS, body="xml"), "ps.documents"),
        (partial(ps.uncertain_events, ROWS, event_type="At", value="place"), "ps.uncertain_events"),
        (partial(ps.graph.model, ROWS, PLANE), "ps.graph.model"),
        (partial(ps.graph.frames, ROWS, PLANE, each=[], columns={}), "ps.graph.frames"),
    ],
)
def test_hint_to_use_a_name_has_the_path_of_the_function(declare: partial[object], path: str) -> None:
    with pytest.raises(ps.errors.EventDataError, match="key= expected column names, got int") as caught:
        declare(key=3)
    assert caught.value.hint == f"Use the name: {path}(…, key='name')."


def test_series_instead_of_its_name_is_an_error_at_the_declaration() -> None:
    with pytest.raises(ps.errors.EventDataError, match=r"key= expected column names, got pandas\.Series") as caught:
        ps.events(ROWS, key=pd.DataFrame(ROWS)["k"])
    assert caught.value.hint == "Use the name: ps.events(…, key='k')."


def test_column_names_can_be_any_iterable() -> None:
    names = ("k", "v")
    for argument in (list(names), iter(names), pd.Index(names), dict.fromkeys(names).keys()):
        assert ps.events(ROWS, key=argument).key == names
    assert ps.documents(ROWS, body="v", key=iter(names)).events.key == names


def test_single_event_without_a_list_is_an_error() -> None:
    for moment in (0, 1.5, "2026-01-01", dt.datetime(2026, 1, 1)):
        with pytest.raises(
            ps.errors.EventDataError, match="Expected inputs by event type, got one event: its 'ts' is a time"
        ) as caught:
            PAIR.match({"ts": moment, "type": "A", "k": 1})
        assert caught.value.hint == "Use a list for one event: [{…}]. A dict has inputs by event type."
    assert not PAIR.match({"ts": [{"ts": 0, "k": 1, "v": 2}]})


def test_hint_for_a_missing_column_that_is_the_index() -> None:
    frame = pd.DataFrame(ROWS).set_index("ts")
    for run in (PAIR.match, PAIR.why_not):
        with pytest.raises(
            ps.errors.EventDataError,
            match=r"Column 'ts' not found .* Available: type, k, v\.\n.*Use df\.reset_index\(\): the column is in the index",
        ):
            run(frame)
    assert len(PAIR.match(frame.reset_index())) == 2


def test_drawing_format_can_be_positional_or_a_keyword() -> None:
    assert PAIR.draw(format="mermaid") == PAIR.draw("mermaid") != PAIR.draw()
    tree = ps.xml.tree_patterns("//a->a")
    assert tree.draw(format="dot") == tree.draw("dot")


@pytest.mark.parametrize("argument", ["rules.perseid", " rules/fraud.perseid\n", Path("rules.perseid")])
def test_file_name_instead_of_a_pattern_is_an_error(argument: str | Path) -> None:
    for make in (ps.pattern, ps.patterns):
        with pytest.raises(
            ps.errors.PatternSyntaxError, match=r"got the name of a file: (rules|rules/fraud)\.perseid\."
        ) as caught:
            make(argument)  # type: ignore[operator]
        assert caught.value.hint == "Use ps.load(path) to read a file."


def test_set_is_built_from_patterns_builders_sets_and_texts() -> None:
    one, two = ps.pattern("pattern one match A a"), build("two").match("B b")
    both = ps.patterns("pattern three match C\npattern four match D -- the last")
    joined = ps.patterns([one, two, both, "pattern five match E"])
    assert joined.names == ("one", "two", "three", "four", "five")
    assert joined == ps.patterns(one, two.build(), both, "pattern five match E")
    assert ps.patterns(one).names == ("one",)
    with pytest.raises(ps.errors.ScopeError, match="Duplicate pattern 'one'"):
        ps.patterns([one, one])
    with pytest.raises(ps.errors.PatternSyntaxError, match="The text is empty"):
        ps.patterns([])
    with pytest.raises(ps.errors.PatternSyntaxError, match="A pattern: expected a string, got int"):
        ps.patterns([5])  # type: ignore[list-item]


def test_set_includes_the_patterns_that_feed_its_patterns() -> None:
    rules = ps.patterns("pattern low match A a\npattern high match low x -> low y within 1 minute\npattern odd match C")
    rows = [row(0, "A"), row(1, "A"), row(2, "B")]
    joined = ps.patterns(rules["high"], "pattern odd match B")
    assert [m.pattern for m in joined.match(rows)] == ["high", "odd"]
    assert ps.patterns(list(rules)) == rules
    with pytest.raises(
        ps.errors.SemanticError, match="Two patterns are named 'low', and one of them feeds another pattern"
    ):
        ps.patterns(rules["high"], "pattern low match B")


def test_set_is_indexed_by_position() -> None:
    rules = ps.patterns("pattern one match A pattern two match B")
    assert [rules[i].name for i in (0, 1, -1, -2)] == ["one", "two", "two", "one"]
    for beyond in (2, -3):
        with pytest.raises(IndexError, match="there are 2 patterns"):
            rules[beyond]
    with pytest.raises(KeyError):
        rules[None]  # type: ignore[index]


def test_metadata_of_a_pattern() -> None:
    rule = ps.pattern("pattern p severity high owner ops tags a, b description 'why' match A")
    assert (rule.severity, rule.owner, rule.tags, rule.description) == ("high", "ops", ("a", "b"), "why")
    assert (PAIR.severity, PAIR.owner, PAIR.tags, PAIR.description) == (None, None, (), None)


def test_patterns_are_loaded_from_a_file(tmp_path) -> None:
    path = tmp_path / "rules.perseid"
    path.write_text("pattern p match A a", encoding="utf-8")
    assert ps.load(path).names == ("p",)
    with pytest.raises(ps.PerseidError, match="cannot be read"):
        ps.load(tmp_path / "none.perseid")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ps.PerseidError, match="UTF-8"):
        ps.load(path)


def test_all_exported_names_exist() -> None:
    assert all(hasattr(ps, name) for name in ps.__all__)
