"""Functions that declare streams: rows, and the meaning of their columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TypeVar

from perseid.api.keywords import check_keywords
from perseid.api.local_inputs import reusable_rows
from perseid.api.stream_options import StreamOptions, require_options
from perseid.engines.disorder.strategy import Buffer, Strategy, strategy_of
from perseid.engines.sequence.stream import Events
from perseid.engines.trees.formats import FORMATS, JSON, ROW, XML
from perseid.engines.trees.stream import Documents
from perseid.errors import EventDataError, UnsupportedError, nearest
from perseid.runtime.watermark import ARRIVAL, WATERMARK
from perseid.semantics.durations import micros_of
from perseid.tables.column_names import ColumnName, NamesByType, names_by_type, require_name, require_names
from perseid.tables.rows import is_spark

Data = TypeVar("Data")
"""Type of rows: a DataFrame of Spark, or rows of this process."""

MAX_AHEAD_US = 10_000 * 86_400 * 1_000_000


@check_keywords
def events(
    data: Data,
    *,
    time: ColumnName | Mapping[str, ColumnName] = "ts",
    type: ColumnName = "type",
    id: NamesByType = (),
    order_by: NamesByType = (),
    strictly_later: bool = False,
    key: NamesByType = (),
    dedupe: bool = False,
    order: str = WATERMARK,
    disorder: str | Strategy = "buffer",
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
    options: StreamOptions | None = None,
) -> Events[Data]:
    """Declare a stream of events: rows and the meaning of their columns.

    ``ps.events(rows, time="timestamp", type="kind", key="user")`` is then given to ``match`` and the other methods of
    patterns.

    ``data`` is a DataFrame of Spark, or local rows: a list of dicts, a pandas or Polars frame, an Arrow table, a DuckDB
    relation or any object with the Arrow PyCapsule interface, or paths of Parquet, CSV and JSON Lines files. ``id`` names
    the columns of the unique event key; ``order_by`` orders events of equal times; ``strictly_later`` requires that later
    steps have later times. ``key`` partitions the events for patterns without ``partition by``; ``"a.b"`` is the column of
    that name or else the field ``b`` of the column ``a``. With ``dedupe`` rows of equal time, key and identity are one event.

    Several inputs are given by event type, ``{"Login": logins, "Transfer": transfers}``; then ``time``, ``key``, ``id``
    and ``order_by`` may be dicts by event type too.

    The other parameters are for streaming DataFrames and change no result of a batch DataFrame. ``order`` selects how time
    advances: ``"watermark"`` sorts events and emits matches that the watermark has made final; ``"arrival"`` requires that
    the events of each key arrive in order, and emits matches immediately.

    ``disorder`` is the strategy for events that arrive out of order:
    ``"buffer"`` waits for the watermark; ``"assemble"`` emits a match when it is complete and no later event can invalidate
    it; ``"conservative"`` emits matches that punctuations in the stream have made final
    (:class:`perseid.disorder.Conservative` names their columns); ``"adaptive"`` waits for a measured delay that only a small
    share of the events exceeds (:class:`perseid.disorder.Adaptive` sets the share); ``"auto"`` selects ``"assemble"`` if it supports
    every pattern and the lateness is more than a second, and otherwise ``"buffer"``. Two strategies emit early results with retractions, as a changelog
    (:func:`perseid.disorder.current_matches` and :func:`perseid.disorder.merge_into` apply it): ``"aggressive"`` for every
    pattern, ``"early"`` for those that can be assembled.

    ``lateness``, as in ``"10 minutes"``, sets the watermark in place of ``df.withWatermark``. ``max_ahead``, as in
    ``"1 hour"``, is the longest time by which a row may be ahead of its arrival: a row beyond it is rejected before it
    moves the watermark, and counted as ``ahead``. A row arrives when its micro-batch begins. ``max_ahead`` needs ``lateness``.

    ``options`` has the idle timeout, the number of shards and the limits of state and search (:class:`StreamOptions`).
    """
    if order not in (WATERMARK, ARRIVAL):
        raise EventDataError(f"order={order!r}: expected 'watermark' or 'arrival'.")
    stream_options = require_options(options)
    times: str | dict[str, str]
    if isinstance(time, Mapping):
        times = {kind: require_name("events", "time", name) for kind, name in time.items()}
    else:
        times = require_name("events", "time", time)
    type = require_name("events", "type", type)
    ids, ranks, keys = (
        names_by_type(role, named) for role, named in (("id", id), ("order_by", order_by), ("key", key))
    )
    strategy = strategy_of(disorder)
    if order == ARRIVAL and not isinstance(strategy, Buffer):
        raise EventDataError(
            f"order='arrival' requires events in order, and disorder={strategy.name!r} is for events out of order.",
            hint="Remove one of them.",
        )
    delay, bound = lateness_us(lateness), max_ahead_us(max_ahead)
    inputs = data.items() if isinstance(data, Mapping) else None
    rows = reusable_rows(data) if inputs is None else {kind: reusable_rows(one) for kind, one in inputs}
    return Events(
        bound_data(rows, times, bound, delay),
        times,
        type,
        ids,  # type: ignore[arg-type]  # by event type for each of several inputs
        ranks,  # type: ignore[arg-type]
        strictly_later,
        keys,
        dedupe,
        order,
        stream_options.idle_us,
        stream_options.shards,
        stream_options.max_state,
        stream_options.max_steps,
        stream_options.max_matches,
        strategy,
        lateness=delay,
        max_ahead=bound,
    )


@check_keywords
def documents(
    data: Data,
    *,
    body: ColumnName | None = None,
    path: ColumnName | None = None,
    type: ColumnName | None = None,
    namespaces: Mapping[str, str] | None = None,
    trusted: bool = False,
    format: str = XML,
    time: ColumnName = "ts",
    id: NamesByType = (),
    order_by: NamesByType = (),
    strictly_later: bool = False,
    key: NamesByType = (),
    dedupe: bool = False,
    order: str = WATERMARK,
    disorder: str | Strategy = "buffer",
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
    options: StreamOptions | None = None,
) -> Documents[Data]:
    """Declare a stream of documents: steps of patterns may be tree patterns.

    ``body`` names the column with the documents, as text or as bytes in any encoding; ``path`` names a column of paths
    or URIs instead: each document is read in chunks from its location, at any size. ``type`` names the column with
    the name before ``<<`` in a step; without it steps match every document. ``namespaces`` maps the prefixes in tree
    patterns. ``trusted`` skips the check that documents are well formed: it is for documents that you produce yourself.

    Documents are XML. With ``format="json"`` the body has JSON: its root is ``/json``. Each member of an object, and each
    item of an array in a member, is an element with the name of the member. With ``format="row"`` there is no body: every row is a document, with the root ``/row`` and
    its columns as elements.

    The other parameters are those of :func:`events`; several tables are given by type, too.
    """
    body, path, type = (
        None if name is None else require_name("documents", role, name)
        for role, name in (("body", body), ("path", path), ("type", type))
    )
    for role, named in (("id", id), ("order_by", order_by), ("key", key), ("time", time)):
        if isinstance(named, Mapping):
            raise EventDataError(f"{role}= is the same for all tables of documents.", hint="Name one column for all.")
    time = require_name("documents", "time", time)
    ids, ranks, keys = (
        require_names("documents", role, named) for role, named in (("id", id), ("order_by", order_by), ("key", key))
    )
    _require_source(body, path, format)
    for prefix, uri in (namespaces or {}).items():
        if not isinstance(prefix, str) or not isinstance(uri, str):
            raise EventDataError(
                "namespaces= expected a dict of URIs by prefix.",
                hint="Use namespaces={'atom': 'http://www.w3.org/2005/Atom'}.",
            )
    if namespaces and format != XML:
        raise EventDataError(
            f"namespaces= applies to XML, and these documents have format={format!r}.", hint="Remove one of them."
        )
    declared = events(
        data, time=time, id=ids, order_by=ranks, strictly_later=strictly_later, key=keys, dedupe=dedupe, order=order,
        disorder=disorder, lateness=lateness, max_ahead=max_ahead, options=options,
    )  # fmt: skip
    return Documents(declared, body, path, type, tuple(sorted((namespaces or {}).items())), bool(trusted), format)


def _require_source(body: str | None, path: str | None, format: str) -> None:
    """Raise an error unless the column with the documents is declared as their format requires it."""
    if format not in FORMATS:
        raise EventDataError(
            f"Unknown document format {format!r}.",
            nearest=nearest(str(format), FORMATS),
            hint=f"Available: {', '.join(map(repr, FORMATS))}.",
        )
    if format == ROW:
        if body is not None or path is not None:
            raise EventDataError(
                "With format='row' each row is a document, so body= and path= do not apply.",
                hint="Remove them; if the column has JSON, use format='json'.",
            )
        return
    if (body is None) == (path is None):
        hint = "Use ps.documents(df, body='xml') or ps.documents(df, path='file')."
        if format == JSON:
            hint = "Use ps.documents(df, body='payload', format='json')."
        elif body is None:
            hint += " If each row is a document, use format='row'."
        raise EventDataError(
            "Either body= or path= is required."
            if body is None
            else "Both body= and path= are given: expected one of them.",
            hint=hint,
        )
    if path is not None and format == JSON:
        raise UnsupportedError(
            "path= does not support JSON: JSON is read from a column.",
            hint="Read the files into a column with spark.read.text(…, wholetext=True) and use body='value'.",
        )


def lateness_us(lateness: str | dt.timedelta | None) -> int | None:
    micros = micros_of(lateness, "lateness")
    if micros is not None and micros < 0:
        raise EventDataError(f"lateness={lateness!r}: expected a duration of zero or more, such as '10 minutes'.")
    return micros


def max_ahead_us(max_ahead: str | dt.timedelta | None) -> int | None:
    micros = micros_of(max_ahead, "max_ahead")
    if micros is not None and not 0 < micros <= MAX_AHEAD_US:
        raise EventDataError(
            f"max_ahead={max_ahead!r}: expected a duration above zero and of at most 10,000 days, such as '1 hour'."
        )
    return micros


def bound_data(data: Data, time: str | Mapping[str, str], max_ahead: int | None, lateness: int | None) -> Data:
    """Apply the bound on times ahead and, above it, the watermark to streaming DataFrames; other data is unchanged."""
    if max_ahead is None and lateness is None:
        return data
    parts = data.values() if isinstance(data, Mapping) else [data]
    if not any(is_spark(one) for one in parts):
        return data
    from perseid.spark.ahead import bound_input

    bounded: Data = bound_input(data, time, max_ahead, lateness)
    return bounded
