"""Changelogs of streams with retractions: the current matches, in a DataFrame or a table."""

from __future__ import annotations

from collections.abc import Callable

from perseid.api.arguments import Frame


def current_matches(changes: Frame) -> Frame:
    """The current matches of a changelog: those that were emitted and not retracted, one row each.

    ``changes`` is a batch DataFrame of the output of a stream with retractions, in any order; :func:`merge_into` is for a
    running stream.
    """
    from perseid.spark.changes import fold

    return fold(changes)


def merge_into(table: str, *, using: str | None = None) -> Callable[[Frame, int], None]:
    """A function for ``writeStream.foreachBatch`` that maintains a table of the current matches of a changelog.

    For each batch the last change of every match is merged into ``table``: an emitted match is inserted or replaced,
    and a retracted match is deleted. A batch that is retried changes nothing. The table has the changelog's columns and
    supports ``MERGE``, as Delta tables do; if it does not exist, it is created in the format ``using``, if one is
    given. It belongs to one checkpoint: a query with a new checkpoint needs an empty table.
    """
    from perseid.spark.changes import FoldInto

    return FoldInto(table, using)
