"""Each phase of a search alone: its record before, the phase it returns, and its record after."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from perseid.compile.compiler import compile_set
from perseid.engines.sequence import layout as y
from perseid.engines.sequence import search_record as r
from perseid.engines.sequence.bytecode import compile_pattern
from perseid.engines.sequence.columns import kernel_arrays
from perseid.engines.sequence.matcher import batch_of
from perseid.engines.sequence.run import make_space, plain
from perseid.lang.parser import parse_pattern
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve
from tests.generators.random_patterns import make_pair

SECOND = 1_000_000
NO_RECORD = -1


class Kernel:
    """The kernel in plain Python over one partition; functions by name, words of the space by index."""

    def __init__(self, text: str, types: str, *, values: list[int] | None = None, scale: int = 1) -> None:
        given = values or [0] * len(types)
        events = [
            Event(kind, (i + 1) * SECOND, {"v": given[i]}, f"e{i:05d}", 0, (0, i)) for i, kind in enumerate(types)
        ]
        window = "" if "within" in text else "within 1 day"
        plan = compile_set([resolve(parse_pattern(f"pattern p match {text} {window}"))])
        batch = batch_of(events, {})
        bytecode = compile_pattern(plan, plan.patterns[0], batch.types(), False)
        self.arrays = kernel_arrays(bytecode, batch, *make_space(bytecode, scale))
        self.tables, self.space = self.arrays.tables, self.arrays.space
        self.width, self.end = int(self.tables[y.S_FRAME]), len(events)
        self.space[[y.C_KEY_END, y.C_STEPS_END]] = y.FOREVER

    def __getitem__(self, index: int) -> int:
        return int(self.space[index])

    def __setitem__(self, index: int, value: int) -> None:
        self.space[index] = value

    def call(self, name: str, *arguments: int | bool) -> Any:
        return plain()[name](self.arrays, *arguments)

    def start(self, position: int = 0) -> int:
        """Starts a thread with its first event, as the kernel starts a run; returns its frame."""
        w, seed = self.space, int(self.space[y.A_FRAMES])
        self.call("clear_frame", seed)
        w[seed + y.PC], w[seed + y.TOTALS] = self.tables[y.S_CODE], 1
        branches = self.call("epsilon_closure", seed, seed + self.width)
        root = seed + (1 + branches) * self.width
        w[y.C_TOTALS], w[y.C_NODES], w[y.C_KEYS] = 2, w[y.A_NODES], w[y.A_KEYS]
        w[[y.C_OPEN, y.C_FOUND, y.C_MATCHES]], w[y.C_TIMEOUT] = 0, -1
        w[y.C_STARTED] += 1
        first = seed + self.width
        assert self.call("take", first, int(w[first + y.STEP]), position, root) == 1
        w[y.C_TOP] = root + self.width
        return root

    def search_of(self, position: int = 0, horizon: int = y.NONE) -> int:
        """The record of a search from a start."""
        record: int = self.call("push_search", NO_RECORD, self.start(position), position, self.end, horizon)
        return record

    def node(self) -> int:
        return self[y.C_NODES] - y.NODE_WIDTH

    def branches(self) -> list[int]:
        """The frames of the newest node's branches."""
        first = self[self.node() + y.N_FIRST] + self.width
        return [first + k * self.width for k in range(self[self.node() + y.N_COUNT])]

    def steps(self) -> list[int]:
        return [self[branch + y.STEP] for branch in self.branches()]

    def matches(self) -> list[list[int]]:
        """The positions of each match that was written."""
        found, at = [], self[y.A_OUT]
        while at < self[y.C_OUT]:
            count, pairs = self[at + 3], at + y.MATCH_HEAD + 2 * int(self.tables[y.S_UNIFIED_COUNT])
            found.append([self[pairs + 2 * k + 1] for k in range(count)])
            at = pairs + 2 * count
        return found

    def run(self, record: int, *, until: int) -> int:
        """Run phases of one record until one of them returns ``until``; returns how many ran."""
        names = {
            r.EXPAND: "expand_thread",
            r.BOUND: "bound_branches",
            r.SCAN: "scan_events",
            r.TRY: "try_branch",
            r.ACCEPTED: "accept_match",
        }
        phase, ran = self[record + r.R_PHASE], 0
        while phase != until:
            phase = self.call(names[phase], record)
            ran += 1
        return ran


