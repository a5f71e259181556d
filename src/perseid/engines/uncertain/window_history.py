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

from perseid.engines.uncertain.chains import Chains, no_retained_chains
from perseid.engines.uncertain.intervals import ChainMarginals, PlanLayout, of_types
from perseid.engines.uncertain.output_policies import OpenAlerts, no_open_alerts
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import Units
from perseid.engines.uncertain.streams import Known, Stream, Streams
from perseid.engines.uncertain.traces import NEVER, CallInput, steps_of
from perseid.lang import ast
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.event_batch import EventBatch, concat_batches, take_events
from perseid.runtime.hashing import hash_columns
from perseid.semantics import core as c
from perseid.semantics.hashing import hash_values


@dataclass(frozen=True)
class PriorBeliefs:
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
    believed: Mapping[str, PriorBeliefs]
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
        return (
            not len(self)
            and not len(self.ongoing.since)
            and not any(len(start.chain) for start in self.starts.values())
        )

    def newest(self, every: int | None) -> int:
        """The last step with stored input."""
        steps = [steps_of(self.rows, every), *(believed.step for believed in self.believed.values())]
        return max(self.begin, *(int(some.max(initial=NEVER)) for some in steps))


def empty_history(query: PlannedQuery, streams: Streams, rows: EventBatch) -> WindowHistory:
    """Return an empty history."""
    no_rows = take_events(rows, np.zeros(0, np.int64))
    believed = {}
    for part in _streams_with_readings(query, streams):
        assert part.model is not None
        keys = no_retained_chains(part, no_rows).keys
        believed[part.type] = PriorBeliefs(keys, np.zeros(0, np.int64), np.zeros((0, len(part.model.values))))
    return WindowHistory(NEVER, no_rows, believed, {}, [], no_open_alerts(0, NEVER))


def _streams_with_readings(query: PlannedQuery, streams: Streams) -> list[Stream]:
    return [part for part in streams.parts if part.known is Known.READ and query.reads_type(part.type)]


def append_input(query: PlannedQuery, streams: Streams, history: WindowHistory, call_input: CallInput) -> CallInput:
    """Append the input of a call to the history."""
    read = _streams_with_readings(query, streams)
    rows = of_types(replace(call_input, chains={}, beliefs={}), query.named_types - {part.type for part in read}).rows
    rows = concat_batches(history.rows, rows)
    chains, beliefs = {}, {}
    for part in read:
        before = history.believed[part.type]
        chains[part.type] = _prepend_history(part, before, call_input.chains[part.type])
        beliefs[part.type] = np.concatenate([before.shares, call_input.beliefs[part.type]])
    no_rows = np.zeros(0, np.int64)
    return replace(
        call_input, rows=rows, step=steps_of(rows, streams.every), chains=chains, beliefs=beliefs, ahead={}, bad=no_rows
    )


def _prepend_history(part: Stream, before: PriorBeliefs, chains: Chains) -> Chains:
    """Prepend marginal distributions, as chains of one step each, to chains."""
    count = len(before)
    units = Units([list(before.keys.values()), list(chains.keys.values())], [count, len(chains.afresh)])
    keys = dict(zip(part.of, units.whole, strict=True))
    hashes = hash_columns(units.keys, leading=hash_values([part.type]), rows=len(units))
    ones = np.ones(count, np.int64)
    return Chains(
        keys=keys,
        hashes=hashes[np.concatenate(units.of)],
        offsets=np.append(np.arange(count), count + chains.offsets),
        step=np.append(before.step, chains.step),
        reading=np.append(0 * ones, chains.reading),
        rows=np.append(ones > 0, chains.rows),
        likelihood=chains.likelihood,
        afresh=np.append(ones > 0, chains.afresh),
        evaluated=np.append(ones, chains.evaluated),
        before=np.append(-ones, chains.before),
    )


def evict_steps(
    query: PlannedQuery, streams: Streams, history: WindowHistory, call_input: CallInput, done: int
) -> WindowHistory:
    """Evict the steps that no later window reaches; ``call_input`` is the result of :func:`append_input`."""
    assert query.window is not None
    begin = done - query.window
    rows = take_events(call_input.rows, np.flatnonzero(call_input.step > begin))
    believed = {}
    for type_, chains in call_input.chains.items():
        some = np.flatnonzero(chains.counted & (chains.step > begin))
        owner = pa.array(chains.owner[some])
        keys = {name: column.take(owner) for name, column in chains.keys.items()}
        believed[type_] = PriorBeliefs(keys, chains.step[some], call_input.beliefs[type_][some])
    starts = history.starts if begin == history.begin else _starts(query, streams, history, call_input, begin)
    return replace(history, begin=begin, rows=rows, believed=believed, starts=starts)


def _starts(
    query: PlannedQuery, streams: Streams, history: WindowHistory, call_input: CallInput, begin: int
) -> dict[str, ChainMarginals]:
    """Distribution of the chains of table streams after a step; chains without input at that step have no event."""
    layout = PlanLayout(query, streams, history.starts)
    out = {}
    for part in streams.parts:
        if part.known is not Known.LINKED or not query.reads_type(part.type):
            continue
        number = next(step.id for step in query.pattern.steps if step.kind == ast.EventType(part.type))
        found: list[tuple[IntArray, IntArray, BoolArray, FloatArray]] = []
        for track in layout.tracks(c.Take(number), of_types(call_input, {part.type}), every_chain=True):
            at = int(np.searchsorted(track.chain_groups.step, begin))
            if not np.array_equal(track.chain_groups.step[at : at + 2], [begin, begin + 1]):
                continue  # the chain restarts after a gap, and all rows of the next step have arrived
            after = track.after[at]
            some = np.flatnonzero(after)
            if some[0] < track.chain_groups.values:
                names = np.append(track.chain_groups.names, 0)[some]
                found.append((np.full(len(some), track.chain), names, some < track.chain_groups.values, after[some]))
        if found:
            out[part.type] = ChainMarginals(begin, *(np.concatenate(some) for some in zip(*found, strict=True)))
    return out
