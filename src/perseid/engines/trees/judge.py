"""The judge of documents that the scanner cannot prove well formed: expat, told to load and expand nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.parsers import expat

from perseid.errors import DocumentError


def judge(chunks: Iterable[bytes]) -> None:
    """Say nothing, or raise a :class:`DocumentError` with the place of what is wrong."""
    # Expat refuses namespaces that have the separator in them; this one no document can have.
    parser = expat.ParserCreate(namespace_separator="\x1f")
    parser.StartDoctypeDeclHandler = _refuse_subset
    parser.EntityDeclHandler = _refuse_entities
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise DocumentError(_said(error), line=error.lineno, column=error.offset + 1) from None
    except _RefusedError as error:
        raise DocumentError(str(error), line=parser.CurrentLineNumber, column=parser.CurrentColumnNumber + 1) from None


class _RefusedError(Exception):
    """Raised through expat, which cannot raise ours: where it stands is known outside."""


def _refuse_subset(name: str, system: str | None, public: str | None, subset: int) -> None:
    if subset:
        raise _RefusedError("A document type with declarations of its own is not read")


def _refuse_entities(*_: Any) -> None:
    raise _RefusedError("Entities that a document declares are not read")


def _said(error: expat.ExpatError) -> str:
    return expat.ErrorString(error.code).capitalize()
