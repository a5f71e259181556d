"""Properties of every engine with a prepare function: it maps each row alone to rows, before the shuffle."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from perseid.engines.joins.documents import heights_of, key_of
from perseid.engines.joins.plan import CHAINS, NODES, TEXTS, JoinsPlan, make_plan
from perseid.engines.trees.engine import TreesPlan, compile_trees
from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import print_subscription
from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from perseid.runtime.contract import Engine, Prepared
from perseid.runtime.document_columns import BODY, STREAM, TYPE
from perseid.runtime.registry import engines
from perseid.semantics.documents import node_numbers
from perseid.semantics.trees import Result, Run
from tests.contract.inputs import without_numba
from tests.semantics.join_documents import random_documents, random_subscriptions, xml
from tests.semantics.tree_documents import NAMESPACES, Document, RandomTrees, random_document

Row = tuple[int, str]
"""Number of the input row, and the output row as text."""


@dataclass(frozen=True)
class PrepareInputs:
    """Prepare inputs of one engine."""

    draw: Callable[[int], tuple[Any, dict[str, Any]]]
    """Function that draws a plan and columns from a seed; some rows are malformed."""
    expected: Callable[[Any, Mapping[str, Any]], tuple[list[Row], list[int]]]
    """Function that returns the expected output rows, and the numbers of the malformed rows."""
    as_text: Callable[[Any, Mapping[str, Any]], str]
    """Function that returns an output row as text."""


def draw_trees(seed: int) -> tuple[TreesPlan, dict[str, Any]]:
    chance = random.Random(seed)
    patterns: list[tp.TreePattern] = []
    while len(patterns) < 3:
        drawn = RandomTrees(chance).pattern()
        if not any(isinstance(part, tp.LastPosition) for part, _ in tp.walk(drawn)):
            patterns.append(drawn)
    names = tuple(dict.fromkeys(name for one in patterns for name in tp.return_names(one)))
    streams = ("Doc", "Other", "Doc")
    bodies = [
        chance.choice((None, "<r><a></r>", "")) if chance.random() < 0.1 else random_document(chance)
        for _ in range(chance.choice((1, 7, 30)))
    ]
    columns = {BODY: pa.array(bodies, pa.string())}
    if chance.random() < 0.5:
        columns[STREAM] = pa.array([chance.choice(("Doc", "Other", None)) for _ in bodies], pa.string())
    whole = "Document" if chance.random() < 0.5 else None
    types = tuple(f"type {n}" for n in range(3))
    return TreesPlan(compile_trees(patterns, NAMESPACES.items()), types, streams, names, whole=whole), columns


def expected_trees(plan: TreesPlan, columns: Mapping[str, Any]) -> tuple[list[Row], list[int]]:
    """Return the oracle's output: a top-level result is an event, and so is a pattern that matches without results."""
    prepared: list[Row] = []
    bad: list[int] = []
    streams = columns[STREAM].to_pylist() if STREAM in columns else None
    for row, body in enumerate(columns[BODY].to_pylist()):
        if body is None or not body.endswith("</r>") or "<a></r>" in body:
            bad.append(row)
            continue
        root = Document.parse(body).root
        stream = None if streams is None else streams[row]
        if plan.whole is not None:
            prepared.append((row, as_text(plan, {TYPE: plan.whole if streams is None else stream})))
        for pattern, asks, named in zip(plan.trees.patterns, plan.streams, plan.types, strict=True):
            if streams is not None and stream != asks:
                continue
            found = find_trees(pattern, root, NAMESPACES)
            if found is None:
                continue
            results: Iterable[Sequence[Result]] = [[one] for one in found] if tp.return_names(pattern) else [[]]
            for result in results:
                texts: dict[str, str] = {}
                for one in result:
                    first_texts(one, texts)
                prepared.append((row, as_text(plan, {TYPE: named, **texts})))
    return sorted(prepared), bad


def first_texts(result: Result, found: dict[str, str]) -> None:
    if not isinstance(result, Run):
        assert result.name is not None
        found.setdefault(result.name, result.node.text)
    for inner in result.inner:
        first_texts(inner, found)


def as_text(plan: TreesPlan, row: Mapping[str, Any]) -> str:
    return json.dumps({name: row.get(name) for name in (TYPE, *plan.variables)})


def draw_joins(seed: int) -> tuple[JoinsPlan, dict[str, Any]]:
    chance = random.Random(seed)
    texts = {name: print_subscription(one) for name, one in random_subscriptions(chance, 6).items()}
    documents = [one for _ in range(chance.choice((1, 3))) for one in random_documents(chance)]
    bodies = [chance.choice((None, "<a><b></a>", "")) if chance.random() < 0.1 else xml(one.root) for one in documents]
    streams = pa.array([one.stream for one in documents], pa.string())
    return make_plan(texts, pa.schema([])), {BODY: pa.array(bodies, pa.string()), STREAM: streams}


def expected_joins(plan: JoinsPlan, columns: Mapping[str, Any]) -> tuple[list[Row], list[int]]:
    """Return the output of the tree oracle: every node at the end of a chain, with the ancestors that the chain names."""
    prepared: list[Row] = []
    bad: list[int] = []
    asked = {chain.stream for chain in plan.chain_program().chains}
    for row, (body, stream) in enumerate(zip(*(columns[name].to_pylist() for name in (BODY, STREAM)), strict=True)):
        if stream not in asked:
            continue
        if body is None or not body or "<b></a>" in body:
            bad.append(row)
            continue
        root = Document.parse(body).root
        place = node_numbers(root)
        rows = []
        for chain in plan.chain_program().chains:
            if chain.stream == stream:
                for one in find_trees(parse_tree(chain.tree).pattern, root, {}) or ():
                    ways = (way for way in _paths(one) if len(way) == chain.height)
                    rows += [(key_of(chain), way[-1].text, [place[node] for node in way]) for way in ways]
        if rows:
            prepared.append((row, repr(sorted(rows))))
    return sorted(prepared), bad


