"""The how-to pages that run locally show their actual output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_guides import run_page

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
ON_SPARK = {"rfid-through-gates.md"}
LOCAL = sorted({page.name for page in PAGES.glob("*.md")} - ON_SPARK - {"index.md"})


@pytest.mark.parametrize("name", LOCAL)
def test_how_to_page_prints_what_it_shows(name: str) -> None:
    run_page(PAGES / name)


def test_index_lists_every_page() -> None:
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    assert [
        page.name for page in PAGES.glob("*.md") if page.name != "index.md" and f"]({page.name})" not in index
    ] == []
