"""The first match on a machine without compiled kernels runs in plain Python while another process compiles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import perseid as ps
from perseid.runtime import cold_start, jit
from perseid.tables.columns import count_rows

pytestmark = pytest.mark.skipif(not jit.COMPILED, reason="Numba is switched off")

PATTERN = """pattern late
match Order o -> not Payment for 1 hour
partition by customer
return o.total"""
EXPLODING = "pattern exploding match A a ->> A b ->> A c within 1 day where a.n < b.n and b.n < c.n"
MOST_SECONDS = 30
"""The goal is 5 s on a quiet machine; tests share theirs."""
FIRST_MATCH = """
import json, sys, time
begun = time.perf_counter()
import perseid as ps
loaded = [name for name in ("numba", "pandas", "pyspark") if name in sys.modules]
matches = ps.pattern(sys.argv[1]).match(json.loads(sys.argv[2]))
ids = sorted(match.match_id for match in matches)
print(json.dumps([loaded, "numba" in sys.modules, ids, time.perf_counter() - begun]))
"""


def events(count: int) -> list[dict[str, Any]]:
    return [
        {
            "ts": f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z",
            "type": "Order" if n % 3 else "Payment",
            "customer": f"c{n % 7}",
            "total": n,
        }
        for n in range(count)
    ]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PERSEID_CACHE", str(tmp_path))
    yield tmp_path
    for lock in tmp_path.glob("*/*.lock"):
        with suppress(ProcessLookupError):
            os.kill(int(lock.read_text()), signal.SIGKILL)


def test_first_match_runs_plain_python_and_compiles_in_another_process(empty_cache: Path) -> None:
    rows = events(100)
    command = [sys.executable, "-c", FIRST_MATCH, PATTERN, json.dumps(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    loaded, has_numba, ids, seconds = json.loads(done.stdout)
    assert loaded == []
    assert not has_numba
    assert ids == sorted(match.match_id for match in ps.pattern(PATTERN).match(rows))
    assert ids
    assert seconds < MOST_SECONDS
    (lock,) = empty_cache.glob("*/compiled-*.lock")
    os.kill(int(lock.read_text()), 0)  # the compiling process exists
    assert done.stderr == ""


def test_two_processes_start_one_compilation(empty_cache: Path) -> None:
    command = [sys.executable, "-c", FIRST_MATCH, PATTERN, json.dumps(events(4))]
    locks = []
    for _ in range(2):
        subprocess.run(command, capture_output=True, check=True, timeout=120)
        locks.append([path.read_text() for path in empty_cache.glob("*/*.lock")])
    assert locks[0] == locks[1]
    assert len(locks[0]) == 1


def test_long_search_switches_to_the_compiled_kernel() -> None:
    rows = [{"ts": f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z", "type": "A", "n": n} for n in range(50)]
    pattern = ps.pattern(EXPLODING)
    with jit.plain_kernels():
        plain = pattern.match(rows)
    assert len(plain) == 50 * 49 * 48 // 6  # far above the step limit of plain Python
    assert [match.match_id for match in plain] == [match.match_id for match in pattern.match(rows)]


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ([{"ts": 1}] * 3, 3),
        ({"A": [1, 2], "B": [3]}, 3),
        ({"A": [1, 2], "B": iter([3])}, None),
        ("events.parquet", None),
        (["a.parquet", "b.parquet"], None),
        (Path("a.parquet"), None),
        ([], 0),
    ],
)
def test_count_of_rows_in_memory(data: object, rows: int | None) -> None:
    assert count_rows(data) == rows


def test_a_stale_lock_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    class Started:
        pid = 4711

        def __init__(self, command: list[str], **options: object) -> None:
            started.append(command)

    monkeypatch.setattr(cold_start.subprocess, "Popen", Started)
    monkeypatch.setattr(cold_start, "_BUILDS", {})
    lock = tmp_path / "compiled.lock"
    lock.touch()
    cold_start._start("sequence", tmp_path / "compiled")
    assert started == []
    os.utime(lock, (0, 0))
    cold_start._start("sequence", tmp_path / "compiled")
    assert len(started) == 1
    assert lock.read_text() == "4711"


def test_first_rows_of_a_process_run_without_numba() -> None:
    """This also applies if kernels are compiled already, because loading them takes longer than these matches."""
    code = f"""
import sys
import perseid as ps
pattern = ps.pattern({PATTERN!r})
rows = {events(900)!r}
first = [match.match_id for match in pattern.match(rows)]
assert "numba" not in sys.modules
pattern.match(rows)
assert "numba" not in sys.modules
assert [match.match_id for match in pattern.match(rows)] == first
print("numba" in sys.modules, len(first))
"""
    marker = cold_start.marker_of("sequence")
    assert marker is not None
    if not marker.exists():
        pytest.skip("kernels are not compiled ahead here")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.startswith("True ")


def test_unwritable_cache_compiles_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_start, "marker_of", lambda engine: None)
    monkeypatch.setattr(jit, "_COMPILED_MODULES", set())
    with cold_start.small_input("sequence", 0):
        assert jit.runs_compiled()
