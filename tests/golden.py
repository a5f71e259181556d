"""Golden files: input above a line of dashes, expected output below. PERSEID_REWRITE_GOLDEN=1 rewrites them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

LINE = "----\n"


def check_golden(path: Path, transform: Callable[[str], str]) -> None:
    text, _, expected = path.read_text(encoding="utf-8").partition(LINE)
    actual = transform(text)
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(text + LINE + actual, encoding="utf-8")
        expected = actual
    assert actual == expected
