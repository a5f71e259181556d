"""Paper 4's stream and pattern: SEQ(A, B, !C, D, E, F, G) over events of which some are out of order.

The paper leaves some parameters open; they are set here. SEQ matches every combination, as the paper's constructions do.
Events are reads of tags, of ten types at random, at a mean rate by tag and time unit; a match has one tag. A window of 40 is
strict: less than 40 units. A share of the events is delayed by 1 to 10 units, at random. The stream has a fifth as many
punctuations as events, each about one type, and correct. No event is more than ten units behind the newest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.registry import engines
from perseid.runtime.watermark import Watermark
from perseid.semantics import types as t

UNIT = 1_000_000
WINDOW, LONGEST, TAGS, PUNCTUATIONS = 40, 10, 10, 0.2
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
    """Events in order of arrival, with punctuations among them."""

    percent: int
    rows: EventBatch
    arrival: Any
    """By the id of an event: its number among the arrivals."""
    disorder: float
    """Share of events that are older than one that arrived before them."""

    def without_punctuations(self) -> Stream:
        chosen = np.flatnonzero(self.rows.control == 0)
        return replace(self, rows=replace(take_events(self.rows, chosen), control=None))

    def latency(self, events: Any, moments: Any) -> Any:
        """By match: arrivals from the last of its events, which have these ids, to its output."""
        return moments - self.arrival[events].max(axis=1, initial=-1) - 1


@dataclass(frozen=True)
class RunOutput:
    """Output of a method or an engine over a stream: one row for each emitted match, and one for each retraction."""

    seconds: float
    peak: int
    """Largest state, in bytes."""
    events: Any
    """By row: the ids of its events, one a column."""
    moment: Any
    """By row: how many events had arrived."""
    back: Any
    """By row: it is a retraction."""
    milliseconds: Any = None
    """By row: measured time from reading the last of its events to the output; None where it was not measured."""
    late: int = 0
    """Events that were dropped as late."""

    def final_matches(self) -> Any:
        """Names of matches that were emitted and are not retracted in the end, sorted."""
        names, which = np.unique(name_of(self.events), return_inverse=True)
        return names[np.bincount(which, np.where(self.back, -1, 1), len(names)) > 0]


@dataclass(frozen=True)
class Quality:
    """Recall and precision of all emitted matches, and of those that are not retracted in the end."""

    emitted_recall: float
    emitted_precision: float
    retracted: float
    """Retractions, as a share of the emitted matches."""
    recall: float
    precision: float

    @classmethod
    def of(cls, run_output: RunOutput, right: Any) -> Quality:
        """``right`` are the sorted names of the correct matches."""
        emitted, final = name_of(run_output.events[~run_output.back]), run_output.final_matches()
        return cls(
            _share(right, emitted),
            _share(emitted, right),
            float(run_output.back.sum()) / max(len(emitted), 1),
            _share(right, final),
            _share(final, right),
        )


def _share(of: Any, among: Any) -> float:
    """Share of the names that are among others; 1 of none."""
    return float(np.isin(of, among).mean()) if len(of) else 1.0


def make_stream(count: int, percent: int, seed: int = 4, *, rate: float = 1.0, tags: int = TAGS) -> Stream:
    """Make a stream with ``percent`` % delayed events; ``rate`` is reads of a tag in a time unit."""
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
    # A punctuation about a type is just before its oldest event that is still to come.
    places = np.sort(chance.choice(count, int(count * PUNCTUATIONS), replace=False))
    about = chance.integers(0, len(TYPES), len(places))
    to_come = np.full((len(TYPES), count + 1), end + DELAY, np.int64)
    for kind in range(len(TYPES)):
        mine = np.where(kinds[order] == kind, arrived, end + DELAY)
        to_come[kind, :-1] = np.minimum.accumulate(mine[::-1])[::-1]
    whole = np.argsort(np.concatenate([np.arange(count), places + 0.5]), kind="stable")
    ids = np.concatenate([order, np.full(len(places), -1)])[whole]

    def joined(events: Any, punctuations: Any) -> Any:
        return np.ascontiguousarray(np.concatenate([events, punctuations])[whole])

    key = pa.array(joined(keys[order], np.zeros(len(places), np.int64)))
    rows = EventBatch(
        time=joined(arrived, to_come[about, places + 1] - 1),
        type_codes=joined(kinds[order], about).astype(np.int32),
        type_names=list(TYPES),
        columns={"key": key, "id": pa.array(ids)},
        keys={0: {"key": key}},
        identity=ids.astype(np.int64),
        control=joined(np.zeros(count), np.full(len(places), 2)).astype(np.int8),
    )
    return Stream(percent, rows, arrival, float(behind.mean()))


def expected_matches(stream: Stream, pattern: Any = PATTERN) -> pa.Table:
    """Matches of a batch query over the whole stream."""
    engine = engines()["sequence"]
    rows = stream.without_punctuations().rows
    return engine.step(engine.plan(pattern.plan(), COLUMNS), rows, None, Watermark(ended=True)).rows


def events_of(matches: pa.Table) -> Any:
    """The ids of each match's events, a row each."""
    return np.column_stack([np.asarray(matches[step], np.int64) for step in STEPS])


def name_of(events: Any) -> Any:
    """A 64-bit hash of each row of ids."""
    named = np.zeros(len(events), np.uint64)
    for column in np.asarray(events, np.uint64).T:
        named = (named ^ column) * np.uint64(0x9E3779B97F4A7C15)
        named ^= named >> np.uint64(29)
    return named
