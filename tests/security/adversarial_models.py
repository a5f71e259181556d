"""Adversarial models, patterns over them, rules that trigger themselves, and modified states, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from perseid.engines.models import shard
from perseid.engines.models.action_log import text_of
from perseid.engines.models.engine import MODELS, RULES
from perseid.engines.models.plan import ROLES, ModelsPlan
from perseid.errors import PatternError, PerseidError, UnsupportedError
from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from tests.engines import test_models_stream as model_streams
from tests.engines import test_rules_stream as rule_streams
from tests.engines.watermarks import step_up_to
from tests.generators.random_models import make_model_case
from tests.generators.random_patterns import SeededChooser
from tests.generators.random_rules import make_rules
from tests.security.adversarial_patterns import CONTEXTS, SMALL_BUDGET, PatternWriter
from tests.security.adversarial_states import mutate_state
from tests.security.progress import Adversarial, Calls

SECOND = 1_000_000
TRIES = 12
SITES = ("north", "south")
MODEL = """
model site
node Host (load double, n bigint)
node App
edge runs_on App -> Host one
edge calls App -> App
query on(host, app) find app -runs_on-> host
query loop(app) find app -calls+-> app
query reach(x, y) find x -calls+-> y
query again(x, y) find reach+(x, y)
query around(x, y, z) find x -calls-> y, y -calls-> z, z -calls-> x
query two(x, y) find x -calls*-> m -calls{1,3}-> y
query alone(app) find app: App, not reach(app, app)
query many(app, n) find app: App let n = count of reach(app, _) where n > 1
query part(x, least) components of reach
query best(host) find host: Host top 1 by host.n
query warm(host) find host: Host where moving_avg(host.load, 3 seconds) > 0.5
"""
EVENTS = (
    "found loop", "lost loop", "found reach", "lost reach", "found again", "found around", "found two", "found alone",
    "updated many", "updated part", "found best", "found warm", "change set Host.load", "change link calls", "change delete App",
)  # fmt: skip
RULE_MODEL = """
model site
node A (n bigint)
edge e A -> A
query q(a) find a: A
query some(a) find a: A where a.n > 0
query value(a, n) find a: A let n = a.n + 1
query pair(a, b) find a -e-> b
query free(a) find a: A, not pair(a, _)
query reach(a, b) find a -e+-> b
"""
RULE_EVENTS = ("found q", "lost q", "found pair", "lost pair", "found reach", "updated value", "change set A.n")
RULES_OF_THEMSELVES = (
    "on found q(a) do create b: A named a || 'x'",
    "on found q(a) do create b: A named a || 'x', create c: A named a || 'y'",
    "on found some(a) do set a.n = 0 - a.n",
    "on lost some(a) do set a.n = 1 - a.n",
    "on updated value(a, n) do set a.n = n",
    "on found value(a, n) do set a.n = n",
    "on found free(a) do link a -e-> a",
    "on found pair(a, b) do unlink a -e-> b",
    "on found pair(a, b) do unlink a -e-> b, link b -e-> a",
    "on lost pair(a, b) do link a -e-> b",
    "on found reach(a, b) do link b -e-> a",
    "on found q(a) do delete a",
    "on found q(a) do link a -e-> a, set a.n = 1",
    "on found reach(a, b) do emit told(a, b)",
)


def write_pattern(chance: random.Random, events: Sequence[str], number: int) -> str:
    """Write a pattern with repetitions that have many partial matches over equal events of a model."""
    context = chance.random() < 0.2
    links = ["->"] if context else chance.choice((["->"], ["->>"], [","], ["->", "->>", ","]))
    few = chance.sample(list(events), 2)
    writer = PatternWriter(chance, links, kinds=few, absent=[*few, chance.choice(events)], conditions=False)
    text = writer.sequence(chance.choice((0, 0, 1, 1, 2)))
    clauses = [f"pattern p{number}", f"match {text}"]
    clauses += [f"within {chance.choice(('1 second', '10 seconds', '1 day', '5 events', 'forever'))}"]
    clauses += [f"where {writer.where()}"] if chance.random() < 0.4 else []
    clauses += [f"selection {chance.choice(CONTEXTS)}"] if context else []
    clauses += ["report timeouts"] if chance.random() < 0.1 else []
    return " ".join(clauses)


Row = tuple[int, dict[str, Any]]


def make_changes(chance: random.Random, node: str, edge: str, largest: int) -> list[Row]:
    """Return changes of a cycle, a chain, a complete graph, or self-loops, with edges added and removed, and some invalid rows."""
    size = chance.choice((1, 3, 6, largest))
    shape = chance.choice(("cycle", "chain", "complete", "loops", "random"))
    names = [f"a{i}" for i in range(size)]
    pairs = {
        "cycle": [(i, (i + 1) % size) for i in range(size)],
        "chain": [(i, i + 1) for i in range(size - 1)],
        "complete": [(i, j) for i in range(min(size, 9)) for j in range(min(size, 9))],
        "loops": [(i, i) for i in range(size)],
        "random": [(chance.randrange(size), chance.randrange(size)) for _ in range(2 * size)],
    }[shape]
    chance.shuffle(pairs)
    changes: list[dict[str, Any]] = [{"change": "create", "element": name, "kind": node} for name in names]
    links = [{"change": "link", "element": names[i], "kind": edge, "target": names[j]} for i, j in pairs]
    changes += links
    for _ in range(chance.choice((0, 4, 12))):
        one = dict(chance.choice([*links, *changes]))
        if one["change"] == "link":
            one["change"] = chance.choice(("unlink", "link"))
        else:
            one["change"] = chance.choice(("delete", "create"))
        changes.append(one)
    for name in ("h1", "h2"):
        changes.append({"change": "create", "element": name, "kind": "Host"})
        changes += [
            {"change": "set", "element": name, "attribute": "load", "value": chance.choice(("0", "0.9", "x", "1e400"))}
            for _ in range(3)
        ]
    changes += [{"change": "set", "element": chance.choice(names), "attribute": "n", "value": "1"} for _ in range(2)]
    times = chance.choice(("each", "each", "equal", "extreme"))
    extremes = (v.EARLIEST, v.EARLIEST + 1, 0, v.LATEST - SECOND, v.LATEST)
    sites = SITES if chance.random() < 0.3 else SITES[:1]
    rows = []
    for i, change in enumerate(changes):
        time = {"each": i * SECOND // 2, "equal": 0}.get(times)
        row = {**change, "site": chance.choice(sites)}
        if chance.random() < 0.03:
            row[chance.choice(list(row))] = None
        rows.append((chance.choice(extremes) if time is None else time, row))
    return rows


def rows_of(rows: Sequence[Row], types: dict[str, Any]) -> EventBatch:
    """Convert changes to the input rows of the engines."""
    columns = {name: pa.array([row.get(name) for _, row in rows], kind) for name, kind in types.items()}
    times = np.array([time for time, _ in rows], np.int64)
    return EventBatch(times, np.zeros(len(rows), np.int32), ["Change"], columns, {}, np.arange(len(rows)))


def _stream(engine: Engine, plan: Any, rows: Sequence[Row], chance: random.Random, types: dict[str, Any]) -> Calls:
    """Run all changes in one call, or in several calls with jumping watermarks."""
    if chance.random() < 0.4:
        yield partial(engine.run_step, plan, rows_of(rows, types), None, Watermark(ended=True))
        return None
    left, state, now = list(rows), None, None
    while left:
        size = chance.randint(1, len(left))
        some, left = rows_of(left[:size], types), left[size:]
        if chance.random() < 0.4:
            shard._DECODED.clear()
        done: StepResult = yield partial(engine.run_step, plan, some, state, Watermark(None, now, False))
        state = done.state
        if chance.random() < 0.6:
            jump = chance.choice((0, 2 * SECOND, 10 * SECOND, 3600 * SECOND, v.LATEST, v.EARLIEST))
            now = jump if now is None else max(now, jump)
    yield partial(engine.run_step, plan, rows_of([], types), state, Watermark(now, None, True))
    return None


class ModelInput:
    """Patterns or rules over a model; ``text`` is set when they are drawn."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine, self.chance = engine, random.Random(f"{engine.name} {seed}")
        self.text = "no pattern yet"

    def calls(self) -> Calls:
        chance, rules = self.chance, self.engine is RULES
        last: PerseidError | None = None
        for _ in range(TRIES):
            self.text = _rules_text(chance) if rules else _patterns_text(chance)
            make: Callable[[str], Any] = _rules_plan if rules else _models_plan
            try:
                plan = yield partial(make, self.text)
                break
            except (PatternError, UnsupportedError) as error:
                last = error
        else:
            assert last is not None
            raise last
        rows = make_changes(chance, "A", "e", 12) if rules else make_changes(chance, "App", "calls", 30)
        shard._DECODED.clear()
        return (yield from _stream(self.engine, plan, rows, chance, rule_streams.TYPES))


