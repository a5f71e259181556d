"""The guides to Spark show what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"^```python spark\n(.*?)^```\n(?:```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["spark-batch", "streaming", "out-of-order"])
def test_the_guide(spark: SparkSession, name: str) -> None:
    guide = GUIDES / f"{name}.md"
    namespace: dict[str, object] = {"__name__": "document", "spark": spark}
    blocks = BLOCK.findall(guide.read_text(encoding="utf-8"))
    assert blocks
    for code, shown in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, guide.name, "exec"), namespace)
        assert out.getvalue().rstrip() == shown.rstrip()
