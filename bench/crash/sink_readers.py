"""Content of each sink, read by its own client and not by Spark."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.crash.workload import MatchKey

TIMEOUT_S = 30.0


def parquet_rows(folder: Path) -> list[dict[str, Any]]:
    """Rows of the sink's folder, without the files it has set aside."""
    tables = [pq.ParquetFile(path).read() for path in sorted(folder.glob("job=*/batch=*/*.parquet"))]
    return pa.concat_tables(tables, promote_options="default").to_pylist() if tables else []


def parquet(folder: Path) -> Counter[MatchKey]:
    return Counter((row["pattern"], row["match_id"]) for row in parquet_rows(folder))


def delta(folder: Path) -> Counter[MatchKey]:
    """Live files by the table's log: added and not removed."""
    files: dict[str, None] = {}
    for commit in sorted((folder / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "add" in action:
                files[action["add"]["path"]] = None
            if "remove" in action:
                del files[action["remove"]["path"]]
    columns = ["pattern", "match_id"]
    found: Counter[MatchKey] = Counter()
    for name in files:
        table = pq.ParquetFile(folder / name).read(columns)
        found.update(zip(*(table[column].to_pylist() for column in columns), strict=True))
    return found


def postgres(url: str, table: str = "answers") -> Counter[MatchKey]:
    import psycopg

    with psycopg.connect(url) as database:
        there = database.execute("select to_regclass(%s)", (table,)).fetchone()
        if there is None or there[0] is None:
            return Counter()
        rows = database.execute(f"select pattern, match_id from {table}").fetchall()  # type: ignore[arg-type]
        return Counter((pattern, match) for pattern, match in rows)


def kafka(servers: str, topic: str = "answers") -> Counter[MatchKey]:
    """All messages up to the current end of the topic; duplicates count."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        ends = {k: consumer.get_watermark_offsets(TopicPartition(topic, k), timeout=TIMEOUT_S)[1] for k in partitions}
        consumer.assign([TopicPartition(topic, k, OFFSET_BEGINNING) for k in ends])
        left = sum(ends.values())
        found: Counter[MatchKey] = Counter()
        while left:
            messages = consumer.consume(min(left, 10_000), TIMEOUT_S)
            if not messages:
                raise TimeoutError(f"{left} messages of {topic} did not come")
            for message in messages:
                if (error := message.error()) is not None:
                    raise RuntimeError(str(error))
                if message.offset() >= ends[message.partition()]:
                    continue  # that arrived since then, instead of one before the end of another partition
                found[json.loads(message.value())["pattern"], message.key().decode()] += 1
                left -= 1
        return found
    finally:
        consumer.close()


def read_all_sinks(folder: Path, url: str, servers: str) -> dict[str, Counter[MatchKey]]:
    """Matches in each sink, by sink name."""
    return {
        "parquet": parquet(folder / "out" / "parquet"),
        "delta": delta(folder / "out" / "delta"),
        "postgres": postgres(url),
        "kafka": kafka(servers),
    }
