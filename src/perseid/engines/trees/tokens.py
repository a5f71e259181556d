"""Documents as tokens: by the scanner if it can prove them well formed, otherwise after validation by expat.

In safe mode every document is proved well formed by the scanner or validated by expat; others are rejected. In trusted
mode it is not validated. In both modes it is read in chunks of any size, and in bounded memory.
"""

from __future__ import annotations

import codecs
import re
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from perseid.engines.trees import layout as y
from perseid.engines.trees.judge import validated
from perseid.engines.trees.limits import (
    DEEPEST,
    LARGEST_PIECE,
    LONGEST_DECLARATION,
    LONGEST_TAG,
    MAX_ATTRIBUTES,
    MAX_NAMES,
    NAME_BYTES,
)
from perseid.engines.trees.names import number_name, number_pair
from perseid.engines.trees.progress import ProgressGuard
from perseid.engines.trees.scan import begin_scanning, scan
from perseid.engines.trees.vectors import REACH
from perseid.errors import DocumentError, StalledMatcherError
from perseid.runtime.arena import allocate
from perseid.runtime.arrays import ByteArray, Int32Array, IntArray
from perseid.semantics.documents import Name

TOKENS = 1 << 14
"""Initial token capacity of a batch."""
_DECLARED = re.compile(
    rb"""(?:\xef\xbb\xbf)?<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(["'])(?P<version>[A-Za-z0-9._-]*)\1"""
    rb"""(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(["'])(?P<encoding>[A-Za-z][A-Za-z0-9._-]*)\3)?"""
    rb"""(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(["'])(?:yes|no)\5)?[ \t\r\n]*\?>"""
)
_BOM = b"\xef\xbb\xbf"
_BEGINS_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml[ \t\r\n]")
_LIMITS = {
    y.TOO_DEEP: f"Elements are nested deeper than {DEEPEST:,} levels",
    y.TOO_MANY_ATTRIBUTES: f"A tag has more than {MAX_ATTRIBUTES:,} attributes",
    y.TOO_MANY_NAMES: f"The document has more than {MAX_NAMES:,} distinct names, or more than {NAME_BYTES:,} bytes of them",
    y.TOO_LONG: f"A tag has more than {LONGEST_TAG:,} bytes",
}


@dataclass(frozen=True)
class TokenBatch:
    """Tokens, and the bytes that they point into; both are valid until the next batch."""

    data: ByteArray
    table: Int32Array
    """Token array, of which the first ``count`` columns are in use."""
    count: int

    @property
    def tokens(self) -> Int32Array:
        return self.table[:, : self.count]


Scan: TypeAlias = Callable[[IntArray, ByteArray, ByteArray, Int32Array, int], int]
"""Signature of a scan: space, names, bytes, tokens and number of bytes, to a scan status."""


class UncertainError(Exception):
    """The scanner cannot prove that a document is well formed."""


class _CrowdedError(Exception):
    """The name table has no capacity for a document, because earlier documents use some of it."""