# Records


def test_slots_of_a_record_are_distinct_and_fill_it() -> None:
    slots = [value for name, value in vars(r).items() if name.startswith("R_")]
    assert sorted(slots) == list(range(r.RECORD_WIDTH))


def test_push_search_fills_the_slots_of_its_record() -> None:
    kernel = Kernel("A a -> B b", "AB")
    root = kernel.start()
    record = kernel.call("push_search", NO_RECORD, root, 0, 2, y.NONE)
    assert kernel[y.C_NODES] == record + r.RECORD_WIDTH
    expected = {
        r.R_CALLER: NO_RECORD, r.R_PHASE: r.EXPAND, r.R_START: 0, r.R_END: 2, r.R_HORIZON: y.NONE, r.R_NEGATED: 0,
        r.R_TIMED: 0, r.R_FIRST_DECIDES: 1, r.R_THREAD: root, r.R_POINT: -1,
    }  # fmt: skip
    assert {slot: kernel[record + slot] for slot in expected} == expected


def test_search_with_a_horizon_is_timed_unless_it_has_a_caller() -> None:
    kernel = Kernel("A a -> B b", "AB")
    outer = kernel.search_of(horizon=SECOND)
    inner = kernel.call("push_search", outer, kernel[outer + r.R_THREAD], 0, 2, SECOND)
    assert [kernel[record + r.R_TIMED] for record in (outer, inner)] == [1, 0]
    assert [kernel[record + r.R_NEGATED] for record in (outer, inner)] == [0, 1]
    assert kernel[inner + r.R_CALLER] == outer


def test_searches_have_distinct_tags_unless_points_are_merged() -> None:
    kernel = Kernel("A a -> B b", "AB")
    tags = [kernel[kernel.search_of() + r.R_TAG] for _ in range(2)]
    kernel[y.C_MERGING] = 1
    assert tags[0] != tags[1]
    assert kernel[kernel.search_of() + r.R_TAG] == 0


def test_push_without_capacity_is_full() -> None:
    kernel = Kernel("A a -> B b", "AB")
    root = kernel.start()
    kernel[y.C_NODES] = kernel[y.A_NODES_END] - r.RECORD_WIDTH + 1
    assert kernel.call("push_search", NO_RECORD, root, 0, 2, y.NONE) == y.FULL
    assert kernel.call("push_negation", NO_RECORD, root, 0, 0, 2, y.NONE, y.NONE) == y.FULL
    assert kernel.call("search", y.FULL) == y.FULL


# EXPAND


def test_expand_pushes_a_node_with_branches_in_order_of_preference() -> None:
    kernel = Kernel("A a -> (B b | C c) -> D d", "ABCD")
    record = kernel.search_of()
    assert kernel.call("expand_thread", record) == r.BOUND
    assert kernel.steps() == [1, 2]
    assert [kernel[record + slot] for slot in (r.R_BRANCH, r.R_WATCH, r.R_POSITION)] == [0, 0, -1]


@pytest.mark.parametrize(("repeat", "steps"), [("B+ b", [1]), ("B* b", [1, 2]), ("B*? b", [2, 1])])
def test_greedy_repetition_prefers_another_iteration(repeat: str, steps: list[int]) -> None:
    kernel = Kernel(f"A a -> {repeat} -> C c", "ABC")
    kernel.call("expand_thread", kernel.search_of())
    assert kernel.steps() == steps


def test_expand_is_full_beyond_the_budget() -> None:
    kernel = Kernel("A a -> B b", "AB")
    record = kernel.search_of()
    kernel[y.C_STEPS_END] = kernel[y.C_STEPS]
    assert kernel.call("expand_thread", record) == y.FULL


@pytest.mark.parametrize("area", [y.A_NODES_END, y.A_FRAMES_END])
def test_expand_is_full_without_capacity(area: int) -> None:
    kernel = Kernel("A a -> B b", "AB")
    record = kernel.search_of()
    kernel[area] = kernel[y.C_NODES if area == y.A_NODES_END else y.C_TOP]
    assert kernel.call("expand_thread", record) == y.FULL


