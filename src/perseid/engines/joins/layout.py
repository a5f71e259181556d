"""What the kernels' arrays hold, by name."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple, TypeAlias

from perseid.engines.joins.graph import Kind
from perseid.runtime.arrays import ByteArray, FloatArray, Int32Array, IntArray
from perseid.runtime.jit import typed, words

Ints: TypeAlias = IntArray
"""A flat array of int64."""
Rows: TypeAlias = IntArray
"""Rows of int64."""
Places: TypeAlias = Int32Array
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
"""Its empty prefix; its first edge, how many it has, how many of these ask the newer document alone, and how many nodes
that document has in it; where the nodes that are shown stand among the slots; and whether others are bound, so that the
same may be found twice."""

# Edges: a row each, those of a template one after the other.
E_KIND, E_OP, E_OLDER_AT, E_OLDER, E_NEWER_AT, E_NEWER, E_WIDTH = range(7)
"""Where the slots of the older and of the newer chain stand, and how many there are."""

# Slots: a row each.
S_SLOT, S_NEW, S_WIDTH = range(3)
"""The number of a node, and whether no edge before has bound it."""

# How things compare.
LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL, SAME, DIFFERENT = range(6)
OPS = {"<": LESS, "<=": LESS_OR_EQUAL, ">": GREATER, ">=": GREATER_OR_EQUAL, "=": SAME, "!=": DIFFERENT}

# What is found: a row each.
O_GROUP, O_COUNT, O_OLDER, O_NEWER, O_AT, O_WIDTH = range(6)
"""Subscriptions of a group, the first so many of them; the two documents; and where the nodes stand."""

MAX_SLOTS = 64
"""Nodes that a template has on one side."""
MAX_EDGES = 128

# Views of what is joined (paper 3, Section 5).
NO_VIEWS, SHARED, CACHED = range(3)


# How much there is, and how much there is room for.
N_FOUND, N_NODES, N_STATES, N_POSTINGS, N_SLICES, N_FULL, N_DROPPED, N_WIDTH = range(8)
Z_PAIRS, Z_LINKS, Z_STATES, Z_FOUND, Z_NODES, Z_SLICES, Z_VALUES, Z_WIDTH = range(8)
X_MASK, X_RANGE_MASK, X_PAIR_MASK, X_TEMPLATES, X_WIDEST, X_WIDTH = range(6)


def most_of(size: int) -> int:
    """How many keys a hashed table of so many places takes."""
    return 2 * size // 3


def size_for(count: int) -> int:
    """Places of a hashed table for so many keys, a power of two."""
    return 1 << max(4, (3 * count // 2).bit_length())


class Index(NamedTuple):
    """Subscriptions, for the kernels."""

    templates: Rows
    edges: Rows
    slots: Rows
    keys: Keys
    """Choices that lead on: (prefix, a, b). For equalities the chains of the older and of the newer document, for constants
    the chain and the constant."""
    children: Places
    ends: Keys
    """By prefix: where the windows of the subscriptions that end there begin and end."""
    windows: Ints
    range_keys: Keys
    """The same for (prefix, chain, 0) and a list of thresholds."""
    range_children: Places
    ranges: Keys
    """By list: where its thresholds begin and end."""
    thresholds: Floats
    onward: Places
    """By threshold: the prefix it leads to."""
    pair_keys: Keys
    """Pairs of chains, (older, newer, 0), that some equality asks for."""
    pair_children: Places
    asked_at: Ints
    asked: Ints
    """By such a pair: the edges that ask for it."""
    newer: Ints
    """By chain: is it the newer one of an equality?"""
    sizes: Ints
    """X_MASK, X_RANGE_MASK, X_PAIR_MASK, X_TEMPLATES and X_WIDEST."""


class Store(NamedTuple):
    """Documents, for the kernels."""

    times: Ints
    documents: Rows
    """By document: its rows, from and to."""
    rows: Rows
    """Chain, value, and where its nodes stand; the last of these is the one with the value."""
    heights: Ints
    """By chain: how many nodes it has."""
    nodes: Ints
    numbers: Numbers
    """By value: the number it is, and its place among texts that things are compared with."""
    constants: Ints
    """By value: the constant that somebody asks for and it is, or -1."""
    needles_at: Ints
    needles: Ints
    """By value: the texts it contains that somebody asks for."""
    heads: Rows
    """By value: the newest posting (Rdoc), and the newest row of its slice (RL); -1 for none, and -2 where there is no slice."""
    postings: Rows
    """Document, node, and the posting before (Rdoc)."""
    slices: Keys
    """Row, the one before (RL), and its document."""


class Room(NamedTuple):
    """What the kernels write to."""

    pairs: Rows
    """Rows of two documents with one value: the older, the newer."""
    lists: Rows
    """By edge: the first of its links, or -1; and which edges have any."""
    links: Rows
    """A pair that an edge asks for, and the next of that edge."""
    slots: Ints
    cursors: Rows
    prefixes: Ints
    states: Rows
    state_slots: Rows
    at: Rows
    found: Rows
    before: Places
    """By row of what is found: the one before of the same group and pair of documents, or -1."""
    latest: Places
    """By prefix: the last row of its group, if that is a row of this pair."""
    nodes: Ints
    told: Ints
    """How many there are: N_FOUND, N_NODES, N_STATES, N_POSTINGS, N_SLICES; whether slices found no room, and how often
    all were dropped."""
    sizes: Ints
    """How many there is room for: Z_PAIRS, Z_LINKS, Z_STATES, Z_FOUND, Z_NODES, Z_SLICES; and how many values may have slices."""


def kinds(numba: ModuleType) -> dict[str, object]:
    """The arrays of these kernels, by the words for them."""
    return {
        "Ints": numba.int64[::1],
        "Rows": numba.int64[:, ::1],
        "Places": numba.int32[::1],
        "Keys": numba.int32[:, ::1],
        "Floats": numba.float64[::1],
        "Bytes": numba.uint8[::1],
        "Numbers": numba.float64[:, ::1],
    }


_ENTRY_TYPES, _TYPES = words(kinds, Index=Index, Store=Store, Room=Room)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)
