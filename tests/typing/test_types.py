"""mypy infers the result types of queries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)  # without a cache mypy reads the whole source
def test_result_types_depend_on_the_kind_of_stream() -> None:
    file = Path(__file__).parent / "results.py"
    command = [sys.executable, "-m", "mypy", str(file)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
