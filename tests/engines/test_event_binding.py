"""Queries bound to events are plain data, with expressions as Perseid's syntax trees."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import pyarrow as pa
import pytest

import perseid as ps
from perseid.compile.plan import Plan
from perseid.engines.sequence.bind import BindOptions, bind_events
from perseid.engines.sequence.stream import Events
from perseid.errors import TypeMismatchError, UnknownNameError, UnsupportedError
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.runtime.arrays import MOMENT
from perseid.runtime.query import EventIdentity, Query, RouteColumn, RowCondition, TableColumn, TableSchema
from perseid.semantics import types as t

COLUMNS = {
    "ts": TableColumn(MOMENT, "timestamp", t.Timestamp()),
    "type": TableColumn(pa.string(), "string", t.String()),
    "user": TableColumn(pa.string(), "string", t.String()),
    "n": TableColumn(pa.int64(), "bigint", t.Integer()),
    "v": TableColumn(pa.int64(), "bigint", t.Integer()),
    "odd": TableColumn(None, "variant"),
    "device": TableColumn(
        pa.struct([("os", pa.string())]), "struct<os:string>", t.Struct((("os", t.String()),)),
        {"os": TableColumn(pa.string(), "string", t.String())},
    ),
}  # fmt: skip
TEXT = (
    "pattern rise match Low a [v < 3 and lower(user) = 'ann'] -> High b [v > a.v] within 1 minute partition by user "
    "return a.v + 1 as first, b.v as second"
)


class Evaluator:
    """A driver that evaluates expressions without the functions that it does not know."""

    max_predicates = 60

    def __init__(self, *unknown: str) -> None:
        self.unknown = unknown

    def evaluates(self, expr: ex.Expr, table: int) -> bool:
        return not any(isinstance(e, ex.Call) and e.name in self.unknown for e in ex.walk(expr))


def plan_of(text: str) -> Plan:
    return ps.patterns(text).plan()


def bound(
    text: str,
    *,
    stream: Events | None = None,
    evaluator: Evaluator | None = None,
    schemas: Mapping[str | None, Mapping[str, TableColumn]] | None = None,
    streaming: bool = False,
    rejected: bool = False,
) -> Query:
    """The query of a pattern over tables by event type; None has a column with the type."""
    given = {None: COLUMNS} if schemas is None else schemas
    tables = [TableSchema(columns, name, id=("n",), delay=5_000_000) for name, columns in given.items()]
    shared = {name: column for columns in given.values() for name, column in columns.items()}
    return bind_events(
        Events([], id=("n",)) if stream is None else stream,
        plan_of(text),
        tables,
        shared,
        Evaluator() if evaluator is None else evaluator,
        BindOptions(streaming, rejected),
    )


def test_a_query_can_be_pickled() -> None:
    query = bound(TEXT)
    again = pickle.loads(pickle.dumps(query))
    assert again.inputs == query.inputs
    assert again.predicates == query.predicates
    assert again.schema == query.schema
    assert again.keys == query.keys


def texts_in(value: object) -> set[str]:
    """Returns all strings in the data that a driver reads of a query."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        return set[str]().union(*(texts_in(part) for pair in value.items() for part in pair))
    if isinstance(value, tuple):
        return set[str]().union(*map(texts_in, value))
    if is_dataclass(value) and not isinstance(value, type):
        return set[str]().union(*(texts_in(getattr(value, part.name)) for part in fields(value) if part.name != "plan"))
    return set()


def test_a_query_has_expressions_and_no_sql() -> None:
    query = bound(TEXT)
    assert [print_expr(one.expr) for one in query.predicates] == ["v < 3", "lower(user) = 'ann'"]
    assert [one.event_type for one in query.predicates] == ["Low", "Low"]
    words = {word.lower() for text in texts_in(query) for word in text.split()}
    assert not words & {"select", "cast", "coalesce", "xxhash64", "if", "case"}


def test_only_needed_rows_and_columns_cross() -> None:
    query = bound(TEXT)
    (one,) = query.inputs
    low = tuple(predicate.id for predicate in query.predicates)
    assert one.keep_if == (RowCondition("Low", low), RowCondition("High"))
    assert query.columns == {"v": pa.int64()}
    assert one.columns == {"v": "v"}
    assert one.identity == EventIdentity(("n",))
    assert query.type_names == ("Low", "High")


