"""Order in which workers of pytest-xdist get test files."""

from __future__ import annotations

import re

import pytest

from tests.scheduling import ROOT, order_files, uses_session

COUNTS = {
    "tests/spark/test_stream.py": 5,
    "tests/spark/test_detect.py": 30,
    "tests/engines/test_sequence.py": 1_000,
    "tests/security/test_secrets.py": 3,
    "tests/lang/test_errors.py": 2_000,
}
TAKES_SESSION = re.compile(r"^def \w+\([^)]*\bspark\b", re.MULTILINE)


@pytest.mark.parametrize("has_session", [True, False])
def test_workers_with_a_session_run_spark_files_first_and_short_files_are_last(has_session: bool) -> None:
    spark = ["tests/spark/test_detect.py", "tests/spark/test_stream.py"]
    others = ["tests/engines/test_sequence.py", "tests/security/test_secrets.py", "tests/lang/test_errors.py"]
    assert order_files(COUNTS, has_session) == ([*spark, *others] if has_session else [*others, *spark])


def test_every_file_that_takes_the_spark_fixture_uses_a_session() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    files = [str(path.relative_to(ROOT)) for path, text in texts.items() if TAKES_SESSION.search(text)]
    assert len(files) > 30
    assert [file for file in files if not uses_session(file)] == []
