"""The servers of the other tests start, respond, and retain their data over a restart."""

from __future__ import annotations

import psycopg
import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession

from bench.servers.broker import Broker
from bench.servers.postgres import Postgres

pytestmark = pytest.mark.servers


def test_broker_retains_its_data_over_a_restart(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    for k in range(100):
        producer.produce("kept", str(k))
    assert producer.flush(20) == 0
    broker.stop()
    broker.start()
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["kept"])
    found = set()
    for _ in range(100):
        found |= {int(message.value()) for message in consumer.consume(100, 1.0) if message.error() is None}
        if len(found) == 100:
            break
    consumer.close()
    assert found == set(range(100))


def test_spark_reads_from_the_broker(spark: SparkSession, broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    for k in range(10):
        producer.produce("read", str(k))
    assert producer.flush(20) == 0
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("subscribe", "read")
    assert read.load().count() == 10


def test_database_responds(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url) as database:
        assert database.execute("select 1").fetchone() == (1,)
