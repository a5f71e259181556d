"""The methods of paper 4, event by event, as the paper measures them: one compiled loop each.

A method takes events in order of arrival and emits matches in between. No state is encoded, and nothing is batched.

Four methods share one matcher, the linked chains and the search of the `assemble` engine, so that they differ only in
strategy. K-slack buffers events in a heap until the longest delay has passed, and searches in order. Conservative inserts
events on arrival, and searches from the last event of a match when punctuations, or the longest delay, have passed it.
Aggressive searches from every event on arrival, emits at once, and retracts what a late event invalidates. Assemble is
INFA-HTS: it searches as aggressive does, and emits a match when it is certain.

Three methods combine K-slack, conservative and aggressive with the matcher of :mod:`bench.disorder.stacks`, which is what
the paper compares INFA-HTS with.

All loops get the key of an event as a dense number. With ``bits``, the loop of assemble looks it up in a hash table of that
many address bits instead, with chained main nodes as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.disorder import stacks
from bench.disorder.heap import FACTOR, pop, push
from bench.disorder.workload import RunOutput
from perseid.engines.disorder import assembly as a
from perseid.engines.disorder.assemble import ArrivalOrderShard, AssemblyArrays, kernel_keys, run_with_buffers
from perseid.engines.disorder.assembly import (
    NO_MATCH,
    add_event,
    complete_matches,
    complete_slot,
    emit_due,
    evict,
    retract_broken,
)
from perseid.engines.disorder.plan import DisorderPlan
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, Ints2, compiled, entry
from perseid.engines.sequence.state import empty_state
from perseid.runtime.event_batch import EventBatch, flatten_column, take_events
from perseid.runtime.search_budget import UNLIMITED, SearchBudget
from perseid.runtime.watermark import Watermark

SHARED = ("K-slack", "conservative", "aggressive", "assemble")
"""Strategies over the search of the assemble engine."""
STACKS = ("K-slack, stacks", "conservative, stacks", "aggressive, stacks")
"""The paper's other methods, over active instance stacks."""
METHODS = (*SHARED, *STACKS)
WORD_BYTES = 8
EVENT_BYTES = 3 * WORD_BYTES
"""Time, type and tag of a retained event."""
HASH_NODE_WIDTH = 3
HASH_TAG, HASH_KEY, HASH_NEXT = range(3)
HASH_FACTOR = -7046029254386353131
"""2**64 divided by the golden ratio, as a signed number: multiplicative hashing."""


@compiled
def look_up(T: Ints, bits: int, tag: int, key: int) -> int:
    """Number of the main node of a tag; a tag that is not in the table is added with this number.

    The first word of the table is where the next node goes, then come the heads of 2**bits chains, then nodes.
    """
    link = 1 + (((tag * HASH_FACTOR) >> (64 - bits)) & ((1 << bits) - 1))
    while T[link] >= 0:
        if T[T[link] + HASH_TAG] == tag:
            return int(T[T[link] + HASH_KEY])
        link = T[link] + HASH_NEXT
    node = T[0]
    T[0] += HASH_NODE_WIDTH
    T[link] = node
    T[node + HASH_TAG] = tag
    T[node + HASH_KEY] = key
    T[node + HASH_NEXT] = -1
    return int(key)


