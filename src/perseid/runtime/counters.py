"""Names of all counters and gauges: engines count, and drivers sum them up and show them."""

from __future__ import annotations

from collections.abc import Mapping

COUNTED: Mapping[str, str] = {
    "shards": "calls of shards",
    "events": "rows that were taken",
    "late": "rows that came after their time had passed",
    "bad": "rows without a time, or of which nothing could be made",
    "ahead": "rows whose time lies beyond their arrival by more than max_ahead",
    "matches": "matches told",
    "timed_out": "attempts told that timed out",
    "retracted": "matches taken back",
    "suppressed": "matches held back by suppress",
    "evidence_dropped": "events left out of evidence by its limit",
    "capped": "attempts given up because there were too many",
    "duplicates": "rows left out by dedupe",
    "incomplete": "matches of patterns that had not seen a whole window yet",
    "late_expected": "late rows that an adaptive stream had allowed for",
    "impossible": "readings that no value of the model explains, taken to say nothing",
    "sampled": "steps that were sampled because the automaton of a pattern has too many states",
    "promises": "rows that were promises, or named files of subscriptions",
}
"""Counters of one call."""
GAUGES: Mapping[str, str] = {
    "live_keys": "keys of which something is kept",
    "kept_events": "events kept",
    "state_bytes": "bytes of state",
}
"""Gauges of a shard after a call."""
COUNTERS = (*COUNTED, *GAUGES)
OF_A_BATCH = (
    "events", "bad", "matches", "timed_out", "suppressed", "evidence_dropped", "capped", "duplicates", "impossible", "sampled",
)  # fmt: skip
"""Counters that can be above 0 without state and without late rows."""
