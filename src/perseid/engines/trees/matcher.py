"""Documents through a plan: the scanner's tokens to the kernel, and what it tells, as results.

A document is read in pieces, in memory that does not grow with it: what is kept is what open candidates have found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.collect import collect
from perseid.engines.trees.kernel import begin_document, end_document, has_room_for, match_tokens
from perseid.engines.trees.layout import H_ROOM, T_BEGIN, T_END
from perseid.engines.trees.limits import MOST_BYTES, MOST_NAMES, MOST_TIMES
from perseid.engines.trees.onepass import match_documents, read_bytes
from perseid.engines.trees.plan import TreePlan
from perseid.engines.trees.tokens import Scanner, TokenBatch
from perseid.semantics.documents import Name

STACK, CELLS, TEXT, ROWS = 1 << 12, 1 << 14, 1 << 16, 1 << 12
"""Words and bytes to begin with; whatever is too small is made larger."""
LARGEST_CELLS = 1 << 22
"""Words and bytes for small documents: one that needs more is read on its own, where limits are asked."""
READ_AGAIN = 1 << 22
"""Bytes of a document that are read again, once for each name that is new: with more of them it is read on its own."""


@dataclass(frozen=True)
class Told:
    """Rows that the kernel told, of results in the order they were decided in."""

    rows: Any
    """By word: pattern, level, step (-1: the pattern returns nothing, and holds), name, text from and to, place."""
    text: bytes
    names: Callable[[int], Name]


class Matcher:
    """Reads one document after the other."""

    def __init__(self, plan: TreePlan) -> None:
        self.plan = plan
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
        self._fit()

    def _fit(self) -> None:
        """Say where things end, after something was made larger."""
        head = self.head
        candidates = len(self.stack) // y.CANDIDATE_WIDTH + 1
        queued = self.scratch[head[y.X_QUEUED] :][: head[y.X_QUEUE]].copy()
        # First whose demands were met, then what is to be told, then room to gather results.
        head[y.X_QUEUED], head[y.X_GATHERED] = candidates, 5 * candidates + 64
        self.scratch = np.zeros(int(head[y.X_GATHERED]) + len(self.cells) + 64, np.int64)
        self.scratch[head[y.X_QUEUED] :][: len(queued)] = queued
        head[y.X_STACK_END], head[y.X_CELLS_END] = len(self.stack), len(self.cells)
        head[y.X_TEXT_END], head[y.X_VALUES_END] = len(self.text), len(self.values)
        head[y.X_ROWS_END], head[y.X_TOLD_END] = len(self.rows), len(self.told)
        head[y.X_SCRATCH_END] = len(self.scratch)
        self.space = y.Space(
            self.plan.ints, self.plan.constants, head, self.stack, self.cells, self.scratch, self.text, self.values,
            self.rows, self.told,
        )  # fmt: skip

    def _grow(self, needed: int) -> None:
        """More room, for a token of so many bytes: what nobody holds any more, or a larger array."""
        head, plan = self.head, self.plan.ints
        if head[y.X_TOP] + plan[y.P_PUSHED] <= len(self.stack):
            collect(self.space)
            parts = ((y.X_CELLS, self.cells, 0), (y.X_TEXT, self.text, needed), (y.X_VALUES, self.values, needed))
            if has_room_for(self.space, needed) and all(2 * head[top] + more <= len(part) for top, part, more in parts):
                return  # more than half of it was of no use to anybody
        self._enlarge(needed)

    def _enlarge(self, needed: int) -> None:
        """Larger arrays, of those that are too small for so many bytes of text."""
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
    ) -> Iterator[Told | None]:
        """What is found in a document, as soon as it is decided; None where it begins, or begins anew.

        Where it begins anew, the same is told again from the start. A :class:`DocumentError` where it is not well formed.
        """
        for batch in self.scanner.read(chunks, trusted=trusted, is_text=is_text):
            if batch is None:
                self._begin()
                yield None
            else:
                yield from self._matched(batch)
        yield from self._ended()

    def read_all(self, data: Any, offsets: Any, *, trusted: bool = False) -> Iterator[tuple[int, Told | None, Any]]:
        """Many small documents that lie one after the other in memory, most of them without a word of Python.

        Gives, again and again: how many documents are done, what was told of those since the last time, and by document
        how many rows had been told at its end. None: the next document is odd, and has to be read on its own.
        """
        head, scanner = self.head, self.scanner
        count = len(offsets) - 1
        told = np.zeros(count, np.int64)
        head[y.X_ROWS] = head[y.X_TOLD] = 0
        head[y.X_DOCUMENT], head[y.X_DOCUMENTS] = 0, count
        done = again = 0
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
            if answer == y.NAMES and again <= READ_AGAIN:
                self._look_up(int(head[y.X_UNKNOWN]))
            elif answer == y.ROOM and max(len(self.cells), len(self.text), len(self.values)) < LARGEST_CELLS:
                # It is read from its beginning again: to collect what it does not hold would help nobody.
                self._enlarge(int(offsets[done + 1] - offsets[done]))
            elif answer == y.ROWS and not head[y.X_ROWS] and len(self.told) < LARGEST_CELLS:
                self._more_rows()
            else:
                yield done, self._take(), told
                if answer == y.READ:
                    return
                if answer != y.ROWS:
                    yield done, None, told
                    head[y.X_DOCUMENT] = done + 1
                    told[done] = 0
                    head[y.X_ROWS] = head[y.X_TOLD] = 0

    def _begin(self) -> None:
        self.head[y.X_ROWS] = self.head[y.X_TOLD] = self.said = 0
        begin_document(self.space)

    def _renumber(self) -> None:
        """Names may have other numbers than before."""
        if self.numbered != self.scanner.made:
            self.numbered = self.scanner.made
            for word in (y.X_ELEMENTS, y.X_ATTRIBUTES):
                self.head[self.head[word] : self.head[word] + MOST_NAMES] = -1

    def _scan(self, space: Any, names: Any, data: Any, tokens: Any, end: int) -> int:
        self._renumber()
        return int(read_bytes(self.space, space, names, data, tokens, end))

    def _matched(self, batch: TokenBatch) -> Iterator[Told]:
        head, tokens = self.head, batch.table
        while True:
            answer = match_tokens(self.space, batch.data, tokens, batch.count, len(batch.data))
            if answer == y.READ:
                break
            if answer == y.NAMES:
                self._look_up(int(head[y.X_UNKNOWN]))
            elif answer == y.ROOM:
                at = int(head[y.X_AT])
                self._grow(int(tokens[T_END, at] - tokens[T_BEGIN, at]))
            elif answer == y.ROWS:
                yield from self._told()
            else:
                raise self.scanner.refuse(
                    "A reference is to an entity that is not known here", int(tokens[T_BEGIN, int(head[y.X_AT])])
                )
        if head[y.X_ROWS]:
            yield from self._told()

    def _ended(self) -> Iterator[Told]:
        while (answer := end_document(self.space)) != y.READ:
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
        self.head[table + number] = self.plan.steps_of(self.scanner.name(number), attribute=attribute)

    def _told(self) -> Iterator[Told]:
        if not self.head[y.X_ROWS]:
            self._more_rows()  # one result has more than there is room for
            return
        taken = self._take()
        self.said += len(taken.text) + taken.rows.nbytes
        if self.said > MOST_TIMES * (self.scanner.behind + self.scanner.given) + MOST_BYTES:
            what = f"Results have more than {MOST_TIMES} times the bytes of the document before them"
            raise self.scanner.refuse(what, 0)
        yield taken

    def _take(self) -> Told:
        """The rows that were told, which make room for others."""
        head = self.head
        count, size = int(head[y.X_ROWS]), int(head[y.X_TOLD])
        head[y.X_ROWS] = head[y.X_TOLD] = 0
        rows = self.rows[: count * y.ROW_WIDTH].reshape(count, y.ROW_WIDTH).copy()
        return Told(rows, self.told[:size].tobytes(), self.scanner.name)

    def _more_rows(self) -> None:
        self.rows, self.told = _larger(self.rows), _larger(self.told)
        self._fit()


def _larger(array: Any, needed: int = 0) -> Any:
    larger = np.zeros(2 * len(array) + needed, array.dtype)
    larger[: len(array)] = array
    return larger
