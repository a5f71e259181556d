"""Patterns over uncertain streams: output policies, probabilities, and learning of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perseid.api.arguments import Frame, names_of
from perseid.api.keywords import check_keywords
from perseid.api.stream_kinds.contract import SparkMatchOptions, StreamKind
from perseid.api.stream_kinds.registry import kind_of
from perseid.engines.uncertain.engine import UNCERTAIN, make_plan
from perseid.engines.uncertain.local_rows import read_rows
from perseid.engines.uncertain.output_policies import EVERY, OutputPolicy
from perseid.engines.uncertain.results import UncertainMatches
from perseid.engines.uncertain.stream import UncertainEvents, columns_of, streams_for
from perseid.errors import EventDataError, UnsupportedError, did_you_mean, missing_column
from perseid.lang import ast
from perseid.runtime.explanation import describe_max_ahead
from perseid.runtime.local_run import run_local
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import check_relations
from perseid.tables.column_names import require_name
from perseid.tables.rows import is_spark, require_local_rows, require_spark

if TYPE_CHECKING:
    from perseid.engines.uncertain.learning import Learnt


def output_policy(emit: object) -> OutputPolicy:
    if emit is None:
        return EVERY
    if not isinstance(emit, OutputPolicy):
        raise EventDataError(
            f"emit={emit!r}: expected an output policy.",
            hint="Use ps.uncertain.above(0.2), alerts(rise=0.6, fall=0.3), spans(0.5) or expected().",
        )
    return emit


def require_probabilities(kind: StreamKind, emit: object) -> None:
    """Raise an error if an output policy is given for results without probabilities."""
    if emit is not None and not kind.has_probabilities:
        raise UnsupportedError(
            "emit= requires an uncertain stream, and this stream is certain.",
            hint="Declare it with ps.uncertain_events(…), or remove emit=.",
        )


def match_uncertain(
    cores: Sequence[CorePattern],
    stream: UncertainEvents,
    relations: Mapping[str, list[tuple[object, ...]]],
    emit: object,
) -> UncertainMatches:
    """The probabilities of patterns over an uncertain stream in this process."""
    from perseid.engines.uncertain.traces import require_distributions

    policy = output_policy(emit)
    check_relations(cores, relations)
    rows = read_rows(stream, columns_of(cores), {name: v.Relation(table) for name, table in relations.items()})
    streams = streams_for(cores, stream, rows.type_names)
    types = {name: column.type for name, column in rows.columns.items()}
    plan = make_plan(cores, streams, types, output_policy=policy)
    done = run_local(UNCERTAIN, plan, rows)
    require_distributions(streams, rows, done.bad)
    present_types = [name for i, name in enumerate(rows.type_names) if (rows.type_codes == i).any()]
    named_types = sorted(
        {s.kind.name for core in cores for s in core.steps if isinstance(s.kind, ast.EventType)}
        if present_types
        else ()
    )
    notes = [
        f"no event is a {name}.{did_you_mean(name, present_types)}" for name in named_types if name not in present_types
    ]
    return UncertainMatches(done.rows, done.counters, notes)


@check_keywords
def learn(
    stream: UncertainEvents,
    *,
    truth: str | None = None,
    smoothing: float = 1.0,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
) -> Learnt:
    """A model that is learned from a declared stream of readings, starting from the model of the stream.

    From readings alone it is learned by expectation maximization (Baum and Welch), until an iteration gains no more than
    ``tolerance`` in the logarithm of the likelihood, or after ``max_iterations`` iterations. If ``truth`` names a column with the true
    value, null where it is unknown, transitions and readings are counted instead, and ``smoothing`` is added to every count.
    In both cases a probability of 0 in the model of the stream remains 0: where a floor plan has no door, none is learned.
    """
    hint = "Use ps.uncertain_events(rows, reading=…, model=…)."
    no_readings = EventDataError(
        f"learn requires an uncertain stream with readings, got {type(stream).__name__}.", hint=hint
    )
    readings = kind_of(stream).as_uncertain(stream, no_readings)
    if truth is not None:
        require_name("learn", "truth", truth)
    if len(readings.parts) != 1 or readings.certain:
        raise UnsupportedError(
            "learn requires one uncertain stream, and several are combined.", hint="Call learn for each of them."
        )
    (part,) = readings.parts
    if part.reading is None:
        raise UnsupportedError(
            "learn requires readings, and this stream has "
            + ("likelihoods." if part.likelihood is not None else "probabilities."),
            hint="Use ps.uncertain_events(rows, reading='…', model=…).",
        )
    from perseid.engines.uncertain import learning
    from perseid.engines.uncertain.labelled import labelled_steps

    require_local_rows("learn", part.data)
    rows = read_rows(readings, set() if truth is None else {truth}, {})
    if truth is not None and truth not in rows.columns and len(rows):
        raise missing_column("The stream", truth, "truth", _names(readings), "ps.uncertain.learn(…, truth=…)")
    steps = labelled_steps(part.stream, readings.every, rows, truth)
    model = part.stream.model
    assert model is not None
    if truth is None:
        return learning.learn(model, steps.codes, steps.offsets, max_iterations=max_iterations, tolerance=tolerance)
    return learning.learn_labelled(model, steps.codes, steps.hidden, steps.offsets, smoothing=smoothing)


def _names(stream: UncertainEvents) -> list[str]:
    """The columns of the caller's tables; those of the engine have names of its own."""
    return sorted({name for data in stream.frames() for name in names_of(data)})


