"""Subscriptions over documents of this process: pairs of documents, and who is to be told of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import Joined, Joiner, notified, pairs
from perseid.engines.joins.output import values_of
from perseid.engines.joins.reading import ChainReader
from perseid.engines.trees.formats import Lot, together
from perseid.errors import DocumentError, EventDataError
from perseid.local.documents import Documents
from perseid.local.tables import read_table, time_column
from perseid.local.trees import bodies_of, whole_array

PART = 4_096
"""Documents that are read and joined together."""
_LEAVE_OUT = "Leave the row out. ps.trees(…).match(…) lists all that cannot be read."


def join_here(documents: Documents, subscriptions: Subscriptions, expand: bool) -> Any:
    """An Arrow table: a row for each pair of documents and choice of nodes, or for each subscription that is due to one."""
    kept, lot, times, streams = _read(documents)
    order = np.argsort(times, kind="stable")
    joiner = Joiner(subscriptions)
    reader = ChainReader(list(subscriptions.chains), documents.namespaces, documents.trusted)
    rows: list[dict[str, Any]] = []
    for begin in range(0, len(order), PART):
        some = order[begin : begin + PART]
        bindings, refused = reader.read(lot.bodies.take(pa.array(some)), [streams[i] for i in some.tolist()])
        for bad in lot.explained([replace(one, row=int(some[one.row])) for one in refused]):
            raise DocumentError(
                f"Row {bad.row + 1}: {bad.what}", line=bad.line or 1, column=bad.column or 1, hint=_LEAVE_OUT
            )
        joined = joiner.add(times[some], bindings)
        rows += _expanded(joined, joiner) if expand else _compact(joined, joiner)
    return _table(rows, kept, order, expand)


def _read(documents: Documents) -> tuple[Any, Lot, Any, list[str]]:
    """All documents: their other columns, their bodies, times and streams."""
    tables, bodies, times, streams = [], [], [], list[str]()
    if documents.is_path:
        raise EventDataError(
            "Documents that are joined are read whole, and these are given by their paths.",
            hint="Read them into a column, and name it: ps.documents(data, body=…).",
        )
    for event_type, data in documents.inputs():
        table = read_table(data, None)
        documents.require(list(table.columns), event_type)
        documents.require_time(list(table.columns))
        tables.append({n: whole_array(c) for n, c in table.columns.items() if n != documents.body})
        bodies.append(bodies_of(documents, table))
        times.append(time_column(table, documents.events.time))
        if event_type is None and documents.type is None:
            raise EventDataError(
                "A subscription names the stream of each block, and nothing says of which stream documents are.",
                hint="Name the column that says it, ps.documents(data, type=…), or give the tables by stream: {'Feed': data}.",
            )
        named = table.columns[documents.type] if event_type is None and documents.type is not None else None
        streams += (
            [event_type or ""] * table.rows if named is None else [str(one) for one in whole_array(named).to_pylist()]
        )
    kept = pa.concat_tables([pa.table(columns) for columns in tables], promote_options="permissive")
    return kept, together(bodies, documents.format), np.concatenate([np.zeros(0, np.int64), *times]), streams


def _compact(joined: Joined, joiner: Joiner) -> Iterator[dict[str, Any]]:
    """A row for each pair; subscriptions of a group whose left block is the newer document's have a row of their own."""
    for group, count, older, newer, _ in pairs(joined):
        owners = joiner.subscriptions.whose(group, count, joined.index)
        for swapped in (False, True):
            whose = [name for name, row in owners if row.swapped is swapped]
            if whose:
                left, right = (newer, older) if swapped else (older, newer)
                yield {"subscriptions": whose, "left": left, "right": right}


def _expanded(joined: Joined, joiner: Joiner) -> Iterator[dict[str, Any]]:
    for (name, row), older, newer, nodes in notified(joined, joiner.subscriptions):
        left, right = (newer, older) if row.swapped else (older, newer)
        values = list(values_of(row, joiner, older, newer, nodes))
        yield {"subscription": name, "left": left, "right": right, "values": values}


def _table(rows: list[dict[str, Any]], kept: Any, order: Any, expand: bool) -> Any:
    documents = {
        side: pa.StructArray.from_arrays(
            [
                whole_array(kept[name]).take(pa.array(order[[row[side] for row in rows]], pa.int64()))
                for name in kept.column_names
            ],
            names=kept.column_names,
        )
        for side in ("left", "right")
    }
    if not expand:
        told = pa.array([[str(one) for one in row["subscriptions"]] for row in rows], pa.list_(pa.string()))
        return pa.table({"subscriptions": told, **documents})
    names = pa.array([str(row["subscription"]) for row in rows], pa.string())
    values = pa.array([row["values"] for row in rows], pa.map_(pa.string(), pa.string()))
    return pa.table({"subscription": names, **documents, "values": values})
