"""Validation of the declaration of an uncertain stream: its columns, inference and steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perseid.engines.uncertain.stream import Belief
from perseid.engines.uncertain.streams import WAYS, Inference, Known, Stream
from perseid.errors import EventDataError, nearest, type_name
from perseid.semantics.durations import micros_of
from perseid.semantics.hidden import HiddenMarkov
from perseid.tables.column_names import require_name, require_names


@dataclass(frozen=True)
class UncertainColumns:
    """The columns of an uncertain table, by role."""

    event_type: str
    key: tuple[str, ...]
    value: tuple[str, ...]
    probability: str | None
    previous: tuple[str, ...] | None
    reading: str | None
    likelihood: str | None
    time: str


def read_columns(
    event_type: object, key: object, value: object, probability: object, previous: object, reading: object,
    likelihood: object, time: object,
) -> UncertainColumns:  # fmt: skip
    function = "uncertain_events"
    if not isinstance(event_type, str) or not event_type.isidentifier():
        raise EventDataError(f"event_type={event_type!r}: expected the name of an event type, such as 'At'.")
    single = {
        role: None if name is None else require_name(function, role, name)
        for role, name in (("probability", probability), ("reading", reading), ("likelihood", likelihood))
    }
    keys, values = require_names(function, "key", key), require_names(function, "value", value)
    if not values:
        raise EventDataError("value= names no column.", hint="Use ps.uncertain_events(…, value='place').")
    twice = next((name for name in values if name in keys), None)
    if twice is not None:
        raise EventDataError(
            f"Column {twice!r} is in key= and in value=.", hint="A key is certain: remove it from value=."
        )
    before = None if previous is None else require_names(function, "previous", previous)
    if before is not None and len(before) != len(values):
        raise EventDataError(
            f"previous= has {len(before)} columns, value= has {len(values)}.",
            hint="Name as many columns, in the same order.",
        )
    return UncertainColumns(
        event_type, keys, values, **single, previous=before, time=require_name(function, "time", time)
    )


def read_table(
    rows: object,
    columns: UncertainColumns,
    model: HiddenMarkov | None,
    inference: Inference,
    correlated: bool,
    reading_timeout: object,
    every: object,
) -> Belief:
    """The declared table: distributions, tables by the previous value, or readings with a model."""
    if model is None:
        return _distributions(rows, columns, correlated)
    if not isinstance(model, HiddenMarkov):
        raise EventDataError(
            f"model= expected a HiddenMarkov, got {type_name(model)}.", hint="Use ps.uncertain.hidden_markov(…)."
        )
    if columns.probability is not None or columns.previous is not None:
        raise EventDataError(
            "Rows have probabilities, or readings with a model=, not both.", hint="Remove probability= and previous=."
        )
    if (columns.reading is None) == (columns.likelihood is None):
        raise EventDataError(
            "model= requires either reading= or likelihood=.",
            hint="Name the column with the reading, or the column with the list of its probabilities.",
        )
    width = len(columns.value)
    if width > 1 and any(not isinstance(one, tuple) or len(one) != width for one in model.values):
        raise EventDataError(f"value= has {width} columns, and the values of the model are not tuples of {width}.")
    silent = _steps_until_timeout(reading_timeout, every)
    stream = Stream(
        columns.event_type, Known.READ, columns.key, columns.value, model, inference, correlated, silent
    )  # fmt: skip
    return Belief(stream, rows, columns.time, None, (), columns.reading, columns.likelihood)


def _distributions(rows: object, columns: UncertainColumns, correlated: bool) -> Belief:
    without_model = next((role for role in ("reading", "likelihood") if getattr(columns, role) is not None), None)
    if without_model is not None:
        raise EventDataError(
            f"{without_model}= requires a model=.",
            hint="Add model=ps.uncertain.hidden_markov(…), or name a column of probabilities with probability='p'.",
        )
    if columns.previous is not None and not correlated:
        raise EventDataError(
            "previous= makes steps depend on the step before, and correlated=False makes them independent.",
            hint="Remove correlated=False, or give a distribution for each step without previous=.",
        )
    certainty = Known.INDEPENDENT if columns.previous is None else Known.LINKED
    stream = Stream(columns.event_type, certainty, columns.key, columns.value, correlations=correlated)
    return Belief(stream, rows, columns.time, columns.probability or "p", columns.previous or ())


def read_inference(inference: str | Inference) -> Inference:
    if isinstance(inference, Inference):
        return inference
    parsed = (
        re.fullmatch(r"\s*([a-z]+)\s*(?:\(\s*(\d{1,9})\s*\))?\s*", inference) if isinstance(inference, str) else None
    )
    name, number = parsed.groups() if parsed else (str(inference), None)
    if name not in WAYS:
        raise EventDataError(
            f"Unknown inference {inference!r}.",
            nearest=nearest(name, WAYS),
            hint="Available: 'filter', 'lag(5)', 'smooth', 'viterbi', 'likeliest', 'particles(1000)'.",
        )
    if (name in ("lag", "particles")) != (number is not None) or (number is not None and int(number) < 1):
        raise EventDataError(
            f"inference={inference!r}: 'lag(5)' and 'particles(1000)' require a number of at least 1, the others have none."
        )
    return Inference(name, int(number or 0))


def step_us(every: object) -> int | None:
    micros = micros_of(every, "every")
    if micros is not None and micros < 1:
        raise EventDataError(f"every={every!r}: expected a duration above zero, such as '1 second'.")
    return micros


def _steps_until_timeout(reading_timeout: object, every: object) -> int:
    silent, step = micros_of(reading_timeout, "reading_timeout"), step_us(every)
    if silent is None or silent == 0:
        return 0
    if step is None:
        raise EventDataError(
            "reading_timeout= requires the length of a step.",
            hint="Add every='1 second'.",
        )
    return silent // step
