"""The join kernel: evaluates all templates for each document (Algorithms 1 to 5 of Hong et al., paper 3) over arrays.

A row of ``R`` is a chain found in a document (Rbin, with the value of its node from Rdoc): chain, value, and offset of
its nodes. Each value has lists of its rows, the newest first. The values of a new document lead to the older documents
that share some (Rvj); for each of these, all templates are evaluated over the pairs of rows with equal values (RL and
RR). A template's relation RT is a trie of hashed keys: a path from its root chooses chains and constants, edge by edge,
so choices without a subscription are not followed.
"""

from __future__ import annotations

from perseid.engines.joins.layout import *
from perseid.engines.joins.layout import compiled, entry


@compiled
def _mixed(prefix: int, a: int, b: int) -> int:
    h = (int(prefix) * 0x9E3779B1) ^ (int(a) * 0x85EBCA6B) ^ (int(b) * 0xC2B2AE35)
    h = ((h ^ (h >> 17)) & 0x7FFFFFFF) * 0x27D4EB2F
    return h ^ (h >> 13)


@compiled
def find(keys: Keys, children: Int32s, mask: int, prefix: int, a: int, b: int) -> int:
    """Return the prefix that a choice leads to, or -1."""
    at = _mixed(prefix, a, b) & mask
    while children[at] >= 0:
        if keys[at, 0] == prefix and keys[at, 1] == a and keys[at, 2] == b:
            return children[at]
        at = (at + 1) & mask
    return -1


@compiled
def insert(keys: Keys, children: Int32s, mask: int, prefix: int, a: int, b: int, child: int) -> None:
    """Insert a choice that is not in the table."""
    at = _mixed(prefix, a, b) & mask
    while children[at] >= 0:
        at = (at + 1) & mask
    keys[at, 0], keys[at, 1], keys[at, 2] = prefix, a, b
    children[at] = child


@entry
def insert_all(keys: Keys, children: Int32s, mask: int, prefixes: Ints, a: Ints, b: Ints, count: int) -> None:
    """Insert choices that lead to their own indices."""
    for i in range(count):
        insert(keys, children, mask, prefixes[i], a[i], b[i], i)


@entry
def rehash(keys: Keys, children: Int32s, mask: int, old_keys: Keys, old_children: Int32s, old_mask: int) -> None:
    """Move all choices to a larger table."""
    for at in range(old_mask + 1):
        if old_children[at] >= 0:
            insert(keys, children, mask, old_keys[at, 0], old_keys[at, 1], old_keys[at, 2], old_children[at])


@entry
def insert_paths(
    keys: Keys,
    children: Int32s,
    mask: int,
    next_edges: Int32s,
    roots: Ints,
    paths: Rows,
    lengths: Ints,
    ends: Ints,
    at: Ints,
) -> None:
    """Insert the paths of subscriptions, each a choice (a, b) per edge; write their end prefixes and the prefixes' next edges.

    ``at`` is the number of paths, of paths inserted, and of prefixes. Insertion stops when the table is two thirds full.
    """
    used = at[2]
    for i in range(at[1], at[0]):
        if 3 * (used + lengths[i]) > 2 * mask:
            break
        prefix = roots[i]
        for e in range(lengths[i]):
            a, b = paths[i, 2 * e], paths[i, 2 * e + 1]
            child = find(keys, children, mask, prefix, a, b)
            if child < 0:
                child = used
                used += 1
                insert(keys, children, mask, prefix, a, b, child)
                next_edges[child] = next_edges[prefix] + 1
            prefix = child
        ends[i] = prefix
        at[1] = i + 1
    at[2] = used


@compiled
def _compare(op: int, x: float, y: float) -> bool:
    if op == LESS:
        return x < y
    if op == LESS_OR_EQUAL:
        return x <= y
    if op == GREATER:
        return x > y
    if op == GREATER_OR_EQUAL:
        return x >= y
    if op == SAME:
        return x == y
    return x != y


