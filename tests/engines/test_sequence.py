"""The kernel equals the oracle, compiled by Numba and as plain Python: whole, at horizons, on columns of every kind."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from decimal import Decimal
from typing import Any

import pytest

from perseid.compile.compiler import compile_set
from perseid.engines.sequence import bytecode as sequence_plan
from perseid.engines.sequence import contexts, run
from perseid.engines.sequence.matcher import kernel_matcher
from perseid.engines.sequence.stream import Events, read_events
from perseid.errors import LimitError
from perseid.lang.parser import parse_file, parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.runtime.jit import COMPILED
from perseid.semantics.binding import bind
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import Detection, detect
from perseid.semantics.events import Event
from perseid.semantics.functions import FUNCTIONS
from perseid.semantics.resolve import resolve
from perseid.testing.cases import PatternCase, run_case
from tests.blocks import blocks
from tests.contract.rich import make_rich_pair
from tests.generators.random_patterns import make_pair
from tests.semantics.test_cases import CASES

SECOND = 1_000_000
BASE = int(os.environ.get("PERSEID_SEEDS", "2000000"))
"""First seed of the deep runs."""
BLOCK = 125
DEEP_BLOCK = 2_500

modes = pytest.mark.parametrize(
    "compiled",
    [pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="Numba is switched off")), False],
    ids=["numba", "plain"],
)


def rows(detection: Detection) -> list[tuple[object, ...]]:
    """Returns the comparable parts of all matches, sorted; NaN equals itself by its text."""
    return sorted(
        (m.kind, m.start_us, m.end_us, m.match_id, repr(sorted(m.values.items())), repr(m.evidence))
        for m in detection.matches
    )


def found(
    pattern: CorePattern, events: list[Event], compiled: bool, **options: Any
) -> tuple[Detection, list[tuple[object, ...]]]:
    detection = detect([pattern], events, kernel_matcher(compile_set([pattern]), compiled=compiled), **options)
    return detection, rows(detection)


def agree(
    pattern: CorePattern,
    events: list[Event],
    compiled: bool,
    horizons: list[int | None],
    strictly_later: bool,
    what: object,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if len(events) % 2:
            patch.setattr(run, "POSTING_MIN_EVENTS", 0)  # Such short streams would not be grouped by value.
        for horizon in horizons:
            options = {"horizon": horizon, "strictly_later": strictly_later}
            expected = detect([pattern], events, oracle_matcher(), **options)
            _, given = found(pattern, events, compiled, **options)
            assert given == rows(expected), f"{what}, horizon {horizon}, strictly later {strictly_later}"


def horizons_of(events: list[Event], seed: int) -> list[int | None]:
    """The end of time and the time of one event, another with each seed."""
    return [None, *([events[seed % len(events)].time] if events else [])]


@modes
@pytest.mark.parametrize("block", blocks(500 // BLOCK, 2_000 // BLOCK))
def test_equals_the_oracle_on_seeds(block: int, compiled: bool) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        pattern, events = make_pair(seed)
        agree(pattern, events, compiled, horizons_of(events, seed), seed % 3 == 0, f"seed {seed}")


@modes
@pytest.mark.parametrize("block", blocks(2, 5))
def test_equals_the_oracle_on_columns_of_every_kind(block: int, compiled: bool) -> None:
    for seed in range(block * 120, (block + 1) * 120):
        rich(seed, compiled)


def rich(seed: int, compiled: bool) -> None:
    pattern, text, data = make_rich_pair(seed)
    events = read_events(Events(data))
    agree(pattern, events, compiled, horizons_of(events, seed), seed % 3 == 0, f"seed {seed}: {text}")


@pytest.mark.deep
@pytest.mark.timeout(7200)
@modes
@pytest.mark.parametrize("block", range(100_000 // DEEP_BLOCK))
def test_deep(block: int, compiled: bool) -> None:
    """100,000 pairs each way, with longer streams, and a tenth as many with columns of every kind."""
    for seed in range(BASE + block * DEEP_BLOCK, BASE + (block + 1) * DEEP_BLOCK):
        pattern, events = make_pair(seed, longest=11)
        agree(pattern, events, compiled, horizons_of(events, seed), seed % 3 == 0, f"seed {seed}")
        if seed % 10 == 0:
            rich(seed, compiled)


@modes
def test_reluctant_repetition_inside_greedy_repetition(compiled: bool) -> None:
    """`((C){0,2}?){1,} ->> B, C`: an empty iteration that is not required ends no repetition."""
    seed = 2_094_697
    pattern, events = make_pair(seed, longest=11)
    agree(pattern, events, compiled, [None], False, f"seed {seed}")


@modes
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.source}: {c.title}")
def test_cases(case: PatternCase, compiled: bool) -> None:
    patterns = []
    for pattern in parse_file(case.text).patterns:
        known = {p.name for p in pattern.parameters}
        patterns.append(resolve(bind(pattern, {k: v for k, v in (case.bound or {}).items() if k in known})))
    matcher = kernel_matcher(compile_set(patterns), compiled=compiled)
    assert run_case(case, matcher) == list(case.expected), case.why


@modes
@pytest.mark.parametrize("context", ["chronicle", "immediate", "continuous", "recent"])
def test_totals_stay_with_their_partial_match(context: str, compiled: bool) -> None:
    """Also past steps that add nothing to them, and where something negated has totals of its own."""
    for match in (
        "A+ a -> C c -> B b [v > sum(a.v)]",
        "A+ a -> not (C+ x -> B y [v > sum(x.v)]) -> C c [v <= sum(a.v)]",
        "not (C+ x -> B y [v > sum(x.v)]) for 4 seconds -> A+ a -> B b [v <= sum(a.v)]",
    ):
        text = f"pattern p match {match} within 8 seconds selection {context} return sum(a.v) as s"
        for seed in range(8):
            chance = random.Random(seed)
            events = stream(*((chance.choice("AAABCC"), i // 2, {"v": chance.randrange(4)}) for i in range(30)))
            agree(resolve(parse_pattern(text)), events, compiled, [None], False, f"{text}, seed {seed}")


@modes
@pytest.mark.parametrize("context", ["chronicle", "immediate", "continuous", "recent"])
def test_partial_match_that_ends_a_microsecond_before_1970(context: str, compiled: bool) -> None:
    """Its end, -1, was taken for the signal that the working memory is full."""
    pattern = resolve(parse_pattern(f"pattern p match A a -> B+ b within 1 hour selection {context}"))
    events = stream(("A", -100e-6, {}), ("B", -50e-6, {}), ("B", -2e-6, {}), ("B", -1e-6, {}))
    assert events[-1].time == -1
    agree(pattern, events, compiled, [-2, -1, 0, None], False, context)


# Conditions that have no opcode, and those that look like they need none


def stream(*written: tuple[str, float, dict[str, Any]]) -> list[Event]:
    return [
        Event(kind, int(time * SECOND), attributes, f"e{i:05d}", 0, (0, i))
        for i, (kind, time, attributes) in enumerate(written)
    ]


MIXED = stream(
    ("A", 1, {"s": "a", "v": Decimal("1.50"), "i": 1, "d": 0.5}),
    ("B", 2, {"s": "b", "v": Decimal("2.00"), "i": 2, "d": float("nan")}),
    ("A", 3, {"s": "", "v": None, "i": 3, "d": -0.0}),
    ("B", 3, {"s": "a", "v": Decimal("1.50"), "i": 2**62, "d": 0.0}),
    ("B", 4, {"s": None, "v": Decimal("-1.25"), "i": None, "d": 1e300}),
    ("C", 5, {"s": "ab", "v": Decimal("3.50"), "i": 2, "d": 2.0}),
    ("C", 6, {"s": "ba", "v": Decimal("0.25"), "i": 0, "d": 1e-3}),
    ("C", 7, {"s": "a\U0001f600", "v": Decimal("1.5"), "i": 1, "d": float("inf")}),
    ("C", 8, {"s": "a\uffff", "v": Decimal("1.500"), "i": 4, "d": None}),
)


@modes
@pytest.mark.parametrize(
    "condition",
    [
        "c.s = a.s || b.s",
        "a.s || b.s || c.s like '%ab%'",
        "a.s || c.s rlike '^a.?[ab]$'",
        "c.s rlike '^a' and b.s not rlike 'b$'",
        "c.s ilike upper(a.s) || '%'",
        "regexp_extract(c.s, '^(.)(.*)$', 2) = b.s",
        "in_cidr('10.0.0.' || cast(c.i as string), '10.0.0.0/30')",
        "c.v > a.v + b.v",
        "c.v = a.v",
        "c.v <=> a.v",
        "c.v between a.v and b.v",
        "c.v / a.v > 1",
        "c.i > 1.5",
        "c.i = 2.0 or c.i <> 2.5",
        "c.d < 1.5",
        "c.s < a.s",
        "c.s > b.s",
        "c.s >= a.s and c.s <= 'b'",
        "a.s <> c.s",
        "c.i + b.i > a.i",
        "b.i * 4 > 0",
        "c.i % a.i = 0",
        "c.i / b.i > 0.4",
        "c.d % b.d is null",
        "a.d = b.d",
        "a.d <=> b.d",
        "c.i > a.s",
        "c.i <=> a.s",
        "c.missing = a.i",
        "c.missing is null",
        "time(c) - time(a) >= 3 seconds",
        "type(b) = 'B'",
        "case when c.i > a.i then b.s = 'b' else c.s > b.s end",
        "coalesce(b.i, a.i, 0) > 1",
        "length(a.s) < length(c.s)",
    ],
)
def test_conditions_across_events(condition: str, compiled: bool) -> None:
    pattern = resolve(parse_pattern(f"pattern p match A a -> B b ->> C c where {condition} within 1 minute"))
    agree(pattern, MIXED, compiled, [None, 6 * SECOND], False, condition)


@modes
@pytest.mark.parametrize(
    "condition",
    [
        "array_contains(collect(b.i), c.i)",
        "count(distinct b.s) > 1",
        "sum(distinct b.i) > 2",
        "sum(b.v) > c.v",
        "avg(b.v) < c.v",
        "max(b.v) >= c.v",
        "min(b.s) < c.s",
        "max(b.s) <= c.s",
        "stddev(b.d) is not null",
        "avg(b.i) > c.i",
        "sum(b.d) <=> c.d",
        "min(b.d) = 0",
        "max(b.d) > c.d",
        "first(b.i) = c.i",
        "last(b.i) is null",
        "every(b.i > 0)",
        "any(b.s = 'b')",
        "count(b.i) = 2 and count(b) = 3",
        "count(b.missing) = 0",
        "sum(b.missing) is null",
        "sum(b.i + b.d) > 0",
        "median(b.i) > c.i",
        "median(b.d) < c.d",
        "median(b.v) > c.v",
        "percentile(b.i, 0.25) <= 2",
        "percentile(b.i, 1) > 2",
        "percentile(b.d, 0) = 0",
        "percentile(b.d, 1) > c.d",
        "percentile(b.d, 5e-1) < 2 and percentile(b.i + b.d, 0.1) is not null",
        "median(distinct b.i) > 2",
        "median(b.missing) is null",
        "median(b.s) is null",
    ],
)
def test_aggregates_across_events(condition: str, compiled: bool) -> None:
    pattern = resolve(parse_pattern(f"pattern p match A a -> B+ b ->> C c where {condition} within 1 minute"))
    agree(pattern, MIXED, compiled, [None, 6 * SECOND], False, condition)


@modes
@pytest.mark.parametrize(
    "condition",
    [
        "if(a.i > 0, c.i, c.d) > 1",
        "if(c.i > 1, c.i, c.d) > 1",
        "coalesce(c.d, 0) = 0",
        "coalesce(c.d, 0.5) > 0",
        "coalesce(c.d, c.i) > a.i",
        "case when c.i > 1 then c.i else c.d end >= 2",
        "case c.i when 1 then 0.5 else c.d end < 1",
        "nullif(c.i, 2) is null",
    ],
)
def test_numbers_of_several_kinds_in_one_expression(condition: str, compiled: bool) -> None:
    own = condition.replace("c.", "")
    for text in (f"match A a ->> C c where {condition}", *([f"match A a ->> C c [{own}]"] if "a." not in own else [])):
        pattern = resolve(parse_pattern(f"pattern p {text} within 1 minute"))
        agree(pattern, MIXED, compiled, [None], False, text)


UNIFIED: list[tuple[Any, Any]] = [
    (1, 1),
    (1, 1.0),
    (1, "1"),
    (True, True),
    ("a", "a"),
    (b"a", b"a"),
    (0.0, -0.0),
    (float("nan"), float("nan")),
    (Decimal("1.5"), Decimal("1.50")),
    (dt.date(2024, 1, 1), dt.date(2024, 1, 1)),
    ([1, 2], [1, 2]),
    ({"x": 1}, {"x": 1}),
    (None, None),
    (None, 1),
    (1, None),
]


@modes
@pytest.mark.parametrize(("one", "other"), UNIFIED, ids=repr)
def test_unified_values_of_every_kind(one: Any, other: Any, compiled: bool) -> None:
    pattern = resolve(
        parse_pattern(
            "pattern p match A(k as x) a -> B(k as x) b within 1 minute report timeouts return x as shared, a.k as own"
        )
    )
    events = stream(("A", 1, {"k": one}), ("B", 2, {"k": 7}), ("B", 3, {"k": other}))
    agree(pattern, events, compiled, [None], False, (one, other))


@modes
def test_missing_values_of_a_shared_variable(compiled: bool) -> None:
    pattern = resolve(parse_pattern("pattern p match A(k as x) a -> B(k as x) b within 1 minute return x as shared"))
    for events in (stream(("A", 1, {}), ("B", 2, {})), stream(("A", 1, {"k": None}), ("B", 2, {})), []):
        agree(pattern, events, compiled, [None], False, events)


# Size


@modes
def test_twenty_thousand_iterations_in_one_run(compiled: bool) -> None:
    rounds = 20_000 if compiled else 2_000
    events = stream(
        ("A", 0, {"v": 0}), *(("B", 1 + i, {"v": i % 7}) for i in range(rounds)), ("C", rounds + 1, {"v": 3})
    )
    pattern = resolve(
        parse_pattern(
            "pattern p match A a -> B+ b [count(b) < 1000000] -> C c within forever "
            "return count(b) as n, sum(b.v) as total, last(b.v) as latest"
        )
    )
    detection, _ = found(pattern, events, compiled)
    (match,) = detection.matches
    expected = [i % 7 for i in range(rounds)]
    assert dict(match.values) == {"n": rounds, "total": sum(expected), "latest": expected[-1]}
    assert len(match.contributing) == rounds + 2


@modes
def test_percentiles_do_not_depend_on_the_order_of_values(compiled: bool) -> None:
    size = 2_000 if compiled else 60
    rng = random.Random(20240501)
    pattern = resolve(
        parse_pattern(
            "pattern p match A a -> B+ b -> C c where median(b.v) >= 0 within forever "
            "return percentile(b.v, 0) as p0, percentile(b.v, 0.01) as p1, median(b.v) as p50, "
            "percentile(b.v, 0.999) as p999, percentile(b.v, 1) as p100, percentile(b.x, 0.9) as p90"
        )
    )
    orders = [list(range(size)), list(range(size))[::-1], [i % 2 * i for i in range(size)], [7] * size]
    orders.append(rng.sample(range(size), size))
    for values in orders:
        doubles = [rng.choice([value / 7, math.inf, -0.0]) for value in values]
        taken = (("B", 1 + i, {"v": v, "x": x}) for i, (v, x) in enumerate(zip(values, doubles, strict=True)))
        detection, _ = found(pattern, stream(("A", 0, {}), *taken, ("C", size + 1, {})), compiled)
        (match,) = detection.matches
        percentile = FUNCTIONS["percentile"].run
        fractions = {"p0": 0.0, "p1": 0.01, "p50": 0.5, "p999": 0.999, "p100": 1.0}
        expected = {name: percentile(list(values), fraction) for name, fraction in fractions.items()}
        assert dict(match.values) == {**expected, "p90": percentile(doubles, 0.9)}


@modes
def test_combinations_beyond_the_cap_are_dropped_and_counted(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = resolve(parse_pattern("pattern p match A a ->> B+ b combinations -> C c within forever"))
    events = stream(("A", 0, {}), *(("B", 1 + i, {}) for i in range(6)), ("C", 9, {}))
    whole, _ = found(pattern, events, compiled)
    assert len(whole.matches) == 2**6 - 1
    assert whole.capped == 0
    monkeypatch.setattr(sequence_plan, "MATCH_CAP", 10)
    few, rows_of_capped = found(pattern, events, compiled)
    assert len(few.matches) == 10
    assert few.capped > 0
    assert set(rows_of_capped) <= set(rows(whole))
    assert found(pattern, events, compiled)[1] == rows_of_capped


@modes
def test_the_same_input_twice(compiled: bool) -> None:
    for seed in range(40):
        pattern, events = make_pair(seed)
        first, second = (found(pattern, list(events), compiled)[0] for _ in range(2))
        assert first == second


# Cost of a search


def count_taken_events(text: str, events: list[Event], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Returns the number of events taken and the number of matches."""
    names = run.plain()
    taken = []
    take = names["take"]
    monkeypatch.setitem(names, "take", lambda *arguments: taken.append(1) or take(*arguments))  # type: ignore[call-overload]
    detection, _ = found(resolve(parse_pattern(text)), events, compiled=False)
    monkeypatch.setitem(names, "take", take)
    return len(taken), len(detection.matches)


