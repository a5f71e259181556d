"""The hashes of :mod:`perseid.semantics.hashing` for whole Arrow columns at once.

Compiled loops over Arrow's own buffers hash numbers, times, strings and binaries; the hashes of arrays, structs and
maps combine those of their parts. All other values (decimals of many digits, types that Spark lacks) go through the
reference, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from perseid.runtime.arrays import ArrowColumn, BoolArray, IntArray
from perseid.runtime.jit import jit_with_overflow
from perseid.semantics import hashing as reference
from perseid.semantics.hashing import NULL_BITS, SEED

Words: TypeAlias = npt.NDArray[np.uint64]
Scalar = TypeVar("Scalar", bound=np.generic)

_P1 = np.uint64(reference.PRIME_1)
_P2 = np.uint64(reference.PRIME_2)
_P3 = np.uint64(reference.PRIME_3)
_P4 = np.uint64(reference.PRIME_4)
_P5 = np.uint64(reference.PRIME_5)
_NAN = np.uint64(reference.NAN_BITS)
_0, _1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(n) for n in range(9))
_11, _12, _16, _18, _23, _24, _27, _29, _31, _32, _33, _37, _40, _41, _46, _48, _52, _53, _56, _57, _63 = (
    np.uint64(n) for n in (11, 12, 16, 18, 23, 24, 27, 29, 31, 32, 33, 37, 40, 41, 46, 48, 52, 53, 56, 57, 63)
)

_SECOND_KEY_SEED = reference.hash_long(1, SEED)
"""The seed of the second word of a key: the hash of a column with the value 1 before the key columns."""

_ALL_VALID: BoolArray = np.zeros(0, np.bool_)
_ALL_VALID.flags.writeable = False


@jit_with_overflow
def mix_word(word: np.uint64, seed: np.uint64) -> np.uint64:
    """Mix one word into a hash: ``hash_long`` on unsigned 64-bit numbers."""
    k = word * _P2
    h = (seed + _P5 + _8) ^ (((k << _31) | (k >> _33)) * _P1)
    h = ((h << _27) | (h >> _37)) * _P1 + _P4
    h = (h ^ (h >> _33)) * _P2
    h = (h ^ (h >> _29)) * _P3
    return h ^ (h >> _32)


@jit_with_overflow
def _mix_words(hashes: Words, words: Words, valid: BoolArray) -> None:
    every = len(valid) == 0
    for i in range(len(hashes)):
        if every or valid[i]:
            hashes[i] = mix_word(words[i], hashes[i])


@jit_with_overflow
def _mix_doubles(hashes: Words, numbers: npt.NDArray[np.float64], bits: Words, valid: BoolArray) -> None:
    every = len(valid) == 0
    for i in range(len(hashes)):
        if every or valid[i]:
            word = bits[i]
            if numbers[i] == 0.0:
                word = _0
            elif np.isnan(numbers[i]):
                word = _NAN
            hashes[i] = mix_word(word, hashes[i])


@jit_with_overflow
def _mix_constant(hashes: Words, word: np.uint64) -> None:
    for i in range(len(hashes)):
        hashes[i] = mix_word(word, hashes[i])


@jit_with_overflow
def _four(data: npt.NDArray[np.uint8], at: np.uint64) -> np.uint64:
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + _1]) << _8)
        | (np.uint64(data[at + _2]) << _16)
        | (np.uint64(data[at + _3]) << _24)
    )


@jit_with_overflow
def _eight(data: npt.NDArray[np.uint8], at: np.uint64) -> np.uint64:
    # Written so that LLVM emits one load; an unsigned index needs no check for negative positions.
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + _1]) << _8)
        | (np.uint64(data[at + _2]) << _16)
        | (np.uint64(data[at + _3]) << _24)
        | (np.uint64(data[at + _4]) << _32)
        | (np.uint64(data[at + _5]) << _40)
        | (np.uint64(data[at + _6]) << _48)
        | (np.uint64(data[at + _7]) << _56)
    )


@jit_with_overflow
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    lane = lane + word * _P2
    return ((lane << _31) | (lane >> _33)) * _P1


@jit_with_overflow
def mix_bytes(data: npt.NDArray[np.uint8], at: np.uint64, end: np.uint64, seed: np.uint64) -> np.uint64:
    """Mix the bytes from ``at`` to ``end`` into a hash: ``hash_bytes`` on unsigned 64-bit numbers."""
    size = end - at
    if size >= _32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + _32 <= end:
            a = _round(a, _eight(data, at))
            b = _round(b, _eight(data, at + _8))
            c = _round(c, _eight(data, at + _16))
            d = _round(d, _eight(data, at + _24))
            at = at + _32
        h = ((a << _1) | (a >> _63)) + ((b << _7) | (b >> _57)) + ((c << _12) | (c >> _52)) + ((d << _18) | (d >> _46))
        h = (h ^ _round(_0, a)) * _P1 + _P4
        h = (h ^ _round(_0, b)) * _P1 + _P4
        h = (h ^ _round(_0, c)) * _P1 + _P4
        h = (h ^ _round(_0, d)) * _P1 + _P4
    else:
        h = seed + _P5
    h = h + size
    while at + _8 <= end:
        h = h ^ _round(_0, _eight(data, at))
        h = ((h << _27) | (h >> _37)) * _P1 + _P4
        at = at + _8
    if at + _4 <= end:
        h = h ^ (_four(data, at) * _P1)
        h = ((h << _23) | (h >> _41)) * _P2 + _P3
        at = at + _4
    while at < end:
        h = h ^ (np.uint64(data[at]) * _P5)
        h = ((h << _11) | (h >> _53)) * _P1
        at = at + _1
    h = (h ^ (h >> _33)) * _P2
    h = (h ^ (h >> _29)) * _P3
    return h ^ (h >> _32)


@jit_with_overflow
def _mix_texts(hashes: Words, data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any], valid: BoolArray) -> None:
    every = len(valid) == 0
    for i in range(len(hashes)):
        if every or valid[i]:
            hashes[i] = mix_bytes(data, np.uint64(offsets[i]), np.uint64(offsets[i + 1]), hashes[i])


@jit_with_overflow
def _chain(offsets: IntArray, parts: Words, seed: np.uint64) -> Words:
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        h = seed
        for j in range(offsets[i], offsets[i + 1]):
            h = mix_word(parts[j], h)
        out[i] = h
    return out


@jit_with_overflow
def match_words(
    seed0: int,
    seed1: int,
    keys: IntArray,
    offsets: IntArray,
    step: IntArray,
    time: IntArray,
    occurrence: IntArray,
    identity: IntArray,
) -> IntArray:
    """Both lanes of the ids of m matches, as an (m, 2) array; ``hex_ids`` formats them.

    ``keys`` (m, 2) are the words of each match's key. The events of match i are at ``offsets[i]`` to ``offsets[i + 1]``
    in the last four arrays. All arrays are contiguous.
    """
    seeds = np.empty(2, np.int64)
    seeds[0] = seed0
    seeds[1] = seed1
    first, second = seeds.view(np.uint64)
    key = keys.view(np.uint64)
    steps, times = step.view(np.uint64), time.view(np.uint64)
    occurrences, identities_ = occurrence.view(np.uint64), identity.view(np.uint64)
    lanes = np.empty((len(offsets) - 1, 2), np.int64)
    out = lanes.view(np.uint64)
    for i in range(len(out)):
        a = mix_word(key[i, 1], mix_word(key[i, 0], first))
        b = mix_word(key[i, 1], mix_word(key[i, 0], second))
        for j in range(offsets[i], offsets[i + 1]):
            a, b = mix_word(steps[j], a), mix_word(steps[j], b)
            a, b = mix_word(times[j], a), mix_word(times[j], b)
            a, b = mix_word(occurrences[j], a), mix_word(occurrences[j], b)
            a, b = mix_word(identities_[j], a), mix_word(identities_[j], b)
        out[i, 0] = a
        out[i, 1] = b
    return lanes


_HEX_PAIRS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


def hex_ids(lanes: IntArray) -> pa.Array:
    """Match ids as 32 hex digits each, in a ``pa.StringArray``."""
    return _id_array(pa.string(), _HEX_PAIRS[np.ascontiguousarray(lanes, ">i8").view(np.uint8)], len(lanes), 32)


def id_bytes(lanes: IntArray) -> pa.Array:
    """Match ids as sixteen bytes each, in a ``pa.BinaryArray``."""
    return _id_array(pa.binary(), np.ascontiguousarray(lanes, ">i8"), len(lanes), 16)


def _id_array(kind: pa.DataType, data: npt.NDArray[np.generic], count: int, width: int) -> pa.Array:
    if count * width >= 2**31:
        raise OverflowError(f"{count} match ids do not fit into one array; write them in pieces.")
    offsets = np.arange(0, width * count + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def hash_columns(
    arrays: Sequence[ArrowColumn], seed: int = SEED, leading: int | None = None, rows: int | None = None
) -> IntArray:
    """``hash_values`` of every row, with ``leading`` as an additional word before the columns.

    Without columns, ``rows`` is the number of hashes.
    """
    count = len(arrays[0]) if arrays else rows or 0
    start = seed if leading is None else reference.hash_long(leading, seed)
    hashes = np.full(count, start, np.int64).view(np.uint64)
    bits: list[Words | None] = []
    for index, array in enumerate(arrays):
        if len(array) != count:
            raise ValueError(f"Column {index + 1} has {len(array)} rows, the first has {count}.")
        if index % NULL_BITS == 0:
            bits.append(None)
        for at, chunk in _chunks(array):
            valid = _mix(hashes[at : at + len(chunk)], chunk)
            if len(valid):
                word = bits[-1] if bits[-1] is not None else np.zeros(count, np.uint64)
                word[at : at + len(chunk)] |= (~valid).astype(np.uint64) << np.uint64(index % NULL_BITS)
                bits[-1] = word
    for nulls in bits:
        if nulls is None:
            _mix_constant(hashes, _0)
        else:
            _mix_words(hashes, _frozen(nulls), _ALL_VALID)
    return hashes.view(np.int64)


def identities(id_columns: Sequence[ArrowColumn], all_columns: Mapping[str, ArrowColumn]) -> IntArray:
    """The identity of every row: by its ``id`` columns or, without any, by all columns in the order of their names."""
    if not id_columns:
        return hash_columns([all_columns[name] for name in sorted(all_columns)])
    if len(id_columns) > 1 or not _is_integer(id_columns[0]):
        return hash_columns(id_columns)
    out = np.empty(len(id_columns[0]), np.int64)
    for at, chunk in _chunks(id_columns[0]):
        words, valid = _integers(_flat(chunk))
        chunk_out = out[at : at + len(chunk)]
        chunk_out[:] = words.view(np.int64)
        if len(valid):
            chunk_out[~valid] = reference.hash_values([None])
    return out


def match_identities(match_ids: ArrowColumn) -> IntArray:
    """The identities of matches as events: the hash of each id's text."""
    hashes = np.full(len(match_ids), SEED, np.int64).view(np.uint64)
    _mix_text(hashes, match_ids)
    return hashes.view(np.int64)


