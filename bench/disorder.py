"""Paper 4's experiment with our strategies: SEQ(A, B, !C, D, E, F, G) over events of which more and more are out of order.

What the paper leaves open is set here. SEQ takes every combination (its own constructions do). Events are reads of ten
tags, one a tag and time unit on average, of ten types at random; a match is of one tag. A window of 40 is strict: less
than 40 units. Some events, as many as the disorder says, are delayed by 1 to 10 units, at random; a fifth as many rows as
there are events are promises, each about one type, and true. Every engine is given the stream in calls of a hundred
arrivals, as a micro-batch would; the watermark is ten units behind the newest event.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from bench.harness import Clock as RunClock
from bench.harness import Contestant, Report, Timed, contest, paired_ratio, progress, say
from perseid.engines.contract import Clock, Engine, Rows
from perseid.engines.registry import engines
from perseid.engines.rows import take_rows
from perseid.semantics import types as t

UNIT = 1_000_000
WINDOW, LONGEST, KEYS, PROMISES = 40, 10, 10, 0.2
TYPES = "ABCDEFGHIJ"
CALL = 100
"""Arrivals that an engine is given at once."""
COUNTS = {"quick": 10_000, "standard": 100_000, "full": 100_000}
LIMITS = {"quick": (55.0, 20.0), "standard": (1800.0, 120.0), "full": (3600.0, 120.0)}
DISORDER = {"quick": (0, 20, 50), "standard": (0, 10, 20, 30, 40, 50), "full": (0, 10, 20, 30, 40, 50)}
STRATEGIES = {"K-slack": "sequence", "conservative": "conservative", "aggressive": "aggressive", "assemble": "assemble"}
PATTERN = ps.pattern(f"""
pattern seq
match   A a ->> B b -> not C ->> D d ->> E e ->> F f ->> G g
within  {WINDOW - 1} seconds
partition by key
return  a.id as a, b.id as b, d.id as d, e.id as e, f.id as f, g.id as g
""")
STEPS = "abdefg"


@dataclass(frozen=True)
class Stream:
    """Events in the order in which they arrive, and promises among them."""

    rows: Rows
    arrival: Any
    """By the id of an event: its place among the arrivals."""
    disorder: float
    """The share of events older than one that came before them."""

    def without_promises(self) -> Stream:
        chosen = np.flatnonzero(self.rows.control == 0)
        return replace(self, rows=replace(take_rows(self.rows, chosen), control=None))


def make_stream(count: int, percent: int, seed: int = 4) -> Stream:
    """So many events, so many in a hundred of them delayed."""
    chance = np.random.default_rng(seed)
    moment = np.sort(chance.integers(0, count * UNIT // KEYS, count))
    moment -= moment % UNIT  # the paper's time is in whole units
    kinds, keys = chance.integers(0, len(TYPES), count), chance.integers(0, KEYS, count)
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
    to_come = np.full((len(TYPES), count + 1), count * UNIT, np.int64)
    for kind in range(len(TYPES)):
        mine = np.where(kinds[order] == kind, arrived, count * UNIT)
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
    return Stream(rows, arrival, float(behind.mean()))


@dataclass
class Told:
    """What a run told, and what it took."""

    seconds: float = 0.0
    peak: int = 0
    told: dict[str, int] = field(default_factory=dict)
    """By match: the number of arrivals when it was told first."""
    stands: set[str] = field(default_factory=set)
    inserts: int = 0
    retractions: int = 0
    last: dict[str, int] = field(default_factory=dict)
    """By match: when the last of its events arrived."""

    def latency(self) -> float:
        """Arrivals from the last of a match's events to its being told, on average."""
        return statistics.mean(at - self.last[match] for match, at in self.told.items()) if self.told else 0.0


def calls(stream: Stream) -> Iterator[tuple[Rows, int | None, int]]:
    """Rows by call, how far the watermark had come before, and how many events have arrived after."""
    control = stream.rows.control
    events = np.arange(len(stream.rows)) if control is None else np.cumsum(control == 0)
    seen, now = 0, None
    for at in range(0, len(stream.rows), CALL):
        some = take_rows(stream.rows, np.arange(at, min(at + CALL, len(stream.rows))))
        seen = at + len(some) if control is None else int(events[at + len(some) - 1])
        yield some, now, seen
        real = some.time if some.control is None else some.time[some.control == 0]
        if len(real):
            now = max(-(10**18) if now is None else now, int(real.max()) - LONGEST * UNIT - 1)