def _patterns_text(chance: random.Random) -> str:
    return MODEL + "\n".join(write_pattern(chance, EVENTS, i) for i in range(chance.choice((1, 1, 2))))


def _rules_text(chance: random.Random) -> str:
    parts = [RULE_MODEL]
    waits = chance.random() < 0.5
    if waits:
        parts += [write_pattern(chance, RULE_EVENTS, 0), "rule waiting on p0 do emit told(1 as n)"]
    for i, text in enumerate(chance.sample(RULES_OF_THEMSELVES, chance.randint(0 if waits else 1, 3))):
        parts.append(f"rule r{i} {text}")
    return "\n".join(parts)


def _models_plan(text: str) -> ModelsPlan:
    return replace(model_streams.small_plan(text), budget=SMALL_BUDGET)


def _rules_plan(text: str) -> Any:
    return replace(rule_streams.plan_of(ps.graph.metamodel(text).rules), budget=SMALL_BUDGET)


def random_rules(seed: int) -> tuple[Any, list[Row], dict[str, Any]]:
    """Return random rules over a random model, drawn as in the stream tests."""
    case, chooser = make_model_case(seed), SeededChooser(seed)
    named = [change.element for _, changes in case.transactions for change in changes]
    in_words = any(isinstance(element, str) for element in named)
    rules = make_rules(chooser, case.checked, texts=in_words, others=("copies",))
    types = rule_streams.TYPES | ({} if in_words else {"element": pa.int64(), "target": pa.int64()})
    rows = [(time, _change_row(change, chooser)) for time, changes in case.transactions for change in changes]
    return rule_streams.plan_of(rules, types), rows, types


