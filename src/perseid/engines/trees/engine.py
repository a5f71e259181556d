"""The tree engine on the driver: documents become events before the shuffle, one for each result of a tree pattern.

It has no state and no ``step``: its output is events like others. A driver only plans: compiled code is imported where
it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.trees.formats import XML, read_chunks
from perseid.lang.tree_patterns import TreePattern, print_tree
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import Engine, Prepared
from perseid.runtime.document_columns import BODY, PLACE, STREAM, TYPE

if TYPE_CHECKING:
    from perseid.engines.trees.plan import TreePlan
    from perseid.engines.trees.reader import DocumentReader, Findings


@dataclass(frozen=True)
class Trees:
    """Compiled tree patterns and options for reading documents; plain data, serialized to executors."""

    program: TreePlan = field(compare=False)
    digest: str
    """The hash of the patterns and their namespaces: programs with one digest are equal."""
    trusted: bool = False
    format: str = XML

    @property
    def patterns(self) -> tuple[TreePattern, ...]:
        return self.program.patterns


def compile_trees(
    patterns: Iterable[TreePattern],
    namespaces: Iterable[tuple[str, str]] = (),
    trusted: bool = False,
    format: str = XML,
) -> Trees:
    """Compile tree patterns with the same namespaces for documents of a format."""
    from perseid.engines.trees.plan import tree_plan

    all_patterns, spaces = tuple(patterns), tuple(namespaces)
    described = repr((tuple(map(print_tree, all_patterns)), spaces))
    return Trees(
        tree_plan(all_patterns, dict(spaces)),
        blake2b(described.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        trusted,
        format,
    )


@dataclass(frozen=True)
class TreesPlan:
    """Plan of the stage that converts documents to events or rows."""

    trees: Trees
    types: tuple[str, ...]
    """By pattern: the type of its results as events."""
    streams: tuple[str, ...]
    """By pattern: the stream that it matches, if documents have a stream."""
    variables: tuple[str, ...]
    """The return names of nodes: columns of the events."""
    is_path: bool = False
    whole: str | None = None
    """If set, documents are events themselves, with their stream as type or, if they have none, this one."""
    names: tuple[str, ...] | None = None
    """If set, results are rows instead of events, with these pattern names; so are documents that cannot be read."""


@lru_cache(maxsize=4)
def reader_of(trees: Trees) -> DocumentReader:
    """Return the reader of this process for a program; it retains the names of earlier documents."""
    from perseid.engines.trees.reader import DocumentReader

    return DocumentReader(trees.program, trees.trusted)


def _readings(trees: Trees, bodies: pa.Array, is_path: bool) -> Iterator[tuple[int, DocumentReader, Findings]]:
    """Match a column of documents in pieces; yield results with the number that their document numbers start from."""
    reader = reader_of(trees)
    if is_path:
        for number, path in enumerate(bodies.to_pylist()):
            for findings in reader.read_file(number, path):
                yield 0, reader, findings
        return
    for chunk in read_chunks(bodies, trees.format):
        yield chunk.first, reader, chunk.findings(reader.read(chunk.bodies))


def prepare(plan: TreesPlan, columns: Mapping[str, pa.Array]) -> Iterator[Prepared]:
    """Convert documents to events; if documents have a stream, only its patterns apply."""
    if plan.names is not None:
        yield from _prepare_results(plan, plan.names, columns[BODY])
        return
    stream_column = columns.get(STREAM)
    streams = None if stream_column is None else stream_column.cast(pa.string()).to_pylist()
    for first, reader, findings in _readings(plan.trees, columns[BODY], plan.is_path):
        own_streams = None if streams is None else streams[first:]
        at, columns_made = _events(plan, reader, findings, own_streams)
        yield Prepared(at + first, columns_made, findings.refused_from(first))
        if plan.whole is not None and len(findings.done):
            bad_rows = {record.row for record in findings.refused}
            good_rows = [number for number in findings.done if number not in bad_rows]
            names = [plan.whole if own_streams is None else own_streams[number] for number in good_rows]
            columns_made = {TYPE: pa.array(names, pa.string()), PLACE: pa.array(np.zeros(len(good_rows), np.int64))}
            yield Prepared(np.array(good_rows, np.int64) + first, columns_made)


def _prepare_results(plan: TreesPlan, names: Sequence[str], bodies: pa.Array) -> Iterator[Prepared]:
    """Yield a row for each result of a tree pattern, and one for each document that cannot be read."""
    from perseid.engines.trees.results import ERROR, error_column, result_columns

    for first, reader, findings in _readings(plan.trees, bodies, plan.is_path):
        yield Prepared(findings.document[findings.firsts] + first, result_columns(names, reader, findings))
        if findings.refused:
            bad_records = findings.refused_from(first)
            yield Prepared([one.row for one in bad_records], {ERROR: error_column(bad_records)})


def _events(
    plan: TreesPlan, reader: DocumentReader, findings: Findings, streams: Sequence[str | None] | None
) -> tuple[IntArray, dict[str, pa.Array]]:
    """Return results as events: the numbers of their documents, and the columns that documents do not have."""
    from perseid.engines.trees.match_layout import O_ORDINAL, O_PATTERN

    firsts = findings.firsts
    patterns, documents = findings.rows[firsts, O_PATTERN], findings.document[firsts]
    retained = np.arange(len(firsts))
    if streams is not None:
        patterns_of_results = zip(patterns.tolist(), documents.tolist(), strict=True)
        retained = np.array(
            [i for i, (p, d) in enumerate(patterns_of_results) if streams[d] == plan.streams[p]], np.int64
        )
    columns = {
        TYPE: pa.array(plan.types, pa.string()).take(pa.array(patterns[retained])),
        PLACE: pa.array(findings.rows[firsts[retained], O_ORDINAL], pa.int64()),
    }
    for name in plan.variables:
        numbers = [number for number, step in enumerate(reader.plan.steps) if step.returns == name]
        columns[name] = findings.first_texts(numbers).take(pa.array(retained))
    return documents[retained], columns


TREES = Engine(
    name="trees",
    plan=TreesPlan,
    prepare=prepare,
    guide="docs/guides/documents.md",
    example="examples/orders_in_documents.py",
)