class Scanner:
    """Tokenizes documents in sequence. Names retain their numbers while the name table has capacity."""

    def __init__(
        self, names: Iterable[Name] = (), *, texts: bool = True, attributes: bool = True, scan: Scan = scan
    ) -> None:
        """Create a scanner that gives the first numbers to ``names``, in order: those that patterns test.

        ``scan`` may match tokens as it scans: a batch has those that remain.
        """
        self.scan = scan
        self.names, self.texts, self.attributes = tuple(names), texts, attributes
        self.tokens = np.empty((y.TOKEN_WIDTH, TOKENS), np.int32)
        self.renumberings = 0
        """Number of times that names were renumbered."""
        self.bytes_before = 0
        self.batch_bytes = 0
        """Bytes of the document before those that the tokens point into, and the number of the latter."""
        self._allocate()

    def _allocate(self) -> None:
        self.renumberings += 1
        sizes = (
            (y.H_STACK, None, 2 * DEEPEST),
            (y.H_RECORDS, y.H_RECORDS_END, y.RECORD_WIDTH * MAX_NAMES),
            (y.H_TABLE, None, 2 * MAX_NAMES),
            (y.H_PAIR, y.H_PAIRS_END, (2 + y.PAIR_WIDTH) * MAX_NAMES),
            (y.H_SCOPE, y.H_SCOPE_END, y.SCOPE_WIDTH * MAX_NAMES),
            (y.H_RECENT, None, y.RECENT_WIDTH * y.RECENT_NAMES),
        )
        self.space = space = np.zeros(y.SCAN_HEAD + sum(size for _, _, size in sizes), np.int64)
        allocate(space, y.SCAN_HEAD, sizes)
        self.name_bytes = np.empty(NAME_BYTES + REACH, np.uint8)
        space[y.H_TABLE_SIZE], space[y.H_PAIR_SIZE] = 2 * MAX_NAMES, 2 * MAX_NAMES
        space[y.H_BYTES_END], space[y.H_DEEPEST], space[y.H_MAX_ATTRIBUTES] = NAME_BYTES, DEEPEST, MAX_ATTRIBUTES
        space[y.H_TEXTS], space[y.H_ATTRIBUTES] = self.texts, self.attributes
        space[y.H_LONGEST] = LONGEST_TAG
        space[y.H_SALT], space[y.H_FACTOR] = secrets.randbits(48), secrets.randbits(13) << 1 | 0x4001
        for name in y.ALWAYS:
            self._number(name)
        space[space[y.H_RECORDS] + y.XML_PREFIX * y.RECORD_WIDTH + y.R_BOUND] = y.XML_URI
        for uri, local in self.names:
            number_pair(space, self._number(uri.encode()), self._number(local.encode()))
        self._own_names = int(space[y.H_NAMES])

    def _number(self, name: bytes) -> int:
        return int(number_name(self.space, self.name_bytes, np.frombuffer(name, np.uint8), len(name)))

    def name(self, number: int) -> Name:
        """Return the name that a number in the tokens refers to."""
        space = self.space
        pair = int(space[y.H_PAIR] + space[y.H_PAIR_SIZE] + number * y.PAIR_WIDTH)
        return self._text(int(space[pair + y.P_URI])), self._text(int(space[pair + y.P_LOCAL]))

    def _text(self, number: int) -> str:
        record = int(self.space[y.H_RECORDS]) + number * y.RECORD_WIDTH
        at, length = self.space[record + y.R_AT], self.space[record + y.R_LENGTH]
        return (
            self.name_bytes[at : at + length].tobytes().decode("utf-8", "replace")
        )  # trusted input may not be valid UTF-8

    @property
    def is_full(self) -> bool:
        """True if the names of earlier documents should be evicted."""
        space = self.space
        return bool(2 * max(space[y.H_NAMES], space[y.H_PAIRS]) > MAX_NAMES or 2 * space[y.H_BYTES] > NAME_BYTES)

    def renumber(self) -> None:
        """Evict all names except those that patterns test."""
        self._allocate()

    def _begin(self, strict: bool) -> None:
        if self.is_full:
            self._allocate()
        begin_scanning(self.space, strict)

    def read(
        self, chunks: Callable[[], Iterable[bytes]], *, trusted: bool = False, is_text: bool = False
    ) -> Iterator[TokenBatch | None]:
        """Yield the tokens of a document; None when it begins or restarts. ``chunks`` may be called repeatedly.

        A document that was text before it was bytes (``is_text``) is in UTF-8, whatever encoding it declares.

        Raises a :class:`DocumentError` if it is not well formed or exceeds a limit; earlier tokens are then not valid.
        """
        self._crowded = int(self.space[y.H_NAMES]) > self._own_names
        try:
            yield from self._read_checked(chunks, trusted, is_text)
        except _CrowdedError:
            self._allocate()
            self._crowded = False
            yield from self._read_checked(chunks, trusted, is_text)

    def _read_checked(
        self, chunks: Callable[[], Iterable[bytes]], trusted: bool, is_text: bool
    ) -> Iterator[TokenBatch | None]:
        yield None
        if not trusted:
            try:
                yield from self._read(chunks, strict=True)
                return
            except UncertainError:
                yield None
        if is_text:
            reread, source = chunks, chunks() if trusted else validated(chunks(), "utf-8")
        else:
            reread, source = (
                lambda: _in_utf8(chunks()),
                _in_utf8(chunks() if trusted else validated(_require_known_encoding(chunks()))),
            )
        try:
            yield from self._read(reread, strict=False, source=source)
        except UncertainError:
            at_end = self.space[y.H_REASON] < 0
            message = "Unexpected end of document" if at_end else "The XML is not well formed"
            raise self.refuse(message, int(self.space[y.H_AT])) from None

    def refuse(self, message: str, at: int, kind: type[DocumentError] = DocumentError) -> DocumentError:
        """Return an error with the position of an offset in the bytes that the tokens point into."""
        line, column = _position_of(self.chunks(), self.bytes_before + at)
        return kind(message, line=line, column=column)

    def _read(
        self, chunks: Callable[[], Iterable[bytes]], *, strict: bool, source: Iterable[bytes] | None = None
    ) -> Iterator[TokenBatch]:
        """Yield the tokens of ``source``, by default ``chunks``; to locate an error, ``chunks`` is read again."""
        self._begin(strict)
        self.chunks, self.bytes_before, self.batch_bytes = chunks, 0, 0
        space, first = self.space, True
        remaining, pieces, size = b"", [], 0
        for chunk in _from_the_start(chunks() if source is None else source):
            pieces.append(chunk)
            size += len(chunk)
            if len(remaining) > TOKENS and size < min(len(remaining), LONGEST_TAG - len(remaining)):
                continue  # A long incomplete tag is scanned again only when its input has doubled.
            data = b"".join([remaining, *pieces]) if remaining else chunk
            pieces, size = [], 0
            remaining = yield from self._scanned(data, _after_declaration(data, strict) if first else 0)
            first = False
            if len(remaining) > LONGEST_TAG:
                raise self.refuse(_LIMITS[y.TOO_LONG], 0)
        if pieces:
            remaining = yield from self._scanned(b"".join([remaining, *pieces]), 0)
        if remaining or space[y.H_DEPTH] or space[y.H_ROOTS] != 2 or space[y.H_MODE] != y.OUTSIDE:
            space[y.H_AT], space[y.H_REASON] = len(remaining), -1
            raise UncertainError

    def _scanned(self, data: bytes, at: int) -> Generator[TokenBatch, None, bytes]:
        space, array = self.space, np.frombuffer(data, np.uint8)
        space[y.H_AT], self.batch_bytes = at, len(data)
        guard = ProgressGuard()
        while True:
            space[y.H_TOKENS], space[y.H_TOKEN_CAPACITY] = 0, self.tokens.shape[1]
            status = self.scan(space, self.name_bytes, array, self.tokens, len(array))
            count = int(space[y.H_TOKENS])
            yield TokenBatch(array, self.tokens, count)
            if status == y.DOUBT:
                self._doubt()
            if status in (y.DONE, y.MORE):
                self.bytes_before += int(space[y.H_AT])
                return data[int(space[y.H_AT]) :]
            if status == y.FULL and not count:
                # A tag has more attributes than the token array has columns.
                self.tokens = np.empty((y.TOKEN_WIDTH, 2 * self.tokens.shape[1]), np.int32)
            if guard.is_stalled(status, count, int(space[y.H_AT]), int(space[y.H_DEPTH]), self.tokens.shape[1]):
                raise self.refuse(
                    "The scanner made no progress in this document, which is a bug in Perseid", 0, StalledMatcherError
                )

    def _doubt(self) -> None:
        reason = int(self.space[y.H_REASON])
        if reason == y.UNSURE:
            raise UncertainError
        if reason == y.TOO_MANY_NAMES and self._crowded:
            raise _CrowdedError
        raise self.refuse(_LIMITS[reason], int(self.space[y.H_AT]))


