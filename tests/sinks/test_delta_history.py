"""Batch records in the history of a Delta table; the history is a list of rows, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perseid.sinks.contract import Batch
from perseid.sinks.delta_history import DeltaCommit, _records, live_digests, record_of, undone_version


def written(version: int, batch: int, digest: str | None, job: str = "job") -> Any:
    return SimpleNamespace(
        version=version, operation="WRITE", operationParameters={}, userMetadata=record_of(job, batch, digest)
    )


def other(at: int, operation: str, metadata: str | None = None, **parameters: Any) -> Any:
    return SimpleNamespace(version=at, operation=operation, operationParameters=parameters, userMetadata=metadata)


def test_only_records_of_the_job_are_read() -> None:
    history = [
        written(5, 8, "e", job="another"),
        other(4, "WRITE", "a note of somebody"),
        other(3, "OPTIMIZE"),
        other(2, "WRITE", '{"perseid": 7}'),
        written(1, 4, None),
        written(0, 3, "a"),
    ]
    assert list(_records(history, "job")) == [DeltaCommit(1, 4, None, True), DeltaCommit(0, 3, "a", True)]


def test_commit_that_restore_table_undid_is_not_live() -> None:
    history = [
        written(4, 4, "new"),
        other(3, "RESTORE", version="0", timestamp=None),
        written(2, 5, "old"),
        written(1, 4, "old"),
        written(0, 3, "a"),
    ]
    commits = list(_records(history, "job"))
    assert [(commit.version, commit.is_live) for commit in commits] == [(4, True), (2, False), (1, False), (0, True)]
    assert live_digests(commits, 0) == {3: "a", 4: "new"}
    assert live_digests(commits, 4) == {4: "new"}


@pytest.mark.parametrize(
    ("commits", "version"),
    [
        ([], None),
        ([(1, 4, True), (0, 3, True)], None),
        ([(2, 5, False), (1, 4, False), (0, 3, True)], 2),
        ([(4, 4, True), (2, 5, False), (1, 4, False), (0, 3, True)], 2),
        ([(4, 6, True), (2, 5, False), (0, 3, True)], None),
        ([(1, 0, False)], 1),
    ],
    ids=["no commit", "none undone", "undone", "replayed in part", "passed since", "all undone"],
)
def test_undone_commit_counts_while_its_batch_is_ahead(
    commits: list[tuple[int, int, bool]], version: int | None
) -> None:
    assert undone_version([DeltaCommit(at, batch, None, live) for at, batch, live in commits]) == version


@pytest.mark.parametrize(
    ("recorded", "given", "same"),
    [("a", "a", True), ("a", "b", False), (None, "b", True), ("a", None, True)],
    ids=["same", "other", "earlier version", "unknown"],
)
def test_record_without_a_digest_is_of_its_number(recorded: str | None, given: str | None, same: bool) -> None:
    assert Batch("job", 1, "a", None, digest=given).is_recorded_as(recorded) is same
