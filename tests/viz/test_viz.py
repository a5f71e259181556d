"""What explain and draw print, for patterns people would write: golden files, read by people."""

from __future__ import annotations

from pathlib import Path

import pytest

import perseid as ps
from tests.golden import check_golden

FOLDER = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples" / "patterns"


def everything(text: str) -> str:
    patterns = ps.patterns(text)
    parts = [patterns.explain(), patterns.draw(), patterns.draw("mermaid"), patterns.draw("dot")]
    return "\n".join(parts)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    check_golden(path, everything)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.perseid")), ids=lambda p: p.stem)
def test_every_example_explains_and_draws(path: Path) -> None:
    assert everything(path.read_text(encoding="utf-8"))


def test_labels_are_escaped() -> None:
    pattern = ps.pattern("pattern p match A a [v = 'say \"hi\" \\ <b>'] -> B b within 1 minute")
    assert '"hi"' not in pattern.draw("mermaid")
    assert '\\"hi\\"' in pattern.draw("dot")


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ps.PerseidError, match="text, mermaid, dot or svg"):
        ps.pattern("pattern p match A").draw("pdf")  # type: ignore[arg-type]