def test_predicates_that_the_driver_does_not_evaluate_stay_with_the_engine() -> None:
    query = bound(TEXT, evaluator=Evaluator("lower"))
    assert [print_expr(one.expr) for one in query.predicates] == ["v < 3"]
    assert set(query.columns) == {"user", "v"}


def test_keys_are_columns_by_which_rows_are_routed() -> None:
    query = bound(TEXT)
    assert query.inputs[0].route == (RouteColumn(("user",)),)
    assert list(query.keys.values()) == [(("user", 0),)]
    both = bound(f"{TEXT}\npattern other match Low a -> High b within 1 minute partition by device.os, user")
    assert both.inputs[0].route == (RouteColumn(("user",)), RouteColumn(("device", "os")))
    assert sorted(both.keys.values()) == [(("device.os", 1), ("user", 0)), (("user", 0),)]


def test_a_table_of_one_type_has_conditions_of_its_type() -> None:
    query = bound(TEXT, schemas={"Low": COLUMNS, "High": COLUMNS, "Other": COLUMNS})
    low, high, other = query.inputs
    assert low.keep_if == (RowCondition("Low", tuple(predicate.id for predicate in query.predicates)),)
    assert high.keep_if is None
    assert other.keep_if == ()


def test_constant_columns_are_no_columns_of_the_step() -> None:
    query = bound(TEXT)
    assert query.constants == {"op": "+", "revision": 0, "pattern": "rise", "kind": "match"}
    assert query.schema.names == [
        *("pattern", "match_id", "kind", "op", "revision", "start", "end", "user", "first", "second")
    ]
    assert query.step_schema.names == ["match_id", "start", "end", "user", "first", "second"]


def test_ids_are_bytes_in_batches_and_text_in_streams() -> None:
    assert bound(TEXT).step_schema.field("match_id").type == pa.binary()
    assert bound(TEXT, streaming=True).step_schema.field("match_id").type == pa.string()


def test_the_strategy_of_a_stream_selects_the_engine() -> None:
    early = ps.events([], id="n", disorder="early")
    assert bound(TEXT, stream=early).engine == "sequence"  # complete tables are in order
    query = bound(TEXT.replace("->", "->>"), stream=early, streaming=True)
    assert query.engine == "early"
    assert query.constants == {}  # op and revision differ by row
    automatic = ps.events([], id="n", disorder="auto")
    assert bound(TEXT.replace("->", "->>"), stream=automatic, streaming=True).engine == "assemble"


def test_a_streaming_plan_has_the_options_of_its_stream() -> None:
    stream = ps.events([], id="n", options=ps.StreamOptions(shards=3, max_state=1 << 20, idle="1 minute"))
    query = bound(TEXT, stream=stream, streaming=True)
    assert (query.plan.shards, query.plan.max_state, query.plan.delay) == (3, 1 << 20, 5_000_000)
    assert (query.state.shards, query.state.max_state, query.state.idle) == (3, 1 << 20, 60_000_000)


def test_rejected_rows_add_columns_and_have_no_constants() -> None:
    query = bound(TEXT, streaming=True, rejected=True)
    assert query.schema.names[-2:] == ["reason", "row"]
    assert query.constants == {}
    assert query.rejected is not None


def test_required_types_are_those_without_which_there_is_no_match() -> None:
    query = bound("pattern p match A -> not B -> C within 1 minute")
    assert query.event_types == ("A", "B", "C")
    assert query.required_types == {"p": ("A", "C")}


def test_patterns_that_do_not_fit_the_tables_are_errors() -> None:
    with pytest.raises(UnknownNameError, match="Column 'w' not found in"):
        bound("pattern p match A [w > 1] -> B within 1 minute")
    with pytest.raises(
        UnknownNameError, match=r"Column 'device\.model' not found in the input; pattern p is partitioned by it"
    ):
        bound("pattern p match A -> B within 1 minute partition by device.model")
    with pytest.raises(TypeMismatchError, match="Cannot partition by column 'odd': unsupported type variant"):
        bound("pattern p match A -> B within 1 minute partition by odd")
    with pytest.raises(UnsupportedError, match="'odd' has type variant, which cannot be sent to Python"):
        bound("pattern p match A [lower(odd) = 'x'] -> B within 1 minute", evaluator=Evaluator("lower"))
    with pytest.raises(UnsupportedError, match="relies on the order within a key"):
        bound(
            f"{TEXT}\npattern other match Low -> High within 1 minute",
            stream=ps.events([], order="arrival"),
            streaming=True,
        )
