"""Tables of subscriptions that change while a query runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from perseid.api.arguments import Frame
from perseid.api.subscriptions import (
    PairOptions,
    SubscriptionQueries,
    SubscriptionSet,
    add_note_of_wrong_text,
    match_subscriptions_on_spark,
    subscriptions,
)
from perseid.deprecated import deprecated_method
from perseid.engines.joins.table import append, checked_folder, files_in, listed, read_file, standing
from perseid.engines.trees.stream import Documents
from perseid.errors import PerseidError, UnknownNameError, nearest
from perseid.viz.words import pluralize

if TYPE_CHECKING:
    import pyarrow as pa


class SubscriptionTable(SubscriptionQueries):
    """A folder of subscriptions; a running query applies additions and removals at its next batch.

    A new subscription matches pairs of documents from the same batch on; a removed one matches none. On Spark the XML
    of pairs is output with ``results=True`` only, and then for every subscription.
    """

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
        current = self.current()
        unknown = next((name for name in names if name not in current), None)
        if unknown is not None:
            raise UnknownNameError(
                f"Unknown subscription {unknown!r}; none was removed.",
                nearest=nearest(unknown, current),
                hint="table.current() lists the subscriptions." if current else "The table has no subscriptions.",
            )
        append(self._folder, listed(dict.fromkeys(names)))

    def current(self) -> dict[str, str]:
        """The current subscriptions, by owner."""
        return standing(read_file(self._folder, name) for name in files_in(self._folder))

    def _match_local(self, documents: Documents, expand: bool, results: bool | None) -> pa.Table:
        return SubscriptionSet(self.current())._match_local(documents, expand, results)

    def _match_on_spark(self, documents: Documents, options: PairOptions) -> Frame:
        return match_subscriptions_on_spark(
            documents, self._folder, options, results=bool(options.results), always=True
        )

    standing = deprecated_method("standing", current)

    def explain(self) -> str:
        """The number of current subscriptions, the parts that they share, and the searched tree patterns."""
        files = pluralize(len(files_in(self._folder)), "file")
        current = self.current()
        header = f"{self._folder}: {files}, applied by a stream in the order of their numbers\n"
        return header + (subscriptions(current).explain() if current else "no current subscription\n")


def subscription_table(folder: str | os.PathLike[str]) -> SubscriptionTable:
    """Subscriptions in a folder that driver and executors share; it is created with the first subscription."""
    return SubscriptionTable(checked_folder(folder))
