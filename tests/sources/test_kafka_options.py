"""Options of a Kafka source, without a broker."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pydantic import ValidationError

from perseid.errors import SettingsError
from perseid.sources.kafka import KafkaSource

WORDS: dict[str, Any] = {"servers": "broker:9092", "topic": "t", "schema": "a INT"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"options": {"subscribe": "u"}}, "use the setting topic"),
        ({"options": {"startingOffsets": "latest"}}, "use the setting start"),
        ({"options": {"kafka.ssl.key.password": {"env": "A", "file": "b"}}}, "exactly one of"),
        ({"topic": []}, "list of topics is empty"),
        ({"format": "bytes"}, "one column, value; remove schema"),
        ({"schema": None}, "needs a schema"),
        ({"schema": {"file": "x.avsc"}}, "a schema in a file needs format: avro"),
        ({"keep": {"key": "k", "topic": "K"}}, "two columns"),
        ({"keep": {"colour": "k"}}, "Input should be"),
        ({"start": "soon"}, "start"),
        ({"max_per_batch": 0}, "greater than 0"),
        ({"tpoic": "t"}, "Extra inputs"),
    ],
)
def test_contradicting_kafka_options_are_rejected(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        KafkaSource(**{**WORDS, **words})


def test_settings_become_options_of_spark() -> None:
    moment = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    made = KafkaSource(**{**WORDS, "topic": {"pattern": "t.*"}, "start": "2024-05-01T00:00:00", "max_per_batch": 5})
    options = made._options(streaming=True)
    assert options["subscribePattern"] == "t.*"
    assert options["startingTimestamp"] == str(int(moment.timestamp() * 1000))
    assert options["maxOffsetsPerTrigger"] == "5"
    assert options["failOnDataLoss"] == "true"
    offsets = KafkaSource(**{**WORDS, "topic": ["t", "u"], "start": {"t": {0: 17}}})._options(streaming=False)
    assert offsets["startingOffsets"] == '{"t": {"0": 17}}'
    assert offsets["subscribe"] == "t,u"


def test_batch_read_has_no_latest_start() -> None:
    with pytest.raises(SettingsError, match="start: latest is for streams"):
        KafkaSource(**{**WORDS, "start": "latest"})._options(streaming=False)


def test_messages_contain_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_PASSWORD", "hunter2")
    made = KafkaSource(**WORDS, options={"kafka.ssl.key.password": {"env": "THE_PASSWORD"}})
    assert "hunter2" not in repr(made) + made.describe() + made.model_dump_json()
    assert made.describe() == "Kafka, t at broker:9092"
