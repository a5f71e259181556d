"""Apply transactions to a graph: valid changes, the nodes they touch, and changes of query matches.

A transaction is all changes of one point in time; queries are evaluated at its end. A match is *found* if it is new,
*lost* if it is gone, and *updated* if it remains and a node among its parameters changed: a new attribute value, or an
edge at it was added or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from perseid.errors import PerseidError
from perseid.semantics.graphs import AppliedChange, Change, Element, Graph, Happening, same
from perseid.semantics.model_queries import Match
from perseid.semantics.model_values import order_key
from perseid.semantics.values import Value


@dataclass(frozen=True, slots=True)
class QueryChange:
    """A match that appeared, changed, or disappeared: an event for steps such as ``found q``."""

    change: str
    query: str
    match: Match


@dataclass(slots=True)
class TransactionEffects:
    """Effects of one transaction: elementary changes, query changes, rejected changes, and events without a change."""

    done: list[AppliedChange]
    changes: list[QueryChange]
    refused: list[tuple[Change, str]]
    happened: list[Happening] = field(default_factory=list)


def split_input(changes: Iterable[Change | Happening]) -> tuple[list[Change], list[Happening]]:
    """Split the input of one point in time into changes and other events.

    Without a change there is no transaction: query results do not depend on unrelated events.
    """
    all_changes = list(changes)
    happened = [one for one in all_changes if isinstance(one, Happening)]
    return [one for one in all_changes if isinstance(one, Change)] if happened else all_changes, happened  # type: ignore[return-value]


def applied(graph: Graph, changes: Iterable[Change]) -> tuple[list[AppliedChange], list[tuple[Change, str]]]:
    """Apply every valid change; return the elementary changes, and the rejected ones with the reason."""
    done: list[AppliedChange] = []
    refused: list[tuple[Change, str]] = []
    for change in _order_ties(graph, changes):
        try:
            done.extend(graph.apply(change))
        except PerseidError as error:
            refused.append((change, error.message))
    return done, refused


def _order_ties(graph: Graph, changes: Iterable[Change]) -> Iterator[Change]:
    """Yield changes in order, with tied sets of one attribute sorted by value: null first, NaN last.

    A run is sorted after all changes before it are applied, as these decide the type of the node.
    """
    run: list[Change] = []
    for change in changes:
        if run and not change.tied:
            yield from _by_value(graph, run)
            run = []
        run.append(change)
    yield from _by_value(graph, run)


def _by_value(graph: Graph, run: list[Change]) -> list[Change]:
    return run if len(run) < 2 else sorted(run, key=lambda change: order_key(graph.value_of_set(change)))


def touched(done: Iterable[AppliedChange]) -> set[Element]:
    """Return the nodes that changed: a new attribute value, or an edge at them was added or removed.

    A node deleted and created again under its name is a different node, and so has changed.
    """
    found: set[Element] = set()
    first: dict[tuple[Element, str | None], Value] = {}
    last: dict[tuple[Element, str | None], Value] = {}
    edges: dict[tuple[str, Element, Element | None], int] = {}
    for one in done:
        if one.action == "set":
            first.setdefault((one.element, one.attribute), one.old)
            last[one.element, one.attribute] = one.new
        elif one.action in ("link", "unlink"):
            edge = (one.kind, one.element, one.target)
            edges[edge] = edges.get(edge, 0) + (1 if one.action == "link" else -1)
        elif one.action == "delete":
            found.add(one.element)
    found |= {place[0] for place, new in last.items() if not same(new, first[place])}
    for (_, source, target), weight in edges.items():
        if weight and target is not None:
            found |= {source, target}
    return found
