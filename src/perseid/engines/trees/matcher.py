"""Matching of documents with a plan: tokens of the scanner to the kernel, and its output as results.

A document is read in pieces, in memory that does not grow with it: only data of open candidates is retained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.collect import collect
from perseid.engines.trees.kernel import begin_document, end_document, has_capacity_for, match_tokens
from perseid.engines.trees.layout import H_TOKEN_CAPACITY, T_BEGIN, T_END
from perseid.engines.trees.limits import GROWTH_ALLOWANCE_BYTES, MAX_GROWTH, MAX_NAMES
from perseid.engines.trees.onepass import match_documents, read_bytes
from perseid.engines.trees.plan import TreePlan
from perseid.engines.trees.progress import ProgressGuard
from perseid.engines.trees.tokens import Scanner, TokenBatch
from perseid.errors import StalledMatcherError
from perseid.runtime.arrays import ByteArray, Int32Array, IntArray
from perseid.semantics.documents import Name

T = TypeVar("T", bound=np.generic)

STACK, CELLS, TEXT, ROWS = 1 << 12, 1 << 14, 1 << 16, 1 << 12
"""Initial capacity in words, bytes and rows; arrays that are too small are enlarged."""
LARGEST_CELLS = 1 << 22
"""Words and bytes for small documents: one that needs more is read on its own, where limits apply."""
LARGEST_ROWS = 1 << 18
"""Output rows of a small document: one that has more is read on its own, where the limit on output applies."""
MAX_REREAD_BYTES = 1 << 22
"""Bytes of a document to read again, once for each new name: with more of them it is read on its own."""

TOO_MUCH_OUTPUT = (
    f"Results have more than {MAX_GROWTH} times the bytes of the document plus {GROWTH_ALLOWANCE_BYTES >> 20} MB: "
    "nested nodes repeat the content that they share, so return fewer of them"
)
STALLED = "The tree matcher made no progress in this document, which is a bug in Perseid"


@dataclass(frozen=True)
class MatchRecord:
    """Output rows of the kernel, of results in the order in which they were decided."""

    rows: IntArray
    """By field: pattern, level, step (-1: match of a pattern without returns), name, text begin and end, position."""
    text: bytes
    names: Callable[[int], Name]


class TreeMatcher:
    """Matches documents in sequence."""

    def __init__(self, plan: TreePlan) -> None:
        self.plan = plan
        self.constants = np.frombuffer(plan.constants, np.uint8)
        self.scanner = Scanner(plan.names, texts=plan.texts, attributes=plan.attributes, scan=self._scan)
        fas = [step.fa for step in plan.steps if step.fa is not None]
        states = max((len(fa.states) for fa in fas), default=0)
        edges = max((sum(map(len, fa.states)) for fa in fas), default=0)
        counters = sum(1 for step in plan.steps if step.position)
        depths = y.DEPTHS
        sizes = (
            (y.X_ORDINALS, depths),
            (y.X_COUNTS, depths * counters),
            (y.X_COUNTED, depths * counters),
            (y.X_PARKS, depths * int(plan.ints[y.P_LASTS])),
            (y.X_TOPS, len(plan.steps)),
            (y.X_DECIDED, len(plan.patterns)),
            (y.X_ELEMENTS, MAX_NAMES),
            (y.X_ATTRIBUTES, MAX_NAMES),
            (y.X_THREADS, states + max(3 * edges, 4 * states)),
        )
        self.head = np.zeros(y.MATCH_HEAD + sum(size for _, size in sizes), np.int64)
        at = y.MATCH_HEAD
        for word, size in sizes:
            self.head[word] = at
            at += size
        self.head[y.X_STATES], self.head[y.X_EDGES] = states, edges
        self.stack = np.zeros(STACK + 2 * int(plan.ints[y.P_PUSHED]), np.int64)
        self.cells = np.zeros(CELLS + 4 * int(plan.ints[y.P_RUN_CELLS]), np.int64)
        self.text, self.values = np.zeros(TEXT, np.uint8), np.zeros(TEXT, np.uint8)
        self.rows, self.text_out = np.zeros(ROWS * y.ROW_WIDTH, np.int64), np.zeros(TEXT, np.uint8)
        self.scratch = np.zeros(0, np.int64)
        self.numbered = -1
        self.emitted_bytes = 0
        self.emitted_rows = self.resolved = 0
        """Output rows taken, and names resolved, in all documents so far."""
        self.interrupted: tuple[int, ...] = ()
        """The position in the document where the output arrays were last full."""
        self._update_capacities()

    def _update_capacities(self) -> None:
        """Update the ends in the head, and the scratch, after an array was enlarged."""
        head = self.head
        candidates = len(self.stack) // y.CANDIDATE_WIDTH + 1
        queued = self.scratch[head[y.X_QUEUED] :][: head[y.X_QUEUE]].copy()
        # Layout of the scratch: candidates with newly met requirements, the output queue, gathered results.
        head[y.X_QUEUED], head[y.X_GATHERED] = candidates, 5 * candidates + 64
        self.scratch = np.zeros(int(head[y.X_GATHERED]) + len(self.cells) + 64, np.int64)
        self.scratch[head[y.X_QUEUED] :][: len(queued)] = queued
        head[y.X_STACK_END], head[y.X_CELLS_END] = len(self.stack), len(self.cells)
        head[y.X_TEXT_END], head[y.X_VALUES_END] = len(self.text), len(self.values)
        head[y.X_ROWS_END], head[y.X_OUT_END] = len(self.rows), len(self.text_out)
        head[y.X_SCRATCH_END] = len(self.scratch)
        self.space = y.Space(
            self.plan.ints, self.constants, head, self.stack, self.cells, self.scratch, self.text, self.values,
            self.rows, self.text_out,
        )  # fmt: skip

    def _grow(self, needed: int) -> None:
        """Free capacity for a token of ``needed`` bytes by garbage collection, or enlarge an array."""
        head, plan = self.head, self.plan.ints
        if head[y.X_TOP] + plan[y.P_PUSHED] <= len(self.stack):
            collect(self.space)
            parts = ((y.X_CELLS, self.cells, 0), (y.X_TEXT, self.text, needed), (y.X_VALUES, self.values, needed))
            if has_capacity_for(self.space, needed) and all(
                2 * head[top] + more <= len(part) for top, part, more in parts
            ):
                return  # at most half of each array is in use
        self._enlarge(needed)

    def _enlarge(self, needed: int) -> None:
        """Enlarge the array that is too small for ``needed`` bytes of text."""
        head, plan = self.head, self.plan.ints
        if head[y.X_TOP] + plan[y.P_PUSHED] > len(self.stack):
            self.stack = _larger(self.stack)
        elif 2 * head[y.X_TEXT] + needed > len(self.text):
            self.text = _larger(self.text, needed)
        elif 2 * head[y.X_VALUES] + needed > len(self.values):
            self.values = _larger(self.values, needed)
        else:
            self.cells = _larger(self.cells)
        self._update_capacities()

    def read(
        self, chunks: Callable[[], Iterable[bytes]], *, trusted: bool = False, is_text: bool = False
    ) -> Iterator[MatchRecord | None]:
        """Yield the results of a document as they are decided; None when it begins, and when it restarts.

        A restart repeats all results. Raises a :class:`DocumentError` if the document is malformed or exceeds a limit.
        """
        for batch in self.scanner.read(chunks, trusted=trusted, is_text=is_text):
            if batch is None:
                self._begin_document()
                yield None
            else:
                yield from self._matched(batch)
        yield from self._end_document()

    def read_all(
        self, data: ByteArray, offsets: IntArray, *, trusted: bool = False
    ) -> Iterator[tuple[int, MatchRecord | None, IntArray]]:
        """Match many small documents that are contiguous in memory, most of them without any Python code.

        Yields, repeatedly: the number of completed documents, their output rows since the last time, and by document
        the row count at its end. None instead of rows: the next document is too complex, and has to be read on its own.
        """
        head, scanner = self.head, self.scanner
        count = len(offsets) - 1
        rows_at_end = np.zeros(count, np.int64)
        head[y.X_ROWS] = head[y.X_OUT_BYTES] = 0
        head[y.X_DOCUMENT], head[y.X_DOCUMENTS] = 0, count
        self._release_output()
        done = reread_bytes = 0
        guard = ProgressGuard()
        while True:
            if scanner.is_full:
                scanner.renumber()
            self._renumber()
            scanner.space[H_TOKEN_CAPACITY] = scanner.tokens.shape[1]
            status = match_documents(
                self.space, scanner.space, scanner.name_bytes, data, scanner.tokens, offsets, rows_at_end, not trusted
            )
            if head[y.X_DOCUMENT] != done:
                reread_bytes = 0
            done = int(head[y.X_DOCUMENT])
            if status == y.NAMES:
                reread_bytes += int(offsets[done + 1] - offsets[done])
            stalled = guard.is_stalled(*self._position(status))
            if status == y.NAMES and reread_bytes <= MAX_REREAD_BYTES and not stalled:
                self._look_up(int(head[y.X_UNKNOWN]))
            elif (
                status == y.NO_CAPACITY
                and max(len(self.cells), len(self.text), len(self.values)) < LARGEST_CELLS
                and not stalled
            ):
                # The document is read again from its start: garbage collection would gain nothing.
                self._enlarge(int(offsets[done + 1] - offsets[done]))
            elif status == y.ROWS and not head[y.X_ROWS] and self._has_small_output() and not stalled:
                self._enlarge_output()
            else:
                has_capacity_again = status == y.ROWS and head[y.X_ROWS] > 0
                yield done, self.take_output(), rows_at_end
                if status == y.READ:
                    return
                if not has_capacity_again:
                    yield done, None, rows_at_end
                    head[y.X_DOCUMENT] = done + 1
                    rows_at_end[done] = 0
                    head[y.X_ROWS] = head[y.X_OUT_BYTES] = 0
                    self._release_output()

    def _begin_document(self) -> None:
        self.head[y.X_ROWS] = self.head[y.X_OUT_BYTES] = self.emitted_bytes = 0
        self.interrupted = ()
        begin_document(self.space)

    def _renumber(self) -> None:
        """Invalidate the lists of steps by name after names were renumbered."""
        if self.numbered != self.scanner.renumberings:
            self.numbered = self.scanner.renumberings
            for word in (y.X_ELEMENTS, y.X_ATTRIBUTES):
                self.head[self.head[word] : self.head[word] + MAX_NAMES] = -1

    def _scan(self, space: IntArray, names: ByteArray, data: ByteArray, tokens: Int32Array, end: int) -> int:
        self._renumber()
        return int(read_bytes(self.space, space, names, data, tokens, end))

    def _matched(self, batch: TokenBatch) -> Iterator[MatchRecord]:
        head, tokens = self.head, batch.table
        guard = ProgressGuard()
        while True:
            status = match_tokens(self.space, batch.data, tokens, batch.count, len(batch.data))
            if status == y.READ:
                break
            self._require_progress(guard, status)
            if status == y.NAMES:
                self._look_up(int(head[y.X_UNKNOWN]))
            elif status == y.NO_CAPACITY:
                at = int(head[y.X_AT])
                self._grow(int(tokens[T_END, at] - tokens[T_BEGIN, at]))
            elif status == y.ROWS:
                yield from self._emit()
            else:
                raise self.scanner.refuse("Reference to an unknown entity", int(tokens[T_BEGIN, int(head[y.X_AT])]))
        if head[y.X_ROWS]:
            yield from self._emit()

    def _end_document(self) -> Iterator[MatchRecord]:
        guard = ProgressGuard()
        while (status := end_document(self.space)) != y.READ:
            self._require_progress(guard, status)
            if status == y.NO_CAPACITY:
                self._grow(0)
            else:
                yield from self._emit()
        if self.head[y.X_ROWS]:
            yield from self._emit()

    def _look_up(self, name: int) -> None:
        attribute = name < 0
        number = -1 - name if attribute else name
        table = self.head[y.X_ATTRIBUTES if attribute else y.X_ELEMENTS]
        steps = self.plan.steps_of(self.scanner.name(number), attribute=attribute)
        self.resolved += int(self.head[table + number] != steps)
        self.head[table + number] = steps

    def _position(self, status: int) -> tuple[int, ...]:
        """Everything that changes when a loop makes progress: input, output, names and capacity."""
        head = self.head
        fields_of_position = (y.X_DOCUMENT, y.X_AT, y.X_DEPTH, y.X_QUEUE, y.X_QUEUE_DONE)
        arrays: tuple[Sized, ...] = self.space
        return (
            status,
            *(int(head[word]) for word in fields_of_position),
            self.emitted_rows,
            self.resolved,
            *map(len, arrays),
        )

    def _require_progress(self, guard: ProgressGuard, status: int) -> None:
        if guard.is_stalled(*self._position(status)):
            raise self.scanner.refuse(STALLED, 0, StalledMatcherError)

    def _emit(self) -> Iterator[MatchRecord]:
        head = self.head
        if not head[y.X_ROWS]:  # one result is larger than the output arrays
            self._limit_output(int(head[y.X_FULL_ROWS]) * y.ROW_WIDTH * self.rows.itemsize + int(head[y.X_FULL_BYTES]))
            if max(self.rows.nbytes, self.text_out.nbytes) > 2 * self._max_output():
                raise self.scanner.refuse(STALLED, 0, StalledMatcherError)  # the limit ends every result before that
            self._enlarge_output()
            return
        record = self.take_output()
        self.emitted_bytes += len(record.text) + record.rows.nbytes
        self._limit_output(0)
        if head[y.X_QUEUE]:
            # Each call gathers the remaining results of a list again. Larger arrays reduce the number of calls.
            position = tuple(int(head[word]) for word in (y.X_ORDINAL, y.X_DEPTH, y.X_QUEUE, y.X_QUEUE_DONE))
            if position == self.interrupted and max(self.rows.nbytes, self.text_out.nbytes) < GROWTH_ALLOWANCE_BYTES:
                self._enlarge_output()
            self.interrupted = position
        yield record

    def _max_output(self) -> int:
        """Return the limit of output bytes for the part of the document that was read."""
        return MAX_GROWTH * (self.scanner.bytes_before + self.scanner.batch_bytes) + GROWTH_ALLOWANCE_BYTES

    def _limit_output(self, more: int) -> None:
        """Reject the document if the bytes of its results, plus ``more``, exceed the limit."""
        if self.emitted_bytes + more > self._max_output():
            raise self.scanner.refuse(TOO_MUCH_OUTPUT, 0)

    def take_output(self) -> MatchRecord:
        """Take the output rows, so that the output arrays are empty."""
        head = self.head
        count, size = int(head[y.X_ROWS]), int(head[y.X_OUT_BYTES])
        self.emitted_rows += count
        head[y.X_ROWS] = head[y.X_OUT_BYTES] = 0
        rows = self.rows[: count * y.ROW_WIDTH].reshape(count, y.ROW_WIDTH).copy()
        return MatchRecord(rows, self.text_out[:size].tobytes(), self.scanner.name)

    def _enlarge_output(self) -> None:
        """Enlarge the output array that was full. All output was taken or is written again, so none is copied."""
        if (self.head[y.X_FULL_ROWS] + 1) * y.ROW_WIDTH > len(self.rows):
            self.rows = np.zeros(2 * len(self.rows), np.int64)
        else:
            self.text_out = np.zeros(2 * len(self.text_out), np.uint8)
        self._update_capacities()

    def _has_small_output(self) -> bool:
        return len(self.rows) < LARGEST_ROWS * y.ROW_WIDTH and len(self.text_out) < LARGEST_CELLS

    def _release_output(self) -> None:
        """Shrink output arrays that a large document left, so that the limit does not depend on the documents before."""
        if len(self.rows) > LARGEST_ROWS * y.ROW_WIDTH or len(self.text_out) > LARGEST_CELLS:
            self.rows, self.text_out = np.zeros(ROWS * y.ROW_WIDTH, np.int64), np.zeros(TEXT, np.uint8)
            self._update_capacities()


def _larger(array: NDArray[T], needed: int = 0) -> NDArray[T]:
    larger = np.zeros(2 * len(array) + needed, array.dtype)
    larger[: len(array)] = array
    return larger
