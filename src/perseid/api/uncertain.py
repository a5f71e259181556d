"""Patterns over uncertain streams: output policies, probabilities, and learning of models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perseid.api.arguments import Frame
from perseid.api.stream_kinds.contract import DetectOptions, StreamKind
from perseid.api.stream_kinds.registry import kind_of
from perseid.api.streams import named_words, require_name
from perseid.engines.uncertain.engine import UNCERTAIN, make_plan
from perseid.engines.uncertain.local_rows import read_rows
from perseid.engines.uncertain.results import Answers
from perseid.engines.uncertain.stream import Beliefs, columns_of, streams_for
from perseid.engines.uncertain.telling import EVERY, OutputPolicy
from perseid.errors import EventDataError, UnsupportedError, did_you_mean, missing_column
from perseid.lang import ast
from perseid.runtime.explanation import describe_max_ahead
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import check_relations
from perseid.tables.rows import is_spark, require_here, require_spark

if TYPE_CHECKING:
    from perseid.engines.uncertain.learning import Learnt


def above(p: float) -> OutputPolicy:
    """Emit every step at which a pattern is completed with a probability above ``p``."""
    return OutputPolicy("steps", _bound(p, "p"), 0.0)


def alerts(rise: float, fall: float | None = None) -> OutputPolicy:
    """Emit a step when the probability rises to ``rise``, and not again until it has fallen below ``fall``.

    Without ``fall`` a step is emitted whenever the probability rises to ``rise`` again.
    """
    high = _bound(rise, "rise")
    low = high if fall is None else _bound(fall, "fall")
    if not 0 < low <= high:
        raise EventDataError(f"fall={fall!r} and rise={rise!r}: fall is above 0, and rise is not below it.")
    return OutputPolicy("alerts", high, low)


def spans(p: float) -> OutputPolicy:
    """Emit the spans of time in which the probability is at least ``p``, each with its maximum."""
    bound = _bound(p, "p")
    if bound <= 0:
        raise EventDataError(f"p={p!r}: a span has a bound above 0.")
    return OutputPolicy("spans", bound, bound)


def expected(above: float = 0.0) -> OutputPolicy:
    """Emit the probability and the expected number of matches of each step with more than ``above``.

    A match is the events that it takes, each as a step of the pattern. The number is exact, also where the probability is sampled.
    """
    if isinstance(above, bool) or not isinstance(above, (int, float)) or not 0 <= above < math.inf:
        raise EventDataError(f"above={above!r}: a number of matches is 0 or more.")
    return OutputPolicy("expected", float(above), 0.0)


def _bound(given: float, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise EventDataError(f"{name}={given!r}: a probability lies between 0 and 1.")
    return float(given)


def output_policy(tell: object) -> OutputPolicy:
    if tell is None:
        return EVERY
    if not isinstance(tell, OutputPolicy):
        raise EventDataError(
            f"tell={tell!r} says nothing of answers.",
            hint="Say ps.above(0.2), ps.alerts(rise=0.6, fall=0.3), ps.spans(0.5) or ps.expected().",
        )
    return tell


def require_probabilities(kind: StreamKind, tell: object) -> None:
    """Raise an error if an output policy is given for results without probabilities."""
    if tell is not None and not kind.has_probabilities:
        raise UnsupportedError(
            "tell= is about probabilities, and this stream is certain.",
            hint="Declare it with ps.beliefs(…), or leave it out.",
        )


def match_beliefs(
    cores: Sequence[CorePattern],
    stream: Beliefs,
    relations: Mapping[str, list[tuple[object, ...]]],
    tell: object,
) -> Answers:
    """The probabilities of patterns over an uncertain stream in this process."""
    from perseid.engines.uncertain.traces import require_distributions

    for data in stream.frames():
        require_here("match", data)
    telling = output_policy(tell)
    check_relations(cores, relations)
    rows = read_rows(stream, columns_of(cores), {name: v.Relation(some) for name, some in relations.items()})
    streams = streams_for(cores, stream, rows.type_names)
    types = {name: column.type for name, column in rows.columns.items()}
    plan = make_plan(cores, streams, types, telling=telling)
    done = UNCERTAIN.run_step(plan, rows, None, Watermark(ended=True))
    require_distributions(streams, rows, done.bad)
    there = [name for i, name in enumerate(rows.type_names) if (rows.type_codes == i).any()]
    asked = sorted(
        {s.kind.name for core in cores for s in core.steps if isinstance(s.kind, ast.EventType)} if there else ()
    )
    notes = [f"no event is a {name}.{did_you_mean(name, there)}" for name in asked if name not in there]
    return Answers(done.rows, done.counters, notes)


@named_words
def learn(
    stream: Beliefs, *, truth: str | None = None, smoothing: float = 1.0, rounds: int = 100, tolerance: float = 1e-6
) -> Learnt:
    """A model that is learned from a declared stream of readings, starting from the model of the stream.

    From readings alone it is learned by expectation maximization (Baum and Welch), until an iteration gains no more than
    ``tolerance`` in the logarithm of the likelihood, or after ``rounds`` iterations. If ``truth`` names a column with the true
    value, null where it is unknown, transitions and readings are counted instead, and ``smoothing`` is added to every count.
    In both cases a probability of 0 in the model of the stream remains 0: where a floor plan has no door, none is learned.
    """
    hint = "Declare it: ps.beliefs(rows, model=…)."
    no_readings = EventDataError(f"{type(stream).__name__} is no stream of readings.", hint=hint)
    readings = kind_of(stream).as_beliefs(stream, no_readings)
    if truth is not None:
        require_name("learn", "truth", truth)
    if len(readings.parts) != 1 or readings.certain:
        raise UnsupportedError(
            "A model is learnt of one stream, and others are beside it.", hint="Learn each by itself."
        )
    (part,) = readings.parts
    if part.reading is None:
        raise UnsupportedError(
            "A model is learnt from readings, and this stream has "
            + ("likelihoods." if part.likelihood is not None else "probabilities."),
            hint="Declare it: ps.beliefs(rows, reading='…', model=…).",
        )
    from perseid.engines.uncertain import learning
    from perseid.engines.uncertain.labelled import labelled_steps

    require_here("learn", part.data)
    rows = read_rows(readings, set() if truth is None else {truth}, {})
    if truth is not None and truth not in rows.columns and len(rows):
        raise missing_column("The stream", truth, "truth", sorted(rows.columns), "ps.learn(…, truth=…)")
    steps = labelled_steps(part.stream, readings.every, rows, truth)
    model = part.stream.model
    assert model is not None
    if truth is None:
        return learning.learn(model, steps.codes, steps.offsets, rounds=rounds, tolerance=tolerance)
    return learning.learn_labelled(model, steps.codes, steps.hidden, steps.offsets, smoothing=smoothing)


def explain_beliefs(cores: Sequence[CorePattern], stream: Beliefs) -> str:
    """An explanation of the inference of patterns over an uncertain stream."""
    from perseid.engines.uncertain.explain import explain_queries

    spark = any(is_spark(data) for data in stream.frames())
    types = {s.kind.name for core in cores for s in core.steps if isinstance(s.kind, ast.EventType)}
    said = explain_queries(cores, streams_for(cores, stream, sorted(types)), spark)
    return said if stream.max_ahead is None else f"{said}max_ahead: {describe_max_ahead(stream.max_ahead)}\n"


def draw_beliefs(
    cores: Sequence[CorePattern],
    stream: Beliefs,
    relations: Mapping[str, list[tuple[object, ...]]],
    form: str,
    key: object,
    truth: str | None,
) -> str:
    """The distribution of one key of an uncertain stream at each step, with the probabilities of patterns."""
    from perseid.engines.uncertain.film import film_of
    from perseid.engines.uncertain.film_drawing import draw_film

    for data in stream.frames():
        require_here("draw", data)
    check_relations(cores, relations)
    wanted = columns_of(cores) | ({truth} if truth is not None else set())
    rows = read_rows(stream, wanted, {name: v.Relation(some) for name, some in relations.items()})
    if truth is not None and truth not in rows.columns:
        raise missing_column("The stream", truth, "truth", sorted(rows.columns), "draw(…, truth=…)")
    return draw_film(film_of(cores, streams_for(cores, stream, rows.type_names), rows, key, truth), form)


def detect_uncertain(cores: Sequence[CorePattern], stream: Beliefs, options: DetectOptions) -> Frame:
    """The DataFrame of the probabilities of patterns over an uncertain stream of DataFrames."""
    for data in stream.frames():
        require_spark(data)
    from perseid.spark.projection import read_relations
    from perseid.spark.query_driver import RunOptions, SparkTables, require_no_rejected

    telling, tables = output_policy(options.tell), read_relations(options.relations)
    check_relations(cores, tables)
    require_no_rejected(bool(options.rejected), "certain events", "rows")
    data = SparkTables.of(stream.tables())
    query = stream.bind(cores, data.schemas, telling)
    if data.streaming:
        query.plan.refuse_on_streams()
    return data.run(query, RunOptions(tables, options.checkpoint, options.observation))
