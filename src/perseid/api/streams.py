"""Functions that declare streams: rows, and the meaning of their columns."""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from perseid.engines.disorder.strategy import Buffer, Strategy, strategy_of
from perseid.engines.sequence.stream import Events
from perseid.engines.trees.formats import FORMATS, JSON, ROW, XML
from perseid.engines.trees.stream import Documents
from perseid.engines.uncertain.stream import Belief, Beliefs
from perseid.engines.uncertain.streams import WAYS, Inference, Known, Sampling, Stream
from perseid.errors import EventDataError, UnsupportedError, did_you_mean, type_name
from perseid.lang.parser import parse_duration
from perseid.runtime.search_budget import MAX_LIMIT, MAX_MATCHES, MAX_STEPS
from perseid.runtime.watermark import ARRIVAL, WATERMARK
from perseid.semantics.hidden import HiddenMarkov
from perseid.semantics.values import EPOCH, MICROSECOND
from perseid.tables.rows import is_spark

P = ParamSpec("P")
R = TypeVar("R")
Data = TypeVar("Data")
"""Type of rows: a DataFrame of Spark, or rows of this process."""
NamesByType: TypeAlias = str | Iterable[str] | Mapping[str, str | Iterable[str]]
"""Names of columns, or of columns by event type."""

MAX_SHARDS = 4_096
MIN_STATE = 1 << 16
MAX_AHEAD_US = 10_000 * 86_400 * 1_000_000
_EVENT_WORDS = (
    "time", "id", "order_by", "strictly_later", "key", "dedupe", "order", "idle", "shards", "max_state", "max_steps",
    "max_matches", "disorder", "lateness", "max_ahead",
)  # fmt: skip
"""Parameters that documents and events have in common."""
_OTHER_WORDS = {"partition_by": "key", "strategy": "disorder", "timestamp": "time"}
"""Common wrong names of parameters, with the right ones."""
_DOCUMENT_WORDS = ("body", "path", "namespaces", "trusted", "format")
"""Parameters of documents that events do not have."""
_DECLARED_WITH = {"events", "beliefs", "model", "frames"}
"""Functions that declare a stream: a hint lists their own parameters."""
_OVER_DOCUMENTS = {"perseid.api.subscriptions", "perseid.api.subscription_table", "perseid.api.trees"}
"""Modules with functions over streams of documents."""
_PARAMETERS_IN = {
    "beliefs": {"key": "of", "partition_by": "of", "type": "event", "probability": "p"},
    "model": {"type": "kind", "id": "element"},
}
"""Parameters of other functions, by the function that has another name for them."""


def named_words(run: Callable[P, R]) -> Callable[P, R]:
    """Raise an error for an unknown keyword, with the nearest parameter or the function that takes it."""
    taken = inspect.signature(run).parameters
    own = [name for name, one in taken.items() if one.kind is one.KEYWORD_ONLY]
    over_documents = run.__module__ in _OVER_DOCUMENTS

    @wraps(run)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for word in kwargs:
            if word not in taken:
                raise _unknown_word(run.__name__, word, own, "documents" if over_documents else "events")
        return run(*args, **kwargs)

    return checked


def _unknown_word(what: str, word: str, own: list[str], stream_function: str) -> EventDataError:
    meant = _OTHER_WORDS.get(word, word)
    if meant not in own:
        meant = _PARAMETERS_IN.get(what, {}).get(word, meant)
    declares = what in _DECLARED_WITH
    stream = [*_EVENT_WORDS, "type"]
    if word == "watermark":
        hint = "A watermark is set on the DataFrame: df.withWatermark('ts', '10 minutes')."
    elif meant in _DOCUMENT_WORDS and meant not in own:
        hint = f"It is said of the documents: ps.documents(data, {meant}=…)."
    elif meant in stream and meant not in own and not declares:
        hint = f"It is said of the stream: ps.{stream_function}(data, {meant}=…)."
    else:
        hint = f"It takes: {', '.join(own)}." if own else "It takes no words by name."
        if not declares:
            hint += f" What columns mean is said of the stream: ps.{stream_function}(data, time=…)."
    said = f" Did you mean {meant!r}?" if meant in own else did_you_mean(word, own)
    return EventDataError(f"{what} takes no {word!r}.{said}", hint=hint)