@pytest.mark.parametrize("text", ["A a -> B+ b", "A a -> B+ b -> C c", "A a -> B+ b [sum(b.v) >= 0] -> C c"])
def test_repetition_needs_constant_capacity(text: str) -> None:
    """A thousand iterations take no more nodes, frames and totals than ten do."""
    used = []
    for count in (10, 1_000):
        kernel = Kernel(text, "A" + "B" * count + "C", scale=16)
        record, top = kernel.search_of(), [0, 0, 0]
        phase, names = r.EXPAND, ["expand_thread", "bound_branches", "scan_events", "try_branch", "accept_match"]
        while phase <= r.ACCEPTED:
            phase = kernel.call(names[phase], record)
            top = [max(a, b) for a, b in zip(top, kernel.space[[y.C_NODES, y.C_TOP, y.C_TOTALS]].tolist(), strict=True)]
        assert len(kernel.matches()[0]) == count + (2 if "C c" in text else 1)
        used.append([top[0] - kernel[y.A_NODES], top[1] - kernel[y.A_FRAMES], top[2]])
    assert used[0] == used[1]


# BOUND


def test_bound_writes_time_and_position_of_each_branch() -> None:
    kernel = Kernel("A a -> (B b | C c) within 3 seconds", "ADDDDB")
    record = kernel.search_of()
    kernel.call("expand_thread", record)
    assert kernel.call("bound_branches", record) == r.SCAN
    for branch in kernel.branches():
        assert kernel[branch + y.CLOSING] == 4 * SECOND
        assert [kernel[branch + word] for word in (y.FOUND, y.BROKEN)] == [-1, -1]


def test_bound_of_any_looks_back_from_the_steps_that_must_follow() -> None:
    kernel = Kernel("A a ->> B b -> C c", "ABCBCBB")
    record = kernel.search_of()
    kernel.call("expand_thread", record)
    kernel.call("bound_branches", record)
    (branch,) = kernel.branches()
    assert kernel[branch + y.HIGH] == 4  # the last C; a B after it leads nowhere
    assert kernel[branch + y.SCAN_FROM] == 1


def test_bound_calls_a_search_for_each_completion_of_a_negated_group() -> None:
    kernel = Kernel("A a -> not (C c -> D d) -> B b", "ACXDDB")
    record = kernel.search_of()
    kernel.call("expand_thread", record)
    (branch,) = kernel.branches()
    called, phase = [], kernel.call("bound_branches", record)
    while phase == r.CALL:
        negation = kernel[y.C_NODES] - r.RECORD_WIDTH
        assert kernel[negation + r.R_CALLER] == record
        assert kernel[negation + r.R_PHASE] == r.CALL_NEGATION
        assert [kernel[negation + slot] for slot in (r.R_START, r.R_AROUND)] == [1, branch]
        called.append(kernel[negation + r.R_END] - 1)
        kernel[y.C_NODES] = negation
        assert kernel.call("resume", record, y.CONTINUE) == r.BOUND
        phase = kernel.call("bound_branches", record)
    assert called == [1, 3, 4]  # at once, then with each event that the group takes
    assert phase == r.SCAN


def test_branch_breaks_with_the_event_that_completes_the_negated_group() -> None:
    kernel = Kernel("A a -> not (C c -> D d) -> B b", "ACXDDB")
    record = kernel.search_of()
    kernel.call("expand_thread", record)
    assert kernel.call("bound_branches", record) == r.CALL
    kernel[y.C_NODES] -= r.RECORD_WIDTH
    kernel[record + r.R_POSITION] = 3
    assert kernel.call("resume", record, y.DECIDED) == r.BOUND
    assert kernel[kernel.branches()[0] + y.BROKEN] == 3
    assert kernel.call("bound_branches", record) == r.SCAN  # a broken branch is not searched further


# SCAN


def scanned(kernel: Kernel) -> tuple[list[int], int]:
    """The events that branches of the first node found, and whether one is committed."""
    kernel.run(kernel.search_of(), until=r.TRY)
    return [kernel[branch + y.FOUND] for branch in kernel.branches()], kernel[kernel.node() + y.N_COMMITTED]


@pytest.mark.parametrize(("types", "found"), [("AXCB", [-1, 2]), ("AXBC", [2, -1]), ("AXX", [-1, -1])])
def test_first_event_that_fits_any_branch_decides(types: str, found: list[int]) -> None:
    assert scanned(Kernel("A a -> (B b | C c) -> D d", types)) == (found, int(max(found) > 0))


