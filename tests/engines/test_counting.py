"""Expected numbers of matches: worked by hand, against possible worlds, and batch by batch to the bit."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import count, islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.uncertain import automaton
from perseid.engines.uncertain.engine import expected_of, finish, make_plan, match_all, report, step
from perseid.engines.uncertain.output import binding_schema, output_schema
from perseid.engines.uncertain.output_policies import EVERY, OutputPolicy
from perseid.engines.uncertain.plan import UncertainPlan, plan_query
from perseid.engines.uncertain.streams import Known, Sampling, Stream, Streams
from perseid.engines.uncertain.traces import gather
from perseid.errors import EventDataError, LimitError, StateError, UnsupportedError
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import completions
from perseid.reference.worlds import group_results
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.watermark import Watermark
from perseid.semantics.classes import QueryClass
from perseid.semantics.events import Event, arrange
from perseid.semantics.resolve import resolve
from tests.blocks import blocks
from tests.engines.test_uncertain import DEEP, FAST, engine_results, gathered
from tests.engines.test_uncertain_stream import (
    cases_sampled_midway,
    chain,
    limit_states,
    plan_random_case,
    shown,
    streamed,
)
from tests.generators.random_beliefs import make_uncertain
from tests.generators.random_patterns import SECOND

__all__ = ["limit_states"]

COUNTED = OutputPolicy("expected")


def at(*steps: dict[str, float], who: str = "ann", every: str | None = "1 second") -> ps.uncertain.UncertainEvents:
    """Returns a stream with a distribution for each second, starting at 1."""
    rows = [
        {"ts": second, "who": who, "place": place, "p": p}
        for second, given in enumerate(steps, 1)
        for place, p in given.items()
    ]
    return ps.uncertain_events(rows, event_type="At", key="who", value="place", every=every)


def expected(
    match: str, stream: ps.uncertain.UncertainEvents, more: str = "within forever selection successor"
) -> dict[int, float]:
    """Returns the expected number of matches by second."""
    matches = ps.pattern(f"pattern p match {match} {more}").match(stream, emit=ps.uncertain.expected())
    return {answer["time"].second: answer["expected"] for answer in matches}


A, B = "At [place = 'a']", "At [place = 'b']"


# By hand


def test_every_open_start_counts_as_a_match() -> None:
    """b at 3 completes the starts at 1 and at 2: 0.5 * (0.5 + 0.25). At least one of them exists with 0.625."""
    stream = at({"a": 0.5}, {"a": 0.25}, {"b": 0.5})
    assert expected(f"{A} -> {B}", stream) == pytest.approx({3: 0.5 * (0.5 + 0.25)})
    matches = ps.pattern(f"pattern p match {A} -> {B} within forever selection successor").match(
        stream, emit=ps.uncertain.expected()
    )
    assert matches[0]["p"] == pytest.approx(0.5 * (1 - 0.5 * 0.75))


def test_start_is_consumed_by_its_first_completion() -> None:
    """b at 2 completes the start at 1; b at 3 completes it if b did not occur at 2."""
    assert expected(f"{A} -> {B}", at({"a": 1.0}, {"b": 0.5}, {"b": 1.0})) == pytest.approx({2: 0.5, 3: 0.5})


def test_with_any_every_pair_counts() -> None:
    """a at 1 and at 2, then b at 3 and at 4: each of both completes both."""
    steps = at({"a": 1.0}, {"a": 0.5}, {"b": 1.0}, {"b": 0.25})
    assert expected(f"{A} ->> {B}", steps, "within forever") == pytest.approx({3: 1.5, 4: 0.25 * 1.5})


def test_each_length_of_a_repetition_is_a_match() -> None:
    """Certain a at 1, 2, 3: at the nth a match begins at each of the first n."""
    found = expected("At+ [place = 'a']", at({"a": 1.0}, {"a": 1.0}, {"a": 1.0}), "within 1 hour selection successor")
    assert found == pytest.approx({1: 1, 2: 2, 3: 3})


def test_events_and_not_paths_are_counted() -> None:
    """A nested repetition derives the same events in several ways: one match for each choice of events."""
    steps = at({"a": 0.5}, {"a": 0.5}, {"a": 0.5}, {"b": 1.0})
    plain, nested = (f"{a} -> {B}" for a in ("At+ [place = 'a']", "(At+ [place = 'a'])+"))
    assert expected(nested, steps) == pytest.approx(expected(plain, steps))
    bounded = expected("(At{1,2} [place = 'a']){2}", at({"a": 1.0}, {"a": 1.0}, {"a": 1.0}))
    assert bounded == pytest.approx({2: 1, 3: 2})  # 1 2; then 1 2 3 and 2 3


def test_alternatives_that_both_fit_are_two_matches() -> None:
    """The same event taken by two steps is two matches."""
    assert expected(f"({A} | At [place != 'b'])", at({"a": 0.5, "c": 0.25})) == pytest.approx({1: 0.5 + 0.75})


def test_windows_and_absences() -> None:
    """a at 1 is outside the window at 4; c at 3 rules out the open starts with 0.5."""
    steps = at({"a": 1.0}, {"a": 1.0}, {"c": 0.5}, {"b": 1.0})
    assert expected(f"{A} -> {B}", steps, "within 2 seconds selection successor") == pytest.approx({4: 1.0})
    assert expected(f"{A} -> not At [place = 'c'] -> {B}", steps) == pytest.approx({4: 1.0})


def test_equal_events_of_one_step_are_separate_starts() -> None:
    """Ann and Bob are both at a with 0.5, then Cid is at b: without a shared variable, each a is a separate start."""
    rows = [
        {"ts": 1, "who": "ann", "place": "a", "p": 0.5},
        {"ts": 1, "who": "bob", "place": "a", "p": 0.5},
        {"ts": 2, "who": "cid", "place": "b", "p": 1.0},
        {"ts": 2, "who": "dan", "place": "b", "p": 0.5},
    ]
    stream = ps.uncertain_events(rows, event_type="At", key="who", value="place", every="1 second")
    assert expected(A, stream) == pytest.approx({1: 1.0})
    assert expected(f"{A} -> {B}", stream) == pytest.approx({2: 1.0 * 1.5})


def test_bindings_add_up() -> None:
    """Extended Regular: the matches of Ann and of Bob are separate."""
    given = [(1, "ann", "a", 0.5), (2, "ann", "b", 1.0), (1, "bob", "a", 0.25), (2, "bob", "b", 0.5)]
    rows = [dict(zip(("ts", "who", "place", "p"), row, strict=True)) for row in given]
    stream = ps.uncertain_events(rows, event_type="At", key="who", value="place", every="1 second")
    match = "At(who as x) a [place = 'a'] -> At(who as x) b [place = 'b'] within forever selection successor"
    (matches,) = ps.pattern(f"pattern p match {match}").match(stream, emit=ps.uncertain.expected())
    assert matches["expected"] == pytest.approx(0.5 + 0.125)
    assert matches["p"] == pytest.approx(1 - 0.5 * 0.875)


def test_expected_matches_over_sensor_readings() -> None:
    """Two places with self-transition probability 0.75; the readings favor a, then b, then b by four to one."""
    model = ps.uncertain.hidden_markov(
        transitions={"a": {"a": 0.75, "b": 0.25}, "b": {"a": 0.25, "b": 0.75}},
        initial={"a": 0.5, "b": 0.5},
        readings={"a": {"x": 0.8, "y": 0.2}, "b": {"x": 0.2, "y": 0.8}},
    )
    rows = [{"ts": second, "who": "ann", "read": read} for second, read in enumerate("xyy")]
    stream = ps.uncertain_events(
        rows, event_type="At", key="who", value="place", reading="read", model=model, every="1 second"
    )
    chance = {"a": {"x": 0.8, "y": 0.2}, "b": {"x": 0.2, "y": 0.8}}
    move = {"aa": 0.75, "ab": 0.25, "ba": 0.25, "bb": 0.75}

    def weight(path: str) -> float:
        found = 0.5
        for place, read in zip(path, "xyy", strict=False):
            found *= chance[place][read]
        for one, other in pairwise(path):
            found *= move[one + other]
        return found

    paths = [one + two + three for one in "ab" for two in "ab" for three in "ab"]
    ways = {"aab": 2, "abb": 0, "bab": 1}  # of abb the b at 2 has used up the a
    due = sum(weight(path) * ways.get(path, 0) for path in paths) / sum(map(weight, paths))
    assert expected(f"{A} -> {B}", stream)[2] == pytest.approx(due)


# Every class


def test_expected_number_is_exact_for_safe_and_unsafe_patterns() -> None:
    """Only the probability of a match is hard to compute; expected numbers of matches are additive."""
    rows = {"A": [("ann", 1, 0.5), ("bob", 1, 0.5)], "B": [("ann", 2, 0.5), ("bob", 2, 0.5)], "C": [("cid", 3, 0.5)]}
    parts = [
        ps.uncertain_events([{"ts": second, "k": who, "v": 1, "p": p} for who, second, p in some], event_type=name, key="k", value="v", every="1 second")
        for name, some in rows.items()
    ]  # fmt: skip
    stream = parts[0].combine(parts[1], parts[2])
    safe = ps.pattern("pattern safe match A(k as x) -> B(k as x) -> C within forever selection successor")
    assert "Safe" in safe.explain(stream)
    matches = safe.match(stream, emit=ps.uncertain.expected())
    assert [(row["expected"], row["error"]) for row in matches] == [(pytest.approx(2 * 0.25 * 0.5), 0.0)]
    unsafe = ps.pattern("pattern unsafe match A a -> B b [b.v = a.v] within forever selection successor")
    assert "Unsafe" in unsafe.explain(stream)
    matches = unsafe.match(stream, emit=ps.uncertain.expected())
    assert [(row["expected"], row["error"]) for row in matches] == [(pytest.approx(4 * 0.25), 0.1)]


def test_expected_number_is_exact_where_the_probability_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are many sets of starts but few starts: the pattern of test_uncertain.py that is sampled."""
    monkeypatch.setitem(automaton.Automaton.__init__.__kwdefaults__, "most", 128)
    rows = [{"ts": second, "p": 0.5, "v": 1} for second in range(60)]
    ends = [{"ts": second, "p": 0.02, "v": 1} for second in range(60)]
    starts, stops = (
        ps.uncertain_events(some, event_type=name, value="v", every="1 second")
        for name, some in (("A", rows), ("B", ends))
    )
    long = ps.pattern("pattern long match A -> B within 40 seconds holds for 20 seconds selection successor")
    matches = long.match(starts.combine(stops), emit=ps.uncertain.expected())
    assert matches.sampled == 60 - 7  # with the eighth start there are 2 ** 8 sets of them
    # A start is used up by the first B; one that is d old still waits with 0.98 ** (d - 1).
    due = sum(0.5 * 0.98 ** (age - 1) for age in range(20, 41)) * 0.02
    assert matches[-1]["expected"] == pytest.approx(due)


