"""The search budget: exploding patterns end with a typed error, on every way to run them, and Ctrl-C ends a search."""

from __future__ import annotations

import datetime as dt
import pickle
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import perseid as ps
from perseid.engines.sequence import run as sequence_run
from perseid.engines.sequence.engine import find_all
from perseid.engines.sequence.local_rows import row_pieces
from perseid.engines.sequence.plan import make_plan
from perseid.runtime.jit import COMPILED
from perseid.runtime.registry import engines
from perseid.runtime.search_budget import (
    MATCHES_PER_EVENT,
    MAX_MATCHES,
    MAX_STEPS,
    STEPS_PER_EVENT,
    SearchBudget,
)
from tests.contract.inputs import inputs_of
from tests.contract.streams import SECOND, Shard

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DIVIDED = "pattern divided match A+ a -> A+ b -> A+ c -> A+ d where sum(d.v) = -1 within 1 day"
COMBINED = "pattern combined match A a ->> A b ->> A c ->> A d ->> A e ->> A f ->> A g ->> A h within 1 day"
SECONDS_ALLOWED = 2.0


def equal_rows(count: int) -> list[dict[str, Any]]:
    return [{"ts": START + dt.timedelta(seconds=i), "type": "A", "v": 1} for i in range(count)]


def cpu_seconds(run: Any) -> float:
    """Processor time of this process: others on the machine do not make a test fail."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


@pytest.mark.parametrize(("text", "events", "exceeded"), [(DIVIDED, 80, "steps"), (COMBINED, 60, "matches")])
def test_exploding_pattern_ends_with_an_error_that_names_it(text: str, events: int, exceeded: str) -> None:
    pattern = ps.pattern(text)
    pattern.match(ps.events(equal_rows(8)))  # kernels are loaded

    def search() -> None:
        with pytest.raises(
            ps.errors.SearchBudgetError, match=f"^Pattern {pattern.name} exceeded its search budget"
        ) as found:
            pattern.match(ps.events(equal_rows(events)))
        assert (found.value.pattern, found.value.exceeded, found.value.events) == (pattern.name, exceeded, events)

    taken = cpu_seconds(search)
    assert taken < SECONDS_ALLOWED or not COMPILED


@pytest.mark.skipif(not COMPILED, reason="plain Python takes long for a million matches")
def test_memory_of_an_exploding_pattern_is_bounded() -> None:
    program = f"""
