"""Algorithm ESMA of paper 1 returns what the matcher and the oracle return."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import harness
from bench.__main__ import main
from bench.trees import esma, interpreted
from bench.trees.benchmark import matcher_of, ours
from bench.trees.dblp import dblp
from bench.trees.queries import QUERIES
from bench.trees.treebank import treebank
from bench.trees.xmark import xmark
from perseid.lang import tree_patterns as tp
from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from perseid.semantics.documents import Element
from perseid.semantics.trees import Returned
from tests.bench.test_tree_baselines import EDGE_CASES
from tests.semantics.tree_documents import NAMESPACES, Document, RandomTrees, random_document

DOCUMENTS = {
    "dblp": lambda: b"".join(dblp(200)),
    "treebank": lambda: b"".join(treebank(100_000)),
    "xmark": lambda: b"".join(xmark(0.004, seed=11)),
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("documents")
    found: dict[str, list[Path]] = {}
    for kind, make in DOCUMENTS.items():
        for name, body in (("generated", make()), ("edge", EDGE_CASES[kind].encode())):
            path = folder / f"{kind}-{name}.xml"
            path.write_bytes(body)
            found.setdefault(kind, []).append(path)
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_esma_counts_as_many_results_as_the_matcher(name: str, paths: dict[str, list[Path]]) -> None:
    query = QUERIES[name]
    for path in paths[query.document]:
        expected = ours(matcher_of([query.text]), path, trusted=False)[0]
        assert esma.count_results(query.text, path) == expected
        assert expected > 0 or "edge" in path.name


@pytest.mark.parametrize("name", QUERIES)
def test_esma_counts_zero_without_a_match(name: str, tmp_path: Path) -> None:
    path = tmp_path / "none.xml"
    path.write_text("<FILE><EMPTY/><article/><person/><item/></FILE>", encoding="utf-8")
    assert esma.count_results(QUERIES[name].text, path) == 0


def test_program_runs_again_over_another_document(paths: dict[str, list[Path]]) -> None:
    query = QUERIES["Q3.6"]
    program = esma.EsmaProgram(parse_tree(query.text).pattern)
    first = [esma.count_matches(program, path) for path in paths["xmark"]]
    assert first == [esma.count_matches(program, path) for path in paths["xmark"]]


def test_malformed_document_raises(tmp_path: Path) -> None:
    path = tmp_path / "cut.xml"
    path.write_text("<dblp><article></dblp>", encoding="utf-8")
    with pytest.raises(esma.expat.ExpatError):
        esma.count_results(QUERIES["Q1.1"].text, path)


@pytest.mark.parametrize("text", ["//a[/@k]", "//a[2]", "//p:a"])
def test_pattern_outside_of_the_paper_is_rejected(text: str) -> None:
    with pytest.raises(NotImplementedError):
        esma.EsmaProgram(parse_tree(text).pattern)


def plain_esma(found: Sequence[esma.ResultNode | None], nodes: Sequence[Element]) -> Any:
    return [
        plain_esma(one.inner, nodes)
        if one.name is None
        else (one.name, nodes[one.number - 1], plain_esma(one.inner, nodes))
        for one in found
        if one is not None
    ]


def plain_oracle(found: Any) -> Any:
    return [
        (one.name, one.node, plain_oracle(one.inner)) if isinstance(one, Returned) else plain_oracle(one.inner)
        for one in found
    ]


def has_run(found: Any) -> bool:
    return any(isinstance(one, list) or has_run(one[2]) for one in found)


@pytest.mark.parametrize("block", range(4))
def test_esma_returns_what_the_oracle_returns_at_random(block: int) -> None:
    chance = random.Random(f"esma {block}")
    trees = RandomTrees(chance)
    matched = runs = 0
    while matched < 150 or runs < 20:
        root_node = trees.pattern().root
        assert isinstance(root_node, tp.TreeNode)
        root_node = replace(root_node, axis=tp.Axis.DESCENDANT)
        if chance.random() < 0.5:
            root_node = replace(root_node, siblings=trees.expression(1, 3))
        pattern = tp.TreePattern(root_node)
        try:
            program = esma.EsmaProgram(pattern)
        except NotImplementedError:
            continue
        for _ in range(4):
            body = random_document(chance, 30)
            root = Document.parse(body).root
            oracle = find_trees(pattern, root, NAMESPACES)
            expected = plain_oracle(oracle or ())
            result = program.run([body.encode()], namespace_separator=" ")
            assert bool(result) == (oracle is not None), (tp.print_tree(pattern), body)
            assert plain_esma(result, list(root.walk())) == expected, (tp.print_tree(pattern), body)
            matched += oracle is not None
            runs += has_run(expected)


def test_plain_python_matcher_is_measured_and_a_wrong_count_is_not(paths: dict[str, list[Path]]) -> None:
    path = paths["dblp"][1]
    right = ours(matcher_of([QUERIES["Q1.3"].text]), path, trusted=False)[0]
    rows = [
        interpreted.InterpretedRow(QUERIES["Q1.3"], path, right, {}),
        interpreted.InterpretedRow(QUERIES["Q1.4"], path, 99, {}),
    ]
    interpreted.run_plain(rows, 60.0)
    assert rows[0].records["plain"].seconds
    assert rows[0].records["plain scan"].seconds
    assert "right is 99" in (rows[1].records["plain"].failure or "")
    assert rows[1].rate("plain") is None
    lines = interpreted.format_table([rows[0]], ["plain"]).splitlines()
    assert lines[2].startswith(f"| Q1.3 | DBLP, 0.00 MB | {right} |")


def test_plain_python_matcher_without_time_has_a_reason(paths: dict[str, list[Path]]) -> None:
    rows = [interpreted.InterpretedRow(QUERIES["Q1.3"], paths["dblp"][1], 1, {})]
    interpreted.run_plain(rows, 0.0)
    assert rows[0].records["plain"].failure == "the run's time was up"


def test_target_table_names_missed_and_unmeasured_targets() -> None:
    report = harness.Report("trees", "standard")
    report.add("fast", 3.0)
    report.add("slow", 1.0)
    report.add("failed", None, "ours: not done")
    assert report.target_table({"fast": 2.0, "slow": 2.0, "failed": 1.0, "absent": 1.0}).splitlines()[2:] == [
        "| `fast` | 2 | 3 | yes |",
        "| `slow` | 2 | 1 | no |",
        "| `failed` | 1 | - | no: ours: not done |",
        "| `absent` | 1 | - | no: not measured |",
    ]


def test_part_is_rejected_for_other_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["joins", "--part", "esma"])
    assert "--part is an option of trees" in capsys.readouterr().err
