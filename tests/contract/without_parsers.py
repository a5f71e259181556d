"""Runs pickled plans in a process whose parsers raise, as an executor would; the parent creates plans and rows.

``main`` reads pickled tasks from a file and writes their outcomes to it.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import lark
import numpy as np
import pyarrow as pa

from perseid.lang import model_reader, parser, rule_reader, templates, tree_parser, xscl, xscl_parts
from perseid.runtime.contract import Engine, Passes, Plan, StepResult
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.registry import engines
from perseid.runtime.watermark import Watermark

PARSERS = (parser, tree_parser, xscl, xscl_parts, templates, rule_reader, model_reader)


class ParsedError(Exception):
    """A parser was called."""


@dataclass(frozen=True)
class Task:
    """A pickled plan, and the input for the functions of its engine."""

    engine: str
    plan: bytes
    rows: EventBatch | None = None
    """Rows for ``step``."""
    columns: Mapping[str, Any] | None = None
    """Columns for ``prepare``."""


@dataclass(frozen=True)
class Outcome:
    """Output of a task, or the text that it parsed."""

    tables: tuple[pa.Table, ...] = ()
    parsed: str | None = None


def forbid_parsers() -> None:
    """Make every parsing function raise, in all modules that imported it."""
    forbidden = {
        value
        for module in PARSERS
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and name.startswith(("parse", "read", "cut"))
    }
    assert {parser.parse_pattern, tree_parser.parse_tree, xscl.parse_subscription, templates.read_template} <= forbidden

    def refuse(*given: object, **_: object) -> NoReturn:
        raise ParsedError(repr(given)[:200])

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "perseid":
            for attribute, value in list(vars(module).items()):
                if inspect.isfunction(value) and value in forbidden:
                    setattr(module, attribute, refuse)
    lark.Lark.parse = refuse  # type: ignore[method-assign]


def run_task(task: Task) -> tuple[pa.Table, ...]:
    """Return the output of the functions that a task has input for."""
    engine, plan = engines()[task.engine], pickle.loads(task.plan)
    if task.columns is not None:
        return tuple(run_prepare(engine, plan, task.columns))
    assert task.rows is not None
    return tuple(run_steps(engine, plan, task.rows))


def run_prepare(engine: Engine, plan: Plan, columns: Mapping[str, Any]) -> list[pa.Table]:
    assert engine.prepare is not None
    return [pa.table(dict(piece.columns)) for piece in engine.prepare(plan, columns)]


def run_steps(engine: Engine, plan: Plan, rows: EventBatch) -> list[pa.Table]:
    """Return the output of a batch, and of a stream of two calls with a state between them."""
    partitions = plan.shards if engine.capabilities.broadcast else 1
    tables: list[pa.Table] = []
    for number in range(partitions):
        own = replace(rows, query_partition=number)
        batch = engine.run_step(plan, own, None, Watermark(ended=True))
        tables += [batch.rows, *run_finish(engine, plan, own), *(step.rows for step in run_stream(engine, plan, own))]
    return tables


def run_stream(engine: Engine, plan: Plan, rows: EventBatch) -> Sequence[StepResult]:
    if engine.passes is not Passes.FORWARD:
        return ()
    order = np.argsort(rows.time, kind="stable")
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    middle = int(rows.time[first[-1]]) - 1 if len(first) else 0
    one = engine.run_step(plan, take_events(rows, first), None, Watermark(None, middle))
    return one, engine.run_step(plan, take_events(rows, second), one.state, Watermark(ended=True))


def run_finish(engine: Engine, plan: Plan, rows: EventBatch) -> Sequence[pa.Table]:
    """Return the output of the second shuffle, for a plan that emits its bindings one by one."""
    if engine.finish is None or not any(one.groups < len(one.unit) for one in plan.queries):
        return ()
    assert is_dataclass(plan)
    apart = replace(plan, apart=True)  # type: ignore[type-var]
    return (engine.finish(apart, engine.run_step(apart, rows, None, Watermark(ended=True)).rows),)


def main(file: str) -> None:
    path = Path(file)
    tasks: list[Task] = pickle.loads(path.read_bytes())
    for engine in engines().values():
        for part in (engine.prepare, engine.step, engine.finish):
            if part is not None:
                __import__(part.__module__)
    forbid_parsers()
    outcomes = []
    for task in tasks:
        try:
            outcomes.append(Outcome(run_task(task)))
        except ParsedError as error:
            outcomes.append(Outcome(parsed=str(error)))
    path.write_bytes(pickle.dumps(outcomes))
