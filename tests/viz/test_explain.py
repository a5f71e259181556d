"""What explain says beside what a plan has."""

from __future__ import annotations

import perseid as ps
from perseid.lang.ast import Metadata
from perseid.viz.explain import explain

PLAN = ps.pattern("pattern p match A").plan()


def test_what_is_for_people_comes_first() -> None:
    said = explain(PLAN, "p", Metadata("high", "web team", ("fraud", "night"), "Two lines\n  are one."))
    assert said.startswith(
        "pattern p\n\nmetadata\n  description  Two lines are one.\n  severity     high\n"
        "  owner        web team\n  tags         fraud, night\n\nsteps\n"
    )


def test_nothing_for_people_is_no_block() -> None:
    assert explain(PLAN, "p").startswith("pattern p\n\nsteps\n")
