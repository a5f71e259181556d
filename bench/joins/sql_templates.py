"""Paper 3's own implementation as a baseline: its relations as DuckDB tables and one SQL statement per template.

The tables are those of the paper's Section 4: ``rdoc``, ``rbin`` and their witness relations ``rdocw``, ``rbinw`` with the
bindings of the current documents, and ``rt_0``, ``rt_1``, ... with the queries of each template. ``rvar`` and ``rvarw`` hold
the unary bindings of blocks that reduce to one node. The design favors the database:

- string values are integers from the dictionary that the other methods use;
- equal queries are one row of ``rt`` with their number;
- a statement returns the number of notifications instead of the notifications;
- all windows are infinite, as in the paper, so no statement compares times;
- loading documents and maintaining the state are not timed, as in the paper.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from perseid.engines.joins.graph import Kind, NodeChain, SubscriptionTemplate, TemplateRow
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import ChainBindings

NO_VIEWS, RL_AND_RR, PAIRS = "no views", "RL and RR", "pairs"
VARIANTS = (NO_VIEWS, RL_AND_RR, PAIRS)
"""The conjunctive query of Section 4.4; the views of Section 6.2; and one view that joins RL and RR on the string value."""
NO_VARIABLE = -1
"""Parent variable and parent node of a block that reduces to one node."""

_TABLES = """
create table {0}doc{1}(docid integer, node bigint, strval bigint);
create table {0}bin{1}(docid integer, var1 integer, var2 integer, node1 bigint, node2 bigint);
create table {0}var{1}(docid integer, var integer, node bigint);
"""
_VIEWS = """
create table rl(docid integer, var1 integer, var2 integer, node1 bigint, node2 bigint, strval bigint);
create table rr(docid integer, var1 integer, var2 integer, node1 bigint, node2 bigint, strval bigint);
create table pairs(docid1 integer, var1 integer, var2 integer, node1 bigint, node2 bigint,
                   docid2 integer, var3 integer, var4 integer, node3 bigint, node4 bigint);
"""
# Leaf edges of the documents on one side with string values that occur on the other side.
_LEAVES = """
with leaves as (
  select b.docid, b.var1, b.var2, b.node1, b.node2, d.strval
  from {one}doc{side} d join {one}bin{side} b on d.docid = b.docid and d.node = b.node2
  where d.strval in (select strval from {one}doc{other})
  union all
  select b.docid, -1, b.var, -1, b.node, d.strval
  from {one}doc{side} d join {one}var{side} b on d.docid = b.docid and d.node = b.node
  where d.strval in (select strval from {one}doc{other}))
