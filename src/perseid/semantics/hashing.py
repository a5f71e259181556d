"""64-bit identity hashes of events, keys and matches, identical in Spark, NumPy and plain Python.

The hash is XXH64 as Spark's ``xxhash64`` chains it: the hash of the columns so far is the seed for the next one.
Values are made canonical first, so that neither a column's width nor session settings matter:

- integers, booleans (0 or 1), timestamps and durations (microseconds) and dates (days) are one 64-bit word;
- a float is the word of its double's bits, with one zero and one NaN;
- strings (as UTF-8) and binaries are their bytes; a decimal is the bytes of its digits, as ``cast`` writes them;
- a list is one word: the chained hashes of its elements, each hashed as a list of one column;
- a struct or a map is one word: the chained hashes of its names (or keys) and values, by pairs in ascending order.

Spark skips nulls, so null bitmap words, 60 columns per word, end each hash.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from perseid.semantics import values as v
from perseid.semantics.values import Value

SEED = 42
"""The seed of Spark's ``xxhash64``."""
NULL_BITS = 60
"""Columns per null bitmap word."""
NAN_BITS = 0x7FF8000000000000

PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
PRIME_3 = 0x165667B19E3779F9
PRIME_4 = 0x85EBCA77C2B2AE63
PRIME_5 = 0x27D4EB2F165667C5

_ALL = 2**64 - 1
_EPOCH_DAY = date(1970, 1, 1)
_DOUBLE = struct.Struct("<d")


def signed(word: int) -> int:
    """Return the same 64 bits as a signed integer."""
    word &= _ALL
    return word - 2**64 if word >> 63 else word


def hash_long(word: int, seed: int) -> int:
    """Hash one 64-bit word, as Spark's ``hashLong``."""
    return signed(_long(word, seed))


def hash_bytes(data: bytes, seed: int) -> int:
    """Hash bytes, as Spark's ``hashUnsafeBytes``."""
    return signed(_bytes(data, seed))


def hash_words(seed: int, words: Iterable[int]) -> int:
    """Hash words in sequence, each with the hash of those before it as seed."""
    h = seed
    for word in words:
        h = _long(word, h)
    return signed(h)


def hash_values(values: Sequence[Value], leading: int | None = None) -> int:
    """Return ``xxhash64`` of the canonical columns, with an optional ``leading`` word before them."""
    return signed(_values(values, leading, 0))


def identity_of(values: Sequence[Value]) -> int:
    """Return an event's identity from its ``id`` columns: a single integer itself, else the hash of the columns."""
    if len(values) == 1:
        only = v.scalar(values[0])
        if isinstance(only, int) and not isinstance(only, bool):
            return only
    return hash_values(values)


def identity_word(text: str) -> int:
    """Return the identity for an event's ``id``: the integer that the text represents, else the hash of its bytes."""
    if len(text) <= 20:
        try:
            number = int(text)
        except ValueError:
            pass
        else:
            if str(number) == text and v.integer(number) is not None:
                return number
    return hash_bytes(_utf8(text), SEED)


def key_words(values: Sequence[Value]) -> tuple[int, int]:
    """Return two words for a key: the hash of its columns, and the same with a leading word 1."""
    return hash_values(values), hash_values(values, leading=1)