def explain_uncertain(cores: Sequence[CorePattern], stream: UncertainEvents) -> str:
    """An explanation of the inference of patterns over an uncertain stream."""
    from perseid.engines.uncertain.explain import explain_queries

    spark = any(is_spark(data) for data in stream.frames())
    types = {s.kind.name for core in cores for s in core.steps if isinstance(s.kind, ast.EventType)}
    explanation = explain_queries(cores, streams_for(cores, stream, sorted(types)), spark)
    return (
        explanation if stream.max_ahead is None else f"{explanation}max_ahead: {describe_max_ahead(stream.max_ahead)}\n"
    )


def draw_uncertain(
    cores: Sequence[CorePattern],
    stream: UncertainEvents,
    relations: Mapping[str, list[tuple[object, ...]]],
    form: str,
    key: object,
    truth: str | None,
) -> str:
    """The distribution of one key of an uncertain stream at each step, with the probabilities of patterns."""
    from perseid.engines.uncertain.film import film_of
    from perseid.engines.uncertain.film_drawing import draw_film

    for data in stream.frames():
        require_local_rows("draw", data)
    check_relations(cores, relations)
    columns = columns_of(cores) | ({truth} if truth is not None else set())
    rows = read_rows(stream, columns, {name: v.Relation(table) for name, table in relations.items()})
    if truth is not None and truth not in rows.columns:
        raise missing_column("The stream", truth, "truth", _names(stream), "draw(…, truth=…)")
    return draw_film(film_of(cores, streams_for(cores, stream, rows.type_names), rows, key, truth), form)


def match_uncertain_on_spark(
    cores: Sequence[CorePattern], stream: UncertainEvents, options: SparkMatchOptions
) -> Frame:
    """The DataFrame of the probabilities of patterns over an uncertain stream of DataFrames."""
    for data in stream.frames():
        require_spark(data)
    from perseid.spark.projection import read_relations
    from perseid.spark.query_driver import RunOptions, SparkTables, require_no_rejected

    policy, tables = output_policy(options.emit), read_relations(options.relations)
    check_relations(cores, tables)
    require_no_rejected(bool(options.rejected), "uncertain streams", "rows")
    data = SparkTables.of(stream.tables())
    query = stream.bind(cores, data.schemas, policy)
    if data.streaming:
        query.plan.refuse_on_streams()
    return data.run(query, RunOptions(tables, options.checkpoint, options.observation))
