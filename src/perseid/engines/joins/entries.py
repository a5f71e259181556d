"""Registered subscriptions: owner and template row of each entry, in a few bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.joins.graph import TemplateRow
from perseid.engines.joins.values import extended
from perseid.runtime.arrays import BoolArray, Int32Array, IntArray

EntryNumbers: TypeAlias = IntArray | Int32Array
"""Numbers of entries: stored in 32 bits, computed in 64."""


class _Owners(Protocol):
    """A column of owner names of one type, by entry."""

    def accepts(self, names: Sequence[object]) -> bool: ...
    def extend(self, names: Sequence[object]) -> None: ...
    def at(self, entries: EntryNumbers) -> list[object]: ...
    def are(self, names: Collection[object]) -> BoolArray:
        """By entry: True if its name is one of ``names``."""
        ...


class _Numbers:
    """A column of int64 names."""

    def __init__(self) -> None:
        self.count, self.names = 0, np.zeros(0, np.int64)

    def accepts(self, names: Sequence[object]) -> bool:
        return all(type(one) is int and -(1 << 63) <= one < 1 << 63 for one in names)

    def extend(self, names: Sequence[object]) -> None:
        self.names = extended(self.names, self.count, np.array(names, np.int64))
        self.count += len(names)

    def at(self, entries: EntryNumbers) -> list[object]:
        entry_names: list[object] = self.names[entries].tolist()
        return entry_names

    def are(self, names: Collection[object]) -> BoolArray:
        return np.isin(self.names[: self.count], np.fromiter(names, np.int64, len(names)))


class _Texts:
    """A column of string names, as concatenated UTF-8 bytes."""

    def __init__(self) -> None:
        self.count = 0
        self.data: Any = np.zeros(0, np.uint8)  # also a buffer, which NumPy's stubs declare from Python 3.12 on
        self.ends: IntArray = np.zeros(1, np.int64)

    def accepts(self, names: Sequence[object]) -> bool:
        return all(type(one) is str for one in names)

    def extend(self, names: Sequence[object]) -> None:
        encoded = [_encoded(one) for one in cast("Sequence[str]", names)]
        used = int(self.ends[self.count])
        self.data = extended(self.data, used, np.frombuffer(b"".join(encoded), np.uint8))
        ends = used + np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        self.ends = extended(self.ends, self.count + 1, ends)
        self.count += len(names)

    def at(self, entries: EntryNumbers) -> list[object]:
        data, ends = memoryview(self.data), self.ends
        return [
            str(data[begin:end], "utf-8", "surrogatepass")
            for begin, end in zip(ends[entries].tolist(), ends[entries + 1].tolist(), strict=True)
        ]

    def are(self, names: Collection[object]) -> BoolArray:
        encoded_names = pa.array(list(map(_encoded, cast("Collection[str]", names))), pa.large_binary())
        is_member: BoolArray = pc.is_in(self.column(), value_set=encoded_names).to_numpy(zero_copy_only=False)
        return is_member

    def column(self) -> pa.LargeBinaryArray:
        """Return all names as an Arrow binary array, without a copy."""
        parts = [None, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), self.count, parts)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class _Anything:
    """A list of names of any type."""

    def __init__(self, names: list[object]) -> None:
        self.names = names

    def accepts(self, names: Sequence[object]) -> bool:
        return True

    def extend(self, names: Sequence[object]) -> None:
        self.names += names

    def at(self, entries: EntryNumbers) -> list[object]:
        return [self.names[place] for place in entries.tolist()]

    def are(self, names: Collection[object]) -> BoolArray:
        return np.fromiter((one in names for one in self.names), np.bool_, len(self.names))


class SubscriptionStore:
    """By entry: its owner and its template row. Identical row objects are stored once."""

    def __init__(self) -> None:
        self._rows: list[TemplateRow] = []
        self._numbers: dict[int, int] = {}
        """By ``id()`` of a row: its number."""
        self._row_numbers = np.zeros(0, np.int32)
        self._owners: _Owners | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[object, TemplateRow]]:
        for begin in range(0, self._count, 1 << 12):
            yield from self.at(np.arange(begin, min(begin + (1 << 12), self._count)))

    def __getitem__(self, entry: int) -> tuple[object, TemplateRow]:
        if not 0 <= entry < self._count:
            raise IndexError(entry)
        return self.at(np.array([entry]))[0]

    def at(self, entries: EntryNumbers) -> list[tuple[object, TemplateRow]]:
        """Return the owner and the row of some entries, given by their numbers."""
        if self._owners is None:
            return []
        rows = self._rows
        template_rows = [rows[number] for number in self._row_numbers[entries].tolist()]
        return list(zip(self._owners.at(entries), template_rows, strict=True))

    def row(self, entry: int) -> TemplateRow:
        """Return the template row of an entry."""
        return self._rows[int(self._row_numbers[entry])]

    def rows(self, entries: EntryNumbers) -> list[TemplateRow]:
        """Return the template rows of entries."""
        return [self._rows[number] for number in self._row_numbers[entries].tolist()]

    def swapped(self, entries: EntryNumbers) -> BoolArray:
        """By entry: True if the older document matches the right block."""
        return np.array([row.swapped for row in self._rows], np.bool_)[self._row_numbers[entries]]

    def names(self, entries: EntryNumbers) -> pa.StringArray:
        """Return the owners of entries as a string column."""
        if isinstance(self._owners, _Texts):
            return self._owners.column().take(pa.array(entries)).cast(pa.string())
        return pa.array([] if self._owners is None else list(map(str, self._owners.at(entries))), pa.string())

    def extend(self, owners: Sequence[object], rows: Sequence[TemplateRow]) -> None:
        """Append entries."""
        if not owners:
            return
        if self._owners is None:
            kinds: tuple[_Owners, ...] = (_Numbers(), _Texts(), _Anything([]))
            self._owners = next(one for one in kinds if one.accepts(owners))
        elif not self._owners.accepts(owners):
            self._owners = _Anything(self._owners.at(np.arange(self._count)))
        self._owners.extend(owners)
        self._row_numbers = extended(
            self._row_numbers, self._count, np.fromiter(map(self._number, rows), np.int32, len(rows))
        )
        self._count += len(owners)

    def _number(self, row: TemplateRow) -> int:
        number = self._numbers.setdefault(id(row), len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)  # the list holds a reference, so its id() stays unique
        return number

    def are(self, owners: Collection[object]) -> BoolArray:
        """By entry: True if its owner is one of these."""
        if self._owners is None or not owners:
            return np.zeros(self._count, np.bool_)
        if self._owners.accepts(list(owners)):
            return self._owners.are(owners)
        return _Anything(self._owners.at(np.arange(self._count))).are(owners)
