"""Warning about names that patterns have in no namespace and documents in one, a frequent cause of empty results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from xml.parsers import expat

import pyarrow as pa

from perseid.engines.trees.judge import SEPARATOR, RejectedError, safe_parser
from perseid.engines.trees.stream import Documents
from perseid.errors import PerseidError, warn
from perseid.lang.tree_patterns import TreeNode, TreePattern, walk
from perseid.semantics.documents import Name

BEGINNING = 1 << 16
"""Bytes of a document to parse: expat repeats the namespace with every name, and it may be long."""
SAMPLE_BYTES = 1 << 18
"""Bytes of all documents to parse: it is only for a warning."""
_LONG_URI = 200


def warn_of_namespaces(documents: Documents, bodies: Iterable[pa.Array], patterns: Iterable[TreePattern]) -> None:
    """Warn if a name without a namespace in the patterns has one in these documents; for patterns without matches."""
    if "" in dict(documents.namespaces):
        return
    names = _names(_sample(bodies, documents.is_path))
    spaces = {local: uri for uri, local in reversed(names) if uri}  # the first of several
    for name in _unprefixed_names(patterns):
        if name in spaces and ("", name) not in names:
            uri = spaces[name][:_LONG_URI]
            warn(
                f"No matches: {name!r} has no namespace in the pattern, and namespace {uri!r} in the documents. "
                f"Declare the namespace of names without a prefix: ps.documents(…, namespaces={{'': {uri!r}}})."
            )
            return


def _unprefixed_names(patterns: Iterable[TreePattern]) -> Iterator[str]:
    """Yield the names of elements without a prefix."""
    for pattern in patterns:
        for part, _ in walk(pattern):
            if isinstance(part, TreeNode) and not part.is_attribute and part.test.prefix is None:
                yield part.test.local


def _sample(columns: Iterable[pa.Array], is_path: bool) -> Iterator[tuple[bytes, str | None]]:
    """Yield the beginnings of the first documents, each with its encoding if that is known."""
    remaining = SAMPLE_BYTES
    for column in columns:
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        for body in column:
            if remaining <= 0:
                return
            value = body.as_py()
            if value is None:
                continue
            data = (_first_chunk(value) if is_path else value.encode() if is_text else value)[:BEGINNING]
            yield data, "utf-8" if is_text and not is_path else None
            remaining -= len(data)


def _first_chunk(path: str) -> bytes:
    from perseid.engines.trees.reader import file_chunks

    try:
        return b"".join(islice(file_chunks(path), 1))
    except (OSError, PerseidError, ValueError):
        return b""  # an error row reports the reason


def _names(sample: Iterable[tuple[bytes, str | None]]) -> dict[Name, None]:
    """Return the distinct names of elements in document order; of malformed documents those before the error."""
    names: dict[Name, None] = {}

    def element(name: str, _: object) -> None:
        uri, _, local = name.rpartition(SEPARATOR)
        names[uri, local] = None

    for data, encoding in sample:
        parser = safe_parser(encoding)
        parser.StartElementHandler = element
        try:
            parser.Parse(data, False)
        except (expat.ExpatError, LookupError, ValueError, RejectedError):
            continue
    return names
