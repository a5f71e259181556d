"""The cache key of compiled kernels covers the source of their module and of all modules that it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.runtime import jit

SOURCES = {
    "perseid.a": b"from perseid.folder import b\nfrom perseid.c import (\n    ONE,\n    TWO,\n)\n",
    "perseid.folder.b": b"def late():\n    from perseid.d import f\n",
    "perseid.c": b"ONE = 1\n",
    "perseid.d": b"from perseid.a import back\n",
    "perseid.other": b"",
}


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    found = dict(SOURCES)
    monkeypatch.setattr(jit, "_source", found.get)
    _clear_caches()
    yield found
    _clear_caches()


def _clear_caches() -> None:
    jit.source_hash.cache_clear()
    jit._imports.cache_clear()


@pytest.mark.parametrize("module", ["perseid.a", "perseid.folder.b", "perseid.c", "perseid.d"])
def test_change_of_an_imported_module_changes_the_key(sources: dict[str, bytes], module: str) -> None:
    before = jit.source_hash("perseid.a")
    sources[module] += b"# changed"
    _clear_caches()
    assert jit.source_hash("perseid.a") != before


def test_change_of_an_unrelated_module_does_not_change_the_key(sources: dict[str, bytes]) -> None:
    before = jit.source_hash("perseid.a")
    sources["perseid.other"] = b"THREE = 3\n"
    _clear_caches()
    assert jit.source_hash("perseid.a") == before


def test_key_of_a_kernel_contains_its_constants() -> None:
    assert "perseid.engines.sequence.layout" in jit._imports("perseid.engines.sequence.kernel")
    assert jit._source("perseid.engines.sequence.layout") is not None


def test_kernels_run_in_plain_python_if_numba_cannot_be_imported(tmp_path: Path) -> None:
    package = tmp_path / "numba"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('Numba needs another NumPy')\n")
    code = "import numpy; from perseid.runtime import event_order; print(event_order._ascends(numpy.array([1, 2, 3])))"
    path = os.pathsep.join([str(tmp_path), str(Path(jit.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path, "PERSEID_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
