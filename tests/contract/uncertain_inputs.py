"""Cases of the engine for uncertain streams; the oracle enumerates possible worlds."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.engine import make_plan
from perseid.engines.uncertain.output_policies import OutputPolicy
from perseid.engines.uncertain.plan import PlannedQuery, UncertainPlan
from perseid.engines.uncertain.streams import CHANCE, GIVEN, READING, Inference, Known, Sampling, Stream, Streams
from perseid.errors import UnsupportedError
from perseid.lang.parser import parse_pattern
from perseid.reference.worlds import GroupResult, group_results
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.semantics import values as v
from perseid.semantics.classes import window_of
from perseid.semantics.hidden import hidden_markov
from perseid.semantics.resolve import resolve
from tests.contract.cases import SECOND, EngineCase, EngineInputs, GoldenCase, Output
from tests.generators.random_beliefs import Row, Uncertain, make_uncertain, rows_of

EPSILON = 0.25
SAMPLING = Sampling(EPSILON, 1e-9)
"""Sampled probabilities are off by more than ``EPSILON`` in one case of 10**9."""
RISE = 0.4
Key = tuple[tuple[object, ...], int]
"""A group and the time of a step."""


def read(tables: Sequence[pa.Table]) -> Output:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


def _micros(moment: dt.datetime) -> int:
    return (moment - v.EPOCH) // dt.timedelta(microseconds=1)


# The oracle


def _check(case: Uncertain, asked: PlannedQuery, output_policy: OutputPolicy, tables: Sequence[pa.Table]) -> int:
    expected = group_results(case.pattern, case.chains, case.certain)
    rows = [row for table in tables for row in table.to_pylist()]
    names = [component.name for component in asked.unit[: asked.groups]]
    if output_policy.how == "spans":
        return _check_spans(expected, rows, names)
    found = {(tuple(row[name] for name in names), _micros(row["time"])): row for row in rows}
    assert len(found) == len(rows), "two rows of one group and step"
    for key in {*found, *expected}:
        row, right = found.get(key), expected.get(key, GroupResult())
        chance, error = (0.0, 0.0) if row is None else (row["p"], row["error"])
        assert row is None or key in expected, f"{key} is in no world"
        if row is not None or not asked.is_sampled(case.streams):
            assert abs(chance - right.probability) <= (error or 1e-9), f"{key}: {chance}, not {right.probability}"
        else:
            assert right.probability <= EPSILON, f"{key} was not sampled once"
        if output_policy.counts and row is not None:
            assert abs(row["expected"] - right.expected) <= 1e-9, f"{key}: {row['expected']}, not {right.expected}"
    return len(expected)


def _check_spans(expected: Mapping[Key, GroupResult], rows: Sequence[Row], names: Sequence[str]) -> int:
    """Return the longest spans of steps above ``RISE``, by their probabilities in the oracle."""
    spans = {(tuple(row[name] for name in names), _micros(row["start"]), _micros(row["end"])): row["p"] for row in rows}
    right = dict(_spans_of(expected))
    assert {*spans} == {*right}
    assert all(abs(spans[key] - peak) <= 1e-9 for key, peak in right.items())
    return len(right)


def _spans_of(expected: Mapping[Key, GroupResult]) -> Iterator[tuple[tuple[tuple[object, ...], int, int], float]]:
    high = {key: one.probability for key, one in expected.items() if one.probability >= RISE}
    for group, first in high:
        if (group, first - SECOND) not in high:
            last = first
            while (group, last + SECOND) in high:
                last += SECOND
            steps = range(first, last + SECOND, SECOND)
            yield (group, first, last), max(high[group, step] for step in steps)


# Random cases


def _is_late(times: IntArray, watermark: int) -> BoolArray:
    """A step is complete once the watermark has passed its end; only then are its rows late."""
    late: BoolArray = times // SECOND <= (watermark + 1) // SECOND - 1
    return late


def _moments(plan: UncertainPlan, times: IntArray) -> list[int]:
    """Return the ends of steps up to the end of the window, the lag and the idle timeout."""
    steps = {int(time) // SECOND for time in times}
    return [(step + 1) * SECOND - 1 for step in range(min(steps), min(max(steps), min(steps) + 200) + 60)]


def _is_bounded(plan: UncertainPlan) -> bool:
    return all(window_of(one.pattern) is not None for one in plan.queries)


def _owners(plan: UncertainPlan, columns: Mapping[str, pa.Array]) -> IntArray | None:
    """Return the group number of each row, if a pattern is partitioned."""
    (asked,) = plan.queries
    if not asked.groups:
        return None
    names = [component.name for component in asked.unit[: asked.groups]]
    groups = [repr(group) for group in zip(*(columns[name].to_pylist() for name in names), strict=True)]
    return np.array([sorted({*groups}).index(group) for group in groups], np.int64)


@lru_cache(256)
def _random_case(seed: int) -> EngineCase | None:
    """Draw a case; None if a stream does not support the pattern."""
    case, chance = make_uncertain(seed), random.Random(f"telling {seed}")
    rows = rows_of(case.given)
    types = {name: column.type for name, column in rows.columns.items()}
    streams = Streams(case.streams.parts, case.streams.every, SAMPLING)
    output_policy = chance.choice(
        (OutputPolicy(), OutputPolicy(), OutputPolicy("expected"), OutputPolicy("spans", RISE, RISE))
    )
    try:
        plan = make_plan([case.pattern], streams, types, output_policy=output_policy)
        plan.refuse_on_streams()
    except UnsupportedError:
        return None
    (asked,) = plan.queries
    if output_policy.how == "spans" and (asked.groups < len(asked.unit) or asked.is_sampled(streams)):
        return None  # sampled probabilities may be on the other side of the threshold
    return EngineCase(
        plan, rows, read, partial(_check, case, asked, output_policy), _owners(plan, rows.columns),
        is_late=_is_late, bounded=_is_bounded(plan), moments=_moments(plan, rows.time),
    )  # fmt: skip


def make_case(seed: int) -> EngineCase:
    """Draw the first case from seed ``1000 * seed`` on that a stream supports."""
    return next(case for number in range(1000 * seed, 1000 * seed + 1000) if (case := _random_case(number)) is not None)


# States of earlier versions

STEPS = "At a [v = 1] -> At b must (v = 2) -> At+ c must (v > 0) -> At d [v = 0]"
UNSAFE = "At a [v = 1] -> At b [b.v >= a.v] -> At c [c.v < b.v]"
SAFE = "At(k as x) a [v = 1] -> At(k as x) b [v = 2] -> By c [v = 1]"
DIGITS = Stream("At", Known.INDEPENDENT, ("k",), ("v",))
MODEL = hidden_markov(
    values=[0, 1, 2],
    initial=[0.5, 0.25, 0.25],
    transitions=[[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]],
    readings=[[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]],
    reading_names=["r", "s"],
)


def _digits(chance: random.Random, seconds: int, type_: str = "At") -> Iterator[Row]:
    for second in range(seconds):
        for k in range(3):
            for value in range(3):
                yield {"type": type_, "time": second * SECOND, "k": k, "v": value, CHANCE: chance.random() / 3}


def _tables(chance: random.Random, seconds: int) -> Iterator[Row]:
    """Return transition probabilities by second and key: the value given that of the second before."""
    for second in range(seconds):
        for k in range(3):
            for before in (None, 1, 2):
                for value in (1, 2):
                    share = chance.random() / 2
                    yield {
                        "type": "At", "time": second * SECOND, "k": k, "v": value, GIVEN + "v": before, CHANCE: share,
                    }  # fmt: skip


def _readings(chance: random.Random, seconds: int) -> Iterator[Row]:
    for second in range(seconds):
        for k in range(3):
            if chance.random() < 0.8:
                yield {"type": "At", "time": second * SECOND, "k": k, READING: chance.choice("rs")}


def _golden(
    match: str,
    rows: Sequence[Row],
    parts: Sequence[Stream] = (DIGITS,),
    *,
    more: str = "within 5 seconds partition by k",
    output_policy: OutputPolicy | None = None,
    now: int = 5 * SECOND - 1,
) -> GoldenCase:
    """Return a golden case with the rows of the first 8 seconds in the state."""
    batch = rows_of(rows)
    types = {name: column.type for name, column in batch.columns.items()}
    pattern = resolve(parse_pattern(f"pattern p match {match} {more}"))
    plan = make_plan(
        [pattern], Streams(tuple(parts), SECOND, SAMPLING), types, output_policy=output_policy or OutputPolicy()
    )
    plan.refuse_on_streams()
    case = EngineCase(plan, batch, read, lambda _: 0, is_late=_is_late)
    return GoldenCase(case, np.flatnonzero(batch.time < 8 * SECOND), now)


def _chance() -> random.Random:
    return random.Random(3)


GOLDEN = {
    "exact": lambda: _golden(STEPS, [*_digits(_chance(), 12)]),
    "no watermark yet": lambda: _golden(STEPS, [*_digits(_chance(), 12)], now=-1),
    "spans": lambda: _golden(STEPS, [*_digits(_chance(), 12)], output_policy=OutputPolicy("spans", 0.01, 0.01)),
    "expected": lambda: _golden(STEPS, [*_digits(_chance(), 12)], output_policy=OutputPolicy("expected")),
    "sampled": lambda: _golden(UNSAFE, [*_digits(_chance(), 12)]),
    "tables": lambda: _golden(
        "At a [v = 1] -> At b must (v = 2)", [*_tables(_chance(), 12)], [Stream("At", Known.LINKED, ("k",), ("v",))]
    ),
    "readings": lambda: _golden(
        "At a [v = 1] -> At b must (v = 2)",
        [*_readings(_chance(), 12)],
        [Stream("At", Known.READ, ("k",), ("v",), MODEL, Inference("lag", 1), patience=2)],
    ),
    "readings one by one": lambda: _golden(
        "At a [v = 1] -> At b must (v = 2)",
        [*_readings(_chance(), 12)],
        [Stream("At", Known.READ, ("k",), ("v",), MODEL, correlations=False, patience=2)],
    ),
    "safe windows": lambda: _golden(
        SAFE,
        [*_tables(_chance(), 12), *_digits(_chance(), 12, "By")],
        [Stream("At", Known.LINKED, ("k",), ("v",)), Stream("By", Known.INDEPENDENT, ("k",), ("v",))],
        more="within 5 seconds",
    ),
}
INPUTS = EngineInputs(make_case, seeds=20, golden=GOLDEN)
