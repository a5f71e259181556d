"""Marginal distributions of one key by step: the frames of a drawing.

The probability of each value is computed by the engine with a pattern of one event, so a drawing shows the beliefs that
matches are computed from, for any kind of rows and any inference.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perseid.engines.uncertain.engine import make_plan, match_all
from perseid.engines.uncertain.streams import GIVEN, READING, Known, Stream, Streams
from perseid.engines.uncertain.traces import require_distributions
from perseid.errors import EventDataError, LimitError, UnsupportedError
from perseid.lang.parser import parse_pattern
from perseid.runtime.arrays import IntArray
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.resolve import resolve

MAX_VALUES, MAX_FRAMES = 60, 60
"""Limits of a readable drawing."""


@dataclass(frozen=True)
class Frame:
    """One step of a key."""

    time: int
    """Microseconds since 1970 UTC."""
    probabilities: Sequence[float]
    """By value: how probable it is."""
    chances: Sequence[float]
    """By pattern: the probability that it is completed at this step."""
    reading: str | None = None
    """The reading; None without a row, empty if nothing was read."""
    likely_values: Sequence[int] = ()
    """The values at which that reading is most likely."""
    truth: int | None = None


@dataclass(frozen=True)
class Film:
    """All frames of one key."""

    of: str
    """The key, as text."""
    values: Sequence[str]
    doors: Sequence[tuple[int, int]]
    """Pairs of values with a transition between them."""
    patterns: Sequence[str]
    frames: Sequence[Frame]


def film_of(
    cores: Sequence[CorePattern], streams: Streams, rows: EventBatch, key: object = None, truth: str | None = None
) -> Film:
    """Compute the frames of one key; ``truth`` names the column with the true values, where they are known."""
    part = _drawn(streams)
    chosen, key_values = _of_key(part, rows, key)
    key_rows = take_events(rows, chosen)
    values = _values(part, key_rows, truth)
    if len(values) > MAX_VALUES:
        raise LimitError(f"A drawing shows at most {MAX_VALUES} values, got {len(values)}.", hint="Use match(…).")
    shares = _shares(part, streams, key_rows, values)
    chances = _chances(cores, streams, rows, key_values)
    width = streams.every or 1
    rowed = key_rows.time // width * width
    steps = sorted({*shares, *(int(time) for time in rowed)})
    if len(steps) > MAX_FRAMES:
        raise LimitError(f"A drawing shows at most {MAX_FRAMES} steps, got {len(steps)}.", hint="Use fewer rows.")
    row_at = {int(time): row for row, time in enumerate(rowed)}
    frames = [
        Frame(
            step,
            [shares.get(step, {}).get(number, 0.0) for number in range(len(values))],
            [by_step.get(step, 0.0) for by_step in chances],
            *_row(part, key_rows, row_at.get(step), values, truth),
        )
        for step in steps
    ]
    doors = _doors(part, key_rows, values)
    named = ", ".join(f"{name} {v.text(v.plain(value))}" for name, value in key_values.items())
    return Film(named, [str(v.text(value)) for value in values], doors, [core.name for core in cores], frames)


def _drawn(streams: Streams) -> Stream:
    uncertain = [part for part in streams.parts if part.known is not Known.CERTAIN]
    if len(uncertain) != 1:
        raise UnsupportedError(
            f"A drawing shows one uncertain stream, got {len(uncertain)}.", hint="Draw each stream separately."
        )
    if len(uncertain[0].about) != 1:
        raise UnsupportedError(
            f"A drawing shows one uncertain column, but {uncertain[0].type} has {len(uncertain[0].about)}.",
            hint="Use match(…).",
        )
    return uncertain[0]


def _of_key(part: Stream, rows: EventBatch, key: object) -> tuple[IntArray, dict[str, object]]:
    """Return the rows of a key, and the key by column name."""
    rows_of_type = np.flatnonzero(rows.type_codes == rows.type_names.index(part.type))
    columns = {name: rows.columns[name].to_pylist() for name in part.of}
    keys = [tuple(column[row] for column in columns.values()) for row in rows_of_type]
    distinct = list(dict.fromkeys(keys))
    if key is None:
        if len(distinct) != 1:
            raise EventDataError(
                f"A drawing shows one key, but the rows have {len(distinct)} keys.",
                hint="Use draw(stream=…, key=…)." if distinct else "Add rows.",
            )
        chosen_key = distinct[0]
    else:
        key_parts = tuple(key.get(name) for name in part.of) if isinstance(key, Mapping) else key
        chosen_key = key_parts if isinstance(key_parts, tuple) else (key_parts,)
        if chosen_key not in distinct:
            raise EventDataError(
                f"Key {key!r} not found in the rows of {part.type}.",
                hint=f"Available: {', '.join(map(str, distinct[:5]))}{', …' if len(distinct) > 5 else ''}.",
            )
    chosen = [row for row, row_key in zip(rows_of_type, keys, strict=True) if row_key == chosen_key]
    return np.array(chosen, np.int64), dict(zip(part.of, chosen_key, strict=True))


def _values(part: Stream, rows: EventBatch, truth: str | None) -> list[object]:
    if part.model is not None:
        return [v.plain(value) for value in part.model.values]
    columns = [part.about[0], *([truth] if truth else [])]
    columns += [GIVEN + part.about[0]] if part.known is Known.LINKED else []
    all_values = (v.plain(value) for name in columns for value in rows.columns[name].to_pylist())
    return list(dict.fromkeys(value for value in all_values if value is not None))


def _shares(part: Stream, streams: Streams, rows: EventBatch, values: Sequence[object]) -> dict[int, dict[int, float]]:
    """By step and value: how probable it is."""
    by = f"partition by {', '.join(part.of)}" if part.of else ""
    cores = [
        resolve(
            parse_pattern(f"pattern v{i} match {part.type} x [{part.about[0]} in V{i}] within forever {by} selection successor")
        )
        for i in range(len(values))
    ]  # fmt: skip
    alone = replace(rows, relations={f"V{i}": v.Relation([(value,)]) for i, value in enumerate(values)})
    out: dict[int, dict[int, float]] = {}
    for row in _frame_results(cores, replace(streams, parts=(part,)), alone):
        out.setdefault(_micros(row["time"]), {})[int(row["pattern"][1:])] = row["p"]
    return out


def _chances(
    cores: Sequence[CorePattern], streams: Streams, rows: EventBatch, key_values: Mapping[str, object]
) -> list[dict[int, float]]:
    """By pattern and step: the probability that it is completed."""
    for core in cores:
        foreign = next((path.parts[0] for path in core.partition if path.parts[0] not in key_values), None)
        if foreign is not None:
            raise UnsupportedError(
                f"Pattern {core.name} is partitioned by {foreign}, which is not part of the key of the drawing.",
                hint="Use match(…).",
            )
    out: dict[str, dict[int, float]] = {core.name: {} for core in cores}
    for row in _frame_results(cores, streams, rows):
        if all(row.get(name) in (None, value) for name, value in key_values.items()):
            out[row["pattern"]][_micros(row["time"])] = row["p"]
    return list(out.values())


def _frame_results(cores: Sequence[CorePattern], streams: Streams, rows: EventBatch) -> list[dict[str, Any]]:
    types = {name: column.type for name, column in rows.columns.items()}
    done = match_all(make_plan(cores, streams, types), rows)
    require_distributions(streams, rows, done.bad)
    return done.rows.to_pylist()  # type: ignore[no-any-return]


def _micros(moment: dt.datetime) -> int:
    return int((moment - v.EPOCH) / dt.timedelta(microseconds=1))


def _row(
    part: Stream, rows: EventBatch, row: int | None, values: Sequence[object], truth: str | None
) -> tuple[str | None, Sequence[int], int | None]:
    """The reading of a row, the values at which it is most likely, and the true value."""
    if row is None:
        return None, (), None
    true_value = None if truth is None else v.plain(rows.columns[truth][row].as_py())
    if true_value is not None and true_value not in values:
        raise EventDataError(f"Column {truth!r} contains {true_value!r}, which is not a value of the drawing.")
    number = None if true_value is None else values.index(true_value)
    if part.model is None or READING not in rows.columns:
        return None, (), number
    reading = v.plain(rows.columns[READING][row].as_py())
    if reading is None or reading not in part.model.readings:
        return "", (), number
    likelihoods = part.model.emissions[part.model.readings.index(reading)]
    return v.text(reading), tuple(np.flatnonzero(likelihoods == likelihoods.max()).tolist()), number


def _doors(part: Stream, rows: EventBatch, values: Sequence[object]) -> list[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    if part.model is not None:
        source = np.repeat(np.arange(len(values)), np.diff(part.model.starts))
        pairs = set(zip(source.tolist(), part.model.targets.tolist(), strict=True))
    elif part.known is Known.LINKED:
        before, after = (rows.columns[name].to_pylist() for name in (GIVEN + part.about[0], part.about[0]))
        pairs = {
            (values.index(v.plain(old)), values.index(v.plain(new)))
            for old, new in zip(before, after, strict=True)
            if old is not None and new is not None
        }
    return sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