@named_words
def events(
    data: Any,
    *,
    time: str | Mapping[str, str] = "ts",
    type: str = "type",
    id: NamesByType = (),
    order_by: NamesByType = (),
    strictly_later: bool = False,
    key: NamesByType = (),
    dedupe: bool = False,
    order: str = WATERMARK,
    idle: str | dt.timedelta | None = None,
    shards: int = 16,
    max_state: int = 1 << 28,
    max_steps: int = MAX_STEPS,
    max_matches: int = MAX_MATCHES,
    disorder: str | Strategy = "buffer",
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
) -> Events:
    """Declare a stream of events: rows and the meaning of their columns.

    ``ps.events(rows, time="timestamp", type="kind", key="user")`` is then given to ``match``, ``detect`` and the others.

    ``data`` is a list of dicts, a pandas frame, an Arrow table, or paths of Parquet files or folders. ``id`` names the columns of
    the unique event key; ``order_by`` orders events of equal times; ``strictly_later`` requires that later steps
    have later times. ``key`` partitions the events for patterns without ``partition by``; ``"a.b"`` is the
    column of that name or else the field ``b`` of the column ``a``. With ``dedupe`` rows of equal
    time, key and identity are one event.

    Several inputs are given by event type, ``{"Login": logins, "Transfer": transfers}``; then ``time``, ``key``, ``id``
    and ``order_by`` may be dicts by event type too.

    ``max_steps`` and ``max_matches`` bound the search of each pattern, for one key in one call (one ``match``, one shard of a
    batch): so many, and 2,500 steps and 10 matches more for each event of the key. A pattern that exceeds them is a
    :class:`SearchBudgetError`.

    The other parameters are for streaming DataFrames and change no result of a finished one. ``order`` selects how time advances:
    ``"watermark"`` sorts events and emits matches that the watermark has made final; ``"arrival"`` requires that the events
    of each key arrive in order, and emits matches immediately. With ``idle``, as in ``"1 minute"``, time advances by the clock
    after the source has been idle for this long. Keys share ``shards`` states of at most ``max_state`` bytes each.

    ``disorder`` is the strategy for events that arrive out of order:
    ``"buffer"`` waits for the watermark; ``"assemble"`` emits a match when it is complete and no later event can invalidate it;
    ``"conservative"`` emits matches that punctuations in the stream have made final (:class:`Conservative` names their columns);
    ``"adaptive"`` waits as long as events are late, all but a share of them (:class:`Adaptive` sets it); ``"auto"``
    selects ``"assemble"`` for patterns that it supports, ``"buffer"`` for all others. Two strategies emit early results with
    retractions, as a changelog (:func:`fold` and :func:`fold_into` apply it): ``"aggressive"`` for every pattern, ``"early"`` for those that can be assembled.

    ``lateness``, as in ``"10 minutes"``, sets the watermark in place of ``df.withWatermark``. With ``max_ahead``, as in
    ``"1 hour"``, a row with a time further beyond its arrival than that is rejected before it moves the watermark; it is
    counted as ``ahead``. A row arrives when its micro-batch begins. ``max_ahead`` needs ``lateness``.
    """
    if order not in (WATERMARK, ARRIVAL):
        raise EventDataError(f"order={order!r} is neither 'watermark' nor 'arrival'.")
    if not isinstance(shards, int) or not 1 <= shards <= MAX_SHARDS:
        raise EventDataError(f"shards={shards!r}: it is a number from 1 to {MAX_SHARDS}.")
    if not isinstance(max_state, int) or max_state < MIN_STATE:
        raise EventDataError(f"max_state={max_state!r}: it is a number of bytes, {MIN_STATE} at least.")
    for name, limit in (("max_steps", max_steps), ("max_matches", max_matches)):
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
            raise EventDataError(f"{name}={limit!r}: it is a number from 1 to {MAX_LIMIT:,}.")
    if isinstance(time, Mapping):
        time = {kind: require_name("events", "time", name) for kind, name in time.items()}
    else:
        require_name("events", "time", time)
    require_name("events", "type", type)
    ids, ranks, keys = (
        _names_by_type(role, named) for role, named in (("id", id), ("order_by", order_by), ("key", key))
    )
    strategy = strategy_of(disorder)
    if order == ARRIVAL and not isinstance(strategy, Buffer):
        raise EventDataError(
            f"order='arrival' trusts that events arrive in order, and disorder={strategy.name!r} that they do not.",
            hint="Leave one of them out.",
        )
    delay, bound = _lateness(lateness), _max_ahead(max_ahead)
    several = isinstance(data, Mapping)
    rows = {kind: _reusable_rows(one) for kind, one in data.items()} if several else _reusable_rows(data)
    return Events(
        bound_data(rows, time, bound, delay),
        time,
        type,
        ids,
        ranks,
        strictly_later,
        keys,
        dedupe,
        order,
        _idle(idle),
        shards,
        max_state,
        max_steps,
        max_matches,
        strategy,
        lateness=delay,
        max_ahead=bound,
    )


