"""Runs the kernel: allocates its arena, calls it in threads or as plain Python, and unpacks its output."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from perseid.engines.sequence import kernel
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.columns import OrderedEvents, kernel_arrays, unified_values
from perseid.engines.sequence.match_buffer import MatchBuffer
from perseid.engines.sequence.partials import unpack_runs
from perseid.errors import SearchBudgetError
from perseid.runtime.arena import allocate
from perseid.runtime.arrays import FloatArray, IntArray
from perseid.runtime.cold_start import wait_for_build
from perseid.runtime.jit import COMPILED, Kernel, runs_compiled
from perseid.runtime.progress import ProgressLine
from perseid.runtime.search_budget import (
    ATTEMPT_STEPS_PER_EVENT,
    DEFAULT_BUDGET,
    MATCHES_PER_EVENT,
    MAX_WORKING_BYTES,
    PYTHON_STEP_COST,
    STEPS_PER_EVENT,
    UNLIMITED,
    SearchBudget,
)
from perseid.semantics import core as c
from perseid.semantics.evaluate import evaluate, is_true
from perseid.semantics.events import Event
from perseid.semantics.scope import Bindings, MatchScope

POSTING_MIN_EVENTS = 256
"""Number of events in a partition from which on postings are built."""
EVENTS_PER_THREAD = 50_000
"""Number of events per additional thread."""
MAX_INITIAL_OUTPUT_WORDS = 1 << 24
"""Maximum initial size of a search's output area, in words."""
MAX_FAST_GROWTH_SCALE = 64
"""Scale up to which an area grows by 8 after a call with output; beyond, it doubles."""
MERGE_AFTER_STEPS = 64
"""Steps of a start without a match after which the following starts share the points that they reach."""
FIRST_SLICE_STEPS = 250_000
"""Steps that a search takes on the main thread. A longer one continues in another thread, which Ctrl-C can stop."""
PLAIN_SLICE_STEPS = 20_000
"""Steps that a search takes as plain Python while its kernel is not compiled yet. A longer one continues compiled."""
STOP_POLL_S = 0.01
"""Seconds between two checks of searches that are being stopped."""


def make_space(
    bytecode: CompiledPattern,
    scale: int = 1,
    words: int = 0,
    *,
    output_scale: int | None = None,
    taken_scale: int | None = None,
    max_bytes: int | None = None,
) -> tuple[IntArray, FloatArray]:
    """Allocate the arena of one search, integers and doubles; callers raise ``scale`` if it was too small.

    At least ``words`` of output save most searches a second call; memory that is not written to costs nothing. The
    output and the stack of taken events may have their own scales. More than ``max_bytes`` raises :class:`MemoryError`.
    """
    output_scale, taken_scale = output_scale or scale, taken_scale or scale
    head = bytecode.tables
    width, totals = int(head[y.S_FRAME]), max(int(head[y.S_TOTALS]), 1)
    keyed = head[y.S_MEMO] or head[y.S_MERGES] or head[y.S_COMBINES] or head[y.S_CONTEXT] >= 0
    slots = 256 * scale
    sizes = (
        (y.A_STACK, None, y.STACK),
        (y.A_NULLS, None, y.STACK),
        (y.A_BIND, None, width),
        (y.A_WORK, y.A_WORK_END, 64 * scale * width),
        (y.A_TAKEN, y.A_TAKEN_END, 256 * taken_scale * y.TAKEN_WIDTH),
        (y.A_TOTALS, y.A_TOTALS_END, slots * totals * y.TOTAL_INTS),
        (y.A_NODES, y.A_NODES_END, 256 * scale * y.NODE_WIDTH),
        (y.A_FRAMES, y.A_FRAMES_END, 256 * scale * width),
        (y.A_TABLE, None, 3 * 1024 * scale if keyed else 3),
        (y.A_KEYS, y.A_KEYS_END, 8 * 1024 * scale if keyed else 1),
        (y.A_OUT, y.A_OUT_END, max(16 * 1024 * output_scale, words)),
    )
    count = y.SPACE_HEAD + sum(size for _, _, size in sizes)
    if max_bytes is not None and 8 * (count + slots * totals * y.TOTAL_DOUBLES) > max_bytes:
        raise MemoryError
    if max_bytes is None:
        space = np.empty(count, np.int64)
        space[: -sizes[-1][2]] = 0  # output is written before it is read
    else:
        space = np.zeros(count, np.int64)  # pages that are not written to take no memory
    allocate(space, y.SPACE_HEAD, sizes)
    space[y.A_TABLE_SIZE] = 1024 * scale if keyed else 1
    space[y.C_OUT] = space[y.A_OUT]
    space[y.C_EARLIEST_OPEN] = y.FOREVER
    space[y.C_NEXT_TIMER] = y.FOREVER
    space[y.C_MERGE_AFTER] = MERGE_AFTER_STEPS
    space[[y.C_STEPS_END, y.C_MATCHES_END, y.C_PAUSE]] = y.FOREVER
    space[[y.C_MAX_STEPS, y.C_MAX_MATCHES]] = UNLIMITED
    return space, np.zeros(y.STACK + slots * totals * y.TOTAL_DOUBLES, np.float64)


