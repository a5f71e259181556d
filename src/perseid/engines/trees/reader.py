"""Columns of documents through a matcher: results as columns, and errors of documents that cannot be read.

This runs before the shuffle: bodies come in, and only returned nodes go out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyarrow import fs

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.fields import NODE
from perseid.engines.trees.limits import MAX_NAMES
from perseid.engines.trees.matcher import MatchRecord, TreeMatcher
from perseid.engines.trees.plan import TreePlan
from perseid.errors import DocumentError, PerseidError
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import BadRecord
from perseid.semantics.documents import Name

CHUNK = 1 << 18
"""Bytes to read of a file at once: as many as stay in the processor's cache."""
ROWS = 1 << 15
"""Output rows of one file to buffer before they are yielded."""


@dataclass(frozen=True)
class Findings:
    """Results of some documents: output rows of the kernel, those of one result next to each other."""

    document: IntArray
    """By row: the number of its document."""
    rows: IntArray
    names: Sequence[Name]
    """Names by their number in the rows."""
    texts: pa.LargeStringArray
    """By row, as an Arrow array."""
    refused: tuple[BadRecord, ...] = ()
    done: Sequence[int] = ()
    """Documents that were read to their end, or rejected."""

    def refused_from(self, first: int) -> tuple[BadRecord, ...]:
        """Return the rejected documents, with numbers from ``first`` on."""
        return tuple(one.shifted(first) for one in self.refused)

    @cached_property
    def firsts(self) -> IntArray:
        """The first row of each result."""
        return np.flatnonzero(self.rows[:, y.O_LEVEL] == 0)

    @cached_property
    def result(self) -> IntArray:
        """By row: the number of its result."""
        return np.cumsum(self.rows[:, y.O_LEVEL] == 0) - 1

    def first_texts(self, steps: Sequence[int]) -> pa.StringArray:
        """By result: the text of the first node that any of ``steps`` returned in it, or null."""
        at = np.flatnonzero(np.isin(self.rows[:, y.O_STEP], steps))
        results, first_indices = np.unique(self.result[at], return_index=True)
        row_of_result = np.full(len(self.firsts), -1)
        row_of_result[results] = at[first_indices]
        return self.texts.take(pa.array(row_of_result, mask=row_of_result < 0)).cast(pa.string())

    def all_texts(self, steps: Sequence[int]) -> pa.ListArray:
        """By result: the texts of all nodes that ``steps`` returned in it."""
        at = np.flatnonzero(np.isin(self.rows[:, y.O_STEP], steps))
        return self._lists(self.result[at], self.texts.take(pa.array(at)).cast(pa.string()))

    def nodes(self, variables: Sequence[str | None]) -> pa.ListArray:
        """By result: all its nodes and runs, each followed by those inside it, one level deeper."""
        rows = self.rows
        uris, locals_ = (pa.array([name[k] for name in self.names], pa.string()) for k in (0, 1))
        numbers = rows[:, y.O_NAME]
        named = pa.array(numbers, mask=numbers < 0)
        steps = rows[:, y.O_STEP]
        structs = pa.StructArray.from_arrays(
            [
                pa.array(variables, pa.string()).take(pa.array(steps, mask=steps < 0)),
                pa.array(rows[:, y.O_LEVEL], pa.int32()),
                uris.take(named),
                locals_.take(named),
                self.texts.cast(pa.string()),
            ],
            fields=list(NODE),
        )
        shown = np.flatnonzero(steps >= 0)
        return self._lists(self.result[shown], structs.take(pa.array(shown)))

    def _lists(self, results: IntArray, values: pa.Array) -> pa.ListArray:
        counts = np.bincount(results, minlength=len(self.firsts)) if len(self.firsts) else np.zeros(0, np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


class DocumentReader:
    """Reads documents for a set of tree patterns, in sequence."""

    def __init__(self, plan: TreePlan, trusted: bool = False) -> None:
        self.plan, self.trusted = plan, trusted
        self.matcher = TreeMatcher(plan)
        self.names: list[Name] = []
        self._numbers: dict[Name, int] = {}
        self._codes = np.full(MAX_NAMES + 1, -1)
        self._renumbered = -1

    def read(self, bodies: pa.Array | pa.ChunkedArray | Sequence[bytes | str | None]) -> Findings:
        """Match a column of documents, text or binary; a document that cannot be read has an error and no results."""
        column = bodies.combine_chunks() if isinstance(bodies, pa.ChunkedArray) else bodies
        if not isinstance(column, pa.Array):
            column = pa.array(column)
        is_text = not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type))
        column = column.cast(pa.large_binary())
        if column.null_count == 0 and column.offset == 0:
            data, offsets = column.buffers()[2], column.buffers()[1]
        else:
            # A null becomes an empty document, which is not simple and is read on its own.
            filled = pa.concat_arrays([column.fill_null(b"")])
            data, offsets = filled.buffers()[2], filled.buffers()[1]
        document_bytes = np.frombuffer(data or b"", np.uint8)
        bounds = np.frombuffer(offsets, np.int64)[: len(column) + 1] if len(column) else np.zeros(1, np.int64)
        gathered, refused, since = _Gathered(), [], 0
        for done, record, ends in self.matcher.read_all(document_bytes, bounds, trusted=self.trusted):
            if record is not None:
                if len(record.rows):
                    self._name(record)
                    gathered.add_all(since, np.diff(ends[since:done], prepend=0), record)
                since = done
            else:
                body = column[done]
                refused += self._read_odd(done, body.as_py() if body.is_valid else None, is_text, gathered)
                since = done + 1
        return gathered.findings(self.names, refused, range(len(column)))

    def _read_odd(self, number: int, body: bytes | None, is_text: bool, gathered: _Gathered) -> list[BadRecord]:
        """Match a document that is too complex for the batch path."""
        if body is None:
            return [BadRecord(number, "The document is null")]
        records: list[MatchRecord] = []
        try:
            for record in self._match_records(lambda: (body,), is_text):
                if record is None:
                    records.clear()
                else:
                    records.append(record)
        except DocumentError as error:
            return [BadRecord(number, error.message, error.line, error.column)]
        for record in records:
            gathered.add(number, record)
        return []

    def read_file(self, number: int, path: str | None) -> Iterator[Findings]:
        """Match a document in a file, which may be larger than memory; yield results as they are decided.

        If it turns out to be malformed, results before the error are not retracted, and the error follows.
        """
        gathered, yielded, to_skip = _Gathered(), 0, 0
        if path is None:
            yield gathered.findings(self.names, [BadRecord(number, "The path is null")], [number])
            return
        try:
            for record in self._match_records(lambda: file_chunks(path), False):
                if record is None:
                    # The matcher repeats all results: skip those that were yielded.
                    to_skip, gathered = yielded, _Gathered()
                    continue
                new, to_skip = _skip_results(record, to_skip)
                if new is not None:
                    gathered.add(number, new)
                if gathered.rows > ROWS:
                    yielded += gathered.results
                    yield gathered.findings(self.names, ())
                    gathered = _Gathered()
            yield gathered.findings(self.names, (), [number])
        except DocumentError as error:
            yield gathered.findings(self.names, [BadRecord(number, error.message, error.line, error.column)], [number])
        except (OSError, PerseidError, ValueError) as error:
            yield gathered.findings(self.names, [BadRecord(number, f"The file cannot be read: {error}")], [number])

    def _match_records(self, chunks: Callable[[], Iterable[bytes]], is_text: bool) -> Iterator[MatchRecord | None]:
        for record in self.matcher.read(chunks, trusted=self.trusted, is_text=is_text):
            if record is not None:
                self._name(record)
            yield record

    def _name(self, record: MatchRecord) -> None:
        """Replace the scanner's name numbers by numbers that are the same for all documents."""
        if self._renumbered != self.matcher.scanner.renumberings:
            self._renumbered = self.matcher.scanner.renumberings
            self._codes[:] = -1
        numbers = record.rows[:, y.O_NAME]
        codes = self._codes[numbers]
        for number in np.unique(numbers[(codes < 0) & (numbers >= 0)]).tolist():
            name = record.names(number)
            self._codes[number] = self._numbers.setdefault(name, len(self.names))
            if self._numbers[name] == len(self.names):
                self.names.append(name)
        record.rows[:, y.O_NAME] = np.where(numbers < 0, -1, self._codes[numbers])


