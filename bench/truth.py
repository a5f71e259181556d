"""Expected results, by plain loops over the events of each key: no automaton, and no code of the engine.

A result is the number of matches and the sum of ``a.id`` over them, which also detects a wrong set of matches of the
correct size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import numpy.typing as npt

from bench.workload import ABSENCE_MS, FORMAT, PAIR_WINDOW_MS, WINDOW_MS, EventArrays, Query, generate

F = TypeVar("F", bound=Callable[..., Any])
Ints = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float64]
A, B, C = 0, 1, 2


class MatchChecksum(NamedTuple):
    """Number of matches and sum of ids."""

    matches: int
    id_sum: int


def _compiled(function: F) -> F:
    return cast(F, numba.njit(function))


@_compiled
def _rising_end(i: int, end: int, ts: Ints, kind: Kinds, v: Floats) -> int:
    """Index at which A at i, the first later B with a greater v, and the first C after it end within the window;
    otherwise -1."""
    j = i + 1
    while j < end and ts[j] - ts[i] < WINDOW_MS and not (kind[j] == B and v[j] > v[i]):
        j += 1
    j += 1
    while j < end and ts[j] - ts[i] < WINDOW_MS and kind[j] != C:
        j += 1
    return j if j < end and ts[j] - ts[i] < WINDOW_MS else -1


@_compiled
def _rising_past_last(bounds: Ints, ids: Ints, ts: Ints, kind: Kinds, v: Floats) -> Ints:
    found, matches = np.empty(len(ids), np.int64), 0
    for k in range(len(bounds) - 1):
        i = bounds[k]
        while i < bounds[k + 1]:
            last = _rising_end(i, bounds[k + 1], ts, kind, v) if kind[i] == A else -1
            if last >= 0:
                found[matches] = ids[i]
                matches += 1
                i = last
            i += 1
    return found[:matches]


@_compiled
def _rising_every_start(bounds: Ints, ids: Ints, ts: Ints, kind: Kinds, v: Floats) -> Ints:
    found, matches = np.empty(len(ids), np.int64), 0
    for k in range(len(bounds) - 1):
        for i in range(bounds[k], bounds[k + 1]):
            if kind[i] == A and _rising_end(i, bounds[k + 1], ts, kind, v) >= 0:
                found[matches] = ids[i]
                matches += 1
    return found[:matches]


@_compiled
def _strict_three(bounds: Ints, ids: Ints, ts: Ints, kind: Kinds, v: Floats) -> Ints:
    found, matches = np.empty(len(ids), np.int64), 0
    for k in range(len(bounds) - 1):
        for i in range(bounds[k], bounds[k + 1] - 2):
            named = kind[i] == A and kind[i + 1] == B and kind[i + 2] == C
            if named and v[i + 1] > v[i] and ts[i + 2] - ts[i] < WINDOW_MS:
                found[matches] = ids[i]
                matches += 1
    return found[:matches]


@_compiled
def _strict_run(bounds: Ints, ids: Ints, ts: Ints, kind: Kinds, v: Floats) -> Ints:
    found, matches = np.empty(len(ids), np.int64), 0
    for k in range(len(bounds) - 1):
        for i in range(bounds[k], bounds[k + 1]):
            if kind[i] == A:
                total = 0.0
                j = i + 1
                while j < bounds[k + 1] and kind[j] == B:
                    total += v[j]
                    j += 1
                ended = j > i + 1 and j < bounds[k + 1] and kind[j] == C
                if ended and total > 100 and ts[j] - ts[i] < WINDOW_MS:
                    found[matches] = ids[i]
                    matches += 1
    return found[:matches]


@_compiled
def _absence(bounds: Ints, ids: Ints, ts: Ints, kind: Kinds, v: Floats) -> Ints:
    found, matches = np.empty(len(ids), np.int64), 0
    for k in range(len(bounds) - 1):
        for i in range(bounds[k], bounds[k + 1]):
            if kind[i] == A:
                j = i + 1
                while j < bounds[k + 1] and ts[j] - ts[i] < ABSENCE_MS and kind[j] != B:
                    j += 1
                if j >= bounds[k + 1] or ts[j] - ts[i] >= ABSENCE_MS:
                    found[matches] = ids[i]
                    matches += 1
    return found[:matches]


@_compiled
def _pairs(bounds: Ints, ids: Ints, ts: Ints, kind: Kinds, v: Floats) -> Ints:
    found, matches = np.empty(len(ids), np.int64), 0
    for k in range(len(bounds) - 1):
        for i in range(bounds[k], bounds[k + 1]):
            if kind[i] == A:
                j = i + 1
                while j < bounds[k + 1] and kind[j] != A:
                    j += 1
                if j < bounds[k + 1] and ts[j] - ts[i] < PAIR_WINDOW_MS:
                    found[matches] = ids[i]
                    matches += 1
    return found[:matches]


_LOOPS: dict[str, Callable[..., Ints]] = {
    "Q1": _rising_past_last,
    "Q1n": _rising_every_start,
    "Q2": _strict_three,
    "Q3": _strict_run,
    "Q4": _absence,
    "Q1w": _rising_past_last,
    "Q5": _pairs,
}


def expected_result(query: str, events: EventArrays) -> MatchChecksum:
    """Expected result of a query over events that are ordered by key, time and id."""
    found = expected_ids(query, events)
    return MatchChecksum(len(found), int(found.sum()))


def expected_ids(query: str, events: EventArrays) -> Ints:
    """Ids of the first events of the expected matches, in ascending order; no two matches share one."""
    return np.sort(_LOOPS[query](events.key_bounds(), events.id, events.ts, events.type, events.v))


def relevant_events(query: Query, events: EventArrays) -> MatchChecksum:
    """Number of events that can affect a query, and the sum of their ids."""
    if query.strict:
        return MatchChecksum(len(events), int(events.id.sum()))
    kept = np.isin(events.type, [ord(name) - ord("A") for name in query.types])
    return MatchChecksum(int(kept.sum()), int(events.id[kept].sum()))


class Truth:
    """Expected results over ``count`` events, cached in the data folder."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self._path = folder / f"truth-{count}-v{FORMAT}.json"
        known = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._known = {name: MatchChecksum(*pair) for name, pair in known.items()}

    def prepare(self, queries: Iterable[Query]) -> None:
        """Compute results that are not cached yet."""
        missing = [query for query in queries if query.name not in self._known]
        for dataset in dict.fromkeys(query.dataset for query in missing):
            events = generate(dataset, self.count).by_key()
            for query in (q for q in missing if q.dataset == dataset):
                self._known[query.name] = expected_result(query.name, events)
                self._known[f"{query.name} wanted"] = relevant_events(query, events)
        if missing:
            self._path.write_text(json.dumps(self._known, indent=2))

    def of(self, query: Query) -> MatchChecksum:
        """Expected result of the query."""
        return self._known[query.name]

    def relevant_to(self, query: Query) -> MatchChecksum:
        """Events that can affect the query."""
        return self._known[f"{query.name} wanted"]

    @property
    def all_events(self) -> MatchChecksum:
        """Count and id sum of all events; ids count from zero."""
        return MatchChecksum(self.count, self.count * (self.count - 1) // 2)