def _paths(result: Result) -> Iterable[list[Any]]:
    """Yield the paths from a result to each result inside it."""
    assert not isinstance(result, Run)
    yield [result.node]
    for inner in result.inner:
        yield from ([result.node, *way] for way in _paths(inner))


def joins_as_text(plan: JoinsPlan, row: Mapping[str, Any]) -> str:
    rows, at = [], 0
    for key, text in zip(row[CHAINS], row[TEXTS], strict=True):
        height = int(heights_of(key))
        rows.append((key, text, row[NODES][at : at + height]))
        at += height
    assert at == len(row[NODES])
    return repr(sorted(rows))


MATERIAL: dict[str, PrepareInputs] = {
    "trees": PrepareInputs(draw_trees, expected_trees, as_text),
    "joins": PrepareInputs(draw_joins, expected_joins, joins_as_text),
}
"""Inputs by engine name; a new engine adds its inputs here."""


def prepare_inputs_of(engine: Engine) -> PrepareInputs:
    found = MATERIAL.get(engine.name)
    assert found is not None, (
        f"The engine {engine.name!r} has a prepare and nothing to ask it: add it to MATERIAL in "
        "tests/contract/test_prepare.py, so that the contract is tested for it."
    )
    return found


preparing_engine = pytest.mark.parametrize(
    "engine", [engine for engine in engines().values() if engine.prepare is not None], ids=lambda engine: engine.name
)


def run(engine: Engine, plan: Any, columns: Mapping[str, Any], first: int = 0) -> tuple[list[Row], list[int]]:
    """Return the output rows with the numbers of their input rows, and the malformed rows."""
    assert engine.prepare is not None
    prepared: list[Row] = []
    bad: list[int] = []
    for piece in engine.prepare(plan, columns):
        assert isinstance(piece, Prepared)
        assert {len(column) for column in piece.columns.values()} <= {len(piece.rows)}
        shown = pa.table({TYPE: pa.nulls(len(piece.rows), pa.string()), **piece.columns}).to_pylist()
        prepared += [
            (first + int(row), prepare_inputs_of(engine).as_text(plan, one))
            for row, one in zip(piece.rows, shown, strict=True)
        ]
        assert all(one.message.endswith(".") for one in piece.bad)
        bad += [first + one.row for one in piece.bad]
    return sorted(prepared), sorted(bad)


@preparing_engine
def test_prepare_equals_the_oracle(engine: Engine) -> None:
    prepared = bad = 0
    for seed in range(60):
        plan, columns = prepare_inputs_of(engine).draw(seed)
        found, wanted = run(engine, plan, columns), prepare_inputs_of(engine).expected(plan, columns)
        assert found == wanted, f"seed {seed}"
        prepared, bad = prepared + len(wanted[0]), bad + len(wanted[1])
    assert prepared > 100
    assert bad > 10


@preparing_engine
def test_prepare_is_a_function_of_each_row(engine: Engine) -> None:
    """For any batches and any order, each row has the same output."""
    for seed in range(20):
        plan, columns = prepare_inputs_of(engine).draw(seed)
        whole = run(engine, plan, columns)
        count = len(next(iter(columns.values())))
        prepared: list[Row] = []
        bad: list[int] = []
        chance, at = random.Random(seed), 0
        while at < count:
            size = chance.randint(1, 5)
            some = run(engine, plan, {name: column.slice(at, size) for name, column in columns.items()}, at)
            prepared, bad, at = prepared + some[0], bad + some[1], at + size
        assert (sorted(prepared), sorted(bad)) == whole, f"seed {seed}"
        order = list(range(count))
        chance.shuffle(order)
        found, wrong = run(engine, plan, {name: column.take(pa.array(order)) for name, column in columns.items()})
        assert sorted((order[row], text) for row, text in found) == whole[0], f"seed {seed}"
        assert sorted(order[row] for row in wrong) == whole[1]


@preparing_engine
def test_prepare_of_no_rows(engine: Engine) -> None:
    for seed in range(5):
        plan, columns = prepare_inputs_of(engine).draw(seed)
        assert run(engine, plan, {name: column.slice(0, 0) for name, column in columns.items()}) == ([], [])


@preparing_engine
def test_prepare_plan_can_be_pickled(engine: Engine) -> None:
    for seed in range(10):
        plan, columns = prepare_inputs_of(engine).draw(seed)
        assert run(engine, pickle.loads(pickle.dumps(plan)), columns) == run(engine, plan, columns)


def outputs_of_seeds(name: str, seeds: Iterable[int]) -> list[Any]:
    engine = engines()[name]
    return [run(engine, *prepare_inputs_of(engine).draw(seed)) for seed in seeds]


@preparing_engine
def test_prepare_without_numba_has_the_same_output(engine: Engine) -> None:
    plain = without_numba("tests.contract.test_prepare", f"outputs_of_seeds({engine.name!r}, range(12))")
    assert plain == json.loads(json.dumps(outputs_of_seeds(engine.name, range(12))))
