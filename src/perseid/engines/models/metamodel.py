"""A metamodel: kinds of nodes and edges, with the queries, patterns, rules and repairs of its text."""

from __future__ import annotations

from perseid.errors import EventDataError, PatternError, PatternSyntaxError
from perseid.lang import ast
from perseid.lang.models import ModelFile
from perseid.lang.parser import parse_models
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_queries import Queries, check_queries
from perseid.semantics.rules import Rules, check_rules


class Metamodel:
    """Kinds of nodes and edges, queries and rules; create it with :func:`perseid.graph.metamodel`."""

    def __init__(self, file: ModelFile, source: str) -> None:
        if file.metamodel is None:
            raise PatternSyntaxError(
                "The text has no declaration of a model.",
                source=source,
                hint="Begin the text with: model name, node …, edge ….",
            )
        self._file = file
        self.queries: Queries = check_queries(kinds_of(file.metamodel), file.queries)
        self.rules: Rules = check_rules(self.queries, file, source)

    @property
    def name(self) -> str:
        assert self._file.metamodel is not None
        return self._file.metamodel.name

    @property
    def patterns(self) -> tuple[ast.PatternDefinition, ...]:
        """The patterns of the text; :func:`perseid.patterns` compiles them to a set."""
        return self._file.patterns

    def __repr__(self) -> str:
        return f"<model {self.name}: {', '.join(self.queries.queries) or 'no queries'}>"


def metamodel(text: str) -> Metamodel:
    """Parse a metamodel: kinds of nodes and edges, queries, patterns over changes of their matches, rules and repairs."""
    try:
        return Metamodel(parse_models(text), text)
    except PatternError as error:
        error.locate(text)
        raise


def require_metamodel(metamodel: object) -> None:
    """Raise an error unless the argument is a :class:`Metamodel`."""
    if not isinstance(metamodel, Metamodel):
        raise EventDataError(
            f"Expected a metamodel, got {type(metamodel).__name__}.",
            hint="Use ps.graph.model(rows, ps.graph.metamodel('''model cps node Host (cpu bigint) …''')).",
        )
