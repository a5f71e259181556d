"""What each engine is asked in the contract tests: patterns, data, and how the data become its rows."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.compile.compiler import compile_set
from perseid.compile.plan import Plan
from perseid.engines.sequence.columns import arrow_type
from perseid.engines.sequence.stream import Events, read_events
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import identities
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import detect
from perseid.semantics.resolve import resolve
from tests.contract.rich import SCHEMA, make_rich_pattern, make_rows
from tests.generators.random_patterns import SeededChooser, make_pattern

ROOT = Path(__file__).parents[2]
Row = tuple[object, ...]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Question:
    """A set of patterns and the events they are asked of."""

    patterns: tuple[CorePattern, ...]
    data: tuple[Mapping[str, Any], ...]
    id: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    dedupe: bool = False
    schema: Any = SCHEMA
    """What the columns of the data are."""

    @cached_property
    def plan(self) -> Plan:
        return compile_set(list(self.patterns))

    @cached_property
    def oracle_rows(self) -> dict[int | None, list[Row]]:
        """Rows of the oracle by horizon, as far as they were asked for."""
        return {}

    @property
    def events(self) -> Events:
        return Events(list(self.data), id=self.id, order_by=self.order_by, dedupe=self.dedupe)


@dataclass(frozen=True)
class Inputs:
    """How one engine is asked."""

    ask: Callable[[int, bool], Question]
    """(seed, every pattern is partitioned by k)"""
    types: Callable[..., Mapping[str, Any]]
    """(question; without one, any that was asked)"""
    rows: Callable[[Question, Sequence[Mapping[str, Any]]], EventBatch]
    """Some of a question's data as rows."""
    expected: Callable[..., list[Row]]
    """(question, the time up to which everything has come; without one, everything has)"""
    write: Callable[..., Question]
    """(patterns as text, data, schema): events have a second, a type, and what else the schema says."""
    whole: bool = True
    """It is asked any pattern, in any order; others only what ``ask`` gives, and never by arrival."""
    punctual: bool = True
    """Late is what comes behind the watermark, told what the watermark has made final, and nothing else."""
    promises: bool = False
    """Rows may be promises."""


# The sequence engine


@lru_cache(1024)  # several engines are asked the same, and patterns are parsed from their texts
def ask_sequence(seed: int, keyed: bool) -> Question:
    """One to three patterns, simple ones and ones with conditions on columns of every kind, over several keys."""
    chooser = SeededChooser(seed)
    patterns: list[CorePattern] = []
    while len(patterns) < 1 + seed % 3:
        drawn = make_pattern(chooser) if chooser.chance(50) else make_rich_pattern(chooser)[0]
        if drawn is None or (keyed and "k" not in [".".join(path.parts) for path in drawn.partition]):
            continue
        number = len(patterns)
        own = tuple((f"{name}_{number}", expr) for name, expr in drawn.returns)
        patterns.append(replace(drawn, name=f"p{number}", returns=own))
    data = make_rows(chooser, longest=24, keys=4)
    identity = chooser.pick(((), (), ("number",), ("s", "number")))
    return Question(tuple(patterns), tuple(data), identity, chooser.pick(((), (), ("i",), ("d", "s"))))


def sequence_rows(question: Question, data: Sequence[Mapping[str, Any]]) -> EventBatch:
    table = pa.Table.from_pylist(list(data), schema=question.schema).combine_chunks()
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    names = sorted(set(columns["type"].to_pylist()))
    return EventBatch(
        time=np.asarray(columns["ts"].cast(pa.int64())),
        type_codes=np.array([names.index(kind) for kind in columns["type"].to_pylist()], np.int32),
        type_names=names,
        columns=columns,
        keys={route.id: {name: _inside(columns, name) for name in route.columns} for route in question.plan.routes},
        identity=identities([columns[name] for name in question.id], columns),
        tie_breakers=[columns[name] for name in question.order_by],
        dedupe=question.dedupe,
    )


