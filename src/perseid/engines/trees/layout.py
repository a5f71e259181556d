"""Layout of the scanner's arrays: its head, its name tables, its tokens.

As in the sequence engine, kernels take arrays of numbers only, and the names below are compile-time constants.
"""

from __future__ import annotations

from types import ModuleType
from typing import TypeAlias

from perseid.runtime.arrays import ByteArray, Int32Array, IntArray
from perseid.runtime.jit import typed, words

Ints: TypeAlias = IntArray
"""A flat array of int64."""
Tokens: TypeAlias = Int32Array
"""Rows of int32, one per field of a token."""
Bytes: TypeAlias = ByteArray
"""A flat array of uint8."""

# tokens: kind, name number, and begin and end offset of the text in the input bytes
T_KIND, T_NAME, T_BEGIN, T_END = range(4)
TOKEN_WIDTH = 4
START, END, ATTRIBUTE, TEXT, ESCAPED, CDATA = range(6)
"""Token kinds. ESCAPED is text with references or line ends to decode."""
ESCAPED_VALUE = -1
"""The kind of an attribute value with references or white space to decode."""

# head of the scanner's space: state and options, then offsets of the parts
(
    H_AT, H_MODE, H_DEPTH, H_ROOTS, H_TOKENS, H_SERIAL, H_EPOCH, H_NAMES, H_BYTES, H_PAIRS, H_SCOPES, H_STRICT, H_TEXTS,
    H_ATTRIBUTES, H_DEEPEST, H_MAX_ATTRIBUTES, H_STACK, H_RECORDS, H_RECORDS_END, H_TABLE, H_TABLE_SIZE, H_BYTES_END, H_PAIR,
    H_PAIR_SIZE, H_PAIRS_END, H_SCOPE, H_SCOPE_END, H_REASON, H_TOKEN_CAPACITY, H_LONGEST, H_SALT, H_FACTOR, H_RECENT,
) = range(33)  # fmt: skip
SCAN_HEAD = 33
"""Next byte; mode; number of open elements; root element (0: none yet, 1: open, 2: closed); token count; serial number
of the tag; epoch of namespace declarations; counts of names, their bytes, names in namespaces, and declarations in
scope; strict mode; whether texts and attributes are needed; limits of depth and attributes; then offsets and sizes of
the parts, the reason for DOUBT, token capacity, limit of tag bytes, two secret numbers for the hash of names, and the
offset of the cache of recent names."""

# modes: the construct that contains the next byte
OUTSIDE, IN_COMMENT, IN_INSTRUCTION, IN_CDATA = range(4)

# a name as written in the document
RECORD_WIDTH = 9
R_AT, R_LENGTH, R_HASH, R_PREFIX, R_LOCAL, R_EPOCH, R_EXPANDED, R_STAMP, R_BOUND = range(9)
"""Offset, length and hash of its bytes; its prefix (-1: none) and local name (-1: malformed colons, -2: not parsed
yet); the epoch in which its name in a namespace is valid, and that name; serial number of the last tag with it as an
attribute; and, of a prefix, its current namespace (-1: none)."""
PAIR_WIDTH = 3
P_URI, P_LOCAL, P_STAMP = range(3)
"""A name in a namespace: both as name numbers, and the serial number of the last tag with it as an attribute."""
RECENT_WIDTH, RECENT_NAMES = 2, 1 << 10
Q_KEY, Q_RECORD = range(2)
"""Entry of the cache of recent names: a key computed from the letters, and the record. A collision replaces it."""
SCOPE_WIDTH = 3
S_PREFIX, S_BEFORE, S_DEPTH = range(3)

# predefined names
EMPTY, XML_PREFIX, XMLNS_PREFIX, XML_URI, XMLNS_URI = range(5)
ALWAYS = (b"", b"xml", b"xmlns", b"http://www.w3.org/XML/1998/namespace", b"http://www.w3.org/2000/xmlns/")

# scan status
DONE, MORE, FULL, DOUBT = range(4)
"""All bytes are read; the last token is incomplete; the token array is full; the document cannot be proved well formed,
or exceeds a limit."""
# reasons for DOUBT
(
    UNSURE, TOO_DEEP, TOO_MANY_ATTRIBUTES, TOO_MANY_NAMES, TOO_LONG,
) = range(5)  # fmt: skip

WritableBytes: TypeAlias = ByteArray
"""A writable flat array of uint8."""


def kinds(numba: ModuleType) -> dict[str, object]:
    """Return the Numba types of these kernels' arrays by annotation."""
    return {
        "Ints": numba.int64[::1],
        "Tokens": numba.int32[:, ::1],
        "Bytes": numba.types.Array(numba.uint8, 1, "C", readonly=True),
        "WritableBytes": numba.uint8[::1],
    }


_ENTRY_TYPES, _TYPES = words(kinds)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)