def documents(
    data: object,
    *,
    body: str | None = None,
    path: str | None = None,
    type: str | None = None,
    namespaces: Mapping[str, str] | None = None,
    trusted: bool = False,
    format: str = XML,
    **rows: Any,
) -> Documents:
    """Declare a stream of documents: steps of patterns may be tree patterns.

    ``body`` names the column with the documents, as text or as bytes in any encoding; ``path`` names a column of paths
    or URIs instead: each document is read in chunks from its location, at any size. ``type`` names the column with
    the name before ``<<`` in a step; without it steps match every document. ``namespaces`` maps the prefixes in tree
    patterns. ``trusted`` skips the check that documents are well formed: it is for documents that you produce yourself.

    Documents are XML. With ``format="json"`` the body has JSON: its root is ``/json``, members are elements of their name, and
    so is each item of an array. With ``format="row"`` there is no body: every row is a document, with the root ``/row`` and
    its columns as elements.

    The other parameters (``time``, ``key``, ``id``, …) are those of :func:`events`; several tables are given by type, too.
    """
    for role, name in (("body", body), ("path", path), ("type", type)):
        if name is not None:
            require_name("documents", role, name)
    for role in ("time", "id", "order_by", "key"):
        if role in rows and not isinstance(rows[role], Mapping):
            require = require_name if role == "time" else require_names
            rows[role] = require("documents", role, rows[role])
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


@named_words
def beliefs(
    data: object,
    *,
    event: str,
    of: str | Iterable[str] = (),
    about: str | Iterable[str],
    p: str | None = None,
    given: str | Iterable[str] | None = None,
    reading: str | None = None,
    likelihood: str | None = None,
    model: HiddenMarkov | None = None,
    inference: str | Inference = "filter",
    correlations: bool = True,
    patience: str | dt.timedelta | None = None,
    time: str = "ts",
    every: str | dt.timedelta | None = None,
    method: str = "auto",
    epsilon: float = 0.1,
    delta: float = 0.1,
    seed: int = 0,
    prune: float = 0.0,
    idle: str | dt.timedelta | None = None,
    shards: int = 16,
    max_state: int = 1 << 28,
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
) -> Beliefs:
    """Declare an uncertain stream: its events have values with probabilities, and results of patterns are probabilities.

    ``event`` is the event type that steps of patterns name. ``of`` names the key columns; keys are independent of each other,
    and without ``partition by`` a pattern matches for any key. ``about`` names the uncertain columns.
    There are three kinds of rows:

    - a distribution for each step: ``p`` names the column with the probability of each value. The rest up to 1 is the probability of no event;
    - a table for each step, by the value of the step before: ``given`` names its columns, null for no event;
    - readings and a hidden Markov ``model`` (:func:`hidden_markov`): ``reading`` names the column with the reading, null
      for none, or ``likelihood`` one with the list of its probabilities under each value of the model. ``inference`` selects the
      algorithm: ``"filter"`` uses readings up to each step, ``"lag(5)"`` those of five more steps, ``"smooth"`` all of
      them; ``"likeliest"`` takes the most probable value of each step as certain, ``"viterbi"`` the most probable path;
      ``"particles(1000)"`` is a particle filter. ``patience`` is the time for which a missing reading counts as one.

    ``every`` is the length of a step, as in ``"1 second"``: rows of one step are simultaneous. Without it every distinct time is a step.
    With ``correlations=False`` steps are independent, as in the real-time algorithm of the paper.

    Inference is exact for the patterns that allow it, which ``explain`` shows, and otherwise by sampling: the error of a probability
    exceeds ``epsilon`` with probability ``delta`` at most; ``method="sample"`` always samples. ``prune`` drops weights below it,
    and ``error`` has the dropped weight. ``seed`` is the seed of sampling. The other parameters are those of :func:`events`.
    """
    part = _belief(
        data, event, of, about, p, given, reading, likelihood, model, inference, correlations, patience, time, every
    )
    for name, number in (("epsilon", epsilon), ("delta", delta)):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < 1:
            raise EventDataError(f"{name}={number!r}: it is a number between 0 and 1.")
    if method not in ("auto", "sample"):
        raise EventDataError(f"method={method!r} is neither 'auto' nor 'sample'.")
    if isinstance(prune, bool) or not isinstance(prune, (int, float)) or not 0 <= prune < 1:
        raise EventDataError(f"prune={prune!r}: it is a number from 0 to below 1.")
    if prune and part.stream.known is Known.READ and part.stream.hidden and part.stream.inference.name != "smooth":
        raise EventDataError(
            f"prune= says by how much answers are off, which nobody knows with inference={str(part.stream.inference)!r}: later "
            "readings may show that what was left out was right.",
            hint="Leave it out; or say inference='smooth'.",
        )
    rows = events([], idle=idle, shards=shards, max_state=max_state, lateness=lateness, max_ahead=max_ahead)
    part = replace(part, data=bound_data(part.data, time, rows.max_ahead, rows.lateness))
    sampling = Sampling(float(epsilon), float(delta), seed, method == "sample")
    return Beliefs((part,), (), _step(every), sampling, float(prune), rows.idle, shards, max_state, rows.max_ahead)


