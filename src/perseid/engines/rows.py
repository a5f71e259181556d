"""Rows as a whole: some of them, and one below the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from perseid.engines.arrays import IntArray
from perseid.engines.contract import Column, Rows


def take_rows(rows: Rows, chosen: IntArray) -> Rows:
    """Some rows, by number."""
    places = pa.array(chosen)
    return replace(
        rows,
        time=rows.time[chosen],
        kinds=rows.kinds[chosen],
        columns={name: _take(column, places) for name, column in rows.columns.items()},
        keys={
            route: {name: _take(column, places) for name, column in keys.items()} for route, keys in rows.keys.items()
        },
        identity=rows.identity[chosen],
        ranks=[_take(rank, places) for rank in rows.ranks],
        route=None if rows.route is None else rows.route[chosen],
        decided={n: truth[chosen] for n, truth in rows.decided.items()},
        made={text: _take(column, places) for text, column in rows.made.items()},
        control=None if rows.control is None else rows.control[chosen],
    )


def join_rows(above: Rows, below: Rows) -> Rows:
    """Rows of one shape, one below the other; what is said of them as a whole is taken from those below."""
    if not len(above):
        return below
    names = list(below.kind_names)
    codes = {name: i for i, name in enumerate(names)}
    for name in above.kind_names:
        if name not in codes:
            codes[name] = len(names)
            names.append(name)
    recoded = np.array([*(codes[name] for name in above.kind_names), -1], np.int32)[above.kinds]
    return replace(
        below,
        time=np.concatenate([above.time, below.time]),
        kinds=np.concatenate([recoded, below.kinds]).astype(np.int32, copy=False),
        kind_names=names,
        columns={name: _join(above.columns[name], column) for name, column in below.columns.items()},
        keys={
            route: {name: _join(above.keys[route][name], column) for name, column in keys.items()}
            for route, keys in below.keys.items()
        },
        identity=np.concatenate([above.identity, below.identity]),
        ranks=[_join(*pair) for pair in zip(above.ranks, below.ranks, strict=True)],
        route=None if below.route is None else np.concatenate([above.route, below.route]),
        decided={n: np.concatenate([above.decided[n], truth]) for n, truth in below.decided.items()},
        made={text: _join(above.made[text], column) for text, column in below.made.items()},
    )


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, and without a dictionary: two pieces may have different ones."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _take(column: Column, places: pa.Array) -> pa.Array:
    return whole(column).take(places)


def _join(above: Column, below: Column) -> pa.Array:
    return pa.concat_arrays([whole(above), whole(below)])
