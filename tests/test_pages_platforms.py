"""The code of the platform pages compiles, and their YAML can be parsed; most of these platforms are not available here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / "docs" / "platforms"
PAGES = sorted(page.name for page in FOLDER.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_code_compiles(name: str) -> None:
    for language, body in BLOCK.findall((FOLDER / name).read_text(encoding="utf-8")):
        if language == "py":
            compile(body, name, "exec")
        elif language == "yaml":
            assert isinstance(yaml.safe_load(body), dict)


@pytest.mark.parametrize("name", ["airflow", "databricks", "dataproc", "emr", "kubernetes"])
def test_platform_without_a_test_says_so_in_its_first_paragraph(name: str) -> None:
    first = (FOLDER / f"{name}.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert first.startswith("Not tested: ")


def test_table_of_platforms_is_complete() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if name != "index.md" and f"]({name})" not in index] == []
