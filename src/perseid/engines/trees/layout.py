"""Where everything lies in the arrays of the scanner: its head, its tables of names, its tokens.

As in the sequence engine, kernels see nothing but arrays of numbers, and the names below are compile-time constants.
"""

from __future__ import annotations

from types import ModuleType
from typing import TypeAlias

from perseid.runtime.arrays import ByteArray, Int32Array, IntArray
from perseid.runtime.jit import typed, words

Ints: TypeAlias = IntArray
"""A flat array of int64."""
Tokens: TypeAlias = Int32Array
"""Rows of int32, one for each word of a token."""
Bytes: TypeAlias = ByteArray
"""A flat array of uint8."""

# tokens: what it is, its name, and where in the bytes that were given its text begins and ends
T_KIND, T_NAME, T_BEGIN, T_END = range(4)
TOKEN_WIDTH = 4
START, END, ATTRIBUTE, TEXT, ESCAPED, CDATA = range(6)
"""ESCAPED is text, and an attribute below zero a value, with references or line ends that have to be read."""
ESCAPED_VALUE = -1
"""The kind of an attribute whose value has to be read."""

# the head of the scanner's space: where it stands, what it was told, and where the parts begin
(
    H_AT, H_MODE, H_DEPTH, H_ROOTS, H_TOKENS, H_SERIAL, H_EPOCH, H_NAMES, H_BYTES, H_PAIRS, H_SCOPES, H_STRICT, H_TEXTS,
    H_ATTRIBUTES, H_DEEPEST, H_MOST, H_STACK, H_RECORDS, H_RECORDS_END, H_TABLE, H_TABLE_SIZE, H_BYTES_END, H_PAIR,
    H_PAIR_SIZE, H_PAIRS_END, H_SCOPE, H_SCOPE_END, H_WHY, H_ROOM, H_LONGEST, H_SALT, H_FACTOR, H_SEEN,
) = range(33)  # fmt: skip
SCAN_HEAD = 33
"""The next byte; what it is in the middle of; how many elements are open; whether there was a root (1: open, 2: closed);
tokens; the number of the tag; that of the last change of namespaces; names, their bytes, names in namespaces, and
declarations in scope; whether only what is proved passes; whether texts and attributes are wanted; how deep elements and
how many attributes may be; then where the parts lie, why a document is in doubt, room for how many tokens there is, how many
bytes a tag may have, two numbers that nobody who writes a document knows, for the hash of names, and names seen lately."""

# modes: what the scanner is in the middle of
OUTSIDE, IN_COMMENT, IN_INSTRUCTION, IN_CDATA = range(4)

# a name, as it was written
RECORD_WIDTH = 9
R_AT, R_LENGTH, R_HASH, R_PREFIX, R_LOCAL, R_EPOCH, R_EXPANDED, R_STAMP, R_BOUND = range(9)
"""Where its bytes are; its prefix (-1: none) and local name (-1: its colons are wrong, -2: nobody looked yet); up to which epoch the name in a namespace is
known; the tag in which it was an attribute last; and, of a prefix, the namespace it stands for now (-1: none)."""
PAIR_WIDTH = 3
P_URI, P_LOCAL, P_STAMP = range(3)
"""A name in a namespace: both by their number among the names, and the tag in which it was an attribute last."""
SEEN_WIDTH, SEEN_NAMES = 2, 1 << 10
Q_KEY, Q_RECORD = range(2)
"""A name that was seen lately, by a number made of its letters: of those that share a place, the last."""
SCOPE_WIDTH = 3
S_PREFIX, S_BEFORE, S_DEPTH = range(3)

# names that are always there
EMPTY, XML_PREFIX, XMLNS_PREFIX, XML_URI, XMLNS_URI = range(5)
ALWAYS = (b"", b"xml", b"xmlns", b"http://www.w3.org/XML/1998/namespace", b"http://www.w3.org/2000/xmlns/")

# what a scan answers
DONE, MORE, FULL, DOUBT = range(4)
"""All bytes were read; the last token is not whole; there is no room for more tokens; somebody else has to judge."""
# why there is doubt, or a limit
(
    UNSURE, TOO_DEEP, TOO_MANY_ATTRIBUTES, TOO_MANY_NAMES, TOO_LONG,
) = range(5)  # fmt: skip

Room: TypeAlias = ByteArray
"""A flat array of uint8 that is written to."""


def kinds(numba: ModuleType) -> dict[str, object]:
    """The arrays of these kernels, by the words for them."""
    return {
        "Ints": numba.int64[::1],
        "Tokens": numba.int32[:, ::1],
        "Bytes": numba.types.Array(numba.uint8, 1, "C", readonly=True),
        "Room": numba.uint8[::1],
    }


_ENTRY_TYPES, _TYPES = words(kinds)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)
