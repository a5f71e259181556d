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
def find(keys: Keys, children: Places, mask: int, prefix: int, a: int, b: int) -> int:
    """Return the prefix that a choice leads to, or -1."""
    at = _mixed(prefix, a, b) & mask
    while children[at] >= 0:
        if keys[at, 0] == prefix and keys[at, 1] == a and keys[at, 2] == b:
            return children[at]
        at = (at + 1) & mask
    return -1


@compiled
def put(keys: Keys, children: Places, mask: int, prefix: int, a: int, b: int, child: int) -> None:
    """Insert a choice that is not in the table."""
    at = _mixed(prefix, a, b) & mask
    while children[at] >= 0:
        at = (at + 1) & mask
    keys[at, 0], keys[at, 1], keys[at, 2] = prefix, a, b
    children[at] = child


@entry
def put_all(keys: Keys, children: Places, mask: int, prefixes: Ints, a: Ints, b: Ints, count: int) -> None:
    """Insert choices that lead to their own indices."""
    for i in range(count):
        put(keys, children, mask, prefixes[i], a[i], b[i], i)


@entry
def put_again(keys: Keys, children: Places, mask: int, old_keys: Keys, old_children: Places, old_mask: int) -> None:
    """Move all choices to a larger table."""
    for at in range(old_mask + 1):
        if old_children[at] >= 0:
            put(keys, children, mask, old_keys[at, 0], old_keys[at, 1], old_keys[at, 2], old_children[at])


