"""explain() and draw() of typical patterns, as golden files."""

from __future__ import annotations

from pathlib import Path

import pytest

import perseid as ps
from tests.golden import check_golden

FOLDER = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples" / "patterns"


def explain_and_draw(text: str) -> str:
    patterns = ps.patterns(text)
    parts = [patterns.explain(), patterns.draw(), patterns.draw("mermaid"), patterns.draw("dot")]
    return "\n".join(parts)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    check_golden(path, explain_and_draw)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.perseid")), ids=lambda p: p.stem)
def test_every_example_can_be_explained_and_drawn(path: Path) -> None:
    assert explain_and_draw(path.read_text(encoding="utf-8"))


def test_labels_are_escaped() -> None:
    pattern = ps.pattern("pattern p match A a [v = 'say \"hi\" \\ <b>'] -> B b within 1 minute")
    assert '"hi"' not in pattern.draw("mermaid")
    assert '\\"hi\\"' in pattern.draw("dot")


def test_unknown_format_is_an_error() -> None:
    with pytest.raises(ps.PerseidError, match="text, mermaid, dot or svg"):
        ps.pattern("pattern p match A").draw("pdf")  # type: ignore[arg-type]
