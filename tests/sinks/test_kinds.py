"""Sinks that a job can name, errors of their options, and errors of a session without connectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from perseid.errors import PerseidError
from perseid.sinks.delta import Delta
from perseid.sinks.kafka import Kafka, messages
from perseid.sinks.kinds import SINKS
from perseid.sinks.postgres import Postgres
from perseid.sinks.staging import INSTEAD, stored
from tests.sinks.match_changes import matches

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "sinks.md"


def test_guide_lists_guarantee_and_options_of_every_sink() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    for name, kind in SINKS.items():
        assert kind.guarantee.endswith(".")
        assert f"## {name}\n" in page
        for word, told in kind.model_json_schema()["properties"].items():
            assert told.get("description"), f"{name}.{word}"
            assert f"`{word}`" in page.split(f"## {name}\n")[1].split("\n## ")[0], f"{name}.{word}"


@pytest.mark.parametrize(
    ("kind", "words", "why"),
    [
        ("postgres", {"url": "postgresql://ann:pa55@host/db", "table": "t"}, "a password must not be in the url"),
        (
            "postgres",
            {"url": "postgresql://host/db?password=pa55", "table": "t"},
            "a password must not be in the url",
        ),
        ("postgres", {"url": "postgresql://host/db?pa55", "table": "t"}, "not an address of a PostgreSQL server"),
        ("postgres", {"host": "h", "password": "pa55", "table": "t"}, "a secret must not be in the file"),
        ("postgres", {"host": "h", "url": "postgresql://h", "table": "t"}, "exactly one of url and host"),
        ("postgres", {"host": "h", "table": "a.b.c"}, "schema.name"),
        ("postgres", {"host": "h", "table": "x" * 60}, "54 bytes"),
        (
            "kafka",
            {"servers": "h:1", "topic": "t", "options": {"kafka.sasl.jaas.config": "pa55"}},
            "must not be in the file",
        ),
        (
            "kafka",
            {"servers": "h:1", "topic": "t", "options": {"topic": "u"}},
            "unsupported option 'topic'; use servers and topic",
        ),
        ("kafka", {"servers": "h:1", "topic": "a b"}, "match pattern"),
        ("delta", {"path": "/a", "table": "b"}, "exactly one of path and table"),
        ("console", {"rows": 0}, "greater than or equal to 1"),
    ],
)
def test_invalid_sink_options_are_rejected(kind: str, words: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        SINKS[kind].model_validate(words)
    assert "pa55" not in str(caught.value)


def test_missing_connectors_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    if "delta" in str(spark.conf.get("spark.jars", "")):
        pytest.skip("this session has the connectors")
    schema = matches(spark).schema
    for sink, why in (
        (Kafka(servers="127.0.0.1:1", topic="t"), "no Kafka connector"),
        (Delta(path=str(tmp_path)), "does not support Delta"),
        (Delta(table="there.is.none"), "does not support Delta"),
    ):
        with pytest.raises(PerseidError, match=why) as caught:
            sink.prepare(spark, schema, "j")
        assert caught.value.hint


def test_idempotency_key_of_a_row(spark: SparkSession) -> None:
    """The id of a match, the id of an emitted row, and otherwise a hash of all values."""

    def sent(*columns: str) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
        rows = messages(spark.range(1).selectExpr(*columns)).collect()
        return [
            (row.key, json.loads(row.value), {h.key: bytes(h.value).decode() for h in row.asDict().get("headers", [])})
            for row in rows
        ]

    assert sent("'p' pattern", "'m' match_id", "2 revision", "string(null) op") == [
        ("m", {"pattern": "p", "match_id": "m", "revision": 2}, {"pattern": "p", "revision": "2"})
    ]
    assert sent("17L id", "'x' note") == [("17", {"id": 17, "note": "x"}, {})]
    ((first, _, _),) = sent("'p' pattern", "1 step", "0.5D probability")
    ((again, _, _),) = sent("'p' pattern", "1 step", "0.5D probability")
    ((other, _, _),) = sent("'p' pattern", "2 step", "0.5D probability")
    ((nameless, _, _),) = sent("string(null) match_id", "'late' kind")
    assert first == again != other
    assert len(nameless) == 64


@pytest.mark.parametrize("text", ["\0", "\\u0000", "\\\0", "\\\\\0\0", "a\0\\\\u0000\\", "plain"])
def test_only_the_null_character_is_replaced_for_postgres(text: str) -> None:
    data = stored(("m\0", 0, "+", "p", "k\0", None, None, None, json.dumps({"x": text})))[-1]
    assert json.loads(data) == {"x": text.replace("\0", INSTEAD)}
    assert stored(("m\0", 0, "+", "p", "k", None, 1, -1, "{}"))[0] == f"m{INSTEAD}"


def test_url_is_shown_without_secrets() -> None:
    sink = Postgres.model_validate({"host": "db", "user": "ann", "password": {"env": "NOWHERE"}, "table": "ops.alarms"})
    assert sink.describe() == "postgres db:5432/ ops.alarms"
    with pytest.raises(PerseidError, match="variable 'NOWHERE' is not set"):
        sink.prepare(None, None, "j")