@entry
def put_paths(
    keys: Keys, children: Places, mask: int, asks: Places, roots: Ints, paths: Rows, lengths: Ints, ends: Ints, at: Ints
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
                put(keys, children, mask, prefix, a, b, child)
                asks[child] = asks[prefix] + 1
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
def bind_both(x: Index, store: Store, room: Room, e: int, old: int, new: int) -> bool:
    """Bind the nodes of two rows to the slots of an edge; False if a slot is bound to another node."""
    E, R = x.edges, store.rows
    return _bind(x.slots, E[e, E_OLDER_AT], E[e, E_OLDER], store.nodes, R[old, 2], room.slots, 0) and _bind(
        x.slots, E[e, E_NEWER_AT], E[e, E_NEWER], store.nodes, R[new, 2], room.slots, MAX_SLOTS
    )


@compiled
def _wide_enough(windows: Ints, first: int, last: int, apart: int) -> int:
    """Return the number of windows, sorted widest first, that are at least ``apart``."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if windows[middle] >= apart:
            low = middle + 1
        else:
            high = middle
    return low - first


@compiled
def _emit(x: Index, room: Room, t: int, prefix: int, older: int, newer: int, apart: int, since: int) -> bool:
    """Write a result row if a window reaches it and no row from ``since`` on has the same nodes; False if out of capacity."""
    if x.ends[prefix, 0] >= x.ends[prefix, 1]:
        return True
    wide = _wide_enough(x.windows, x.ends[prefix, 0], x.ends[prefix, 1], apart)
    if wide == 0:
        return True
    T, told, found, out = x.templates, room.told, room.found, room.nodes
    width = T[t, T_OLDER] + T[t, T_NEWER]
    row, at = told[N_FOUND], told[N_NODES]
    if row >= room.sizes[Z_FOUND] or at + width > room.sizes[Z_NODES]:
        return False
    for k in range(T[t, T_OLDER]):
        out[at + k] = room.slots[x.slots[T[t, T_OLDER_AT] + k, S_SLOT]]
    for k in range(T[t, T_NEWER]):
        out[at + T[t, T_OLDER] + k] = room.slots[MAX_SLOTS + x.slots[T[t, T_NEWER_AT] + k, S_SLOT]]
    if T[t, T_PARTIAL]:
        other = int(room.latest[prefix])
        if other < since or other >= row or found[other, O_GROUP] != prefix:
            other = -1
        room.before[row] = other
        while other >= 0:
            same = True
            for k in range(width):
                if out[found[other, O_AT] + k] != out[at + k]:
                    same = False
                    break
            if same:
                return True
            other = int(room.before[other])
        room.latest[prefix] = row
    found[row, O_GROUP], found[row, O_COUNT] = prefix, wide
    found[row, O_OLDER], found[row, O_NEWER], found[row, O_AT] = older, newer, at
    told[N_FOUND] += 1
    told[N_NODES] += width
    return True


@compiled
def _save_state(room: Room, t: int, prefix: int) -> bool:
    """Save a search state, a prefix reached by the newer document alone; False if the capacity is exhausted."""
    number = room.told[N_STATES]
    if number >= room.sizes[Z_STATES]:
        return False
    room.states[number, 0], room.states[number, 1] = t, prefix
    for k in range(MAX_SLOTS):
        room.state_slots[number, k] = room.slots[MAX_SLOTS + k]
    room.told[N_STATES] += 1
    return True


@compiled
def _equal(x: Index, store: Store, room: Room, e: int, depth: int) -> int:
    """Advance to the next pair of rows with equal values that extends the prefix; return the new prefix, or -1."""
    R = store.rows
    at = room.cursors[0, depth] if room.cursors[1, depth] else room.lists[e, 0]
    room.cursors[1, depth] = 1
    while at >= 0:
        old, new = room.pairs[room.links[at, 0], 0], room.pairs[room.links[at, 0], 1]
        at = room.links[at, 1]
        child = find(x.keys, x.children, x.sizes[X_MASK], room.prefixes[depth], R[old, 0], R[new, 0])
        if child >= 0 and bind_both(x, store, room, e, old, new):
            room.cursors[0, depth] = at
            return child
    room.cursors[0, depth] = at
    return -1


@compiled
def _unlist(room: Room, edges: int) -> None:
    for k in range(edges):
        room.lists[room.lists[k, 1], 0] = -1


@compiled
def _list_pairs(x: Index, store: Store, room: Room, count: int) -> int:
    """Link each pair to the edges with its chains; return the number of edges with links, or -1 if out of capacity."""
    R, used, edges = store.rows, 0, 0
    for pair in range(count):
        asked = find(
            x.pair_keys, x.pair_children, x.sizes[X_PAIR_MASK], R[room.pairs[pair, 0], 0], R[room.pairs[pair, 1], 0], 0
        )
        if asked < 0:
            continue
        for k in range(x.asked_at[asked], x.asked_at[asked + 1]):
            if used >= room.sizes[Z_LINKS]:
                _unlist(room, edges)
                return -1
            e = x.asked[k]
            if room.lists[e, 0] < 0:
                room.lists[edges, 1] = e
                edges += 1
            room.links[used, 0], room.links[used, 1] = pair, room.lists[e, 0]
            room.lists[e, 0] = used
            used += 1
    return edges


@compiled
def _may_hold(x: Index, room: Room, t: int) -> bool:
    """Return True if each equality of a template has a pair."""
    for e in range(x.templates[t, T_FIRST], x.templates[t, T_FIRST] + x.templates[t, T_COUNT]):
        if x.edges[e, E_KIND] == EQUAL and room.lists[e, 0] < 0:
            return False
    return True


@compiled
def _ordered(x: Index, store: Store, room: Room, e: int, depth: int, older: int, newer: int) -> int:
    """Advance to the next pair of rows that satisfies the order comparison; return the new prefix, or -1."""
    E, R, D, cursor = x.edges, store.rows, store.documents, room.cursors[0, depth]
    begin, many = D[newer, 0], D[newer, 1] - D[newer, 0]
    total = (D[older, 1] - D[older, 0]) * many
    while cursor < total:
        old, new = D[older, 0] + cursor // many, begin + cursor % many
        cursor += 1
        child = find(x.keys, x.children, x.sizes[X_MASK], room.prefixes[depth], R[old, 0], R[new, 0])
        if (
            child >= 0
            and _compare(E[e, E_OP], store.numbers[R[old, 1], 0], store.numbers[R[new, 1], 0])
            and bind_both(x, store, room, e, old, new)
        ):
            room.cursors[0, depth] = cursor
            return child
    room.cursors[0, depth] = cursor
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
        place = end - 1 - inner if sign == LESS or sign == LESS_OR_EQUAL else begin + inner
        inner += 1
        if _compare(sign, number, x.thresholds[place]):
            return inner
        if sign != DIFFERENT:
            return -1
    return -1


@compiled
def _constant(x: Index, store: Store, room: Room, e: int, depth: int, older: int, newer: int) -> int:
    """Advance to the next row of one document that satisfies a constant predicate; return the new prefix, or -1."""
    E, R, kind = x.edges, store.rows, x.edges[e, E_KIND]
    is_newer = kind == NEWER_IS or kind == NEWER_CONTAINS or kind == NEWER_RANGE
    document = newer if is_newer else older
    side = MAX_SLOTS if is_newer else 0
    at, long = (E[e, E_NEWER_AT], E[e, E_NEWER]) if is_newer else (E[e, E_OLDER_AT], E[e, E_OLDER])
    prefix = room.prefixes[depth]
    # The second cursor iterates over needles or thresholds within a row.
    cursor, inner = room.cursors[0, depth], room.cursors[1, depth]
    while store.documents[document, 0] + cursor < store.documents[document, 1]:
        row = store.documents[document, 0] + cursor
        chain, value = R[row, 0], R[row, 1]
        child = -1
        if kind == NEWER_IS or kind == OLDER_IS:
            cursor += 1
            if store.constants[value] >= 0:
                child = find(x.keys, x.children, x.sizes[X_MASK], prefix, chain, store.constants[value])
        elif kind == NEWER_CONTAINS or kind == OLDER_CONTAINS:
            place = store.needles_at[value] + inner
            inner += 1
            if place >= store.needles_at[value + 1]:
                cursor, inner = cursor + 1, 0
                continue
            child = find(x.keys, x.children, x.sizes[X_MASK], prefix, chain, store.needles[place])
        else:
            op = E[e, E_OP]
            which = find(x.range_keys, x.range_children, x.sizes[X_RANGE_MASK], prefix, chain, 0)
            inner = -1 if which < 0 else _threshold(x, which, op, store.numbers[value, op // 8], inner)
            if inner < 0:
                cursor, inner = cursor + 1, 0
                continue
            down = op % 8 == LESS or op % 8 == LESS_OR_EQUAL
            child = x.onward[x.ranges[which, 1] - inner if down else x.ranges[which, 0] + inner - 1]
        if child >= 0 and _bind(x.slots, at, long, store.nodes, R[row, 2], room.slots, side):
            room.cursors[0, depth], room.cursors[1, depth] = cursor, inner
            return child
    room.cursors[0, depth], room.cursors[1, depth] = cursor, inner
    return -1


@compiled
def _search(
    x: Index,
    store: Store,
    room: Room,
    t: int,
    prefix: int,
    depth: int,
    until: int,
    older: int,
    newer: int,
    apart: int,
    since: int,
) -> bool:
    """Search all choices for a template's edges from ``depth`` to ``until``; False if the capacity is exhausted.

    At the end of the template the pair is written; before it the prefix is saved as a state, from which the search
    continues for each older document.
    """
    first, edges, start = x.templates[t, T_FIRST], x.templates[t, T_COUNT], depth
    room.prefixes[depth] = prefix
    room.cursors[0, depth] = room.cursors[1, depth] = 0
    while depth >= start:
        if depth == until:
            if until < edges:
                if not _save_state(room, t, room.prefixes[depth]):
                    return False
            elif not _emit(x, room, t, room.prefixes[depth], older, newer, apart, since):
                return False
            depth -= 1
            continue
        kind = x.edges[first + depth, E_KIND]
        if kind == EQUAL:
            child = _equal(x, store, room, first + depth, depth)
        elif kind == ORDERED:
            child = _ordered(x, store, room, first + depth, depth, older, newer)
        else:
            child = _constant(x, store, room, first + depth, depth, older, newer)
        if child < 0:
            depth -= 1
            continue
        depth += 1
        room.prefixes[depth] = child
        room.cursors[0, depth] = room.cursors[1, depth] = 0
    return True


@compiled
def _rows_of(store: Store, room: Room, posting: int, new: int, count: int) -> int:
    """Pair the rows of a posting's node (Rdoc join Rbin) with a row of the new document; return the new count, or -1.

    -1 means that the capacity is exhausted.
    """
    document, node = store.postings[posting, 0], store.postings[posting, 1]
    for row in range(store.documents[document, 0], store.documents[document, 1]):
        if store.nodes[store.rows[row, 2] + store.heights[store.rows[row, 0]] - 1] == node:
            if count >= room.sizes[Z_PAIRS]:
                return -1
            room.pairs[count, 0], room.pairs[count, 1] = row, new
            count += 1
    return count


@compiled
def _join(x: Index, store: Store, room: Room, newer: int, from_state: int, to_state: int, views: int) -> bool:
    """Join a document with all earlier ones in the widest window, for some states; False if the capacity is exhausted."""
    begin, end = store.documents[newer, 0], store.documents[newer, 1]
    now = store.times[newer]
    for row in range(begin, end):
        value = store.rows[row, 1]
        if not x.newer[store.rows[row, 0]]:
            room.at[row - begin, 0] = -1
            continue
        cached = views == CACHED and store.heads[value, 1] != -2
        room.at[row - begin, 0] = store.heads[value, 1 if cached else 0]
        room.at[row - begin, 1] = cached
    while True:
        older = -1
        for i in range(end - begin):
            at = room.at[i, 0]
            if at >= 0:
                there = store.slices[at, 2] if room.at[i, 1] else store.postings[at, 0]
                if there > older:
                    older = there
        if older < 0:
            return True
        apart = now - store.times[older]
        if apart > x.sizes[X_WIDEST]:
            return True
        count = 0
        for i in range(end - begin):
            at = room.at[i, 0]
            if room.at[i, 1]:
                while at >= 0 and store.slices[at, 2] == older:
                    if count >= room.sizes[Z_PAIRS]:
                        return False
                    room.pairs[count, 0], room.pairs[count, 1] = store.slices[at, 0], begin + i
                    count += 1
                    at = store.slices[at, 1]
            else:
                while at >= 0 and store.postings[at, 0] == older:
                    count = _rows_of(store, room, at, begin + i, count)
                    if count < 0:
                        return False
                    at = store.postings[at, 2]
            room.at[i, 0] = at
        edges = _list_pairs(x, store, room, count)
        if edges < 0:
            return False
        since, good = room.told[N_FOUND], True
        for state in range(from_state, to_state):
            t = room.states[state, 0]
            if (x.templates[t, T_STRICT] and apart == 0) or not _may_hold(x, room, t):
                continue
            for k in range(x.templates[t, T_BOUND]):
                room.slots[MAX_SLOTS + k] = room.state_slots[state, k]
            good = good and _search(
                x, store, room, t, room.states[state, 1], x.templates[t, T_CONSTANTS], x.templates[t, T_COUNT],
                older, newer, apart, since,
            )  # fmt: skip
        _unlist(room, edges)
        if not good:
            return False


@compiled
def _cache(store: Store, room: Room, value: int) -> None:
    """Build the missing slice of a probed value (Algorithm 4, line 7), if it fits.

    If it does not fit and other slices take more than half of the capacity, all slices are flagged to be dropped;
    otherwise it would take at least half of the capacity by itself, and no slice is dropped for it.
    """
    head, at, last, before = -1, store.heads[value, 0], -1, room.told[N_SLICES]
    while at >= 0:
        document, node = store.postings[at, 0], store.postings[at, 1]
        for row in range(store.documents[document, 0], store.documents[document, 1]):
            if store.nodes[store.rows[row, 2] + store.heights[store.rows[row, 0]] - 1] == node:
                number = room.told[N_SLICES]
                if number >= room.sizes[Z_SLICES]:
                    room.told[N_SLICES] = before
                    if 2 * before > room.sizes[Z_SLICES]:
                        room.told[N_FULL] = 1
                    return
                store.slices[number, 0], store.slices[number, 1], store.slices[number, 2] = row, -1, document
                room.told[N_SLICES] += 1
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
def _insert(store: Store, room: Room, document: int, views: int) -> None:
    """Insert a document into the join state (Algorithms 2 and 5)."""
    for row in range(store.documents[document, 0], store.documents[document, 1]):
        chain, value = store.rows[row, 0], store.rows[row, 1]
        node = store.nodes[store.rows[row, 2] + store.heights[chain] - 1]
        head = store.heads[value, 0]
        if head < 0 or store.postings[head, 0] != document or not _listed(store, head, document, node):
            number = room.told[N_POSTINGS]
            store.postings[number, 0], store.postings[number, 1], store.postings[number, 2] = document, node, head
            store.heads[value, 0] = number
            room.told[N_POSTINGS] += 1
        if views == CACHED and store.heads[value, 1] != -2:
            number = room.told[N_SLICES]
            if number >= room.sizes[Z_SLICES]:
                room.told[N_FULL] = 1
                store.heads[value, 1] = -2
                continue
            store.slices[number, 0], store.slices[number, 1], store.slices[number, 2] = (
                row,
                store.heads[value, 1],
                document,
            )
            store.heads[value, 1] = number
            room.told[N_SLICES] += 1


@compiled
def _drop_slices(store: Store, room: Room) -> None:
    for value in range(room.sizes[Z_VALUES]):
        store.heads[value, 1] = -2
    room.told[N_SLICES] = room.told[N_FULL] = 0
    room.told[N_DROPPED] += 1


@compiled
def join_document(x: Index, store: Store, room: Room, newer: int, views: int) -> bool:
    """Join a document with the earlier ones, then insert it into the join state; False if the capacity is exhausted.

    In that case its result rows are discarded, and the caller retries with a larger capacity.
    """
    told = room.told
    found, nodes = told[N_FOUND], told[N_NODES]
    told[N_STATES] = 0
    good = True
    if views == CACHED:
        for row in range(store.documents[newer, 0], store.documents[newer, 1]):
            value = store.rows[row, 1]
            if x.newer[store.rows[row, 0]] and store.heads[value, 0] >= 0 and store.heads[value, 1] == -2:
                _cache(store, room, value)
    for t in range(x.sizes[X_TEMPLATES]):
        if good:
            good = _search(
                x, store, room, t, x.templates[t, T_ROOT], 0, x.templates[t, T_CONSTANTS], -1, newer, 0, found
            )
    if good and views == NO_VIEWS:
        # Each template computes its own pairs; the states of a template are contiguous.
        begin = 0
        while good and begin < told[N_STATES]:
            end = begin + 1
            while end < told[N_STATES] and room.states[end, 0] == room.states[begin, 0]:
                end += 1
            good = _join(x, store, room, newer, begin, end, views)
            begin = end
    elif good:
        good = _join(x, store, room, newer, 0, told[N_STATES], views)
    if good:
        _insert(store, room, newer, views)
        if told[N_FULL]:
            _drop_slices(store, room)
    else:
        told[N_FOUND], told[N_NODES] = found, nodes
    return good


@entry
def join_documents(x: Index, store: Store, room: Room, first: int, last: int, views: int) -> int:
    """Join documents in order; return the first one for which the capacity was exhausted, or ``last``."""
    for newer in range(first, last):
        if not join_document(x, store, room, newer, views):
            return newer
    return last


@entry
def list_documents(store: Store, room: Room, first: int, last: int) -> None:
    """Rebuild the posting lists of values from documents."""
    for document in range(first, last):
        _insert(store, room, document, NO_VIEWS)
