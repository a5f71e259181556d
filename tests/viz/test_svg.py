"""SVG drawings are well-formed, have every state, edge and label, and have nothing outside the picture."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import perseid as ps

TOUR = sorted((Path(__file__).parents[2] / "examples" / "patterns").glob("*.perseid"))
SVG = "{http://www.w3.org/2000/svg}"


def parsed(drawing: str) -> list[ElementTree.Element]:
    """Return the pictures of a drawing, one for each pattern."""
    return [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", drawing, re.DOTALL)]


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in picture.iter(f"{SVG}text")]


def test_drawing_has_all_states_edges_and_labels() -> None:
    pattern = ps.pattern(
        "pattern p match Login a -> not Logout -> (Transfer+ t | Withdraw w) within 10 minutes partition by user"
    )
    (picture,) = parsed(pattern.draw("svg"))
    assert {"start", "a: Login", "t: Transfer", "w: Withdraw", "p", "no Logout", "within 10 minutes, per user"} <= set(
        texts(picture)
    )
    paths = [one for one in picture.iter(f"{SVG}path") if one.get("class") == "edge"]
    assert len(paths) == pattern.draw("dot").count(" -> ")
    assert pattern.draw("svg")._repr_html_().startswith("<svg")  # type: ignore[attr-defined]


def test_drawing_of_a_tree_pattern_has_its_steps() -> None:
    (picture,) = parsed(ps.xml.tree_patterns("//order->o[/total > 100]//item->i").draw("svg"))
    assert {"start", "q1 //order->o", "tree"} <= set(texts(picture))


def test_text_is_escaped() -> None:
    (picture,) = parsed(ps.pattern("pattern p match A [v = '<&>'] -> B within 1 minute").draw("svg"))
    assert any("<&>" in text for text in texts(picture))


@pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
def test_every_pattern_of_the_tour_lies_inside_its_picture(path: Path) -> None:
    for pattern in ps.load(path):
        for picture in parsed(pattern.draw("svg")):
            left, top, width, height = map(float, (picture.get("viewBox") or "").split())
            for box in picture.iter(f"{SVG}rect"):
                x, y = float(box.get("x", 0)), float(box.get("y", 0))
                assert left <= x <= left + width - float(box.get("width", 0))
                assert top <= y <= top + height - float(box.get("height", 0))
