"""Tree patterns on their own, as users hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from perseid.declare import named_words
from perseid.engines.trees.engine import Trees
from perseid.errors import EventDataError, MeaningError, PatternError, PerseidError
from perseid.given import Frame
from perseid.lang.tree_parser import parse_tree
from perseid.lang.tree_patterns import TreePattern, print_tree, return_names
from perseid.local.documents import Documents
from perseid.local.rows import require_here
from perseid.viz.draw import Format
from perseid.viz.tree_drawing import draw as draw_tree
from perseid.viz.trees import explain_tree

if TYPE_CHECKING:
    import pyarrow as pa

_RESULT_COLUMNS = ("pattern", "place", "nodes", "error")


class TreePatterns:
    """Tree patterns on their own: what each finds in a document is a row, with all nodes it returns."""

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
        """What each asks for, when that is told and what is kept; with ``rules`` also the rules of its transducer."""
        return "\n".join(explain_tree(name, tree, rules=rules) for name, tree in self._patterns.items())

    def draw(self, format: Format = "text") -> str:
        """The transducers as ``text``, ``mermaid`` or ``dot``."""
        return "\n".join(draw_tree(tree, format, name) for name, tree in self._patterns.items())

    @named_words
    def match(self, stream: Documents) -> pa.Table:
        """What is found in documents of this process: an Arrow table with a row for each result.

        Columns are those of the documents without their bodies, then ``pattern``, ``place`` (which of the document's
        elements and attributes it begins with), for each return name the texts of its nodes, ``nodes`` with all nodes and
        runs, those inside others one ``level`` deeper, and ``error``. A document that cannot be read is a row with an
        ``error``: what is wrong, line and column.
        """
        trees = self._for(stream)
        for _, data in stream.inputs():
            require_here("match", data)
        from perseid.local.trees import find_here

        return find_here(stream, trees, self.names)

    @named_words
    def detect(self, stream: Documents) -> Frame:
        """What is found in documents of a Spark DataFrame, batch or stream: a DataFrame with columns as :meth:`match` has."""
        trees = self._for(stream)
        from perseid.spark.documents import detect_trees

        return detect_trees(stream, trees, self.names)

    def _for(self, stream: Documents) -> Trees:
        if not isinstance(stream, Documents):
            raise EventDataError(
                "Tree patterns are asked of documents.", hint="Declare them: ps.documents(df, body='xml')."
            )
        for name, tree in self._patterns.items():
            try:
                check_trees([tree], stream)
            except PatternError as error:
                raise error.locate(self._texts[name]) from None
        return stream.trees(print_tree(tree) for tree in self._patterns.values())


@named_words
def trees(patterns: str | Iterable[str] | Mapping[str, str]) -> TreePatterns:
    """Tree patterns from their texts, ``"//order->o[/total > 100]"``: one, several, or several by name."""
    if isinstance(patterns, str):
        patterns = {"tree": patterns}
    elif not isinstance(patterns, Mapping):
        patterns = {f"tree{number}": text for number, text in enumerate(patterns, 1)}
    if not patterns:
        raise PerseidError("There is no tree pattern.", hint="Give one: ps.trees('//order->o').")
    parsed = {name: parse_tree(text).pattern for name, text in patterns.items()}
    for tree in parsed.values():
        for returned in return_names(tree):
            if returned in _RESULT_COLUMNS:
                raise MeaningError(
                    f"A node is returned as {returned!r}, as a column of the results is called.",
                    hint=f"Give it another name: ->{returned}_node.",
                )
    return TreePatterns(patterns, parsed)


def check_trees(trees: Iterable[TreePattern], stream: Documents) -> None:
    """That tree patterns can be run over documents with these namespaces."""
    from perseid.engines.trees.plan import tree_plan

    for tree in trees:
        tree_plan([tree], dict(stream.namespaces))
