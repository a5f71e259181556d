"""Inputs of the engines for patterns: patterns, data, and their conversion to rows."""

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
class PatternWorkload:
    """A set of patterns, and the events to match."""

    patterns: tuple[CorePattern, ...]
    data: tuple[Mapping[str, Any], ...]
    id: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    dedupe: bool = False
    schema: Any = SCHEMA
    """Schema of the data."""

    @cached_property
    def plan(self) -> Plan:
        return compile_set(list(self.patterns))

    @cached_property
    def oracle_rows(self) -> dict[int | None, list[Row]]:
        """Cache of the oracle's rows by horizon."""
        return {}

    @property
    def events(self) -> Events:
        return Events(list(self.data), id=self.id, order_by=self.order_by, dedupe=self.dedupe)


@dataclass(frozen=True)
class PatternInputs:
    """Inputs of one engine."""

    draw_workload: Callable[[int, bool], PatternWorkload]
    """Function of a seed, and of whether every pattern is partitioned by k."""
    types: Callable[..., Mapping[str, Any]]
    """Function of a workload; without one, of the columns of any drawn workload."""
    rows: Callable[[PatternWorkload, Sequence[Mapping[str, Any]]], EventBatch]
    """Function that converts some of the data of a workload to rows."""
    expected: Callable[..., list[Row]]
    """Function of a workload and a horizon; without a horizon, the stream is complete."""
    write: Callable[..., PatternWorkload]
    """Function of pattern texts, data and a schema: events have a second, a type, and the columns of the schema."""
    whole: bool = True
    """True if the engine accepts any pattern in any order; otherwise only drawn workloads, and never in arrival order."""
    punctual: bool = True
    """True if a row is late exactly when the watermark has passed it, and a match is emitted exactly when it is final."""
    takes_punctuations: bool = False
    """True if rows may be punctuations."""


# The sequence engine


@lru_cache(1024)  # several engines have the same workloads, and patterns are parsed from their texts
def draw_sequence_workload(seed: int, keyed: bool) -> PatternWorkload:
    """Draw one to three patterns, simple ones and ones with conditions on columns of every type, over several keys."""
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
    return PatternWorkload(tuple(patterns), tuple(data), identity, chooser.pick(((), (), ("i",), ("d", "s"))))


def sequence_rows(workload: PatternWorkload, data: Sequence[Mapping[str, Any]]) -> EventBatch:
    table = pa.Table.from_pylist(list(data), schema=workload.schema).combine_chunks()
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    names = sorted(set(columns["type"].to_pylist()))
    return EventBatch(
        time=np.asarray(columns["ts"].cast(pa.int64())),
        type_codes=np.array([names.index(kind) for kind in columns["type"].to_pylist()], np.int32),
        type_names=names,
        columns=columns,
        keys={route.id: {name: _inside(columns, name) for name in route.columns} for route in workload.plan.routes},
        identity=identities([columns[name] for name in workload.id], columns),
        tie_breakers=[columns[name] for name in workload.order_by],
        dedupe=workload.dedupe,
    )


def _inside(columns: Mapping[str, Any], name: str) -> Any:
    head, *rest = name.split(".")
    found = columns[head]
    for part in rest:
        found = pc.struct_field(found, part)
    return found


def write_sequence(texts: Sequence[str], data: Sequence[Mapping[str, Any]], schema: Any = SCHEMA) -> PatternWorkload:
    """Parse pattern texts; a row is ``{"second": 1, "type": "A", …}``, and other columns are null."""
    patterns = [replace(resolve(parse_pattern(f"pattern p{i}\n{text}")), name=f"p{i}") for i, text in enumerate(texts)]
    rows = []
    for number, said in enumerate(data):
        row = {name: said.get(name) for name in schema.names}
        row["ts"] = EPOCH + dt.timedelta(seconds=said["second"])
        rows.append({**row, "number": number if row["number"] is None else row["number"]})
    return PatternWorkload(tuple(patterns), tuple(rows), ("number",), schema=schema)


def oracle(workload: PatternWorkload, horizon: int | None = None) -> list[Row]:
    """Return the rows of the oracle that are final at a horizon."""
    if horizon not in workload.oracle_rows:
        workload.oracle_rows[horizon] = _oracle(workload, horizon)
    return list(workload.oracle_rows[horizon])


def _oracle(workload: PatternWorkload, horizon: int | None) -> list[Row]:
    detection = detect(
        list(workload.patterns),
        read_events(workload.events),
        oracle_matcher(),
        horizon=horizon,
        dedupe=workload.dedupe,
    )
    out = []
    for m in detection.matches:
        key, values = (_written(shown.values()) for shown in (m.key, m.values))
        out.append((m.pattern, m.match_id, m.kind, m.start_us, _micros(m.end), key, values))
    return sorted(out, key=repr)


def _written(values: Iterable[object]) -> str:
    """Return values as text: NaN equals itself, and numbers are equal by value, because a column has one type for all."""
    return repr([_number(v.plain(value)) for value in values])


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _number(part) for name, part in value.items()}
    if isinstance(value, Decimal) or (type(value) is int and abs(value) > 2**53):
        value = float(value)  # the only remainder of the value in a column of doubles
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _micros(moment: Any) -> int | None:
    return None if moment is None else (moment - EPOCH) // dt.timedelta(microseconds=1)


