"""Columns of documents through a matcher: what is found in them, as columns, and what cannot be read.

This is what runs before the shuffle: bodies come in, and only what patterns return goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.limits import MOST_NAMES
from perseid.engines.trees.matcher import Matcher, Told
from perseid.engines.trees.plan import tree_plan
from perseid.errors import DocumentError, PerseidError
from perseid.lang.tree_parser import parse_tree
from perseid.semantics.documents import Name

CHUNK = 1 << 18
"""Bytes of a file that are read at once: as many as stay near the processor."""
ROWS = 1 << 15
"""Rows told of one file after which they go on."""


NODE = (
    pa.field("variable", pa.string()),
    pa.field("level", pa.int32()),
    pa.field("uri", pa.string()),
    pa.field("name", pa.string()),
    pa.field("text", pa.string()),
)
"""A node of a result: its return name (null for a run), how deep in the result, its name, and its text."""


@dataclass(frozen=True)
class Refused:
    """A document that could not be read, or not to its end."""

    document: int
    what: str
    line: int | None = None
    column: int | None = None

    @property
    def said(self) -> str:
        """In one sentence."""
        return f"{self.what}." if self.line is None else f"{self.what} (line {self.line}, column {self.column})."


@dataclass(frozen=True)
class Findings:
    """What was found in some documents: rows as the kernel tells them, those of one result after the other."""

    document: Any
    """By row: the number of its document."""
    rows: Any
    names: Sequence[Name]
    """What the names in the rows stand for."""
    texts: Any
    """By row, as an Arrow array."""
    refused: tuple[Refused, ...] = ()

    @cached_property
    def firsts(self) -> Any:
        """Rows with which results begin."""
        return np.flatnonzero(self.rows[:, y.O_LEVEL] == 0)

    @cached_property
    def result(self) -> Any:
        """By row: the number of its result."""
        return np.cumsum(self.rows[:, y.O_LEVEL] == 0) - 1

    def first_texts(self, steps: Sequence[int]) -> Any:
        """By result: the text of the first node that one of some steps returned in it, or null."""
        at = np.flatnonzero(np.isin(self.rows[:, y.O_STEP], steps))
        results, first = np.unique(self.result[at], return_index=True)
        found = np.full(len(self.firsts), -1)
        found[results] = at[first]
        return self.texts.take(pa.array(found, mask=found < 0)).cast(pa.string())

    def all_texts(self, steps: Sequence[int]) -> Any:
        """By result: the texts of all nodes that some steps returned in it."""
        at = np.flatnonzero(np.isin(self.rows[:, y.O_STEP], steps))
        return self._lists(self.result[at], self.texts.take(pa.array(at)).cast(pa.string()))

    def nodes(self, variables: Sequence[str | None]) -> Any:
        """By result: all its nodes and runs, those in others after them and one level deeper."""
        rows = self.rows
        uris, locals_ = (pa.array([name[k] for name in self.names], pa.string()) for k in (0, 1))
        numbers = rows[:, y.O_NAME]
        named = pa.array(numbers, mask=numbers < 0)
        steps = rows[:, y.O_STEP]
        told = pa.StructArray.from_arrays(
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
        return self._lists(self.result[shown], told.take(pa.array(shown)))

    def _lists(self, results: Any, values: Any) -> Any:
        counts = np.bincount(results, minlength=len(self.firsts)) if len(self.firsts) else np.zeros(0, np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


class Reader:
    """Reads documents for a set of tree patterns, one after the other."""

    def __init__(self, texts: Iterable[str], namespaces: Iterable[tuple[str, str]] = (), trusted: bool = False) -> None:
        self.plan = tree_plan([parse_tree(text).pattern for text in texts], dict(namespaces))
        self.trusted = trusted
        self.matcher = Matcher(self.plan)
        self.names: list[Name] = []
        self._numbers: dict[Name, int] = {}
        self._codes = np.full(MOST_NAMES + 1, -1)
        self._made = -1

    def read(self, bodies: Iterable[bytes | str | None]) -> Findings:
        """Documents that are there whole: nothing is told of one that cannot be read."""
        gathered, refused = _Gathered(), []
        for number, body in enumerate(bodies):
            if body is None:
                refused.append(Refused(number, "There is no document"))
                continue
            is_text = isinstance(body, str)
            data = body.encode() if isinstance(body, str) else body
            before = len(gathered.told)
            try:
                for told in self._told(lambda data=data: (data,), is_text):  # type: ignore[misc]
                    if told is None:
                        del gathered.told[before:], gathered.documents[before:]
                    else:
                        gathered.add(number, told)
            except DocumentError as error:
                del gathered.told[before:], gathered.documents[before:]
                refused.append(Refused(number, error.message, error.line, error.column))
        return gathered.findings(self.names, refused)

    def read_file(self, number: int, path: str | None) -> Iterator[Findings]:
        """A document that lies in a file and may be larger than memory: what is found is told as it is found.

        If it turns out to be no document, what was told stands, and the refusal follows.
        """
        gathered, said, again = _Gathered(), 0, 0
        if path is None:
            yield gathered.findings(self.names, [Refused(number, "There is no path")])
            return
        try:
            for told in self._told(lambda: file_chunks(path), False):
                if told is None:
                    # What was told before is told again.
                    again, gathered = said, _Gathered()
                    continue
                new, again = _without(told, again)
                if new is not None:
                    gathered.add(number, new)
                if gathered.rows > ROWS:
                    said += gathered.results
                    yield gathered.findings(self.names, ())
                    gathered = _Gathered()
            yield gathered.findings(self.names, ())
        except DocumentError as error:
            yield gathered.findings(self.names, [Refused(number, error.message, error.line, error.column)])
        except (OSError, PerseidError, ValueError) as error:
            yield gathered.findings(self.names, [Refused(number, f"The file cannot be read: {error}")])

    def _told(self, chunks: Callable[[], Iterable[bytes]], is_text: bool) -> Iterator[Told | None]:
        for told in self.matcher.read(chunks, trusted=self.trusted, is_text=is_text):
            if told is not None:
                self._name(told)
            yield told

    def _name(self, told: Told) -> None:
        """Numbers of names that stay the same from document to document."""
        if self._made != self.matcher.scanner.made:
            self._made = self.matcher.scanner.made
            self._codes[:] = -1
        numbers = told.rows[:, y.O_NAME]
        codes = self._codes[numbers]
        for number in np.unique(numbers[(codes < 0) & (numbers >= 0)]).tolist():
            name = told.names(number)
            self._codes[number] = self._numbers.setdefault(name, len(self.names))
            if self._numbers[name] == len(self.names):
                self.names.append(name)
        told.rows[:, y.O_NAME] = np.where(numbers < 0, -1, self._codes[numbers])


def file_chunks(path: str) -> Iterator[bytes]:
    """A file in pieces, wherever pyarrow can reach it: a path of this machine, or a URI."""
    system, here = fs.FileSystem.from_uri(path) if "://" in path or path.startswith("file:") else (None, path)
    system = system or fs.LocalFileSystem()
    with system.open_input_stream(here, compression=None) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


class _Gathered:
    """What was told, until there is enough of it."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.documents: list[int] = []
        self.rows = 0

    def add(self, document: int, told: Told) -> None:
        self.told.append(told)
        self.documents.append(document)
        self.rows += len(told.rows)

    @property
    def results(self) -> int:
        return sum(int(np.count_nonzero(told.rows[:, y.O_LEVEL] == 0)) for told in self.told)

    def findings(self, names: Sequence[Name], refused: Iterable[Refused]) -> Findings:
        sizes = [len(told.rows) for told in self.told]
        empty = np.zeros((0, y.ROW_WIDTH), np.int64)
        rows = np.concatenate([empty, *(told.rows for told in self.told)])
        lengths = rows[:, y.O_TO] - rows[:, y.O_FROM]
        # Rows are told with their texts one after the other.
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        body = b"".join(told.text for told in self.told)
        texts = pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(body))
        return Findings(np.repeat(self.documents, sizes).astype(np.int64), rows, names, texts, tuple(refused))


def _without(told: Told, results: int) -> tuple[Told | None, int]:
    """What was told without its first results, and how many of these are still to come."""
    if not results:
        return told, 0
    firsts = np.flatnonzero(told.rows[:, y.O_LEVEL] == 0)
    if len(firsts) <= results:
        return None, results - len(firsts)
    at = int(firsts[results])
    begin = int(told.rows[at, y.O_FROM])
    rows = told.rows[at:].copy()
    rows[:, [y.O_FROM, y.O_TO]] -= begin
    return Told(rows, told.text[begin:], told.names), 0
