"""Adversarial patterns over uncertain streams, rows with invalid distributions, and modified states, from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from perseid.engines.uncertain.engine import UNCERTAIN, make_plan, report, step
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.engines.uncertain.streams import CHANCE, Known, Sampling, Stream, Streams
from perseid.errors import PerseidError
from perseid.lang.parser import parse_pattern
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from perseid.semantics.resolve import resolve
from tests.engines.test_uncertain_stream import NOTHING, chain, plan_random_case
from tests.generators.random_beliefs import rows_of
from tests.security.adversarial_patterns import PatternWriter
from tests.security.adversarial_states import mutate_state
from tests.security.progress import Adversarial, Calls

SECOND = 1_000_000
TRIES = 12
RANDOM_CASES = 4_000
"""Seeds of random cases of the stream tests, which run here with other batch boundaries."""
CHANCES = (0.0, 0.1, 0.3, 0.5, 1.0, 1.0)
NO_CHANCES = (-0.5, 1.5, 1e300, float("nan"), float("inf"), None)


def write_pattern(chance: random.Random) -> str:
    """Write nested repetitions over uncertain events, which need many automaton states or samples."""
    links = chance.choice((["->"], ["->"], [","], ["->>"]))
    writer = PatternWriter(chance, links)
    text = writer.sequence(chance.choice((0, 1, 1, 2)))
    clauses = [
        f"pattern p match {text}",
        f"within {chance.choice(('2 seconds', '5 seconds', '60 seconds', 'forever'))}",
    ]
    clauses += ["partition by k"] if chance.random() < 0.5 else []
    clauses += [f"where {writer.where()}"] if chance.random() < 0.2 else []
    clauses += [f"selection {chance.choice(('successor', 'next'))}"] if chance.random() < 0.1 else []
    return "\n".join(clauses)


def make_rows(chance: random.Random) -> list[dict[str, Any]]:
    """Return uncertain rows of a few or many keys; some are invalid distributions, some have extreme times."""
    steps, keys, values = chance.choice(((3, 3, 3), (6, 2, 2), (10, 1, 3), (4, 12, 1), (20, 1, 1)))
    wrong = chance.random() < 0.2
    first = chance.choice((0, 0, 0, v.EARLIEST // SECOND + 1, v.LATEST // SECOND - 40))
    rows = []
    for at in range(steps):
        second = first + at * chance.choice((1, 1, 1, 2))
        for k in range(keys):
            for value in range(values):
                share = chance.choice(NO_CHANCES) if wrong and chance.random() < 0.1 else chance.choice(CHANCES)
                known = share if share is None or wrong else share / values
                row = {"type": chance.choice("AAAB"), "time": second * SECOND, "k": k, "v": value, CHANCE: known}
                rows.append(row if chance.random() < 0.95 else {**row, "k": None})
    return rows


def _streams(chance: random.Random) -> Streams:
    of = ("k",) if chance.random() < 0.8 else ()
    known = [chance.choice((Known.INDEPENDENT, Known.INDEPENDENT, Known.CERTAIN)) for _ in "AB"]
    parts = [
        Stream(type_, one, of, () if one is Known.CERTAIN else ("v",)) for type_, one in zip("AB", known, strict=True)
    ]
    sampling = Sampling(0.25, 0.25, 1, always=chance.random() < 0.2)
    return Streams(tuple(parts), SECOND if chance.random() < 0.8 else None, sampling)


def _stream(plan: UncertainPlan, rows: EventBatch, chance: random.Random) -> Calls:
    """Run all rows in one call, or in several calls with jumping watermarks."""
    if chance.random() < 0.4:
        yield partial(step, plan, rows, None, Watermark(ended=True))
        return None
    todo = list(range(len(rows)))
    if chance.random() < 0.5:
        chance.shuffle(todo)
    state, now = None, None
    while todo:
        size = chance.randint(1, len(todo))
        some, todo = take_events(rows, np.array(sorted(todo[:size]), np.int64)), todo[size:]
        done: StepResult = yield partial(step, plan, some, state, Watermark(None, now, False))
        state = done.state
        if chance.random() < 0.5:
            jump = chance.choice((0, SECOND, 5 * SECOND, 3600 * SECOND, v.LATEST, v.EARLIEST))
            now = jump if now is None else max(now, jump)
    yield partial(step, plan, take_events(rows, NOTHING), state, Watermark(now, None, True))
    return None


class BeliefInput:
    """A pattern over an uncertain stream; ``text`` is set when the pattern is drawn."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"belief {seed}")
        self.text = "no pattern yet"

    def calls(self) -> Calls:
        chance = self.chance
        rows = rows_of(make_rows(chance))
        types = {name: column.type for name, column in rows.columns.items()}
        last: PerseidError | None = None
        for _ in range(TRIES):
            self.text, streams = write_pattern(chance), _streams(chance)
            try:
                pattern = yield lambda: resolve(parse_pattern(self.text))
                plan = yield partial(make_plan, [pattern], streams, types)
                break
            except PerseidError as error:
                last = error
        else:
            assert last is not None
            raise last
        return (yield from _stream(plan, rows, chance))


