"""perseid.testing: cases, and the messages of invalid cases and failed assertions."""

from __future__ import annotations

from pathlib import Path

import pytest

import perseid as ps
from perseid.reference.oracle import oracle_matcher
from perseid.testing import assert_matches
from perseid.testing.cases import parse_cases, picture, read_cases, run_case

CASE = """== one A
match A a
events
  a1 A 1
gives
  a=a1
why it is there
"""
PAIR = ps.pattern("pattern pair match A a -> B b within 1 minute")
ROWS = [{"ts": 0, "type": "A"}, {"ts": 61, "type": "B"}]


@pytest.mark.parametrize("kind", [str, Path])
def test_cases_are_read_from_a_string_or_a_path(tmp_path: Path, kind: type) -> None:
    (tmp_path / "one.cases").write_text(CASE, encoding="utf-8")
    (case,) = read_cases(kind(tmp_path / "one.cases"))
    assert (case.title, case.source) == ("one A", "one.cases")


@pytest.mark.parametrize("instead", ["", "after match skip past last"])
def test_case_without_a_pattern_is_an_error(instead: str) -> None:
    (case,) = parse_cases(CASE.replace("match A a", instead), "one.cases")
    for use in (run_case, picture):
        with pytest.raises(
            ValueError, match=r"one\.cases, case 'one A' has no match clause: add a pattern above its events"
        ):
            use(case, oracle_matcher())


def test_case_can_refer_to_a_rule_by_name() -> None:
    text = CASE.replace("match A a", "of pair").replace("a1 A 1", "a1 A 1; b1 B 2").replace("a=a1", "a=a1 b=b1")
    (case,) = parse_cases(text, rules=PAIR)
    assert run_case(case, oracle_matcher()) == ["a=a1 b=b1"]
    with pytest.raises(ValueError, match=r"unknown rule 'pair'; available: other"):
        parse_cases(text, rules="pattern other match A a")
    with pytest.raises(ValueError, match=r"unknown rule 'pair'; use read_cases\(path, rules=…\)"):
        parse_cases(text)


def test_case_includes_the_patterns_that_feed_its_rule() -> None:
    rules = ps.patterns("pattern twice match pair x -> pair y within 1 hour", PAIR, "pattern other match C c")
    text = """== fed
of twice
events
  a1 A 1; b1 B 2; a2 A 3; b2 B 4
gives
  in pair a=a1 b=b1
  in pair a=a2 b=b2
  in twice x=a1 y=a2
why it takes matches of pair
"""
    (case,) = parse_cases(text, rules=rules)
    assert "pattern other" not in case.text
    assert len(run_case(case, oracle_matcher())) == 3


def test_missing_match_is_explained() -> None:
    assert_matches(PAIR, ROWS, 0)
    with pytest.raises(AssertionError, match=r"expected 1, found:\n0 matches\n(.|\n)*B occurred after the window"):
        assert_matches(PAIR, ROWS, 1)


def test_unexpected_matches_are_shown() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_matches(PAIR, [ROWS[0], {"ts": 5, "type": "B"}], 0)
    assert "1 match\n  pair" in str(raised.value)
    assert "candidate" not in str(raised.value)
