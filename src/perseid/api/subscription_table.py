"""Tables of subscriptions that change while a query runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from perseid.api.arguments import Frame, Observation, SparkData, require_no_spark_options
from perseid.api.keywords import check_keywords
from perseid.api.subscriptions import (
    add_note_of_wrong_text,
    is_on_spark,
    match_subscriptions_on_spark,
    require_documents,
    subscriptions,
)
from perseid.deprecated import warn_deprecated
from perseid.engines.joins.table import append, checked_folder, files_in, listed, read_file, standing
from perseid.engines.trees.stream import Documents
from perseid.errors import PerseidError, UnknownNameError, nearest
from perseid.viz.words import many

if TYPE_CHECKING:
    import pyarrow as pa


class SubscriptionTable:
    """A folder of subscriptions; a running query applies additions and removals at its next batch."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @property
    def path(self) -> str:
        return self._folder

    def __repr__(self) -> str:
        return f"<subscriptions in {self._folder}>"

    def add(self, texts: Mapping[str, str]) -> None:
        """Add or replace subscriptions, by owner; if one is invalid, that is an error and none is added."""
        if not texts:
            raise PerseidError("No subscription is given.", hint="Use table.add({'ann': 'Feed//…'}): texts by owner.")
        try:
            table = listed({str(owner): text for owner, text in texts.items()})
        except PerseidError as error:
            add_note_of_wrong_text(error, texts)
            raise
        append(self._folder, table)

    def remove(self, owners: Iterable[str]) -> None:
        """Remove subscriptions; if one of the names is unknown, that is an error and none is removed."""
        names = [owners] if isinstance(owners, str) else list(map(str, owners))
        if not names:
            return
        known = self.current()
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise UnknownNameError(
                f"Unknown subscription {unknown!r}; none was removed.",
                nearest=nearest(unknown, known),
                hint="table.current() lists the subscriptions." if known else "The table has no subscriptions.",
            )
        append(self._folder, listed(dict.fromkeys(names)))

    def current(self) -> dict[str, str]:
        """The current subscriptions, by owner."""
        return standing(read_file(self._folder, name) for name in files_in(self._folder))

    @overload
    def match(
        self,
        stream: Documents[SparkData],
        *,
        expand: bool = False,
        results: bool | None = None,
        query_partitions: int | None = None,
        rejected: bool = False,
        checkpoint: str | None = None,
        observation: Observation | None = None,
    ) -> Frame: ...

    @overload
    def match(self, stream: Documents[object], *, expand: bool = False, results: bool | None = None) -> pa.Table: ...

    @check_keywords
    def match(
        self,
        stream: Documents[Any],
        *,
        expand: bool = False,
        results: bool | None = None,
        query_partitions: int | None = None,
        rejected: bool = False,
        checkpoint: str | None = None,
        observation: Observation | None = None,
    ) -> pa.Table | Frame:
        """The pairs of documents as in :meth:`SubscriptionSet.match`; on a stream, additions and removals apply while it runs.

        A new subscription matches pairs of documents from the same batch on; a removed one matches none. On Spark the XML
        of pairs is output with ``results=True`` only, and then for every subscription.
        """
        documents = require_documents(stream)
        if is_on_spark(documents):
            return match_subscriptions_on_spark(
                documents, self._folder, expand=expand, results=bool(results), always=True,
                query_partitions=query_partitions, rejected=rejected, checkpoint=checkpoint, observation=observation,
            )  # fmt: skip
        current = self.current()
        if current:
            return subscriptions(current).match(
                documents,
                expand=expand,
                results=results,
                query_partitions=query_partitions,
                rejected=rejected,
                checkpoint=checkpoint,
                observation=observation,
            )
        require_no_spark_options(
            query_partitions=query_partitions, rejected=rejected, checkpoint=checkpoint, observation=observation
        )
        from perseid.engines.joins.local import join_here

        return join_here(documents, (), expand, None, results)

    def detect(self, stream: Documents[Any], **options: Any) -> Any:
        """The deprecated name of :meth:`match`."""
        warn_deprecated("detect", "match")
        return self.match(stream, **options)

    def standing(self) -> dict[str, str]:
        """The deprecated name of :meth:`current`."""
        warn_deprecated("standing", "current")
        return self.current()

    def explain(self) -> str:
        """The number of current subscriptions, the parts that they share, and the searched tree patterns."""
        files = many(len(files_in(self._folder)), "file")
        current = self.current()
        header = f"{self._folder}: {files}, applied by a stream in the order of their numbers\n"
        return header + (subscriptions(current).explain() if current else "no current subscription\n")


def subscription_table(folder: str | os.PathLike[str]) -> SubscriptionTable:
    """Subscriptions in a folder that driver and executors share; it is created with the first subscription."""
    return SubscriptionTable(checked_folder(folder))
