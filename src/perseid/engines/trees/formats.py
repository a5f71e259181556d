"""Formats of documents other than XML, and their conversion to XML before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.trees.json_documents import json_to_xml
from perseid.engines.trees.row_documents import rows_to_xml
from perseid.errors import DocumentError
from perseid.runtime.contract import BadRecord

if TYPE_CHECKING:
    from perseid.engines.trees.reader import Findings

XML, JSON, ROW = "xml", "json", "row"
FORMATS = (XML, JSON, ROW)
PIECE = 1 << 24
"""Bytes of documents to read before their results are yielded."""
_ROWS = 1 << 13
"""Rows to convert to XML together."""


@dataclass(frozen=True)
class DocumentChunk:
    """A chunk of a column of documents, as XML."""

    first: int
    """The number of its first document."""
    bodies: pa.Array
    converted: bool = False
    """True if converted from another format: positions in the XML are not positions in the source."""
    refused: Mapping[int, BadRecord] = field(default_factory=dict)
    """By number in the chunk: malformed documents; their bodies are null."""

    def explained(self, unread: Sequence[BadRecord]) -> tuple[BadRecord, ...]:
        """Return errors with the reasons and positions of the source documents."""
        if not self.converted:
            return tuple(unread)
        return tuple(self.refused.get(record.row) or replace(record, line=None, column=None) for record in unread)

    def findings(self, findings: Findings) -> Findings:
        return replace(findings, refused=self.explained(findings.refused))


def read_chunks(bodies: pa.Array, format: str) -> Iterator[DocumentChunk]:
    """Yield documents as XML in chunks, so that any number of them, of any size, can be read."""
    if format == JSON:
        yield from _json_chunks(bodies)
    elif format == ROW:
        for first in range(0, len(bodies), _ROWS):
            written = rows_to_xml(bodies.slice(first, _ROWS))
            yield from (replace(chunk, first=chunk.first + first, converted=True) for chunk in _xml_chunks(written))
    else:
        yield from _xml_chunks(bodies)


def together(columns: Iterable[pa.Array], format: str) -> DocumentChunk:
    """Return all documents of some columns in one chunk."""
    columns = list(columns)
    # Texts remain texts: the encoding that a document declares does not apply to them.
    texts = format == XML and all(
        pa.types.is_string(record.type) or pa.types.is_large_string(record.type) for record in columns
    )
    kind = pa.large_string() if texts else pa.large_binary()
    bodies, refused, count = [pa.nulls(0, kind)], {}, 0
    for column in columns:
        for chunk in [DocumentChunk(0, column)] if format == XML else read_chunks(column, format):
            bodies.append(chunk.bodies.cast(kind))
            for record in chunk.refused.values():
                refused[count + record.row] = replace(record, row=count + record.row)
            count += len(chunk.bodies)
    return DocumentChunk(0, pa.concat_arrays(bodies), format != XML, refused)


def _xml_chunks(bodies: pa.Array) -> Iterator[DocumentChunk]:
    lengths = np.asarray(pc.fill_null(pc.binary_length(bodies), 0), np.int64)
    begin = size = 0
    for end, length in enumerate(lengths.tolist(), 1):
        size += length
        if size >= PIECE:
            yield DocumentChunk(begin, bodies.slice(begin, end - begin))
            begin, size = end, 0
    if begin < len(bodies):
        yield DocumentChunk(begin, bodies.slice(begin))


def _json_chunks(bodies: pa.Array) -> Iterator[DocumentChunk]:
    """Yield JSON as XML in chunks. The size as XML is known only after conversion, so a chunk may exceed PIECE."""
    documents: list[bytes | None] = []
    refused: dict[int, BadRecord] = {}
    first = size = 0
    for number, body in enumerate(bodies, 1):
        try:
            documents.append(json_to_xml(body.as_py()) if body.is_valid else None)
            size += len(documents[-1] or b"")
        except DocumentError as error:
            refused[len(documents)] = BadRecord(len(documents), error.message, error.line, error.column)
            documents.append(None)
        if size >= PIECE or number == len(bodies):
            yield DocumentChunk(first, pa.array(documents, pa.large_binary()), True, refused)
            documents, refused, first, size = [], {}, number, 0
