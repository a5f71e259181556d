"""Output of subscriptions: documents with many equal values have all their results, or end with a typed error."""

from __future__ import annotations

import time
from typing import Any

import pytest

import perseid as ps
from perseid.engines.joins import joiner
from perseid.errors import LimitError

SECONDS_ALLOWED = 20.0
TWICE = "S//r[//a->x][//b->y] FOLLOWED BY{x = u AND y = w, 1 hour} S//r[//a->u][//b->w]"


def documents(count: int) -> Any:
    """Return two documents with ``count`` equal values of each of two kinds, which join in count ** 4 combinations."""
    body = f"<r>{'<a>1</a>' * count}{'<b>1</b>' * count}</r>"
    return ps.documents([{"ts": i, "body": body, "stream": "S"} for i in range(2)], body="body", type="stream")


def table() -> Any:
    return ps.xscl.subscriptions({"s": TWICE})


def test_all_combinations_of_equal_values_are_returned() -> None:
    assert table().match(documents(12)).num_rows == 12**4


def test_document_beyond_the_limit_of_combinations_is_an_error_in_bounded_time() -> None:
    table().match(documents(2))
    begun = time.process_time()
    with pytest.raises(LimitError, match="more than 4,194,304 combinations"):
        table().match(documents(60))
    assert time.process_time() - begun < SECONDS_ALLOWED


def test_notifications_beyond_the_limit_are_an_error_with_expand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner, "MAX_EXPANDED_PER_DOCUMENT", 81)
    assert table().match(documents(3), expand=True).num_rows == 81
    with pytest.raises(LimitError, match="256 notifications; the limit is 81"):
        table().match(documents(4), expand=True)
