"""The guides show actual output: every Python block runs, in order, and prints the text below it.

Pages with blocks marked ``python spark`` need a session and run in tests/spark.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
LOCAL = ["testing-patterns.md"]
ON_SPARK = ["from-window-functions.md", "documents.md", "subscriptions.md", "uncertain.md", "models.md"]
PICTURE = re.compile(r"\s*!\[[^\]]*\]\(([^)]+\.svg)\)")
BLOCK = re.compile(r"^```(python|python spark|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(page: Path, **variables: Any) -> None:
    """Run a page from top to bottom in one namespace; a picture below a block is its variable ``picture``.

    PERSEID_REWRITE_GOLDEN=1 rewrites the output and the pictures.
    """
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    namespace: dict[str, Any] = {"__name__": "guide", **variables}
    written, at = "", 0
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] == "text":
            continue
        assert block[1] == "python" or "spark" in variables, "a block that needs Spark is marked"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block[2], page.name, "exec"), namespace)
        below = PICTURE.match(text, block.end())
        if below:
            check_picture(page.parent / below[1], namespace["picture"])
        shown = following is not None and following[1] == "text" and following.start() == block.end() + 1
        if not shown or following is None:
            assert not out.getvalue(), f"{page.name} prints what it does not show:\n{out.getvalue()}"
            continue
        if os.environ.get("PERSEID_REWRITE_GOLDEN"):
            written += text[at : following.start(2)] + out.getvalue()
            at = following.end(2)
        else:
            assert out.getvalue() == following[2]
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        page.write_text(written + text[at:], encoding="utf-8")


def check_picture(path: Path, drawn: str) -> None:
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == drawn, f"{path.name} is not what the page draws"


@pytest.mark.parametrize("name", LOCAL)
def test_guide(name: str) -> None:
    run_page(GUIDES / name)
