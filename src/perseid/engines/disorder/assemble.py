"""Put matches together from events as they arrive, and tell them when they are complete and certain.

Every event that has come is searched at once, and kept as long as a match with an event to come may need it. What
nothing is negated in is told in the call in which the last of its events came; the rest when the watermark has passed
what it negates. Nothing is ever taken back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perseid.compile import program as p
from perseid.engines.contract import Clock, Rows, Step
from perseid.engines.disorder import assembly as a
from perseid.engines.disorder.state import read_state, write_state
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.columns import Batch, kernel_arrays
from perseid.engines.sequence.output import Found
from perseid.engines.sequence.plan import Numbered
from perseid.engines.sequence.run import Raw, evaluator, gather, lay_out, make_space, plain
from perseid.engines.sequence.stream import Placed, Shard, newest_before, run

if TYPE_CHECKING:
    from perseid.engines.disorder.engine import DisorderPlan


def advance(plan: DisorderPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    """One call of a shard: rows in, matches that have become certain out, and what has to be kept."""
    inner = plan.searched(order=plan.strategy.name)
    before = read_state(plan, state)
    done = run(inner, rows, before.searched, clock=clock, newest=newest_before(inner, clock), make=Assembling).step
    written = write_state(plan, replace(before, searched=done.state))
    counters = {**done.counters, "state_bytes": 0 if written is None else len(written)}
    return replace(done, state=written, counters=counters)


class Assembling(Shard):
    """A shard whose rows are all searched when they come."""

    def _ready(self) -> Any:
        return np.ones(len(self.rows), bool)

    def _found(self, numbered: Numbered, name: str, placed: Placed) -> Found:
        batch = replace(placed.batch)
        known = name in self.kept.opens
        came_before = placed.order < self.old if known else np.zeros(len(placed.order), bool)
        since = y.NONE if not known or self.kept.horizon is None else self.kept.horizon
        now = y.FOREVER if self.clock.ended else y.NONE if self.clock.now is None else self.clock.now
        raw, arrays = assembled(numbered, batch, placed, came_before, since, now)
        span = numbered.pattern.facts.bound
        assert span is not None
        if raw.wake != y.FOREVER:
            self.wakes.append(raw.wake)
        fits = arrays.events[y.E_MASK] != 0
        asked = fits & (batch.time > now - span) if not self.clock.ended else np.zeros(len(fits), bool)
        if asked.any():
            self.wakes.append(int(batch.time[asked].min()) + span)
        flags = np.zeros(len(self.rows), bool)
        flags[placed.order[asked]] = True
        self.opens[name] = flags
        self.keep |= flags
        return Found(numbered, raw, batch, placed.offsets, placed.occurrence, arrays, placed.duplicates)


def assembled(
    numbered: Numbered, batch: Batch, placed: Placed, came_before: Any, since: int, now: int
) -> tuple[Raw, y.Arrays]:
    """What the kernel finds, with as much room as it turns out to need."""
    order = np.argsort(~came_before, kind="stable").astype(np.int64)
    clocks = np.full(len(order) + 1, now, np.int64)
    if now == y.FOREVER:
        clocks[:-1] = since  # that there will be no more is known after the last
    names = vars(a) if numbered.compiled else plain(a)
    scale = 1
    while True:
        arrays = kernel_arrays(numbered, batch, *make_space(numbered, scale, len(batch)))
        masks = arrays.events[y.E_MASK].copy()
        arrays.events[y.E_MASK] = 0
        work = work_space(numbered, masks, len(placed.offsets) - 1, scale)
        offsets, keys = (np.ascontiguousarray(x, np.int64) for x in (placed.offsets, placed.partition))
        if not numbered.compiled:
            names["outside_hook"][0] = evaluator(numbered, batch, arrays)
        with np.errstate(all="ignore"):
            answer = names["assemble"](arrays, work, offsets, keys, order, masks, int(came_before.sum()), since, clocks)
        if answer == y.GOES_ON:
            break
        scale *= 4
    space = arrays.space
    waiting = int(work[work[a.H_HEAP]]) if work[a.H_WAITING] else y.FOREVER
    frontiers = np.full(len(placed.offsets), y.FOREVER, np.int64)
    return gather(numbered, [space[space[y.A_OUT] : space[y.C_OUT]]], frontiers, 0, waiting, 0), arrays


def work_space(numbered: Numbered, masks: Any, keys: int, scale: int) -> Any:
    """Room for chains, picks, what waits and what was told."""
    body = numbered.pattern.programs[0].instructions
    steps = [one.step for one in body if isinstance(one, p.TakeEvent)]
    rows = [int(numbered.tables[y.S_STEP_TABLE]) + step * y.STEP_WIDTH for step in steps]
    nodes = sum(int(((masks >> int(numbered.tables[row + y.ST_BIT])) & 1).sum()) for row in rows)
    slots = len(steps)
    parts = (
        (a.H_STEPS, None, slots),
        (a.H_MAINS, None, keys * (1 + 2 * slots)),
        (a.H_LINKS, None, nodes * a.LINK_WIDTH),
        (a.H_PICKS, None, 2 * slots + 1),
        (a.H_HEAP, a.H_HEAP_END, (2 + slots) * max(256, len(masks)) * scale),
        (a.H_MOMENTS, a.H_MOMENTS_END, max(256, 2 * len(masks)) * scale),
    )
    work = np.full(a.ASSEMBLY_HEAD + sum(size for _, _, size in parts), -1, np.int64)
    work[: a.ASSEMBLY_HEAD] = 0
    lay_out(work, a.ASSEMBLY_HEAD, parts)
    bound = numbered.pattern.facts.bound
    assert bound is not None
    work[a.H_SLOTS], work[a.H_WINDOW] = slots, bound
    work[a.H_NEGATES] = any(isinstance(one, p.WatchFor) for one in body)
    work[work[a.H_STEPS] : work[a.H_STEPS] + slots] = steps
    mains = work[work[a.H_MAINS] : work[a.H_LINKS]]
    mains[:: 1 + 2 * slots] = 0
    return work