def _belief(
    data: object, event: str, of: object, about: object, p: str | None, given: object, reading: str | None,
    likelihood: str | None, model: HiddenMarkov | None, inference: str | Inference, correlations: bool, patience: object,
    time: str, every: object,
) -> Belief:  # fmt: skip
    if not isinstance(event, str) or not event.isidentifier():
        raise EventDataError(f"event={event!r}: it is what steps call the events, such as 'At'.")
    for role, name in (("p", p), ("reading", reading), ("likelihood", likelihood)):
        if name is not None:
            require_name("beliefs", role, name)
    require_name("beliefs", "time", time)
    keys, uncertain = require_names("beliefs", "of", of), require_names("beliefs", "about", about)
    if not uncertain:
        raise EventDataError("Nothing is said of what is uncertain.", hint="Name it: ps.beliefs(…, about='place').")
    twice = next((name for name in uncertain if name in keys), None)
    if twice is not None:
        raise EventDataError(f"{twice!r} is both whose the events are and uncertain.", hint="A key is certain.")
    if model is None:
        wrong = "reading" if reading is not None else "likelihood" if likelihood is not None else None
        if wrong is not None:
            raise EventDataError(
                f"{wrong}= is for readings, and there is no model of what is behind them.",
                hint="Give one: model=ps.hidden_markov(…). Probabilities are named with p='…'.",
            )
        befores = None if given is None else require_names("beliefs", "given", given)
        if befores is not None and len(befores) != len(uncertain):
            raise EventDataError(
                f"given= names {len(befores)} columns, and about= {len(uncertain)}.",
                hint="Name as many, in the same order.",
            )
        if befores is not None and not correlations:
            raise EventDataError(
                "Tables say how each step depends on the one before, and correlations=False that none does.",
                hint="Give a distribution for each step instead: p='…' without given=.",
            )
        known = Known.INDEPENDENT if befores is None else Known.LINKED
        stream = Stream(event, known, keys, uncertain, correlations=correlations)
        return Belief(stream, _reusable_rows(data), time, p or "p", befores or ())
    if not isinstance(model, HiddenMarkov):
        raise EventDataError(f"model= is {type(model).__name__}.", hint="Make one: ps.hidden_markov(…).")
    if p is not None or given is not None:
        raise EventDataError(
            "Rows have probabilities, or readings with a model; not both.", hint="Leave out p= and given=."
        )
    if (reading is None) == (likelihood is None):
        raise EventDataError(
            "A model needs readings: name their column with reading=, or one of likelihoods with likelihood=.",
        )
    if len(uncertain) > 1 and any(not isinstance(x, tuple) or len(x) != len(uncertain) for x in model.values):
        raise EventDataError(f"The model's values are no tuples of {len(uncertain)}, as about= has columns.")
    way = _inference(inference)
    silent = _patience(patience, every)
    stream = Stream(event, Known.READ, keys, uncertain, model, way, correlations, silent)
    return Belief(stream, _reusable_rows(data), time, None, (), reading, likelihood)


