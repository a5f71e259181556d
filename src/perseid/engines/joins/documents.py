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
from perseid.engines.joins.plan import CHAIN_COLUMNS, CHAINS, NODES, TEXTS
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
    lengths_of_chains = heights_of(chains)
    nodes = bindings.nodes[_ranges(bindings.at, lengths_of_chains)]
    lengths = np.bincount(bindings.documents, weights=lengths_of_chains, minlength=count).astype(np.int64)
    present = np.flatnonzero(rows)
    texts = pa.array(bindings.texts, pa.string())
    return present, {
        CHAINS: _lists(rows[present], pa.array(chains)),
        TEXTS: _lists(rows[present], texts),
        NODES: _lists(lengths[present], pa.array(nodes)),
    }


def retain_chains(
    columns: Mapping[str, pa.ListArray], keys: Mapping[int, int]
) -> tuple[IntArray, dict[str, pa.ListArray]]:
    """Retain only the rows of chains in ``keys``: the documents that have any, and their columns."""
    chains = np.asarray(columns[CHAINS].flatten())
    rows = np.diff(np.asarray(columns[CHAINS].offsets))
    document = np.repeat(np.arange(len(rows)), rows)
    is_requested = np.isin(chains, np.fromiter(keys, np.int64, len(keys)))
    if is_requested.all() and rows.all():
        return np.arange(len(rows)), {name: columns[name] for name in CHAIN_COLUMNS}
    lengths_of_chains = heights_of(chains)
    nodes = np.asarray(columns[NODES].flatten())[np.repeat(is_requested, lengths_of_chains)]
    remaining = np.bincount(document[is_requested], minlength=len(rows))
    lengths = np.bincount(document[is_requested], weights=lengths_of_chains[is_requested], minlength=len(rows)).astype(
        np.int64
    )
    present = np.flatnonzero(remaining)
    return present, {
        CHAINS: _lists(remaining[present], pa.array(chains[is_requested])),
        TEXTS: _lists(remaining[present], columns[TEXTS].flatten().filter(pa.array(is_requested))),
        NODES: _lists(lengths[present], pa.array(nodes)),
    }


def as_bindings(columns: Mapping[str, pa.ListArray], keys: Mapping[int, int]) -> ChainBindings:
    """Decode the columns of documents into bindings; ``keys`` has all their chains."""
    chains = np.asarray(columns[CHAINS].flatten())
    rows = np.diff(np.asarray(columns[CHAINS].offsets))
    lengths_of_chains = heights_of(chains)
    distinct, inverse = np.unique(chains, return_inverse=True)
    numbers = np.array([keys[key] for key in distinct.tolist()], np.int64)
    return ChainBindings(
        np.repeat(np.arange(len(rows)), rows),
        numbers[inverse] if len(distinct) else distinct,
        columns[TEXTS].flatten().to_pylist(),
        np.cumsum(lengths_of_chains) - lengths_of_chains,
        np.asarray(columns[NODES].flatten()),
    )


def _ranges(begins: IntArray, lengths: IntArray) -> IntArray:
    """Concatenate the index ranges with these begins and lengths."""
    ends = np.cumsum(lengths)
    indices: IntArray = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - (ends - lengths), lengths)
    return indices


def _lists(lengths: IntArray, values: pa.Array) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
