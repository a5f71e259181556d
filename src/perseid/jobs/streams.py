"""From the words of a job's stream, and its opened sources, to the stream as patterns are asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

from perseid import belief_api
from perseid.declare import beliefs, documents, events
from perseid.engines.disorder.strategy import STRATEGIES as WAYS
from perseid.engines.disorder.strategy import Strategy
from perseid.engines.uncertain.telling import Telling
from perseid.errors import PerseidError, is_internal, missing_column
from perseid.jobs import stream_spec as spec
from perseid.local.beliefs import Beliefs
from perseid.local.documents import Documents
from perseid.local.models import Models
from perseid.local.rows import Events, is_spark
from perseid.model_api import Metamodel, metamodel, model
from perseid.semantics.hidden import HiddenMarkov, Value, floor_plan, hidden_markov
from perseid.settings import Settings, SettingsError
from perseid.sources.contract import POSITION, WRONG

Declared = Events | Documents | Beliefs | Models
Data: TypeAlias = Any
"""Rows of a source: a DataFrame of Spark, or of this process whatever declarations take."""
Words: TypeAlias = dict[str, Any]
"""Keywords of a declaration, each of its own type."""


def declare(stream: spec.AnyStream, frames: object) -> Declared:
    """The stream, declared; ``frames`` are DataFrames by the place of their source, as ``sources_of`` has it, or the only one.

    Finished DataFrames and streams alike; also tables of this process, for trying things.
    """
    opened: dict[str, Data] = dict(frames) if isinstance(frames, Mapping) else {"source": frames}
    missing = [place for place in spec.sources_of(stream) if place not in opened]
    if missing:
        raise SettingsError(
            f"Nothing was opened for {missing[0]}.", hint=f"There is: {', '.join(opened) or 'nothing'}."
        )
    if isinstance(stream, spec.EventStream):
        return _events(stream, opened, "")
    if isinstance(stream, spec.DocumentStream):
        return _documents(stream, opened)
    if isinstance(stream, spec.BeliefStream):
        return _beliefs(stream, opened)
    return _model(stream, opened)


def telling_of(stream: spec.AnyStream) -> Telling | None:
    """What ``detect(…, tell=)`` is given: which answers of an uncertain stream are told."""
    tell = stream.tell if isinstance(stream, spec.BeliefStream) else None
    if tell is None:
        return None
    if tell.above is not None:
        return belief_api.above(tell.above)
    if tell.alerts is not None:
        return belief_api.alerts(tell.alerts.rise, tell.alerts.fall)
    if tell.spans is not None:
        return belief_api.spans(tell.spans)
    assert tell.expected is not None
    return belief_api.expected(tell.expected)


def metamodel_of(stream: spec.ModelStream) -> Metamodel:
    """What models may contain, as the stream's file or text has it."""
    given = stream.metamodel
    if isinstance(given, spec.Text):
        return metamodel(given.text)
    try:
        return metamodel(given.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"The metamodel {given} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"The metamodel {given} is not UTF-8 text.") from None


def hidden_of(given: spec.HiddenModel) -> HiddenMarkov:
    """What is behind readings; what is wrong with it is told as of the word ``model``."""
    if given.floor_plan is not None:
        transitions = floor_plan(given.floor_plan.doors, given.floor_plan.stay)
    else:
        assert given.transitions is not None
        transitions = cast("dict[Value, dict[Value, float]]", given.transitions)
    readings = given.readings and {
        value: {(name or None): chance for name, chance in row.items()} for value, row in given.readings.items()
    }
    initial = cast("dict[Value, float] | None", given.initial)
    return hidden_markov(
        transitions=transitions, initial=initial, readings=cast("dict[Value, dict[Value, float]] | None", readings)
    )


def strategy_of(given: Settings) -> Strategy:
    """What is told of records out of order."""
    word = next(word for word, kind in spec.STRATEGIES.items() if type(given) is kind)
    words = given.model_dump()
    return WAYS[word](**{**words, "sources": tuple(words["sources"])} if "sources" in words else words)


def _with_time(frame: Data, time: str, place: str) -> Data:
    """The frame; an error where it lacks the column with the time."""
    if is_spark(frame) and time not in frame.columns:
        there = [name for name in frame.columns if not is_internal(name)]
        raise missing_column(f"stream.{place}", time, "time", there, "stream.time in the job's file")
    return frame


def _times(stream: spec.AnyStream) -> Words:
    """The delay of the watermark, and the bound below it; what has its watermark already is given neither."""
    if stream.lateness is None:
        return {"lateness": None, "max_ahead": None}
    return {"lateness": stream.lateness, "max_ahead": max_ahead_of(stream)}


def max_ahead_of(stream: spec.AnyStream) -> str | None:
    """How far a time may lie beyond its arrival; None for no bound."""
    return None if stream.max_ahead == spec.UNBOUNDED else stream.max_ahead


def _rows(
    stream: spec.EventStream | spec.DocumentStream, opened: Mapping[str, Data], prefix: str
) -> tuple[Data, Words]:
    """The data of rows with a time, one table or several by type, and what is said of them."""
    named = {name: f"{prefix}sources.{name}" for name in stream.sources or {}}

    def frame_of(place: str, kind: str | None) -> Data:
        time = stream.time if isinstance(stream.time, str) else stream.time.get(cast("str", kind))
        if time is None:
            raise SettingsError(
                f"Nothing is said of the time of {kind}.", hint=f"Write it: stream.time: {{{kind}: COLUMN, …}}."
            )
        return _with_time(opened[place], time, place)

    data: Data = (
        {kind: frame_of(place, kind) for kind, place in named.items()} if named else frame_of(f"{prefix}source", None)
    )
    words = {
        name: getattr(stream, name)
        for name in (
            "time", "order_by", "strictly_later", "key", "dedupe", "order", "idle", "shards", "max_state", "max_steps",
            "max_matches",
        )
    }  # fmt: skip
    return data, {**words, **_times(stream), "id": _identity(stream, data), "disorder": strategy_of(stream.disorder)}


def _identity(stream: spec.EventStream | spec.DocumentStream, data: Data) -> object:
    """Columns of ours are no part of what a record has: where it was read does not make it another."""
    if stream.id not in ("content", "position"):
        return stream.id
    if isinstance(data, dict):
        return {kind: _identity(stream, frame) for kind, frame in data.items()}
    if not is_spark(data):
        return ()
    if stream.id == "position":
        return (POSITION,)
    own = sorted(name for name in data.columns if not is_internal(name))
    return tuple(own) if len(own) < len(data.columns) else ()


def _events(stream: spec.EventStream, opened: Mapping[str, Data], prefix: str) -> Events:
    data, words = _rows(stream, opened, prefix)
    declared = events(data, type=stream.type, **words)
    tables = list(data.values()) if isinstance(data, dict) else [data]
    tells = all(is_spark(frame) and WRONG in frame.columns for frame in tables)
    return replace(declared, wrong=WRONG) if tells else declared


def _documents(stream: spec.DocumentStream, opened: Mapping[str, Data]) -> Documents:
    data, words = _rows(stream, opened, "")
    if isinstance(words["id"], Mapping):  # documents have one identity for all tables: what these have in common
        first, *others = words["id"].values()
        words["id"] = tuple(name for name in first if all(name in other for other in others))
    return documents(
        data,
        body=stream.body,
        path=stream.path,
        type=stream.type,
        namespaces=stream.namespaces,
        trusted=stream.trusted,
        format=stream.format,
        **words,
    )


def _beliefs(stream: spec.BeliefStream, opened: Mapping[str, Data]) -> Beliefs:
    words = {
        name: getattr(stream, name)
        for name in (
            "event", "of", "about", "p", "given", "reading", "likelihood", "inference", "correlations", "patience", "time",
            "every", "method", "epsilon", "delta", "seed", "prune", "idle", "shards", "max_state",
        )
    }  # fmt: skip
    hidden = None if stream.model is None else hidden_of(stream.model)
    frame = _with_time(opened["source"], stream.time, "source")
    declared = beliefs(frame, model=hidden, **words, **_times(stream))
    others = [_events(other, opened, f"beside[{number}].") for number, other in enumerate(stream.beside)]
    return declared.beside(*others) if others else declared


def _model(stream: spec.ModelStream, opened: Mapping[str, Data]) -> Models:
    frame = _with_time(opened["source"], stream.time, "source")
    return model(
        frame,
        metamodel_of(stream),
        time=stream.time,
        key=stream.key,
        order_by=stream.order_by,
        observe=stream.observe,
        beside=None if stream.beside is None else _events(stream.beside, opened, "beside."),
        idle=stream.idle,
        shards=stream.shards,
        max_state=stream.max_state,
        **_times(stream),
        **stream.columns.model_dump(),
    )


def checked_words(stream: spec.AnyStream) -> None:
    """Raise what the words of a stream alone show to be wrong, before anything is opened."""
    nothing: dict[str, list[object]] = {place: [] for place in spec.sources_of(stream)}
    try:
        declare(stream, nothing)
    except SettingsError:
        raise
    except PerseidError as error:
        raise SettingsError(f"stream: {error}") from None
