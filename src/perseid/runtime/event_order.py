"""Sort rows into the canonical order: by partition, then time, then ``order_by``, then identity.

Counting replaces comparisons of single rows: keys become codes, a counting sort groups the codes, and only rows with
equal times in one partition are sorted by the columns after the time. Times that already ascend, the usual case, cost
one pass to detect and no sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perseid.runtime.arrays import ArrowColumn, IntArray
from perseid.runtime.jit import jit, runs_compiled
from perseid.runtime.key_encoding import (
    Codes,
    as_numbers,
    index_type,
    key_codes,
    null_mask,
    one_chunk,
    read_only,
)
from perseid.semantics import values as v

_LEAST = -(2**63)
_RADIX_BITS = 11  # 2,048 counters and as many open cache lines stay in the first two caches
_SMALL_GROUP = 24


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Rows in order: partition ``p`` is ``order[offsets[p]:offsets[p + 1]]``."""

    order: IntArray
    """Row numbers, sorted."""
    offsets: IntArray
    """Start offset of each partition, followed by the number of rows."""
    occurrence: IntArray | None
    """By position: the number of earlier rows of the partition with equal time and identity; None without identity."""

    @property
    def partitions(self) -> int:
        return len(self.offsets) - 1


def arrange(
    keys: Sequence[ArrowColumn], time: IntArray, ranks: Sequence[ArrowColumn], identity: IntArray | None
) -> Arrangement:
    """Sort rows by key, time, ranks (nulls first, NaN last) and identity; the sort is stable.

    Keys are compared by value: null is one key, minus zero is zero, NaN is itself. The order of partitions depends on
    the data alone.
    """
    time = np.ascontiguousarray(time, dtype=np.int64)
    rows = len(time)
    occurrence = None if identity is None else np.zeros(rows, np.int64)
    if rows == 0:
        return Arrangement(np.empty(0, np.int64), np.zeros(1, np.int64), occurrence)
    codes, size = key_codes(keys, rows)
    order, offsets, same = _by_key_and_time(codes, size, time)
    if same is not None and (len(ranks) or identity is not None):
        _sort_ties(order, same, ranks, identity, occurrence)
    return Arrangement(order, offsets, occurrence)


# By key and time


def _by_key_and_time(
    codes: Codes, size: int, time: IntArray
) -> tuple[IntArray, IntArray, npt.NDArray[np.uint8] | None]:
    """The order, partition offsets, and flags of rows with the partition and the time of the preceding row.

    The flags are None if no two rows of a partition have the same time.
    """
    rows = len(time)
    if not runs_compiled():
        order = np.lexsort((time, codes)).astype(np.int64, copy=False)
        counts = np.bincount(codes, minlength=size)
        offsets = np.concatenate(([0], np.cumsum(counts[counts > 0]))).astype(np.int64)
        key, when = codes[order], time[order]
        same = np.zeros(rows, np.uint8)
        same[1:] = (key[1:] == key[:-1]) & (when[1:] == when[:-1])
        return order, offsets, same if same.any() else None
    kind = index_type(rows)
    time = read_only(time)
    if _ascends(time):
        through: Codes = np.empty(0, kind)
    else:
        time, through = _by_time(time, kind)
    order = np.empty(rows, np.int64)
    same = np.zeros(rows, np.uint8)
    ends = np.zeros(size + 1, kind)
    offsets = np.empty(min(size, rows) + 1, np.int64)
    partitions, tied = _count_and_place(read_only(codes), read_only(time), through, ends, order, offsets, same)
    return order, offsets[: partitions + 1].copy(), same if tied else None


@jit
def _ascends(time: IntArray) -> bool:
    for row in range(1, len(time)):  # noqa: SIM110 (Numba has no generators)
        if time[row] < time[row - 1]:
            return False
    return True


