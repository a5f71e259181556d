"""Each rewrite has a golden file of the same name, and no rewrite changes the matches of a pattern."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from perseid.compile.rewrites import REWRITES
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import detect
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve
from tests.compile.core_text import core_text
from tests.generators.random_patterns import core_patterns, event_streams
from tests.golden import check_golden

FOLDER = Path(__file__).parent / "rewrites"


@pytest.mark.parametrize("rule", REWRITES, ids=lambda r: r.__name__)
def test_golden(rule) -> None:
    def rewrite_text(text: str) -> str:
        core = resolve(parse_pattern(text))
        return "before\n" + core_text(core) + "after\n" + core_text(rule(core))

    check_golden(FOLDER / f"{rule.__name__}.txt", rewrite_text)


def test_every_golden_file_has_a_rewrite() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} == {rule.__name__ for rule in REWRITES}


@given(core_patterns(), event_streams())
def test_meaning_stays(pattern: CorePattern, events: list[Event]) -> None:
    before = detect([pattern], events, oracle_matcher())
    for rule in REWRITES:
        after = detect([rule(pattern)], events, oracle_matcher())
        assert [m.match_id for m in after.matches] == [m.match_id for m in before.matches]
