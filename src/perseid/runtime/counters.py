"""Names of all counters and gauges: engines count, and drivers sum them up and show them."""

from __future__ import annotations

from collections.abc import Mapping

COUNTED: Mapping[str, str] = {
    "shards": "shard calls",
    "events": "accepted rows",
    "late": "rows that arrived after their time had passed",
    "bad": "rows without a time, or that cannot be read",
    "ahead": "rows with a time more than max_ahead after their arrival",
    "matches": "emitted matches",
    "timed_out": "emitted partial matches that timed out",
    "retracted": "retracted matches",
    "suppressed": "matches dropped by suppress",
    "evidence_dropped": "events dropped from evidence by its limit",
    "capped": "partial matches dropped because the limit was reached",
    "duplicates": "rows dropped by dedupe",
    "incomplete": "patterns, by shard, added or changed on a checkpoint, that may lack matches from before",
    "late_expected": "late rows that an adaptive stream predicted",
    "impossible": "readings that no value of the model explains; they carry no information",
    "sampled": "steps that were sampled because the automaton of a pattern has too many states",
    "control_rows": "control rows: punctuations and subscription changes",
}
"""Counters of one call."""
GAUGES: Mapping[str, str] = {
    "live_keys": "keys with state",
    "retained_events": "events in state",
    "state_bytes": "bytes of state",
}
"""Gauges of a shard after a call."""
COUNTERS = (*COUNTED, *GAUGES)
OF_A_BATCH = (
    "events", "bad", "matches", "timed_out", "suppressed", "evidence_dropped", "capped", "duplicates", "impossible", "sampled",
)  # fmt: skip
"""Counters that can be above 0 without state and without late rows."""
