"""Limit on the share of bad records, at which a job stops."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from perseid.sources.rules import StopRule


def test_job_stops_above_the_share_after_a_minimum_of_records() -> None:
    rule = StopRule(share=0.1, of=100)
    assert rule.stop_reason([]) is None
    assert rule.stop_reason([(99, 99)]) is None
    assert rule.stop_reason([(100, 10)]) is None
    assert rule.stop_reason([(100, 11)]) == (
        "11 of the last 100 records were malformed (11.0%); limits.bad stops the job above 10.0%."
    )
    assert StopRule(share=0, of=1).stop_reason([(1000, 1)]) is not None


def test_only_the_newest_batches_count() -> None:
    rule = StopRule(share=0.5, of=100)
    assert rule.stop_reason([(1000, 1000), (60, 0), (40, 0)]) is None
    assert rule.counted([(1000, 1000), (60, 0), (40, 0)]) == [(60, 0), (40, 0)]
    assert rule.counted([(1000, 1000), (60, 0), (39, 0)]) == [(1000, 1000), (60, 0), (39, 0)]
    assert rule.stop_reason([(1000, 0), (0, 0), (100, 51)]) is not None


@pytest.mark.parametrize("share", [-0.1, 1, 2])
def test_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ValidationError):
        StopRule(share=share)
