"""The README: its code prints what it shows, the SQL beside it finds the same, and its length is one screen."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from pyspark.sql import SparkSession

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
MAX_WORDS = 500


def test_code_prints_the_match_and_sql_finds_it_too(spark: SparkSession) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        namespace: dict[str, object] = {"__name__": "readme"}
        exec(compile(BLOCKS["python"], "README.md", "exec"), namespace)
        namespace["events"].createOrReplaceTempView("events")  # type: ignore[attr-defined]
        spark.sql(BLOCKS["sql"]).show()
    shown = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    assert shown == BLOCKS["text"].splitlines() * 2


def test_length() -> None:
    prose = re.sub(r"^```.*?^```$|!\[[^\]]*\]\([^)]*\)", "", README, flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"\w[\w'.-]*", re.sub(r"\]\([^)]*\)", "]", prose))) <= MAX_WORDS