def find(
    bytecode: CompiledPattern,
    batch: OrderedEvents,
    offsets: IntArray,
    *,
    horizon: int | IntArray | None = None,
    opens: IntArray | None = None,
    carried: IntArray | None = None,
    compiled: bool = True,
    threads: int = 1,
    budget: SearchBudget = DEFAULT_BUDGET,
    progress: ProgressLine | None = None,
) -> tuple[MatchBuffer, y.Arrays]:
    """Find the matches of a pattern in every partition of a batch; ``compiled`` False runs plain Python.

    A partition that exceeds the ``budget`` raises :class:`SearchBudgetError`.

    A ``horizon`` is a time, after which events count as not arrived yet; or an array of times, one for each partition,
    of which all events have arrived. ``opens`` is 1 at events that may start a match, and is updated to those with open
    runs; ``carried`` are partial matches of an earlier call, encoded for the kernel.
    """
    with np.errstate(all="ignore"):
        offsets = np.ascontiguousarray(offsets, np.int64)
        longest = int(np.diff(offsets).max()) if len(offsets) > 1 else 0
        posted = bool(bytecode.postings) and longest >= POSTING_MIN_EVENTS
        arrays = kernel_arrays(bytecode, batch, *make_space(bytecode), posted=posted)
        bounds = _bounds(batch.time, offsets, horizon)
        flags, earlier = (np.zeros(0, np.int64) if values is None else values for values in (opens, carried))
    fast = compiled and bytecode.compiled
    parts = _partition_ranges(offsets, threads) if fast and COMPILED else [(0, len(offsets) - 1)]

    searches = [
        PartitionSearch(
            bytecode,
            batch,
            arrays,
            offsets[first : last + 1],
            bounds[0][first:last],
            bounds[1][first:last],
            flags,
            earlier,
            fast,
            budget,
        )
        for first, last in parts
    ]
    # A compiled kernel runs no signal handlers: long searches run in another thread, for which the main thread waits.
    is_interruptible = fast and COMPILED and threading.current_thread() is threading.main_thread()
    first_steps = FIRST_SLICE_STEPS if is_interruptible else y.FOREVER
    if fast and COMPILED and not runs_compiled():
        first_steps = PLAIN_SLICE_STEPS
    if progress is not None:
        events = max(sum(search.events for search in searches), 1)
        progress.watch(lambda: sum(search.searched for search in searches) / events)
    if len(searches) > 1 or not searches[0].run(first_steps):
        searches[0].load()
        _run_in_threads(searches)
    if progress is not None:
        progress.watch(lambda: 1.0)  # without the arenas of the searches
    raws = []
    for (first, _), search in zip(parts, searches, strict=True):
        raws.append(gather(bytecode, search.written, search.frontiers, search.capped, search.next_timer, first))
    return _joined(raws), arrays


def _run_in_threads(searches: Sequence[PartitionSearch]) -> None:
    """Run searches to their end, each in a thread; an interrupt or an error of one stops all."""
    with ThreadPoolExecutor(len(searches)) as pool:
        futures = [pool.submit(search.run) for search in searches]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            while not all(future.done() for future in futures):
                for search in searches:
                    search.stop()
                wait(futures, timeout=STOP_POLL_S)
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, SearchStoppedError):
            raise error
    for error in errors:
        raise error


def _bounds(time: IntArray, offsets: IntArray, horizon: int | IntArray | None) -> tuple[IntArray, IntArray]:
    """Ends of each partition's arrived events, and the horizons of partitions; none if the input is complete."""
    if horizon is None:
        return offsets[1:], np.zeros(0, np.int64)
    if not isinstance(horizon, int):
        return offsets[1:], np.ascontiguousarray(horizon, np.int64)
    arrived = np.concatenate([[0], np.cumsum(time <= horizon)])
    ends = offsets[:-1] + arrived[offsets[1:]] - arrived[offsets[:-1]]
    return np.ascontiguousarray(ends, np.int64), np.full(len(ends), horizon, np.int64)


