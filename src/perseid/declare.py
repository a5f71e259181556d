"""Streams as users declare them: rows, and which of their columns mean what."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from perseid.engines.contract import ARRIVAL, WATERMARK
from perseid.engines.disorder.strategy import Buffer, Strategy, strategy_of
from perseid.engines.trees.formats import FORMATS, JSON, ROW, XML
from perseid.errors import EventDataError, UnsupportedError, did_you_mean
from perseid.lang.parser import parse_duration
from perseid.local.documents import Documents
from perseid.local.rows import Events

P = ParamSpec("P")
R = TypeVar("R")

MAX_SHARDS = 4_096
MIN_STATE = 1 << 16
_EVENT_WORDS = (
    "time", "id", "order_by", "strictly_later", "key", "dedupe", "order", "idle", "shards", "max_state", "disorder",
)  # fmt: skip
"""What is said of documents as of events."""
_OTHER_WORDS = {"partition_by": "key", "strategy": "disorder", "timestamp": "time"}
"""Words that people try, and what they mean by them."""
_DOCUMENT_WORDS = ("body", "path", "namespaces", "trusted", "format")
"""Words of documents that events have not."""


def named_words(run: Callable[P, R]) -> Callable[P, R]:
    """Refuse a keyword that the function does not take, with the word that was meant and where it is said."""
    taken = inspect.signature(run).parameters
    own = [name for name, one in taken.items() if one.kind is one.KEYWORD_ONLY]

    @wraps(run)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for word in kwargs:
            if word not in taken:
                raise _unknown_word(run.__name__, word, own)
        return run(*args, **kwargs)

    return checked


def _unknown_word(what: str, word: str, own: list[str]) -> EventDataError:
    meant = _OTHER_WORDS.get(word, word)
    stream = [*_EVENT_WORDS, "type"]
    if word == "watermark":
        hint = "A watermark is set on the DataFrame: df.withWatermark('ts', '10 minutes')."
    elif meant in _DOCUMENT_WORDS and meant not in own:
        hint = f"It is said of the documents: ps.documents(data, {meant}=…)."
    elif meant in stream and meant not in own:
        hint = f"It is said of the stream: ps.events(data, {meant}=…)."
    else:
        hint = f"It takes: {', '.join(own)}." if own else "It takes no words by name."
        if what != events.__name__:
            hint += " What columns mean is said of the stream: ps.events(data, time=…)."
    said = f" Did you mean {meant!r}?" if meant in own else did_you_mean(word, own)
    return EventDataError(f"{what} takes no {word!r}.{said}", hint=hint)


@named_words
def events(
    data: Any,
    *,
    time: str | Mapping[str, str] = "ts",
    type: str = "type",
    id: str | Iterable[str] | Mapping[str, Any] = (),
    order_by: str | Iterable[str] | Mapping[str, Any] = (),
    strictly_later: bool = False,
    key: str | Iterable[str] | Mapping[str, Any] = (),
    dedupe: bool = False,
    order: str = WATERMARK,
    idle: str | dt.timedelta | None = None,
    shards: int = 16,
    max_state: int = 1 << 28,
    disorder: str | Strategy = "buffer",
) -> Events:
    """Declare a stream of events once: rows and which of their columns mean what.

    ``ps.events(rows, time="timestamp", type="kind", key="user")`` is then given to ``match``, ``detect`` and the others.

    ``data`` is a list of dicts, a pandas frame, an Arrow table, or paths of Parquet files or folders. ``id`` names the columns that make an event this
    event and no other; ``order_by`` decides among events of one time; ``strictly_later`` demands that later steps
    have later times. ``key`` partitions the events for patterns that do not say ``partition by``; ``"a.b"`` is the
    column of that name or, where there is none, the field ``b`` of the column ``a``. With ``dedupe`` rows of equal
    time, key and identity are one event.

    Several inputs are given by event type, ``{"Login": logins, "Transfer": transfers}``; then ``time``, ``key``, ``id``
    and ``order_by`` may be dicts by event type too.

    The rest is for streaming DataFrames, and changes no answer of a finished one. ``order`` says what time goes by:
    ``"watermark"`` puts events in order and reports what the watermark has made final; ``"arrival"`` trusts that the events
    of each key arrive in order, and reports at once. With ``idle``, as in ``"1 minute"``, time goes on by the clock once the
    source has been silent for so long. Keys share ``shards`` states of at most ``max_state`` bytes each.

    ``disorder`` says what is told of events that arrive in the wrong order, before the watermark has made them final:
    ``"buffer"`` waits for it; ``"assemble"`` tells a match once it is complete and nothing to come can prove it wrong;
    ``"conservative"`` tells what promises in the stream have made final (:class:`Conservative` names their columns);
    ``"adaptive"`` waits for as long as all but a share of the events are late (:class:`Adaptive` sets it); ``"auto"``
    assembles where that can be, and else buffers. Two tell at once and take back, as a changelog (see :func:`fold` and
    :func:`fold_into`): ``"aggressive"`` for every pattern, ``"early"`` for those that can be assembled.
    """
    if order not in (WATERMARK, ARRIVAL):
        raise EventDataError(f"order={order!r} is neither 'watermark' nor 'arrival'.")
    if not isinstance(shards, int) or not 1 <= shards <= MAX_SHARDS:
        raise EventDataError(f"shards={shards!r}: it is a number from 1 to {MAX_SHARDS}.")
    if not isinstance(max_state, int) or max_state < MIN_STATE:
        raise EventDataError(f"max_state={max_state!r}: it is a number of bytes, {MIN_STATE} at least.")
    strategy = strategy_of(disorder)
    if order == ARRIVAL and not isinstance(strategy, Buffer):
        raise EventDataError(
            f"order='arrival' trusts that events arrive in order, and disorder={strategy.name!r} that they do not.",
            hint="Leave one of them out.",
        )
    several = isinstance(data, Mapping)
    kept = {kind: _kept(rows) for kind, rows in data.items()} if several else _kept(data)
    return Events(
        kept,
        time,
        type,
        _names(id),
        _names(order_by),
        strictly_later,
        _names(key),
        dedupe,
        order,
        _idle(idle),
        shards,
        max_state,
        strategy,
    )


def documents(
    data: Any,
    *,
    body: str | None = None,
    path: str | None = None,
    type: str | None = None,
    namespaces: Mapping[str, str] | None = None,
    trusted: bool = False,
    format: str = XML,
    **rows: Any,
) -> Documents:
    """Declare a stream of documents once: steps of patterns may be tree patterns over them.

    ``body`` names the column that has the documents, as text or as bytes in any encoding; ``path`` names a column of paths
    or URIs instead, each of a document that is read in pieces where it lies, however large. ``type`` names the column that
    has the name before ``<<`` in a step; without it every document is asked. ``namespaces`` says what prefixes in tree
    patterns stand for. ``trusted`` leaves out the proof that documents are well formed: it is for those that you wrote.

    Documents are XML. With ``format="json"`` the body has JSON: its root is ``/json``, members are elements of their name, and
    so is each item of an array. With ``format="row"`` there is no body: every row is a document, with the root ``/row`` and
    its columns as elements.

    All else (``time``, ``key``, ``id``, …) is as in :func:`events`, and several tables are given by type, too.
    """
    _require_source(body, path, format)
    for word in ("id", "order_by", "key", "time"):
        if isinstance(rows.get(word), Mapping):
            raise EventDataError(f"{word}= is the same for all tables of documents.", hint="Name one column for all.")
    for prefix, uri in (namespaces or {}).items():
        if not isinstance(prefix, str) or not isinstance(uri, str):
            raise EventDataError("Namespaces are given by prefix: namespaces={'atom': 'http://www.w3.org/2005/Atom'}.")
    if namespaces and format != XML:
        raise EventDataError(
            f"Namespaces are of XML, and these documents have format={format!r}.", hint="Leave one out."
        )
    for word in rows:
        if word not in _EVENT_WORDS:
            raise EventDataError(
                f"Nothing about documents is called {word!r}."
                + did_you_mean(word, [*_EVENT_WORDS, *_DOCUMENT_WORDS, "type"])
            )
    declared = events(data, **rows)
    given = tuple(sorted((namespaces or {}).items()))
    return Documents(declared, body, path, type, given, bool(trusted), format)


def _require_source(body: str | None, path: str | None, format: str) -> None:
    """That it is said where documents are, as far as their format needs it."""
    if format not in FORMATS:
        raise EventDataError(
            f"Documents of format {format!r} are not read.{did_you_mean(str(format), FORMATS)}",
            hint="They are XML; or say format='json', or format='row' for rows that are documents themselves.",
        )
    if format == ROW:
        if body is not None or path is not None:
            raise EventDataError(
                "With format='row' a document is a row with all its columns, and none of them is its body.",
                hint="Leave out body= and path=; if the column has JSON, say format='json'.",
            )
        return
    if (body is None) == (path is None):
        hint = "Name the column: ps.documents(df, body='xml'), or ps.documents(df, path='file')."
        if format == JSON:
            hint = "Name the column: ps.documents(df, body='payload', format='json')."
        elif body is None:
            hint += " Rows that are documents themselves have format='row'."
        raise EventDataError(
            "Documents have a body or a path." if body is None else "Documents have a body or a path, not both.",
            hint=hint,
        )
    if path is not None and format == JSON:
        raise UnsupportedError(
            "JSON is read from a column, and these documents are given by their paths.",
            hint="Read the files into a column, as spark.read.text(…, wholetext=True) does, and name it: body='value'.",
        )


def _idle(given: str | dt.timedelta | None) -> int | None:
    if given is None:
        return None
    micros = given // dt.timedelta(microseconds=1) if isinstance(given, dt.timedelta) else parse_duration(str(given))
    if not isinstance(micros, int) or micros < 1_000_000:
        raise EventDataError(f"idle={given!r}: it is a duration of a second at least, such as '1 minute'.")
    return micros


def _kept(data: Any) -> Any:
    """Rows that can be read but once are read now: what is declared once is asked for its columns, and used, often."""
    return list(data) if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__") else data


def _names(names: Any) -> Any:
    if isinstance(names, Mapping):
        return {kind: _names(of_kind) for kind, of_kind in names.items()}
    return (names,) if isinstance(names, str) else tuple(names)
