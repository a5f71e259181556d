"""Subscription tables in a folder: current subscriptions, rejected ones, and their matches."""

from __future__ import annotations

from pathlib import Path

import pytest

import perseid as ps
from perseid.errors import PerseidError, UnknownNameError, UnsupportedError

SAME = "Feed//a->x FOLLOWED BY{x = y, 1 day} Feed//a->y"
FEED = ps.documents(
    [{"n": n, "at": n, "feed": "Feed", "xml": "<r><a>1</a><b>1</b></r>"} for n in range(2)],
    body="xml", type="feed", time="at",
)  # fmt: skip


def test_current_subscriptions_after_changes(tmp_path: Path) -> None:
    table = ps.xscl.subscription_table(tmp_path / "readers")
    assert table.current() == {}
    assert "no current subscription" in table.explain()
    table.add({"ann": SAME, "bob": SAME})
    table.add({"ann": SAME.replace("//a", "//b")})
    table.remove("bob")
    assert table.current() == {"ann": SAME.replace("//a", "//b")}
    assert "3 files" in table.explain()
    assert "Feed//b->n0" in table.explain()
    (row,) = table.match(FEED).to_pylist()
    assert row["subscriptions"] == ["ann"]


def test_one_that_is_wrong_is_named_and_none_is_added(tmp_path: Path) -> None:
    table = ps.xscl.subscription_table(tmp_path)
    with pytest.raises(PerseidError, match="at least one equality between nodes") as found:
        table.add({"ann": SAME, "bob": "Feed//a->x FOLLOWED BY{x = 'a', 1 day} Feed//a->y"})
    assert found.value.__notes__ == ["In the subscription 'bob'."]
    assert table.current() == {}
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PerseidError, match="No subscription is given") as found:
        table.add({})
    assert found.value.hint == "Use table.add({'ann': 'Feed//…'}): texts by owner."


@pytest.mark.parametrize("words", [{}, {"expand": True}, {"results": True}, {"expand": True, "results": True}])
def test_match_without_subscriptions_has_its_columns_and_no_rows(tmp_path: Path, words: dict[str, bool]) -> None:
    table = ps.xscl.subscription_table(tmp_path)
    table.add({"ann": SAME})
    usual = table.match(FEED, **words)
    assert usual.num_rows > 0
    table.remove("ann")
    assert table.match(FEED, **words).equals(usual.slice(0, 0))


def test_match_without_subscriptions_still_needs_documents(tmp_path: Path) -> None:
    with pytest.raises(PerseidError, match="Subscriptions require a stream of documents"):
        ps.xscl.subscription_table(tmp_path).match([{"xml": "<a/>"}])  # type: ignore[arg-type]


def test_removing_an_unknown_subscription_is_an_error(tmp_path: Path) -> None:
    table = ps.xscl.subscription_table(tmp_path)
    with pytest.raises(UnknownNameError, match="Unknown subscription 'ann'; none was removed") as found:
        table.remove("ann")
    assert found.value.hint == "The table has no subscriptions."
    table.add({"anna": SAME, "bob": SAME})
    with pytest.raises(UnknownNameError) as found:
        table.remove(["bob", "ana"])
    assert found.value.nearest == "anna"
    assert found.value.hint == "table.current() lists the subscriptions."
    assert set(table.current()) == {"anna", "bob"}
    table.remove([])
    table.remove(["bob", "bob"])
    with pytest.raises(UnknownNameError, match="Unknown subscription 'bob'; none was removed"):
        table.remove("bob")
    assert set(table.current()) == {"anna"}


def test_a_folder_that_only_some_see() -> None:
    with pytest.raises(UnsupportedError, match="the driver and the executors share"):
        ps.xscl.subscription_table("s3://bucket/readers")
