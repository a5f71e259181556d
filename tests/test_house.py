"""The house itself: how large its files are, and that none of them needs itself."""

from __future__ import annotations

import ast
import statistics
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_files_are_of_one_purpose() -> None:
    sizes = {path.relative_to(SOURCE).as_posix(): lines(path) for path in FILES}
    assert statistics.median(sizes.values()) <= 200
    assert not {name: size for name, size in sizes.items() if size > 700}


def module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path, known: set[str]) -> set[str]:
    """Modules of ours that a file imports, wherever it does so."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    # What a package has is in its modules; of packages themselves only the one at the door imports any.
    return {name for name in found & known if name != "perseid"} - {module(path)}


def test_no_file_needs_itself() -> None:
    """Not even in a function or for its types: whoever reads one file need not read in a circle."""
    known = {module(path) for path in FILES}
    graph = {module(path): imported(path, known) for path in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))
