"""Where compiled kernels are kept when the package is not a folder, or nothing can be written."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from perseid.runtime.jit import COMPILED

SOURCE = Path(__file__).parents[2] / "src"
ASK = """
import numpy
from perseid.runtime import jit, event_order
print(event_order.__file__, jit.cache_folder())
print(event_order._ascends(numpy.array([1, 2, 3])), event_order._ascends(numpy.array([2, 1])))
stats = event_order._ascends.compiled().stats
print(stats.cache_path, sum(stats.cache_hits.values()), "found", sum(stats.cache_misses.values()), "made")
"""

pytestmark = pytest.mark.skipif(not COMPILED, reason="needs Numba")


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(SOURCE.rglob("*")):
            if file.suffix in (".py", ".lark"):
                archive.write(file, file.relative_to(SOURCE))
    return path


def ask(package: Path, **variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "PYTHONPATH": str(package), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_from_zips_at_different_paths_one_compilation(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for place, counted in (("a", "0 found 1 made"), ("b", "1 found 0 made")):
        (tmp_path / place).mkdir()
        package = zipped(tmp_path / place / "perseid.zip")
        # As on executors: nobody's home, so Numba has no place of its own either.
        where, results, told = ask(package, PERSEID_CACHE=str(cache), HOME="/dev/null/home")
        assert where.startswith(f"{package}/perseid/runtime/event_order.py {cache}/")
        assert results == "True False"
        assert told.startswith(str(cache))
        assert told.endswith(counted)


def test_the_same_source_in_a_folder_shares_it(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    first = ask(zipped(tmp_path / "perseid.zip"), PERSEID_CACHE=cache)
    second = ask(SOURCE, PERSEID_CACHE=cache)
    assert first[0].split()[1] == second[0].split()[1]
    assert first[2].endswith(" 0 found 1 made")
    assert second[2].endswith(" 1 found 0 made")


@pytest.mark.parametrize("zip_it", [False, True])
def test_nowhere_to_write(tmp_path: Path, zip_it: bool) -> None:
    package = zipped(tmp_path / "perseid.zip") if zip_it else SOURCE
    where, results, told = ask(package, PERSEID_CACHE="/dev/null/cache", HOME="/dev/null/home")
    assert where.split()[1] == "None"
    assert results == "True False"
    assert told == "None 0 found 1 made"