@lru_cache(maxsize=1024)
def match_seeds(semantic_hash: str) -> tuple[int, int]:
    """Return the seeds of the two lanes of a match id, from the semantic hash of the pattern."""
    digest = hashlib.blake2b(semantic_hash.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big", signed=True), int.from_bytes(digest[8:], "big", signed=True)


def match_id(semantic_hash: str, key: Sequence[Value], contributions: Iterable[tuple[int, int, int, int]]) -> str:
    """Return 128 bits over the semantic hash, the key, and (step, time, occurrence, identity) of every event."""
    words = [*key_words(key), *(word for event in contributions for word in event)]
    return "".join(f"{hash_words(seed, words) & _ALL:016x}" for seed in match_seeds(semantic_hash))


def canonical(value: Value, depth: int = 0) -> int | bytes | None:
    """Return the canonical form of a value: a word, bytes, or None for null."""
    value = v.scalar(value)
    match value:
        case None:
            return None
        case str():
            return _utf8(value)
        case int():  # and booleans
            return int(value)
        case float():
            if math.isnan(value):
                return NAN_BITS
            return int.from_bytes(_DOUBLE.pack(value), "little") if value else 0
        case datetime():
            return (value - v.EPOCH) // v.MICROSECOND
        case date():
            return (value - _EPOCH_DAY).days
        case timedelta():
            return v.microseconds(value)
        case Decimal():
            return format(value, "f").encode()
        case bytes():
            return value
        case list() if depth < v.MAX_NESTING:
            return hash_words(SEED, (_values((inner,), None, depth + 1) for inner in value))
        case dict() if depth < v.MAX_NESTING:
            keys = ((v.scalar(key), inner) for key, inner in value.items())
            pairs = sorted(
                (signed(_values((key,), None, depth + 1)), signed(_values((inner,), None, depth + 1)))
                for key, inner in keys
                if key is not None
            )
            return hash_words(SEED, (word for pair in pairs for word in pair))
    return None


def _values(values: Sequence[Value], leading: int | None, depth: int) -> int:
    h = SEED if leading is None else _long(leading, SEED)
    nulls = 0
    for index, value in enumerate(values):
        found = canonical(value, depth)
        if found is None:
            nulls |= 1 << index
        elif isinstance(found, int):
            h = _long(found, h)
        else:
            h = _bytes(found, h)
    for _ in range(0, len(values), NULL_BITS):
        h = _long(nulls & (1 << NULL_BITS) - 1, h)
        nulls >>= NULL_BITS
    return h


def _utf8(text: str) -> bytes:
    # Python strings may contain lone surrogates, which are not valid characters, and hashing must not fail.
    return text.encode("utf-8", "surrogatepass")


def _long(word: int, seed: int) -> int:
    k = word * PRIME_2 & _ALL
    h = (seed + PRIME_5 + 8 & _ALL) ^ (((k << 31 | k >> 33) & _ALL) * PRIME_1 & _ALL)
    return _mix(((h << 27 | h >> 37) & _ALL) * PRIME_1 + PRIME_4 & _ALL)


def _round(lane: int, word: int) -> int:
    lane = lane + word * PRIME_2 & _ALL
    return ((lane << 31 | lane >> 33) & _ALL) * PRIME_1 & _ALL


def _bytes(data: bytes, seed: int) -> int:
    size = len(data)
    at = 0
    if size >= 32:
        lanes = [seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1]
        for at in range(0, size - 31, 32):
            lanes = [_round(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
        at = size & ~31
        h = sum((lane << turn | lane >> 64 - turn) & _ALL for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            h = (h ^ _round(0, lane)) * PRIME_1 + PRIME_4
    else:
        h = seed + PRIME_5
    h = h + size & _ALL
    while at + 8 <= size:
        h ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        h = ((h << 27 | h >> 37) & _ALL) * PRIME_1 + PRIME_4 & _ALL
        at += 8
    if at + 4 <= size:
        h ^= int.from_bytes(data[at : at + 4], "little") * PRIME_1 & _ALL
        h = ((h << 23 | h >> 41) & _ALL) * PRIME_2 + PRIME_3 & _ALL
        at += 4
    for byte in data[at:]:
        h ^= byte * PRIME_5 & _ALL
        h = ((h << 11 | h >> 53) & _ALL) * PRIME_1 & _ALL
    return _mix(h)


def _mix(h: int) -> int:
    h ^= h >> 33
    h = h * PRIME_2 & _ALL
    h ^= h >> 29
    h = h * PRIME_3 & _ALL
    return h ^ h >> 32
