"""From the journal to the data of the page: medians and spread, ratios of paired rounds, and reasons for what is missing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench.report.engines import GROUPS, Engine
from bench.report.journal import Journal, RoundId
from bench.workload import QUERIES as TEXTS

Data = dict[str, Any]
NOT_EXPRESSIBLE = "not expressible"
OTHER_MATCHES = "other matches"
NOT_RUN = "not run"
FAILED = "failed"


def spread(values: list[float]) -> dict[str, float]:
    """Median, smallest and largest value, rounded to four digits."""
    named = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in named.items()}


def paired_ratios(ours: Mapping[RoundId, float], theirs: Mapping[RoundId, float]) -> list[float]:
    """Time of the peer divided by that of Perseid in each round of a call that both have: above 1, Perseid is faster."""
    return [theirs[both] / ours[both] for both in sorted(ours.keys() & theirs.keys())]


def summarize(
    journal: Journal, engines: Mapping[str, Engine], queries: tuple[str, ...], size: str, count: int, rounds: int
) -> Data:
    """The data of the page, as JSON values."""
    cells = {
        query: {name: _cell(journal, engine, query, count) for name, engine in engines.items()} for query in queries
    }
    calls = journal.calls()
    loads = [entry["load"] for entry in journal.entries if entry["kind"] == "round"]
    return {
        "size": size,
        "events": count,
        "rounds": rounds,
        "queries": {query: TEXTS[query].text for query in queries},
        "groups": GROUPS,
        "machine": calls[-1]["machine"] if calls else {},
        "commits": list(dict.fromkeys(call["commit"] for call in calls)),
        "from": calls[0]["at"] if calls else None,
        "to": calls[-1]["at"] if calls else None,
        "calls": len(calls),
        "load": spread(loads) if loads else None,
        "engines": [_engine(journal, engine) for engine in engines.values()],
        "cells": cells,
        "ratios": _ratios(journal, engines, queries, cells),
    }


def _engine(journal: Journal, engine: Engine) -> Data:
    opened = journal.engine(engine.name)
    return {
        "name": engine.name,
        "title": engine.title,
        "group": engine.group,
        "conditions": engine.conditions,
        "ours": engine.ours,
        "versions": (opened or {}).get("versions", {}),
        "not_run": _reason_not_run(opened),
    }


def _reason_not_run(opened: Mapping[str, Any] | None) -> str:
    return "not selected" if opened is None else str(opened.get("reason", ""))


def _cell(journal: Journal, engine: Engine, query: str, count: int) -> Data:
    if query in engine.unsupported:
        return {"missing": NOT_EXPRESSIBLE, "reason": engine.unsupported[query]}
    failure = journal.failure(engine.name, query)
    if failure is not None:
        return {"missing": failure["failure"], "reason": failure["reason"]}
    rounds = journal.rounds(engine.name, query)
    if rounds:
        seconds = spread(list(rounds.values()))
        rate = float(f"{count / seconds['median'] / 1000:.3g}")
        return {"seconds": seconds, "rounds": len(rounds), "thousand_events_per_second": rate}
    opened = journal.engine(engine.name)
    return {"missing": NOT_RUN, "reason": _reason_not_run(opened) or "the run ended before"}


def _ratios(
    journal: Journal, engines: Mapping[str, Engine], queries: tuple[str, ...], cells: Mapping[str, Mapping[str, Data]]
) -> list[Data]:
    """A row for each pair of Perseid and a peer of the same group."""
    rows = []
    for mine in (engine for engine in engines.values() if engine.ours):
        for peer in (engine for engine in engines.values() if not engine.ours and engine.group == mine.group):
            found: Data = {}
            for query in queries:
                sides = [cells[query][engine.name] for engine in (mine, peer)]
                missing = [side for side in sides if "missing" in side]
                ratios = paired_ratios(journal.rounds(mine.name, query), journal.rounds(peer.name, query))
                if missing:
                    found[query] = {"missing": missing[-1]["missing"]}
                elif not ratios:
                    found[query] = {"missing": "no common rounds"}
                else:
                    found[query] = spread(ratios) | {"rounds": len(ratios)}
            rows.append({"ours": mine.name, "peer": peer.name, "group": mine.group, "queries": found})
    return rows