def alternating(kinds: str, count: int, values: int = 1) -> list[tuple[str, float, dict[str, Any]]]:
    return [(kinds[i % len(kinds)], i, {"x": i // len(kinds) % values, "v": i}) for i in range(count)]


@pytest.mark.parametrize(
    ("match", "kinds"),
    [
        ("A a ->> B b ->> C c", "AB"),
        ("A a ->> B b ->> C c ->> D d", "ABC"),
        ("A a ->> B b ->> C c where b.x = a.x and c.x = b.x", "AB"),
        ("A a ->> B b ->> (C c, D d)", "ABC"),
        ("A a ->> B+ b ->> C c", "AB"),
    ],
)
def test_combinations_that_cannot_be_completed_are_not_tried(
    match: str, kinds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"pattern p match {match} within 1 hour"
    taken, matches = count_taken_events(text, stream(*alternating(kinds, 300)), monkeypatch)
    assert matches == 0
    assert taken <= 300, "no more than the starts"


@pytest.mark.parametrize("condition", ["", "where b.x = a.x and c.x = b.x", "where b.x = a.x and c.x = a.x"])
def test_cost_of_combinations_is_linear_in_the_matches(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every partial match that is made becomes a match, also where only few values have a C."""
    monkeypatch.setattr(run, "POSTING_MIN_EVENTS", 0)
    events = stream(*alternating("AB", 120, 20), *(("C", 200 + i, {"x": i * 7, "v": 0}) for i in range(3)))
    taken, matches = count_taken_events(
        f"pattern p match A a ->> B b ->> C c {condition} within 1 hour", events, monkeypatch
    )
    assert matches > 0
    starts = 60
    assert taken <= starts + 2 * matches


@pytest.mark.parametrize(
    "match",
    ["A a -> B b where b.x = a.x", "A a -> not B b [b.x = a.x] -> C c", "A a ->> B b where b.x = a.x and b.v > a.v"],
)
def test_events_are_looked_up_by_value(match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many partial matches are open, an event is evaluated only for those with its value."""
    names = run.plain()
    evaluated = []
    fits = names["fits"]
    monkeypatch.setitem(names, "fits", lambda *arguments: evaluated.append(1) or fits(*arguments))  # type: ignore[call-overload]
    events = stream(*alternating("AB", 600, 300))
    detection, _ = found(resolve(parse_pattern(f"pattern p match {match} within 2 hours")), events, compiled=False)
    monkeypatch.setitem(names, "fits", fits)
    assert len(detection.matches) == (0 if "C c" in match else 300)
    assert len(evaluated) <= 4 * 600


@modes
def test_more_steps_than_a_mask_has_bits(compiled: bool) -> None:
    steps = " -> ".join(f"A s{i} [v >= {i % 7}]" for i in range(150))
    events = stream(*(("A", i, {"v": 6 + i}) for i in range(170)))
    detection, _ = found(resolve(parse_pattern(f"pattern p match {steps} within 1 hour")), events, compiled)
    assert len(detection.matches) == 21


def test_more_kinds_of_step_than_a_mask_has_bits() -> None:
    steps = " -> ".join(f"A s{i} [v >= {i}]" for i in range(80))
    with pytest.raises(LimitError, match=r"has 80 kinds of steps; the maximum is 62"):
        found(resolve(parse_pattern(f"pattern p match {steps} within 1 hour")), stream(("A", 1, {"v": 1})), False)


def test_plain_kernel_has_no_compiled_function_of_any_module() -> None:
    # Compiled functions have no wrapper for Python: a call of one from plain code ends the process.
    names = run.plain(contexts)
    assert [name for name, value in names.items() if hasattr(value, "py_func")] == []
    functions = {name: value for name, value in names.items() if getattr(value, "__globals__", None) is names}
    assert {"search_starts", "search", "simulate", "load_events", "evaluate", "try_branch"} <= functions.keys()
