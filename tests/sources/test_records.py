"""Payloads are parsed into rows, good or malformed; each malformed row has a reason, and none stops the others."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from perseid.errors import SettingsError
from perseid.sources import records as r
from perseid.sources.contract import PAYLOAD, WRONG
from perseid.sources.ddl_columns import check_columns

SCHEMA = "id BIGINT NOT NULL, amount DOUBLE, name STRING, at TIMESTAMP, nested STRUCT<x: INT>, list ARRAY<INT>, small DECIMAL(4, 2)"
JSON: list[tuple[bytes | None, str | None]] = [
    (b'{"id": 1, "amount": 2.5, "name": "x", "nested": {"x": 1}, "list": [1, 2], "small": 1.25}', None),
    (b'{"id": 1, "more": {"deep": [1]}}', None),
    (b'{"id": 1, "id": 2}', None),
    (b'{"id": 1, "amount": 1e400}', None),
    (b'{"id": 1, "name": {"a": [true]}}', None),
    (b'{"id": 1, "name": ' + b"[" * 400 + b"]" * 400 + b"}", None),
    (b'  {"id": 1}\r\n', None),
    (None, r.NO_PAYLOAD),
    (b"", r.EMPTY),
    (b" \n", r.EMPTY),
    (b'{"id": 1, "name": "\xff"}', r.NO_TEXT),
    (b"\xff\xfe\x00", r.NO_TEXT),
    (b"hello", r.NO_JSON),
    (b"null", r.NO_JSON),
    (b"17", r.NO_JSON),
    (b'[{"id": 1}]', r.NO_JSON),
    (b'{"id": 1, "amount":', r.NO_JSON),
    (b'{"id": 1}{"id": 2}', r.NO_JSON),
    (b'{"id": 1} and more', r.NO_JSON),
    (b'{"id": 1}} and more', r.AFTER_END),
    (b'{"id": 1, "name": ' + b"[" * 5000 + b"]" * 5000 + b"}", r.NO_JSON),
    (b'{"id": ' + b"9" * 5000 + b"}", r.NO_JSON),
    (b'{"id": 99999999999999999999}', "id is not of type BIGINT."),
    (b'{"id": "1", "amount": "x"}', "id is not of type BIGINT, amount is not of type DOUBLE."),
    (b'{"id": 1, "at": "soon"}', "at is not of type TIMESTAMP."),
    (b'{"id": 1, "at": 1700000000000}', "at is outside the years 1 to 9999."),
    (b'{"id": 1, "small": 12345.6}', "small is not of type DECIMAL(4,2)."),
    (b'{"id": 1, "nested": 5}', "nested is not of type STRUCT<X:INT>."),
    (b'{"id": 1, "nested": {"x": "y"}}', r.INSIDE),
    (b'{"id": "a", "id": 2}', r.INSIDE),
    (b'{"amount": 1}', "Required column id has no value."),
    (b'{"id": null}', "Required column id has no value."),
    (b"{}", "Required column id has no value."),
]


def read(
    spark: SparkSession, reading: r.PayloadFormat, payloads: list[Any], kind: str = "BINARY", **more: Any
) -> list[Any]:
    frame = spark.createDataFrame(list(enumerate(payloads)), f"place INT, v {kind}").repartition(2)
    found = r.read(
        frame, reading, value="v", position="cast(place as string)", arrived="timestamp_seconds(place)", **more
    )
    return sorted(found.collect(), key=lambda row: int(row["_perseid_position"]))


def test_malformed_json_has_a_reason(spark: SparkSession) -> None:
    columns = r.columns_of(spark, SCHEMA, "this test")
    rows = read(spark, r.PayloadFormat("json", columns), [payload for payload, _ in JSON], keep={"where": "place"})
    assert [row[WRONG] for row in rows] == [wrong for _, wrong in JSON]
    for row, (payload, wrong) in zip(rows, JSON, strict=True):
        if wrong is None:
            assert row["id"] in (1, 2)
            assert row["where"] is not None
            assert row[PAYLOAD] is None
        else:
            assert all(row[name] is None for name in [*columns.names, "where"])
            assert row[PAYLOAD] == shown(payload)
    assert rows[0]["nested"]["x"] == 1
    assert rows[0]["list"] == [1, 2]
    assert rows[2]["id"] == 2


def shown(payload: bytes | None) -> str | None:
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return r.BASE64 + base64.b64encode(payload or b"").decode()


def test_long_payload_is_truncated_with_a_mark(spark: SparkSession) -> None:
    columns = r.columns_of(spark, "a INT", "this test")
    text, raw = "ü" * 100_000, b"\xff" * 100_000
    of_text, of_bytes = read(spark, r.PayloadFormat("json", columns), [text.encode(), raw])
    assert of_text[PAYLOAD] == "ü" * r.LONGEST_PAYLOAD + " … (truncated; 200000 bytes in total)"
    kept = base64.b64encode(raw[: r.LONGEST_PAYLOAD * 3 // 4]).decode()
    assert of_bytes[PAYLOAD] == f"{r.BASE64}{kept} … (truncated; 100000 bytes in total)"


def test_malformed_csv_has_a_reason(spark: SparkSession) -> None:
    columns = r.columns_of(spark, "id BIGINT, amount DOUBLE, name STRING", "this test")
    given: list[tuple[str, str | None]] = [
        ("1;2.5;x", None),
        ("1;;", None),
        ('1;2.5;"a ""b"" c;d"', None),
        ("1;2.5", "Expected the 3 fields of the schema."),
        ("1;2;3;4", "Expected the 3 fields of the schema."),
        ("one;2;x", "id is not of type BIGINT."),
        ('1;2;"x', r.NO_CLOSING_QUOTE),
        ("", r.EMPTY),
    ]
    reading = r.PayloadFormat("csv", columns, separator=";")
    rows = read(spark, reading, [line for line, _ in given], "STRING")
    assert [row[WRONG] for row in rows] == [wrong for _, wrong in given]
    assert rows[2]["name"] == 'a "b" c;d'
    with pytest.raises(SettingsError, match="Unsupported column 'a': CSV has no arrays"):
        read(spark, r.PayloadFormat("csv", r.columns_of(spark, "a ARRAY<INT>", "this test")), ["1"], "STRING")


def test_text_and_bytes_are_not_parsed(spark: SparkSession) -> None:
    payloads = [b"<a/>", b"", b"\xff", None]
    as_text = read(spark, r.PayloadFormat("text"), payloads)
    assert [(row["value"], row[WRONG]) for row in as_text] == [
        ("<a/>", None), ("", None), (None, r.NO_TEXT), (None, r.NO_PAYLOAD),
    ]  # fmt: skip
    as_bytes = read(spark, r.PayloadFormat("bytes"), payloads)
    assert [row["value"] for row in as_bytes] == payloads
    assert [row[WRONG] for row in as_bytes] == [None, None, None, r.NO_PAYLOAD]


def test_records_with_an_error_of_the_source_are_malformed(spark: SparkSession) -> None:
    refuse = [("place = 1", "Its key is bad.")]
    assert [row[WRONG] for row in read(spark, r.PayloadFormat("bytes"), [b"a", b"b"], refuse=refuse)] == [
        None,
        "Its key is bad.",
    ]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("a INT,, b", r"cannot be parsed: .*','"),
        ("a DUBBLE", r"cannot be parsed: .*DUBBLE"),
        ("a INT, A STRING", "two columns"),
        ("_perseid_x INT", "reserved"),
    ],
)
def test_invalid_schema_is_rejected(spark: SparkSession, schema: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        r.columns_of(spark, schema, "this test")


SCHEMAS = {
    "a INT, b: STRING NOT NULL, `c d` DOUBLE COMMENT 'x, y', e TIMESTAMP": True,
    "a DECIMAL(10, 2), b ARRAY<STRUCT<x: INT, y: MAP<STRING, BIGINT>>>, c STRUCT<>": True,
    "a TINYINT, b BYTE, c SMALLINT, d SHORT, e INTEGER, f LONG, g FLOAT, h REAL, i DATE, j TIMESTAMP_NTZ": True,
    "a TIMESTAMP_LTZ, b BINARY, c VARIANT, d INTERVAL DAY TO SECOND, e BOOLEAN": True,
    "STRUCT<a: INT, b: STRING>": True,
    "a INT,": False,
    "a INT, b": False,
    "a DUBBLE": False,
    "a BOOL": False,
    "a TEXT": False,
    "a ARRAY<TEXT>": False,
    "a ARRAY": False,
    "a MAP<STRING>": False,
    "a STRUCT<x: NUMBER>": False,
    "a DOUBLE b STRING": False,
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schema_is_checked_as_spark_parses_it(spark: SparkSession, schema: str) -> None:
    parsers: list[Callable[[str], object]] = [check_columns, lambda ddl: r.columns_of(spark, ddl, "this test")]
    for parse in parsers:
        with contextlib.nullcontext() if SCHEMAS[schema] else pytest.raises((ValueError, SettingsError)):
            parse(schema)


def test_only_columns_can_be_required(spark: SparkSession) -> None:
    columns = r.columns_of(spark, "a INT NOT NULL, b INT, c INT", "this test")
    assert r.required_of(columns, ["b"]) == ("a", "b")
    with pytest.raises(SettingsError, match="'d'"):
        r.required_of(columns, ["d"])
