"""The partition of a group, and how its state can be read from the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark_facts.streams import Streams, far_future, operator, state_operator

pytestmark = pytest.mark.deep

Configure = Callable[[str, str], None]


@pytest.fixture
def configure(spark: SparkSession) -> Iterator[Configure]:
    """Return a function that changes settings of the session until the end of the test."""
    before: dict[str, str | None] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def test_number_of_shuffle_partitions_is_fixed_by_the_checkpoint(streams: Streams, configure: Configure) -> None:
    """Perseid therefore warns before the first start: later, the setting has no effect."""
    frame = operator(streams.read([(1, 100)]), timeouts=False)
    streams.run(frame, keep=False)
    configure("spark.sql.shuffle.partitions", "3")
    streams.add("input", [(2, 200)])
    again = streams.run(frame, keep=False)
    assert [batch["numShufflePartitions"] for batch in state_operator(again)] == [2]


@pytest.mark.parametrize("partitions", [2, 3, 16])
def test_partition_of_an_int_is_its_hash_modulo_the_number_of_partitions(spark: SparkSession, partitions: int) -> None:
    """Perseid chooses the labels of shards by this rule, so that all partitions have the same number of shards."""
    labels = spark.range(50).select(f.col("id").cast("int").alias("label")).repartition(partitions, "label")
    placed = labels.select(f.spark_partition_id(), f.pmod(f.hash("label"), f.lit(partitions))).collect()
    assert [row[0] for row in placed] == [row[1] for row in placed]
    assert len({row[0] for row in placed}) == partitions


@pytest.mark.parametrize("provider", ["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
def test_state_of_a_group_can_be_read_from_the_checkpoint(
    streams: Streams, spark: SparkSession, configure: Configure, provider: str
) -> None:
    """State inspection and migration read key.label, value.groupState.blob and partition_id."""
    configure(
        "spark.sql.streaming.stateStore.providerClass", f"org.apache.spark.sql.execution.streaming.state.{provider}"
    )
    frame = streams.read([(1, 100), (2, 101)]).withWatermark("ts", "10 seconds")
    streams.run(operator(frame.select("label", "at", far_future())))
    state = spark.read.format("statestore").load(streams.checkpoint())
    assert state.schema["key"].dataType.simpleString() == "struct<label:int>"
    assert (
        state.schema["value"].dataType.simpleString()
        == "struct<groupState:struct<blob:binary>,timeoutTimestamp:bigint>"
    )
    columns = ["key.label", "value.groupState.blob", "value.timeoutTimestamp"]
    found = state.select(*columns, f.col("partition_id") == f.pmod(f.hash("key.label"), f.lit(2))).collect()
    assert sorted((label, bytes(blob), timeout, placed) for label, blob, timeout, placed in found) == [
        (1, b"100", 105_000, True),
        (2, b"101", 106_000, True),
    ]
