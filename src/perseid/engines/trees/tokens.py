"""Documents as tokens: the scanner where it is sure, the judge before it where it is not.

In safe mode a document is proved well formed by the scanner or judged by expat, and is read only then. In trusted mode
it is taken for what it is. Either way it comes in chunks of any size, and in bounded memory.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from perseid.engines.space import lay_out
from perseid.engines.trees import layout as y
from perseid.engines.trees.judge import judge
from perseid.engines.trees.scan import number_name, number_pair, scan
from perseid.errors import DocumentError
from perseid.semantics.documents import Name

TOKENS = 1 << 14
"""Tokens of a batch."""
DEEPEST = 10_000
MOST_ATTRIBUTES = 10_000
MOST_NAMES = 1 << 16
NAME_BYTES = 1 << 22
LONGEST_TAG = 1 << 24
"""Bytes that a tag may have."""
LONGEST_DECLARATION = 256
_DECLARED = re.compile(
    rb"""(?:\xef\xbb\xbf)?<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?:"1\.0"|'1\.0')"""
    rb"""(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?:"([A-Za-z][A-Za-z0-9._-]*)"|'([A-Za-z][A-Za-z0-9._-]*)'))?"""
    rb"""(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(?:"(?:yes|no)"|'(?:yes|no)'))?[ \t\r\n]*\?>"""
)
_BOM = b"\xef\xbb\xbf"
_LIMITS = {
    y.TOO_DEEP: f"Elements lie deeper in one another than {DEEPEST:,}",
    y.TOO_MANY_ATTRIBUTES: f"A tag has more than {MOST_ATTRIBUTES:,} attributes",
    y.TOO_MANY_NAMES: f"There are more than {MOST_NAMES:,} names, or more than {NAME_BYTES:,} bytes of them",
}


@dataclass(frozen=True)
class TokenBatch:
    """Some tokens, and the bytes that they point into; both are only good until the next batch."""

    data: Any
    table: Any
    """Room for tokens, the first of which are these."""
    count: int

    @property
    def tokens(self) -> Any:
        return self.table[:, : self.count]


class UncertainError(Exception):
    """The scanner cannot prove that a document is well formed."""


class Scanner:
    """Reads one document after the other; names that it has seen keep their numbers as long as there is room."""

    def __init__(self, names: Iterable[Name] = (), *, texts: bool = True, attributes: bool = True) -> None:
        """``names`` get the first numbers, in their order: those that patterns ask for."""
        self.names, self.texts, self.attributes = tuple(names), texts, attributes
        self.tokens = np.empty((y.TOKEN_WIDTH, TOKENS), np.int32)
        self.made = 0
        """How often numbers were given anew to names."""
        self.behind = 0
        self.given = 0
        """Bytes of the document before those that the tokens point into, and these."""
        self._make()

    def _make(self) -> None:
        self.made += 1
        sizes = (
            (y.H_STACK, None, 2 * DEEPEST),
            (y.H_RECORDS, y.H_RECORDS_END, y.RECORD_WIDTH * MOST_NAMES),
            (y.H_TABLE, None, 2 * MOST_NAMES),
            (y.H_PAIR, y.H_PAIRS_END, (2 + y.PAIR_WIDTH) * MOST_NAMES),
            (y.H_SCOPE, y.H_SCOPE_END, y.SCOPE_WIDTH * MOST_NAMES),
        )
        self.space = space = np.zeros(y.SCAN_HEAD + sum(size for _, _, size in sizes), np.int64)
        lay_out(space, y.SCAN_HEAD, sizes)
        self.room = np.empty(NAME_BYTES, np.uint8)
        space[y.H_TABLE_SIZE], space[y.H_PAIR_SIZE] = 2 * MOST_NAMES, 2 * MOST_NAMES
        space[y.H_BYTES_END], space[y.H_DEEPEST], space[y.H_MOST] = NAME_BYTES, DEEPEST, MOST_ATTRIBUTES
        space[y.H_TEXTS], space[y.H_ATTRIBUTES] = self.texts, self.attributes
        for name in y.ALWAYS:
            self._number(name)
        space[space[y.H_RECORDS] + y.XML_PREFIX * y.RECORD_WIDTH + y.R_BOUND] = y.XML_URI
        for uri, local in self.names:
            number_pair(space, self._number(uri.encode()), self._number(local.encode()))

    def _number(self, name: bytes) -> int:
        return int(number_name(self.space, self.room, np.frombuffer(name, np.uint8), len(name)))

    def name(self, number: int) -> Name:
        """What a number in the tokens stands for."""
        space = self.space
        pair = int(space[y.H_PAIR] + space[y.H_PAIR_SIZE] + number * y.PAIR_WIDTH)
        return self._text(int(space[pair + y.P_URI])), self._text(int(space[pair + y.P_LOCAL]))

    def _text(self, number: int) -> str:
        record = int(self.space[y.H_RECORDS]) + number * y.RECORD_WIDTH
        at, length = self.space[record + y.R_AT], self.space[record + y.R_LENGTH]
        return self.room[at : at + length].tobytes().decode()

    def _begin(self, strict: bool) -> None:
        space = self.space
        if 2 * max(space[y.H_NAMES], space[y.H_PAIRS]) > MOST_NAMES or 2 * space[y.H_BYTES] > NAME_BYTES:
            self._make()
            space = self.space
        while space[y.H_SCOPES]:  # of a document that was left in the middle
            scope = space[y.H_SCOPE] + (space[y.H_SCOPES] - 1) * y.SCOPE_WIDTH
            bound = space[y.H_RECORDS] + space[scope + y.S_PREFIX] * y.RECORD_WIDTH + y.R_BOUND
            space[bound] = space[scope + y.S_BEFORE]
            space[y.H_SCOPES] -= 1
        space[[y.H_AT, y.H_MODE, y.H_DEPTH, y.H_ROOTS, y.H_TOKENS]] = 0
        space[y.H_EPOCH] += 1
        space[y.H_STRICT] = strict

    def read(self, chunks: Callable[[], Iterable[bytes]], *, trusted: bool = False) -> Iterator[TokenBatch | None]:
        """The tokens of a document, whose chunks can be asked for more than once; None where they begin, or begin anew.

        A :class:`DocumentError` where it is not well formed or too much; what came before that is not to be trusted.
        """
        yield None
        if not trusted:
            try:
                yield from self._read(chunks, strict=True)
                return
            except UncertainError:
                judge(chunks())
                yield None
        try:
            yield from self._read(lambda: _in_utf8(chunks()), strict=False)
        except UncertainError:
            raise self._error("The document ends before it is over", chunks, int(self.space[y.H_AT])) from None

    def refuse(self, what: str, at: int) -> DocumentError:
        """An error at a place in the bytes that the tokens point into."""
        return self._error(what, self.chunks, at)

    def _error(self, what: str, chunks: Callable[[], Iterable[bytes]], at: int) -> DocumentError:
        line, column = _place(chunks(), self.behind + at)
        return DocumentError(what, line=line, column=column)

    def _read(self, chunks: Callable[[], Iterable[bytes]], *, strict: bool) -> Iterator[TokenBatch]:
        self._begin(strict)
        self.chunks, self.behind, self.given = chunks, 0, 0
        space, left, first = self.space, b"", True
        for chunk in _from_the_start(chunks()):
            data = left + chunk if left else chunk
            self.given = len(data)
            space[y.H_AT] = _after_declaration(data, strict) if first else 0
            first = False
            left = yield from self._scanned(data)
            self.behind += len(data) - len(left)
            if len(left) > LONGEST_TAG:
                raise self.refuse(f"A tag has more than {LONGEST_TAG:,} bytes", 0)
        space[y.H_AT] = 0
        if left or space[y.H_DEPTH] or space[y.H_ROOTS] != 2 or space[y.H_MODE] != y.OUTSIDE:
            raise UncertainError

    def _scanned(self, data: bytes) -> Generator[TokenBatch, None, bytes]:
        space, given = self.space, np.frombuffer(data, np.uint8)
        while True:
            space[y.H_TOKENS], space[y.H_ROOM] = 0, self.tokens.shape[1]
            before = int(space[y.H_AT])
            answer = scan(space, self.room, given, self.tokens, len(given))
            count = int(space[y.H_TOKENS])
            if count:
                yield TokenBatch(given, self.tokens, count)
            if answer == y.DOUBT:
                self._doubt()
            if answer == y.DONE:
                return b""
            if answer == y.MORE:
                return data[int(space[y.H_AT]) :]
            if not count and int(space[y.H_AT]) == before:
                # One tag has more attributes than there is room for tokens.
                self.tokens = np.empty((y.TOKEN_WIDTH, 2 * self.tokens.shape[1]), np.int32)

    def _doubt(self) -> None:
        why = int(self.space[y.H_WHY])
        if why == y.UNSURE:
            raise UncertainError
        raise self.refuse(_LIMITS[why], int(self.space[y.H_AT]))


def _place(chunks: Iterable[bytes], offset: int) -> tuple[int, int]:
    """The line and column of a byte: asked for seldom, so the document is read again for it."""
    line, column = 1, 1
    for chunk in chunks:
        piece = chunk[:offset]
        newlines = piece.count(b"\n")
        line += newlines
        column = len(piece) - piece.rfind(b"\n") if newlines else column + len(piece)
        offset -= len(piece)
        if not offset:
            break
    return line, column


def _after_declaration(data: bytes, strict: bool) -> int:
    """Where a document in UTF-8 begins after its byte order mark and XML declaration."""
    found = _DECLARED.match(data)
    if found is not None:
        encoding = found[1] or found[2]
        if strict and encoding is not None and encoding.lower() != b"utf-8":
            raise UncertainError
        return found.end()
    if strict and data.removeprefix(_BOM).startswith(b"<?xml"):
        raise UncertainError
    return len(_BOM) if data.startswith(_BOM) else 0


def _from_the_start(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, the first of them with all of an XML declaration, if there is one."""
    first, begun = b"", False
    for chunk in chunks:
        if begun:
            yield chunk
            continue
        first += chunk
        begun = len(first) >= LONGEST_DECLARATION or b"?>" in first
        if begun:
            yield first
    if not begun:
        yield first


def _in_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A document that says, or shows, that it is in another encoding, in UTF-8; it was judged, or is trusted."""
    decode = None
    for chunk in _from_the_start(chunks):
        decode = decode or _decoder(chunk)
        yield decode(chunk)


def _decoder(data: bytes) -> Callable[[bytes], bytes]:
    """What makes UTF-8 of a document that begins so, piece by piece."""
    name = "utf-16"
    if not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = _DECLARED.match(data)
        name = "utf-8" if found is None else (found[1] or found[2] or b"utf-8").decode().lower()
    if name in ("utf-8", "us-ascii"):
        return bytes
    try:
        decoder = codecs.getincrementaldecoder(name)()
    except LookupError:
        raise DocumentError(f"Nobody here knows the encoding {name[:40]!r}", line=1, column=1) from None
    return lambda piece: decoder.decode(piece).encode()
