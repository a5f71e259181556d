"""Time of each part when views are computed (paper 3's Figures 14 and 15): pairs of values, views, template queries.

The kernel does all three for each older document in turn and has no clock. So this module runs each part with those
before it, and the differences are the times of the parts.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from perseid.engines.joins import layout
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import ChainBindings, Joiner
from perseid.engines.joins.kernel import _insert, _list_pairs, _rows_of, _unlist, join_documents
from perseid.engines.joins.layout import *
from perseid.engines.joins.layout import entry

STATE, PAIRS, VIEWS, WHOLE = range(4)
ROUNDS = 9


@entry
def until(x: Index, store: Store, room: Buffers, first: int, last: int, stage: int) -> int:
    """Process documents up to a stage: the state alone, equal values (Rvj), or rows by edge (RL and RR). Return the
    number of pairs."""
    found = 0
    for newer in range(first, last):
        begin, end = store.documents[newer, 0], store.documents[newer, 1]
        if stage >= PAIRS:
            for row in range(begin, end):
                room.at[row - begin, 0] = store.heads[store.rows[row, 1], 0] if x.newer[store.rows[row, 0]] else -1
            while True:
                older, count = -1, 0
                for i in range(end - begin):
                    if room.at[i, 0] >= 0:
                        older = max(older, store.postings[room.at[i, 0], 0])
                if older < 0:
                    break
                for i in range(end - begin):
                    at = room.at[i, 0]
                    while at >= 0 and store.postings[at, 0] == older:
                        if stage >= VIEWS:
                            count = _rows_of(store, room, at, begin + i, count)
                            if count < 0:
                                return -1
                        else:
                            found += 1
                        at = store.postings[at, 2]
                    room.at[i, 0] = at
                if stage >= VIEWS:
                    found += count
                    edges = _list_pairs(x, store, room, count)
                    if edges < 0:
                        return -1
                    _unlist(room, edges)
        _insert(store, room, newer, SHARED)
    return found


def split(subscriptions: Subscriptions, times: Any, bindings: ChainBindings) -> dict[str, float]:
    """Seconds for all documents by part, of the kernels alone."""
    tried = Joiner(subscriptions, layout.SHARED)
    tried.add(times, bindings)  # determines the required capacity
    taken: dict[int, list[float]] = {stage: [] for stage in (STATE, PAIRS, VIEWS, WHOLE)}
    for _ in range(ROUNDS):
        for stage, seconds in taken.items():
            joiner = Joiner(subscriptions, layout.SHARED)
            joiner._capacities = dict(tried._capacities)
            index = joiner.index = tried.index
            assert index is not None
            joiner.append(times, bindings)
            store, room = joiner.store(), joiner.allocate_buffers()
            start = time.perf_counter()
            if stage == WHOLE:
                done = join_documents(index, store, room, 0, joiner.count, layout.SHARED) == joiner.count
            else:
                done = until(index, store, room, 0, joiner.count, stage) >= 0
            seconds.append(time.perf_counter() - start)
            if not done:
                raise AssertionError("there is too little room")
    state, pairs, views, whole = (statistics.median(taken[stage]) for stage in (STATE, PAIRS, VIEWS, WHOLE))
    return {
        "the state": state,
        "Rvj": pairs - state,
        "RL and RR": views - pairs,
        "template queries": whole - views,
    }
