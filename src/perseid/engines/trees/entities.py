"""Named entities that external DTDs declare and documents use: those of HTML 4, as in DBLP.

The table is built in, so nothing is loaded. Its layout is for kernels: concatenated names in the order of their bytes,
the offset of each, and the characters that they refer to.
"""

from __future__ import annotations

from html.entities import name2codepoint

import numpy as np

from perseid.engines.trees.layout import Bytes, Ints, compiled

# ``apos`` is one of the five predefined entities, and the only one that HTML 4 lacks.
_ENTITIES = sorted((name.encode(), code) for name, code in {**name2codepoint, "apos": 39}.items())

ENTITIES = len(_ENTITIES)
ENTITY_NAMES: Bytes = np.frombuffer(b"".join(name for name, _ in _ENTITIES), np.uint8)
ENTITY_AT: Ints = np.cumsum([0] + [len(name) for name, _ in _ENTITIES], dtype=np.int64)
"""One more than there are names: the end of the last one."""
ENTITY_CODES: Ints = np.array([code for _, code in _ENTITIES], np.int64)


@compiled
def compared(D: Bytes, begin: int, end: int, number: int) -> int:
    """Compare bytes with a name of the table: negative if they sort before it, positive if after it, 0 if equal."""
    at = ENTITY_AT[number]
    common = min(end - begin, ENTITY_AT[number + 1] - at)
    for k in range(common):
        difference = int(D[begin + k]) - int(ENTITY_NAMES[at + k])
        if difference != 0:
            return difference
    return int(end - begin - (ENTITY_AT[number + 1] - at))


@compiled
def entity(D: Bytes, begin: int, end: int) -> int:
    """Return the character of an entity name, without ``&`` and ``;``; -1 if the table does not have it."""
    low, high = 0, ENTITIES
    while low < high:
        middle = (low + high) // 2
        order = compared(D, begin, end, middle)
        if order == 0:
            return int(ENTITY_CODES[middle])
        if order < 0:
            high = middle
        else:
            low = middle + 1
    return -1