def _inside(columns: Mapping[str, Any], name: str) -> Any:
    head, *rest = name.split(".")
    found = columns[head]
    for part in rest:
        found = pc.struct_field(found, part)
    return found


def write_sequence(texts: Sequence[str], data: Sequence[Mapping[str, Any]], schema: Any = SCHEMA) -> Question:
    """Patterns as they are written; a row is ``{"second": 1, "type": "A", …}``, and null in what it does not say."""
    patterns = [replace(resolve(parse_pattern(f"pattern p{i}\n{text}")), name=f"p{i}") for i, text in enumerate(texts)]
    rows = []
    for number, said in enumerate(data):
        row = {name: said.get(name) for name in schema.names}
        row["ts"] = EPOCH + dt.timedelta(seconds=said["second"])
        rows.append({**row, "number": number if row["number"] is None else row["number"]})
    return Question(tuple(patterns), tuple(rows), ("number",), schema=schema)


def oracle(question: Question, horizon: int | None = None) -> list[Row]:
    """The same rows as the oracle finds them, as far as they are decided at a horizon."""
    if horizon not in question.oracle_rows:
        question.oracle_rows[horizon] = _oracle(question, horizon)
    return list(question.oracle_rows[horizon])


def _oracle(question: Question, horizon: int | None) -> list[Row]:
    detection = detect(
        list(question.patterns),
        read_events(question.events),
        oracle_matcher(),
        horizon=horizon,
        dedupe=question.dedupe,
    )
    out = []
    for m in detection.matches:
        key, values = (_written(shown.values()) for shown in (m.key, m.values))
        out.append((m.pattern, m.match_id, m.kind, m.start_us, _micros(m.end), key, values))
    return sorted(out, key=repr)


def _written(values: Iterable[object]) -> str:
    """Values as text: NaN equals itself, and numbers are equal by value, as a column has one type for all."""
    return repr([_number(v.plain(value)) for value in values])


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _number(part) for name, part in value.items()}
    if isinstance(value, Decimal) or (type(value) is int and abs(value) > 2**53):
        value = float(value)  # where the column is one of doubles, this is all that is left of it
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _micros(moment: Any) -> int | None:
    return None if moment is None else (moment - EPOCH) // dt.timedelta(microseconds=1)


@lru_cache(1024)
def ask_one_way(seed: int, keyed: bool) -> Question:
    """What the sequence engine is asked, where all patterns are partitioned in one way."""
    question = ask_sequence(seed, keyed)
    ways = [[path.parts for path in pattern.partition] for pattern in question.patterns]
    return replace(
        question, patterns=tuple(p for p, way in zip(question.patterns, ways, strict=True) if way == ways[0])
    )


# Assembling


@lru_cache(1024)
def ask_assembled(seed: int, keyed: bool) -> Question:
    """Patterns whose matches do not depend on one another, over events that all of them may want."""
    chance = random.Random(f"assembled {seed}")
    texts = [_slots(chance, keyed or chance.random() < 0.7) for _ in range(1 + seed % 3)]
    patterns = [replace(resolve(parse_pattern(f"pattern p{i}\n{text}")), name=f"p{i}") for i, text in enumerate(texts)]
    data = make_rows(SeededChooser(seed), longest=24, keys=4)
    return Question(tuple(patterns), tuple(data), chance.choice(((), ("number",))), chance.choice(((), ("i",))))