def _position_of(chunks: Iterable[bytes], offset: int) -> tuple[int, int]:
    """Return line and column of an offset. Errors are rare, so the document is read again."""
    line, column = 1, 1
    for chunk in chunks:
        line, column = _advance_position(line, column, chunk[:offset])
        offset -= min(offset, len(chunk))
        if not offset:
            break
    return line, column


def _advance_position(line: int, column: int, data: bytes) -> tuple[int, int]:
    """Return line and column after some data; columns are characters, as in expat."""
    lines = data.count(b"\n")
    last = np.frombuffer(data, np.uint8)[data.rfind(b"\n") + 1 :]
    return line + lines, (1 if lines else column) + int(np.count_nonzero(last & 0xC0 != 0x80))


def _after_declaration(data: bytes, strict: bool) -> int:
    """Return the offset after the byte order mark and XML declaration of a document in UTF-8."""
    declaration = _DECLARED.match(data, 0, LONGEST_DECLARATION)
    if declaration is not None:
        if strict and (declaration["version"] != b"1.0" or (declaration["encoding"] or b"utf-8").lower() != b"utf-8"):
            raise UncertainError
        return declaration.end()
    if _BEGINS_DECLARATION.match(data):
        if strict:
            raise UncertainError
        raise DocumentError("Unsupported XML declaration", line=1, column=1)
    return len(_BOM) if data.startswith(_BOM) else 0


