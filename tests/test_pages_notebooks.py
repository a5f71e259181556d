"""The notebooks that run without Spark have the output that they show."""

from __future__ import annotations

import json
import re

import pytest

from tests.notebooks import NOTEBOOKS, run_notebook


@pytest.mark.parametrize("name", ["01-first-pattern", "03-why-no-match"])
def test_notebook_shows_its_output(name: str) -> None:
    run_notebook(NOTEBOOKS / f"{name}.ipynb")


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_links_of_a_notebook_are_not_broken(path: object) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]  # type: ignore[attr-defined]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    targets = re.findall(r"\]\(([^)#:]+)[^)]*\)", text)
    assert targets
    assert [target for target in targets if not (NOTEBOOKS / target).exists()] == []
