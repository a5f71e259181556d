"""The concept pages show actual output, and their diagrams are what their script draws."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.test_guides import run_page

CONCEPTS = Path(__file__).parents[1] / "docs" / "concepts"
LOCAL = ["index", "contiguity", "selection", "exactly-once", "probability", "live-graphs"]
ON_SPARK = ["event-time", "disorder", "state"]
SVG = "{http://www.w3.org/2000/svg}"


def load_diagrams() -> ModuleType:
    """Import the script that draws the diagrams, which is in no package."""
    spec = importlib.util.spec_from_file_location("concept_diagrams", CONCEPTS / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DIAGRAMS = load_diagrams()


@pytest.mark.parametrize("name", LOCAL)
def test_page_shows_its_output(name: str) -> None:
    run_page(CONCEPTS / f"{name}.md")


def test_every_page_is_run() -> None:
    assert {path.stem for path in CONCEPTS.glob("*.md")} == {*LOCAL, *ON_SPARK}


@pytest.mark.parametrize("name", [*LOCAL, *ON_SPARK])
def test_page_has_its_diagram(name: str) -> None:
    page = (CONCEPTS / f"{name}.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page) == [f"{name}.svg"]


def test_files_are_what_the_script_draws() -> None:
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        DIAGRAMS.write_diagrams(CONCEPTS)
    drawn = {f"{name}.svg": draw().svg() for name, draw in DIAGRAMS.DIAGRAMS.items()}
    assert {path.name: path.read_text(encoding="utf-8") for path in CONCEPTS.glob("*.svg")} == drawn


@pytest.mark.parametrize("name", [*LOCAL, *ON_SPARK])
def test_diagram_is_readable(name: str) -> None:
    """A diagram has the width of a page, a title, a description, dark colors, and text that is large enough and inside."""
    text = (CONCEPTS / f"{name}.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.get("width") == "720"
    assert root.findtext(f"{SVG}title")
    assert root.findtext(f"{SVG}desc")
    assert "@media (prefers-color-scheme: dark)" in text
    assert min(map(int, re.findall(r"font-size: (\d+)px", text))) >= 13
    for label in root.iter(f"{SVG}text"):
        width = 8 * len(label.text or "")  # more than the average width of a character
        left = float(label.get("x", 0)) - {"start": 0, "middle": width / 2, "end": width}[label.get("text-anchor", "")]
        assert left >= 0
        assert left + width <= 720
        assert 13 <= float(label.get("y", 0)) <= int(root.get("height", 0)) - 5
