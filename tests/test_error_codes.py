"""Every error has a code, and the page of error codes is generated from them and from the golden files."""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import perseid
from perseid.cli.app import app
from perseid.error_codes import CODES, find_code
from perseid.errors import PerseidError

ROOT = Path(__file__).parent.parent
GOLDEN_FOLDERS = (ROOT / "tests" / "lang" / "errors", ROOT / "tests" / "lang" / "model_errors")
SHOWN_EXAMPLES = 3
"""Maximum number of examples for each code on the page."""
HEADER = """# Error codes

This page is for everybody who gets an error from Perseid. It lists every code with its causes and its fix.

An error has a code: `error.code` in Python; the command line prints it in brackets after the class name. `perseid explain-error CODE` prints a section of this page; it also accepts the name of the class. `except ps.PerseidError` catches all errors. Below each code is the path of its class; most classes are in `ps.errors`.

The examples are messages from the tests. The tests generate this page.
"""


def classes() -> list[type[PerseidError]]:
    """Return all error classes of the package."""
    for module in pkgutil.walk_packages(perseid.__path__, "perseid."):
        if not module.name.endswith("__main__") and module.name != "perseid.spark.worker_daemon":
            import_module(module.name)
    found, waiting = [], [PerseidError]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += [sub for sub in one.__subclasses__() if sub.__module__.startswith("perseid.")]
    return found


def test_every_error_class_has_a_code_with_a_text() -> None:
    known = {code.error: code.code for code in CODES}
    found = {f"{one.__module__}.{one.__qualname__}": one.code for one in classes() if not one.__name__.startswith("_")}
    assert found == known
    assert len(set(known.values())) == len(known), "codes are unique"


def test_code_is_found_by_its_name_and_by_its_class() -> None:
    for code in CODES:
        assert find_code(code.code) is find_code(code.class_name) is find_code(code.error) is code
    with pytest.raises(PerseidError, match=r"Unknown error code 'scop'.\n  = Did you mean 'scope'"):
        find_code("scop")


def test_command_prints_cause_and_fix() -> None:
    shown = CliRunner().invoke(app, ["explain-error", "SearchBudgetError"])
    assert (shown.exit_code, shown.output) == (0, find_code("search-budget").explain())
    assert CliRunner().invoke(app, ["explain-error"]).output.count("\n") == len(CODES)
    unknown = CliRunner().invoke(app, ["explain-error", "E0382"])
    assert unknown.exit_code == 2
    assert "Available: error, pattern" in unknown.output


def test_page_of_error_codes() -> None:
    path = ROOT / "docs" / "errors.md"
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(_page(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == _page()


def _page() -> str:
    examples: dict[str, list[tuple[int, str]]] = {}
    for rank, folder in enumerate(GOLDEN_FOLDERS):  # patterns first, then models
        for path in sorted(folder.glob("*.txt")):
            text, _, message = path.read_text(encoding="utf-8").partition("\n----\n")
            kind, _, rest = message.partition("\n")
            # The tests add a model or a schema to some texts, which then have other line numbers than the message.
            if text.strip() and not text.startswith(("...", "schema ")):
                examples.setdefault(kind, []).append((rank, f"{text}\n\n{rest.rstrip()}"))
    sections = []
    for code in CODES:
        own = sorted(examples.get(code.class_name, []), key=lambda one: (one[0], len(one[1])))[:SHOWN_EXAMPLES]
        shown = "".join(f"\n```text\n{text}\n```\n" for _, text in own)
        sections.append(f"## {code.code}\n\n`{code.error}`\n\n**Cause.** {code.cause}\n\n**Fix.** {code.fix}\n{shown}")
    return "\n".join([HEADER, *sections])