def _inference(given: str | Inference) -> Inference:
    if isinstance(given, Inference):
        return given
    found = re.fullmatch(r"\s*([a-z]+)\s*(?:\(\s*(\d{1,9})\s*\))?\s*", given) if isinstance(given, str) else None
    name, number = found.groups() if found else (str(given), None)
    if name not in WAYS:
        raise EventDataError(
            f"inference={given!r} is not known.{did_you_mean(name, WAYS)}",
            hint="It is 'filter', 'lag(5)', 'smooth', 'viterbi', 'likeliest' or 'particles(1000)'.",
        )
    if (name in ("lag", "particles")) != (number is not None) or (number is not None and int(number) < 1):
        raise EventDataError(
            f"inference={given!r}: write 'lag(5)' and 'particles(1000)', and the others without a number."
        )
    return Inference(name, int(number or 0))


def _step(every: object) -> int | None:
    micros = micros_of(every, "every")
    if micros is not None and micros < 1:
        raise EventDataError(f"every={every!r}: it is a duration, such as '1 second'.")
    return micros


def _patience(patience: object, every: object) -> int:
    silent, step = micros_of(patience, "patience"), _step(every)
    if silent is None or silent == 0:
        return 0
    if step is None:
        raise EventDataError(
            "patience= counts steps without a row, and nothing says how long a step is.",
            hint="Say it: every='1 second'.",
        )
    return silent // step


def micros_of(given: object, what: str) -> int | None:
    """Parse a duration to microseconds."""
    if given is None:
        return None
    micros = given // dt.timedelta(microseconds=1) if isinstance(given, dt.timedelta) else parse_duration(str(given))
    if not isinstance(micros, int):
        raise EventDataError(f"{what}={given!r}: it is a duration, such as '1 second'.")
    return micros


def _require_source(body: str | None, path: str | None, format: str) -> None:
    """Raise an error unless the column with the documents is declared as their format requires it."""
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
    micros = micros_of(given, "idle")
    if micros is not None and micros < 1_000_000:
        raise EventDataError(f"idle={given!r}: it is a duration of a second at least, such as '1 minute'.")
    return micros


def _lateness(given: str | dt.timedelta | None) -> int | None:
    micros = micros_of(given, "lateness")
    if micros is not None and micros < 0:
        raise EventDataError(f"lateness={given!r}: it is a duration, zero or more, such as '10 minutes'.")
    return micros


def _max_ahead(given: str | dt.timedelta | None) -> int | None:
    micros = micros_of(given, "max_ahead")
    if micros is not None and not 0 < micros <= MAX_AHEAD_US:
        raise EventDataError(
            f"max_ahead={given!r}: it is a duration above zero and of at most 10,000 days, such as '1 hour'."
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


def _reusable_rows(data: object) -> object:
    """Return the rows, an iterator as a list: a declared stream is read several times."""
    return list(data) if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__") else data


def require_name(function: str, parameter: str, name: object) -> str:
    """Return the name of a column; for any other type, raise an error that names the parameter."""
    if isinstance(name, str):
        return name
    raise _no_name(function, parameter, name, "the name of a column")


def require_names(function: str, parameter: str, names: object) -> tuple[str, ...]:
    """Return the names of columns as a tuple: one, or several in any iterable."""
    if isinstance(names, str):
        return (names,)
    # A Column of Spark and a Series of pandas have names, too, and are no names.
    if isinstance(names, Mapping) or not isinstance(names, Iterable) or _name_in(names) is not None:
        raise _no_name(function, parameter, names, "names of columns")
    return tuple(require_name(function, parameter, name) for name in names)


def _names_by_type(parameter: str, names: object) -> Any:
    if isinstance(names, Mapping):
        return {kind: require_names("events", parameter, of_kind) for kind, of_kind in names.items()}
    return require_names("events", parameter, names)


def _no_name(function: str, parameter: str, given: object, wanted: str) -> EventDataError:
    name = _name_in(given) or {"time": "ts", "type": "type"}.get(parameter, "name")
    return EventDataError(
        f"{parameter}= takes {wanted}, and this is {type_name(given)}.",
        hint=f"Write the name: ps.{function}(…, {parameter}={name!r}).",
    )


def _name_in(given: object) -> str | None:
    """The name of a Column or a Series, if any; an empty text for a computed Column without a plain name."""
    if type_name(given).endswith(".Column"):
        found = re.fullmatch(r"Column<'([\w.]+)'>", str(given))
        return found[1] if found else ""
    name = getattr(given, "name", None) if type_name(given).endswith("Series") else None
    return name if isinstance(name, str) else None


def microseconds(moment: dt.datetime, what: str) -> int:
    """A time in microseconds since 1970 UTC; without a time zone it is in UTC."""
    if not isinstance(moment, dt.datetime):
        raise EventDataError(f"{what} is a datetime.")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - EPOCH) // MICROSECOND
