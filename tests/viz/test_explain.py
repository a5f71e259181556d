"""The metadata block of explain()."""

from __future__ import annotations

import perseid as ps
from perseid.lang.ast import Metadata
from perseid.viz.explain import explain

PLAN = ps.pattern("pattern p match A").plan()


def test_metadata_is_the_first_block() -> None:
    explained = explain(PLAN, "p", Metadata("high", "web team", ("fraud", "night"), "Two lines\n  are one."))
    assert explained.startswith(
        "pattern p\n\nmetadata\n  description  Two lines are one.\n  severity     high\n"
        "  owner        web team\n  tags         fraud, night\n\nsteps\n"
    )


def test_pattern_without_metadata_has_no_metadata_block() -> None:
    assert explain(PLAN, "p").startswith("pattern p\n\nsteps\n")
