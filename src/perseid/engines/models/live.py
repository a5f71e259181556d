"""A live model: the graph, the network of its queries, and the result of each transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from perseid.engines.models.deltas import Delta
from perseid.engines.models.network import Network
from perseid.engines.models.ranks import in_order
from perseid.engines.models.sources import MovingWindows
from perseid.engines.models.transactions import Key, Transaction
from perseid.semantics.graphs import Change, Element, Graph, Happening
from perseid.semantics.metamodels import unknown as unknown_name
from perseid.semantics.model_changes import QueryChange, TransactionEffects, applied, split_input, touched
from perseid.semantics.model_queries import Match, Queries
from perseid.semantics.values import Value


class LiveModel:
    """Returns the results of :class:`perseid.reference.models.Recomputed`, at a cost proportional to the change."""

    def __init__(self, queries: Queries, reported: Iterable[str] | None = None) -> None:
        """``reported`` names the queries with matches that are reported; by default, all.

        The network runs the other queries too, but their matches are neither stored nor reported.
        """
        self.queries = queries
        self.graph = Graph(queries.kinds)
        self.network = Network(queries)
        reported_names = tuple(queries.queries if reported is None else reported)
        if unknown := [name for name in reported_names if name not in queries.queries]:
            raise unknown_name("query", unknown[0], list(queries.queries))
        self.matches = {
            name: _Matches(queries.node_parameters(name)) for name in queries.queries if name in reported_names
        }

    def transact(self, time: int, changes: Iterable[Change | Happening]) -> TransactionEffects:
        """Apply all changes of one time, in order."""
        model_changes, happened = split_input(changes)
        if happened and not model_changes:
            return TransactionEffects([], [], [], happened)
        done, refused = applied(self.graph, model_changes)
        deltas = self.network.propagate(time, done)
        # Without matches none can be updated. This saves work in the initial load, the largest transaction of all.
        changed = touched(done) if any(matches.at for matches in self.matches.values()) else set()
        query_changes: list[QueryChange] = []
        for name, matches in self.matches.items():
            query_changes.extend(matches.changed(name, deltas.get(self.network.outputs[name], _NOTHING), changed))
        return TransactionEffects(done, query_changes, refused, happened)

    def restore(
        self, changes: Iterable[Change], histories: Mapping[str, Mapping[Element, list[tuple[int, Value]]]]
    ) -> None:
        """Restore a model without reporting matches. ``histories`` has the values in each moving window, by node."""
        done, refused = applied(self.graph, changes)
        if refused:
            raise ValueError(refused[0][1])
        remembered = {
            number: operator.restore(histories.get(operator.name, {}))
            for number, operator in enumerate(self.network.operators)
            if isinstance(operator, MovingWindows)
        }
        deltas = self.network.propagate(0, done, remembered)
        for name, matches in self.matches.items():
            matches.remember(set(deltas.get(self.network.outputs[name], _NOTHING)))


def apply_transactions(
    models: dict[Key, LiveModel],
    queries: Queries,
    reported: Iterable[str] | None,
    transactions: Iterable[Transaction],
) -> Iterator[tuple[Key, int, TransactionEffects]]:
    """Apply transactions to their models, and yield the effects of each; a model begins with its first transaction."""
    for key, time, changes in transactions:
        model = models.get(key)
        if model is None:
            model = models[key] = LiveModel(queries, reported)
        yield key, time, model.transact(time, changes)


class _Matches:
    """The current matches of a query, with an index by the nodes that take part in them."""

    __slots__ = ("at", "nodes", "standing")

    def __init__(self, nodes: tuple[int, ...]) -> None:
        self.nodes = nodes
        self.standing: set[Match] = set()
        self.at: dict[Value, set[Match]] = {}

    def changed(self, name: str, delta: Delta, touched: set[Element]) -> Iterator[QueryChange]:
        found = {row for row, weight in delta.items() if weight > 0}
        lost = {row for row, weight in delta.items() if weight < 0}
        self._forget(lost)
        updated = {match for node in touched for match in self.at.get(node, ())}
        self.remember(found)
        for change, matches in (("lost", lost), ("updated", updated), ("found", found)):
            for match in in_order(matches):
                yield QueryChange(change, name, match)

    def remember(self, matches: set[Match]) -> None:
        """Add matches that did not exist before."""
        self.standing |= matches
        for match in matches:
            for place in self.nodes:
                self.at.setdefault(match[place], set()).add(match)

    def _forget(self, matches: set[Match]) -> None:
        self.standing -= matches
        for match in matches:
            for place in self.nodes:
                at_node = self.at.get(match[place])
                if at_node is not None:
                    at_node.discard(match)
                    if not at_node:
                        del self.at[match[place]]


_NOTHING: Delta = {}