# Against possible worlds


def check_numbers(first: int, many: int) -> Counter[str]:
    """Compares the expected numbers of random cases with possible worlds; returns counts of the cases."""
    met: Counter[str] = Counter()
    for seed in range(first, first + many):
        case = make_uncertain(seed)
        asked = plan_query(case.pattern, case.streams)
        found = engine_results(asked, case.streams, expected_of(asked, case.streams, gathered(case))).chances
        right = group_results(case.pattern, case.chains, case.certain)
        for key in found.keys() | right.keys():
            due = right[key].expected if key in right else 0.0
            assert abs(found.get(key, 0.0) - due) <= 1e-9, f"seed {seed} at {key}: {found.get(key)} and not {due}"
        met[asked.classified.kind.value] += 1
        met["several hidden chains"] += not asked.is_single(case.streams)
        met["more than one"] += any(one.expected > one.probability + 1e-9 for one in right.values())
    return met


@pytest.mark.parametrize("block", blocks(1, 3))
def test_numbers_are_those_of_possible_worlds(block: int) -> None:
    many = 100 if FAST else 10
    met = check_numbers(block * 1000, many)
    for kind in (QueryClass.REGULAR, QueryClass.EXTENDED, QueryClass.UNSAFE):
        assert met[kind.value] >= many // 20, met
    assert met["several hidden chains"] >= many // 10
    assert met["more than one"] >= many // 20


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(20))
def test_expected_numbers_of_random_cases_deep(block: int) -> None:
    met = check_numbers(DEEP + block * 5000, 500)
    assert met["more than one"] >= 25


