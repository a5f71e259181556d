"""Golden files: input above a line of dashes, what it becomes below. PERSEID_REWRITE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

LINE = "----\n"


def check_golden(path: Path, become: Callable[[str], str]) -> None:
    text, _, expected = path.read_text(encoding="utf-8").partition(LINE)
    given = become(text)
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(text + LINE + given, encoding="utf-8")
        expected = given
    assert given == expected