def _has_no_declaration(first: bytes) -> bool:
    """Return whether these first bytes rule out an XML declaration, in any encoding."""
    if len(first) < len(_BOM) + 5 or b"\0" in first[:4] or first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    return not first.removeprefix(_BOM).startswith(b"<?xml")


def _from_the_start(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes, with all of an XML declaration in the first chunk, and limited chunk sizes."""
    first, has_declaration = b"", False
    for chunk in chunks:
        chunk_out = chunk
        if not has_declaration:
            chunk_out = first = first + chunk
            has_declaration = len(first) >= LONGEST_DECLARATION or b"?>" in first or _has_no_declaration(first)
            if not has_declaration:
                continue
        if len(chunk_out) <= LARGEST_PIECE:
            yield chunk_out
            continue
        for begin in range(0, len(chunk_out), LARGEST_PIECE):
            yield chunk_out[begin : begin + LARGEST_PIECE]
    if not has_declaration:
        yield first


def _in_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a document in UTF-8, from its declared or detected encoding; it is validated before, or trusted."""
    decode: Callable[[bytes, bool], str] | None = None
    first, line, column = True, 1, 1
    for chunk, last in _with_last(_from_the_start(chunks)):
        if first:
            decode, first = _decoder(chunk), False
        if decode is None:
            yield chunk
            continue
        try:
            data = decode(chunk, last).encode()
        except UnicodeError as error:
            valid = error.start if isinstance(error, UnicodeDecodeError) else 0
            at = _advance_position(line, column, decode(chunk[:valid], False).encode()) if valid else (line, column)
            raise DocumentError("Invalid bytes for the encoding of the document", line=at[0], column=at[1]) from None
        line, column = _advance_position(line, column, data)
        yield data


def _require_known_encoding(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes; raise an error if their encoding is not supported. Expat would use any codec of Python."""
    first = True
    for chunk in _from_the_start(chunks):
        if first:
            _decoder(chunk)
        first = False
        yield chunk


def _with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each chunk, and whether it is the last."""
    before = None
    for chunk in chunks:
        if before is not None:
            yield before, False
        before = chunk
    if before is not None:
        yield before, True


def _decoder(data: bytes) -> Callable[[bytes, bool], str] | None:
    """Return an incremental decoder for a document with these first bytes; None for UTF-8."""
    if data.startswith(codecs.BOM_UTF16_LE) or data[1:2] == b"\0":
        return codecs.getincrementaldecoder("utf-16-le")().decode
    if data.startswith(codecs.BOM_UTF16_BE) or data[:1] == b"\0":
        return codecs.getincrementaldecoder("utf-16-be")().decode
    declaration = _DECLARED.match(data, 0, LONGEST_DECLARATION)
    name = "utf-8" if declaration is None else (declaration["encoding"] or b"utf-8").decode().lower()
    if name == "utf-8":
        return None
    # The codec's table of single bytes, as in expat, rather than the codec itself: some decode sequences of bytes.
    try:
        table = "" if "escape" in codecs.lookup(name).name else bytes(range(256)).decode(name, "replace")
    except (LookupError, ValueError):
        table = ""
    if len(table) != 256:
        raise DocumentError(f"Unsupported encoding {name[:40]!r}", line=1, column=1)
    table = table.replace("\ufffd", "\ufffe")  # U+FFFE: no such character
    return lambda piece, _: codecs.charmap_decode(piece, "strict", table)[0]
