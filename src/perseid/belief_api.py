"""Patterns asked of uncertain streams: how answers are told, and who answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perseid.declare import named_words, require_name
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.telling import EVERY, Telling
from perseid.errors import EventDataError, UnsupportedError, did_you_mean, missing_column
from perseid.given import Frame, Observation, Relations
from perseid.lang import ast
from perseid.local.answers import Answers
from perseid.local.beliefs import Beliefs, read_rows
from perseid.local.rows import is_spark, require_here, require_spark
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import check_relations

if TYPE_CHECKING:
    from perseid.engines.uncertain.learning import Learnt


def above(p: float) -> Telling:
    """Tell every step at which a pattern is completed with a probability above this."""
    return Telling("steps", _bound(p, "p"), 0.0)


def alerts(rise: float, fall: float | None = None) -> Telling:
    """Tell when a probability rises to ``rise``, and then not again until it has fallen below ``fall``.

    Without ``fall`` it is told again each time that it has been below ``rise``.
    """
    high = _bound(rise, "rise")
    low = high if fall is None else _bound(fall, "fall")
    if not 0 < low <= high:
        raise EventDataError(f"fall={fall!r} and rise={rise!r}: fall is above 0, and rise is not below it.")
    return Telling("alerts", high, low)


def spans(p: float) -> Telling:
    """Tell from when to when a probability was this or above, and the highest it was."""
    bound = _bound(p, "p")
    if bound <= 0:
        raise EventDataError(f"p={p!r}: a span has a bound above 0.")
    return Telling("spans", bound, bound)


def expected(above: float = 0.0) -> Telling:
    """Tell, beside the probability, how many matches each step is expected to complete; of steps with more than ``above``.

    A match is the events that it takes, each as a step of the pattern. The number is exact, also where the probability is sampled.
    """
    if isinstance(above, bool) or not isinstance(above, (int, float)) or not 0 <= above < math.inf:
        raise EventDataError(f"above={above!r}: a number of matches is 0 or more.")
    return Telling("expected", float(above), 0.0)


def _bound(given: float, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise EventDataError(f"{name}={given!r}: a probability lies between 0 and 1.")
    return float(given)


def telling_of(tell: object) -> Telling:
    if tell is None:
        return EVERY
    if not isinstance(tell, Telling):
        raise EventDataError(
            f"tell={tell!r} says nothing of answers.",
            hint="Say ps.above(0.2), ps.alerts(rise=0.6, fall=0.3), ps.spans(0.5) or ps.expected().",
        )
    return tell


def refuse_words(stream: object, tell: object) -> None:
    """That words about probabilities are said of streams that have them."""
    if tell is not None and not isinstance(stream, Beliefs):
        raise UnsupportedError(
            "tell= is about probabilities, and this stream is certain.",
            hint="Declare it with ps.beliefs(…), or leave it out.",
        )


def refuse_beliefs(what: str, stream: object) -> None:
    """That what is asked of matches is not asked of an uncertain stream."""
    if isinstance(stream, Beliefs):
        counts = "Ask how many to expect: match(…, tell=ps.expected())."
        raise UnsupportedError(
            f"{what} asks about matches, and an uncertain stream has probabilities.",
            hint=counts if what == "count" else "Use match(…) and explain(…).",
        )


def match_beliefs(
    cores: Sequence[CorePattern],
    stream: Beliefs,
    relations: Mapping[str, list[tuple[object, ...]]],
    tell: object,
) -> Answers:
    """The answers of patterns to an uncertain stream in this process."""
    from perseid.engines.uncertain.engine import answer, make_plan

    for data in stream.frames():
        require_here("match", data)
    telling = telling_of(tell)
    check_relations(cores, relations)
    rows = read_rows(stream, columns_of(cores), {name: v.Relation(some) for name, some in relations.items()})
    streams = asked_streams(cores, stream, rows.type_names)
    types = {name: column.type for name, column in rows.columns.items()}
    plan = make_plan(cores, streams, types, telling=telling)
    table, counted, _ = answer(plan, rows)
    there = [name for i, name in enumerate(rows.type_names) if (rows.type_codes == i).any()]
    asked = sorted(
        {s.kind.name for core in cores for s in core.steps if isinstance(s.kind, ast.EventType)} if there else ()
    )
    notes = [f"no event is a {name}.{did_you_mean(name, there)}" for name in asked if name not in there]
    return Answers(table, counted, notes)


@named_words
def learn(
    stream: Beliefs, *, truth: str | None = None, smoothing: float = 1.0, rounds: int = 100, tolerance: float = 1e-6
) -> Learnt:
    """A better model of a declared stream of readings; the stream's own is begun with.

    By readings alone it is made likelier round by round (Baum and Welch), until a round gains no more than ``tolerance`` in the
    logarithm of their likelihood, or after so many ``rounds``. Where ``truth`` names a column that has what really was, null where
    nobody knows, things are counted instead, and ``smoothing`` is added to every count. Either way what has probability 0 in
    the model begun with keeps it: where a floor plan has no door, none is learnt.
    """
    if not isinstance(stream, Beliefs):
        raise EventDataError(
            f"{type(stream).__name__} is no stream of readings.", hint="Declare it: ps.beliefs(rows, model=…)."
        )
    if truth is not None:
        require_name("learn", "truth", truth)
    if len(stream.parts) != 1 or stream.certain:
        raise UnsupportedError(
            "A model is learnt of one stream, and others are beside it.", hint="Learn each by itself."
        )
    (part,) = stream.parts
    if part.reading is None:
        raise UnsupportedError(
            "A model is learnt from readings, and this stream has "
            + ("likelihoods." if part.likelihood is not None else "probabilities."),
            hint="Declare it: ps.beliefs(rows, reading='…', model=…).",
        )
    from perseid.engines.uncertain import learning
    from perseid.engines.uncertain.labelled import labelled_steps

    require_here("learn", part.data)
    rows = read_rows(stream, set() if truth is None else {truth}, {})
    if truth is not None and truth not in rows.columns and len(rows):
        raise missing_column("The stream", truth, "truth", sorted(rows.columns), "ps.learn(…, truth=…)")
    steps = labelled_steps(part.stream, stream.every, rows, truth)
    model = part.stream.model
    assert model is not None
    if truth is None:
        return learning.learn(model, steps.codes, steps.offsets, rounds=rounds, tolerance=tolerance)
    return learning.learn_labelled(model, steps.codes, steps.hidden, steps.offsets, smoothing=smoothing)


def columns_of(cores: Sequence[CorePattern]) -> set[str]:
    """The columns that patterns read, and those that they are partitioned by."""
    from perseid.engines.uncertain.symbols import asked_columns

    found: set[str] = set()
    for core in cores:
        found |= asked_columns(core)
        found |= {path.parts[0] for path in core.partition}
    return found


def asked_streams(cores: Sequence[CorePattern], stream: Beliefs, certain: Sequence[str]) -> Streams:
    """What is said of the streams that patterns ask; what they cannot be asked is refused."""
    streams = stream.streams(certain)
    names = {core.name for core in cores}
    for core in cores:
        for path in core.partition:
            if len(path.parts) > 1:
                raise UnsupportedError(
                    f"Pattern {core.name} is partitioned by {'.'.join(path.parts)}, a part of a column.",
                    hint="Of an uncertain stream it is a column: make it one.",
                )
            _refuse_hidden(core, streams, path.parts[0])
        fed = next(
            (s.kind.name for s in core.steps if isinstance(s.kind, ast.EventType) and s.kind.name in names), None
        )
        if fed is not None:
            raise UnsupportedError(
                f"Pattern {core.name} takes matches of {fed}, which an uncertain stream only has a probability of.",
                hint="Write both as one pattern.",
            )
    return streams


def _refuse_hidden(core: CorePattern, streams: Streams, column: str) -> None:
    for part in streams.parts:
        if column in part.about and part.known.value in ("linked", "read"):
            raise UnsupportedError(
                f"Pattern {core.name} is partitioned by {column}, which is uncertain and depends on the step before.",
                hint=f"Ask for one {column} in a condition, or partition by {' or '.join(part.of) or 'a key'}.",
            )


def explain_beliefs(cores: Sequence[CorePattern], stream: Beliefs) -> str:
    """How patterns are answered over an uncertain stream, in words."""
    from perseid.viz.beliefs import explain_answers
    from perseid.viz.detection import describe_max_ahead

    spark = any(is_spark(data) for data in stream.frames())
    types = {s.kind.name for core in cores for s in core.steps if isinstance(s.kind, ast.EventType)}
    said = explain_answers(cores, asked_streams(cores, stream, sorted(types)), spark)
    return said if stream.max_ahead is None else f"{said}max_ahead: {describe_max_ahead(stream.max_ahead)}\n"


def draw_beliefs(
    cores: Sequence[CorePattern],
    stream: object,
    relations: Mapping[str, list[tuple[object, ...]]],
    form: str,
    key: object,
    truth: str | None,
) -> str:
    """What is believed of one key of an uncertain stream, step by step, and how patterns are answered there."""
    if not isinstance(stream, Beliefs):
        raise UnsupportedError(
            "draw(stream=…) shows what is believed, and this stream is certain.",
            hint="Leave it out, or use why_not(…).",
        )
    from perseid.engines.uncertain.film import film_of
    from perseid.viz.film import draw_film

    for data in stream.frames():
        require_here("draw", data)
    check_relations(cores, relations)
    wanted = columns_of(cores) | ({truth} if truth is not None else set())
    rows = read_rows(stream, wanted, {name: v.Relation(some) for name, some in relations.items()})
    if truth is not None and truth not in rows.columns:
        raise missing_column("The stream", truth, "truth", sorted(rows.columns), "draw(…, truth=…)")
    return draw_film(film_of(cores, asked_streams(cores, stream, rows.type_names), rows, key, truth), form)


def detect(
    cores: Sequence[CorePattern], stream: Beliefs, relations: Relations, tell: object, rejected: bool,
    checkpoint: str | None, observation: Observation,
) -> Frame:  # fmt: skip
    """The answers of patterns to an uncertain stream of Spark's."""
    for data in stream.frames():
        require_spark(data)
    from perseid.spark.beliefs import certain_types, detect_beliefs
    from perseid.spark.projection import read_relations

    telling, tables = telling_of(tell), read_relations(relations)
    check_relations(cores, tables)
    streams = asked_streams(cores, stream, certain_types(cores, stream))
    return detect_beliefs(
        cores, stream, streams, columns_of(cores), tables,
        telling=telling, rejected=rejected, checkpoint=checkpoint, observation=observation,
    )  # fmt: skip
