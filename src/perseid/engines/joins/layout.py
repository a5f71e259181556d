"""What the kernels' arrays hold, by name."""

from __future__ import annotations

from perseid.engines.joins.graph import Kind

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
