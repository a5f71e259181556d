"""Input of applyInPandasWithState, supported operations after it, and when Spark calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState

from tests.spark_facts.streams import Act, Streams, far_future, observed, operator, watermarks

pytestmark = pytest.mark.deep


def version(module: Any) -> tuple[int, int]:
    major, minor = module.__version__.split(".")[:2]
    return int(major), int(minor)


# The worker of Spark 4.0 slices the rows of a group out of the batch with float offsets, which pyarrow 26 rejects.
one_row_per_group_only = version(pyspark) < (4, 1) and version(pa) >= (26, 0)


def describe() -> Act:
    """Return a function that outputs the type and the values of column x in Python."""

    def act(_key: Any, frames: Iterator[pd.DataFrame], _state: GroupState) -> Iterable[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"type": [str(frame["x"].dtype)], "values": [repr(frame["x"].tolist())]})

    return act


DESCRIPTION = "type STRING, values STRING"


def send_to_worker(streams: Streams, x: str, *times: int) -> list[tuple[str, str]]:
    frame = streams.read([(1, at) for at in times or (100,)]).withColumn("x", f.expr(x)).drop("ts")
    streams.run(operator(frame, describe(), timeouts=False, out=DESCRIPTION))
    return streams.rows()  # type: ignore[return-value]


@pytest.mark.xfail(one_row_per_group_only, reason="Spark 4.0 does not work with pyarrow 26", strict=True)
def test_group_can_have_several_rows_in_a_batch(streams: Streams) -> None:
    """Perseid depends on this, because a shard is a group of many rows. It fails if Spark and pyarrow are incompatible."""
    streams.run(operator(streams.read([(1, 100), (1, 101), (2, 102)]), timeouts=False))
    assert [row[1:3] for row in streams.rows()] == [(1, 100), (1, 101), (2, 102)]


def test_second_stateful_operator_is_rejected(streams: Streams) -> None:
    """A pattern set therefore runs in one operator. If Spark supported two, stages could be separate operators."""
    first = operator(streams.read([(1, 100)]), timeouts=False).where("what = 'row'")
    with pytest.raises(AnalysisException, match="Multiple applyInPandasWithStates are not supported") as raised:
        streams.run(operator(first, timeouts=False))
    assert raised.value.getCondition() == "_LEGACY_ERROR_TEMP_3102"


def test_aggregation_after_the_operator_is_rejected(streams: Streams) -> None:
    """Counting matches per window therefore needs a second query. If Spark supported it, output should have a watermark."""
    frame = streams.read([(1, 100)]).withWatermark("ts", "10 seconds").select("label", "at", far_future())
    matches = operator(frame).where("what = 'row'").withColumn("ts", f.timestamp_seconds("at"))
    counted = matches.withWatermark("ts", "0 seconds").groupBy(f.window("ts", "5 seconds")).count()
    with pytest.raises(AnalysisException, match="possible 'correctness' issue due to global watermark") as raised:
        streams.run(counted)
    assert raised.value.getCondition() == "_LEGACY_ERROR_TEMP_3102"


def test_filtered_output_can_be_shuffled(streams: Streams) -> None:
    """Users can shuffle the output. Directly after the operator, a shuffle would crash the query, because rows are
    views of Arrow columns until a filter or projection copies them (one that Catalyst cannot remove)."""
    frame = operator(streams.read([(1, 100), (2, 200), (3, 300)]), timeouts=False)
    streams.run(frame.where("at < 300").repartition(2))
    assert [row[1:3] for row in streams.rows()] == [(1, 100), (2, 200)]


def test_counter_rows_are_summed_by_observe_and_then_filtered_out(streams: Streams) -> None:
    """All counters of Perseid use this. Without it, the operator could only output matches."""
    frame = operator(streams.read([(1, 100), (2, 200), (3, 300)]), timeouts=False)
    query = streams.run(frame.observe("counters", f.sum("at").alias("total")).where("at = 200"))
    assert observed(query, "counters") == {"total": 600}
    assert [row[1:3] for row in streams.rows()] == [(2, 200)]


def test_observe_before_a_filter_counts_all_input_rows(streams: Streams) -> None:
    """Perseid counts the events read this way, separately from the events that patterns use."""
    frame = streams.read([(1, 100), (2, 200), (3, 300)]).observe("input", f.count(f.lit(1)).alias("events"))
    query = streams.run(frame.where("label = 2"))
    assert observed(query, "input") == {"events": 3}
    assert len(streams.rows()) == 1


def test_observe_can_collect_structs(streams: Streams) -> None:
    """Counters by pattern are one list. Without this, each counter would need a separate metric."""
    frame = operator(streams.read([(1, 100), (2, 200)]), timeouts=False)
    query = streams.run(frame.observe("list", f.collect_list(f.struct("label", "at")).alias("rows")))
    rows = observed(query, "list")["rows"]
    assert sorted(rows, key=lambda row: row["label"]) == [{"label": 1, "at": 100}, {"label": 2, "at": 200}]


def test_one_aggregate_of_observe_can_compute_a_struct_of_sums(streams: Streams) -> None:
    """Counters of all shards are one list and are summed at the end, because Spark compiles every aggregate in every
    task. Without this, every counter would need a separate aggregate."""
    frame = operator(streams.read([(1, 100), (2, 200)]), timeouts=False)
    sums = ", ".join(f"'{name}', aggregate(rows, 0L, (sum, row) -> sum + row[{i}])" for i, name in enumerate("xy"))
    total = f"transform(array(collect_list(array(cast(label as bigint), at))), rows -> named_struct({sums}))[0]"
    query = streams.run(frame.observe("struct", f.expr(total).alias("sums")))
    assert observed(query, "struct") == {"sums": {"x": 3, "y": 300}}


MANY = 25_000
"""More rows than an Arrow batch of Spark has."""


def test_list_longer_than_a_batch_is_sent_as_one_row_and_unpacked(streams: Streams) -> None:
    """The operator outputs many matches in one row. Without this, each match would be a row, which is much slower."""

    def act(_key: Any, _frames: Iterator[pd.DataFrame], _state: GroupState) -> Iterable[pd.DataFrame]:
        cells = pd.DataFrame(index=[0], columns=["numbers", "texts"], dtype=object)
        cells.at[0, "numbers"] = list(range(MANY))
        cells.at[0, "texts"] = [None if i % 2 else str(i) for i in range(MANY)]
        yield cells

    lists = operator(streams.read([(1, 100)]), act, timeouts=False, out="numbers ARRAY<BIGINT>, texts ARRAY<STRING>")
    streams.run(lists.selectExpr("inline(arrays_zip(numbers, texts))"))
    rows = streams.spark.table(streams.tables["query"])
    (found,) = rows.selectExpr("count(*)", "sum(numbers)", "count(texts)", "sum(if(texts = numbers, 1, 0))").collect()
    assert tuple(found) == (MANY, MANY * (MANY - 1) // 2, MANY // 2, MANY // 2)


@pytest.mark.skipif(one_row_per_group_only, reason="Spark 4.0 does not work with pyarrow 26")
def test_one_null_makes_a_bigint_column_float(streams: Streams) -> None:
    """Perseid therefore sends only columns without nulls: a null in the column changes large numbers."""
    ((type_, values),) = send_to_worker(streams, "IF(at = 100, NULL, 9007199254740993)", 100, 101)
    assert type_ == "float64"
    assert sorted(values.strip("[]").split(", ")) == ["9007199254740992.0", "nan"]


def test_timestamp_beyond_the_range_of_pandas_fails_the_query(streams: Streams) -> None:
    """Perseid therefore sends times as numbers. Many systems write 'no end' as 9999-12-31."""
    with pytest.raises(StreamingQueryException, match="out of bounds timestamp"):
        send_to_worker(streams, "TIMESTAMP '9999-12-31 00:00:00Z'")


def test_far_time_is_exact_as_microseconds(streams: Streams) -> None:
    """Perseid sends times as int64; other types would lose microseconds."""
    assert send_to_worker(streams, "unix_micros(TIMESTAMP '9999-12-31 23:59:59.999999Z')") == [
        ("int64", "[253402300799999999]")
    ]


def test_binary_is_unchanged(streams: Streams) -> None:
    """Perseid sends strings and packed columns as binary: no decoding, and no truncation at a zero byte."""
    assert send_to_worker(streams, "unhex('00FF80C3280A00')") == [("object", repr([b"\x00\xff\x80\xc3\x28\x0a\x00"]))]


def test_timeout_of_an_idle_group_fires_in_a_final_batch_without_data(streams: Streams) -> None:
    """Patterns that end with a negation depend on this: with availableNow, the watermark of the last rows takes effect."""
    frame = streams.read([(1, 100)], [(2, 200)]).withWatermark("ts", "10 seconds")
    query = streams.run(operator(frame.select("label", "at", far_future())))
    assert watermarks(query) == [0, 90, 190]
    assert not query.recentProgress[-1]["sources"][0]["numInputRows"]
    assert ("timeout", 1, 0, 190_000) in streams.rows()


def test_timeout_of_an_idle_group_fires_without_new_data_in_a_running_query(streams: Streams) -> None:
    """The same applies to a continuous query: the match must not wait for the next event."""
    frame = streams.read([(1, 100)], [(2, 200)]).withWatermark("ts", "10 seconds")
    query = streams.start(operator(frame.select("label", "at", far_future())), now=False)
    query.processAllAvailable()
    query.stop()
    assert ("timeout", 1, 0, 190_000) in streams.rows()


def test_timeout_at_the_watermark_fires_when_the_watermark_advances(streams: Streams) -> None:
    """Perseid sets a timeout at the watermark for the earliest possible call. If it fired at once, it would fire forever."""

    def act(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterable[pd.DataFrame]:
        watermark = state.getCurrentWatermarkMs()
        what = "timeout" if state.hasTimedOut else "row"
        if state.hasTimedOut:
            state.remove()
        else:
            list(frames)
            state.update((b"",))
            if watermark:
                state.setTimeoutTimestamp(watermark)
        yield pd.DataFrame({"what": [what], "label": [key[0]], "at": [0], "watermark": [watermark]})

    # Label 1 sets its timeout at watermark 90 and is called when the watermark is 91.
    frame = streams.read([(2, 100)], [(1, 95)], [(3, 96)], [(3, 101)]).withWatermark("ts", "10 seconds")
    query = streams.run(operator(frame.select("label", "at", far_future()), act))
    assert watermarks(query) == [0, 90, 90, 90, 91]
    assert [row for row in streams.rows() if row[1] == 1] == [("row", 1, 0, 90_000), ("timeout", 1, 0, 91_000)]