NESTED = (
    "(A+)+",
    "((A | B)+ -> C?)+",
    "(A? -> B?){2,3} -> C",
    "(A{1,2} -> B?)+ -> C",
    "((A -> B?)+ | (A -> C)+)+",
    "(A+ | B)+ -> (A* -> C)+",
)


@pytest.mark.parametrize("match", NESTED)
@pytest.mark.parametrize("window", ["1 hour", "3 seconds"])
def test_ambiguous_repetitions_count_events(match: str, window: str) -> None:
    """Over certain streams, repetitions with several derivations of the same events count as often as in the oracle."""
    chance, several = random.Random(match), 0
    text = f"pattern p match {match} within {window} selection successor"
    pattern, core = ps.pattern(text), resolve(parse_pattern(text))
    other = ps.uncertain_events([{"ts": 0, "v": 0, "p": 0.5}], event_type="Other", value="v", every="1 second")
    for _ in range(10):
        rows = [
            {"ts": second, "type": chance.choice("ABC")}
            for second in range(6)
            for _ in range(chance.choice((0, 1, 1, 2)))
        ]
        matches = pattern.match(other.combine(ps.events(rows, time="ts", type="type")), emit=ps.uncertain.expected())
        events = arrange([Event(row["type"], row["ts"] * SECOND, {}, str(i)) for i, row in enumerate(rows)])
        due = Counter(one.end // SECOND for one in completions(core, events))
        assert {row["time"].second: row["expected"] for row in matches} == due
        several += any(number > 1 for number in due.values())
    assert several > 1


# Call by call


def counting(seed: int, sampled: bool) -> tuple[UncertainPlan, EventBatch] | None:
    found = plan_random_case(seed, sampled)
    if found is None or not found[0].queries[0].is_single(found[0].streams):
        return None
    plan, rows, case = found
    types = {name: column.type for name, column in rows.columns.items()}
    return make_plan([case.pattern], plan.streams, types, output_policy=COUNTED), rows


def check_cuts(first: int, many: int, sampled: bool = False) -> int:
    matches = 0
    found = (one for seed in count(first) if (one := counting(seed, sampled)) is not None)
    for plan, rows in islice(found, many):
        whole = match_all(plan, rows).rows
        cut = list(streamed(plan, rows, random.Random(first)))
        assert shown([plan.schema.empty_table(), *cut]) == shown([whole]), plan
        matches += whole.num_rows > 0
    return matches


def test_expected_numbers_do_not_depend_on_batch_boundaries() -> None:
    assert check_cuts(9_000, 80) > 20


def test_expected_numbers_with_sampled_probabilities_do_not_depend_on_batch_boundaries() -> None:
    assert check_cuts(19_000, 60, sampled=True) > 20


@pytest.mark.usefixtures("limit_states")
def test_expected_numbers_are_exact_in_groups_sampled_midway() -> None:
    """In batches the numbers equal those of finished data to the bit, and those of plain counting."""
    met = 0
    for asked, rows, _, steps in islice(cases_sampled_midway(70_000), 30):
        types = {name: column.type for name, column in rows.columns.items()}
        plan = replace(asked, schema=output_schema(asked.queries, types, COUNTED), output_policy=COUNTED)
        done = match_all(plan, rows)
        whole, counted = done.rows, done.counters
        assert counted["sampled"] == steps
        cut = list(streamed(plan, rows, random.Random(5)))
        assert shown([plan.schema.empty_table(), *cut]) == shown([whole]), plan
        one = expected_of(plan.queries[0], plan.streams, gather(plan.streams, rows)[0])
        assert sorted(whole["expected"].to_pylist()) == sorted(number for number in one.probability if number > 0)
        met += whole.num_rows > 0
    assert met > 10


def test_stream_with_several_hidden_chains_has_no_counts() -> None:
    """In sampled worlds each hidden chain has a separate value; counts follow one value."""
    streams = Streams((Stream("At", Known.LINKED, ("k",), ("v",)),), SECOND, sampling=Sampling(always=True))
    pattern = resolve(parse_pattern("pattern p match At a [v = 1] -> At b [v = 2] within 5 seconds"))
    types = {"k": pa.int64(), "v": pa.int64()}
    make_plan([pattern], streams, types).refuse_on_streams()
    with pytest.raises(UnsupportedError, match="may have several chains of At in one group"):
        make_plan([pattern], streams, types, output_policy=COUNTED).refuse_on_streams()


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(10))
def test_expected_numbers_do_not_depend_on_batch_boundaries_deep(block: int) -> None:
    assert check_cuts(3_000_000 + 100_000 * block, 250) > 60


