"""What the joins engine is given: whose subscriptions, over which documents; plain data that travels to executors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.joins.graph import Chain
from perseid.engines.joins.table import SCHEMA, chains_in, chains_of, read_file
from perseid.engines.trees.formats import XML
from perseid.runtime.state_codec import arrow_stream
from perseid.runtime.watermark import WATERMARK

DEFAULT_SHARES = 4
CHAINS, TEXTS, NODES, BODIES = "_chains", "_texts", "_nodes", "_body"
FOUND = {CHAINS: pa.list_(pa.int64()), TEXTS: pa.list_(pa.string()), NODES: pa.list_(pa.int64())}
"""The columns that a document gets: keys of chains, the text of each one's last node, and all nodes of all."""
ONE = pa.schema([("subscription", pa.string())])
MANY = pa.schema([("subscriptions", pa.list_(pa.string()))])
VALUES = pa.field("values", pa.map_(pa.string(), pa.string()))


@dataclass(frozen=True)
class JoinsPlan:
    """Subscriptions and documents."""

    columns: pa.Schema
    """Columns of documents that come along: those that ``left`` and ``right`` have."""
    listed: bytes | None = None
    """Subscriptions that are given once and for all, as a table; else they lie in a folder."""
    folder: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    trusted: bool = False
    format: str = XML
    expand: bool = False
    """A row for each subscription that a pair is due to."""
    results: bool = False
    """Something is made of pairs, so bodies are kept."""
    always: bool = False
    """Also for subscriptions that do not say what."""
    texts: bool = False
    """Bodies are texts, and not bytes."""
    rejected: bool = False
    """Rows have a kind, and a reason where they were not taken."""
    shards: int = 1
    """Shares that subscriptions are split into: each is given all documents."""
    order: str = WATERMARK
    max_state: int = 1 << 28
    views: int = 2

    @cached_property
    def schema(self) -> pa.Schema:
        """The rows that come out."""
        document = pa.struct(list(self.columns))
        fields = [*(ONE if self.expand else MANY), pa.field("left", document), pa.field("right", document)]
        fields += [VALUES] if self.expand else []
        fields += [pa.field("result", pa.string())] if self.results else []
        if self.rejected:
            text = pa.string()
            fields = [pa.field("kind", text), *fields, pa.field("reason", text), pa.field("row", text)]
        return pa.schema(fields)

    @property
    def found(self) -> dict[str, pa.DataType]:
        """The columns that documents have beside their own."""
        return {**FOUND, **({BODIES: pa.string() if self.texts else pa.binary()} if self.results else {})}

    @cached_property
    def digest(self) -> str:
        """What tells sets of subscriptions apart: whose they are and what they ask for, however Arrow writes a table of them."""
        said = blake2b(repr((self.folder, self.namespaces, self.results, self.always)).encode(), digest_size=16)
        table = SCHEMA.empty_table() if self.listed is None else self.table(None)
        for column in (table[name].combine_chunks() for name in ("subscription", "text")):
            if len(column):
                _, offsets, texts = pa.concat_arrays([column]).buffers()
                ends = np.frombuffer(offsets, np.int32, len(column) + 1)
                said.update(ends - ends[0])
                said.update(memoryview(texts)[ends[0] : ends[-1]])
        return said.hexdigest()

    def table(self, name: str | None) -> pa.Table:
        """The subscriptions that are given, or those of a file of the folder."""
        if name is None:
            assert self.listed is not None
            return pa.ipc.open_stream(self.listed).read_all()
        assert self.folder is not None
        return read_file(self.folder, name)

    def chains(self) -> tuple[Chain, ...]:
        """What documents are read for: what all subscriptions that there are now ask for."""
        if self.folder is not None:
            return chains_of(self.folder)
        assert self.listed is not None
        return chains_in(pa.ipc.open_stream(self.listed).schema, "This")

    def __getstate__(self) -> dict[str, object]:
        """What can be computed again does not travel."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def make_plan(table: pa.Table | str, columns: pa.Schema, **settings: Any) -> JoinsPlan:
    """The plan for subscriptions as a table, or in a folder."""
    plan = JoinsPlan(columns, **settings)
    if isinstance(table, str):
        return replace(plan, folder=table)
    (whole,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return replace(plan, listed=arrow_stream(whole).to_pybytes())
