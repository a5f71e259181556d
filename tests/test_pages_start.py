"""The start pages that need no Spark show real output, and name the extras and versions of the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.test_guides import run_page

ROOT = Path(__file__).parents[1]
START = ROOT / "docs" / "start"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("name", ["install.md", "notebook.md"])
def test_page_shows_its_output(name: str) -> None:
    run_page(START / name)


def test_installation_lists_every_extra() -> None:
    page = (START / "install.md").read_text(encoding="utf-8")
    extras = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert extras == set(PROJECT["optional-dependencies"])


def test_installation_names_the_tested_versions() -> None:
    page = (START / "install.md").read_text(encoding="utf-8")
    lock = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    (spark,) = re.findall(r"^pyspark(?:\[connect\])?==(\S+)", lock, re.MULTILINE)
    assert f"Spark {spark}; Java 17" in page
    assert "Spark 4.0.0, and the newest Spark below 5" in page
    assert '"==4.0.0" ">=4.0,<5"' in (ROOT / ".ci" / "compat").read_text(encoding="utf-8")
    named = [one.removeprefix("Programming Language :: Python :: ") for one in PROJECT["classifiers"]]
    assert "The tested version is Python 3.11." in page
    assert [one for one in named if re.fullmatch(r"3\.\d+", one)] == ["3.11"]