def _slots(chance: random.Random, keyed: bool) -> str:
    steps: list[str] = []
    names: list[str] = []
    for i in range(chance.choice((1, 2, 2, 3, 3, 4))):
        if steps and chance.random() < 0.35:
            barred = [f"not {chance.choice('ABCD')}{_asked(chance, names)}" for _ in range(chance.choice((1, 1, 2)))]
            steps += [
                one + (f" for {chance.randrange(1, 4)} seconds" if chance.random() < 0.3 else "") for one in barred
            ]
        unified = "(v as u)" if chance.random() < 0.15 else ""
        steps.append(f"{chance.choice('ABCD')}{unified} x{i}{_asked(chance, names)}")
        names.append(f"x{i}")
    text = steps[0]
    for step in steps[1:]:
        # An absence has no arrow of its own: only how the next event follows counts.
        text += f" {_arrow(step)} {step}"
    if chance.random() < 0.25:
        text += f" -> not {chance.choice('ABCD')}{_asked(chance, names)} for {chance.randrange(1, 4)} seconds"
    clauses = [f"match {text}", f"within {chance.randrange(4, 12)} seconds"]
    clauses += ["partition by k"] if keyed else []
    clauses += [f"return x0.v as w, {names[-1]}.number as n"] if chance.random() < 0.6 else []
    return "\n".join(clauses)


def _arrow(step: str) -> str:
    return "->" if step.startswith("not ") else "->>"


def _asked(chance: random.Random, names: Sequence[str]) -> str:
    """A condition, of the event alone or of an earlier one too."""
    if chance.random() < 0.6:
        return ""
    if names and chance.random() < 0.6:
        return f" [v {chance.choice(('>', '<=', '!='))} {chance.choice(names)}.v]"
    return f" [v > {chance.randrange(3)}]"


def _types(question: Question | None = None) -> Mapping[str, Any]:
    return {field.name: arrow_type(field.type) for field in (SCHEMA if question is None else question.schema)}


_SEQUENCE = Inputs(ask=ask_sequence, types=_types, rows=sequence_rows, expected=oracle, write=write_sequence)
INPUTS: dict[str, Inputs] = {
    "sequence": _SEQUENCE,
    "aggressive": _SEQUENCE,
    "assemble": replace(_SEQUENCE, ask=ask_assembled, whole=False, punctual=False),
    "early": replace(_SEQUENCE, ask=ask_assembled, whole=False, punctual=False),
    "adaptive": replace(_SEQUENCE, whole=False, punctual=False),
    "conservative": replace(_SEQUENCE, ask=ask_one_way, whole=False, promises=True),
    "toy": _SEQUENCE,
}
"""By the name of the engine; a new engine adds itself here."""


# What is the same for all


def inputs_of(engine: Engine) -> Inputs:
    found = INPUTS.get(engine.name)
    assert found is not None, (
        f"The engine {engine.name!r} has no inputs: add it to INPUTS in tests/contract/inputs.py, "
        "so that the contract is tested for it."
    )
    return found


def run(
    engine: Engine, question: Question, data: Sequence[Mapping[str, Any]] | None = None, plan: Any = None
) -> StepResult:
    """One call of the engine with all its rows, or with some."""
    inputs = inputs_of(engine)
    plan = plan if plan is not None else engine.plan(question.plan, inputs.types())
    rows = inputs.rows(question, question.data if data is None else data)
    return engine.step(plan, rows, None, Watermark(ended=True))


def answer(step: StepResult, question: Question) -> list[Row]:
    """The rows of a step in one order, with NaN equal to itself and numbers equal by value."""
    returned = {pattern.name: [name for name, _ in pattern.returns] for pattern in question.patterns}
    keys = {pattern.name: [".".join(path.parts) for path in pattern.partition] for pattern in question.patterns}
    out = []
    for row in step.rows.to_pylist():
        name = row["pattern"]
        key = _written(row[key] for key in keys[name])
        values = _written(row[column] for column in returned[name])
        out.append((name, row["match_id"], row["kind"], _micros(row["start"]), _micros(row["end"]), key, values))
    return sorted(out, key=repr)


def without_numba(module: str, call: str) -> Any:
    """What a function of a module gives in a process that has no compiler; through JSON."""
    program = f"import json, sys\nfrom {module} import *\njson.dump({call}, sys.stdout)\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env={**os.environ, "PERSEID_NUMBA": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
