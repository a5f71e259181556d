"""Location of the kernel cache if the package is a zip file or its folder is read-only."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from perseid.runtime.jit import COMPILED

SOURCE = Path(__file__).parents[2] / "src"
PROBE = """
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


def run_probe(package: Path, **variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, "PYTHONPATH": str(package), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_zips_at_different_paths_share_one_compilation(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for place, counted in (("a", "0 found 1 made"), ("b", "1 found 0 made")):
        (tmp_path / place).mkdir()
        package = zipped(tmp_path / place / "perseid.zip")
        # As on executors: no home directory, so Numba has no location of its own.
        where, results, report = run_probe(package, PERSEID_CACHE=str(cache), HOME="/dev/null/home")
        assert where.startswith(f"{package}/perseid/runtime/event_order.py {cache}/")
        assert results == "True False"
        assert report.startswith(str(cache))
        assert report.endswith(counted)


def test_folder_with_the_same_source_shares_the_cache(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    first = run_probe(zipped(tmp_path / "perseid.zip"), PERSEID_CACHE=cache)
    second = run_probe(SOURCE, PERSEID_CACHE=cache)
    assert first[0].split()[1] == second[0].split()[1]
    assert first[2].endswith(" 0 found 1 made")
    assert second[2].endswith(" 1 found 0 made")


@pytest.mark.parametrize("zip_it", [False, True])
def test_read_only_cache_and_package(tmp_path: Path, zip_it: bool) -> None:
    package = zipped(tmp_path / "perseid.zip") if zip_it else SOURCE
    where, results, report = run_probe(package, PERSEID_CACHE="/dev/null/cache", HOME="/dev/null/home")
    assert where.split()[1] == "None"
    assert results == "True False"
    assert report == "None 0 found 1 made"
