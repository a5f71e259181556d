"""The pages for users of other systems run, and show the same five patterns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import perseid as ps
from tests.test_guides import run_page

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "coming-from"
PAGES = sorted(page.name for page in FOLDER.glob("*.md"))
TASKS = ["account_takeover", "unpaid_order", "funnel", "burst", "v_shape"]


@pytest.mark.parametrize("name", PAGES)
def test_page_prints_the_shown_output(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the blocks read the events by a path from the root folder
    run_page(FOLDER / name)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "index.md"])
def test_page_has_the_five_patterns_of_the_file(name: str) -> None:
    patterns = [
        ps.pattern(text) for text in re.findall(r'ps\.pattern\("""\n(.*?)"""\)', (FOLDER / name).read_text(), re.DOTALL)
    ]
    expected = ps.load(FOLDER / "tasks.perseid")
    assert [pattern.name for pattern in patterns] == TASKS
    assert patterns == [expected[task] for task in TASKS]