def test_branch_of_a_reluctant_repetition_does_not_end_the_scan() -> None:
    """A reluctant repetition that may end takes its event, and the scan continues for the following step."""
    assert scanned(Kernel("A a -> B+? b -> C c", "ABXC")) == ([1], 1)
    kernel = Kernel("A a -> B+? b -> C c", "ABBXC")
    record = kernel.search_of()
    kernel.run(record, until=r.TRY)
    assert kernel.call("try_branch", record) == r.EXPAND
    for phase in ("expand_thread", "bound_branches", "scan_events"):
        kernel.call(phase, record)
    assert kernel.steps() == [2, 1]
    assert [kernel[branch + y.FOUND] for branch in kernel.branches()] == [4, 2]


def test_scan_stops_at_the_window() -> None:
    assert scanned(Kernel("A a -> B b within 2 seconds", "AXXXB")) == ([-1], 0)


def test_scan_stops_at_a_negated_step() -> None:
    assert scanned(Kernel("A a -> not C -> B b", "AXCB"))[0] == [-1]
    assert scanned(Kernel("A a -> not C -> B b", "AXBC"))[0] == [2]


# TRY


def test_try_takes_the_event_that_was_found_and_expands_it() -> None:
    kernel = Kernel("A a -> B b -> C c", "AXBC")
    record = kernel.search_of()
    kernel.run(record, until=r.TRY)
    assert kernel.call("try_branch", record) == r.EXPAND
    thread = kernel[record + r.R_THREAD]
    assert [kernel[thread + word] for word in (y.LAST, y.COUNT)] == [2, 2]


def test_try_pops_a_node_without_branches_and_returns_at_the_last() -> None:
    kernel = Kernel("A a -> (B b | C c) -> D d", "AXX")
    record = kernel.search_of()
    kernel.run(record, until=r.TRY)
    phases = [kernel.call("try_branch", record) for _ in range(4)]
    assert phases == [r.TRY, r.TRY, r.TRY, r.RETURN + y.CONTINUE]
    assert kernel[y.C_NODES] == record + r.RECORD_WIDTH


def test_any_tries_every_event_in_order() -> None:
    kernel = Kernel("A a ->> B b [v > 0]", "ABXBBX", values=[0, 1, 1, 0, 1, 1])
    record = kernel.search_of()
    kernel.run(record, until=r.TRY)
    (branch,) = kernel.branches()
    assert [kernel.call("next_any", branch, False) for _ in range(2)] == [1, 4]
    assert kernel.call("next_any", branch, False) == -1


def test_any_stops_at_the_event_that_breaks_its_branch() -> None:
    kernel = Kernel("A a ->> B b", "ABXBB")
    kernel.run(kernel.search_of(), until=r.TRY)
    (branch,) = kernel.branches()
    kernel[branch + y.BROKEN] = 2
    assert kernel.call("next_any", branch, False) == 1
    assert kernel.call("next_any", branch, False) == -1


def test_acceptance_inside_a_negation_decides_without_a_match() -> None:
    kernel = Kernel("A a -> B b", "AB")
    outer = kernel.search_of()
    inner = kernel.call("push_search", outer, kernel[outer + r.R_THREAD], 0, 2, y.NONE)
    kernel.run(inner, until=r.RETURN + y.DECIDED)
    assert kernel.matches() == []


def test_branch_without_an_event_stays_open_until_its_window_closes() -> None:
    """At a horizon inside the window, the search says when to look again; behind it nothing is open."""
    for horizon, is_open in ((3 * SECOND, 1), (6 * SECOND, 0)):
        kernel = Kernel("A a -> B b within 4 seconds", "AXX")
        kernel[y.C_NEXT_TIMER] = y.FOREVER
        assert kernel.call("search", kernel.search_of(horizon=horizon)) == y.CONTINUE
        assert kernel[y.C_OPEN] == is_open
        assert kernel[y.C_NEXT_TIMER] == (5 * SECOND if is_open else y.FOREVER)


# ACCEPTED


