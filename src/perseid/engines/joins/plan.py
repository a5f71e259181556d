"""The plan of the joins engine: subscriptions and document columns, as plain data that is serialized to executors."""

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
    cut_texts,
)
from perseid.engines.joins.table import chains_of
from perseid.engines.trees.formats import XML
from perseid.lang.xscl_parts import Cutter
from perseid.runtime.watermark import WATERMARK

DEFAULT_QUERY_PARTITIONS = 4
TIME, IDENTITY, EPOCH = "_time", "_identity", "_epoch"
"""The columns of a retained document that every stream has."""
COLUMN_PREFIX = "column "
"""The prefix of the user's columns of retained documents."""
CHAINS, TEXTS, NODES, BODIES = "_chains", "_texts", "_nodes", "_body"
CHAIN_COLUMNS = {CHAINS: pa.list_(pa.int64()), TEXTS: pa.list_(pa.string()), NODES: pa.list_(pa.int64())}
"""The columns added to a document: keys of its chains, the text of each chain's last node, the nodes of all chains."""
ONE = pa.schema([("subscription", pa.string())])
MANY = pa.schema([("subscriptions", pa.list_(pa.string()))])
VALUES = pa.field("values", pa.map_(pa.string(), pa.string()))


@dataclass(frozen=True)
class JoinsPlan:
    """The plan of subscriptions over a stream of documents."""

    columns: pa.Schema
    """Columns of documents that are carried into the structs ``left`` and ``right`` of the output."""
    digest: str = ""
    """Hash of the subscriptions or their folder, and of the construction options; a state is bound to one digest."""
    program: SubscriptionProgram | None = field(default=None, compare=False)
    """Subscriptions fixed at planning time; None if they are in a folder."""
    chains: ChainProgram | None = field(default=None, compare=False)
    """The compiled chains of these subscriptions."""
    folder: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    trusted: bool = False
    format: str = XML
    expand: bool = False
    """One output row per notified subscription, instead of one per pair."""
    results: bool = False
    """Construct result documents from pairs, which requires the bodies in the state."""
    always: bool = False
    """Construct results also for subscriptions without SELECT."""
    texts: bool = False
    """Bodies are strings, not bytes."""
    rejected: bool = False
    """Output rows have a kind, and include rejected documents with a reason."""
    shards: int = 1
    """Number of query partitions of the subscriptions; each processes all documents."""
    order: str = WATERMARK
    max_state: int = 1 << 28
    views: int = 2

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of output rows."""
        document = pa.struct(list(self.columns))
        fields = [*(ONE if self.expand else MANY), pa.field("left", document), pa.field("right", document)]
        fields += [VALUES] if self.expand else []
        fields += [pa.field("result", pa.string())] if self.results else []
        if self.rejected:
            text = pa.string()
            fields = [pa.field("kind", text), *fields, pa.field("reason", text), pa.field("row", text)]
        return pa.schema(fields)

    @cached_property
    def chain_columns(self) -> dict[str, pa.DataType]:
        """The columns added to documents before the shuffle."""
        return {**CHAIN_COLUMNS, **({BODIES: pa.string() if self.texts else pa.binary()} if self.results else {})}

    @cached_property
    def retained(self) -> pa.Schema:
        """The columns of retained documents."""
        columns = [(TIME, pa.int64()), (IDENTITY, pa.int64()), (EPOCH, pa.int32()), *self.chain_columns.items()]
        return pa.schema([*columns, *(field.with_name(COLUMN_PREFIX + field.name) for field in self.columns)])

    def chain_program(self) -> ChainProgram:
        """Return the compiled chains of all subscriptions that are registered at this time."""
        if self.chains is not None:
            return self.chains
        assert self.folder is not None
        return compile_chains_once(chains_of(self.folder), self.namespaces)

    def __getstate__(self) -> dict[str, object]:
        """Pickle the fields only, without cached properties."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def make_plan(
    subscriptions: Mapping[str, str] | str,
    columns: pa.Schema,
    *,
    program: SubscriptionProgram | None = None,
    namespaces: tuple[tuple[str, str], ...] = (),
    results: bool = False,
    always: bool = False,
    shards: int = 1,
    **settings: Any,
) -> JoinsPlan:
    """Plan subscriptions, given as texts by owner or as the path of a folder; ``program`` has the texts compiled."""
    folder = subscriptions if isinstance(subscriptions, str) else None
    texts = {} if isinstance(subscriptions, str) else subscriptions
    assert program is None or shards == 1, "A compiled program has no parts, which determine the query partition."
    if folder is None and program is None:
        program = compile_subscriptions(cut_texts(texts, Cutter()), has_parts=True)
    return JoinsPlan(
        columns,
        _digest((folder, namespaces, results, always), texts),
        program,
        None if program is None else compile_chains_once(program.chains, namespaces),
        folder,
        namespaces=namespaces,
        results=results,
        always=always,
        shards=shards,
        **settings,
    )


def _digest(settings: tuple[object, ...], texts: Mapping[str, str]) -> str:
    digest = blake2b(repr(settings).encode(), digest_size=16)
    for column in (list(texts), list(texts.values())) if texts else ():
        _, offsets, body = pa.array(column, pa.string()).buffers()
        offsets_array = np.frombuffer(offsets, np.int32, len(column) + 1)
        digest.update(offsets_array.tobytes())
        digest.update(memoryview(body)[: offsets_array[-1]])
    return digest.hexdigest()
