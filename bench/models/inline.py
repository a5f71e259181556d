"""One large model in the state of a shard: its size in bytes, and the time to encode and decode it.

A shard writes all of its state in every batch with rows for it, so one very large model costs its full size in each
batch, even for small changes. Many models are distributed over shards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

import perseid as ps
from bench.harness import Report, print_line, progress
from bench.models import railway
from perseid.api.stream_kinds.models import group_patterns
from perseid.engines.models.live import LiveModel
from perseid.engines.models.plan import ROLES, ModelsPlan, make_plan
from perseid.engines.models.state import ModelsState, read_state, write_state
from perseid.engines.sequence.stream import Events

LIMIT = 1 << 28
"""Default limit on the size of a state, in bytes."""
PATTERN = "\npattern wrong match found RouteSensor a -> lost RouteSensor b within 1 hour"
T = TypeVar("T")


def measure(sizes: Sequence[int], report: Report) -> None:
    """Measure railways of these sizes with one query."""
    plan = _plan()
    print_line(
        "\nOne model in the state of a shard\n\n| nodes | edges | bytes | bytes an element | written in | read in |"
    )
    print_line("|---:|---:|---:|---:|---:|---:|")
    each = 0.0
    for size in sizes:
        progress(f"railway, size {size}, as a state")
        model = LiveModel(plan.queries, plan.reported_queries)
        model.transact(0, railway.of_size(size))
        kept = ModelsState({(): model}, [], 0, [None])
        state, writing = _timed(lambda kept=kept: write_state(plan, kept))  # type: ignore[misc]
        back, reading = _timed(lambda state=state: read_state(plan, state))  # type: ignore[misc]
        assert back.models[()].matches["RouteSensor"].standing == model.matches["RouteSensor"].standing
        nodes = len(model.graph.nodes)
        edges = sum(1 for edge in model.graph.forth for _ in model.graph.edges(edge))
        each = len(state) / (nodes + edges)
        print_line(f"| {nodes:,} | {edges:,} | {len(state):,} | {each:.0f} | {writing:.2f} s | {reading:.2f} s |")
        if size == max(sizes):
            report.add("inline.write_seconds", writing)
            report.add("inline.read_seconds", reading)
    print_line(f"\nWithin {LIMIT:,} bytes a shard carries some {LIMIT / each:,.0f} nodes and edges.")
    report.add("inline.elements_within_limit", LIMIT / each)


def _plan() -> ModelsPlan:
    model = ps.graph.metamodel(railway.METAMODEL + railway.QUERIES["RouteSensor"] + PATTERN)
    parts = group_patterns(ps.patterns(model).sources, ps.graph.model([], model))
    groups = [(group.watched, over.compile(Events([]))) for over, group in parts]
    types = {**dict.fromkeys(ROLES, pa.string()), "element": pa.int64(), "target": pa.int64()}
    return make_plan(groups, model.queries, types)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start