def _partition_ranges(offsets: IntArray, threads: int) -> list[tuple[int, int]]:
    """Ranges of partitions with about equal numbers of events, one per thread; small inputs are not split."""
    count = len(offsets) - 1
    threads = min(threads, count, 1 + int(offsets[-1] if count >= 0 else 0) // EVENTS_PER_THREAD)
    if threads <= 1:
        return [(0, count)]
    goals = offsets[0] + (offsets[-1] - offsets[0]) * np.arange(1, threads) // threads
    cuts = [0, *np.searchsorted(offsets, goals).tolist(), count]
    return [(a, b) for a, b in pairwise(cuts) if a < b]


class SearchStoppedError(Exception):
    """A search was stopped before its end, because of an interrupt or an error of another one."""


class PartitionSearch:
    """The search of a range of partitions: calls the kernel again with a larger arena as needed."""

    written: list[IntArray]
    """The output of each call of the kernel."""
    frontiers: IntArray
    capped: int
    next_timer: int

    def __init__(
        self,
        bytecode: CompiledPattern,
        batch: OrderedEvents,
        arrays: y.Arrays,
        offsets: IntArray,
        ends: IntArray,
        horizons: IntArray,
        opens: IntArray,
        carried: IntArray,
        fast: bool,
        budget: SearchBudget,
    ) -> None:
        self._bytecode, self._batch, self._fast, self._budget = bytecode, batch, fast, budget
        self._offsets, self._ends = offsets, ends
        self._output_words = min(8 * int(offsets[-1] - offsets[0]), MAX_INITIAL_OUTPUT_WORDS) if len(offsets) else 0
        self.frontiers = np.full(len(offsets), y.FOREVER, np.int64)
        self.written = []
        self.capped, self.next_timer = 0, y.FOREVER
        contextual = arrays.tables[y.S_CONTEXT] >= 0
        self._names: Mapping[str, Any] = vars(_contexts() if contextual else kernel)
        if not fast:
            self._names = plain(*([_contexts()] if contextual else []))
        self._entry = "simulate" if contextual else "search_starts"
        self._arguments = offsets, ends, self.frontiers, horizons, *((opens, carried) if contextual else (opens,))
        self._scales = [1, 1, 1]
        self._stopped = False
        space, reals = make_space(bytecode, words=self._output_words)
        space[y.C_START] = offsets[0] if len(offsets) else 0
        space[y.C_RESUME] = space[y.C_START]
        # A step that runs in Python takes as long as many compiled ones.
        cost = 1 if bytecode.compiled else PYTHON_STEP_COST
        space[y.C_MAX_STEPS] = min(budget.max_steps // cost, UNLIMITED)
        space[y.C_MAX_MATCHES] = min(budget.max_matches, UNLIMITED)
        space[y.C_EVENT_STEPS], space[y.C_EVENT_MATCHES] = STEPS_PER_EVENT // cost, MATCHES_PER_EVENT
        space[y.C_START_STEPS] = ATTEMPT_STEPS_PER_EVENT // cost
        self._arrays = arrays._replace(space=space, reals=reals)

    @property
    def events(self) -> int:
        """The number of events to search."""
        return int(self._offsets[-1] - self._offsets[0]) if len(self._offsets) else 0

    @property
    def searched(self) -> int:
        """The number of events before the one that the kernel is at; another thread may read it during the search."""
        return int(self._arrays.space[y.C_START] - self._offsets[0]) if len(self._offsets) else 0

    def load(self) -> None:
        """Load or compile the kernel in this thread, which an interrupt can end; other threads cannot be interrupted."""
        entry = self._names[self._entry]
        if isinstance(entry, Kernel):
            wait_for_build("sequence")
            entry.compiled()

    def stop(self) -> None:
        """End the search at its next step; may be called repeatedly, from another thread."""
        self._stopped = True
        self._arrays.space[[y.C_PAUSE, y.C_STEPS_END]] = -1

    def run(self, pause_after: int = y.FOREVER) -> bool:
        """Search to the end and return True, or return False after about ``pause_after`` steps."""
        self._arrays.space[y.C_PAUSE] = pause_after
        while True:
            if self._stopped:
                raise SearchStoppedError
            space = self._arrays.space
            if not self._fast:
                self._names["outside_hook"][0] = evaluator(self._bytecode, self._batch, self._arrays)
            with np.errstate(all="ignore"):  # plain Python warns where doubles overflow, compiled code does not
                outcome = self._names[self._entry](self._arrays, *self._arguments)
            out = space[space[y.A_OUT] : space[y.C_OUT]]
            if len(out):
                self.written.append(out)
            if outcome == y.CONTINUE:
                self.capped, self.next_timer = int(space[y.C_CAPPED]), int(space[y.C_NEXT_TIMER])
                return True
            if outcome == y.SPENT:
                raise self._exceeded()
            if outcome == y.FULL:
                # Continue with a larger area: the output so far is valid, and the start that failed is searched again.
                area = int(space[y.C_FULL_AREA])
                self._scales[area] *= 2 if not len(out) or self._scales[area] >= MAX_FAST_GROWTH_SCALE else 8
            self._renew()
            if outcome == y.PAUSED and not self._stopped:
                return False

    def _renew(self) -> None:
        """Continue in a new arena, because the output of the old one is still referenced."""
        before = self._arrays.space
        try:
            space, reals = make_space(
                self._bytecode,
                self._scales[y.ANY_AREA],
                self._output_words,
                output_scale=self._scales[y.OUTPUT_AREA],
                taken_scale=self._scales[y.TAKEN_AREA],
                max_bytes=MAX_WORKING_BYTES,
            )
        except MemoryError:
            name = self._bytecode.pattern.name
            raise SearchBudgetError(name, "bytes", MAX_WORKING_BYTES, self._events()) from None
        for counter in CARRIED_COUNTERS:
            space[counter] = before[counter]
        self._arrays = self._arrays._replace(space=space, reals=reals)

    def _events(self) -> int:
        partition = int(self._arrays.space[y.C_PARTITION])
        return int(self._ends[partition] - self._offsets[partition])

    def _exceeded(self) -> SearchBudgetError:
        space, events = self._arrays.space, self._events()
        exceeded, limit = "steps", int(space[y.C_KEY_END] - space[y.C_KEY_STEPS])
        if space[y.C_KEY_MATCHES] > space[y.C_MATCHES_END]:
            exceeded, limit = "matches", int(space[y.C_MATCHES_END])
        elif space[y.C_STEPS] <= space[y.C_KEY_END]:
            limit = int(space[y.C_MAX_STEPS] + space[y.C_START_STEPS] * events)
        return SearchBudgetError(self._bytecode.pattern.name, exceeded, limit, events)


CARRIED_COUNTERS = (
    y.C_PARTITION, y.C_START, y.C_RESUME, y.C_CAPPED, y.C_STARTED, y.C_EARLIEST_OPEN, y.C_NEXT_TIMER,
    y.C_STEPS, y.C_KEY_STEPS, y.C_KEY_MATCHES, y.C_MAX_STEPS, y.C_EVENT_STEPS, y.C_MAX_MATCHES, y.C_EVENT_MATCHES,
    y.C_START_STEPS, y.C_PAUSE,
)  # fmt: skip
"""Header words that are copied to the next arena."""


def _joined(raws: list[MatchBuffer]) -> MatchBuffer:
    if len(raws) == 1:
        return raws[0]
    sizes = np.cumsum([0, *(raw.offsets[-1] for raw in raws)])
    offsets = [raw.offsets[:-1] + size for raw, size in zip(raws, sizes[:-1], strict=True)]
    return MatchBuffer(
        partition=np.concatenate([raw.partition for raw in raws]),
        timed_out=np.concatenate([raw.timed_out for raw in raws]),
        end=np.concatenate([raw.end for raw in raws]),
        offsets=np.concatenate([*offsets, sizes[-1:]]),
        steps=np.concatenate([raw.steps for raw in raws]),
        positions=np.concatenate([raw.positions for raw in raws]),
        unified=np.concatenate([raw.unified for raw in raws]),
        frontiers=np.concatenate([raw.frontiers for raw in raws]),
        capped=sum(raw.capped for raw in raws),
        next_timer=min(raw.next_timer for raw in raws),
    )


def gather(
    bytecode: CompiledPattern,
    written: Sequence[IntArray],
    frontiers: IntArray,
    capped: int,
    next_timer: int,
    first: int,
) -> MatchBuffer:
    """Unpack the output of a kernel, the first partition of which has the number ``first``."""
    flat = written[0] if len(written) == 1 else np.concatenate([np.zeros(0, np.int64), *written])
    unified = int(bytecode.tables[y.S_UNIFIED_COUNT])
    starts = np.empty(kernel.match_starts(flat, unified, flat[:0]), np.int64)
    kernel.match_starts(flat, unified, starts)
    offsets, steps, positions, bound = _unpacked(flat, starts, unified)
    partials = None
    if bytecode.tables[y.S_CONTEXT] >= 0:
        opened = np.empty(_contexts().saved_run_starts(flat, unified, flat[:0]), np.int64)
        _contexts().saved_run_starts(flat, unified, opened)
        begins, words, places, _ = _unpacked(flat, opened, unified)
        partials = unpack_runs(bytecode, np.diff(begins), words, places, flat[opened + 2])
    return MatchBuffer(
        partition=flat[starts] + first,
        timed_out=flat[starts + 1] == 1,
        end=flat[starts + 2],
        offsets=offsets,
        steps=steps,
        positions=positions,
        unified=bound,
        frontiers=frontiers,
        capped=capped,
        next_timer=next_timer,
        partials=partials,
    )


def _unpacked(flat: IntArray, starts: IntArray, unified: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Unpack records: the offsets of their events, steps, positions, and unified (position, column) pairs."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(flat[starts + 3], out=offsets[1:])
    steps = np.empty(int(offsets[-1]), np.int64)
    positions = np.empty(int(offsets[-1]), np.int64)
    bound = np.empty((len(starts), 2 * unified), np.int64)
    kernel.unpack(flat, starts, offsets, unified, steps, positions, bound)
    return offsets, steps, positions, bound


def _contexts() -> ModuleType:
    """Import the kernel of event contexts; most patterns have no context."""
    from perseid.engines.sequence import contexts

    return contexts


@cache
def plain(*more: ModuleType) -> Mapping[str, Any]:
    """The functions of the kernel, and of ``more`` modules, as plain Python that calls the reference evaluator."""
    names: dict[str, Any] = {}
    sources: dict[str, ModuleType] = {}
    pending = [kernel, *more]
    while pending:
        module = pending.pop()
        sources[module.__name__] = module
        # Follow functions to the modules that define them: a compiled one has no wrapper that Python could call.
        functions = (getattr(value, "py_func", value) for value in vars(module).values())
        used = {function.__module__ for function in functions if isinstance(function, FunctionType)}
        pending += [sys.modules[name] for name in used - sources.keys() if name.startswith(f"{__package__}.")]
        names.update({name: value for name, value in vars(module).items() if not name.startswith("__")})
    names["__builtins__"] = __builtins__
    for name, value in list(names.items()):
        function = getattr(value, "py_func", value)
        if isinstance(function, FunctionType) and function.__module__ in sources:
            names[name] = FunctionType(function.__code__, names, name, function.__defaults__)
    hook: list[Callable[[int, int, int], int] | None] = [None]
    names["outside_hook"] = hook

    def outside(condition: int, at: int, own: int) -> int:
        assert hook[0] is not None
        return hook[0](condition, at, own)

    names["outside"] = outside
    return names


def evaluator(bytecode: CompiledPattern, batch: OrderedEvents, arrays: y.Arrays) -> Callable[[int, int, int], int]:
    """A function that evaluates conditions without an opcode on a frame's bindings, by the reference evaluator."""
    pattern: c.CorePattern = bytecode.pattern.pattern
    names = frozenset(s.name for s in pattern.steps if s.name is not None)
    shape, space = bytecode.tables, arrays.space
    taken = int(space[y.A_TAKEN])
    events: dict[int, Event] = {}

    def event(position: int) -> Event:
        if position not in events:
            events[position] = batch.event(position)
        return events[position]

    def evaluate_condition(condition: int, at: int, own: int) -> int:
        bound: dict[str, list[Event]] = {}
        for k in range(int(space[at + y.COUNT])):
            entry = taken + y.TAKEN_WIDTH * k
            name = pattern.steps[int(space[entry + y.K_STEP])].name
            if name is not None:
                bound.setdefault(name, []).append(event(int(space[entry + y.K_POSITION])))
        current = {}
        for step in pattern.steps:
            position = int(space[at + shape[y.S_CURRENT] + step.id])
            if step.name is not None and position >= 0:
                current[step.name] = event(position)
        unified = unified_values(pattern, bytecode.columns, batch, space[at + shape[y.S_UNIFIED] :])
        scope = MatchScope(names, Bindings(bound, current, unified), event(own) if own >= 0 else None, batch.relations)
        return int(is_true(evaluate(bytecode.python_conditions[condition], scope)))

    return evaluate_condition