@compiled
def _bind(S: Rows, at: int, count: int, nodes: Ints, first: int, slots: Ints, side: int) -> bool:
    """Bind a chain's nodes to the slots of an edge; False if a slot is bound to another node."""
    for k in range(count):
        slot, node = S[at + k, S_SLOT], nodes[first + k]
        if S[at + k, S_NEW]:
            slots[side + slot] = node
        elif slots[side + slot] != node:
            return False
    return True


@compiled
def bind_both(x: Index, store: Store, buffers: Buffers, e: int, old: int, new: int) -> bool:
    """Bind the nodes of two rows to the slots of an edge; False if a slot is bound to another node."""
    E, R = x.edges, store.rows
    return _bind(x.slots, E[e, E_OLDER_AT], E[e, E_OLDER], store.nodes, R[old, 2], buffers.slots, 0) and _bind(
        x.slots, E[e, E_NEWER_AT], E[e, E_NEWER], store.nodes, R[new, 2], buffers.slots, MAX_SLOTS
    )


@compiled
def _wide_enough(windows: Ints, first: int, last: int, distance: int) -> int:
    """Return the number of windows, sorted widest first, that are at least ``distance``."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if windows[middle] >= distance:
            low = middle + 1
        else:
            high = middle
    return low - first


@compiled
def _emit(x: Index, buffers: Buffers, t: int, prefix: int, older: int, newer: int, distance: int, since: int) -> bool:
    """Write a result row if a window reaches it and no row from ``since`` on has the same nodes; False if out of capacity."""
    if x.ends[prefix, 0] >= x.ends[prefix, 1]:
        return True
    wide = _wide_enough(x.windows, x.ends[prefix, 0], x.ends[prefix, 1], distance)
    if wide == 0:
        return True
    T, counters, rows, out = x.templates, buffers.counters, buffers.found, buffers.nodes
    width = T[t, T_OLDER] + T[t, T_NEWER]
    row, at = counters[N_FOUND], counters[N_NODES]
    if row >= buffers.sizes[Z_FOUND] or at + width > buffers.sizes[Z_NODES]:
        return False
    for k in range(T[t, T_OLDER]):
        out[at + k] = buffers.slots[x.slots[T[t, T_OLDER_AT] + k, S_SLOT]]
    for k in range(T[t, T_NEWER]):
        out[at + T[t, T_OLDER] + k] = buffers.slots[MAX_SLOTS + x.slots[T[t, T_NEWER_AT] + k, S_SLOT]]
    if T[t, T_PARTIAL]:
        previous = int(buffers.latest[prefix])
        if previous < since or previous >= row or rows[previous, O_GROUP] != prefix:
            previous = -1
        buffers.previous[row] = previous
        while previous >= 0:
            is_same = True
            for k in range(width):
                if out[rows[previous, O_AT] + k] != out[at + k]:
                    is_same = False
                    break
            if is_same:
                return True
            previous = int(buffers.previous[previous])
        buffers.latest[prefix] = row
    rows[row, O_GROUP], rows[row, O_COUNT] = prefix, wide
    rows[row, O_OLDER], rows[row, O_NEWER], rows[row, O_AT] = older, newer, at
    counters[N_FOUND] += 1
    counters[N_NODES] += width
    return True


@compiled
def _save_state(buffers: Buffers, t: int, prefix: int) -> bool:
    """Save a search state, a prefix reached by the newer document alone; False if the capacity is exhausted."""
    number = buffers.counters[N_STATES]
    if number >= buffers.sizes[Z_STATES]:
        return False
    buffers.states[number, 0], buffers.states[number, 1] = t, prefix
    for k in range(MAX_SLOTS):
        buffers.state_slots[number, k] = buffers.slots[MAX_SLOTS + k]
    buffers.counters[N_STATES] += 1
    return True


@compiled
def _equal(x: Index, store: Store, buffers: Buffers, e: int, depth: int) -> int:
    """Advance to the next pair of rows with equal values that extends the prefix; return the new prefix, or -1."""
    R = store.rows
    at = buffers.cursors[0, depth] if buffers.cursors[1, depth] else buffers.lists[e, 0]
    buffers.cursors[1, depth] = 1
    while at >= 0:
        old, new = buffers.pairs[buffers.links[at, 0], 0], buffers.pairs[buffers.links[at, 0], 1]
        at = buffers.links[at, 1]
        child = find(x.keys, x.children, x.sizes[X_MASK], buffers.prefixes[depth], R[old, 0], R[new, 0])
        if child >= 0 and bind_both(x, store, buffers, e, old, new):
            buffers.cursors[0, depth] = at
            return child
    buffers.cursors[0, depth] = at
    return -1


@compiled
def _unlist(buffers: Buffers, edges: int) -> None:
    for k in range(edges):
        buffers.lists[buffers.lists[k, 1], 0] = -1


@compiled
def _list_pairs(x: Index, store: Store, buffers: Buffers, count: int) -> int:
    """Link each pair to the edges with its chains; return the number of edges with links, or -1 if out of capacity."""
    R, used, edges = store.rows, 0, 0
    for pair in range(count):
        pair_entry = find(
            x.pair_keys,
            x.pair_children,
            x.sizes[X_PAIR_MASK],
            R[buffers.pairs[pair, 0], 0],
            R[buffers.pairs[pair, 1], 0],
            0,
        )
        if pair_entry < 0:
            continue
        for k in range(x.edges_of_pairs_at[pair_entry], x.edges_of_pairs_at[pair_entry + 1]):
            if used >= buffers.sizes[Z_LINKS]:
                _unlist(buffers, edges)
                return -1
            e = x.edges_of_pairs[k]
            if buffers.lists[e, 0] < 0:
                buffers.lists[edges, 1] = e
                edges += 1
            buffers.links[used, 0], buffers.links[used, 1] = pair, buffers.lists[e, 0]
            buffers.lists[e, 0] = used
            used += 1
    return edges


@compiled
def _can_match(x: Index, buffers: Buffers, t: int) -> bool:
    """Return True if each equality of a template has a pair."""
    for e in range(x.templates[t, T_FIRST], x.templates[t, T_FIRST] + x.templates[t, T_COUNT]):
        if x.edges[e, E_KIND] == EQUAL and buffers.lists[e, 0] < 0:
            return False
    return True


@compiled
def _ordered(x: Index, store: Store, buffers: Buffers, e: int, depth: int, older: int, newer: int) -> int:
    """Advance to the next pair of rows that satisfies the order comparison; return the new prefix, or -1."""
    E, R, D, cursor = x.edges, store.rows, store.documents, buffers.cursors[0, depth]
    begin, newer_count = D[newer, 0], D[newer, 1] - D[newer, 0]
    total = (D[older, 1] - D[older, 0]) * newer_count
    while cursor < total:
        old, new = D[older, 0] + cursor // newer_count, begin + cursor % newer_count
        cursor += 1
        child = find(x.keys, x.children, x.sizes[X_MASK], buffers.prefixes[depth], R[old, 0], R[new, 0])
        if (
            child >= 0
            and _compare(E[e, E_OP], store.numbers[R[old, 1], 0], store.numbers[R[new, 1], 0])
            and bind_both(x, store, buffers, e, old, new)
        ):
            buffers.cursors[0, depth] = cursor
            return child
    buffers.cursors[0, depth] = cursor
    return -1


@compiled
def _threshold(x: Index, which: int, op: int, number: float, inner: int) -> int:
    """Find the next threshold that holds, after ``inner`` consumed ones; return the new number consumed, or -1."""
    begin, end = x.ranges[which, 0], x.ranges[which, 1]
    sign = op % 8
    if sign == SAME and inner == 0:
        low, high = begin, end
        while low < high:
            middle = (low + high) // 2
            if x.thresholds[middle] < number:
                low = middle + 1
            else:
                high = middle
        inner = low - begin
    while inner < end - begin:
        # Thresholds are ascending: the last ones hold for < and <=, the first ones for > and >=.
        position = end - 1 - inner if sign == LESS or sign == LESS_OR_EQUAL else begin + inner
        inner += 1
        if _compare(sign, number, x.thresholds[position]):
            return inner
        if sign != DIFFERENT:
            return -1
    return -1


@compiled
def _constant(x: Index, store: Store, buffers: Buffers, e: int, depth: int, older: int, newer: int) -> int:
    """Advance to the next row of one document that satisfies a constant predicate; return the new prefix, or -1."""
    E, R, kind = x.edges, store.rows, x.edges[e, E_KIND]
    is_newer = kind == NEWER_IS or kind == NEWER_CONTAINS or kind == NEWER_RANGE
    document = newer if is_newer else older
    side = MAX_SLOTS if is_newer else 0
    at, long = (E[e, E_NEWER_AT], E[e, E_NEWER]) if is_newer else (E[e, E_OLDER_AT], E[e, E_OLDER])
    prefix = buffers.prefixes[depth]
    # The second cursor iterates over needles or thresholds within a row.
    cursor, inner = buffers.cursors[0, depth], buffers.cursors[1, depth]
    while store.documents[document, 0] + cursor < store.documents[document, 1]:
        row = store.documents[document, 0] + cursor
        chain, value = R[row, 0], R[row, 1]
        child = -1
        if kind == NEWER_IS or kind == OLDER_IS:
            cursor += 1
            if store.constants[value] >= 0:
                child = find(x.keys, x.children, x.sizes[X_MASK], prefix, chain, store.constants[value])
        elif kind == NEWER_CONTAINS or kind == OLDER_CONTAINS:
            position = store.needles_at[value] + inner
            inner += 1
            if position >= store.needles_at[value + 1]:
                cursor, inner = cursor + 1, 0
                continue
            child = find(x.keys, x.children, x.sizes[X_MASK], prefix, chain, store.needles[position])
        else:
            op = E[e, E_OP]
            which = find(x.range_keys, x.range_children, x.sizes[X_RANGE_MASK], prefix, chain, 0)
            inner = -1 if which < 0 else _threshold(x, which, op, store.numbers[value, op // 8], inner)
            if inner < 0:
                cursor, inner = cursor + 1, 0
                continue
            is_descending = op % 8 == LESS or op % 8 == LESS_OR_EQUAL
            child = x.onward[x.ranges[which, 1] - inner if is_descending else x.ranges[which, 0] + inner - 1]
        if child >= 0 and _bind(x.slots, at, long, store.nodes, R[row, 2], buffers.slots, side):
            buffers.cursors[0, depth], buffers.cursors[1, depth] = cursor, inner
            return child
    buffers.cursors[0, depth], buffers.cursors[1, depth] = cursor, inner
    return -1


@compiled
def _search(
    x: Index,
    store: Store,
    buffers: Buffers,
    t: int,
    prefix: int,
    depth: int,
    until: int,
    older: int,
    newer: int,
    distance: int,
    since: int,
) -> bool:
    """Search all choices for a template's edges from ``depth`` to ``until``; False if the capacity is exhausted.

    At the end of the template the pair is written; before it the prefix is saved as a state, from which the search
    continues for each older document.
    """
    first, edges, start = x.templates[t, T_FIRST], x.templates[t, T_COUNT], depth
    buffers.prefixes[depth] = prefix
    buffers.cursors[0, depth] = buffers.cursors[1, depth] = 0
    while depth >= start:
        if depth == until:
            if until < edges:
                if not _save_state(buffers, t, buffers.prefixes[depth]):
                    return False
            elif not _emit(x, buffers, t, buffers.prefixes[depth], older, newer, distance, since):
                return False
            depth -= 1
            continue
        kind = x.edges[first + depth, E_KIND]
        if kind == EQUAL:
            child = _equal(x, store, buffers, first + depth, depth)
        elif kind == ORDERED:
            child = _ordered(x, store, buffers, first + depth, depth, older, newer)
        else:
            child = _constant(x, store, buffers, first + depth, depth, older, newer)
        if child < 0:
            depth -= 1
            continue
        depth += 1
        buffers.prefixes[depth] = child
        buffers.cursors[0, depth] = buffers.cursors[1, depth] = 0
    return True


@compiled
def _rows_of(store: Store, buffers: Buffers, posting: int, new: int, count: int) -> int:
    """Pair the rows of a posting's node (Rdoc join Rbin) with a row of the new document; return the new count, or -1.

    -1 means that the capacity is exhausted.
    """
    document, node = store.postings[posting, 0], store.postings[posting, 1]
    for row in range(store.documents[document, 0], store.documents[document, 1]):
        if store.nodes[store.rows[row, 2] + store.heights[store.rows[row, 0]] - 1] == node:
            if count >= buffers.sizes[Z_PAIRS]:
                return -1
            buffers.pairs[count, 0], buffers.pairs[count, 1] = row, new
            count += 1
    return count


@compiled
def _join(x: Index, store: Store, buffers: Buffers, newer: int, from_state: int, to_state: int, views: int) -> bool:
    """Join a document with all earlier ones in the widest window, for some states; False if the capacity is exhausted."""
    begin, end = store.documents[newer, 0], store.documents[newer, 1]
    now = store.times[newer]
    for row in range(begin, end):
        value = store.rows[row, 1]
        if not x.newer[store.rows[row, 0]]:
            buffers.at[row - begin, 0] = -1
            continue
        cached = views == CACHED and store.heads[value, 1] != -2
        buffers.at[row - begin, 0] = store.heads[value, 1 if cached else 0]
        buffers.at[row - begin, 1] = cached
    while True:
        older = -1
        for i in range(end - begin):
            at = buffers.at[i, 0]
            if at >= 0:
                document = store.slices[at, 2] if buffers.at[i, 1] else store.postings[at, 0]
                if document > older:
                    older = document
        if older < 0:
            return True
        distance = now - store.times[older]
        if distance > x.sizes[X_WIDEST]:
            return True
        count = 0
        for i in range(end - begin):
            at = buffers.at[i, 0]
            if buffers.at[i, 1]:
                while at >= 0 and store.slices[at, 2] == older:
                    if count >= buffers.sizes[Z_PAIRS]:
                        return False
                    buffers.pairs[count, 0], buffers.pairs[count, 1] = store.slices[at, 0], begin + i
                    count += 1
                    at = store.slices[at, 1]
            else:
                while at >= 0 and store.postings[at, 0] == older:
                    count = _rows_of(store, buffers, at, begin + i, count)
                    if count < 0:
                        return False
                    at = store.postings[at, 2]
            buffers.at[i, 0] = at
        edges = _list_pairs(x, store, buffers, count)
        if edges < 0:
            return False
        since, has_capacity = buffers.counters[N_FOUND], True
        for state in range(from_state, to_state):
            t = buffers.states[state, 0]
            if (x.templates[t, T_STRICT] and distance == 0) or not _can_match(x, buffers, t):
                continue
            for k in range(x.templates[t, T_BOUND]):
                buffers.slots[MAX_SLOTS + k] = buffers.state_slots[state, k]
            has_capacity = has_capacity and _search(
                x, store, buffers, t, buffers.states[state, 1], x.templates[t, T_CONSTANTS], x.templates[t, T_COUNT],
                older, newer, distance, since,
            )  # fmt: skip
        _unlist(buffers, edges)
        if not has_capacity:
            return False


@compiled
def _cache(store: Store, buffers: Buffers, value: int) -> None:
    """Build the missing slice of a probed value (Algorithm 4, line 7), if it fits.

    If it does not fit and other slices take more than half of the capacity, all slices are flagged to be dropped;
    otherwise it would take at least half of the capacity by itself, and no slice is dropped for it.
    """
    head, at, last, before = -1, store.heads[value, 0], -1, buffers.counters[N_SLICES]
    while at >= 0:
        document, node = store.postings[at, 0], store.postings[at, 1]
        for row in range(store.documents[document, 0], store.documents[document, 1]):
            if store.nodes[store.rows[row, 2] + store.heights[store.rows[row, 0]] - 1] == node:
                number = buffers.counters[N_SLICES]
                if number >= buffers.sizes[Z_SLICES]:
                    buffers.counters[N_SLICES] = before
                    if 2 * before > buffers.sizes[Z_SLICES]:
                        buffers.counters[N_FULL] = 1
                    return
                store.slices[number, 0], store.slices[number, 1], store.slices[number, 2] = row, -1, document
                buffers.counters[N_SLICES] += 1
                if last < 0:
                    head = number
                else:
                    store.slices[last, 1] = number
                last = number
        at = store.postings[at, 2]
    store.heads[value, 1] = head


@compiled
def _listed(store: Store, at: int, document: int, node: int) -> bool:
    while at >= 0 and store.postings[at, 0] == document:
        if store.postings[at, 1] == node:
            return True
        at = store.postings[at, 2]
    return False


@compiled
def _insert(store: Store, buffers: Buffers, document: int, views: int) -> None:
    """Insert a document into the join state (Algorithms 2 and 5)."""
    for row in range(store.documents[document, 0], store.documents[document, 1]):
        chain, value = store.rows[row, 0], store.rows[row, 1]
        node = store.nodes[store.rows[row, 2] + store.heights[chain] - 1]
        head = store.heads[value, 0]
        if head < 0 or store.postings[head, 0] != document or not _listed(store, head, document, node):
            number = buffers.counters[N_POSTINGS]
            store.postings[number, 0], store.postings[number, 1], store.postings[number, 2] = document, node, head
            store.heads[value, 0] = number
            buffers.counters[N_POSTINGS] += 1
        if views == CACHED and store.heads[value, 1] != -2:
            number = buffers.counters[N_SLICES]
            if number >= buffers.sizes[Z_SLICES]:
                buffers.counters[N_FULL] = 1
                store.heads[value, 1] = -2
                continue
            store.slices[number, 0], store.slices[number, 1], store.slices[number, 2] = (
                row,
                store.heads[value, 1],
                document,
            )
            store.heads[value, 1] = number
            buffers.counters[N_SLICES] += 1


@compiled
def _drop_slices(store: Store, buffers: Buffers) -> None:
    for value in range(buffers.sizes[Z_VALUES]):
        store.heads[value, 1] = -2
    buffers.counters[N_SLICES] = buffers.counters[N_FULL] = 0
    buffers.counters[N_DROPPED] += 1


@compiled
def join_document(x: Index, store: Store, buffers: Buffers, newer: int, views: int) -> bool:
    """Join a document with the earlier ones, then insert it into the join state; False if the capacity is exhausted.

    In that case its result rows are discarded, and the caller retries with a larger capacity.
    """
    counters = buffers.counters
    rows_before, nodes_before = counters[N_FOUND], counters[N_NODES]
    counters[N_STATES] = 0
    has_capacity = True
    if views == CACHED:
        for row in range(store.documents[newer, 0], store.documents[newer, 1]):
            value = store.rows[row, 1]
            if x.newer[store.rows[row, 0]] and store.heads[value, 0] >= 0 and store.heads[value, 1] == -2:
                _cache(store, buffers, value)
    for t in range(x.sizes[X_TEMPLATES]):
        if has_capacity:
            has_capacity = _search(
                x, store, buffers, t, x.templates[t, T_ROOT], 0, x.templates[t, T_CONSTANTS], -1, newer, 0, rows_before
            )
    if has_capacity and views == NO_VIEWS:
        # Each template computes its own pairs; the states of a template are contiguous.
        begin = 0
        while has_capacity and begin < counters[N_STATES]:
            end = begin + 1
            while end < counters[N_STATES] and buffers.states[end, 0] == buffers.states[begin, 0]:
                end += 1
            has_capacity = _join(x, store, buffers, newer, begin, end, views)
            begin = end
    elif has_capacity:
        has_capacity = _join(x, store, buffers, newer, 0, counters[N_STATES], views)
    if has_capacity:
        _insert(store, buffers, newer, views)
        if counters[N_FULL]:
            _drop_slices(store, buffers)
    else:
        counters[N_FOUND], counters[N_NODES] = rows_before, nodes_before
    return has_capacity


@entry
def join_documents(x: Index, store: Store, buffers: Buffers, first: int, last: int, views: int) -> int:
    """Join documents in order; return the first one for which the capacity was exhausted, or ``last``."""
    for newer in range(first, last):
        if not join_document(x, store, buffers, newer, views):
            return newer
    return last


@entry
def list_documents(store: Store, buffers: Buffers, first: int, last: int) -> None:
    """Rebuild the posting lists of values from documents."""
    for document in range(first, last):
        _insert(store, buffers, document, NO_VIEWS)
