"""Live models as users declare them: what they may contain, what is asked of them, and the rows of their changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perseid.declare import named_words
from perseid.errors import EventDataError, PatternError, PatternSyntaxError
from perseid.lang import ast
from perseid.lang.models import ModelFile
from perseid.lang.parser import parse_models
from perseid.local.models import ROLES, Models, events_here
from perseid.local.rows import Events, require_here
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_queries import Queries, check_queries
from perseid.semantics.model_steps import Group, grouped
from perseid.viz.models import explain_models


class Metamodel:
    """What models may contain and what is asked of them; make one with :func:`perseid.metamodel`."""

    def __init__(self, file: ModelFile, source: str) -> None:
        if file.metamodel is None:
            raise PatternSyntaxError(
                "This text does not say what a model may contain.",
                source=source,
                hint="Begin it with: model name, node …, edge ….",
            )
        self._file = file
        self.queries: Queries = check_queries(kinds_of(file.metamodel), file.queries)

    @property
    def name(self) -> str:
        assert self._file.metamodel is not None
        return self._file.metamodel.name

    @property
    def patterns(self) -> tuple[ast.Pattern, ...]:
        """The patterns of the text; :func:`perseid.patterns` makes a set of them."""
        return self._file.patterns

    def __repr__(self) -> str:
        return f"<model {self.name}: {', '.join(self.queries.queries) or 'no queries'}>"


def metamodel(text: str) -> Metamodel:
    """Read what a model may contain, the queries over it, and patterns over what these find and lose."""
    try:
        return Metamodel(parse_models(text), text)
    except PatternError as error:
        error.locate(text)
        raise


@named_words
def model(
    data: Any,
    metamodel: Metamodel,
    *,
    time: str = "ts",
    key: str | Iterable[str] = (),
    order_by: str | Iterable[str] = (),
    change: str = "change",
    element: str = "element",
    kind: str = "kind",
    attribute: str = "attribute",
    value: str = "value",
    target: str = "target",
    observe: str | Iterable[str] = (),
) -> Models:
    """Declare changes of live models: a row for each elementary change, and which of its columns mean what.

    ``change`` says what is done: ``create`` a node of a ``kind``, ``delete`` it, ``set`` an ``attribute`` to a ``value``,
    ``link`` an ``element`` to a ``target`` by an edge of a ``kind``, ``unlink`` it. ``key`` tells models apart: each has its own
    nodes, and patterns look at one model at a time. All changes of a model at one time are one transaction, in the order of
    ``order_by``; queries see its end. Without ``order_by`` edges are taken away first, then nodes; then nodes are made,
    attributes set and edges made.

    The events of a model are the matches of queries found, updated and lost, for the queries that patterns name and those
    in ``observe``, and the elementary changes that patterns name.
    """
    if not isinstance(metamodel, Metamodel):
        raise EventDataError(
            f"A model is one of a metamodel, and this is {type(metamodel).__name__}.",
            hint="ps.model(rows, ps.metamodel('''model cps node Host (cpu bigint) …''')).",
        )
    columns = dict(zip(ROLES, (change, element, kind, attribute, value, target), strict=True))
    return Models(data, metamodel.queries, time, _names(key), _names(order_by), columns, _names(observe))


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def over_events(patterns: tuple[ast.Pattern, ...], stream: Models) -> list[tuple[Group, Events]]:
    """Patterns over a model as patterns over its events, by what these are."""
    require_here("match", stream.data)
    groups = grouped(patterns, stream.queries, stream.key, stream.observe)
    return list(zip(groups, events_here(stream, [group.watched for group in groups]), strict=True))


def explain_model(patterns: tuple[ast.Pattern, ...], stream: Models) -> str:
    """The model that patterns are asked of, in words."""
    groups = grouped(patterns, stream.queries, stream.key, stream.observe)
    return explain_models(stream.queries, groups, stream.key)
