"""Documents as rows: the chains found in each, as list columns in addition to its own columns.

A chain has a hash key instead of a number, because readers and joiners have different sets of chains and load new ones at
different times. The low bits of a key are the number of nodes of the chain, so that rows with unknown keys can be split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from perseid.engines.joins.graph import MAX_SLOTS, NodeChain
from perseid.engines.joins.joiner import ChainBindings
from perseid.engines.joins.plan import CHAINS, FOUND, NODES, TEXTS
from perseid.errors import LimitError
from perseid.runtime.arrays import IntArray

_HEIGHT_BITS = 7
assert MAX_SLOTS < 1 << _HEIGHT_BITS


def key_of(chain: NodeChain) -> int:
    digest = blake2b(f"{chain.stream}\0{chain.tree}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 1) & ~((1 << _HEIGHT_BITS) - 1) | chain.height


def heights_of(keys: IntArray) -> IntArray:
    return keys & ((1 << _HEIGHT_BITS) - 1)


def keys_of(chains: Iterable[NodeChain]) -> IntArray:
    """Return the keys of chains, after a check for collisions."""
    keys = np.array([key_of(chain) for chain in chains], np.int64)
    if len(np.unique(keys)) < len(keys):
        raise LimitError(
            "Hash collision: two chains have the same key.", hint="Use other element names in one of the subscriptions."
        )
    return keys


def as_columns(bindings: ChainBindings, keys: IntArray, count: int) -> tuple[IntArray, dict[str, pa.Array]]:
    """Encode the bindings of ``count`` documents: the documents with at least one chain, and their columns."""
    rows = np.bincount(bindings.documents, minlength=count)
    chains = keys[bindings.chains] if len(bindings.chains) else np.zeros(0, np.int64)
    # The nodes of a row are contiguous, but rows may be in another order than their nodes.
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
    """Retain only the rows of chains in ``keys``: the documents that have any, and their columns."""
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


def as_bindings(columns: Mapping[str, pa.ListArray], keys: Mapping[int, int]) -> ChainBindings:
    """Decode the columns of documents into bindings; ``keys`` has all their chains."""
    chains = np.asarray(columns[CHAINS].flatten())
    rows = np.diff(np.asarray(columns[CHAINS].offsets))
    many = heights_of(chains)
    known, where = np.unique(chains, return_inverse=True)
    numbers = np.array([keys[key] for key in known.tolist()], np.int64)
    return ChainBindings(
        np.repeat(np.arange(len(rows)), rows),
        numbers[where] if len(known) else known,
        columns[TEXTS].flatten().to_pylist(),
        np.cumsum(many) - many,
        np.asarray(columns[NODES].flatten()),
    )


def _ranges(begins: IntArray, lengths: IntArray) -> IntArray:
    """Concatenate the index ranges with these begins and lengths."""
    ends = np.cumsum(lengths)
    places: IntArray = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - (ends - lengths), lengths)
    return places


def _lists(lengths: IntArray, values: pa.Array) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
