"""Paper 4's stream and pattern: SEQ(A, B, !C, D, E, F, G) over events of which some are out of order.

What the paper leaves open is set here. SEQ takes every combination (its own constructions do). Events are reads of tags,
so many a tag and time unit on average, of ten types at random; a match is of one tag. A window of 40 is strict: less than
40 units. Some events, as many as the disorder says, are delayed by 1 to 10 units, at random; a fifth as many rows as there
are events are promises, each about one type, and true. Nothing is later than ten units behind the newest event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from perseid.engines.contract import Clock, Rows
from perseid.engines.registry import engines
from perseid.engines.rows import take_rows
from perseid.semantics import types as t

UNIT = 1_000_000
WINDOW, LONGEST, TAGS, PROMISES = 40, 10, 10, 0.2
DELAY = LONGEST * UNIT
TYPES = "ABCDEFGHIJ"
COLUMNS: Mapping[str, t.Type] = {"key": t.Integer(), "id": t.Integer()}
_TEXT = """pattern seq
match   {steps}
within  {window} seconds
partition by key
return  a.id as a, b.id as b, d.id as d, e.id as e, f.id as f, g.id as g
"""
PATTERN_TEXT = _TEXT.format(steps="A a ->> B b -> not C ->> D d ->> E e ->> F f ->> G g", window=WINDOW - 1)
PATTERN = ps.pattern(PATTERN_TEXT)
WITHOUT_NEGATION = ps.pattern(_TEXT.format(steps="A a ->> B b ->> D d ->> E e ->> F f ->> G g", window=WINDOW - 1))
STEPS = "abdefg"


@dataclass(frozen=True)
class Stream:
    """Events in the order in which they arrive, and promises among them."""

    percent: int
    rows: Rows
    arrival: Any
    """By the id of an event: its place among the arrivals."""
    disorder: float
    """The share of events older than one that came before them."""

    def without_promises(self) -> Stream:
        chosen = np.flatnonzero(self.rows.control == 0)
        return replace(self, rows=replace(take_rows(self.rows, chosen), control=None))

    def latency(self, events: Any, moments: Any) -> Any:
        """By match: arrivals from the last of its events, which have these ids, to when it was told."""
        return moments - self.arrival[events].max(axis=1, initial=-1) - 1


@dataclass(frozen=True)
class Course:
    """What was told of a stream, and when: one row for each match, and for each that was taken back."""

    seconds: float
    peak: int
    """The most that was held at once: events and matches, or bytes of state."""
    events: Any
    """By row: the ids of its events, one a column."""
    moment: Any
    """By row: how many events had come."""
    back: Any
    """By row: taken back."""

    def stands(self) -> Any:
        """The names of what was told and not taken back, in order."""
        return np.setdiff1d(name_of(self.events[~self.back]), name_of(self.events[self.back]))


def make_stream(count: int, percent: int, seed: int = 4, *, rate: float = 1.0, tags: int = TAGS) -> Stream:
    """So many events, so many in a hundred of them delayed; ``rate`` is of a tag, in a unit of time."""
    chance = np.random.default_rng(seed)
    end = int(count / tags / rate) * UNIT
    moment = np.sort(chance.integers(0, end, count))
    moment -= moment % UNIT  # the paper's time is in whole units
    kinds, keys = chance.integers(0, len(TYPES), count), chance.integers(0, tags, count)
    chance = np.random.default_rng((seed, percent))  # the same events, however they arrive
    delay = np.where(chance.random(count) < percent / 100, chance.integers(1, LONGEST + 1, count) * UNIT, 0)
    order = np.lexsort((chance.random(count), moment + delay))
    arrived = moment[order]
    behind = arrived < np.maximum.accumulate(arrived)
    arrival = np.empty(count, np.int64)
    arrival[order] = np.arange(count)
    # A promise about a type: nothing of it up to just before the oldest that is still to come.
    places = np.sort(chance.choice(count, int(count * PROMISES), replace=False))
    about = chance.integers(0, len(TYPES), len(places))
    to_come = np.full((len(TYPES), count + 1), end + DELAY, np.int64)
    for kind in range(len(TYPES)):
        mine = np.where(kinds[order] == kind, arrived, end + DELAY)
        to_come[kind, :-1] = np.minimum.accumulate(mine[::-1])[::-1]
    whole = np.argsort(np.concatenate([np.arange(count), places + 0.5]), kind="stable")
    ids = np.concatenate([order, np.full(len(places), -1)])[whole]

    def joined(events: Any, promises: Any) -> Any:
        return np.ascontiguousarray(np.concatenate([events, promises])[whole])

    key = pa.array(joined(keys[order], np.zeros(len(places), np.int64)))
    rows = Rows(
        time=joined(arrived, to_come[about, places + 1] - 1),
        kinds=joined(kinds[order], about).astype(np.int32),
        kind_names=list(TYPES),
        columns={"key": key, "id": pa.array(ids)},
        keys={0: {"key": key}},
        identity=ids.astype(np.int64),
        control=joined(np.zeros(count), np.full(len(places), 2)).astype(np.int8),
    )
    return Stream(percent, rows, arrival, float(behind.mean()))


def right_answer(stream: Stream, pattern: Any = PATTERN) -> pa.Table:
    """What a batch finds in all of it."""
    engine = engines()["sequence"]
    rows = stream.without_promises().rows
    return engine.step(engine.plan(pattern.plan(), COLUMNS), rows, None, Clock(ended=True)).rows


def events_of(matches: pa.Table) -> Any:
    """The ids of each match's events, a row each."""
    return np.column_stack([np.asarray(matches[step], np.int64) for step in STEPS])


def name_of(events: Any) -> Any:
    """A number for each row of ids that others hardly share."""
    named = np.zeros(len(events), np.uint64)
    for column in np.asarray(events, np.uint64).T:
        named = (named ^ column) * np.uint64(0x9E3779B97F4A7C15)
        named ^= named >> np.uint64(29)
    return named
