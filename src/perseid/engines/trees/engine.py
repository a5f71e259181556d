"""The tree engine as drivers know it: documents become events before the shuffle, one for each result of a tree pattern.

It has no state and no ``step``: what it makes are events like others. A driver only plans: what is compiled is imported where
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

from perseid.engines.trees.formats import XML, lots
from perseid.lang.tree_patterns import TreePattern, print_tree
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import Engine, Prepared
from perseid.runtime.document_columns import BODY, PLACE, STREAM, TYPE

if TYPE_CHECKING:
    from perseid.engines.trees.plan import TreePlan
    from perseid.engines.trees.reader import Findings, Reader


@dataclass(frozen=True)
class Trees:
    """Compiled tree patterns and how documents are read for them; plain data that travels to executors."""

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
    """Tree patterns that share namespaces, compiled for documents of a format."""
    from perseid.engines.trees.plan import tree_plan

    given, spaces = tuple(patterns), tuple(namespaces)
    said = repr((tuple(map(print_tree, given)), spaces))
    return Trees(
        tree_plan(given, dict(spaces)),
        blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        trusted,
        format,
    )


@dataclass(frozen=True)
class TreesPlan:
    """What becomes of documents."""

    trees: Trees
    types: tuple[str, ...]
    """By pattern: the type that its results have as events."""
    streams: tuple[str, ...]
    """By pattern: the stream it asks, where documents say of which they are."""
    variables: tuple[str, ...]
    """Names that nodes are returned under: columns of the events."""
    is_path: bool = False
    whole: str | None = None
    """Documents are events themselves, of their stream as a type or, where they say none, of this one."""
    names: tuple[str, ...] | None = None
    """Results are rows and no events, with these names of the patterns; so is a document that cannot be read."""


@lru_cache(maxsize=4)
def reader_of(trees: Trees) -> Reader:
    """One reader a process: it knows the names of the documents before."""
    from perseid.engines.trees.reader import Reader

    return Reader(trees.program, trees.trusted)


def readings(trees: Trees, bodies: pa.Array, is_path: bool) -> Iterator[tuple[int, Reader, Findings]]:
    """What is found in a column of documents, piece by piece, each with the number of the document it begins with."""
    reader = reader_of(trees)
    if is_path:
        for number, path in enumerate(bodies.to_pylist()):
            for findings in reader.read_file(number, path):
                yield 0, reader, findings
        return
    for lot in lots(bodies, trees.format):
        yield lot.first, reader, lot.findings(reader.read(lot.bodies))


def prepare(plan: TreesPlan, columns: Mapping[str, pa.Array]) -> Iterator[Prepared]:
    """Documents to events; the types that documents say they are of choose among the patterns."""
    if plan.names is not None:
        yield from _prepare_results(plan, plan.names, columns[BODY])
        return
    given = columns.get(STREAM)
    streams = None if given is None else given.cast(pa.string()).to_pylist()
    for first, reader, findings in readings(plan.trees, columns[BODY], plan.is_path):
        own = None if streams is None else streams[first:]
        at, made = _events(plan, reader, findings, own)
        yield Prepared(at + first, made, findings.refused_from(first))
        if plan.whole is not None and len(findings.done):
            bad = {one.row for one in findings.refused}
            good = [number for number in findings.done if number not in bad]
            names = [plan.whole if own is None else own[number] for number in good]
            made = {TYPE: pa.array(names, pa.string()), PLACE: pa.array(np.zeros(len(good), np.int64))}
            yield Prepared(np.array(good, np.int64) + first, made)


def _prepare_results(plan: TreesPlan, names: Sequence[str], bodies: pa.Array) -> Iterator[Prepared]:
    """A row for each result of a tree pattern, and one for each document that cannot be read."""
    from perseid.engines.trees.results import ERROR, error_column, result_columns

    for first, reader, findings in readings(plan.trees, bodies, plan.is_path):
        yield Prepared(findings.document[findings.firsts] + first, result_columns(names, reader, findings))
        if findings.refused:
            bad = findings.refused_from(first)
            yield Prepared([one.row for one in bad], {ERROR: error_column(bad)})


def _events(
    plan: TreesPlan, reader: Reader, findings: Findings, streams: Sequence[str | None] | None
) -> tuple[IntArray, dict[str, pa.Array]]:
    """Results as events: which documents they are of, and the columns that results have and documents have not."""
    from perseid.engines.trees.match_layout import O_ORDINAL, O_PATTERN

    firsts = findings.firsts
    patterns, documents = findings.rows[firsts, O_PATTERN], findings.document[firsts]
    kept = np.arange(len(firsts))
    if streams is not None:
        asked = zip(patterns.tolist(), documents.tolist(), strict=True)
        kept = np.array([i for i, (p, d) in enumerate(asked) if streams[d] == plan.streams[p]], np.int64)
    columns = {
        TYPE: pa.array(plan.types, pa.string()).take(pa.array(patterns[kept])),
        PLACE: pa.array(findings.rows[firsts[kept], O_ORDINAL], pa.int64()),
    }
    for name in plan.variables:
        numbers = [number for number, step in enumerate(reader.plan.steps) if step.returns == name]
        columns[name] = findings.first_texts(numbers).take(pa.array(kept))
    return documents[kept], columns


TREES = Engine(
    name="trees",
    plan=TreesPlan,
    prepare=prepare,
    guide="docs/guides/documents.md",
    example="examples/orders_in_documents.py",
)
