"""A job is killed and disturbed repeatedly: its sinks have every match, with their guarantees."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from bench.crash.benchmark import ONCE, crash, table
from bench.harness import MissingToolError

pytestmark = [pytest.mark.servers, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("PERSEID_KILLS", "4"))
SEED = 7 if "PERSEID_KILLS" not in os.environ else random.randrange(10**6)
"""Fixed by default: a lost commit, an older checkpoint, an event dated 9999, killed workers."""


@pytest.mark.usefixtures("jars")
def test_faults_cause_no_lost_and_no_duplicate_matches(tmp_path: Path) -> None:
    """PERSEID_KILLS sets the number of faults; each kind is equally frequent."""
    try:
        outcome = crash(KILLS, tmp_path, SEED)
    except MissingToolError as error:
        pytest.skip(f"a server cannot be had: {error}")
    said = table(outcome)
    print(f"\n{said}")
    assert sum(stats.faults for stats in outcome.fault_stats.values()) == KILLS, said
    if KILLS >= 4:
        assert min(outcome.fault_stats["restore"].faults, outcome.fault_stats["poison"].faults) > 0, said
    assert {pattern for pattern, _ in outcome.expected} == {"unpaid", "spree", "moved"}, said
    for name in outcome.found:
        assert (outcome.lost(name), outcome.unexpected(name)) == (0, 0), said
    for name in ONCE:
        assert outcome.duplicates(name) == 0, said
    assert outcome.letters[0] == outcome.letters[1] > 0, said
