"""Plans have programs and no text: executors run them without a parser."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pytest

from perseid.engines.joins.engine import JOINS
from perseid.engines.joins.table import append, listed
from perseid.runtime.contract import Engine, Plan
from perseid.runtime.registry import engines, stateful_engines
from perseid.runtime.watermark import Watermark
from tests.contract.inputs import ROOT
from tests.contract.registered_inputs import inputs_for
from tests.contract.subscriptions import draw_workload, plan_of, rows_of
from tests.contract.test_prepare import prepare_inputs_of
from tests.contract.without_parsers import Outcome, Task, run_task

SEEDS = range(8)
PREPARING = [engine for engine in engines().values() if engine.prepare is not None]


def run_without_parsers(tasks: Sequence[Task], folder: Path) -> list[Outcome]:
    """Return the outcomes of tasks in a separate process."""
    path = folder / "tasks"
    path.write_bytes(pickle.dumps(list(tasks)))
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.contract.without_parsers import main\nmain({str(path)!r})"],
        cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes: list[Outcome] = pickle.loads(path.read_bytes())
    return outcomes


@lru_cache
def step_tasks(name: str) -> tuple[Task, ...]:
    cases = [inputs_for(engines()[name]).make_case(seed) for seed in SEEDS]
    return tuple(Task(name, pickle.dumps(case.plan), rows=case.rows) for case in cases)


@lru_cache
def prepare_tasks(name: str) -> tuple[Task, ...]:
    given = [prepare_inputs_of(engines()[name]).draw(seed) for seed in SEEDS]
    return tuple(Task(name, pickle.dumps(plan), columns=columns) for plan, columns in given)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, Outcome]:
    """Return the outcome of each task, in one process for all."""
    tasks = [task for name in stateful_engines() for task in step_tasks(name)]
    tasks += [task for engine in PREPARING for task in prepare_tasks(engine.name)]
    found = run_without_parsers(tasks, tmp_path_factory.mktemp("tasks"))
    return dict(zip(map(pickle.dumps, tasks), found, strict=True))


def same_output(task: Task, outcome: Outcome) -> int:
    """Assert that the rows of a task without parsers equal those with parsers."""
    assert outcome.parsed is None, f"{task.engine} parsed {outcome.parsed}"
    expected = run_task(task)
    assert [table.to_pylist() for table in outcome.tables] == [table.to_pylist() for table in expected]
    return sum(table.num_rows for table in expected)


@pytest.mark.parametrize("engine", stateful_engines().values(), ids=lambda engine: engine.name)
def test_step_and_finish_run_without_a_parser(engine: Engine, outcomes: dict[bytes, Outcome]) -> None:
    assert sum(same_output(task, outcomes[pickle.dumps(task)]) for task in step_tasks(engine.name))


@pytest.mark.parametrize("engine", PREPARING, ids=lambda engine: engine.name)
def test_prepare_runs_without_a_parser(engine: Engine, outcomes: dict[bytes, Outcome]) -> None:
    assert sum(same_output(task, outcomes[pickle.dumps(task)]) for task in prepare_tasks(engine.name))


def test_subscription_results_need_no_parser(tmp_path: Path) -> None:
    """Also with different constants, and for subscriptions without a SELECT."""
    workload = draw_workload(3)
    texts = {
        "first": "SELECT <m a='{x}'>{y}</m> FROM S//a->x[. = '1'] JOIN{x = y, 9 seconds} S//a->y",
        "second": "SELECT <m a='{x}'>{y}</m> FROM S//a->x[. = '2'] JOIN{x = y, 9 seconds} S//a->y",
        "third": "S//a->x[. > 1] JOIN{x = y AND y < 7, forever} S//a->y",
        **workload.texts,
    }
    tasks = []
    for always in (False, True):
        plan = plan_of(type(workload)(texts, workload.documents), results=True, always=always, expand=False)
        tasks.append(Task("joins", pickle.dumps(plan), rows=rows_of(plan, workload.documents)))
    for task, outcome in zip(tasks, run_without_parsers(tasks, tmp_path), strict=True):
        same_output(task, outcome)


def test_subscription_files_are_parsed_by_their_reader(tmp_path: Path) -> None:
    """The one exception: files contain texts and are added while a query runs, so a reader parses them."""
    workload, folder = draw_workload(1), str(tmp_path / "subscriptions")
    plan: Plan = plan_of(table=folder)
    name = append(folder, listed(workload.texts))
    rows = rows_of(plan, workload.documents, files=[name])
    step, chains = run_without_parsers(
        [
            Task("joins", pickle.dumps(plan), rows=rows),
            Task("joins", pickle.dumps(plan), columns={"body": pa.array(["<r/>"]), "stream": pa.array(["S"])}),
        ],
        tmp_path,
    )
    assert step.parsed is not None
    assert chains.parsed is not None
    assert JOINS.run_step(plan, rows, None, Watermark(ended=True)) is not None