def key_words(key_columns: Sequence[ArrowColumn], rows: int | None = None) -> IntArray:
    """The two words of every row's key, as an (n, 2) array; ``rows`` is n if there are no key columns."""
    return np.stack(
        [hash_columns(key_columns, rows=rows), hash_columns(key_columns, _SECOND_KEY_SEED, rows=rows)], axis=1
    )


def _chunks(array: ArrowColumn) -> Iterator[tuple[int, ArrowColumn]]:
    at = 0
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        if len(chunk):
            yield at, chunk
        at += len(chunk)


def _flat(array: ArrowColumn) -> ArrowColumn:
    """Decode dictionary and run-end encodings, which affect the storage of a column and not its values."""
    if pa.types.is_dictionary(array.type):
        return _flat(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return _flat(pa.compute.run_end_decode(array))
    return array


def _is_integer(array: ArrowColumn) -> bool:
    kind = array.type
    return bool(pa.types.is_integer(kind.value_type if pa.types.is_dictionary(kind) else kind))


def _mix(hashes: Words, array: ArrowColumn) -> BoolArray:
    """Mix a column into the hashes of its rows; return the mask of valid rows, empty if all are valid."""
    array = _flat(array)
    kind, is_ = array.type, pa.types
    if is_.is_integer(kind) or is_.is_boolean(kind) or _is_moment(kind):
        words, valid = _integers(array)
        _mix_words(hashes, words, valid)
    elif is_.is_floating(kind):
        numbers, valid = _fixed(array.cast(pa.float64()), np.float64), _valid(array)
        _mix_doubles(hashes, numbers, numbers.view(np.uint64), valid)
    elif _is_text(kind):
        valid = _mix_text(hashes, array)
    elif is_.is_decimal(kind) and kind.bit_width <= 128 and 0 <= kind.scale <= 6:
        # Beyond six digits Arrow, like Java, may write an exponent.
        valid = _mix_text(hashes, array.cast(pa.string()))
    elif is_.is_struct(kind) or is_.is_list(kind) or is_.is_large_list(kind) or is_.is_map(kind):
        words, valid = _frozen(_nested(array)), _valid(array)
        _mix_words(hashes, words, valid)
    elif is_.is_fixed_size_list(kind):
        valid = _mix(hashes, array.cast(pa.large_list(kind.value_type)))
    elif is_.is_null(kind):
        valid = np.zeros(len(array), np.bool_)
    else:
        valid = _mix_by_reference(hashes, array)
    return valid


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind))


