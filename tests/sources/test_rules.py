"""When a job stops for its records, and what makes two of them the same."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from perseid.settings import SettingsError
from perseid.sources.contract import ARRIVED, POSITION, WRONG
from perseid.sources.files import FileSource
from perseid.sources.kafka import KafkaSource
from perseid.sources.rules import StopRule, identity

KAFKA = KafkaSource(servers="localhost:9092", topic="t", schema="a INT")
FILES = FileSource(path="in", format="json", schema="a INT")
COLUMNS = ["a", "b", WRONG, POSITION, ARRIVED]


def test_a_job_stops_above_the_share_once_enough_were_read() -> None:
    rule = StopRule(share=0.1, of=100)
    assert rule.why_stop([]) is None
    assert rule.why_stop([(99, 99)]) is None
    assert rule.why_stop([(100, 10)]) is None
    assert rule.why_stop([(100, 11)]) == (
        "Of the last 100 records 11 were malformed, 11.0%; the job was told to stop above 10.0%."
    )
    assert StopRule(share=0, of=1).why_stop([(1000, 1)]) is not None


def test_only_the_newest_batches_count() -> None:
    rule = StopRule(share=0.5, of=100)
    assert rule.why_stop([(1000, 1000), (60, 0), (40, 0)]) is None
    assert rule.counted([(1000, 1000), (60, 0), (40, 0)]) == [(60, 0), (40, 0)]
    assert rule.counted([(1000, 1000), (60, 0), (39, 0)]) == [(1000, 1000), (60, 0), (39, 0)]
    assert rule.why_stop([(1000, 0), (0, 0), (100, 51)]) is not None


@pytest.mark.parametrize("share", [-0.1, 1, 2])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ValidationError):
        StopRule(share=share)


def test_events_are_told_apart_by_place_content_or_columns() -> None:
    assert identity(KAFKA, COLUMNS, "position") == (POSITION,)
    assert identity(KAFKA, COLUMNS, "content") == ("a", "b")
    assert identity(FILES, COLUMNS, ["b"]) == ("b",)
    with pytest.raises(SettingsError, match="id: position is for Kafka"):
        identity(FILES, COLUMNS, "position")
    with pytest.raises(SettingsError, match="'c', and there is no such column"):
        identity(KAFKA, COLUMNS, ["c"])
    with pytest.raises(SettingsError, match="names no column"):
        identity(KAFKA, COLUMNS, [])
