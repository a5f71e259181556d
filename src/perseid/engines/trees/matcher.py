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
from perseid.engines.trees.kernel import begin_document, end_document, has_room_for, match_tokens
from perseid.engines.trees.layout import H_ROOM, T_BEGIN, T_END
from perseid.engines.trees.limits import MOST_BYTES, MOST_NAMES, MOST_TIMES
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
READ_AGAIN = 1 << 22
"""Bytes of a document to read again, once for each new name: with more of them it is read on its own."""

TOO_MUCH_OUTPUT = (
    f"Results have more than {MOST_TIMES} times the bytes of the document plus {MOST_BYTES >> 20} MB: "
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
        counters = sum(1 for step in plan.steps if step.place)
        depths = y.DEPTHS
        sizes = (
            (y.X_ORDINALS, depths),
            (y.X_COUNTS, depths * counters),
            (y.X_COUNTED, depths * counters),
            (y.X_PARKS, depths * int(plan.ints[y.P_LASTS])),
            (y.X_TOPS, len(plan.steps)),
            (y.X_DECIDED, len(plan.patterns)),
            (y.X_ELEMENTS, MOST_NAMES),
            (y.X_ATTRIBUTES, MOST_NAMES),
            (y.X_THREADS, states + max(3 * edges, 4 * states)),
        )
        self.head = np.zeros(y.MATCH_HEAD + sum(size for _, size in sizes), np.int64)
        at = y.MATCH_HEAD
        for word, size in sizes:
            self.head[word] = at
            at += size
        self.head[y.X_STATES], self.head[y.X_EDGES] = states, edges
        self.stack = np.zeros(STACK + 2 * int(plan.ints[y.P_PUSHED]), np.int64)
        self.cells = np.zeros(CELLS + 4 * int(plan.ints[y.P_RUN_ROOM]), np.int64)
        self.text, self.values = np.zeros(TEXT, np.uint8), np.zeros(TEXT, np.uint8)
        self.rows, self.told = np.zeros(ROWS * y.ROW_WIDTH, np.int64), np.zeros(TEXT, np.uint8)
        self.scratch = np.zeros(0, np.int64)
        self.numbered = -1
        self.said = 0
        self.taken = self.resolved = 0
        """Output rows taken, and names resolved, in all documents so far."""
        self.interrupted: tuple[int, ...] = ()
        """The position in the document where the output arrays were last full."""
        self._fit()

    def _fit(self) -> None:
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
        head[y.X_ROWS_END], head[y.X_TOLD_END] = len(self.rows), len(self.told)
        head[y.X_SCRATCH_END] = len(self.scratch)
        self.space = y.Space(
            self.plan.ints, self.constants, head, self.stack, self.cells, self.scratch, self.text, self.values,
            self.rows, self.told,
        )  # fmt: skip

    def _grow(self, needed: int) -> None:
        """Free capacity for a token of ``needed`` bytes by garbage collection, or enlarge an array."""
        head, plan = self.head, self.plan.ints
        if head[y.X_TOP] + plan[y.P_PUSHED] <= len(self.stack):
            collect(self.space)
            parts = ((y.X_CELLS, self.cells, 0), (y.X_TEXT, self.text, needed), (y.X_VALUES, self.values, needed))
            if has_room_for(self.space, needed) and all(2 * head[top] + more <= len(part) for top, part, more in parts):
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
        self._fit()

    def read(
        self, chunks: Callable[[], Iterable[bytes]], *, trusted: bool = False, is_text: bool = False
    ) -> Iterator[MatchRecord | None]:
        """Yield the results of a document as they are decided; None when it begins, and when it restarts.

        A restart repeats all results. Raises a :class:`DocumentError` if the document is malformed or exceeds a limit.
        """
        for batch in self.scanner.read(chunks, trusted=trusted, is_text=is_text):
            if batch is None:
                self._begin()
                yield None
            else:
                yield from self._matched(batch)
        yield from self._ended()

    def read_all(
        self, data: ByteArray, offsets: IntArray, *, trusted: bool = False
    ) -> Iterator[tuple[int, MatchRecord | None, IntArray]]:
        """Match many small documents that are contiguous in memory, most of them without any Python code.

        Yields, repeatedly: the number of completed documents, their output rows since the last time, and by document
        the row count at its end. None instead of rows: the next document is too complex, and has to be read on its own.
        """
        head, scanner = self.head, self.scanner
        count = len(offsets) - 1
        told = np.zeros(count, np.int64)
        head[y.X_ROWS] = head[y.X_TOLD] = 0
        head[y.X_DOCUMENT], head[y.X_DOCUMENTS] = 0, count
        self._release_output()
        done = again = 0
        guard = ProgressGuard()
        while True:
            if scanner.is_full:
                scanner.renumber()
            self._renumber()
            scanner.space[H_ROOM] = scanner.tokens.shape[1]
            answer = match_documents(
                self.space, scanner.space, scanner.room, data, scanner.tokens, offsets, told, not trusted
            )
            if head[y.X_DOCUMENT] != done:
                again = 0
            done = int(head[y.X_DOCUMENT])
            if answer == y.NAMES:
                again += int(offsets[done + 1] - offsets[done])
            stalled = guard.is_stalled(*self._position(answer))
            if answer == y.NAMES and again <= READ_AGAIN and not stalled:
                self._look_up(int(head[y.X_UNKNOWN]))
            elif (
                answer == y.ROOM
                and max(len(self.cells), len(self.text), len(self.values)) < LARGEST_CELLS
                and not stalled
            ):
                # The document is read again from its start: garbage collection would gain nothing.
                self._enlarge(int(offsets[done + 1] - offsets[done]))
            elif answer == y.ROWS and not head[y.X_ROWS] and self._has_small_output() and not stalled:
                self._more_rows()
            else:
                has_room_again = answer == y.ROWS and head[y.X_ROWS] > 0
                yield done, self._take(), told
                if answer == y.READ:
                    return
                if not has_room_again:
                    yield done, None, told
                    head[y.X_DOCUMENT] = done + 1
                    told[done] = 0
                    head[y.X_ROWS] = head[y.X_TOLD] = 0
                    self._release_output()

    def _begin(self) -> None:
        self.head[y.X_ROWS] = self.head[y.X_TOLD] = self.said = 0
        self.interrupted = ()
        begin_document(self.space)

    def _renumber(self) -> None:
        """Invalidate the lists of steps by name after names were renumbered."""
        if self.numbered != self.scanner.made:
            self.numbered = self.scanner.made
            for word in (y.X_ELEMENTS, y.X_ATTRIBUTES):
                self.head[self.head[word] : self.head[word] + MOST_NAMES] = -1

    def _scan(self, space: IntArray, names: ByteArray, data: ByteArray, tokens: Int32Array, end: int) -> int:
        self._renumber()
        return int(read_bytes(self.space, space, names, data, tokens, end))

    def _matched(self, batch: TokenBatch) -> Iterator[MatchRecord]:
        head, tokens = self.head, batch.table
        guard = ProgressGuard()
        while True:
            answer = match_tokens(self.space, batch.data, tokens, batch.count, len(batch.data))
            if answer == y.READ:
                break
            self._require_progress(guard, answer)
            if answer == y.NAMES:
                self._look_up(int(head[y.X_UNKNOWN]))
            elif answer == y.ROOM:
                at = int(head[y.X_AT])
                self._grow(int(tokens[T_END, at] - tokens[T_BEGIN, at]))
            elif answer == y.ROWS:
                yield from self._told()
            else:
                raise self.scanner.refuse("Reference to an unknown entity", int(tokens[T_BEGIN, int(head[y.X_AT])]))
        if head[y.X_ROWS]:
            yield from self._told()

    def _ended(self) -> Iterator[MatchRecord]:
        guard = ProgressGuard()
        while (answer := end_document(self.space)) != y.READ:
            self._require_progress(guard, answer)
            if answer == y.ROOM:
                self._grow(0)
            else:
                yield from self._told()
        if self.head[y.X_ROWS]:
            yield from self._told()

    def _look_up(self, name: int) -> None:
        attribute = name < 0
        number = -1 - name if attribute else name
        table = self.head[y.X_ATTRIBUTES if attribute else y.X_ELEMENTS]
        steps = self.plan.steps_of(self.scanner.name(number), attribute=attribute)
        self.resolved += int(self.head[table + number] != steps)
        self.head[table + number] = steps

    def _position(self, answer: int) -> tuple[int, ...]:
        """Everything that changes when a loop makes progress: input, output, names and capacity."""
        head = self.head
        words = (y.X_DOCUMENT, y.X_AT, y.X_DEPTH, y.X_QUEUE, y.X_QUEUE_DONE)
        arrays: tuple[Sized, ...] = self.space
        return (answer, *(int(head[word]) for word in words), self.taken, self.resolved, *map(len, arrays))

    def _require_progress(self, guard: ProgressGuard, answer: int) -> None:
        if guard.is_stalled(*self._position(answer)):
            raise self.scanner.refuse(STALLED, 0, StalledMatcherError)

    def _told(self) -> Iterator[MatchRecord]:
        head = self.head
        if not head[y.X_ROWS]:  # one result is larger than the output arrays
            self._limit_output(int(head[y.X_FULL_ROWS]) * y.ROW_WIDTH * self.rows.itemsize + int(head[y.X_FULL_TOLD]))
            if max(self.rows.nbytes, self.told.nbytes) > 2 * self._most_output():
                raise self.scanner.refuse(STALLED, 0, StalledMatcherError)  # the limit ends every result before that
            self._more_rows()
            return
        taken = self._take()
        self.said += len(taken.text) + taken.rows.nbytes
        self._limit_output(0)
        if head[y.X_QUEUE]:
            # Each call gathers the remaining results of a list again. Larger arrays reduce the number of calls.
            place = tuple(int(head[word]) for word in (y.X_ORDINAL, y.X_DEPTH, y.X_QUEUE, y.X_QUEUE_DONE))
            if place == self.interrupted and max(self.rows.nbytes, self.told.nbytes) < MOST_BYTES:
                self._more_rows()
            self.interrupted = place
        yield taken

    def _most_output(self) -> int:
        """Return the limit of output bytes for the part of the document that was read."""
        return MOST_TIMES * (self.scanner.behind + self.scanner.given) + MOST_BYTES

    def _limit_output(self, more: int) -> None:
        """Reject the document if the bytes of its results, plus ``more``, exceed the limit."""
        if self.said + more > self._most_output():
            raise self.scanner.refuse(TOO_MUCH_OUTPUT, 0)

    def _take(self) -> MatchRecord:
        """Take the output rows, so that the output arrays are empty."""
        head = self.head
        count, size = int(head[y.X_ROWS]), int(head[y.X_TOLD])
        self.taken += count
        head[y.X_ROWS] = head[y.X_TOLD] = 0
        rows = self.rows[: count * y.ROW_WIDTH].reshape(count, y.ROW_WIDTH).copy()
        return MatchRecord(rows, self.told[:size].tobytes(), self.scanner.name)

    def _more_rows(self) -> None:
        """Enlarge the output array that was full. All output was taken or is written again, so none is copied."""
        if (self.head[y.X_FULL_ROWS] + 1) * y.ROW_WIDTH > len(self.rows):
            self.rows = np.zeros(2 * len(self.rows), np.int64)
        else:
            self.told = np.zeros(2 * len(self.told), np.uint8)
        self._fit()

    def _has_small_output(self) -> bool:
        return len(self.rows) < LARGEST_ROWS * y.ROW_WIDTH and len(self.told) < LARGEST_CELLS

    def _release_output(self) -> None:
        """Shrink output arrays that a large document left, so that the limit does not depend on the documents before."""
        if len(self.rows) > LARGEST_ROWS * y.ROW_WIDTH or len(self.told) > LARGEST_CELLS:
            self.rows, self.told = np.zeros(ROWS * y.ROW_WIDTH, np.int64), np.zeros(TEXT, np.uint8)
            self._fit()


def _larger(array: NDArray[T], needed: int = 0) -> NDArray[T]:
    larger = np.zeros(2 * len(array) + needed, array.dtype)
    larger[: len(array)] = array
    return larger
