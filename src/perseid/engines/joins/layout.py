"""Layouts of the kernels' arrays."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple, TypeAlias

from perseid.engines.joins import graph
from perseid.engines.joins.graph import Kind
from perseid.runtime.arrays import ByteArray, FloatArray, Int32Array, IntArray
from perseid.runtime.jit import typed, words

Ints: TypeAlias = IntArray
"""A flat array of int64."""
Rows: TypeAlias = IntArray
"""Rows of int64."""
Int32s: TypeAlias = Int32Array
"""A flat array of int32."""
Keys: TypeAlias = Int32Array
"""Rows of int32."""
Floats: TypeAlias = FloatArray
Bytes: TypeAlias = ByteArray
Numbers: TypeAlias = FloatArray
"""Rows of doubles."""

NEWER_IS, NEWER_CONTAINS, EQUAL, OLDER_IS, OLDER_CONTAINS, ORDERED, NEWER_RANGE, OLDER_RANGE = (int(k) for k in Kind)

# Templates: a row each.
(
    T_ROOT,
    T_FIRST,
    T_COUNT,
    T_CONSTANTS,
    T_BOUND,
    T_STRICT,
    T_OLDER_AT,
    T_OLDER,
    T_NEWER_AT,
    T_NEWER,
    T_PARTIAL,
    T_WIDTH,
) = range(12)
"""Root prefix; first edge, number of edges, number of leading edges on constants of the newer document; number of nodes
of the newer document; whether the newer document must be strictly later; offset and number of the slots of shown nodes,
of the older and of the newer document; whether other nodes are bound too, so that duplicates are possible."""

# Edges: a row each, those of a template contiguous.
E_KIND, E_OP, E_OLDER_AT, E_OLDER, E_NEWER_AT, E_NEWER, E_WIDTH = range(7)
"""Kind, operator, then offset and number of the slots of the older and of the newer chain."""

# Slots: a row each.
S_SLOT, S_NEW, S_WIDTH = range(3)
"""The number of a node, and whether this is its first binding, by no earlier edge."""

# Comparison operators.
LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL, SAME, DIFFERENT = range(6)
OPS = {"<": LESS, "<=": LESS_OR_EQUAL, ">": GREATER, ">=": GREATER_OR_EQUAL, "=": SAME, "!=": DIFFERENT}

# Result rows.
O_GROUP, O_COUNT, O_OLDER, O_NEWER, O_AT, O_WIDTH = range(6)
"""A group of subscriptions, the number of its first ones that match; the two documents; and the offset of the nodes."""

MAX_SLOTS, MAX_EDGES = graph.MAX_SLOTS, graph.MAX_EDGES

# View materialization (paper 3, Section 5).
NO_VIEWS, SHARED, CACHED = range(3)


# Counters and capacities.
N_FOUND, N_NODES, N_STATES, N_POSTINGS, N_SLICES, N_FULL, N_DROPPED, N_WIDTH = range(8)
Z_PAIRS, Z_LINKS, Z_STATES, Z_FOUND, Z_NODES, Z_SLICES, Z_VALUES, Z_WIDTH = range(8)
X_MASK, X_RANGE_MASK, X_PAIR_MASK, X_TEMPLATES, X_WIDEST, X_WIDTH = range(6)


def max_keys(size: int) -> int:
    """Return the maximum number of keys in a hash table of this size."""
    return 2 * size // 3


def size_for(count: int) -> int:
    """Return the size of a hash table for this many keys, a power of two."""
    return 1 << max(4, (3 * count // 2).bit_length())


class Index(NamedTuple):
    """The compiled index of subscriptions, for the kernels."""

    templates: Rows
    edges: Rows
    slots: Rows
    keys: Keys
    """Hash table of choices (prefix, a, b). For comparisons of two nodes a and b are the chains of the older and of the
    newer document, for constants the chain and the constant."""
    children: Int32s
    ends: Keys
    """By prefix: begin and end of the windows of the subscriptions that end there."""
    windows: Ints
    range_keys: Keys
    """Hash table from (prefix, chain, 0) to a list of thresholds."""
    range_children: Int32s
    ranges: Keys
    """By list: begin and end of its thresholds."""
    thresholds: Floats
    onward: Int32s
    """By threshold: the prefix that it leads to."""
    pair_keys: Keys
    """Hash table of the pairs of chains (older, newer, 0) in equality edges."""
    pair_children: Int32s
    edges_of_pairs_at: Ints
    edges_of_pairs: Ints
    """By such a pair: the edges with it."""
    newer: Ints
    """By chain: 1 if it is the newer chain of an equality."""
    sizes: Ints
    """X_MASK, X_RANGE_MASK, X_PAIR_MASK, X_TEMPLATES and X_WIDEST."""


class Store(NamedTuple):
    """The join state, for the kernels."""

    times: Ints
    documents: Rows
    """By document: begin and end of its rows."""
    rows: Rows
    """Chain, value, and offset of its nodes; the last node is the one with the value."""
    heights: Ints
    """By chain: its number of nodes."""
    nodes: Ints
    numbers: Numbers
    """By value: its numeric value, and its rank among the texts of order comparisons."""
    constants: Ints
    """By value: the subscription constant that it equals, or -1."""
    needles_at: Ints
    needles: Ints
    """By value: the needles of subscriptions that it contains."""
    heads: Rows
    """By value: the newest posting (Rdoc), or -1; and the newest row of its slice (RL), -1 if empty, -2 if not built."""
    postings: Rows
    """Document, node, and the previous posting of the value (Rdoc)."""
    slices: Keys
    """Row, the previous entry of the slice (RL), and the document of the row."""


class Buffers(NamedTuple):
    """Work space and output buffers of the kernels."""

    pairs: Rows
    """Pairs of rows with equal values, of two documents: the older, the newer."""
    lists: Rows
    """Column 0, by edge: its first link, or -1; column 1: the edges with links, as a list."""
    links: Rows
    """A pair with the chains of an edge, and the next link of that edge."""
    slots: Ints
    cursors: Rows
    prefixes: Ints
    states: Rows
    state_slots: Rows
    at: Rows
    found: Rows
    previous: Int32s
    """By result row: the previous one of the same group and pair of documents, or -1."""
    latest: Int32s
    """By prefix: the last result row of its group, if that is a row of the current pair."""
    nodes: Ints
    counters: Ints
    """Counters: N_FOUND, N_NODES, N_STATES, N_POSTINGS, N_SLICES; N_FULL if slices exceeded their capacity, N_DROPPED for
    the number of times that all were dropped."""
    sizes: Ints
    """Capacities: Z_PAIRS, Z_LINKS, Z_STATES, Z_FOUND, Z_NODES, Z_SLICES; and Z_VALUES, the number of values with heads."""


def kinds(numba: ModuleType) -> dict[str, object]:
    """Return the Numba types of the array aliases, by name."""
    return {
        "Ints": numba.int64[::1],
        "Rows": numba.int64[:, ::1],
        "Int32s": numba.int32[::1],
        "Keys": numba.int32[:, ::1],
        "Floats": numba.float64[::1],
        "Bytes": numba.uint8[::1],
        "Numbers": numba.float64[:, ::1],
    }


_ENTRY_TYPES, _TYPES = words(kinds, Index=Index, Store=Store, Buffers=Buffers)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)