"""


class SqlTemplates:
    """Queries and the state of a stream of documents inside DuckDB, on one thread.

    Documents are numbered as they come. ``stage`` declares documents, ``retain`` moves staged documents into the state
    without joining them, ``join`` joins staged documents and returns how long its statements take.
    """

    def __init__(self, subscriptions: Subscriptions, variant: str, indexed: bool = False) -> None:
        if variant not in VARIANTS:
            raise ValueError(f"variant {variant!r} is not one of {', '.join(VARIANTS)}")
        self.variant = variant
        self.connection = duckdb.connect()
        self.connection.execute("set threads = 1")
        for side in ("", "w"):
            self.connection.execute(_TABLES.format("r", side))
        self.connection.execute(_TABLES.format("staged_", ""))
        self.connection.execute(_VIEWS)
        if indexed:
            self.connection.execute("create index rdoc_strval on rdoc(strval)")
            self.connection.execute("create index rbin_node on rbin(node2)")
        self.variables: dict[tuple[str, str], int] = {}
        self.members: list[list[Any]] = []
        """By query id in ``rt``: the owners of the equal queries that it represents."""
        self.chains = list(subscriptions.chains)
        self.templates = list(subscriptions.templates)
        self._values = subscriptions.values
        self._fill_templates(subscriptions.numbers)
        self.documents = 0
        self._prepared = False

    def _fill_templates(self, entries: Iterable[tuple[Any, TemplateRow]]) -> None:
        by_template: dict[SubscriptionTemplate, dict[tuple[int, ...], list[Any]]] = {
            template: {} for template in self.templates
        }
        variables: dict[int, tuple[int, ...]] = {}
        for owner, row in entries:
            if id(row) not in variables:
                variables[id(row)] = self._variables_of(row)
            by_template[row.template].setdefault(variables[id(row)], []).append(owner)
        for number, (template, queries) in enumerate(by_template.items()):
            names = [f"{side}{slot}" for side, slots in _slots_of(template) for slot in slots]
            columns = ", ".join(f"{name} integer" for name in names)
            self.connection.execute(f"create table rt_{number}(qid integer, n integer, {columns})")
            first = len(self.members)
            self.members += queries.values()
            counts = np.array([len(owners) for owners in queries.values()], np.int32)
            of = np.array(list(queries), np.int32).reshape(len(queries), len(names))
            qids = np.arange(first, first + len(counts), dtype=np.int32)
            self._insert(f"rt_{number}", {"qid": qids, "n": counts} | {name: of[:, i] for i, name in enumerate(names)})

    def _variables_of(self, row: TemplateRow) -> tuple[int, ...]:
        """Variables of a query by node of its template: those of the older document, then those of the newer."""
        found: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for edge, asked in zip(row.template.edges, row.edge_chains, strict=True):
            if edge.kind is not Kind.EQUAL:
                raise ValueError("only equalities between two documents are translated to SQL")
            for slots, chain, known in zip((edge.older, edge.newer), (asked.older, asked.newer), found, strict=True):
                assert chain is not None
                known.update(zip(slots, self._variables_on(chain), strict=True))
        return tuple(known[slot] for known in found for slot in sorted(known))

    def _variables_on(self, chain: NodeChain) -> list[int]:
        """Variables that a chain binds, from the root down; equal definitions are one variable."""
        if "[" in chain.tree or "(" in chain.tree:
            raise ValueError(f"{chain.tree} has conditions, which are not translated to SQL")
        path, found = "", []
        for step in chain.tree.lstrip("/").split("/"):
            name, _, variable = step.partition("->")
            path += f"/{name}"
            if variable:
                found.append(self.variables.setdefault((chain.stream, path), len(self.variables)))
        return found

    def _insert(self, table: str, columns: dict[str, Any]) -> None:
        self.connection.register("arrow", pa.table(columns))
        self.connection.execute(f"insert into {table} select distinct * from arrow order by all")
        self.connection.unregister("arrow")

    def stage(self, count: int, bindings: ChainBindings) -> None:
        """Declare ``count`` further documents with the chains found in them."""
        values = np.asarray(self._values.numbers(bindings.texts), np.int64)
        documents = self.documents + np.asarray(bindings.documents, np.int64)
        chains, at = np.asarray(bindings.chains), np.asarray(bindings.at)
        nodes = np.asarray(bindings.nodes)
        rdoc, rbin, rvar = [], [], []
        for number, chain in enumerate(self.chains):
            rows = np.flatnonzero(chains == number)
            variables = self._variables_on(chain)
            bound = [nodes[at[rows] + k] for k in range(chain.height)]
            rdoc.append((documents[rows], bound[-1], values[rows]))
            if chain.height == 1:
                rvar.append((documents[rows], np.full(len(rows), variables[0]), bound[0]))
            for k in range(chain.height - 1):
                one, other = (np.full(len(rows), variable) for variable in variables[k : k + 2])
                rbin.append((documents[rows], one, other, bound[k], bound[k + 1]))
        for table, names, parts in (
            ("staged_doc", ("docid", "node", "strval"), rdoc),
            ("staged_bin", ("docid", "var1", "var2", "node1", "node2"), rbin),
            ("staged_var", ("docid", "var", "node"), rvar),
        ):
            if parts:
                columns = (np.concatenate(part) for part in zip(*parts, strict=True))
                self._insert(table, dict(zip(names, columns, strict=True)))
        self.documents += count

    def retain(self, first: int, last: int) -> None:
        """Move documents into the state without joining them."""
        for table in ("doc", "bin", "var"):
            self.connection.execute(
                f"insert into r{table} select * from staged_{table} where docid between ? and ?", [first, last - 1]
            )

    def reset(self, first: int) -> None:
        """Remove documents from the state, from the one with this number on."""
        for table in ("doc", "bin", "var"):
            self.connection.execute(f"delete from r{table} where docid >= ?", [first])

    def join(self, first: int, last: int, limit_s: float) -> tuple[float, int]:
        """Join these documents with all earlier ones and with each other: seconds in statements, and notifications.

        Raises ``TimeoutError`` after ``limit_s`` seconds.
        """
        self._load(first, last)
        execute, found = self.connection.execute, 0
        timer = threading.Timer(limit_s, self.connection.interrupt)
        timer.start()
        try:
            start = time.perf_counter()
            for name in self._view_statements:
                execute(f"execute {name}")
            for number in range(len(self.templates)):
                (due,) = execute(f"execute cq_{number}").fetchone() or (0,)
                found += int(due)
                if time.perf_counter() - start > limit_s:
                    raise TimeoutError
            return time.perf_counter() - start, found
        except duckdb.InterruptException as error:
            raise TimeoutError from error
        finally:
            timer.cancel()

    def notifications(self, first: int, last: int) -> list[tuple[Any, int, int, tuple[int, ...]]]:
        """Join as ``join`` does: owner, older document, newer document and the bound nodes of each notification."""
        self._load(first, last)
        for name in self._view_statements:
            self.connection.execute(f"execute {name}")
        found = []
        for number, template in enumerate(self.templates):
            for qid, older, newer, *nodes in self.connection.execute(
                self._statement(number, template, True)
            ).fetchall():
                found += [(owner, older, newer, tuple(nodes)) for owner in self.members[qid]]
        return found

    def measure_overhead(self, repetitions: int = 200) -> float:
        """Seconds of a prepared statement that reads no table."""
        self.connection.execute("prepare nothing as select 1")
        start = time.perf_counter()
        for _ in range(repetitions):
            self.connection.execute("execute nothing").fetchone()
        seconds = (time.perf_counter() - start) / repetitions
        self.connection.execute("deallocate nothing")
        return seconds

    def close(self) -> None:
        self.connection.close()

    def _load(self, first: int, last: int) -> None:
        """Fill the witness relations and the state; documents of one batch are joined with each other."""
        for table in ("doc", "bin", "var"):
            self.connection.execute(f"delete from r{table}w")
            self.connection.execute(
                f"insert into r{table}w select * from staged_{table} where docid between ? and ?", [first, last - 1]
            )
        self.retain(first, last)
        for view in ("rl", "rr", "pairs"):
            self.connection.execute(f"delete from {view}")
        if not self._prepared:
            self._prepare()

    @property
    def _view_statements(self) -> tuple[str, ...]:
        return {NO_VIEWS: (), RL_AND_RR: ("make_rl", "make_rr"), PAIRS: ("make_pairs",)}[self.variant]

    def _prepare(self) -> None:
        """Prepare the statements, once the tables hold documents: the optimizer reads their sizes."""
        older = _LEAVES.format(one="r", side="", other="w")
        newer = _LEAVES.format(one="r", side="w", other="")
        joined = (
            f"with rl as ({older} select * from leaves), rr as ({newer} select * from leaves) "
            "insert into pairs select rl.docid, rl.var1, rl.var2, rl.node1, rl.node2, "
            "rr.docid, rr.var1, rr.var2, rr.node1, rr.node2 "
            "from rl join rr on rl.strval = rr.strval and rl.docid < rr.docid"
        )
        if self.variant == RL_AND_RR:
            self.connection.execute(f"prepare make_rl as {_inserted(older, 'rl')}")
            self.connection.execute(f"prepare make_rr as {_inserted(newer, 'rr')}")
        elif self.variant == PAIRS:
            self.connection.execute(f"prepare make_pairs as {joined}")
        for name in self._view_statements:  # so that the sizes of views are also known
            self.connection.execute(f"execute {name}")
        for number, template in enumerate(self.templates):
            self.connection.execute(f"prepare cq_{number} as {self._statement(number, template, False)}")
        for view in ("rl", "rr", "pairs"):
            self.connection.execute(f"delete from {view}")
        self._prepared = True

    def _statement(self, number: int, template: SubscriptionTemplate, listed: bool) -> str:
        """The conjunctive query of a template: its notifications, or their number."""
        query = _ConjunctiveQuery()
        for e, edge in enumerate(template.edges):
            chains = (("o", edge.older), ("w", edge.newer))
            if self.variant == PAIRS:
                query.add_pair(e, edge.older, edge.newer)
            for side, slots in chains:
                upper = slots
                if self.variant != NO_VIEWS:
                    upper = slots[:-1]
                if self.variant == RL_AND_RR:
                    query.add_leaf(side, e, slots)
                if self.variant == NO_VIEWS:
                    query.add_document(side, e, slots[-1])
                query.add_structure(side, upper, unary=self.variant == NO_VIEWS)
            if self.variant != PAIRS:
                query.conditions.append(f"{query.strings['o', e]} = {query.strings['w', e]}")
        query.conditions.append(f"{query.documents['o']} < {query.documents['w']}")
        chosen = "coalesce(sum(rt.n), 0)"
        if listed:
            nodes = [query.nodes[side, slot] for side, slots in _slots_of(template) for slot in slots]
            chosen = ", ".join(["rt.qid", query.documents["o"], query.documents["w"], *nodes])
        return f"select {chosen} from rt_{number} rt, {', '.join(query.tables)} where {' and '.join(query.conditions)}"


class _ConjunctiveQuery:
    """Tables and conditions of a template's statement while it is built."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.conditions: list[str] = []
        self.nodes: dict[tuple[str, int], str] = {}
        self.documents: dict[str, str] = {}
        self.strings: dict[tuple[str, int], str] = {}
        self._edges: set[tuple[str, tuple[int, ...]]] = set()

    def add_document(self, side: str, edge: int, slot: int) -> None:
        """A copy of Rdoc for one end of a value join."""
        alias = f"d{side}{edge}"
        self.tables.append(f"rdoc{_suffix(side)} {alias}")
        self._same_document(side, f"{alias}.docid")
        self._bind(side, slot, f"{alias}.node")
        self.strings[side, edge] = f"{alias}.strval"

    def add_structure(self, side: str, slots: Sequence[int], unary: bool) -> None:
        """A copy of Rbin for each structural edge between consecutive nodes that has none yet."""
        if unary and len(slots) == 1 and self._is_new(side, tuple(slots)):
            alias = f"v{side}{slots[0]}"
            self.tables.append(f"rvar{_suffix(side)} {alias}")
            self._same_document(side, f"{alias}.docid")
            self.conditions.append(f"{alias}.var = rt.{side}{slots[0]}")
            self._bind(side, slots[0], f"{alias}.node")
        for one, other in pairwise(slots):
            if self._is_new(side, (one, other)):
                alias = f"b{side}{one}_{other}"
                self.tables.append(f"rbin{_suffix(side)} {alias}")
                self._bind_edge(side, alias, (one, other), ("var1", "var2"), ("node1", "node2"), "docid")

    def add_leaf(self, side: str, edge: int, slots: Sequence[int]) -> None:
        """A copy of RL or RR for one end of a value join."""
        alias = f"l{side}{edge}"
        self.tables.append(f"{'rl' if side == 'o' else 'rr'} {alias}")
        self._bind_edge(side, alias, slots[-2:], ("var1", "var2"), ("node1", "node2"), "docid")
        self.strings[side, edge] = f"{alias}.strval"

    def add_pair(self, edge: int, older: Sequence[int], newer: Sequence[int]) -> None:
        """A copy of the view of pairs for a value join."""
        self.tables.append(f"pairs p{edge}")
        self._bind_edge("o", f"p{edge}", older[-2:], ("var1", "var2"), ("node1", "node2"), "docid1")
        self._bind_edge("w", f"p{edge}", newer[-2:], ("var3", "var4"), ("node3", "node4"), "docid2")

    def _bind_edge(
        self, side: str, alias: str, slots: Sequence[int], variables: Sequence[str], nodes: Sequence[str], document: str
    ) -> None:
        self._same_document(side, f"{alias}.{document}")
        if len(slots) == 1:
            self.conditions.append(f"{alias}.{variables[0]} = {NO_VARIABLE}")
        for slot, variable, node in zip(slots, variables[-len(slots) :], nodes[-len(slots) :], strict=True):
            self.conditions.append(f"{alias}.{variable} = rt.{side}{slot}")
            self._bind(side, slot, f"{alias}.{node}")

    def _is_new(self, side: str, slots: tuple[int, ...]) -> bool:
        known = (side, slots) in self._edges
        self._edges.add((side, slots))
        return not known

    def _bind(self, side: str, slot: int, column: str) -> None:
        first = self.nodes.setdefault((side, slot), column)
        if first != column:
            self.conditions.append(f"{column} = {first}")

    def _same_document(self, side: str, column: str) -> None:
        first = self.documents.setdefault(side, column)
        if first != column:
            self.conditions.append(f"{column} = {first}")


def _slots_of(template: SubscriptionTemplate) -> list[tuple[str, list[int]]]:
    """The nodes of a template on the side of the older document and of the newer one."""
    return [
        ("o", sorted({slot for edge in template.edges for slot in edge.older})),
        ("w", sorted({slot for edge in template.edges for slot in edge.newer})),
    ]


def _suffix(side: str) -> str:
    return "" if side == "o" else "w"


def _inserted(leaves: str, table: str) -> str:
    return f"{leaves} insert into {table} select * from leaves"
