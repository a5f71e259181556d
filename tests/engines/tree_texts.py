"""Tree patterns given as text, compiled for tests."""

from __future__ import annotations

from collections.abc import Iterable

from perseid.engines.trees.engine import Trees, compile_trees
from perseid.engines.trees.formats import XML
from perseid.engines.trees.reader import DocumentReader
from perseid.lang.tree_parser import parse_tree


def compile_texts(
    texts: Iterable[str], namespaces: Iterable[tuple[str, str]] = (), trusted: bool = False, format: str = XML
) -> Trees:
    """Parse tree patterns and compile them."""
    return compile_trees((parse_tree(text).pattern for text in texts), namespaces, trusted, format)


def reader_of(
    texts: Iterable[str], namespaces: Iterable[tuple[str, str]] = (), trusted: bool = False
) -> DocumentReader:
    """A reader of documents for tree patterns."""
    return DocumentReader(compile_texts(texts, namespaces).program, trusted)
