"""Subscriptions that come and go while a query runs, as users hold them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from perseid.declare import named_words
from perseid.engines.joins.plan import DEFAULT_SHARES
from perseid.engines.joins.table import append, checked_folder, files_in, listed, read_file, standing
from perseid.errors import PerseidError, UnknownNameError, nearest
from perseid.given import Frame, Observation
from perseid.local.documents import Documents
from perseid.subscription_api import detect_given, note_which, require_local_documents, subscriptions
from perseid.viz.words import many

if TYPE_CHECKING:
    import pyarrow as pa


class SubscriptionTable:
    """A folder of subscriptions that is added to; a query that runs over it takes what comes at its next batch."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @property
    def path(self) -> str:
        return self._folder

    def __repr__(self) -> str:
        return f"<subscriptions in {self._folder}>"

    def add(self, texts: Mapping[str, str]) -> None:
        """Add subscriptions, or put others in their place; one that is wrong is refused now, and none is added."""
        if not texts:
            raise PerseidError(
                "There is no subscription to add.", hint="Give them by whose they are: {'ann': 'Feed//…'}."
            )
        try:
            table = listed({str(whose): text for whose, text in texts.items()})
        except PerseidError as error:
            note_which(error, texts)
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
        """The subscriptions that stand, by whose they are."""
        return standing(read_file(self._folder, name) for name in files_in(self._folder))

    @named_words
    def match(self, stream: Documents, *, expand: bool = False, results: bool | None = None) -> pa.Table:
        """What those that stand now find in documents of this process; without any, a table without rows."""
        there = self.standing()
        if there:
            return subscriptions(there).match(stream, expand=expand, results=results)
        require_local_documents(stream)
        from perseid.local.joins import join_here

        return join_here(stream, (), expand, None, results)

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
        observation: Observation = None,
    ) -> Frame:
        """The same as of :func:`subscriptions`; over a stream, subscriptions that come and go are followed.

        One that comes is told of pairs of documents that came in the same batch or later; one that went, of none. Nobody
        knows what is yet to come, so ``results`` have to be asked for; then all have one.
        """
        return detect_given(
            stream, self._folder, expand=expand, results=results, always=True, shares=shares, rejected=rejected,
            checkpoint=checkpoint, observation=observation,
        )  # fmt: skip

    def explain(self) -> str:
        """How many stand, what they share, and what is looked for in documents."""
        files = many(len(files_in(self._folder)), "file")
        there = self.standing()
        said = f"{self._folder}: {files}, taken by a stream in the order of their numbers\n"
        return said + (subscriptions(there).explain() if there else "no subscription stands\n")


def subscription_table(folder: str | os.PathLike[str]) -> SubscriptionTable:
    """Subscriptions in a folder that driver and executors share; it is made with the first that is added."""
    return SubscriptionTable(checked_folder(folder))
