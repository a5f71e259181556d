"""Makes a job count or fail, in its driver and its workers, without a word of it in the product.

Python imports a module of this name when it starts, where its folder is on the path. What is to happen lies in the folder
that PERSEID_HOOKS names: a file ``fail-kernel`` makes the next step of a shard raise, ``fail-sink`` the next write of
the sink it holds (``parquet half`` or ``parquet after``). Who finds the file takes it away, so each happens once.
Both are errors of a connection, which a job retries.
With a file ``count`` every step of a shard leaves a line in ``calls``: its batch and its shard.
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


def taken(name: str, unless: Callable[[str], bool] = lambda _: False) -> str | None:
    """What a file holds, for the one process that takes it away; None for all others."""
    try:
        held = (HOOKS / name).read_text()
        if unless(held):
            return None
        (HOOKS / name).rename(HOOKS / f"{name}.taken-{os.getpid()}")
        return held
    except FileNotFoundError:
        return None


def hurt_steps(module: ModuleType) -> None:
    step = module.StreamJob.step

    def hurt(self: Any, key: tuple[Any, ...], frames: Any, state: Any) -> Any:
        if (HOOKS / "count").exists():
            from pyspark import TaskContext

            context = TaskContext.get()
            batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
            with (HOOKS / "calls").open("a") as out:
                out.write(f"{batch} {key[0]}\n")
        yield from step(self, key, frames, state)
        if taken("fail-kernel") is not None:
            raise ConnectionResetError("a step of the kernel failed, as it was told to")

    module.StreamJob.step = hurt


def hurt_sink(kind: str) -> Callable[[ModuleType], None]:
    def hurt_module(module: ModuleType) -> None:
        sink = getattr(module, kind.capitalize())
        write = sink.write

        def hurt(self: Any, batch: Any) -> None:
            held = taken("fail-sink", lambda text: text.split()[0] != kind or "kind" not in batch.rows.columns)
            if held is not None and held.split()[1] == "half":
                odd = "if(xxhash64(match_id) % 3 = 0, raise_error('Connection reset: a sink failed half-way'), kind)"
                batch = replace(batch, rows=batch.rows.withColumn("kind", expression(odd)))
            write(self, batch)
            if held is not None:  # of half a batch, where no row was one that fails
                raise ConnectionResetError(f"the sink {kind} failed when it had written, as it was told to")

        sink.write = hurt

    return hurt_module


def expression(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)


PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "perseid.spark.stream_worker": hurt_steps,
    **{f"perseid.sinks.{kind}": hurt_sink(kind) for kind in ("parquet", "delta", "postgres", "kafka")},
}


class Patching(importlib.abc.MetaPathFinder):
    """Finds what others find, and has it patched once it is there."""

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
    sys.meta_path.insert(0, Patching())
