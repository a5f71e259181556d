"""The guide to Spark batch shows what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-batch.md"
BLOCK = re.compile(r"^```python spark\n(.*?)^```\n(?:```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def test_the_guide(spark: SparkSession) -> None:
    namespace: dict[str, object] = {"__name__": "document", "spark": spark}
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert blocks
    for code, shown in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, GUIDE.name, "exec"), namespace)
        assert out.getvalue().rstrip() == shown.rstrip()
