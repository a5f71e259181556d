"""Validation, by expat, of documents that the scanner cannot prove well formed; nothing is loaded or expanded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.parsers import expat

from perseid.engines.trees.limits import MAX_VALIDATED_TOKEN
from perseid.errors import DocumentError

PIECE = 1 << 16
"""Bytes that expat gets at once. It buffers at most forty times as many, which bounds memory between limit checks."""


SEPARATOR = "\x1f"
"""Between a namespace and a name. Expat rejects namespaces that contain it; no document can contain this one."""


def safe_parser(encoding: str | None = None) -> expat.XMLParserType:
    """Create an expat parser that raises :class:`RejectedError` instead of loading or expanding anything."""
    parser = expat.ParserCreate(encoding, namespace_separator=SEPARATOR)
    parser.StartDoctypeDeclHandler = _refuse_subset
    parser.EntityDeclHandler = _refuse_entities
    return parser


def validate(chunks: Iterable[bytes], encoding: str | None = None) -> None:
    """Validate a document; raise a :class:`DocumentError` with the position of an error."""
    for _ in validated(chunks, encoding):
        pass


def validated(chunks: Iterable[bytes], encoding: str | None = None) -> Iterator[bytes]:
    """Yield the same bytes, each after expat has parsed it; raise a :class:`DocumentError` if it finds an error."""
    parser = safe_parser(encoding)
    total, pieces, size, next_size = 0, [], 0, 0
    try:
        for piece in _pieces(chunks):
            pieces.append(piece)
            size += len(piece)
            if size < next_size:
                continue
            data = b"".join(pieces) if len(pieces) > 1 else piece
            total, pieces, size = total + size, [], 0
            parser.Parse(data, False)
            # Expat parses an incomplete token again from its start: it gets twice as much of it each time.
            pending = total - parser.CurrentByteIndex
            next_size = min(pending, MAX_VALIDATED_TOKEN - pending)
            if pending > MAX_VALIDATED_TOKEN:
                raise RejectedError(
                    f"A tag, comment or processing instruction has more than {MAX_VALIDATED_TOKEN:,} bytes"
                )
            yield data
        data = b"".join(pieces)
        parser.Parse(data, True)
        if data:
            yield data
    except expat.ExpatError as error:
        raise DocumentError(_error_text(error), line=error.lineno, column=error.offset + 1) from None
    except RejectedError as error:
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


class RejectedError(Exception):
    """Rejection of a document while expat parses it; the caller adds the position in a DocumentError."""


def _at(parser: expat.XMLParserType, message: str) -> DocumentError:
    return DocumentError(message, line=parser.CurrentLineNumber, column=parser.CurrentColumnNumber + 1)


def _refuse_subset(name: str, system: str | None, public: str | None, subset: int) -> None:
    if subset:
        raise RejectedError("Unsupported document type with an internal subset (declarations)")


def _refuse_entities(*_: object) -> None:
    raise RejectedError("Unsupported entity declaration")


def _error_text(error: expat.ExpatError) -> str:
    message = expat.ErrorString(error.code)
    return message[:1].upper() + message[1:]
