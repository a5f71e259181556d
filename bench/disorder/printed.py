"""Algorithm 1 of paper 4 as it is printed, to show what it answers; nothing else uses it.

Its faults, all of which are kept: the counter of a main node counts events where it has to count slots (the one thing that
``mended`` mends); it is compared for equality with the number of steps, the negated one among them, so the paper's own
query is told at most once a key, with a C in it; the order of types is never looked at, nor whether a negated event lies in
between; nothing outdated is ever deleted; the window is that of the event which arrives against the oldest there ever was.
"""

from __future__ import annotations

from bisect import insort
from typing import Any

import numpy as np

from bench.disorder.arriving import UNIT, WINDOW, Stream
from perseid.engines.rows import whole

ACCEPTED = "ABCDEFG"
"""Types that the automaton takes; the paper counts !C into the length of the query."""
WANTED = "ABDEFG"


def told(stream: Stream, *, mended: bool = False) -> Any:
    """The ids of the events of what it tells, in the order of the steps; one that has none there is -1."""
    rows = stream.without_promises().rows
    chains: dict[int, list[tuple[int, int, str]]] = {}
    filled: dict[int, set[str]] = {}
    out: list[list[int]] = []
    names = [rows.kind_names[kind] for kind in rows.kinds.tolist()]
    keys = whole(rows.columns["key"]).to_pylist()
    for when, kind, key, event in zip(rows.time.tolist(), names, keys, rows.identity.tolist(), strict=True):
        if kind not in (WANTED if mended else ACCEPTED):
            continue
        chain = chains.setdefault(key, [])
        insort(chain, (when, event, kind))
        filled.setdefault(key, set()).add(kind)
        counter, length = (len(filled[key]), len(WANTED)) if mended else (len(chain), len(ACCEPTED))
        if counter == length and when - chain[0][0] < WINDOW * UNIT:
            newest = {one[2]: one[1] for one in chain} | {kind: event}
            out.append([newest.get(name, -1) for name in WANTED])
    return np.array(out, np.int64).reshape(-1, len(WANTED))
