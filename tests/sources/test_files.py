"""Files as sources: a malformed line is a dead letter, and an unreadable file stops the query with an error."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from perseid.errors import SettingsError
from perseid.sources.contract import ARRIVED, PAYLOAD, POSITION, WRONG
from perseid.sources.files import FileSource
from perseid.sources.records import NO_CLOSING_QUOTE, NO_JSON, NO_TEXT

SCHEMA = "id BIGINT, name STRING"


def streamed(spark: SparkSession, source: FileSource, tmp_path: Path) -> list[Any]:
    """Return all rows of a stream over the source."""
    batches: list[list[Any]] = []
    query = (
        source.open(spark, streaming=True)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda batch, _: batches.append(batch.collect()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [row for batch in batches for row in batch]


def test_json_lines_have_the_same_rows_in_batch_and_as_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_bytes(b'\xef\xbb\xbf{"id": 1, "name": "a"}\r\n\r\n{"id": "x"}\n\n')
    (folder / "b.json").write_bytes(b'{"id": 2, "name": "\xff"}\nhello\n{"id": 3}')
    source = FileSource(path=str(folder), format="json", schema=SCHEMA, max_files_per_batch=1)
    rows = source.open(spark, streaming=False).collect()
    found = {(row["id"], row["name"], row[WRONG], Path(row[POSITION]).name) for row in rows}
    assert found == {
        (1, "a", None, "a.json"),
        (None, None, "id is not of type BIGINT.", "a.json"),
        (None, None, NO_TEXT, "b.json"),
        (None, None, NO_JSON, "b.json"),
        (3, None, None, "b.json"),
    }
    assert {row[PAYLOAD] for row in rows if row[WRONG] == NO_JSON} == {"hello"}
    assert all(isinstance(row[ARRIVED], dt.datetime) for row in rows)
    assert sorted(map(repr, streamed(spark, source, tmp_path))) == sorted(map(repr, rows))


def test_csv_leaves_out_its_header(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"ID","name"\n1,a\n2,"b\nc"\n')
    source = FileSource(path=str(tmp_path), format="csv", schema=SCHEMA, header=True)
    rows = source.open(spark, streaming=False).collect()
    found = {(row["id"], row["name"], row[WRONG]) for row in rows}
    assert found == {(1, "a", None), (None, None, NO_CLOSING_QUOTE)}
    assert len(rows) == 3


def test_parquet_rows_without_required_values_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "in")
    spark.createDataFrame([(1, "a"), (None, "b")], SCHEMA).coalesce(1).write.parquet(folder)
    source = FileSource(path=folder, format="parquet", required=["id"])
    rows = {row[PAYLOAD]: row for row in source.open(spark, streaming=False).collect()}
    assert rows[None]["id"] == 1
    bad = rows['{"name":"b"}']
    assert (bad["id"], bad["name"], bad[WRONG]) == (None, None, "Required column id has no value.")
    with pytest.raises(SettingsError, match="needs a schema"):
        source.open(spark, streaming=True)
    given = FileSource(path=folder, format="parquet", schema="id BIGINT NOT NULL, name STRING, more INT")
    assert {row[WRONG] for row in streamed(spark, given, tmp_path)} == {None, "Required column id has no value."}


@pytest.mark.parametrize("kind", ["corrupt", "other type"])
def test_unreadable_parquet_file_is_an_error_with_its_name(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "in"
    spark.createDataFrame([(1, "a")], SCHEMA).coalesce(1).write.parquet(str(folder))
    if kind == "corrupt":
        (folder / "broken.parquet").write_bytes(b"PAR1 no more")
        names = "broken.parquet"
    else:
        spark.createDataFrame([("x", "a")], "id STRING, name STRING").coalesce(1).write.mode("append").parquet(
            str(folder)
        )
        names = "part-"
    source = FileSource(path=str(folder), format="parquet", schema=SCHEMA)
    with pytest.raises(StreamingQueryException, match=names):
        streamed(spark, source, tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"format": "json"}, "the format json needs a schema"),
        ({"format": "delta", "schema": SCHEMA}, "its own schema"),
        ({"format": "json", "schema": SCHEMA, "header": True}, "header needs format: csv"),
        ({"format": "parquet", "options": {"maxFilesPerTrigger": "1"}}, "max_files_per_batch"),
        ({"format": "xml"}, "Input should be"),
    ],
)
def test_contradicting_file_options_are_rejected(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        FileSource(path="x", **words)


def test_missing_path_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Path not found: json files"):
        FileSource(path=str(tmp_path / "none"), format="json", schema=SCHEMA).open(spark, streaming=False)
