"""Encode keys as codes: a small number for each distinct key, by its value.

A hash table is filled without comparing values, then one pass compares them all: without branches that wait for values,
the processor fetches many rows at once. If two values share a hash, Arrow encodes the column instead. In both cases
codes are numbered by first appearance, so neither seed nor hash affects a result.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perseid.runtime.arrays import ArrowColumn, IntArray, IntegerArray
from perseid.runtime.jit import jit, runs_compiled
from perseid.semantics import values as v

Codes: TypeAlias = IntegerArray
"""Integers of 32 or 64 bits: as narrow as the number of rows allows, to reduce memory traffic."""
Scalar = TypeVar("Scalar", bound=np.generic)

_MOST_ROWS = 2**31 - 1
_MIN_SLOTS = 1_024


def read_only(found: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A read-only view: Numba compiles separately for writable and read-only arrays, and Arrow's are read-only."""
    found = found.view()
    found.flags.writeable = False
    return found


def index_type(rows: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if rows < _MOST_ROWS else np.int64


def _slots(rows: int) -> int:
    """The number of codes that may be counted directly: with more, most counters would stay empty."""
    return min(_MOST_ROWS - 1, max(_MIN_SLOTS, 2 * rows))


def key_codes(keys: Sequence[ArrowColumn], rows: int) -> tuple[Codes, int]:
    """A code below ``size`` for each row, equal for equal keys; some codes may not occur."""
    kind = index_type(rows)
    if not keys:
        return np.zeros(rows, kind), 1
    codes, size = _codes(keys[0])
    for key in keys[1:]:
        more, count = _codes(key)
        # Neither size is above 31 bits, so the product stays below 63.
        mixed = codes.astype(np.int64) * count + more
        size *= count
        codes, size = (mixed, size) if size <= _slots(rows) else _integer_codes(mixed, None)
    return codes.astype(kind, copy=False), size


def numbered(keys: Sequence[ArrowColumn], rows: int) -> tuple[IntArray, IntArray]:
    """The first row of each distinct key, and for each row the number of its key."""
    codes, size = key_codes(keys, rows)
    first = np.full(size, -1, np.int64)
    first[codes[::-1]] = np.arange(rows - 1, -1, -1)  # the last write is that of the first row
    present = first >= 0
    if present.all():
        return first, codes.astype(np.int64)
    return first[present], (np.cumsum(present) - 1)[codes]


def distinct(keys: Sequence[ArrowColumn], rows: int) -> int:
    """The number of distinct keys."""
    codes, size = key_codes(keys, rows)
    return int(np.count_nonzero(np.bincount(codes, minlength=size))) if rows else 0


def _codes(column: ArrowColumn) -> tuple[Codes, int]:
    column = one_chunk(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _dictionary_codes(column)
    numbers = as_numbers(column)
    if numbers is not None:
        return _integer_codes(numbers, null_mask(column))
    if _has_bytes(kind):
        return _bytes_codes(column)
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return _object_codes(column)
    return _arrow_codes(column)


def _usual(column: ArrowColumn) -> ArrowColumn:
    """Convert layouts that few of Arrow's functions support."""
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def one_chunk(column: ArrowColumn) -> ArrowColumn:
    column = _usual(column)
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if not column.num_chunks:
        return pa.array([], column.type)
    if column.nbytes >= 2**31:  # the offsets of one array of strings would not reach its end
        wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(column.type)
        column = column if wide is None else column.cast(wide)
    try:
        return column.combine_chunks()
    except pa.ArrowInvalid:
        if not pa.types.is_dictionary(column.type):
            raise
        # Dictionaries with nulls, or with too many values for the indices, cannot be combined as dictionaries.
        return column.cast(column.type.value_type).combine_chunks()


def null_mask(column: ArrowColumn) -> npt.NDArray[np.bool_] | None:
    return np.asarray(column.is_null()) if column.null_count else None


def as_numbers(column: ArrowColumn) -> IntegerArray | None:
    """Values as integers with the same equality and order; None for types without such a form.

    Results are arbitrary where the column is null.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int32)
    if pa.types.is_boolean(kind):
        return np.asarray(column.cast(pa.int8()).fill_null(0))
    if pa.types.is_floating(kind):
        return _float_numbers(np.asarray(column.cast(pa.float64()).fill_null(0.0)))
    if pa.types.is_integer(kind):
        return _buffer(column, kind.to_pandas_dtype())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return _buffer(column, np.int32)
    if pa.types.is_date64(kind):
        return _buffer(column, np.int64) // 86_400_000
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        # Values have no digits below the microsecond, whatever the unit of the column.
        found = _buffer(column, np.int64)
        return found // 1_000 if kind.unit == "ns" else found
    if pa.types.is_time64(kind):
        return _buffer(column, np.int64)
    return None


def _buffer(column: ArrowColumn, kind: type[Scalar]) -> npt.NDArray[Scalar]:
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros(len(column), kind)
    return np.frombuffer(data, kind, len(column), column.offset * np.dtype(kind).itemsize)


def _float_numbers(found: npt.NDArray[np.float64]) -> IntArray:
    """The bits of doubles as integers of the same order; NaN is above all, and both zeros are one."""
    with np.errstate(invalid="ignore"):  # a signaling NaN, which damaged or foreign data can have, becomes a quiet one
        found = found + 0.0  # minus zero becomes zero
    unknown = np.isnan(found)
    if unknown.any():
        found[unknown] = np.nan  # one bit pattern for all NaNs
    bits = found.view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & np.int64(2**63 - 1))


def _integer_codes(numbers: IntegerArray, nulls: npt.NDArray[np.bool_] | None) -> tuple[Codes, int]:
    rows = len(numbers)
    if nulls is not None:
        non_null = numbers[~nulls]
        if not len(non_null):
            return np.zeros(rows, np.int32), 1
        numbers = np.where(nulls, non_null[0], numbers)
    low, high = (int(numbers.min()), int(numbers.max())) if rows else (0, 0)
    size = high - low + 1
    if size <= _slots(rows):
        # The difference fits, although it may wrap around in a narrow signed type; read as unsigned, it is right.
        codes = numbers if low == 0 else numbers - numbers.dtype.type(low)
        if codes.itemsize < 4:
            codes = codes.view(f"u{codes.itemsize}")
        codes = codes.astype(np.int32, copy=False)
    else:
        codes, size = _distinct(numbers)
    if nulls is not None:
        codes = np.where(nulls, codes.dtype.type(size), codes)
        size += 1
    return codes, size


def _distinct(found: IntegerArray) -> tuple[Codes, int]:
    """Codes by first appearance."""
    rows = len(found)
    if runs_compiled() and rows < _MOST_ROWS:
        # Equality of values is preserved if unsigned numbers are read as signed ones.
        wide = read_only(found.view(np.int64) if found.dtype == np.uint64 else found.astype(np.int64, copy=False))
        hashes, codes = np.empty(rows, np.uint64), np.empty(rows, np.int32)
        _hash_integers(wide, np.uint64(_SEED), hashes)
        first = _encode_hashes(hashes, codes)
        if _equal_integers(wide, codes, first):
            return codes, len(first)
    return _arrow_codes(pa.array(found))


def _arrow_codes(column: ArrowColumn) -> tuple[Codes, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices), len(encoded.dictionary)


def _dictionary_codes(column: ArrowColumn) -> tuple[Codes, int]:
    # A dictionary may hold a value twice, and a null value in addition to null indices.
    inner, size = _codes(column.dictionary)
    missing = column.dictionary.null_count > 0
    null_code = int(inner[np.flatnonzero(np.asarray(column.dictionary.is_null()))[0]]) if missing else size
    indices = np.asarray(column.indices.fill_null(0)).astype(np.int64, copy=False)
    codes = inner[indices] if len(inner) else np.zeros(len(column), np.int32)
    nulls = null_mask(column.indices)
    if nulls is not None:
        codes = np.where(nulls, codes.dtype.type(null_code), codes)
    return codes, size + (not missing)


def _object_codes(column: ArrowColumn) -> tuple[Codes, int]:
    codes_by_value: dict[object, int] = {}
    codes = [codes_by_value.setdefault(v.identity(v.plain(value)), len(codes_by_value)) for value in column.to_pylist()]
    return np.array(codes, np.int64), len(codes_by_value)


def _has_bytes(kind: pa.DataType) -> bool:
    """True for types with all values in one byte buffer, with offsets."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _bytes_codes(column: ArrowColumn) -> tuple[Codes, int]:
    rows = len(column)
    if runs_compiled() and 0 < rows < _MOST_ROWS:
        parts = _bytes_parts(column)
        hashes, codes = np.empty(rows, np.uint64), np.empty(rows, np.int32)
        _hash_bytes(*parts, np.uint64(_SEED), hashes)
        first = _encode_hashes(hashes, codes)
        if _equal_bytes(*parts, codes, first):
            return codes, len(first)
    return _arrow_codes(column)


def _bytes_parts(column: ArrowColumn) -> tuple[Codes, npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Offsets, bytes, and the mask of null rows (empty if there are none)."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    width: type[np.integer] = np.int64 if large else np.int32
    _, where, data = column.buffers()
    offsets = np.frombuffer(where, width, len(column) + 1, column.offset * np.dtype(width).itemsize)
    content = np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)
    nulls = null_mask(column)
    return offsets, content, read_only(np.zeros(0, np.bool_) if nulls is None else nulls)


_SEED = secrets.randbits(64)
"""Differs between processes, so that senders of keys cannot choose keys that collide."""


@jit
def _mixed(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    word = (word ^ (word >> np.uint64(29))) * np.uint64(0xA0761D6478BD642F)
    return word ^ (word >> np.uint64(32))


@jit
def _hash_integers(found: IntArray, seed: np.uint64, hashes: npt.NDArray[np.uint64]) -> None:
    for row in range(len(found)):
        hashes[row] = _mixed(np.uint64(found[row]) ^ seed)


@jit
def _word(content: npt.NDArray[np.uint8], at: Any) -> np.uint64:
    """Read eight bytes at any position; the compiler emits one load."""
    i = np.uint64(at)
    return (
        np.uint64(content[i])
        | np.uint64(content[i + np.uint64(1)]) << np.uint64(8)
        | np.uint64(content[i + np.uint64(2)]) << np.uint64(16)
        | np.uint64(content[i + np.uint64(3)]) << np.uint64(24)
        | np.uint64(content[i + np.uint64(4)]) << np.uint64(32)
        | np.uint64(content[i + np.uint64(5)]) << np.uint64(40)
        | np.uint64(content[i + np.uint64(6)]) << np.uint64(48)
        | np.uint64(content[i + np.uint64(7)]) << np.uint64(56)
    )


@jit
def _hash_bytes(
    offsets: Codes,
    content: npt.NDArray[np.uint8],
    nulls: npt.NDArray[np.bool_],
    seed: np.uint64,
    hashes: npt.NDArray[np.uint64],
) -> None:
    for row in range(len(hashes)):
        if len(nulls) > 0 and nulls[row]:
            hashes[row] = _mixed(seed)
            continue
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        mixed_hash = seed ^ np.uint64(end - at)
        while at + 8 <= end:
            mixed_hash = (mixed_hash ^ _word(content, at)) * np.uint64(0x9E3779B97F4A7C15)
            mixed_hash ^= mixed_hash >> np.uint64(29)
            at += 8
        tail = np.uint64(0)
        while at < end:
            tail = (tail << np.uint64(8)) | np.uint64(content[np.uint64(at)])
            at += 1
        hashes[row] = _mixed(mixed_hash ^ tail)


@jit
def _encode_hashes(hashes: npt.NDArray[np.uint64], codes: Codes) -> IntArray:
    """Encode hashes by first appearance; returns the first row of each code.

    Only the slot and the upper half of a hash are compared, so that rows with one code still have to be compared.
    """
    upper = np.uint64(0xFFFFFFFF00000000)
    lower = np.uint64(0x00000000FFFFFFFF)
    slots = np.zeros(4_096, np.uint64)  # upper half of the hash, then the code plus one
    mask = np.uint64(len(slots) - 1)
    first = np.empty(4_096, np.int64)
    count = 0
    for row in range(len(hashes)):
        found = hashes[row]
        at = found & mask
        slot = slots[at]
        while slot != np.uint64(0) and ((slot ^ found) & upper) != np.uint64(0):
            at = (at + np.uint64(1)) & mask
            slot = slots[at]
        if slot != np.uint64(0):
            codes[row] = np.int64(slot & lower) - 1
            continue
        codes[row] = count
        first[count] = row
        count += 1
        slots[at] = (found & upper) | np.uint64(count)
        if 2 * count >= len(slots):
            slots = np.zeros(4 * len(slots), np.uint64)
            mask = np.uint64(len(slots) - 1)
            grown = np.empty(len(slots), np.int64)
            for code in range(count):
                grown[code] = first[code]
                found = hashes[first[code]]
                at = found & mask
                while slots[at] != np.uint64(0):
                    at = (at + np.uint64(1)) & mask
                slots[at] = (found & upper) | np.uint64(code + 1)
            first = grown
    return first[:count]


@jit
def _equal_integers(found: IntArray, codes: Codes, first: IntArray) -> bool:
    """True if each row has the number of the first row with its code."""
    equal = True
    for row in range(len(codes)):
        equal &= found[row] == found[first[codes[row]]]
    return equal


@jit
def _equal_bytes(
    offsets: Codes, content: npt.NDArray[np.uint8], nulls: npt.NDArray[np.bool_], codes: Codes, first: IntArray
) -> bool:
    """True if each row has the string of the first row with its code."""
    for row in range(len(codes)):
        other = first[codes[row]]
        if other == row:
            continue
        if len(nulls) > 0 and (nulls[row] or nulls[other]):
            if nulls[row] != nulls[other]:
                return False
            continue
        left, right = np.int64(offsets[other]), np.int64(offsets[row])
        length = np.int64(offsets[row + 1]) - right
        if np.int64(offsets[other + 1]) - left != length:
            return False
        differ = np.uint64(0)
        at = 0
        while at + 8 <= length:
            differ |= _word(content, left + at) ^ _word(content, right + at)
            at += 8
        while at < length:
            differ |= np.uint64(content[np.uint64(left + at)] ^ content[np.uint64(right + at)])
            at += 1
        if differ != np.uint64(0):
            return False
    return True


def key_hashes(keys: Sequence[ArrowColumn], rows: int) -> npt.NDArray[np.uint64]:
    """A hash for each row, equal for equal keys in any part of the data; valid in this process only."""
    found = np.full(rows, _SEED, np.uint64)
    for key in keys:
        found = _mixed_all(found ^ _column_hashes(one_chunk(key)))
    return found


def _mixed_all(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    words = (words ^ (words >> np.uint64(29))) * np.uint64(0xA0761D6478BD642F)
    return words ^ (words >> np.uint64(32))


def _column_hashes(column: ArrowColumn) -> npt.NDArray[np.uint64]:
    numbers = as_numbers(column)
    if numbers is not None:
        words = numbers.astype(np.int64, copy=False).view(np.uint64)
        nulls = null_mask(column)
        # Null is hashed like a number; a number with the same hash merely shares the bucket.
        return _mixed_all(words if nulls is None else np.where(nulls, np.uint64(0x5851F42D4C957F2D), words))
    if runs_compiled() and len(column) and _has_bytes(column.type):
        hashes = np.empty(len(column), np.uint64)
        _hash_bytes(*_bytes_parts(column), np.uint64(_SEED), hashes)
        return hashes
    # All other types by their distinct values, with Python's hash.
    if not pa.types.is_dictionary(column.type):
        codes, size = _codes(column)
        if not size or not len(column):
            return np.zeros(len(column), np.uint64)
        first = np.zeros(size, np.int64)
        first[codes[::-1]] = np.arange(len(column) - 1, -1, -1)
        return _value_hashes(column.take(pa.array(first)).to_pylist(), codes)
    indices = column.indices.cast(pa.int64()).fill_null(len(column.dictionary))
    return _value_hashes([*column.dictionary.to_pylist(), None], np.asarray(indices))


def _value_hashes(values: list[object], codes: Codes) -> npt.NDArray[np.uint64]:
    found = np.array([hash(v.identity(v.plain(value))) for value in values], np.int64)
    return found.view(np.uint64).take(codes)
