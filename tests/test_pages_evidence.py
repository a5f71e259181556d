"""The pages of evidence name tests, commands and figures that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.__main__ import BENCHES
from perseid.runtime.registry import BUILT_IN

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
EXPERIMENTS = ROOT / "docs" / "experiments"
PAGES = sorted(EVIDENCE.glob("*.md"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_files_and_tests_exist(page: Path) -> None:
    for name in re.findall(r"(?:tests|bench|fuzz|src|\.ci)/[\w/.:-]*\w", read(page)):
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not test or f"def {test}(" in read(ROOT / file), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_benchmarks_exist(page: Path) -> None:
    assert set(re.findall(r"python -m bench (\w[\w-]*)", read(page))) <= set(BENCHES)


def test_counts_of_the_page_are_reached() -> None:
    page = read(EVIDENCE / "tests.md")
    cases = [read(file) for file in (ROOT / "tests" / "semantics" / "cases").glob("*.txt")]
    states = list((ROOT / "tests" / "contract" / "states").glob("*.bin"))
    errors = [file for name in ("errors", "model_errors") for file in (ROOT / "tests" / "lang" / name).iterdir()]
    found = {
        "paper | at least ": sum(text.count("\n== ") + text.startswith("== ") for text in cases),
        "same form | at least ": read(ROOT / "docs" / "semantics.md").count("\n== "),
        "with at least ": len(states),
        "error, at least ": len(errors),
    }
    for before, number in found.items():
        (least,) = re.findall(re.escape(before) + r"(\d+)", page)
        assert int(least) <= number < 1.3 * int(least), f"{before}{least}: {number}"


def test_page_names_every_stateful_engine() -> None:
    disorder = set(BUILT_IN["perseid.engines.disorder.engine"])
    engines = {name for names in BUILT_IN.values() for name in names} - {"TREES"}  # it has no state
    named = set(re.findall(r"`(\w+)`", read(EVIDENCE / "tests.md").partition("for every engine")[2].partition("\n")[0]))
    assert {name.upper() for name in named} | disorder == engines
    assert len(disorder) == 5


def test_figures_of_papers_are_those_of_the_experiments() -> None:
    """Every number with a decimal point or a thousands separator is on a page that its section links."""
    sections = re.split(r"^## ", read(EVIDENCE / "papers.md"), flags=re.MULTILINE)[1:]
    assert len(sections) == 5
    for section in sections:
        names = set(re.findall(r"\(\.\./experiments/([\w-]+\.md)", section))
        known = " ".join(read(EXPERIMENTS / name) for name in names)
        figures = re.findall(r"(?<![\w.,])\d+(?:,\d{3})+(?![\w,])|(?<![\w.,])\d+\.\d+(?!\w)", section)
        assert len(figures) > 5
        assert [one for one in figures if not re.search(rf"(?<![\d.,]){re.escape(one)}(?!\d)", known)] == []


def test_figures_of_the_soak_run_are_those_of_the_experiment() -> None:
    known = read(EXPERIMENTS / "pipeline.md")
    figures = re.findall(r"\d+,\d+|[+]?\d+\.\d %", read(EVIDENCE / "soak.md"))
    assert len(figures) > 5
    assert [one for one in figures if one not in known] == []