def test_accepted_thread_is_written_and_decides() -> None:
    kernel = Kernel("A a -> B b", "AXB")
    record = kernel.search_of()
    kernel.run(record, until=r.ACCEPTED)
    assert kernel[record + r.R_MATCH_END] == 3 * SECOND
    assert kernel.call("accept_match", record) == r.RETURN + y.DECIDED
    assert kernel.matches() == [[0, 2]]


def test_accepted_combination_goes_on_to_the_next_one() -> None:
    kernel = Kernel("A a ->> B b", "ABXB")
    assert kernel.call("search", kernel.search_of()) == y.CONTINUE
    assert kernel.matches() == [[0, 1], [0, 3]]


def test_negation_at_the_end_rejects_a_match() -> None:
    for types, accepted in (("AXC", r.TRY), ("AXX", r.RETURN + y.DECIDED)):
        kernel = Kernel("A a -> not C for 5 seconds", types)
        record = kernel.search_of()
        kernel.run(record, until=r.ACCEPTED)
        assert kernel[record + r.R_MATCH_END] == 6 * SECOND
        assert kernel.call("accept_match", record) == accepted


def test_negation_at_the_end_is_open_at_a_horizon_before_it() -> None:
    kernel = Kernel("A a -> not C for 5 seconds", "AXX")
    kernel[y.C_NEXT_TIMER] = y.FOREVER
    record = kernel.search_of(horizon=4 * SECOND)
    kernel.run(record, until=r.ACCEPTED)
    assert kernel.call("accept_match", record) == r.TRY
    assert [kernel[word] for word in (y.C_OPEN, y.C_NEXT_TIMER)] == [1, 6 * SECOND]
    assert kernel.matches() == []


def test_negated_group_at_the_end_is_searched_for_once() -> None:
    kernel = Kernel("A a -> not (C c -> D d) for 5 seconds", "ACD")
    record = kernel.search_of()
    kernel.run(record, until=r.ACCEPTED)
    assert kernel.call("accept_match", record) == r.CALL
    negation = kernel[y.C_NODES] - r.RECORD_WIDTH
    assert [kernel[negation + slot] for slot in (r.R_START, r.R_END)] == [1, 3]
    kernel[y.C_NODES] = negation
    assert kernel.call("resume", record, y.DECIDED) == r.TRY
    assert kernel[record + r.R_WATCH] == 1


# CALL_NEGATION and CANDIDATE


def negation_of(kernel: Kernel, since: int = y.NONE) -> int:
    """The record of a search for the first negated program after the first event."""
    record: int = kernel.call("push_negation", NO_RECORD, kernel.start(), 1, 1, kernel.end, since, y.NONE)
    return record


def test_candidates_are_tried_in_order_and_continued_by_a_search() -> None:
    kernel = Kernel("A a -> not (C c -> D d) -> B b", "ACXCXB")
    record, tried = negation_of(kernel), []
    phase = kernel.call("begin_negation", record)
    top = kernel[y.C_TOP]
    while phase == r.CANDIDATE:
        phase = kernel.call("try_candidate", record)
        if phase == r.CALL:
            inner = kernel[y.C_NODES] - r.RECORD_WIDTH
            assert [kernel[inner + slot] for slot in (r.R_CALLER, r.R_NEGATED)] == [record, 1]
            tried.append(kernel[inner + r.R_START])
            kernel[y.C_NODES] = inner
            phase = kernel.call("resume", record, y.CONTINUE)
    assert tried == [1, 3]
    assert phase == r.RETURN + y.CONTINUE
    assert kernel[y.C_TOP] == top  # frames are released


def test_candidates_come_after_the_time_since_which_the_negation_counts() -> None:
    kernel = Kernel("A a -> not (C c -> D d) -> B b", "ACXCXB")
    record = negation_of(kernel, since=2 * SECOND)
    kernel.call("begin_negation", record)
    assert kernel.call("try_candidate", record) == r.CALL
    assert kernel[record + r.R_POSITION] == 3


def test_thread_of_a_negation_has_what_the_thread_around_it_has_bound() -> None:
    kernel = Kernel("A a -> not (C c [v = a.v] -> D d) -> B b", "ACCDB", values=[7, 6, 7, 0, 0])
    record = negation_of(kernel)
    kernel.call("begin_negation", record)
    assert kernel.call("try_candidate", record) == r.CALL
    assert kernel[record + r.R_POSITION] == 2