def _is_text(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(
        is_.is_string(kind) or is_.is_binary(kind) or is_.is_large_string(kind) or is_.is_large_binary(kind)
        or is_.is_string_view(kind) or is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind)
    )  # fmt: skip


def _mix_text(hashes: Words, array: ArrowColumn) -> BoolArray:
    kind, is_ = array.type, pa.types
    if is_.is_string_view(kind) or is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind):
        array = array.cast(pa.large_binary())
    wide = is_.is_large_string(array.type) or is_.is_large_binary(array.type)
    _, where, data = array.buffers()
    size = np.dtype(np.int64 if wide else np.int32).itemsize
    offsets = np.frombuffer(where, np.int64 if wide else np.int32, len(array) + 1, array.offset * size)
    texts = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    valid = _valid(array)
    _mix_texts(hashes, _frozen(texts), _frozen(offsets), valid)
    return valid


def _mix_by_reference(hashes: Words, array: ArrowColumn) -> BoolArray:
    canonical = [reference.canonical(value) for value in array.to_pylist()]
    if any(isinstance(value, bytes) for value in canonical):
        return _mix_text(hashes, pa.array(canonical, pa.large_binary()))
    valid = np.array([value is not None for value in canonical], np.bool_)
    words = np.array([reference.signed(value) if isinstance(value, int) else 0 for value in canonical], np.int64)
    _mix_words(hashes, _frozen(words.view(np.uint64)), _frozen(valid))
    return valid


