"""Stored subscriptions: tables of owners and texts, and append-only folders of such tables.

A folder is a log of Parquet files, numbered in order of arrival; files are immutable. A row adds a subscription or, with
a null text, removes it. Texts are validated on write, so that no stream fails on them later. The schema metadata of a
file lists the chains of its subscriptions: readers of documents need nothing else from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from perseid.engines.joins.graph import NodeChain
from perseid.engines.joins.subscription_groups import parts_of
from perseid.errors import EventDataError, UnsupportedError
from perseid.lang.xscl_parts import Cutter

SCHEMA = pa.schema([("subscription", pa.string()), ("text", pa.string()), ("parts", pa.list_(pa.int64()))])
_METADATA_KEY = b"perseid.subscriptions"
_VERSION = 1
SUFFIX = ".subscriptions.parquet"


def listed(texts: Mapping[str, str | None]) -> pa.Table:
    """Encode subscription changes as a table; a null text removes a subscription."""
    cutter = Cutter()
    sources = {owner: cutter.parts(text).source for owner, text in texts.items() if text is not None}
    parts, chains = parts_of(sources)
    metadata = {"version": _VERSION, "chains": [[chain.stream, chain.tree, chain.height] for chain in chains]}
    columns = [
        pa.array(list(texts), pa.string()),
        pa.array(list(texts.values()), pa.string()),
        pa.array([parts.get(owner, []) for owner in texts], pa.list_(pa.int64())),
    ]
    return pa.table(columns, schema=SCHEMA.with_metadata({_METADATA_KEY: json.dumps(metadata).encode()}))


def chains_in(schema: pa.Schema, where: str) -> tuple[NodeChain, ...]:
    """Return the chains of a table's subscriptions, from its schema metadata."""
    try:
        metadata = json.loads((schema.metadata or {})[_METADATA_KEY])
        if metadata["version"] != _VERSION or not schema.remove_metadata().equals(SCHEMA):
            raise ValueError(metadata["version"])
        return tuple(NodeChain(str(stream), str(tree), int(height)) for stream, tree, height in metadata["chains"])
    except (KeyError, TypeError, ValueError):
        raise EventDataError(
            f"{where} is not a subscription table of this version.",
            hint="Write it with ps.xscl.subscription_table(…).add(…).",
        ) from None


def checked_folder(folder: str | os.PathLike[str]) -> str:
    """Return the folder as an absolute path; reject remote file systems, where files cannot be numbered atomically."""
    path = os.fspath(folder)
    if path.startswith("file:"):
        path = path.removeprefix("file://").removeprefix("file:")
    if "://" in path:
        raise UnsupportedError(
            f"{path}: subscriptions need a folder in a file system that the driver and the executors share.",
            hint="Mount the file system, and use the local path.",
        )
    return os.path.abspath(path)


def append(folder: str, table: pa.Table) -> str:
    """Atomically append a file with the next number, and return its name."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = Path(folder) / f".{uuid4().hex}"
    try:
        pq.write_table(table, written)
        while True:
            last = max((int(name.split(".")[0]) for name in files_in(folder)), default=0)
            name = f"{last + 1:012}{SUFFIX}"
            try:
                os.link(written, Path(folder) / name)
            except FileExistsError:
                continue  # a concurrent writer took this number
            return name
    finally:
        written.unlink(missing_ok=True)


def files_in(folder: str) -> list[str]:
    """Return the names of a folder's files, in order of their numbers."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdigit())


@lru_cache(maxsize=1 << 12)
def _chains_of(folder: str, name: str) -> tuple[NodeChain, ...]:
    return chains_in(_opened(folder, name).schema_arrow, name)


def chains_of(folder: str) -> tuple[NodeChain, ...]:
    """Return the distinct chains of all current files, read from their schemas alone."""
    return tuple(dict.fromkeys(chain for name in files_in(folder) for chain in _chains_of(folder, name)))


def read_file(folder: str, name: str) -> pa.Table:
    """Read the subscription changes of a file."""
    file = _opened(folder, name)
    chains_in(file.schema_arrow, name)
    return file.read()


def _opened(folder: str, name: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(Path(folder) / name)
    except (OSError, pa.ArrowException):
        raise EventDataError(
            f"Cannot read the subscription file {name}.",
            hint="Do not change or remove files of a subscription table while a query runs: the table is append-only.",
        ) from None


def standing(tables: Iterable[pa.Table]) -> dict[str, str]:
    """Return the subscription texts by owner that are active after all of these tables."""
    active: dict[str, str] = {}
    for table in tables:
        for owner, text in _rows(table):
            active.pop(owner, None)
            if text is not None:
                active[owner] = text
    return active


def _rows(table: pa.Table) -> Iterator[tuple[str, str | None]]:
    return zip(table["subscription"].to_pylist(), table["text"].to_pylist(), strict=True)
