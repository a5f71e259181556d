"""Stage 1: find chains in documents with the tree matcher (the paper's XPath Evaluator)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from perseid.engines.joins.joiner import ChainBindings
from perseid.engines.joins.program import ChainProgram
from perseid.engines.trees.match_layout import O_LEVEL, O_ORDINAL, O_PATTERN
from perseid.engines.trees.reader import DocumentReader, Findings
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import BadRecord


class ChainReader:
    """Finds the chains of a program in documents of its streams."""

    def __init__(self, program: ChainProgram, trusted: bool = False) -> None:
        self.heights = np.array([chain.height for chain in program.chains] or [0], np.int64)
        self._readers = {
            stream: (numbers, DocumentReader(plan, trusted)) for stream, (numbers, plan) in program.streams.items()
        }

    def read(self, bodies: pa.Array, streams: Sequence[str]) -> tuple[ChainBindings, tuple[BadRecord, ...]]:
        """Return the chains found in a column of documents, each of a stream, and the documents that cannot be read."""
        parts, refused = [], []
        for stream, (numbers, reader) in self._readers.items():
            indices = np.flatnonzero([one == stream for one in streams])
            if not len(indices):
                continue
            findings = reader.read(bodies if len(indices) == len(streams) else bodies.take(pa.array(indices)))
            parts.append(self._chains(findings, numbers, indices))
            refused += [replace(one, row=int(indices[one.row])) for one in findings.refused]
        return _together(parts), tuple(refused)

    def _chains(self, findings: Findings, numbers: IntArray, documents: IntArray) -> ChainBindings:
        """Return a row per last node of a chain, with its ancestors: in the findings, nodes follow their ancestors."""
        rows = findings.rows
        chains = numbers[rows[:, O_PATTERN]]
        heights = self.heights[chains]
        levels = rows[:, O_LEVEL]
        ends = np.flatnonzero(levels == heights - 1)
        ends = ends[np.argsort(findings.document[ends], kind="stable")]
        lengths = heights[ends]
        begins = np.cumsum(lengths) - lengths
        nodes = np.zeros(int(lengths.sum()), np.int64)
        positions = np.arange(len(rows))
        for level in range(int(heights.max(initial=0))):
            last = np.maximum.accumulate(np.where(levels == level, positions, 0)) if len(rows) else positions
            deep = lengths > level
            nodes[begins[deep] + level] = rows[last[ends[deep]], O_ORDINAL]
        texts = findings.texts.take(ends).to_pylist()
        return ChainBindings(documents[findings.document[ends]], chains[ends], texts, begins, nodes)


def _together(parts: Sequence[ChainBindings]) -> ChainBindings:
    """Concatenate the bindings of several streams, ordered by document."""
    if len(parts) == 1:
        return parts[0]
    empty = np.zeros(0, np.int64)
    documents, chains, nodes = (
        np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in ("documents", "chains", "nodes")
    )
    texts = [text for part in parts for text in part.texts]
    before = np.cumsum([0, *(len(part.nodes) for part in parts)])
    at = np.concatenate([empty, *(part.at + offset for part, offset in zip(parts, before, strict=False))])
    order = np.argsort(documents, kind="stable")
    return ChainBindings(documents[order], chains[order], [texts[i] for i in order.tolist()], at[order], nodes)
