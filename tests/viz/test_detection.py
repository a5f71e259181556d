"""What explain says of a pattern on a declared stream, in this process: golden files. Spark's are in tests/spark."""

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


def on_the_stream(text: str) -> str:
    patterns = ps.patterns(text)
    told = patterns.explain(ps.events(ROWS, id="n", order_by="n"))
    before = patterns.explain()
    assert told.startswith(before)
    added = told[len(before) :].lstrip("\n")
    assert max(map(len, added.splitlines())) <= 100
    return added


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    check_golden(path, on_the_stream)


def test_every_kind_of_data(tmp_path: Path) -> None:
    pattern = ps.pattern("pattern p match Login a -> Transfer t [amount > 5] within 1 hour partition by user")
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    expected = pattern.explain(ps.events(ROWS, id="n"))
    for data in (table, str(tmp_path / "rows.parquet")):
        assert pattern.explain(ps.events(data, id="n")) == expected


def test_several_inputs() -> None:
    stream = ps.events({"Login": ROWS[:1], "Transfer": ROWS[1:]}, key="user")
    told = ps.pattern("pattern p match Login a -> Transfer t [amount > 5] within 1 hour").explain(stream)
    assert "partition by  user" in told
    assert "amount (bigint)" in told
