"""explain() of a pattern on a declared local stream, as golden files. tests/spark has those for Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perseid as ps
from tests.golden import check_golden

FOLDER = Path(__file__).parent / "golden" / "detection"
ROWS = [
    {"ts": "2026-03-01T09:00:00Z", "type": "Login", "user": "ann", "ip": "10.0.0.1", "amount": None, "n": 1},
    {"ts": "2026-03-01T09:03:00Z", "type": "Transfer", "user": "ann", "ip": None, "amount": 6000, "n": 2},
]


def explain_stream_section(text: str) -> str:
    patterns = ps.patterns(text)
    explained = patterns.explain(ps.events(ROWS, id="n", order_by="n"))
    before = patterns.explain()
    assert explained.startswith(before)
    added = explained[len(before) :].lstrip("\n")
    assert max(map(len, added.splitlines())) <= 100
    return added


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    check_golden(path, explain_stream_section)


def test_explain_is_equal_for_all_input_types(tmp_path: Path) -> None:
    pattern = ps.pattern("pattern p match Login a -> Transfer t [amount > 5] within 1 hour partition by user")
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    expected = pattern.explain(ps.events(ROWS, id="n"))
    for data in (table, str(tmp_path / "rows.parquet")):
        assert pattern.explain(ps.events(data, id="n")) == expected


def test_explain_of_several_inputs() -> None:
    stream = ps.events({"Login": ROWS[:1], "Transfer": ROWS[1:]}, key="user")
    explained = ps.pattern("pattern p match Login a -> Transfer t [amount > 5] within 1 hour").explain(stream)
    assert "partition by  user" in explained
    assert "amount (bigint)" in explained
