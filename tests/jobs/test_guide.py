"""The guide of jobs shows what happens."""

from __future__ import annotations

from tests.test_guides import GUIDES, run_page


def test_the_guide_of_jobs() -> None:
    run_page(GUIDES / "jobs.md")
