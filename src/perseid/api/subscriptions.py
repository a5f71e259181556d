"""Sets of subscriptions, and their queries over streams of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from perseid.api.arguments import Frame, Observation, SparkData, all_on_spark, require_no_spark_options
from perseid.api.keywords import check_keywords
from perseid.api.stream_kinds.registry import kind_of
from perseid.api.stream_options import MAX_SHARDS
from perseid.deprecated import deprecated_method
from perseid.engines.joins.graph import ENDLESS, joins_of
from perseid.engines.joins.plan import DEFAULT_QUERY_PARTITIONS
from perseid.engines.joins.publication import Publication
from perseid.engines.joins.table import files_in, read_file, standing
from perseid.engines.trees.stream import Documents
from perseid.errors import EventDataError, PerseidError, UnsupportedError
from perseid.lang.printer import print_duration
from perseid.lang.xscl_parts import read_subscription
from perseid.runtime.document_columns import DOCUMENT
from perseid.semantics.subscriptions import normal_forms
from perseid.semantics.values import has_lone_surrogate
from perseid.viz.words import pluralize

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PairOptions:
    """The parameters of ``match`` over DataFrames of documents."""

    expand: bool
    results: bool | None
    query_partitions: int | None
    rejected: bool
    checkpoint: str | None
    observation: Observation | None


class SubscriptionQueries:
    """Base of subscriptions that match documents; a subclass matches local ones and those of DataFrames."""

    def _match_local(self, documents: Documents, expand: bool, results: bool | None) -> pa.Table:
        raise NotImplementedError

    def _match_on_spark(self, documents: Documents, options: PairOptions) -> Frame:
        raise NotImplementedError

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
        stream: Documents,
        *,
        expand: bool = False,
        results: bool | None = None,
        query_partitions: int | None = None,
        rejected: bool = False,
        checkpoint: str | None = None,
        observation: Observation | None = None,
    ) -> pa.Table | Frame:
        """The pairs of documents that subscriptions match: an Arrow table, or a DataFrame for documents of a DataFrame.

        A row has ``subscriptions``, all that match the pair, and ``left`` and ``right``, the columns of the two
        documents without their bodies. With ``expand`` there is a row for each ``subscription``, and ``values``, the
        variables that were compared with their texts.

        ``result`` is the XML that SELECT constructs from the pair; pairs with several results have a row for each. The
        column exists if any subscription has SELECT or PUBLISH, and is null for subscriptions with neither. With
        ``results=True`` these have a result too, ``<result>`` with the matches of both blocks; with ``results=False``
        nothing is constructed. On Spark, bodies of documents are retained for it while windows are open.

        On Spark, subscriptions are split into ``query_partitions``, about as many as there are cores: each receives the
        results of all documents. ``rejected``, ``checkpoint`` and ``observation`` are as in ``Pattern.match``.
        """
        documents = _documents(stream)
        if all_on_spark(data for _, data in documents.inputs()):
            options = PairOptions(expand, results, query_partitions, rejected, checkpoint, observation)
            return self._match_on_spark(documents, options)
        require_no_spark_options(
            query_partitions=query_partitions, rejected=rejected, checkpoint=checkpoint, observation=observation
        )
        return self._match_local(documents, expand, results)

    detect = deprecated_method("detect", match)


class SubscriptionSet(SubscriptionQueries):
    """Subscriptions by owner; each relates two documents by values that they have in common."""

    def __init__(self, texts: Mapping[Any, str]) -> None:
        self._texts = _by_name(texts)
        self._publication = Publication(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"<{pluralize(len(self), 'subscription')}>"

    def _match_local(self, documents: Documents, expand: bool, results: bool | None) -> pa.Table:
        from perseid.engines.joins.local import match_locally  # its kernels are loaded when they are first needed

        return match_locally(documents, self._publication, expand, results)

    def _match_on_spark(self, documents: Documents, options: PairOptions) -> Frame:
        if len(self._publication.levels) > 1:
            raise UnsupportedError(
                "On Spark, a subscription cannot read a stream that another subscription of the same set publishes.",
                hint="Run the publishing subscriptions first, write their results, and match the others over these documents.",
            )
        results = self._publication.constructs if options.results is None else options.results
        always = options.results is True
        return match_subscriptions_on_spark(documents, self._texts, options, results=results, always=always)

    def explain(self) -> str:
        """The number of subscriptions, the parts that they share, and the searched tree patterns."""
        from perseid.engines.joins.register import index_of

        levels = [index_of(level.program) for level in self._publication.levels]
        joins = {joins_of(template) for index in levels for template in index.templates}
        templates = {template for index in levels for template in index.templates}
        chains = list(dict.fromkeys(chain for index in levels for chain in index.chains))
        entries, prefixes = (
            sum(counts)
            for counts in zip(
                *((len(level_entries.numbers), level_entries.prefixes) for level_entries in levels), strict=True
            )
        )
        widest = max(index.widest() for index in levels)
        retained = "without limit" if widest >= ENDLESS else f"for at most {print_duration(widest)}"
        lines = [
            f"{pluralize(len(self), 'subscription')}, {pluralize(entries, 'direction')}: a JOIN has two, since either document may come first",
            f"  templates: {len(joins)} by equalities only, {len(templates)} by all comparisons; {pluralize(prefixes, 'prefix', 'prefixes')}",
            f"  state: values of documents are retained {retained}; on Spark in each query partition",
            f"  {pluralize(len(chains), 'chain is', 'chains are')} matched in documents, once for all subscriptions:",
        ]
        shown = [f"    {chain.stream}{chain.tree}" for chain in chains]
        lines += [*shown[:20], *([f"    and {len(shown) - 20} more"] if len(shown) > 20 else [])]
        if len(levels) > 1:
            parts = ", then ".join(f"{len(level.texts):,}" for level in self._publication.levels)
            lines.append(f"  evaluated in order, since some read what others publish: {parts}")
        return "\n".join(lines) + "\n"


def _by_name(texts: Mapping[Any, str]) -> dict[str, str]:
    """The texts by owner. In output rows, names of owners are strings."""
    named: dict[str, str] = {}
    for owner, text in texts.items():
        name = str(owner)
        if name in named:
            raise PerseidError(
                f"Two subscriptions have the name {name!r}.", hint="Use names that differ as strings, unlike 1 and '1'."
            )
        if has_lone_surrogate(f"{name}{text}"):
            raise PerseidError(
                f"The subscription {name!r} has a lone surrogate, which is no Unicode character.", hint="Remove it."
            )
        named[name] = text
    return named


def _documents(stream: object) -> Documents:
    """The stream as documents; raises if it has none."""
    hint = "Use ps.documents(data, body='xml', type='feed')."
    return kind_of(stream).as_documents(
        stream, EventDataError("Subscriptions require a stream of documents.", hint=hint)
    )


def match_subscriptions_on_spark(
    documents: Documents, subscriptions: Mapping[str, str] | str, options: PairOptions, *, results: bool, always: bool
) -> Frame:
    """Match a stream of documents with subscriptions, as texts by owner or in a folder."""
    tables = documents.inputs()
    frames = [data for _, data in tables]
    query_partitions = DEFAULT_QUERY_PARTITIONS if options.query_partitions is None else options.query_partitions
    if not isinstance(query_partitions, int) or not 1 <= query_partitions <= MAX_SHARDS:
        raise EventDataError(f"query_partitions={query_partitions!r}: expected a number from 1 to {MAX_SHARDS:,}.")
    from perseid.engines.joins.binding import NAME, bind_subscriptions
    from perseid.spark.documents import describe_table, prepare_rows
    from perseid.spark.query_driver import RunOptions, SparkTables
    from perseid.spark.stream import are_streams

    streaming = are_streams(frames)
    documents.require_streams()
    if isinstance(subscriptions, str) and not streaming:
        subscriptions = _standing_texts(subscriptions)
    schemas = [describe_table(frame, event_type) for event_type, frame in tables]
    query = bind_subscriptions(
        documents, subscriptions, schemas, expand=options.expand, results=results, always=always, rejected=options.rejected,
        query_partitions=query_partitions,
    )  # fmt: skip
    assert query.prepare is not None
    rows = prepare_rows(query.prepare, frames)
    prepared = replace(documents.events, data={NAME: rows}, id=(DOCUMENT,), order_by=(), key=())
    return SparkTables.of(prepared.tables()).run(
        query, RunOptions(checkpoint=options.checkpoint, observation=options.observation)
    )


def _standing_texts(folder: str) -> dict[str, str]:
    """The subscriptions that a folder has now."""
    texts = standing(read_file(folder, name) for name in files_in(folder))
    if not texts:
        raise PerseidError("The table has no subscriptions.", hint="Use table.add({'ann': 'Feed//…'}).")
    return texts


@check_keywords
def subscriptions(texts: str | Iterable[str] | Mapping[Any, str]) -> SubscriptionSet:
    """Subscriptions from their texts in XSCL, by owner.

    ``"Feed//item->a[/author->x] FOLLOWED BY{x = y, 1 day} Feed//item->b[/author->y]"``: one, several, or several by name. A
    text may also be a pattern: two tree steps with an equality between them, and ``selection followed by``.
    """
    if isinstance(texts, str):
        texts = {"subscription": texts}
    elif not isinstance(texts, Mapping):
        texts = {f"subscription{number}": text for number, text in enumerate(texts, 1)}
    if not texts:
        raise PerseidError(
            "No subscription is given.", hint="Use ps.xscl.subscriptions('Feed//a->x JOIN{x = y, 1 day} Feed//b->y')."
        )
    try:
        return SubscriptionSet(texts)
    except PerseidError as error:
        add_note_of_wrong_text(error, texts)
        raise


def add_note_of_wrong_text(error: PerseidError, texts: Mapping[Any, str]) -> None:
    """Add a note with the name of the invalid subscription, if there are several."""
    if len(texts) > 1:
        wrong = next((name for name, text in texts.items() if _is_wrong(text)), None)
        if wrong is not None:
            error.add_note(f"In the subscription {wrong!r}.")


def _is_wrong(text: str) -> bool:
    try:
        normal_forms(read_subscription(text))
    except PerseidError:
        return True
    return False