@pytest.mark.parametrize(("types", "result"), [("ACDB", y.DECIDED), ("ADCB", y.CONTINUE), ("ACXX", y.CONTINUE)])
def test_search_for_a_negation_decides_if_the_group_occurs(types: str, result: int) -> None:
    kernel = Kernel("A a -> not (C c -> D d) -> B b", types)
    record = negation_of(kernel)
    assert kernel.call("search", record) == result
    assert kernel[y.C_NODES] == record  # every record and node is popped


@pytest.mark.parametrize(
    ("types", "violated"), [("CDAB", 1), ("DCAB", 0), ("CDXXXXAB", 0), ("XCXDAB", 1), ("AB", 0), ("CADB", 0)]
)
def test_leading_negation_is_violated_inside_its_duration(types: str, violated: int) -> None:
    kernel = Kernel("not (C c -> D d) for 4 seconds -> A a -> B b", types)
    start = types.index("A")
    assert kernel.call("violates_leading_negation", kernel.start(start), 0, start, y.NONE) == violated


def test_result_of_a_call_is_passed_to_the_caller() -> None:
    kernel = Kernel("A a -> not (C c -> D d) -> B b", "ACDB")
    record = negation_of(kernel)
    kernel.call("begin_negation", record)
    assert kernel.call("try_candidate", record) == r.CALL
    assert kernel.call("resume", record, y.DECIDED) == r.RETURN + y.DECIDED
    assert kernel[y.C_TOP] == kernel[record + r.R_SEED]


# Look-ahead


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("A a -> B b , C c", [(1, 0), (2, 0)]),
        ("A a , B b -> C c", [(1, 1), (2, 0)]),
        ("A a , B+ b , C c", [(1, 1), (2, 0)]),
        ("A a -> B* b -> C c", [(2, 0)]),
        ("A a -> (B b | C c) -> D d", []),
        ("A a -> B b -> (C c & D d)", [(1, 0)]),
    ],
)
def test_required_steps_end_where_there_is_a_choice(text: str, required: list[tuple[int, int]]) -> None:
    kernel = Kernel(text, "A")
    first, root = kernel[y.A_BIND], kernel.start()
    count = kernel.call("required_steps", root, first, kernel.width // 2)
    assert [(kernel[first + 2 * k], kernel[first + 2 * k + 1]) for k in range(count)] == required


def test_required_steps_stop_at_the_capacity() -> None:
    kernel = Kernel("A a -> B b -> C c -> D d", "A")
    assert kernel.call("required_steps", kernel.start(), kernel[y.A_BIND], 2) == 2


# All phases together


def test_a_search_leaves_the_stacks_as_it_found_them() -> None:
    """Over random patterns: nodes and records are popped whatever the result."""
    results = set()
    for seed in range(200):
        pattern, events = make_pair(seed)
        plan = compile_set([pattern])
        batch = batch_of(events, {})
        bytecode = compile_pattern(plan, plan.patterns[0], batch.types(), False)
        if not bytecode.compiled or not events or bytecode.tables[y.S_CONTEXT] >= 0:
            continue
        kernel = Kernel("A a -> B b", "A")
        kernel.arrays = kernel_arrays(bytecode, batch, *make_space(bytecode, 8))
        kernel.tables, kernel.space = kernel.arrays.tables, kernel.arrays.space
        kernel.width, kernel.end = int(kernel.tables[y.S_FRAME]), len(events)
        kernel.space[[y.C_KEY_END, y.C_STEPS_END]] = y.FOREVER
        kernel.space[y.C_MATCHES_END] = y.FOREVER
        first = kernel.space[y.A_FRAMES] + kernel.width
        chance = random.Random(seed)
        for position in chance.sample(range(len(events)), min(2, len(events))):
            try:
                root = kernel.start(position)
            except AssertionError:
                continue  # The event does not begin a match.
            if kernel[first + y.STEP] < 0 or not kernel.call("fits", int(first), kernel[first + y.STEP], position):
                continue
            horizon = chance.choice([y.NONE, int(np.median(batch.time))])
            record = kernel.call("push_search", NO_RECORD, root, position, kernel.end, horizon)
            result = kernel.call("search", record)
            assert kernel[y.C_NODES] == record, seed
            results.add(result)
    assert results == {y.CONTINUE, y.DECIDED}
