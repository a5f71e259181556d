"""Validation, by expat, of documents that the scanner cannot prove well formed; nothing is loaded or expanded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.parsers import expat

from perseid.engines.trees.limits import LONGEST_JUDGED
from perseid.errors import DocumentError

PIECE = 1 << 16
"""Bytes that expat gets at once. It buffers at most forty times as many, which bounds memory between limit checks."""


SEPARATOR = "\x1f"
"""Between a namespace and a name. Expat rejects namespaces that contain it; no document can contain this one."""


def safe_parser(encoding: str | None = None) -> expat.XMLParserType:
    """Create an expat parser that raises :class:`RefusedError` instead of loading or expanding anything."""
    parser = expat.ParserCreate(encoding, namespace_separator=SEPARATOR)
    parser.StartDoctypeDeclHandler = _refuse_subset
    parser.EntityDeclHandler = _refuse_entities
    return parser


def judge(chunks: Iterable[bytes], encoding: str | None = None) -> None:
    """Validate a document; raise a :class:`DocumentError` with the position of an error."""
    for _ in judged(chunks, encoding):
        pass


def judged(chunks: Iterable[bytes], encoding: str | None = None) -> Iterator[bytes]:
    """Yield the same bytes, each after expat has parsed it; raise a :class:`DocumentError` if it finds an error."""
    parser = safe_parser(encoding)
    seen, held, size, wait = 0, [], 0, 0
    try:
        for piece in _pieces(chunks):
            held.append(piece)
            size += len(piece)
            if size < wait:
                continue
            data = b"".join(held) if len(held) > 1 else piece
            seen, held, size = seen + size, [], 0
            parser.Parse(data, False)
            # Expat parses an incomplete token again from its start: it gets twice as much of it each time.
            pending = seen - parser.CurrentByteIndex
            wait = min(pending, LONGEST_JUDGED - pending)
            if pending > LONGEST_JUDGED:
                raise RefusedError(f"A tag, comment or processing instruction has more than {LONGEST_JUDGED:,} bytes")
            yield data
        data = b"".join(held)
        parser.Parse(data, True)
        if data:
            yield data
    except expat.ExpatError as error:
        raise DocumentError(_error_text(error), line=error.lineno, column=error.offset + 1) from None
    except RefusedError as error:
        raise _at(parser, str(error)) from None
    except (LookupError, ValueError):  # raised by Python for an encoding that expat looks up
        raise _at(parser, "Unsupported encoding. Supported: UTF-8, UTF-16, and single-byte encodings") from None


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        if len(chunk) <= PIECE:
            yield chunk
            continue
        for begin in range(0, len(chunk), PIECE):
            yield chunk[begin : begin + PIECE]


class RefusedError(Exception):
    """Rejection of a document while expat parses it; the caller adds the position in a DocumentError."""


def _at(parser: expat.XMLParserType, message: str) -> DocumentError:
    return DocumentError(message, line=parser.CurrentLineNumber, column=parser.CurrentColumnNumber + 1)


def _refuse_subset(name: str, system: str | None, public: str | None, subset: int) -> None:
    if subset:
        raise RefusedError("Unsupported document type with an internal subset (declarations)")


def _refuse_entities(*_: object) -> None:
    raise RefusedError("Unsupported entity declaration")


def _error_text(error: expat.ExpatError) -> str:
    said = expat.ErrorString(error.code)
    return said[:1].upper() + said[1:]
