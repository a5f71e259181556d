"""Subscriptions in a folder, as users hold them: what stands, what is refused, and who finds what."""

from __future__ import annotations

from pathlib import Path

import pytest

import perseid as ps
from perseid.errors import PerseidError, UnsupportedError

SAME = "Feed//a->x FOLLOWED BY{x = y, 1 day} Feed//a->y"
FEED = ps.documents(
    [{"n": n, "at": n, "feed": "Feed", "xml": "<r><a>1</a><b>1</b></r>"} for n in range(2)],
    body="xml", type="feed", time="at",
)  # fmt: skip


def test_what_stands(tmp_path: Path) -> None:
    table = ps.subscription_table(tmp_path / "readers")
    assert table.standing() == {}
    assert "no subscription stands" in table.explain()
    table.add({"ann": SAME, "bob": SAME})
    table.add({"ann": SAME.replace("//a", "//b")})
    table.remove("bob")
    table.remove(["nobody"])
    assert table.standing() == {"ann": SAME.replace("//a", "//b")}
    assert "4 files" in table.explain()
    assert "Feed//b->n0" in table.explain()
    (row,) = table.match(FEED).to_pylist()
    assert row["subscriptions"] == ["ann"]


def test_one_that_is_wrong_is_named_and_none_is_added(tmp_path: Path) -> None:
    table = ps.subscription_table(tmp_path)
    with pytest.raises(PerseidError, match="at least one pair of nodes that are equal") as found:
        table.add({"ann": SAME, "bob": "Feed//a->x FOLLOWED BY{x = 'a', 1 day} Feed//a->y"})
    assert found.value.__notes__ == ["In the subscription 'bob'."]
    assert table.standing() == {}
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PerseidError, match="no subscription to add"):
        table.add({})


def test_a_folder_that_only_some_see() -> None:
    with pytest.raises(UnsupportedError, match="driver and executors share"):
        ps.subscription_table("s3://bucket/readers")
