"""Window history of a Safe pattern: the input of the steps that its windows reach back to, and the hidden chains before
them.

Rows are stored as they arrived, and readings as the marginal distributions computed from them. Table streams also have
the distribution of their chains before the first stored step: a window that begins there starts from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.chains import Chains, no_lives
from perseid.engines.uncertain.intervals import ChainMarginals, PlanLayout, of_types
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import Units
from perseid.engines.uncertain.streams import Known, Stream, Streams
from perseid.engines.uncertain.telling import OpenAlerts, no_open_alerts
from perseid.engines.uncertain.traces import NEVER, CallInput, steps_of
from perseid.lang import ast
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.event_batch import EventBatch, concat_batches, take_events
from perseid.runtime.hashing import hash_columns
from perseid.semantics import core as c
from perseid.semantics.hashing import hash_values


@dataclass(frozen=True)
class Believed:
    """Marginal distributions of chains with readings: a row for every key and step."""

    keys: Mapping[str, ArrowColumn]
    step: IntArray
    shares: FloatArray
    """By row and value: the probability."""

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class WindowHistory:
    """Window history of one pattern."""

    begin: int
    """The last evicted step."""
    rows: EventBatch
    believed: Mapping[str, Believed]
    """By event type with readings."""
    starts: Mapping[str, ChainMarginals]
    """By event type with tables: the distribution after ``begin``."""
    groups: Sequence[ArrowColumn]
    ongoing: OpenAlerts
    """By group with an open alert or span: its key columns, and the alert or span."""

    def __len__(self) -> int:
        return len(self.rows) + sum(map(len, self.believed.values()))

    @property
    def is_over(self) -> bool:
        """Return True if the history is empty."""
        return not len(self) and not len(self.ongoing.since) and not any(len(one.chain) for one in self.starts.values())

    def newest(self, every: int | None) -> int:
        """The last step with stored input."""
        steps = [steps_of(self.rows, every), *(one.step for one in self.believed.values())]
        return max(self.begin, *(int(some.max(initial=NEVER)) for some in steps))


def empty_history(one: PlannedQuery, streams: Streams, rows: EventBatch) -> WindowHistory:
    """Return an empty history."""
    none = take_events(rows, np.zeros(0, np.int64))
    believed = {}
    for part in _read(one, streams):
        assert part.model is not None
        keys = no_lives(part, none).keys
        believed[part.type] = Believed(keys, np.zeros(0, np.int64), np.zeros((0, len(part.model.values))))
    return WindowHistory(NEVER, none, believed, {}, [], no_open_alerts(0, NEVER))


def _read(one: PlannedQuery, streams: Streams) -> list[Stream]:
    return [part for part in streams.parts if part.known is Known.READ and one.asks(part.type)]


def followed(one: PlannedQuery, streams: Streams, past: WindowHistory, given: CallInput) -> CallInput:
    """Append the input of a call to the history."""
    read = _read(one, streams)
    rows = of_types(replace(given, chains={}, beliefs={}), one.named_types - {part.type for part in read}).rows
    rows = concat_batches(past.rows, rows)
    chains, beliefs = {}, {}
    for part in read:
        before = past.believed[part.type]
        chains[part.type] = _behind(part, before, given.chains[part.type])
        beliefs[part.type] = np.concatenate([before.shares, given.beliefs[part.type]])
    none = np.zeros(0, np.int64)
    return replace(
        given, rows=rows, step=steps_of(rows, streams.every), chains=chains, beliefs=beliefs, ahead={}, bad=none
    )


def _behind(part: Stream, before: Believed, chains: Chains) -> Chains:
    """Prepend marginal distributions, as chains of one step each, to chains."""
    many = len(before)
    units = Units([list(before.keys.values()), list(chains.keys.values())], [many, len(chains.afresh)])
    keys = dict(zip(part.of, units.whole, strict=True))
    hashes = hash_columns(units.keys, leading=hash_values([part.type]), rows=len(units))
    ones = np.ones(many, np.int64)
    return Chains(
        keys=keys,
        hashes=hashes[np.concatenate(units.of)],
        offsets=np.append(np.arange(many), many + chains.offsets),
        step=np.append(before.step, chains.step),
        reading=np.append(0 * ones, chains.reading),
        rows=np.append(ones > 0, chains.rows),
        likelihood=chains.likelihood,
        afresh=np.append(ones > 0, chains.afresh),
        told=np.append(ones, chains.told),
        before=np.append(-ones, chains.before),
    )


def evict_steps(one: PlannedQuery, streams: Streams, past: WindowHistory, given: CallInput, done: int) -> WindowHistory:
    """Evict the steps that no later window reaches; ``given`` is the result of :func:`followed`."""
    assert one.window is not None
    begin = done - one.window
    rows = take_events(given.rows, np.flatnonzero(given.step > begin))
    believed = {}
    for type_, chains in given.chains.items():
        some = np.flatnonzero(chains.counted & (chains.step > begin))
        owner = pa.array(chains.owner[some])
        keys = {name: column.take(owner) for name, column in chains.keys.items()}
        believed[type_] = Believed(keys, chains.step[some], given.beliefs[type_][some])
    starts = past.starts if begin == past.begin else _starts(one, streams, past, given, begin)
    return replace(past, begin=begin, rows=rows, believed=believed, starts=starts)


def _starts(
    one: PlannedQuery, streams: Streams, past: WindowHistory, given: CallInput, begin: int
) -> dict[str, ChainMarginals]:
    """Distribution of the chains of table streams after a step; chains without input at that step have no event."""
    layout = PlanLayout(one, streams, past.starts)
    out = {}
    for part in streams.parts:
        if part.known is not Known.LINKED or not one.asks(part.type):
            continue
        number = next(step.id for step in one.pattern.steps if step.kind == ast.EventType(part.type))
        found: list[tuple[IntArray, IntArray, BoolArray, FloatArray]] = []
        for track in layout.tracks(c.Take(number), of_types(given, {part.type}), every_chain=True):
            at = int(np.searchsorted(track.lot.step, begin))
            if not np.array_equal(track.lot.step[at : at + 2], [begin, begin + 1]):
                continue  # the chain restarts after a gap, and all rows of the next step have arrived
            after = track.after[at]
            some = np.flatnonzero(after)
            if some[0] < track.lot.values:
                names = np.append(track.lot.names, 0)[some]
                found.append((np.full(len(some), track.chain), names, some < track.lot.values, after[some]))
        if found:
            out[part.type] = ChainMarginals(begin, *(np.concatenate(some) for some in zip(*found, strict=True)))
    return out
