"""The pool of partial matches of event contexts: their frames, their totals, and the lists of their events."""

from __future__ import annotations

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled

LINK_WIDTH = 4
L_BEFORE, L_STEP, L_POSITION, L_BRANCH = range(4)
"""Slots of a link. L_BRANCH is the index of the branch taken, because several branches may lead to a step."""
EXTENDED = FOUND
"""In a partial match: 1 if another one extends it (recent), so that it does not time out."""
TAKEN_LIST = SCAN_FROM
"""In a partial match: its last link."""
STARTED_AT = BROKEN
"""In a partial match: its first event."""


@compiled
def pool_size(M: Arrays) -> int:
    """The capacity of the pool in partial matches."""
    w = M.space
    return (w[A_NODES_END] - w[A_NODES]) // (2 * NODE_WIDTH)


@compiled
def totals_place(M: Arrays, at: int) -> int:
    """The totals slot of a frame of the pool."""
    w = M.space
    return 2 + (at - w[A_FRAMES]) // M.tables[S_FRAME]


@compiled
def totals_beyond(M: Arrays) -> int:
    """The first totals slot after those of the pool; searches for negations write there."""
    return 2 + pool_size(M)


@compiled
def load_events(M: Arrays, at: int) -> bool:
    """Copy the events of a partial match to the stack of taken events; False if there is no capacity."""
    w = M.space
    count, link = w[at + COUNT], w[at + TAKEN_LIST]
    if w[A_TAKEN] + TAKEN_WIDTH * (count + 2) > w[A_TAKEN_END]:
        w[C_FULL_AREA] = TAKEN_AREA
        return False
    for k in range(count - 1, -1, -1):
        w[w[A_TAKEN] + TAKEN_WIDTH * k + K_STEP] = w[link + L_STEP]
        w[w[A_TAKEN] + TAKEN_WIDTH * k + K_POSITION] = w[link + L_POSITION]
        w[w[A_TAKEN] + TAKEN_WIDTH * k + K_ANY] = 0
        link = w[link + L_BEFORE]
    return True


@compiled
def append_link(M: Arrays, at: int, before: int, step: int, branch: int, position: int) -> bool:
    """Append a link for the newest event of a partial match; False if there is no capacity."""
    w = M.space
    link = w[C_KEYS]
    if link + LINK_WIDTH > w[A_KEYS_END]:
        return False
    w[link + L_BEFORE] = before
    w[link + L_STEP] = step
    w[link + L_POSITION] = position
    w[link + L_BRANCH] = branch
    w[at + TAKEN_LIST] = link
    w[C_KEYS] = link + LINK_WIDTH
    return True
