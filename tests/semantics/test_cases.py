"""Hand-worked cases: the oracle and the plan's interpreter return the results worked out on paper."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from perseid.compile.compiler import compile_set
from perseid.lang.parser import parse_file
from perseid.reference.oracle import oracle_matcher
from perseid.reference.plan_matcher import plan_matcher
from perseid.semantics.binding import bind
from perseid.semantics.resolve import resolve
from perseid.testing.cases import PatternCase, parse_cases, picture, read_cases, run_case

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def _documented() -> list[PatternCase]:
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```case\n(.*?)```", text, re.DOTALL)
    return [case for block in blocks for case in parse_cases(block, "docs/semantics.md")]


def _all() -> list[PatternCase]:
    files = sorted((HERE / "cases").glob("*.txt"))
    return [case for file in files for case in read_cases(file)] + _documented()


CASES = _all()


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.source}: {c.title}")
def test_oracle(case: PatternCase) -> None:
    assert run_case(case, oracle_matcher()) == list(case.expected), case.why


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.source}: {c.title}")
def test_interpreter(case: PatternCase) -> None:
    patterns = []
    for pattern in parse_file(case.text).patterns:
        known = {p.name for p in pattern.parameters}
        patterns.append(resolve(bind(pattern, {k: v for k, v in (case.bound or {}).items() if k in known})))
    plan = compile_set(patterns)
    assert run_case(case, plan_matcher(plan)) == list(case.expected), case.why


def test_pictures_of_the_page_equal_the_oracle() -> None:
    """Every case of the page is followed by its picture; PERSEID_REWRITE_GOLDEN=1 redraws them."""
    path = ROOT / "docs" / "semantics.md"
    text = path.read_text(encoding="utf-8")

    def drawn(block: re.Match[str]) -> str:
        cases = parse_cases(block.group(1), "docs/semantics.md")
        pictures = [f"{case.title}\n{picture(case, oracle_matcher())}" for case in cases]
        return f"```case\n{block.group(1)}```\n\n```text\n" + "\n\n".join(pictures) + "\n```"

    again = re.sub(r"```case\n(.*?)```(?:\n\n```text\n.*?```)?", drawn, text, flags=re.DOTALL)
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(again, encoding="utf-8")
        text = again
    assert text == again


def test_there_are_enough() -> None:
    assert len(CASES) >= 250


def test_titles_are_unique() -> None:
    titles = [(case.source, case.title) for case in CASES]
    assert len(titles) == len(set(titles))
