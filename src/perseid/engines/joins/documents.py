"""Documents as rows: what chains were found in each, as lists beside its own columns.

A chain has a key instead of a number: whoever reads documents and whoever joins them know different chains, and learn of
new ones at different times. A key ends in the number of nodes that the chain names, so that rows can be taken apart by
who does not know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from perseid.engines.joins.graph import Chain
from perseid.engines.joins.joiner import Bindings
from perseid.engines.joins.layout import MAX_SLOTS
from perseid.engines.joins.plan import CHAINS, FOUND, NODES, TEXTS
from perseid.errors import LimitError
from perseid.runtime.arrays import IntArray

_HEIGHT_BITS = 7
assert MAX_SLOTS < 1 << _HEIGHT_BITS


def key_of(chain: Chain) -> int:
    digest = blake2b(f"{chain.stream}\0{chain.tree}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 1) & ~((1 << _HEIGHT_BITS) - 1) | chain.height


def heights_of(keys: IntArray) -> IntArray:
    return keys & ((1 << _HEIGHT_BITS) - 1)


def keys_of(chains: Iterable[Chain]) -> IntArray:
    """The keys of chains; that they differ is looked at."""
    keys = np.array([key_of(chain) for chain in chains], np.int64)
    if len(np.unique(keys)) < len(keys):
        raise LimitError(
            "Two chains have one key.", hint="Write one of the subscriptions with other names of elements."
        )
    return keys


def as_columns(bindings: Bindings, keys: IntArray, count: int) -> tuple[IntArray, dict[str, pa.Array]]:
    """What was found in so many documents: which of them have anything in them, and their columns."""
    rows = np.bincount(bindings.documents, minlength=count)
    chains = keys[bindings.chains] if len(bindings.chains) else np.zeros(0, np.int64)
    # Nodes of a row lie together, but rows may have been put into another order than their nodes.
    many = heights_of(chains)
    nodes = bindings.nodes[_ranges(bindings.at, many)]
    lengths = np.bincount(bindings.documents, weights=many, minlength=count).astype(np.int64)
    there = np.flatnonzero(rows)
    texts = pa.array(bindings.texts, pa.string())
    return there, {
        CHAINS: _lists(rows[there], pa.array(chains)),
        TEXTS: _lists(rows[there], texts),
        NODES: _lists(lengths[there], pa.array(nodes)),
    }


def known_only(
    columns: Mapping[str, pa.ListArray], keys: Mapping[int, int]
) -> tuple[IntArray, dict[str, pa.ListArray]]:
    """Of documents, only the rows of chains that somebody here asks for: which have any, and their columns."""
    chains = np.asarray(columns[CHAINS].flatten())
    rows = np.diff(np.asarray(columns[CHAINS].offsets))
    document = np.repeat(np.arange(len(rows)), rows)
    asked = np.isin(chains, np.fromiter(keys, np.int64, len(keys)))
    if asked.all() and rows.all():
        return np.arange(len(rows)), {name: columns[name] for name in FOUND}
    many = heights_of(chains)
    nodes = np.asarray(columns[NODES].flatten())[np.repeat(asked, many)]
    left = np.bincount(document[asked], minlength=len(rows))
    lengths = np.bincount(document[asked], weights=many[asked], minlength=len(rows)).astype(np.int64)
    there = np.flatnonzero(left)
    return there, {
        CHAINS: _lists(left[there], pa.array(chains[asked])),
        TEXTS: _lists(left[there], columns[TEXTS].flatten().filter(pa.array(asked))),
        NODES: _lists(lengths[there], pa.array(nodes)),
    }


def as_bindings(columns: Mapping[str, pa.ListArray], keys: Mapping[int, int]) -> Bindings:
    """Documents as the joiner takes them; all chains are known."""
    chains = np.asarray(columns[CHAINS].flatten())
    rows = np.diff(np.asarray(columns[CHAINS].offsets))
    many = heights_of(chains)
    known, where = np.unique(chains, return_inverse=True)
    numbers = np.array([keys[key] for key in known.tolist()], np.int64)
    return Bindings(
        np.repeat(np.arange(len(rows)), rows),
        numbers[where] if len(known) else known,
        columns[TEXTS].flatten().to_pylist(),
        np.cumsum(many) - many,
        np.asarray(columns[NODES].flatten()),
    )


def _ranges(begins: IntArray, lengths: IntArray) -> IntArray:
    """All places from each beginning on, so many."""
    ends = np.cumsum(lengths)
    places: IntArray = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - (ends - lengths), lengths)
    return places


def _lists(lengths: IntArray, values: pa.Array) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