def test_counts_per_binding_add_up_after_a_shuffle() -> None:
    """Combining the counts of bindings from several shards gives the same bits as counting all of them at once."""
    plain, rows = chain(30)
    types = {name: column.type for name, column in rows.columns.items()}
    text = "pattern p match At(k as x) a [v = 1] -> At(k as x) b [v = 2] within 5 seconds selection successor"
    plan = make_plan([resolve(parse_pattern(text))], plain.streams, types, output_policy=COUNTED)
    apart = replace(plan, apart=True)
    whole, matches = match_all(plan, rows).rows, match_all(apart, rows).rows
    assert matches.schema == binding_schema(apart)
    assert matches.num_rows > whole.num_rows > 20
    assert shown([finish(apart, matches)]) == shown([whole])
    pruned = replace(plan, streams=replace(plan.streams, prune=0.9))
    told_apart = match_all(replace(pruned, apart=True), rows).rows
    assert shown([finish(apart, told_apart)]) == shown([match_all(pruned, rows).rows])
    assert finish(apart, told_apart)["expected"].equals(finish(apart, matches)["expected"])
    some = replace(apart, output_policy=OutputPolicy("expected", 0.2))
    assert 0 < finish(some, matches).num_rows < whole.num_rows


def test_state_of_counts_does_not_grow_with_the_stream() -> None:
    plan, rows = chain(400, "within forever")
    types = {name: column.type for name, column in rows.columns.items()}
    plan = make_plan([plan.queries[0].pattern], plan.streams, types, output_policy=COUNTED)
    state, sizes = None, []
    for second in range(0, 400, 20):
        batch = np.flatnonzero((rows.time >= second * SECOND) & (rows.time < (second + 20) * SECOND))
        done = step(
            plan, take_events(rows, batch), state, Watermark(None, second * SECOND - 1 if second else None, False)
        )
        state = done.state
        sizes.append(done.counters["state_bytes"])
    assert max(sizes[5:]) - min(sizes[5:]) < 400, sizes


