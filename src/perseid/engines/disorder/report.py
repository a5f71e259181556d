"""What a state says, for people: what the search holds, and since when nothing was settled."""

from __future__ import annotations

from dataclasses import replace

from perseid.engines.disorder.state import open_state
from perseid.engines.sequence.report import report as searched
from perseid.runtime.contract import StateReport


def report(state: bytes) -> StateReport:
    """What a state of this engine's holds."""
    content = open_state(state)
    inner = content.tables["body"].column(0)[0].as_py()
    if inner is None:
        facts = content.facts
        return StateReport(facts["shards"], facts["horizon"], 0, 0, None, {}, {}, len(state))
    return replace(searched(inner), bytes=len(state))
