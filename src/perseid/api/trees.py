"""Sets of tree patterns without event patterns, and their queries over streams of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, overload

from perseid.api.arguments import Frame, SparkData, all_on_spark
from perseid.api.keywords import check_keywords
from perseid.api.stream_kinds.registry import kind_of
from perseid.deprecated import deprecated_method
from perseid.engines.trees.engine import Trees
from perseid.engines.trees.explain import explain_tree
from perseid.engines.trees.stream import Documents
from perseid.errors import EventDataError, PatternError, PerseidError, SemanticError
from perseid.lang.tree_parser import parse_tree
from perseid.lang.tree_patterns import TreePattern, print_tree, return_names
from perseid.viz.draw import Format
from perseid.viz.tree_drawing import draw as draw_tree

if TYPE_CHECKING:
    import pyarrow as pa

_RESULT_COLUMNS = ("pattern", "place", "nodes", "error")


class TreePatterns:
    """Tree patterns without event patterns: each result in a document is a row with all returned nodes."""

    def __init__(self, texts: Mapping[str, str], patterns: Mapping[str, TreePattern]) -> None:
        self._texts = dict(texts)
        self._patterns = dict(patterns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def __repr__(self) -> str:
        return f"<tree patterns {', '.join(self.names)}>"

    def __str__(self) -> str:
        return "\n".join(map(print_tree, self._patterns.values()))

    def explain(self, *, rules: bool = False) -> str:
        """An explanation of each tree pattern: its nodes, output and state; with ``rules`` those of its transducer."""
        return "\n".join(explain_tree(name, tree, rules=rules) for name, tree in self._patterns.items())

    def draw(self, format: Format = "text") -> str:
        """The transducers as ``text``, ``mermaid`` or ``dot``."""
        return "\n".join(draw_tree(tree, format, name) for name, tree in self._patterns.items())

    @overload
    def match(self, stream: Documents[SparkData]) -> Frame: ...

    @overload
    def match(self, stream: Documents[object]) -> pa.Table: ...

    @check_keywords
    def match(self, stream: Documents) -> pa.Table | Frame:
        """The results in documents: an Arrow table for local ones, a DataFrame for a DataFrame, batch or streaming.

        Columns are those of the documents without their bodies, then ``pattern``, ``place`` (the index, among the
        document's elements and attributes, at which the result begins), for each return name the texts of its nodes,
        ``nodes`` with all nodes and runs, those inside others one ``level`` deeper, and ``error``. A document that
        cannot be read is a row with an ``error``: the reason, line and column.
        """
        documents = _documents(stream)
        trees = self._plan(documents)
        tables = documents.inputs()
        if not all_on_spark(data for _, data in tables):
            from perseid.engines.trees.local import match_locally

            return match_locally(documents, trees, self.names)
        from perseid.spark.documents import describe_table, prepare_rows

        schemas = [describe_table(frame, event_type) for event_type, frame in tables]
        return prepare_rows(documents.bind_trees(trees, self.names, schemas), [frame for _, frame in tables])

    detect = deprecated_method("detect", match)

    def _plan(self, documents: Documents) -> Trees:
        for name, tree in self._patterns.items():
            try:
                check_trees([tree], documents)
            except PatternError as error:
                raise error.locate(self._texts[name]) from None
        return documents.trees(self._patterns.values())


def _documents(stream: object) -> Documents:
    """The stream as documents; raises if it has none."""
    hint = "Use ps.documents(df, body='xml')."
    return kind_of(stream).as_documents(
        stream, EventDataError("Tree patterns require a stream of documents.", hint=hint)
    )


@check_keywords
def tree_patterns(patterns: str | Iterable[str] | Mapping[str, str]) -> TreePatterns:
    """Tree patterns from their texts, ``"//order->o[/total > 100]"``: one, several, or several by name."""
    if isinstance(patterns, str):
        patterns = {"tree": patterns}
    elif not isinstance(patterns, Mapping):
        patterns = {f"tree{number}": text for number, text in enumerate(patterns, 1)}
    if not patterns:
        raise PerseidError("No tree pattern is given.", hint="Use ps.xml.tree_patterns('//order->o').")
    parsed = {name: parse_tree(text).pattern for name, text in patterns.items()}
    for tree in parsed.values():
        for returned in return_names(tree):
            if returned in _RESULT_COLUMNS:
                raise SemanticError(
                    f"The return name {returned!r} is the name of a column of every result.",
                    hint=f"Use another name: ->{returned}_node.",
                )
    return TreePatterns(patterns, parsed)


def check_trees(trees: Iterable[TreePattern], stream: Documents) -> None:
    """Raise an error for tree patterns that cannot run over documents with these namespaces."""
    from perseid.engines.trees.plan import tree_plan

    for tree in trees:
        tree_plan([tree], dict(stream.namespaces))
