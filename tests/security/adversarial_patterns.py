"""Adversarial patterns, rows and streams for the engines that evaluate patterns, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from perseid.errors import PatternError, PerseidError, UnsupportedError
from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.registry import engines
from perseid.runtime.search_budget import DEFAULT_BUDGET, SearchBudget
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from tests.contract.inputs import inputs_of
from tests.contract.shards import shard_of
from tests.contract.streams import FAR, SECOND, Shard
from tests.security.adversarial_states import mutate_state
from tests.security.progress import Adversarial, Calls, run_calls

SMALL_BUDGET = SearchBudget(20_000, 2_000)
DEFAULT_BUDGET_SHARE = 0.02
"""Fraction of the inputs that run with the default budget, with which one search may take seconds."""
STATES_SHARE = 0.35
TRIES = 12
"""Number of texts drawn for one input until an engine accepts one."""
FIRST_SECOND, LAST_SECOND = v.EARLIEST // SECOND + 1, v.LATEST // SECOND
WINDOWS = ("1 second", "10 seconds", "1 hour", "1 day", "200000 years", "1 events", "7 events", "forever")
CONTEXTS = ("chronicle", "immediate", "continuous", "recent", "cumulative", "strict immediate", "successor")
QUANTIFIERS = ("+", "+", "*", "?", "+?", "*?", "{2}", "{2,}", "{,3}", "{1,4}", "{0,50}", "{1,10000}")
SIZES = (1, 4, 12, 30, 30, 60)


class PatternWriter:
    """Writes random nested repetitions, alternatives, conjunctions, negations and sequences, most of which match equal rows."""

    def __init__(
        self,
        chance: random.Random,
        links: Sequence[str],
        *,
        repeats: bool = True,
        kinds: Sequence[str] = ("A", "A", "A", "A", "B", "any"),
        absent: Sequence[str] = ("A", "B", "C"),
        conditions: bool = True,
    ) -> None:
        """``kinds`` are the event types of steps; conditions, if enabled, use the columns ``k`` and ``v``."""
        self.chance, self.links, self.repeats = chance, links, repeats
        self.kinds, self.absent, self.conditions = kinds, absent, conditions
        self.names: list[tuple[str, bool]] = []
        """Names of the steps written so far, each with whether it can bind several events."""

    def step(self, repeated: bool = False) -> str:
        chance = self.chance
        quantifier = chance.choice(QUANTIFIERS) if self.repeats and chance.random() < 0.55 else ""
        name = f"x{len(self.names)}"
        text = chance.choice(self.kinds)
        text += "(v as u)" if self.conditions and chance.random() < 0.06 else ""
        text += f"{quantifier} {name}"
        text += self.condition()
        self.names.append((name, repeated or bool(quantifier)))
        if quantifier and len(self.links) > 1 and chance.random() < 0.25:
            text += chance.choice((" combinations", " consecutive"))
        if quantifier and chance.random() < 0.1:
            text += f" until {chance.choice(self.absent)}{self.constant()}"
        return text

    def condition(self) -> str:
        chance = self.chance
        if not self.conditions or chance.random() < 0.7:
            return ""
        single = [name for name, repeated in self.names if not repeated]
        if single and chance.random() < 0.5:
            return f" [v {chance.choice(('>=', '<=', '='))} {chance.choice(single)}.v]"
        return chance.choice((" [v >= 0]", " [v = -1]", " [v is null]", " [v >= 0 or k > 1]"))

    def constant(self) -> str:
        return self.chance.choice(("", " [v = 1]", " [v = 9]")) if self.conditions else ""

    def element(self, depth: int, repeated: bool = False) -> str:
        chance = self.chance
        if not depth or chance.random() < 0.4:
            return self.step(repeated)
        quantifier = chance.choice(QUANTIFIERS) if self.repeats and chance.random() < 0.5 else ""
        inner = repeated or bool(quantifier)
        roll = chance.random()
        if roll < 0.5:
            body = self.sequence(depth - 1, inner)
        else:
            sign = " | " if roll < 0.75 else " & "
            body = sign.join(self.element(depth - 1, inner) for _ in range(chance.randint(2, 3)))
        return f"({body}){quantifier}"

    def sequence(self, depth: int, repeated: bool = False) -> str:
        chance = self.chance
        text = self.element(depth, repeated)
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.12:
                text += f" -> not {chance.choice(self.absent)}{self.constant()}"
                text += chance.choice(("", "", " for 2 seconds"))
            text += f" {chance.choice(self.links)} {self.element(depth, repeated)}"
        if chance.random() < 0.06:
            text += f" -> not {self.absent[-1]} for {chance.choice(('1 second', '200000 years'))}"
        return text

    def where(self) -> str:
        """Write a condition on the whole match, which is often unsatisfiable."""
        chance = self.chance
        name, repeated = chance.choice(self.names)
        if not self.conditions:
            return f"count({name}) = 77" if repeated else "1 = 2"
        if repeated:
            return chance.choice((f"sum({name}.v) = -1", f"count({name}) = 77", f"max({name}.v) > min({name}.v) + 5"))
        return chance.choice((f"{name}.v = -1", f"{name}.v >= 0", f"{name}.v + 1 < {name}.v"))


def write_pattern(chance: random.Random, *, repeats: bool) -> str:
    """Write the text of an adversarial pattern, without its name."""
    context = repeats and chance.random() < 0.2
    links = ["->"] if context else chance.choice((["->"], ["->>"], ["->>"], [","], ["->", "->>", ","]))
    writer = PatternWriter(chance, ["->>"] if not repeats else links, repeats=repeats)
    depth = chance.choice((0, 1, 1, 2, 2, 3)) if repeats else 0
    text = writer.sequence(depth)
    if not repeats:
        for _ in range(chance.randint(0, 4)):
            text += f" ->> {writer.step()}"
    clauses = [f"match {text}", f"within {chance.choice(WINDOWS)}"]
    if chance.random() < 0.5:
        clauses.append(f"where {writer.where()}")
    if chance.random() < 0.4:
        clauses.append("partition by k")
    if context:
        clauses.append(f"selection {chance.choice(CONTEXTS)}")
    elif chance.random() < 0.35 and repeats:
        target = chance.choice(writer.names)[0]
        modes = ("past last", "to next", "none", f"to first {target}", f"to last {target}")
        clauses.append(f"after match skip {chance.choice(modes)}")
    if chance.random() < 0.25:
        clauses.append("report timeouts")
    if chance.random() < 0.1:
        clauses.append("suppress 3 seconds")
    return "\n".join(clauses)


def write_texts(chance: random.Random, *, repeats: bool) -> list[str]:
    """Write one pattern, in some cases with a second one over its matches."""
    texts = [write_pattern(chance, repeats=repeats)]
    if repeats and chance.random() < 0.1:
        texts.append("match p0 x ->> p0 y ->> p0 z\nwithin 1 day")
    return texts


def make_rows(chance: random.Random) -> list[dict[str, Any]]:
    """Return rows with equal values, equal or extreme times, nulls, and one or more keys."""
    count = chance.choice(SIZES)
    times = chance.choice(("each", "each", "equal", "extreme", "pairs"))
    keys = chance.choice((1, 1, 2, count))
    mixed, nulls = chance.random() < 0.4, chance.random() < 0.2
    extremes = (FIRST_SECOND, FIRST_SECOND + 1, -1, 0, 1, LAST_SECOND - 1, LAST_SECOND)
    rows = []
    for i in range(count):
        second = {"each": i, "equal": 0, "pairs": i // 2}.get(times)
        row: dict[str, Any] = {"second": chance.choice(extremes) if second is None else second}
        row |= {"type": chance.choice("AAABC") if mixed else "A", "k": i % keys, "v": 1, "number": i}
        if nulls and chance.random() < 0.4:
            row[chance.choice("kv")] = None
        if mixed and chance.random() < 0.3:
            row["v"] = chance.choice((0, -1, 2, 2**63 - 1, -(2**63)))
        rows.append(row)
    if chance.random() < 0.15:
        rows += [dict(row) for row in rows[:10]]
    return rows


Sequel = tuple[Sequence[Mapping[str, Any]], Watermark]
"""Rows and watermarks of one call."""


def cut(chance: random.Random, data: Sequence[Mapping[str, Any]], *, late: bool = True) -> Iterator[Sequel]:
    """Yield the rows in several calls with watermarks that jump, also to extremes, and then the end of the stream."""
    rows = list(data)
    if chance.random() < 0.4:
        chance.shuffle(rows)
    now: int | None = None
    jumps = (0, SECOND, 20 * SECOND, 3600 * SECOND, FAR, v.LATEST, v.EARLIEST)
    while rows:
        size = chance.randint(1, len(rows))
        before, call, rows = now, rows[:size], rows[size:]
        if chance.random() < 0.5 and (late or not rows):
            jump = chance.choice(jumps)
            now = jump if now is None else max(now, jump)
        yield call, Watermark(before, now, False)
    if chance.random() < 0.5:
        yield (), Watermark(now, max(now or 0, chance.choice((FAR, v.LATEST))), False)
    yield (), Watermark(now, None, True)


def advance(shard: Shard, data: Sequence[Mapping[str, Any]], clock: Watermark) -> StepResult:
    """Run one call and store the resulting state in the shard."""
    step = shard.step(data, clock)
    shard.state, shard.now = step.state, clock.current
    return step


def draw_shard(engine: Engine, chance: random.Random, budget: SearchBudget, shards: list[Shard]) -> Calls:
    """Draw patterns until the engine accepts them, and append the shard to ``shards``."""
    inputs = inputs_of(engine)
    whole = engine.name not in ("assemble", "early")
    rows = make_rows(chance)
    order = "arrival" if inputs.whole and chance.random() < 0.15 else "watermark"
    last: PerseidError | None = None
    for _ in range(TRIES):
        texts = write_texts(chance, repeats=whole or chance.random() < 0.05)
        try:
            workload = yield partial(inputs.write, texts, rows)
            workload = replace(workload, id=chance.choice(((), ("number",))), dedupe=chance.random() < 0.1)
            shard = shard_of(engine, workload, order, {"budget": budget})
            yield lambda shard=shard: shard.plan
        except (PatternError, UnsupportedError) as error:
            last = error
            continue
        shards.append(shard)
        return f"{len(rows)} rows\n" + "\n".join(texts)
    assert last is not None
    raise last


@dataclass
class PatternInput:
    """The calls of one pattern over its rows; the texts are set when they are drawn."""

    engine: Engine
    seed: int
    budget: SearchBudget
    text: str = "no pattern yet"

    def calls(self) -> Calls:
        chance = random.Random(f"pattern {self.seed}")
        shards: list[Shard] = []
        self.text = yield from draw_shard(self.engine, chance, self.budget, shards)
        (shard,) = shards
        data = shard.workload.data
        if chance.random() < 0.4:
            yield partial(shard.step, data, Watermark(ended=True))
            return None
        for rows, clock in cut(chance, data):
            step = yield partial(advance, shard, rows, clock)
            if step.state is not None and self.engine.report is not None:
                yield partial(self.engine.report, step.state)
        return None


BASE_STATES = 10


@cache
def base_shards(name: str) -> list[Shard]:
    """Return shards of adversarial patterns with mid-stream states."""
    engine, found = engines()[name], []
    for seed in range(1_000):
        chance = random.Random(f"base {seed}")
        shards: list[Shard] = []
        try:
            run_calls(draw_shard(engine, chance, SMALL_BUDGET, shards))
            (shard,) = shards
            data = shard.workload.data
            advance(shard, data[: len(data) // 2 + 1], Watermark(None, None, False))
            advance(shard, data[len(data) // 2 + 1 :], Watermark(None, chance.choice((0, 4 * SECOND)), False))
        except PerseidError:
            continue
        if shard.state is not None:
            found.append(shard)
        if len(found) == BASE_STATES:
            return found
    raise AssertionError(f"Only {len(found)} of {BASE_STATES} base states for {name}.")


@dataclass
class StateInput:
    """The calls after a state was modified."""

    engine: Engine
    seed: int

    def __post_init__(self) -> None:
        chance = random.Random(f"state {self.seed}")
        shard = chance.choice(base_shards(self.engine.name))
        assert shard.state is not None
        self.description, state = mutate_state(shard.state, chance)
        self.shard = replace(shard, state=state)
        self.shard.__dict__["plan"] = shard.plan
        self.chance = chance

    def calls(self) -> Calls:
        shard, data = self.shard, self.shard.workload.data
        now = shard.now or 0
        later = max(now, self.chance.choice((now + SECOND, FAR, v.LATEST)))
        yield partial(advance, shard, data[-2:], Watermark(now, later, False))
        if shard.state is not None:
            assert self.engine.report is not None
            yield partial(self.engine.report, shard.state)
        yield partial(advance, shard, (), Watermark(later, None, True))
        return None


def make_pattern_input(name: str, seed: int) -> Adversarial:
    """Return an adversarial pattern or state for an engine that evaluates patterns."""
    engine, roll = engines()[name], random.Random(f"kind {seed}").random()
    if roll < STATES_SHARE:
        changed = StateInput(engine, seed)
        return Adversarial("state", lambda: changed.description, changed.calls())
    full = roll > 1 - DEFAULT_BUDGET_SHARE
    drawn = PatternInput(engine, seed, DEFAULT_BUDGET if full else SMALL_BUDGET)
    return Adversarial("default budget" if full else "pattern", lambda: drawn.text, drawn.calls())
