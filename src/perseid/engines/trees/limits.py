"""How much of everything a document may have: what is beyond is refused, so that hostile documents stay harmless."""

from __future__ import annotations

DEEPEST = 10_000
"""Elements inside each other."""
MOST_ATTRIBUTES = 10_000
"""Of one tag."""
MOST_NAMES = 1 << 16
NAME_BYTES = 1 << 22
LONGEST_TAG = 1 << 24
"""Bytes that a tag may have."""
LONGEST_JUDGED = 1 << 24
"""Bytes that a tag, a comment or an instruction may have where expat judges, which keeps it whole."""
LARGEST_PIECE = 1 << 26
"""Bytes that are looked at together: places of tokens are numbers of 32 bits."""
LONGEST_DECLARATION = 4096
MOST_LARGER = 8
"""Times its length, and MOST_BYTES more, that a JSON document may have as XML; nor may it have MOST_TIMES its length."""
MOST_TIMES, MOST_BYTES = 256, 1 << 26
"""All results of a document may have so many times its bytes, and so many more: the bytes of their texts and 56 for each node.

Nodes inside each other repeat the text and the nodes that they share."""