def go(engine: Engine, plan: Any, stream: Stream) -> Told:
    """Run an engine over a stream; only its steps are timed."""
    out, state = Told(), None
    given = stream if engine.name == "conservative" else stream.without_promises()
    empty = take_rows(given.rows, np.zeros(0, np.int64))
    steps = [*((rows, Clock(None, now), seen) for rows, now, seen in calls(given))]
    steps.append((empty, Clock(ended=True), steps[-1][2]))
    for rows, clock, seen in steps:
        begin = time.perf_counter()
        done = engine.step(plan, rows, state, clock)
        out.seconds += time.perf_counter() - begin
        state = done.state
        out.peak = max(out.peak, 0 if state is None else len(state))
        if done.rows.num_rows:
            _note(out, done.rows, seen, stream.arrival)
    return out


def _note(out: Told, rows: pa.Table, seen: int, arrival: Any) -> None:
    last = np.max([arrival[np.asarray(rows[step])] for step in STEPS], axis=0)
    for match, op, at in zip(rows["match_id"].to_pylist(), rows["op"].to_pylist(), last.tolist(), strict=True):
        if op == "-":
            out.retractions += 1
            out.stands.remove(match)
            continue
        out.inserts += 1
        out.stands.add(match)
        out.told.setdefault(match, seen)
        out.last[match] = at + 1


def run(size: str, data: Path, only: Sequence[str] | None = None) -> Report:
    """Measure at a size."""
    del data, only
    clock, report = RunClock(*LIMITS[size]), Report("disorder", size)
    types: Mapping[str, t.Type] = {"key": t.Integer(), "id": t.Integer()}
    there = {name: engines()[engine] for name, engine in STRATEGIES.items()}
    plans = {name: engine.plan(PATTERN.plan(), types) for name, engine in there.items()}
    rounds = 1 if size == "quick" else 3
    lines = []
    for percent in DISORDER[size]:
        stream = make_stream(COUNTS[size], percent)
        right = _right(stream, plans["K-slack"])
        kept: dict[str, Told] = {}

        def measured(name: str, stream: Stream = stream, kept: dict[str, Told] = kept) -> Timed:
            kept[name] = go(there[name], plans[name], stream)
            return Timed(kept[name].seconds, frozenset(kept[name].stands))

        records = contest(
            [Contestant(name, lambda name=name: measured(name), right) for name in there], clock, rounds=rounds
        )
        report.records.update({f"{percent} % {name}": record for name, record in records.items()})
        for name, one in kept.items():
            record = records[name]
            middle = statistics.median(record.seconds) if record.seconds else float("nan")
            first = len(set(one.told) & right) / max(len(one.told), 1)
            lines.append(
                f"{percent:>3} %  {name:<12}  {middle:8.3f} s  {COUNTS[size] / middle / 1000:7,.0f} thousand/s  "
                f"peak {one.peak / 1024:7,.1f} KB  latency {one.latency():7.1f} arrivals  "
                f"right {len(one.stands & right) / max(len(right), 1):7.2%}, at first {first:7.2%}  "
                f"taken back {one.retractions / max(one.inserts, 1):6.2%}"
            )
            report.add(f"{name}.{percent}.accuracy", len(one.stands & right) / max(len(right), 1))
            if name == "aggressive":
                report.add(f"aggressive.{percent}.retracted", one.retractions / max(one.inserts, 1))
        ratios = [paired_ratio(records["assemble"], records[name]) for name in there if name != "assemble"]
        known = [ratio for ratio, _ in ratios if ratio is not None]
        report.add(f"assemble.{percent}", min(known, default=None), next((why for _, why in ratios if why), ""))
        progress(
            f"{percent} % ({stream.disorder:.0%} behind), {len(right):,} matches: assemble {report.figures[f'assemble.{percent}']}"
        )
    ends = [report.records[f"{percent} % assemble"].seconds for percent in (0, 50)]
    steady = statistics.median(ends[0]) / statistics.median(ends[1]) if all(ends) else None
    report.add("assemble.steady", steady, "not measured")
    say("\n".join(lines) + "\n")
    return report


def _right(stream: Stream, plan: Any) -> frozenset[str]:
    """What a batch finds."""
    rows = stream.without_promises().rows
    return frozenset(engines()["sequence"].step(plan, rows, None, Clock(ended=True)).rows["match_id"].to_pylist())
