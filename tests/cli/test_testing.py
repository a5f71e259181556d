"""``perseid test`` runs the test cases of rules from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lxml import etree
from typer.testing import Result

from tests.cli.calling import invoked

RULES = """
pattern double_payment
match   Payment a [amount > 1] -> not Refund -> Payment b [amount = a.amount]
within  1 hour
partition by order_id

pattern other
match Order o -> (Ship s | Cancel c)
within 1 day
"""
RIGHT = """
== paid twice
of double_payment
events
  p1 Payment 0 amount=20; p2 Payment 60 amount=30; p3 Payment 90 amount=20
gives
  a=p1 b=p3 end=90
why p2 is another sum
"""
WRONG = """
== refunded <in> between & "so"
of double_payment
events
  p1 Payment 0 amount=20; r1 Refund 30; p2 Payment 60 amount=20
gives
  a=p1 b=p2
why this is not so
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.perseid").write_text(RULES)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.cases").write_text(RIGHT)
    return tmp_path


def call(*arguments: str | Path) -> Result:
    return invoked("test", *arguments)


def test_cases_in_the_folder_of_the_rules_run_and_uncovered_parts_are_reported(folder: Path) -> None:
    done = call(folder / "rules.perseid")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "1 case, OK",
        "not reached: double_payment: no event violated 'not Refund'",
        "not reached: double_payment: amount > 1 was always true",
        "not reached: other: no case uses it",
    ]
    assert call(folder, "--whole").exit_code == 1


def test_steps_of_partial_matches_count_as_covered(folder: Path) -> None:
    cases = """
== cheap
of double_payment
events
  p1 Payment 0 amount=1; p2 Payment 5 amount=2; r Refund 6; p3 Payment 60 amount=2
gives
  none
why nothing is paid twice

== shipped
of other
events
  o Order 0; s Ship 1
gives
  o=o s=s
why it was
"""
    (folder / "tests" / "b.cases").write_text(cases)
    report = json.loads(call(folder, "--json").stdout)
    assert report["unreached"] == {"double_payment": [], "other": ["no event matched c: Cancel"]}
    assert [case["passed"] for case in report["cases"]] == [True, True, True]


def test_failed_case_shows_the_actual_matches(folder: Path) -> None:
    (folder / "tests" / "b.cases").write_text(WRONG)
    done = call(folder, "--junit", folder / "report.xml")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[:7] == [
        'b.cases: refunded <in> between & "so"',
        "  expected: a=p1 b=p2",
        "  found:    none",
        "  why:      this is not so",
        "  time    0        30       60",
        "  events  Payment  Refund   Payment",
        "  no match",
    ]
    report = etree.parse(folder / "report.xml").getroot()
    assert dict(report.attrib) == {"name": "perseid", "tests": "2", "failures": "1", "errors": "0"}
    assert [case.get("name") for case in report] == ["paid twice", 'refunded <in> between & "so"']
    (failure,) = report.iter("failure")
    assert failure.get("message") == "expected: a=p1 b=p2"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("== x\nof doble\nevents\n  a A 0\ngives\n  none\nwhy so", "unknown rule 'doble'"),
        ("== x\nof other\nevents\n  a A soon\ngives\n  none\nwhy so", "Invalid case: "),
        ("== x\nof other\nevents\n  a A 0\ngives\n  none", "no 'why' section"),
        ("== x\nof other\nevents\n  a A 0", "no 'gives' and no 'why' section; for no match"),
        ("== x\nof other\nevents\n  a A\ngives\n  none\nwhy so", "event 'a A': expected a name, a type and a time"),
    ],
)
def test_invalid_case_is_an_error_with_its_reason(folder: Path, text: str, reason: str) -> None:
    (folder / "tests" / "b.cases").write_text(text)
    done = call(folder)
    assert done.exit_code == 1
    assert reason in done.stderr


def test_invalid_pattern_in_a_case_is_an_error_of_the_case(folder: Path) -> None:
    (folder / "tests" / "b.cases").write_text("== x\nmatch A a ->\nevents\n  a A 0\ngives\n  none\nwhy so")
    done = call(folder, "--junit", folder / "report.xml")
    assert done.exit_code == 1
    assert etree.parse(folder / "report.xml").getroot().get("errors") == "1"


def test_missing_cases_are_an_error(folder: Path) -> None:
    (folder / "tests" / "a.cases").unlink()
    done = call(folder)
    assert (done.exit_code, "No cases found." in done.stderr) == (1, True)
    assert call(folder, "--cases", folder / "none.cases").exit_code == 1
    assert call(folder, "--cases", folder / "tests").exit_code == 1
