"""Makes the driver and the workers of a job count steps or fail, without any change to the product.

Python imports a module of this name at startup if its folder is on the path. The folder in PERSEID_HOOKS says what
happens: a file ``fail-kernel`` makes the next step of a shard raise, and a file ``fail-sink`` makes the next write of
the sink that it names fail (``parquet half`` or ``parquet after``). The process that finds the file deletes it, so each
failure happens once. Both are connection errors, which a job retries. With a file ``count``, every step of a shard
writes a line with its batch and its shard into ``calls``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

HOOKS = Path(os.environ.get("PERSEID_HOOKS", "/nowhere"))


def take_request(name: str, unless: Callable[[str], bool] = lambda _: False) -> str | None:
    """Return the content of a file for the one process that deletes it, and None for all others."""
    try:
        content = (HOOKS / name).read_text()
        if unless(content):
            return None
        (HOOKS / name).rename(HOOKS / f"{name}.taken-{os.getpid()}")
        return content
    except FileNotFoundError:
        return None


def patch_steps(module: ModuleType) -> None:
    step = module.StreamJob.step

    def failing(self: Any, key: tuple[Any, ...], frames: Any, state: Any) -> Any:
        if (HOOKS / "count").exists():
            from pyspark import TaskContext

            context = TaskContext.get()
            batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
            with (HOOKS / "calls").open("a") as out:
                out.write(f"{batch} {key[0]}\n")
        yield from step(self, key, frames, state)
        if take_request("fail-kernel") is not None:
            raise ConnectionResetError("injected failure of a kernel step")

    module.StreamJob.step = failing


def patch_sink(kind: str) -> Callable[[ModuleType], None]:
    def patch_module(module: ModuleType) -> None:
        sink = getattr(module, kind.capitalize())
        write = sink.write

        def failing(self: Any, batch: Any) -> None:
            content = take_request(
                "fail-sink", lambda text: text.split()[0] != kind or "kind" not in batch.rows.columns
            )
            if content is not None and content.split()[1] == "half":
                odd = "if(xxhash64(match_id) % 3 = 0, raise_error('Connection reset: a sink failed half-way'), kind)"
                batch = replace(batch, rows=batch.rows.withColumn("kind", expression(odd)))
            write(self, batch)
            if content is not None:  # of half a batch in which no row failed
                raise ConnectionResetError(f"the sink {kind} failed after its write: injected failure")

        sink.write = failing

    return patch_module


def expression(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)


PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "perseid.spark.stream_worker": patch_steps,
    **{f"perseid.sinks.{kind}": patch_sink(kind) for kind in ("parquet", "delta", "postgres", "kafka")},
}


class PatchingFinder(importlib.abc.MetaPathFinder):
    """Import finder that patches a module after it is loaded."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name not in PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def patched(module: ModuleType) -> None:
            execute(module)
            PATCHES[name](module)

        spec.loader.exec_module = patched  # type: ignore[method-assign]
        return spec


if "PERSEID_HOOKS" in os.environ:
    sys.meta_path.insert(0, PatchingFinder())
