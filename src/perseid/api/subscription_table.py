"""Tables of subscriptions that change while a query runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from perseid.api.arguments import Frame, Observation
from perseid.api.streams import named_words
from perseid.api.subscriptions import (
    add_note_of_wrong_text,
    detect_subscriptions,
    require_local_documents,
    subscriptions,
)
from perseid.engines.joins.plan import DEFAULT_SHARES
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
            raise PerseidError(
                "There is no subscription to add.", hint="Give them by whose they are: {'ann': 'Feed//…'}."
            )
        try:
            table = listed({str(whose): text for whose, text in texts.items()})
        except PerseidError as error:
            add_note_of_wrong_text(error, texts)
            raise
        append(self._folder, table)

    def remove(self, whose: Iterable[str]) -> None:
        """Remove subscriptions; if one of the names is unknown, that is an error and none is removed."""
        names = [whose] if isinstance(whose, str) else list(map(str, whose))
        if not names:
            return
        known = self.standing()
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise UnknownNameError(
                f"There is no subscription {unknown!r} to remove.",
                nearest=nearest(unknown, known),
                hint="table.standing() has those that there are; none was removed."
                if known
                else "The table has no subscriptions.",
            )
        append(self._folder, listed(dict.fromkeys(names)))

    def standing(self) -> dict[str, str]:
        """The current subscriptions, by owner."""
        return standing(read_file(self._folder, name) for name in files_in(self._folder))

    @named_words
    def match(self, stream: Documents, *, expand: bool = False, results: bool | None = None) -> pa.Table:
        """The pairs of documents of this process for the current subscriptions; without any, an empty table."""
        there = self.standing()
        if there:
            return subscriptions(there).match(stream, expand=expand, results=results)
        documents = require_local_documents(stream)
        from perseid.engines.joins.local import join_here

        return join_here(documents, (), expand, None, results)

    @named_words
    def detect(
        self,
        stream: Documents,
        *,
        expand: bool = False,
        results: bool = False,
        shares: int = DEFAULT_SHARES,
        rejected: bool = False,
        checkpoint: str | None = None,
        observation: Observation | None = None,
    ) -> Frame:
        """The pairs of documents as in :func:`subscriptions`; on a stream, additions and removals apply while it runs.

        A new subscription matches pairs of documents from the same batch on; a removed one matches none. The XML of
        pairs is output with ``results=True`` only, and then for every subscription.
        """
        return detect_subscriptions(
            stream, self._folder, expand=expand, results=results, always=True, shares=shares, rejected=rejected,
            checkpoint=checkpoint, observation=observation,
        )  # fmt: skip

    def explain(self) -> str:
        """The number of current subscriptions, the parts that they share, and the searched tree patterns."""
        files = many(len(files_in(self._folder)), "file")
        there = self.standing()
        said = f"{self._folder}: {files}, taken by a stream in the order of their numbers\n"
        return said + (subscriptions(there).explain() if there else "no subscription stands\n")


def subscription_table(folder: str | os.PathLike[str]) -> SubscriptionTable:
    """Subscriptions in a folder that driver and executors share; it is created with the first subscription."""
    return SubscriptionTable(checked_folder(folder))
