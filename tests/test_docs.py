"""The examples in the documentation have the output that the pages show."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import perseid

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "name", ["docs/guide-local.md", "docs/cheat-sheet.md", "docs/sql-differences.md", "docs/engines.md"]
)
def test_python_blocks_print_the_shown_output(name: str) -> None:
    blocks = BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))
    namespace: dict[str, object] = {"__name__": "document"}
    ran = 0
    for (language, body), following in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language != "python":
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(body, name, "exec"), namespace)
        if following[0] == "text":
            assert out.getvalue().rstrip() == following[1].rstrip()
        ran += 1
    assert ran > 0


@pytest.mark.deep  # .ci/run does the same with the wheel in a separate environment
def test_the_readme_runs_as_printed() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "readme.py"), str(ROOT / "README.md")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_docstring_examples_pass() -> None:
    import perseid.builder

    for module in (perseid, perseid.builder):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0


def test_links_are_not_broken() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_dependency_is_documented() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    named = [*project["project"]["dependencies"]]
    for group in [*project["project"]["optional-dependencies"].values(), *project["dependency-groups"].values()]:
        named += group
    for requirement in named:
        name = re.split(r"[<>=\[; ]", requirement)[0].removesuffix("-stubs")
        if name != project["project"]["name"]:  # an extra can include other extras
            assert name in listed, name


def _rejected_patterns() -> list[str]:
    page = (ROOT / "docs" / "refusals.md").read_text(encoding="utf-8").split("## Combinations that an engine")[0]
    rows = re.findall(r"^\| `(.+?)` \| .+ \|$", page, re.MULTILINE)
    return [row.replace("\\|", "|") for row in rows]


@pytest.mark.parametrize("text", _rejected_patterns())
def test_documented_refusals_are_rejected(text: str) -> None:
    with pytest.raises(perseid.errors.PatternError) as caught:
        perseid.pattern(f"pattern p match {text}").check()
    assert caught.value.line == 1


def test_at_least_25_refusals_are_documented() -> None:
    assert len(_rejected_patterns()) >= 25


def test_lock_files_have_no_urls() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text
        assert "--index" not in text
