"""Algorithm 1 of paper 4 as printed, to measure its recall and precision; nothing else uses it.

Its faults are preserved. The counter of a main node counts events where it has to count slots (``fixed`` corrects only
this). It is compared for equality with the number of steps, including the negated one, so the paper's own query is emitted
at most once for each key, with a C in it. The order of types is not checked, nor a negated event in between. Outdated events
are not deleted. The window is tested between the arriving event and the oldest event ever.
"""

from __future__ import annotations

from bisect import insort
from typing import Any

import numpy as np

from bench.disorder.workload import UNIT, WINDOW, Stream
from perseid.runtime.event_batch import flatten_column

ACCEPTED = "ABCDEFG"
"""Types that the automaton accepts; the paper counts !C into the length of the query."""
WANTED = "ABDEFG"


def run_printed(stream: Stream, *, fixed: bool = False) -> Any:
    """Ids of the events of each emitted match, in the order of the steps; -1 where a step has none."""
    rows = stream.without_punctuations().rows
    chains: dict[int, list[tuple[int, int, str]]] = {}
    filled: dict[int, set[str]] = {}
    out: list[list[int]] = []
    names = [rows.type_names[kind] for kind in rows.type_codes.tolist()]
    keys = flatten_column(rows.columns["key"]).to_pylist()
    for when, kind, key, event in zip(rows.time.tolist(), names, keys, rows.identity.tolist(), strict=True):
        if kind not in (WANTED if fixed else ACCEPTED):
            continue
        chain = chains.setdefault(key, [])
        insort(chain, (when, event, kind))
        filled.setdefault(key, set()).add(kind)
        counter, length = (len(filled[key]), len(WANTED)) if fixed else (len(chain), len(ACCEPTED))
        if counter == length and when - chain[0][0] < WINDOW * UNIT:
            newest = {one[2]: one[1] for one in chain} | {kind: event}
            out.append([newest.get(name, -1) for name in WANTED])
    return np.array(out, np.int64).reshape(-1, len(WANTED))
