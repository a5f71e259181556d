"""What the joins engine is given: whose subscriptions, over which documents; plain data that travels to executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.joins.program import (
    ChainProgram,
    SubscriptionProgram,
    compile_chains_once,
    compile_subscriptions,
)
from perseid.engines.joins.table import chains_of
from perseid.engines.trees.formats import XML
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
    digest: str = ""
    """The hash of the subscriptions or their folder, and of what is made of pairs: a state belongs to one digest."""
    program: SubscriptionProgram | None = field(default=None, compare=False)
    """Subscriptions that are given once and for all; others lie in a folder."""
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

    def chain_program(self) -> ChainProgram:
        """What documents are read for: what all subscriptions that there are now need."""
        if self.program is not None:
            return self.program.chains
        assert self.folder is not None
        return compile_chains_once(chains_of(self.folder), self.namespaces)

    def __getstate__(self) -> dict[str, object]:
        """What can be computed again does not travel."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def make_plan(
    subscriptions: Mapping[str, str] | str,
    columns: pa.Schema,
    *,
    namespaces: tuple[tuple[str, str], ...] = (),
    results: bool = False,
    always: bool = False,
    **settings: Any,
) -> JoinsPlan:
    """The plan for subscriptions as texts by owner, or in a folder."""
    folder = subscriptions if isinstance(subscriptions, str) else None
    texts = {} if isinstance(subscriptions, str) else subscriptions
    return JoinsPlan(
        columns,
        _digest((folder, namespaces, results, always), texts),
        None if folder is not None else compile_subscriptions(texts, namespaces, always),
        folder,
        namespaces=namespaces,
        results=results,
        always=always,
        **settings,
    )


def _digest(settings: tuple[object, ...], texts: Mapping[str, str]) -> str:
    said = blake2b(repr(settings).encode(), digest_size=16)
    for column in (list(texts), list(texts.values())) if texts else ():
        _, offsets, body = pa.array(column, pa.string()).buffers()
        ends = np.frombuffer(offsets, np.int32, len(column) + 1)
        said.update(ends.tobytes())
        said.update(memoryview(body)[: ends[-1]])
    return said.hexdigest()