def _integers(array: ArrowColumn) -> tuple[Words, BoolArray]:
    """The word of each value of a column, and the mask of valid values."""
    kind, valid = array.type, _valid(array)
    if pa.types.is_uint64(kind):
        words = _fixed(array, np.int64)
        if len(words) and words.min() < 0:  # out of the range of Spark's bigint: null
            valid = _frozen(words >= 0 if not len(valid) else valid & (words >= 0))
        return words.view(np.uint64), valid
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        words = _fixed(array, np.int64)
        if kind.unit == "ns":
            words = words // 1000
        elif kind.unit != "us":
            words = words * {"s": 1_000_000, "ms": 1_000}[kind.unit]
    elif pa.types.is_date64(kind):
        words = _fixed(array, np.int64) // 86_400_000
    elif pa.types.is_date32(kind):
        words = _fixed(array, np.int32).astype(np.int64)
    else:
        words = _fixed(array if pa.types.is_int64(kind) else array.cast(pa.int64()), np.int64)
    return _frozen(words).view(np.uint64), valid


def _fixed(array: ArrowColumn, kind: type[Scalar]) -> npt.NDArray[Scalar]:
    """A view of the buffer of a fixed-width column; values at nulls are arbitrary."""
    data = array.buffers()[1]
    if data is None:
        return _frozen(np.zeros(len(array), kind))
    return _frozen(np.frombuffer(data, kind, len(array), array.offset * np.dtype(kind).itemsize))


def _valid(array: ArrowColumn) -> BoolArray:
    if array.null_count == 0:
        return _ALL_VALID
    return _frozen(array.is_valid().to_numpy(zero_copy_only=False))


def _frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Make an array read-only; a kernel called with both kinds of arrays would be compiled twice."""
    array.flags.writeable = False
    return array


def _nested(array: ArrowColumn) -> Words:
    """The hash of each list, struct or map of a column."""
    kind, seed = array.type, np.uint64(SEED)
    if pa.types.is_struct(kind):
        words = np.full(len(array), seed)
        fields = [(reference.hash_values([kind.field(i).name]), i) for i in range(kind.num_fields)]
        for name, i in sorted(fields):
            _mix_constant(words, np.int64(name).view(np.uint64))
            _mix_words(words, _frozen(hash_columns([array.field(i)]).view(np.uint64)), _ALL_VALID)
        return words
    offsets = array.offsets.to_numpy().astype(np.int64)
    low, high = offsets[0], offsets[-1]
    offsets -= low
    if not pa.types.is_map(kind):
        return _chain(_frozen(offsets), hash_columns([array.values.slice(low, high - low)]).view(np.uint64), seed)
    keys = hash_columns([array.keys.slice(low, high - low)])
    values = hash_columns([array.items.slice(low, high - low)])
    owner = np.repeat(np.arange(len(array)), np.diff(offsets))
    order = np.lexsort((values, keys, owner))
    pairs = np.stack([keys[order], values[order]], axis=1).reshape(-1)
    return _chain(_frozen(2 * offsets), pairs.view(np.uint64), seed)