@entry
def k_slack(
    M: Arrays, A: Ints, H: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints, fitting: Ints, sure: Ints,
    unit: int, usage: Ints2,
) -> int:  # fmt: skip
    """Events are buffered until no earlier one can arrive, then searched in order, from the last of a match."""
    e = M.events
    last = A[a.H_SLOTS] - 1
    for i in range(len(arrival) + 1):
        if i < len(arrival):
            push(H, e[E_TIME, arrival[i]] // unit * FACTOR + arrival[i])
        A[a.H_MOMENT] = i
        while H[0] > 0 and e[E_TIME, H[1] % FACTOR] <= sure[i]:
            position = pop(H) % FACTOR
            key = keys[position]
            A[a.H_DUE_UPTO] = e[E_TIME, position]
            A[a.H_COMPLETE_UPTO] = A[a.H_DUE_UPTO] - 1
            evict(M, A, key)
            add_event(M, A, key, position, masks[position], fitting[position])
            if (fitting[position] >> last) & 1 and not complete_slot(
                M, A, key, last, position, NO_MATCH, NO_MATCH, offsets[key + 1]
            ):
                return FULL
        usage[0, i] = A[a.H_LIVE]
        usage[1, i] = H[0]
    return CONTINUE


@entry
def conservative(
    M: Arrays, A: Ints, H: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints, fitting: Ints, sure: Ints,
    punctuations: Ints, unit: int, usage: Ints2,
) -> int:  # fmt: skip
    """Events are inserted on arrival; matches are searched from their last event when no earlier event can arrive.

    ``arrival`` has a punctuation as -1 minus the number of its type, and its time in ``sure``; ``punctuations`` is the
    latest time by type.
    """
    e = M.events
    last = A[a.H_SLOTS] - 1
    frontier = NONE
    for i in range(len(arrival) + 1):
        if i < len(arrival) and arrival[i] < 0:
            punctuations[-1 - arrival[i]] = max(punctuations[-1 - arrival[i]], sure[i])
            least = punctuations[0]
            for k in range(1, len(punctuations)):
                least = min(least, punctuations[k])
            frontier = max(frontier, least)
        else:
            A[a.H_COMPLETE_UPTO] = frontier  # matches that end up to here have been emitted
            frontier = max(frontier, sure[i])
            if i < len(arrival):
                position = arrival[i]
                evict(M, A, keys[position])
                add_event(M, A, keys[position], position, masks[position], fitting[position])
                if (fitting[position] >> last) & 1:
                    push(H, e[E_TIME, position] // unit * FACTOR + position)
        usage[0, i] = A[a.H_LIVE]
        usage[1, i] = H[0]
        A[a.H_MOMENT] = i
        A[a.H_DUE_UPTO] = frontier
        while H[0] > 0 and e[E_TIME, H[1] % FACTOR] <= frontier:
            position = pop(H) % FACTOR
            key = keys[position]
            if not complete_slot(M, A, key, last, position, NO_MATCH, NO_MATCH, offsets[key + 1]):
                return FULL
    return CONTINUE


@entry
def assemble(
    M: Arrays, A: Ints, T: Ints, bits: int, tags: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints,
    fitting: Ints, clocks: Ints, sure: Ints, usage: Ints2,
) -> int:  # fmt: skip
    """The loop of the assemble engine over one whole stream; aggressive if ``clocks`` has the newest event's time."""
    for i in range(len(arrival)):
        position = arrival[i]
        key = keys[position] if bits == 0 else look_up(T, bits, tags[position], keys[position])
        A[a.H_MOMENT] = i
        A[a.H_COMPLETE_UPTO] = sure[i]
        if (
            A[a.H_LISTED]
            and masks[position] & A[a.H_BREAKS]
            and not retract_broken(M, A, key, position, masks[position], offsets[key + 1])
        ):
            return FULL
        evict(M, A, key)
        add_event(M, A, key, position, masks[position], fitting[position])
        if clocks[i] != A[a.H_DUE_UPTO]:
            A[a.H_DUE_UPTO] = clocks[i]
            if not emit_due(M, A, offsets):
                return FULL
        if not complete_matches(M, A, key, position, fitting[position], offsets[key + 1]):
            return FULL
        usage[0, i] = A[a.H_LIVE]
        usage[2, i] = A[a.H_PENDING]
        usage[3, i] = A[a.H_LISTED]
    A[a.H_MOMENT] = len(arrival)
    A[a.H_DUE_UPTO] = clocks[len(arrival)]
    A[a.H_COMPLETE_UPTO] = sure[len(arrival)]
    return CONTINUE if emit_due(M, A, offsets) else FULL


@dataclass(frozen=True)
class PreparedStream:
    """A stream as the loops take it: arrays in order of time, and the order of arrival."""

    bytecode: Any
    placed: Any
    identity: Any
    arrival: Any
    """By arrival: the position of the event, or -1 minus the number of a punctuation's type."""
    newest: Any
    sure: Any
    come: Any
    """By arrival: how many events of the whole stream had arrived."""
    offsets: Any
    keys: Any
    tags: Any
    unit: int
    types: int

    @classmethod
    def make(cls, plan: DisorderPlan, rows: EventBatch, delay: int, unit: int) -> PreparedStream:
        punctuation = np.zeros(len(rows), bool) if rows.control is None else rows.control != 0
        newest = np.maximum.accumulate(np.where(punctuation, y.NONE, rows.time))
        come = np.cumsum(~punctuation)
        (bytecode,) = plan.patterns
        types = _types(bytecode)
        # Types outside the pattern are filtered out, but advance the time.
        codes = np.array([types.get(name, -1) for name in rows.type_names])[rows.type_codes]
        chosen = codes >= 0
        rows, punctuation, newest, come, codes = (
            take_events(rows, np.flatnonzero(chosen)),
            *(x[chosen] for x in (punctuation, newest, come, codes)),
        )
        events = take_events(rows, np.flatnonzero(~punctuation))
        shard = ArrivalOrderShard(
            plan.sequence_plan(order="assemble"), empty_state(events), events, Watermark(ended=True)
        )
        placed = shard._make_view(bytecode.pattern.route, None)
        arrival = np.empty(len(rows), np.int64)
        arrival[~punctuation], arrival[punctuation] = np.argsort(placed.order), -1 - codes[punctuation]
        sure = np.append(np.where(punctuation, rows.time, newest - delay - 1), y.FOREVER)
        offsets, keys = kernel_keys(placed)
        tags = np.ascontiguousarray(np.asarray(flatten_column(events.columns["key"]), np.int64)[placed.order])
        identity = events.identity[placed.order]
        return cls(
            bytecode, placed, identity, arrival, newest, sure, come, offsets, keys, tags, unit, len(types)
        )  # fmt: skip


def run_method(method: str, stream: PreparedStream, bits: int = 0) -> RunOutput:
    """Run a method over a stream in order of arrival; only its loop is timed."""
    seconds = 0.0
    usage = np.zeros((4, len(stream.arrival) + 1), np.int64)
    early = method == "aggressive"

    def run_loop(room: AssemblyArrays) -> int:
        nonlocal seconds
        usage[:] = 0
        heap = np.zeros(len(stream.placed.order) + 2, np.int64)
        punctuations = np.full(stream.types, y.NONE)
        call: Any
        given: Sequence[Any]
        if method in STACKS:
            negating = _negating(room)
            arena = stacks.make_stacks(stream.keys, room.fitting, negating, int(room.work[a.H_SLOTS]))
            given = (*arena, stream.keys, stream.arrival, room.fitting, negating, stream.sure)
            if method.startswith("K-slack"):
                call, given = stacks.k_slack_stacks, (heap, *given, stream.unit, usage)
            elif method.startswith("conservative"):
                call, given = stacks.conservative_stacks, (heap, *given, punctuations, stream.unit, usage)
            else:
                call, given = stacks.aggressive_stacks, (*given, usage)
        else:
            given = (stream.offsets, stream.keys, stream.arrival, room.masks, room.fitting)
            if method == "K-slack":
                call, given = k_slack, (heap, *given, stream.sure, stream.unit, usage)
            elif method == "conservative":
                call, given = conservative, (heap, *given, stream.sure, punctuations, stream.unit, usage)
            else:
                room.work[a.H_DUE_UPTO] = room.work[a.H_COMPLETE_UPTO] = y.NONE
                clocks = np.append(stream.newest, y.FOREVER) if early else stream.sure
                call = assemble
                given = (_hash_table(bits, len(stream.offsets)), bits, stream.tags, *given, clocks, stream.sure, usage)
        begin = time.perf_counter()
        result: int = call(room.arrays, room.work, *given)
        seconds = time.perf_counter() - begin
        return result

    room = run_with_buffers(
        stream.bytecode,
        stream.placed.batch,
        np.diff(stream.offsets),
        early,
        run_loop,
        SearchBudget(UNLIMITED, UNLIMITED),
    )
    assert method not in STACKS or room.work[a.H_PLAIN], "the stacks check types, order, window and negation only"
    raw, moments = room.decided_matches(stream.bytecode)
    back = moments <= a.RETRACTION
    at = np.where(back, a.RETRACTION - moments, moments)
    ids = stream.identity[raw.positions.reshape(len(raw), int(room.work[a.H_SLOTS]))]
    peak = int(_retained_bytes(method, stream, room, usage, bits).max(initial=0))
    return RunOutput(seconds, peak, ids, np.append(stream.come, stream.come[-1])[at], back)


def _retained_bytes(method: str, stream: PreparedStream, room: AssemblyArrays, usage: Any, bits: int) -> Any:
    """By arrival: bytes of events and structures that a method retains after it.

    An event counts 24 bytes, once; a link of a chain, or an instance on a stack, 24; an entry of a heap 8; then matches
    that wait or may be retracted, the heads of chains or stacks by key, and the hash table. The shared search finds
    negated events in an index over all positions, which is not counted; the stacks have instances for them.
    """
    slots, keys = int(room.work[a.H_SLOTS]), len(stream.offsets) - 1
    live, heap, waiting, listed = usage
    times = room.arrays.events[y.E_TIME]
    negated = _negating(room)
    is_event = stream.arrival >= 0
    negated_at = is_event & (negated[np.where(is_event, stream.arrival, 0)] != 0)
    limit = _frontier(stream)
    arrived = times[stream.arrival[negated_at]]
    window = int(room.work[a.H_WINDOW])
    retained = _between(np.flatnonzero(negated_at), arrived, limit, window, released=method.startswith("K-slack"))
    match_bytes = WORD_BYTES * (y.MATCH_HEAD + 2 * int(stream.bytecode.tables[y.S_UNIFIED_COUNT]) + 2 * slots)
    total = live * (EVENT_BYTES + WORD_BYTES * a.LINK_WIDTH) + retained * EVENT_BYTES + heap * WORD_BYTES
    if method in STACKS:
        total = total + retained * WORD_BYTES * stacks.INSTANCE_WIDTH
        total = total + WORD_BYTES * keys * (1 + 2 * slots * stacks.STACK_WIDTH)
    else:
        total = total + WORD_BYTES * keys * (a.MAIN_HEAD + 2 * slots)
    if method.startswith("K-slack"):
        total = total + heap * EVENT_BYTES
    total = total + waiting * (WORD_BYTES * a.PENDING_WIDTH + match_bytes) + listed * WORD_BYTES * (2 + slots)
    if bits:
        total = total + WORD_BYTES * (1 + (1 << bits) + HASH_NODE_WIDTH * keys)
    return total


def _frontier(stream: PreparedStream) -> Any:
    """By arrival: the time up to which no event can arrive any more, by the longest delay and by punctuations."""
    is_event = stream.arrival >= 0
    limit = np.maximum.accumulate(np.where(is_event, stream.sure[:-1], y.NONE))
    if not is_event.all():
        by_type = (np.where(stream.arrival == -1 - k, stream.sure[:-1], y.NONE) for k in range(stream.types))
        limit = np.maximum(limit, np.min([np.maximum.accumulate(one) for one in by_type], axis=0))
    return np.append(limit, limit[-1])


def _between(places: Any, times: Any, limit: Any, window: int, *, released: bool) -> Any:
    """By arrival: how many of the events that arrived at these places are not evicted, and released from a buffer."""
    count = len(limit)
    # limit does not decrease: an event is evicted once limit - window reaches its time, and released once limit does.
    begin = np.maximum(places, np.searchsorted(limit, times)) if released else places
    end = np.maximum(begin, np.searchsorted(limit, times + window))
    change = np.bincount(begin, minlength=count + 1) - np.bincount(end, minlength=count + 1)
    return np.cumsum(change)[:count]


def _negating(room: AssemblyArrays) -> Any:
    """By event: bits of the slots before which it must not lie."""
    slots, between = int(room.work[a.H_SLOTS]), int(room.work[a.H_BETWEEN])
    found = np.zeros(len(room.masks), np.int64)
    for slot in range(slots):
        found |= ((room.masks & room.work[between + slot]) != 0).astype(np.int64) << slot
    return found


def _hash_table(bits: int, tags: int) -> Any:
    if not bits:
        return np.zeros(1, np.int64)
    table = np.full(1 + (1 << bits) + HASH_NODE_WIDTH * tags, -1, np.int64)
    table[0] = 1 + (1 << bits)
    return table


def _types(bytecode: Any) -> dict[str, int]:
    names = sorted({step.kind.name for step in bytecode.pattern.pattern.steps})
    return {name: i for i, name in enumerate(names)}