import datetime as dt, resource
import perseid as ps
rows = [dict(ts=dt.datetime(2026, 1, 1) + dt.timedelta(seconds=i), type="A", v=1) for i in range(60)]
pattern = ps.pattern({COMBINED!r})
pattern.match(ps.events(rows[:8]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    pattern.match(ps.events(rows))
except ps.errors.SearchBudgetError as error:
    print(error.pattern, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    name, kilobytes = done.stdout.split()
    assert name == "combined"
    assert int(kilobytes) < 1 << 20  # 1 GiB


def test_matches_up_to_the_limit_are_returned() -> None:
    pairs = ps.pattern("pattern pairs match A a ->> A b within 1 day")
    rows, found = equal_rows(50), 50 * 49 // 2
    least = found - MATCHES_PER_EVENT * len(rows)
    assert len(pairs.match(ps.events(rows, options=ps.StreamOptions(max_matches=least)))) == found
    with pytest.raises(
        ps.errors.SearchBudgetError, match=f"more than {found - 1:,} matches for one key with 50 events"
    ):
        pairs.match(ps.events(rows, options=ps.StreamOptions(max_matches=least - 1)))


def test_each_key_has_a_separate_budget() -> None:
    pairs = ps.pattern("pattern pairs match A a ->> A b within 1 day partition by user")
    rows = [{**row, "user": user} for row in equal_rows(50) for user in "xyz"]
    limit = 50 * 49 // 2 - MATCHES_PER_EVENT * 50
    assert len(pairs.match(ps.events(rows, options=ps.StreamOptions(max_matches=limit)))) == 3 * 50 * 49 // 2


def least_steps(text: str, count: int, compiled: bool) -> int:
    """The smallest limit with which a search ends."""
    plan = ps.pattern(text).plan()
    ((rows, _),) = row_pieces(plan, ps.events(equal_rows(count)), {}, None)
    numbered = make_plan(plan, {"v": ps.schema({"A": {"v": "integer"}}).columns("A")["v"]})
    low, high = 0, 1 << 20
    while high - low > 1:
        middle = (low + high) // 2
        try:
            find_all(
                type(numbered)(**{**vars(numbered), "budget": SearchBudget(middle, MAX_MATCHES)}),
                rows,
                compiled=compiled,
            )
            high = middle
        except ps.errors.SearchBudgetError:
            low = middle
    return high


def test_steps_are_the_same_compiled_and_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEPS_PER_EVENT", "ATTEMPT_STEPS_PER_EVENT"):
        monkeypatch.setattr(sequence_run, name, 0)
    for text in (DIVIDED, "pattern p match A+ a -> A+ b within 1 day", "pattern p match A a ->> A b within 1 day"):
        assert least_steps(text, 7, True) == least_steps(text, 7, False) > 7


def test_steps_do_not_depend_on_the_memory_that_a_search_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is searched again with more memory counts once."""
    for name in ("STEPS_PER_EVENT", "ATTEMPT_STEPS_PER_EVENT"):
        monkeypatch.setattr(sequence_run, name, 0)
    text = "pattern p match A a ->> A b ->> A c ->> A d within 1 day"
    before = least_steps(text, 20, True)
    original, asked = sequence_run.make_space, []

    def small(numbered: Any, scale: int = 1, words: int = 0, **more: Any) -> Any:
        space, reals = original(numbered, scale, words, **more)
        scale = more.get("output_scale") or scale
        asked.append(scale)
        space[sequence_run.y.A_OUT_END] = space[sequence_run.y.A_OUT] + 2_000 * scale
        return space, reals

    monkeypatch.setattr(sequence_run, "make_space", small)
    assert least_steps(text, 20, True) == before
    assert max(asked) > 1


def test_step_evaluated_in_python_counts_as_several() -> None:
    rows = [{**row, "s": "x"} for row in equal_rows(60)]
    text = "pattern p match A a ->> A b ->> A c where {} within 1 day"
    compiled = ps.pattern(text.format("b.v + c.v < a.v"))
    python = ps.pattern(text.format("length(concat(b.s, c.s)) < length(a.s)"))
    stream = ps.events(rows, options=ps.StreamOptions(max_steps=1))
    assert "compiled, with all conditions" in compiled.explain(stream)
    assert "evaluated in Python" in python.explain(stream)
    assert len(compiled.match(stream)) == 0
    with pytest.raises(ps.errors.SearchBudgetError, match="Pattern p exceeded"):
        python.match(stream)


def test_working_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_run, "MAX_WORKING_BYTES", 1 << 22)
    longest = ps.pattern("pattern longest match A+ a within 1 day after match skip past last")
    with pytest.raises(ps.errors.SearchBudgetError, match=r"Pattern longest .* bytes of working memory"):
        longest.match(ps.events(equal_rows(200_000)))


@pytest.mark.parametrize("selection", ["chronicle", "continuous", "recent", "cumulative"])
def test_contexts_have_a_budget(selection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_run, "STEPS_PER_EVENT", 1)
    pattern = ps.pattern(f"pattern p match A a -> A b -> B c within 1 day selection {selection}")
    pattern.match(ps.events(equal_rows(200), options=ps.StreamOptions(max_steps=1_000_000)))
    with pytest.raises(ps.errors.SearchBudgetError, match="Pattern p exceeded"):
        pattern.match(ps.events(equal_rows(200), options=ps.StreamOptions(max_steps=1)))


@pytest.mark.parametrize("name", ["sequence", "aggressive", "assemble", "early", "adaptive"])
def test_a_stream_has_a_budget(name: str) -> None:
    engine = engines()[name]
    data = [{"second": i, "type": "A", "k": 1, "v": 1} for i in range(30)]
    text = "match A a ->> A b ->> A c ->> A d\nwithin 1 hour\npartition by k"
    workload = inputs_of(engine).write([text], data)

    def search(max_matches: int) -> None:
        shard = Shard(engine, workload, options={"budget": SearchBudget(MAX_STEPS, max_matches)})
        shard.call(workload.data, None)
        shard.call((), 100 * SECOND)

    search(30_000)
    with pytest.raises(ps.errors.SearchBudgetError, match="more than 2,300 matches for one key with 30 events"):
        search(2_000)


def test_patterns_that_feed_others_have_a_budget() -> None:
    text = "pattern p match A a ->> A b within 1 day\npattern q match p x -> p y within 1 day"
    with pytest.raises(ps.errors.SearchBudgetError, match="Pattern p exceeded"):
        ps.patterns(text).match(ps.events(equal_rows(50), options=ps.StreamOptions(max_matches=1)))


def test_count_has_a_budget_if_it_enumerates_matches() -> None:
    pattern = ps.pattern("pattern p match A a ->> A b where b.v >= a.v within 1 day")
    with pytest.raises(ps.errors.SearchBudgetError, match="Pattern p exceeded"):
        pattern.count(ps.events(equal_rows(50), options=ps.StreamOptions(max_matches=1)))


def test_a_chain_of_combinations_is_counted_without_a_budget() -> None:
    (counted,) = ps.pattern(COMBINED).count(
        ps.events(equal_rows(60), options=ps.StreamOptions(max_steps=1, max_matches=1))
    )
    assert counted.total == 2_558_620_845


def test_error_survives_pickling() -> None:
    error = ps.errors.SearchBudgetError("p", "steps", 5, 1)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.pattern, copy.exceeded, copy.limit, copy.events) == (str(error), "p", "steps", 5, 1)


@pytest.mark.parametrize("limit", ["max_steps", "max_matches"])
@pytest.mark.parametrize("value", [0, -1, 10**13, 1.5, "9", True])
def test_limit_out_of_range_is_an_error(limit: str, value: Any) -> None:
    with pytest.raises(ps.PerseidError, match=f"{limit}="):
        ps.StreamOptions(**{limit: value})


def test_explain_names_the_budget() -> None:
    said = ps.pattern(DIVIDED).explain(
        ps.events(equal_rows(2), options=ps.StreamOptions(max_steps=7_000, max_matches=9_000))
    )
    words = " ".join(said.split())
    assert f"7,000 steps and 9,000 matches, plus {STEPS_PER_EVENT:,} steps" in words


# Interrupts

INTERRUPTED = f"""
import datetime as dt, sys
import perseid as ps
rows = [dict(ts=dt.datetime(2026, 1, 1) + dt.timedelta(seconds=i), type="A", v=1, k=i % 2) for i in range(400)]
pattern = ps.pattern({DIVIDED!r})
pattern.match(ps.events(rows[:8]))
print("searching", flush=True)
try:
    pattern.match(ps.events(rows, options=ps.StreamOptions(max_steps=10**12)))
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(len(pattern.match(ps.events(rows[:8]))), flush=True)
"""


def test_ctrl_c_interrupts_a_search_within_a_second() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "searching\n"
            time.sleep(1.5)
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert time.monotonic() - asked < 1.0
            assert process.stdout.readline() == "0\n"
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_search_in_another_thread_has_the_same_matches() -> None:
    pattern = ps.pattern("pattern p match A+ a -> A+ b within 1 day")
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(len(pattern.match(ps.events(equal_rows(1_000))))))
    other.start()
    other.join()
    assert found == [len(pattern.match(ps.events(equal_rows(1_000))))]


def test_search_that_pauses_has_the_same_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = (
        "pattern p match A+ a -> A+ b within 1 day return count(a) as n",
        "pattern p match A a ->> A b ->> A c within 10 seconds",
        "pattern p match A a -> A b -> A c within 1 day selection recent",
        "pattern p match A a -> A b within 1 day after match skip past last",
    )
    whole = [ps.pattern(text).match(ps.events(equal_rows(60))).to_dicts() for text in texts]
    monkeypatch.setattr(sequence_run, "FIRST_SLICE_STEPS", 100)
    assert [ps.pattern(text).match(ps.events(equal_rows(60))).to_dicts() for text in texts] == whole
