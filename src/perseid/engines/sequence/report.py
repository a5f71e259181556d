"""Summarizes a state for users: events, open runs, keys, horizon, and the oldest event."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from perseid.engines.sequence.state import open_state, split_state
from perseid.errors import StateError
from perseid.runtime.contract import StateReport


def report(state: bytes) -> StateReport:
    """Summarize a state of this engine, over all its stages."""
    parts = [_report(part) for part in split_state(state).values() if part is not None]
    if not parts:
        raise StateError("The state has only stages of patterns that consume matches, and all stages are empty.")
    first, *others = parts
    for part in others:
        horizons = [h for h in (first.horizon, part.horizon) if h is not None]
        oldest = [t for t in (first.oldest, part.oldest) if t is not None]
        first = replace(
            first,
            horizon=max(horizons, default=None),
            events=first.events + part.events,
            buffered=first.buffered + part.buffered,
            oldest=min(oldest, default=None),
            open={**first.open, **part.open},
            keys=Counter(first.keys) + Counter(part.keys),
        )
    return replace(first, bytes=len(state))


def _report(state: bytes) -> StateReport:
    content = open_state(state)
    if content is None:
        raise StateError("A stage of the state has stages of its own.")
    facts, table = content.facts, content.tables["events"]
    names = table.schema.names
    time = np.asarray(table.column("time"))
    searched = table.column("searched").to_numpy(zero_copy_only=False)
    keys = [name for name in names if name.startswith("key ")]
    shown: dict[tuple[tuple[str, object], ...], int] = {}
    columns = [table.column(name).to_pylist() for name in keys]
    for values in zip(*columns, strict=True):
        key = tuple((name.removeprefix("key "), str(value)) for name, value in zip(keys, values, strict=True))
        shown[key] = shown.get(key, 0) + 1
    return StateReport(
        shards=int(facts["shards"]),
        horizon=facts["horizon"],
        events=len(time),
        buffered=int((~searched).sum()),
        oldest=int(time.min()) if len(time) else None,
        open={
            entry["name"]: int(table.column(f"open {pattern}").true_count) if f"open {pattern}" in names else 0
            for pattern, entry in facts["patterns"].items()
        },
        keys=shown,
        bytes=len(state),
    )
