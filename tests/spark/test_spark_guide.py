"""The Spark guides show real output."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from perseid.spark.stream_worker import BEHIND_CLOCK, LATE_REASONS, NO_TIME, UNCLEAR_PUNCTUATION

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def run_guide(spark: SparkSession, name: str, marks: str = "spark") -> None:
    """Run the Python blocks with one of these marks, in order; each must print the output below it."""
    page = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    block = rf"^```python (?:{marks})\n(.*?)^```\n(?:```text\n(.*?)^```)?"
    namespace: dict[str, object] = {"__name__": "document", "spark": spark}
    blocks = re.findall(block, page, re.MULTILINE | re.DOTALL)
    assert blocks
    for code, shown in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, f"{name}.md", "exec"), namespace)
        assert out.getvalue().rstrip() == shown.rstrip()


@pytest.mark.parametrize("name", ["spark-batch", "streaming", "out-of-order", "executors"])
def test_guide_shows_its_output(spark: SparkSession, name: str) -> None:
    run_guide(spark, name)


def test_guide_lists_every_reason() -> None:
    page = (GUIDES / "streaming.md").read_text(encoding="utf-8")
    late = [f"| `late` | {reason} |" for reason in (*LATE_REASONS.values(), BEHIND_CLOCK)]
    assert [
        line for line in (*late, f"| `bad` | {NO_TIME} |", f"| `bad` | {UNCLEAR_PUNCTUATION} |") if line not in page
    ] == []