def file_chunks(path: str) -> Iterator[bytes]:
    """Yield the chunks of a file from any place that pyarrow can read: a local path, or a URI."""
    system, local_path = fs.FileSystem.from_uri(path) if "://" in path or path.startswith("file:") else (None, path)
    system = system or fs.LocalFileSystem()
    with system.open_input_stream(local_path, compression=None) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


class _Gathered:
    """Buffer of output rows."""

    def __init__(self) -> None:
        self.records: list[MatchRecord] = []
        self.documents: list[IntArray] = []
        self.rows = 0

    def add(self, document: int, record: MatchRecord) -> None:
        self.add_all(document, [len(record.rows)], record)

    def add_all(self, first: int, counts: IntArray | Sequence[int], record: MatchRecord) -> None:
        """Add the output rows of consecutive documents from ``first``; ``counts`` has the rows of each."""
        self.records.append(record)
        self.documents.append(np.repeat(np.arange(first, first + len(counts)), counts))
        self.rows += len(record.rows)

    @property
    def results(self) -> int:
        return sum(int(np.count_nonzero(record.rows[:, y.O_LEVEL] == 0)) for record in self.records)

    def findings(self, names: Sequence[Name], refused: Iterable[BadRecord], done: Sequence[int] = ()) -> Findings:
        empty = np.zeros((0, y.ROW_WIDTH), np.int64)
        rows = np.concatenate([empty, *(record.rows for record in self.records)])
        lengths = rows[:, y.O_TO] - rows[:, y.O_FROM]
        # The texts are concatenated in the order of the rows.
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        body = b"".join(record.text for record in self.records)
        texts = pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(body))
        return Findings(
            np.concatenate([np.zeros(0, np.int64), *self.documents]), rows, names, texts, tuple(refused), done
        )


def _skip_results(record: MatchRecord, results: int) -> tuple[MatchRecord | None, int]:
    """Drop the first results; also return how many are still to be dropped."""
    if not results:
        return record, 0
    firsts = np.flatnonzero(record.rows[:, y.O_LEVEL] == 0)
    if len(firsts) <= results:
        return None, results - len(firsts)
    at = int(firsts[results])
    begin = int(record.rows[at, y.O_FROM])
    rows = record.rows[at:].copy()
    rows[:, [y.O_FROM, y.O_TO]] -= begin
    return MatchRecord(rows, record.text[begin:], record.names), 0