def states(output_policy: OutputPolicy) -> tuple[UncertainPlan, EventBatch, bytes]:
    plan, rows = chain(6)
    types = {name: column.type for name, column in rows.columns.items()}
    plan = make_plan([plan.queries[0].pattern], plan.streams, types, output_policy=output_policy)
    state = step(plan, rows, None, Watermark(None, None, False)).state
    state = step(plan, take_events(rows, np.zeros(0, np.int64)), state, Watermark(None, 4 * SECOND - 1, False)).state
    assert state is not None
    return plan, rows, state


def test_checkpoint_without_counts_is_rejected() -> None:
    """A checkpoint without match counts is rejected if counts are required; counts that are not required are
    dropped."""
    counts, rows, counted = states(COUNTED)
    plain, _, state = states(EVERY)
    none, later = take_events(rows, np.zeros(0, np.int64)), Watermark(None, 9 * SECOND, False)
    with pytest.raises(StateError, match="has no counts of partial matches"):
        step(counts, none, state, later)
    assert step(plain, none, counted, later).rows.equals(step(plain, none, state, later).rows)
    assert report(counted).open == report(state).open


# Errors and limits


def test_numbers_beyond_all_bounds() -> None:
    """Every subset of the events is a match, so each event doubles their number."""
    rows = [{"ts": second, "v": 1, "p": 1.0} for second in range(1_100)]
    stream = ps.uncertain_events(rows, event_type="A", value="v", every="1 second")
    subsets = ps.pattern("pattern subsets match A+ within 1 hour selection any")
    few = ps.uncertain_events(rows[:5], event_type="A", value="v", every="1 second")
    assert [row["expected"] for row in subsets.match(few, emit=ps.uncertain.expected())] == [1, 2, 4, 8, 16]
    with pytest.raises(LimitError, match="too many partial matches: their number exceeds the range of a double"):
        subsets.match(stream, emit=ps.uncertain.expected())