@lru_cache(1024)
def draw_single_key_workload(seed: int, keyed: bool) -> PatternWorkload:
    """Draw a workload of the sequence engine in which all patterns have the same partition key."""
    workload = draw_sequence_workload(seed, keyed)
    ways = [[path.parts for path in pattern.partition] for pattern in workload.patterns]
    return replace(
        workload, patterns=tuple(p for p, way in zip(workload.patterns, ways, strict=True) if way == ways[0])
    )


# Assembling matches


@lru_cache(1024)
def draw_assembly_workload(seed: int, keyed: bool) -> PatternWorkload:
    """Draw patterns with independent matches, over events that all of them may use."""
    chance = random.Random(f"assembled {seed}")
    texts = [_slots(chance, keyed or chance.random() < 0.7) for _ in range(1 + seed % 3)]
    patterns = [replace(resolve(parse_pattern(f"pattern p{i}\n{text}")), name=f"p{i}") for i, text in enumerate(texts)]
    data = make_rows(SeededChooser(seed), longest=24, keys=4)
    return PatternWorkload(tuple(patterns), tuple(data), chance.choice(((), ("number",))), chance.choice(((), ("i",))))


def _slots(chance: random.Random, keyed: bool) -> str:
    steps: list[str] = []
    names: list[str] = []
    for i in range(chance.choice((1, 2, 2, 3, 3, 4))):
        if steps and chance.random() < 0.35:
            barred = [
                f"not {chance.choice('ABCD')}{_draw_condition(chance, names)}" for _ in range(chance.choice((1, 1, 2)))
            ]
            steps += [
                one + (f" for {chance.randrange(1, 4)} seconds" if chance.random() < 0.3 else "") for one in barred
            ]
        unified = "(v as u)" if chance.random() < 0.15 else ""
        steps.append(f"{chance.choice('ABCD')}{unified} x{i}{_draw_condition(chance, names)}")
        names.append(f"x{i}")
    text = steps[0]
    for step in steps[1:]:
        # An absence has no arrow of its own: only the arrow of the next event counts.
        text += f" {_arrow(step)} {step}"
    if chance.random() < 0.25:
        text += f" -> not {chance.choice('ABCD')}{_draw_condition(chance, names)} for {chance.randrange(1, 4)} seconds"
    clauses = [f"match {text}", f"within {chance.randrange(4, 12)} seconds"]
    clauses += ["partition by k"] if keyed else []
    clauses += [f"return x0.v as w, {names[-1]}.number as n"] if chance.random() < 0.6 else []
    return "\n".join(clauses)


def _arrow(step: str) -> str:
    return "->" if step.startswith("not ") else "->>"


def _draw_condition(chance: random.Random, names: Sequence[str]) -> str:
    """Draw a condition on the event alone, or on an earlier one too."""
    if chance.random() < 0.6:
        return ""
    if names and chance.random() < 0.6:
        return f" [v {chance.choice(('>', '<=', '!='))} {chance.choice(names)}.v]"
    return f" [v > {chance.randrange(3)}]"


def _types(workload: PatternWorkload | None = None) -> Mapping[str, Any]:
    return {field.name: arrow_type(field.type) for field in (SCHEMA if workload is None else workload.schema)}


_SEQUENCE_INPUTS = PatternInputs(
    draw_workload=draw_sequence_workload, types=_types, rows=sequence_rows, expected=oracle, write=write_sequence
)
INPUTS: dict[str, PatternInputs] = {
    "sequence": _SEQUENCE_INPUTS,
    "aggressive": _SEQUENCE_INPUTS,
    "assemble": replace(_SEQUENCE_INPUTS, draw_workload=draw_assembly_workload, whole=False, punctual=False),
    "early": replace(_SEQUENCE_INPUTS, draw_workload=draw_assembly_workload, whole=False, punctual=False),
    "adaptive": replace(_SEQUENCE_INPUTS, whole=False, punctual=False),
    "conservative": replace(
        _SEQUENCE_INPUTS, draw_workload=draw_single_key_workload, whole=False, takes_punctuations=True
    ),
    "toy": _SEQUENCE_INPUTS,
}
"""Inputs by engine name; a new engine adds its inputs here."""


# Functions for all engines


def inputs_of(engine: Engine) -> PatternInputs:
    found = INPUTS.get(engine.name)
    assert found is not None, (
        f"The engine {engine.name!r} has no inputs: add it to INPUTS in tests/contract/inputs.py, "
        "so that the contract is tested for it."
    )
    return found


def run(
    engine: Engine, workload: PatternWorkload, data: Sequence[Mapping[str, Any]] | None = None, plan: Any = None
) -> StepResult:
    """Run the engine in one call, with all rows or with some."""
    inputs = inputs_of(engine)
    plan = plan if plan is not None else engine.plan(workload.plan, inputs.types())
    rows = inputs.rows(workload, workload.data if data is None else data)
    return engine.step(plan, rows, None, Watermark(ended=True))


def result_rows(step: StepResult, workload: PatternWorkload) -> list[Row]:
    """Return the sorted rows of a step, with NaN equal to itself and numbers equal by value."""
    returned = {pattern.name: [name for name, _ in pattern.returns] for pattern in workload.patterns}
    keys = {pattern.name: [".".join(path.parts) for path in pattern.partition] for pattern in workload.patterns}
    out = []
    for row in step.rows.to_pylist():
        name = row["pattern"]
        key = _written(row[key] for key in keys[name])
        values = _written(row[column] for column in returned[name])
        out.append((name, row["match_id"], row["kind"], _micros(row["start"]), _micros(row["end"]), key, values))
    return sorted(out, key=repr)


def without_numba(module: str, call: str) -> Any:
    """Return the JSON result of a function of a module, called in a process without Numba."""
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
