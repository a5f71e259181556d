"""Subscriptions, as users hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perseid.declare import MAX_SHARDS, named_words
from perseid.engines.joins.plan import DEFAULT_SHARES
from perseid.errors import EventDataError, NotYetError, PatternError, PerseidError
from perseid.lang.xscl import parse_subscription
from perseid.local.documents import Documents
from perseid.local.rows import is_spark, require_spark


class SubscriptionSet:
    """Subscriptions by whose they are; each relates two documents by values they have in common."""

    def __init__(self, texts: Mapping[Any, str]) -> None:
        from perseid.engines.joins.index import Subscriptions  # its kernels are loaded when they are first needed
        from perseid.engines.joins.register import Register
        from perseid.engines.joins.table import listed
        from perseid.engines.joins.values import Values

        self._count = len(texts)
        self._table = listed({str(name): text for name, text in texts.items()})
        self._index = Subscriptions(Values())
        self._register = Register(self._index)
        self._register.add(_checked(texts))

    @staticmethod
    def check(texts: Mapping[Any, str]) -> None:
        """Refuse what nothing is made of yet."""
        _checked(texts)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<{len(self):,} subscriptions>"

    @named_words
    def match(self, stream: Documents, *, expand: bool = False) -> Any:
        """The pairs of documents that subscriptions ask for, in documents of this process: an Arrow table.

        A row has ``subscriptions``, all that the pair is due to, and ``left`` and ``right``, the columns of the two documents
        without their bodies. With ``expand`` there is a row for each ``subscription``, and ``values``, the variables that
        were compared with their texts.
        """
        if not isinstance(stream, Documents):
            raise EventDataError(
                "Subscriptions are asked of documents.",
                hint="Declare them: ps.documents(data, body='xml', type='feed').",
            )
        for _, data in stream.inputs():
            if is_spark(data):
                raise NotYetError(
                    "Subscriptions are not found in Spark DataFrames yet.", hint="Collect the documents: df.toArrow()."
                )
        from perseid.local.joins import join_here

        return join_here(stream, self._index, expand)

    @named_words
    def detect(
        self,
        stream: Documents,
        *,
        expand: bool = False,
        shares: int = DEFAULT_SHARES,
        rejected: bool = False,
        checkpoint: str | None = None,
        observation: Any = None,
    ) -> Any:
        """The pairs of documents that subscriptions ask for, of a Spark DataFrame, batch or stream: rows as :meth:`match` has.

        Subscriptions are split into ``shares``, about as many as there are cores: each is given what was found in all
        documents. ``rejected``, ``checkpoint`` and ``observation`` are as in ``Pattern.detect``.
        """
        return detect_given(
            stream, self._table, expand=expand, shares=shares, rejected=rejected, checkpoint=checkpoint, observation=observation,
        )  # fmt: skip

    def explain(self) -> str:
        """How many there are, what they share, and what is looked for in documents."""
        index = self._index
        entries = len(index.numbers)
        from perseid.engines.joins.graph import joins_of

        joins = set(map(joins_of, index.templates))
        lines = [
            f"{len(self):,} subscriptions, {entries:,} ways round: a JOIN has two, as either document may come first",
            f"  templates: {len(joins)} of equalities alone, {len(index.templates)} with constants; {index.prefixes:,} prefixes",
            f"  {len(index.chains)} chains are looked for in documents, each once for all:",
        ]
        shown = [f"    {chain.stream}{chain.tree}" for chain in index.chains]
        return (
            "\n".join([*lines, *shown[:20], *([f"    and {len(shown) - 20} more"] if len(shown) > 20 else [])]) + "\n"
        )


def detect_given(stream: Documents, table: Any, *, shares: int, **how: Any) -> Any:
    """Ask a stream of documents, by a table of subscriptions or the folder of one."""
    if not isinstance(stream, Documents):
        raise EventDataError(
            "Subscriptions are asked of documents.", hint="Declare them: ps.documents(df, body='xml', type='feed')."
        )
    for _, data in stream.inputs():
        require_spark(data)
    if not isinstance(shares, int) or not 1 <= shares <= MAX_SHARDS:
        raise EventDataError(f"shares={shares!r}: it is a number from 1 to {MAX_SHARDS}.")
    from perseid.spark.subscriptions import detect_subscriptions

    return detect_subscriptions(table, stream, shares=shares, **how)


def _checked(texts: Mapping[Any, str]) -> Mapping[Any, str]:
    for name, text in texts.items():
        low = text.lower() if isinstance(text, str) else ""
        if "select" not in low and "publish" not in low:
            continue
        read = parse_subscription(text)
        if read.select is not None or read.publish is not None:
            raise NotYetError(
                f"{name}: SELECT and PUBLISH are read, and nothing makes documents of them yet.",
                hint="Leave them out: a row has both documents.",
            )
    return texts


@named_words
def subscriptions(texts: str | Iterable[str] | Mapping[Any, str]) -> SubscriptionSet:
    """Subscriptions from their texts in XSCL, by whose they are.

    ``"Feed//item->a[/author->x] FOLLOWED BY{x = y, 1 day} Feed//item->b[/author->y]"``: one, several, or several by name.
    """
    if isinstance(texts, str):
        texts = {"subscription": texts}
    elif not isinstance(texts, Mapping):
        texts = {f"subscription{number}": text for number, text in enumerate(texts, 1)}
    if not texts:
        raise PerseidError(
            "There is no subscription.", hint="Give one: ps.subscriptions('Feed//a->x JOIN{x = y, 1 day} Feed//b->y')."
        )
    try:
        return SubscriptionSet(texts)
    except PatternError as error:
        if len(texts) > 1:
            wrong = next((name for name, text in texts.items() if _is_wrong(text)), None)
            error.add_note(f"In the subscription {wrong!r}.")
        raise


def _is_wrong(text: str) -> bool:
    try:
        parse_subscription(text)
    except PatternError:
        return True
    return False
