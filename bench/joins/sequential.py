"""Baseline: one query after another inside one compiled loop, over the same state and the same indexes.

The first equality of each query is looked up by value; the others are decided between the rows of the two documents,
which are contiguous. Queries share nothing.
"""

from __future__ import annotations

from perseid.engines.joins.kernel import _cache, _insert, bind_both
from perseid.engines.joins.layout import *
from perseid.engines.joins.layout import compiled, entry


@compiled
def _rest(x: Index, store: Store, room: Buffers, t: int, paths: Rows, q: int, older: int, newer: int) -> int:
    """Count the ways to choose rows for a query's edges from ``first`` on."""
    first, edges, start = x.templates[t, T_FIRST], x.templates[t, T_COUNT], 1
    depth = start
    if depth == edges:
        return 1
    R, D, found = store.rows, store.documents, 0
    many = D[newer, 1] - D[newer, 0]
    total = (D[older, 1] - D[older, 0]) * many
    room.cursors[0, depth] = 0
    while depth >= start:
        cursor, taken = room.cursors[0, depth], False
        while cursor < total:
            old, new = D[older, 0] + cursor // many, D[newer, 0] + cursor % many
            if R[old, 0] != paths[q, 2 * depth]:
                cursor += many - cursor % many
                continue
            cursor += 1
            e = first + depth
            if (
                R[new, 0] == paths[q, 2 * depth + 1]
                and R[old, 1] == R[new, 1]
                and bind_both(x, store, room, e, old, new)
            ):
                taken = True
                break
        room.cursors[0, depth] = cursor
        if not taken:
            depth -= 1
        elif depth + 1 == edges:
            found += 1
        else:
            depth += 1
            room.cursors[0, depth] = 0
    return found


@entry
def list_rows(store: Store, room: Buffers, values: int) -> None:
    """Build lists of rows by value, for all values."""
    for value in range(values):
        if store.heads[value, 1] == -2:
            store.heads[value, 1] = -1
            if store.heads[value, 0] >= 0:
                _cache(store, room, value)


@entry
def sequential(
    x: Index, store: Store, room: Buffers, of: Ints, paths: Rows, windows: Ints, first: int, last: int, queries: int
) -> int:
    """Count the notifications of documents for the first ``queries`` queries."""
    found = 0
    for newer in range(first, last):
        for q in range(queries):
            t = of[q]
            e = x.templates[t, T_FIRST]
            for new in range(store.documents[newer, 0], store.documents[newer, 1]):
                if store.rows[new, 0] != paths[q, 1]:
                    continue
                at = store.heads[store.rows[new, 1], 1]
                while at >= 0:
                    old, older = store.slices[at, 0], store.slices[at, 2]
                    at = store.slices[at, 1]
                    apart = store.times[newer] - store.times[older]
                    if apart > windows[q]:
                        break
                    if store.rows[old, 0] != paths[q, 0] or (apart == 0 and x.templates[t, T_STRICT]):
                        continue
                    bind_both(x, store, room, e, old, new)
                    found += _rest(x, store, room, t, paths, q, older, newer)
        _insert(store, room, newer, CACHED)
    return found