def _change_row(change: Any, chooser: SeededChooser) -> dict[str, Any]:
    value = text_of(v.scalar(change.value))
    values = (change.action, change.element, change.kind, change.attribute, value, change.target)
    return {**dict(zip(ROLES, values, strict=True)), "site": chooser.pick(SITES)}


def _random_rules_calls(seed: int, chance: random.Random) -> Calls:
    plan, rows, types = yield partial(random_rules, seed)
    return (yield from _stream(RULES, plan, rows, chance, types))


def _base_plans(engine: Engine) -> Iterator[tuple[Any, list[Row]]]:
    if engine is RULES:
        yield from ((rule_streams.whole_plan(), rule_streams.random_rows(seed)) for seed in (3, 4))
        looping = (
            RULE_MODEL + "pattern p0 match found q a ->> found pair b within 1 day rule r on p0 do emit told(1 as n)"
        )
        yield _rules_plan(looping), make_changes(random.Random(5), "A", "e", 6)
    else:
        yield from ((model_streams.plan_of(), model_streams.random_rows(seed)) for seed in (1, 2))
        looping = MODEL + "pattern p match (found reach+ a -> lost reach b)+ within 1 day"
        yield _models_plan(looping), make_changes(random.Random(5), "App", "calls", 6)


@cache
def base_states(name: str) -> list[tuple[Any, list[Row], bytes]]:
    """Return plans with their next changes and mid-stream states."""
    engine, found = (RULES if name == "rules" else MODELS), []
    for plan, rows in _base_plans(engine):
        for now in (3 * SECOND, None):
            shard._DECODED.clear()
            before = rows_of(rows[:-4], rule_streams.TYPES)
            if now is None:
                state = engine.run_step(plan, before, None, Watermark()).state
            else:
                state = step_up_to(engine.run_step, plan, before, None, now).state
            assert state is not None
            found.append((plan, rows[-4:], state))
    return found


def _changed_state(engine: Engine, chance: random.Random) -> Adversarial:
    plan, rows, state = chance.choice(base_states(engine.name))
    what, changed = mutate_state(state, chance)

    def calls() -> Calls:
        shard._DECODED.clear()
        assert engine.report is not None
        yield partial(engine.report, changed)
        now = chance.choice((3 * SECOND, 9 * SECOND, 3600 * SECOND, v.LATEST))
        batch = rows_of(rows, rule_streams.TYPES)
        done: StepResult = yield partial(engine.run_step, plan, batch, changed, Watermark(None, now, False))
        shard._DECODED.clear()
        yield partial(engine.run_step, plan, rows_of([], rule_streams.TYPES), done.state, Watermark(now, None, True))
        return None

    return Adversarial("state", lambda: what, calls())


def make_model_input(name: str, seed: int) -> Adversarial:
    """Return patterns or rules over an adversarial model, random rules, or a modified state."""
    engine, chance = (RULES if name == "rules" else MODELS), random.Random(f"input {seed}")
    roll = chance.random()
    if roll < 0.45:
        return _changed_state(engine, chance)
    if roll < 0.6 and engine is RULES:
        number = chance.randrange(4_000)
        return Adversarial("model", lambda: f"random rules of seed {number}", _random_rules_calls(number, chance))
    drawn = ModelInput(engine, seed)
    return Adversarial("model", lambda: drawn.text, drawn.calls())