@cache
def random_plan(seed: int) -> tuple[UncertainPlan, EventBatch]:
    """Return plan and rows of the first random case of the stream tests at or after a seed."""
    found = plan_random_case(seed, sampled=seed % 3 == 0)
    while found is None:
        seed += 1
        found = plan_random_case(seed, sampled=seed % 3 == 0)
    return found[:2]


MATCHES = (
    "At a [v = 1] -> At b must (v = 2) -> At+ c must (v > 0) -> At d [v = 0]",
    "At a [v = 1] -> At b [b.v >= a.v] -> At c [c.v < b.v]",
    "At+ a -> At+ b [v = 1] -> At c",
    "At a, At b [v = 2], At c",
)


@cache
def base_states() -> Sequence[tuple[UncertainPlan, EventBatch, bytes]]:
    """Return plans with their rows and mid-stream states: exact, sampled, and with waiting rows only."""
    found = []
    for match in MATCHES:
        for window in ("within 5 seconds", "within forever"):
            plan, rows = chain(8, window, match)
            waiting = step(plan, rows, None, Watermark(None, None, False)).state
            state = step(plan, take_events(rows, NOTHING), waiting, Watermark(None, 4 * SECOND - 1, False)).state
            found += [(plan, rows, one) for one in (waiting, state) if one is not None]
    return found


def _changed_state(chance: random.Random) -> Adversarial:
    plan, rows, state = chance.choice(base_states())
    what, changed = mutate_state(state, chance)

    def calls() -> Calls:
        yield partial(report, changed)
        batch = take_events(rows, np.flatnonzero(np.asarray(rows.time) >= 6 * SECOND))
        now = chance.choice((5 * SECOND, 9 * SECOND, 3600 * SECOND, v.LATEST))
        done: StepResult = yield partial(step, plan, batch, changed, Watermark(None, now, False))
        yield partial(step, plan, take_events(rows, NOTHING), done.state, Watermark(now, None, True))
        return None

    return Adversarial("state", lambda: f"{plan.queries[0].pattern.name}: {what}", calls())


def make_belief_input(seed: int) -> Adversarial:
    """Return an adversarial pattern, a random case with other batch boundaries, or a modified state."""
    assert UNCERTAIN.step is step
    chance = random.Random(f"beliefs {seed}")
    roll = chance.random()
    if roll < 0.45:
        return _changed_state(chance)
    if roll < 0.6:
        number = chance.randrange(RANDOM_CASES)
        plan, rows = random_plan(number)
        return Adversarial("pattern", lambda: f"case {number}", _stream(plan, rows, chance))
    drawn = BeliefInput(seed)
    return Adversarial("pattern", lambda: drawn.text, drawn.calls())
