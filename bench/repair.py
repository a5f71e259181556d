"""Paper 2's repair case: one host has more available cpu than total cpu, and the search finds the two quick fixes."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime
from typing import Any

import perseid as ps
from bench import harness

CPS = """
model cps
node Host (available_cpu bigint, total_cpu bigint)
node App
edge runs_on App -> Host one
query overcommitted(host) find host: Host where host.available_cpu > host.total_cpu
repair lower on overcommitted(host) cost 1 do set host.available_cpu = host.total_cpu
repair raise on overcommitted(host) cost 1 do set host.total_cpu = host.available_cpu
"""
HOSTS = {"quick": 100, "standard": 1_000, "full": 10_000}
STRATEGIES = ("best first", "breadth first", "depth first", "hill climbing")
EXPECTED = [
    "lower(h0): set available_cpu of h0 from 10 to 8",
    "raise(h0): set total_cpu of h0 from 8 to 10",
]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def run(size: str) -> harness.Report:
    """Seconds from rows of changes to quick fixes, in a model of the paper's one host and in a larger one."""
    report = harness.Report("repair", size)
    harness.print_line("| hosts | strategy | fixes | models examined | ms |\n|---|---|---|---|---|")
    for hosts in (1, HOSTS[size]):
        rows = _rows(hosts)
        for strategy in STRATEGIES:
            seconds, fixes = _timed(rows, strategy)
            found = [repr(fix) for fix in fixes]
            right = found == (EXPECTED[:1] if strategy == "hill climbing" else EXPECTED)
            harness.print_line(f"| {hosts:,} | {strategy} | {len(fixes)} | {fixes.states} | {seconds * 1000:.1f} |")
            name = f"{'paper' if hosts == 1 else 'large'}.{strategy.replace(' ', '_')}"
            report.add(f"{name}.fixes", len(fixes) if right else None, f"found {found}")
            report.add(f"{name}.within_one_second", 1 / seconds)
    return report


def _timed(rows: list[dict[str, Any]], strategy: str) -> tuple[float, ps.graph.QuickFixes]:
    taken = []
    for _ in range(harness.ROUNDS):
        begin = time.perf_counter()
        model = ps.graph.model(rows, ps.graph.metamodel(CPS))
        fixes = ps.graph.find_repairs(model, objectives="overcommitted", strategy=strategy)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken), fixes


def _rows(hosts: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(hosts):
        host = {"ts": BEGIN, "element": f"h{number}"}
        rows.append({**host, "change": "create", "kind": "Host"})
        for attribute, value in (("available_cpu", 4 if number else 10), ("total_cpu", 8)):
            rows.append({**host, "change": "set", "attribute": attribute, "value": value})
    return rows
