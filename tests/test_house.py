"""The structure of the source tree: sizes of files, import cycles, and the packages of engines."""

from __future__ import annotations

import ast
import re
import statistics
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_files_are_small() -> None:
    sizes = {path.relative_to(SOURCE).as_posix(): lines(path) for path in FILES}
    assert statistics.median(sizes.values()) <= 200
    assert not {name: size for name, size in sizes.items() if size > 700}


def module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


KNOWN = {module(path) for path in FILES}


def imported(path: Path, known: set[str]) -> set[str]:
    """Return the modules of Perseid that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    # Packages other than the top-level package import nothing, so only modules count.
    return {name for name in found & known if name != "perseid"} - {module(path)}


def test_imports_have_no_cycles() -> None:
    """Imports inside functions and for types count too, so that files can be read without cycles."""
    graph = {module(path): imported(path, KNOWN) for path in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


OUTSIDE = {
    "sequence, disorder": ["api/stream_kinds/events", "jobs/stream_kinds/events", "jobs/stream_kinds/disorder", "viz/detection"],
    "trees": ["api/trees", "api/stream_kinds/documents", "jobs/stream_kinds/documents", "spark/documents", "viz/tree_drawing"],
    "joins": ["api/subscriptions", "api/subscription_table", "api/stream_kinds/subscriptions", "jobs/stream_kinds/subscriptions"],
    "uncertain": ["api/uncertain", "api/uncertain_events", "api/stream_kinds/uncertain", "jobs/stream_kinds/uncertain"],
    "models": ["api/models", "api/stream_kinds/models", "jobs/stream_kinds/models", "spark/emitted"],
}  # fmt: skip
"""Files of one engine outside its package: public functions and options of job files."""
MAX_LINES_OUTSIDE = 600
SHARED = {"api/arguments", "api/pattern_meanings", "api/pattern_sources", "jobs/stream_kinds/contract"}
"""Files that all kinds of streams use, although they import one engine."""


NAMESPACES = {"disorder", "graph", "types", "uncertain", "xml", "xscl"}
"""Public modules that only import names."""


def test_namespaces_have_no_code() -> None:
    for name in NAMESPACES:
        tree = ast.parse((SOURCE / "perseid" / f"{name}.py").read_text(encoding="utf-8"))
        assert {type(node) for node in tree.body} == {ast.Expr, ast.ImportFrom, ast.Assign}, name


def test_code_of_an_engine_outside_its_package_is_bounded() -> None:
    sizes = {
        engine: sum(lines(SOURCE / "perseid" / f"{file}.py") for file in files) for engine, files in OUTSIDE.items()
    }
    assert not {engine: size for engine, size in sizes.items() if size > MAX_LINES_OUTSIDE}


def test_files_outside_that_import_one_engine_are_listed() -> None:
    listed = SHARED.union(NAMESPACES, *OUTSIDE.values())
    found = set()
    for path in FILES:
        name = path.relative_to(SOURCE / "perseid").with_suffix("").as_posix()
        if not name.startswith(("engines/", "reference/", "lang/", "semantics/")):
            engines = {m.split(".")[2] for m in imported(path, KNOWN) if m.startswith("perseid.engines.")}
            if len(engines - {"disorder"} or engines) == 1:
                found.add(name)
    assert found <= listed


def test_scripts_name_tests_that_exist() -> None:
    root, names = Path(__file__).parents[1], 0
    for script in (root / ".ci").iterdir():
        if not script.is_file():
            continue
        for path, test in re.findall(
            r"(?<=\s)(tests/[\w/*]+(?:\.py)?)(?:::(\w+))?", script.read_text(encoding="utf-8")
        ):
            names += 1
            assert list(root.glob(path)), f"{script.name}: {path}"
            assert not test or f"def {test}(" in (root / path).read_text(encoding="utf-8"), f"{script.name}: {test}"
    assert names > 15
