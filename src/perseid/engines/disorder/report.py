"""A summary of an encoded state: the contents of its search state, or the horizon if it has no search state."""

from __future__ import annotations

from dataclasses import replace

from perseid.engines.disorder.state import open_state
from perseid.engines.sequence.report import report as search_report
from perseid.runtime.contract import StateReport


def report(state: bytes) -> StateReport:
    """Summarize an encoded state of this engine."""
    content = open_state(state)
    inner = content.tables["body"].column(0)[0].as_py()
    if inner is None:
        facts = content.facts
        return StateReport(facts["shards"], facts["horizon"], 0, 0, None, {}, {}, len(state))
    return replace(search_report(inner), bytes=len(state))