def _by_time(time: IntArray, kind: type[np.int32] | type[np.int64]) -> tuple[IntArray, Codes]:
    """Sorted times, and the row number of each; the sort is stable."""
    low, high = int(time.min()), int(time.max())
    bits = max(1, (high - low).bit_length())
    passes = -(-bits // _RADIX_BITS)
    width = -(-bits // passes)
    # Relative to the minimum, so that a short time span has few digits; unsigned, since the span may be long.
    keys = (time - np.int64(low)).view(np.uint64)
    keys, through = _radix(keys, passes, width, np.arange(len(time), dtype=kind))
    return keys.view(np.int64) + np.int64(low), through


@jit
def _radix(keys: npt.NDArray[np.uint64], passes: int, width: int, rows: Codes) -> tuple[npt.NDArray[np.uint64], Codes]:
    size = 1 << width
    mask = np.uint64(size - 1)
    counts = np.zeros((passes, size), np.int64)
    for i in range(len(keys)):
        key = keys[i]
        for turn in range(passes):
            counts[turn, key & mask] += 1
            key >>= np.uint64(width)
    next_keys, next_rows = np.empty_like(keys), np.empty_like(rows)
    for turn in range(passes):
        shift = np.uint64(turn * width)
        places = counts[turn]
        if places[(keys[0] >> shift) & mask] == len(keys):
            continue  # one digit for all: nothing to sort by
        total = 0
        for digit in range(size):
            count = places[digit]
            places[digit] = total
            total += count
        for i in range(len(keys)):
            key = keys[i]
            digit = (key >> shift) & mask
            place = places[digit]
            places[digit] = place + 1
            next_keys[place] = key
            next_rows[place] = rows[i]
        keys, next_keys = next_keys, keys
        rows, next_rows = next_rows, rows
    return keys, rows


@jit
def _count_and_place(
    codes: Codes,
    time: IntArray,
    through: Codes,
    ends: Codes,
    order: IntArray,
    offsets: IntArray,
    same: npt.NDArray[np.uint8],
) -> tuple[int, bool]:
    """Counting sort by code of rows in time order; a tie is a row with the last time of its code."""
    rows = len(codes)
    for row in range(rows):
        ends[codes[row] + 1] += 1
    partitions = 0
    offsets[0] = 0
    for code in range(len(ends) - 1):
        if ends[code + 1] > 0:
            partitions += 1
            offsets[partitions] = offsets[partitions - 1] + np.int64(ends[code + 1])
        ends[code + 1] += ends[code]
    tied = False
    indirect = len(through) > 0
    last = np.full(len(ends) - 1, _LEAST, np.int64)
    # Before the first row of a code, its last time is the smallest possible time. If a row has that time, only the
    # position shows whether an earlier row of the code exists.
    starts = ends[:-1].copy() if time[0] == _LEAST else ends[:0]
    for i in range(rows):
        source = np.int64(through[i]) if indirect else np.int64(i)
        code = codes[source]
        place = ends[code]
        ends[code] = place + 1
        order[place] = source
        when = time[i]
        if when == last[code] and (len(starts) == 0 or place > starts[code]):
            same[place] = 1
            tied = True
        last[code] = when
    return partitions, tied


# Rows with equal times


def _sort_ties(
    order: IntArray,
    same: npt.NDArray[np.uint8],
    ranks: Sequence[ArrowColumn],
    identity: IntArray | None,
    occurrence: IntArray | None,
) -> None:
    """Sort rows of one partition and time by ranks and identity, and number those with equal identity, in place."""
    member = same.astype(np.bool_)
    member[:-1] |= member[1:]
    places = np.flatnonzero(member)
    starts = np.append(np.flatnonzero(same[places] == 0), len(places)).astype(np.int64)
    rows = order[places]
    columns = [_rank_numbers(rank, rows) for rank in ranks]
    if identity is not None:
        columns.append(np.ascontiguousarray(identity, dtype=np.int64)[rows])
    chosen = _sorted_groups(starts, np.stack(columns))
    order[places] = rows[chosen]
    if identity is None or occurrence is None:
        return
    names = columns[-1][chosen]
    # Equal identities are adjacent unless ranks separate them.
    by_name = _sorted_groups(starts, names[np.newaxis]) if ranks else np.arange(len(places))
    first = np.zeros(len(places), np.bool_)
    first[starts[:-1]] = True
    sorted_names = names[by_name]
    first[1:] |= sorted_names[1:] != sorted_names[:-1]
    positions = np.arange(len(places))
    counted = positions - np.maximum.accumulate(np.where(first, positions, 0))
    occurrence[places[by_name]] = counted


def _rank_numbers(column: ArrowColumn, rows: IntArray) -> IntArray:
    """Map the values of some rows to integers of the same order: null below all, NaN above all numbers."""
    column = one_chunk(column).take(pa.array(rows))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    numbers = as_numbers(column)
    if numbers is None:
        numbers, nulls = _sorted_codes(column)
    else:
        nulls = null_mask(column)
        if numbers.dtype == np.uint64:
            numbers = (numbers ^ np.uint64(2**63)).view(np.int64)
    wide = numbers.astype(np.int64, copy=False)
    if nulls is None:
        return wide
    if len(wide[~nulls]) and wide[~nulls].min() == _LEAST:
        # The only integer below all others is in use.
        wide = np.unique(wide, return_inverse=True)[1].astype(np.int64)
    return np.where(nulls, _LEAST, wide)


def _sorted_codes(column: ArrowColumn) -> tuple[IntArray, npt.NDArray[np.bool_] | None]:
    kind = column.type
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return _sorted_objects([v.plain(value) for value in column.to_pylist()])
    encoded = column.dictionary_encode()
    place = np.zeros(max(1, len(encoded.dictionary)), np.int64)
    place[np.asarray(pc.sort_indices(encoded.dictionary))] = np.arange(len(encoded.dictionary))
    return place[np.asarray(encoded.indices.fill_null(0))], null_mask(column)


def _sorted_objects(values: list[object]) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    codes: dict[object, int] = {}
    before, count = None, 0
    for value in sorted((value for value in values if value is not None), key=cmp_to_key(_compare)):
        count += before is not None and _compare(before, value) != 0
        codes[v.identity(value)] = count
        before = value
    return (
        np.array([0 if value is None else codes[v.identity(value)] for value in values], np.int64),
        np.array([value is None for value in values], np.bool_),
    )


def _compare(left: object, right: object) -> int:
    comparison = v.compare(left, right)
    if (
        comparison is None
    ):  # structs and maps have no order of their own: any fixed one, such as that of their text, will do
        a, b = str(v.identity(left)), str(v.identity(right))
        return int(a > b) - int(a < b)
    return comparison


def _sorted_groups(starts: IntArray, columns: IntArray) -> IntArray:
    """Places, sorted inside each group by the first column, then by the second, and so on; the sort is stable."""
    if not runs_compiled():
        group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return np.lexsort((*columns[::-1], group)).astype(np.int64, copy=False)
    return _merge_groups(starts, np.ascontiguousarray(columns))


@jit
def _after(columns: IntArray, left: int, right: int) -> bool:
    for i in range(len(columns)):
        if columns[i, left] != columns[i, right]:
            return bool(columns[i, left] > columns[i, right])
    return False


@jit
def _merge_groups(starts: IntArray, columns: IntArray) -> IntArray:
    size = columns.shape[1]
    places = np.arange(size)
    merge_buffer = np.empty(0, np.int64)
    for group in range(len(starts) - 1):
        start, end = starts[group], starts[group + 1]
        # Insertion sort of short runs, which suffices for most groups; then merges of doubling length.
        for run in range(start, end, _SMALL_GROUP):
            for i in range(run + 1, min(run + _SMALL_GROUP, end)):
                inserted = places[i]
                j = i
                while j > run and _after(columns, places[j - 1], inserted):
                    places[j] = places[j - 1]
                    j -= 1
                places[j] = inserted
        length = _SMALL_GROUP
        while length < end - start:
            if len(merge_buffer) == 0:
                merge_buffer = np.empty(size, np.int64)
            for left in range(start, end, 2 * length):
                middle = min(left + length, end)
                stop = min(left + 2 * length, end)
                i, j = left, middle
                for k in range(left, stop):
                    if j >= stop or (i < middle and not _after(columns, places[i], places[j])):
                        merge_buffer[k] = places[i]
                        i += 1
                    else:
                        merge_buffer[k] = places[j]
                        j += 1
            places[start:end] = merge_buffer[start:end]
            length *= 2
    return places