def test_limit_of_event_combinations_per_step_is_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven chains of one group, with seven distinct values: 2 to the 7th kinds of steps; the limit is 64."""
    monkeypatch.setattr(automaton, "MAX_LETTERS", 64)
    rows = [{"ts": 1, "k": k, "v": k, "p": 0.5} for k in range(7)]
    stream = ps.uncertain_events(
        rows, event_type="A", key="k", value="v", every="1 second", sampling=ps.uncertain.Sampling(epsilon=0.4)
    )
    pattern = ps.pattern("pattern same match A a -> A b [b.v = a.v] within forever selection successor")
    with pytest.raises(LimitError, match="too many distinct partial matches, or combinations of events per step"):
        pattern.match(stream, emit=ps.uncertain.expected())


@pytest.mark.parametrize("bad", [-1, True, float("nan"), float("inf"), "2", None])
def test_invalid_bounds_are_rejected(bad: Any) -> None:
    with pytest.raises(EventDataError, match=r"above=.*: expected a number of matches of at least 0"):
        ps.uncertain.expected(bad)


def test_expected_output_policy() -> None:
    stream = at({"a": 0.5}, {"a": 0.25}, {"b": 0.5})
    pattern = ps.pattern(f"pattern p match {A} -> {B} within forever partition by who selection successor")
    assert len(pattern.match(stream, emit=ps.uncertain.expected(0.3))) == 1
    assert len(pattern.match(stream, emit=ps.uncertain.expected(0.375))) == 0
    assert "p=0.3125  expected=0.375" in repr(pattern.match(stream, emit=ps.uncertain.expected()))
    assert "expected" not in pattern.match(stream)[0]
    with pytest.raises(UnsupportedError, match="count is unsupported on uncertain streams") as raised:
        pattern.count(stream)
    assert "ps.uncertain.expected()" in str(raised.value)
    assert "ps.uncertain.expected(), is exact in every class" in " ".join(pattern.explain(stream).split())


@pytest.mark.parametrize("name", ["p", "error", "expected", "time", "pattern"])
def test_partition_column_named_like_a_result_column_is_rejected(name: str) -> None:
    rows = [{"ts": 1, name: "x", "v": 1, "q": 0.5}]
    stream = ps.uncertain_events(rows, event_type="A", key=name, value="v", probability="q", every="1 second")
    asked = ps.pattern(
        f"pattern one match A partition by `{name}`"
        if name == "pattern"
        else f"pattern one match A partition by {name}"
    )
    with pytest.raises(EventDataError, match="also the name of a result column"):
        asked.match(stream, emit=ps.uncertain.expected())
    if name == "expected":
        assert asked.match(stream)[0]["expected"] == "x"


def test_no_rows_have_no_numbers() -> None:
    assert pa.types.is_float64(
        ps.pattern("pattern p match At")
        .match(at({"a": 0.0}), emit=ps.uncertain.expected())
        .to_arrow()
        .schema.field("expected")
        .type
    )
