"""Tree patterns of the product agree with the brute-force matcher over lxml."""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import pytest

import perseid as ps
from tests.second_opinion.trees import (
    NAMESPACES,
    TreePatternMaker,
    TreeStep,
    match_rows,
    print_step,
    random_alphabet,
    random_document,
    read_document,
    steps_of,
)

CASES = int(os.environ.get("PERSEID_SECOND_OPINION_CASES", "500"))
DEEP_CASES = 50_000
BLOCKS = 10
BATCH_SEEDS = 10  # seeds that share documents and one call of the product
DOCUMENTS_PER_BATCH = 6
MAX_FAILURES_SHOWN = 3
MIN_COMPARED_SHARE = 0.6
MIN_NONEMPTY_SHARE = 0.25

Rows = dict[int, list[tuple[Any, ...]]]


@dataclass
class TreeTally:
    """Counts of a block."""

    cases: int = 0
    rejected: int = 0
    nonempty: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.cases - self.rejected

    def check(self) -> None:
        """Require that nothing differs."""
        shown = "\n\n".join(self.failures[:MAX_FAILURES_SHOWN])
        assert not self.failures, f"{len(self.failures)} of {self.compared} cases differ.\n{shown}"


def check_shares(tallies: list[TreeTally]) -> None:
    """Require that enough cases were compared and enough of them have results."""
    compared = sum(tally.compared for tally in tallies)
    assert compared >= MIN_COMPARED_SHARE * sum(tally.cases for tally in tallies)
    assert sum(tally.nonempty for tally in tallies) >= MIN_NONEMPTY_SHARE * compared


@dataclass
class Batch:
    """Alphabet, documents and namespaces that some seeds share."""

    alphabet: list[str]
    documents: list[str]
    namespaces: dict[str, str]


def make_batch(seed: int) -> Batch:
    """The batch that a seed belongs to."""
    random = Random(f"documents {seed // BATCH_SEEDS}")
    alphabet = random_alphabet(random)
    documents = [random_document(random, alphabet) for _ in range(DOCUMENTS_PER_BATCH)]
    return Batch(alphabet, documents, NAMESPACES | ({"": "urn:p"} if random.random() < 0.08 else {}))


def make_pattern(seed: int, alphabet: list[str]) -> TreeStep:
    """Pattern of a seed."""
    return TreePatternMaker(Random(f"pattern {seed}"), alphabet).make()


def run_product(texts: dict[str, str], batch: Batch) -> dict[str, Rows]:
    """Rows of the product for each pattern and document."""
    given = ps.documents(
        [{"id": number, "xml": xml} for number, xml in enumerate(batch.documents)],
        body="xml",
        namespaces=batch.namespaces,
    )
    found: dict[str, Rows] = defaultdict(lambda: defaultdict(list))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.errors.PerseidWarning)  # nothing found, in documents of another namespace
        table = ps.xml.tree_patterns(texts).match(given)
    for row in table.to_pylist():
        assert row["error"] is None, (row, batch.documents[row["id"]])
        nodes = [(node["variable"], node["level"], node["uri"], node["name"], node["text"]) for node in row["nodes"]]
        columns = {name: texts_ for name, texts_ in row.items() if name[0] == "v" and texts_}
        found[row["pattern"]][row["id"]].append((row["place"] if nodes else 0, nodes, columns))
    return found


def run_brute_force(pattern: TreeStep, roots: list[Any], namespaces: dict[str, str]) -> Rows:
    """Rows of the brute-force matcher for each document."""
    found: Rows = {}
    for number, root in enumerate(roots):
        rows = []
        for place, nodes in match_rows(pattern, root, namespaces):
            columns: dict[str, list[str]] = {}
            for variable, _, _, _, text in nodes:
                if variable is not None:
                    columns.setdefault(variable, []).append(text)
            rows.append((place, nodes, columns))
        if rows:
            found[number] = rows
    return found


def normalize(rows: Rows) -> dict[int, list[str]]:
    """Rows of each document by place; rows of one place have no documented order."""
    return {
        number: [repr((place, nodes, sorted(columns.items()))) for place, nodes, columns in sorted(found, key=repr)]
        for number, found in sorted(rows.items())
        if found
    }


def compare_batch(seeds: list[int], tally: TreeTally) -> None:
    """Compare all patterns of a batch with the product."""
    batch = make_batch(seeds[0])
    roots = [read_document(xml) for xml in batch.documents]
    patterns = {seed: make_pattern(seed, batch.alphabet) for seed in seeds}
    texts = {f"s{seed}": print_step(pattern) for seed, pattern in patterns.items()}
    tally.cases += len(seeds)
    try:
        found = run_product(texts, batch)
    except ps.PerseidError:
        found = {}
        for name, text in list(texts.items()):
            try:
                found |= run_product({name: text}, batch)
            except ps.PerseidError:
                tally.rejected += 1
                del texts[name]
    for seed in seeds:
        name = f"s{seed}"
        if name not in texts:
            continue
        expected = normalize(run_brute_force(patterns[seed], roots, batch.namespaces))
        actual = normalize(found.get(name, {}))
        tally.nonempty += bool(expected)
        if actual != expected:
            tally.failures.append(describe_difference(seed, texts[name], batch, expected, actual))


def describe_difference(
    seed: int, text: str, batch: Batch, expected: dict[int, list[str]], actual: dict[int, list[str]]
) -> str:
    """Seed, pattern, documents and both results of a case."""
    lines = [f"seed {seed}", f"pattern  {text}", f"namespaces {batch.namespaces}"]
    alone = normalize(run_product({f"s{seed}": text}, batch).get(f"s{seed}", {}))
    lines.append(f"the product gives {'the same' if alone == actual else 'ANOTHER RESULT'} for the pattern alone")
    for number, xml in enumerate(batch.documents):
        if expected.get(number) != actual.get(number):
            lines.append(f"document {xml}")
            lines.append("brute force")
            lines.extend(f"  {row}" for row in expected.get(number, []))
            lines.append("product")
            lines.extend(f"  {row}" for row in actual.get(number, []))
    return "\n".join(lines)


def compare_block(first: int, last: int) -> TreeTally:
    """Compare the seeds from first to before last."""
    tally = TreeTally()
    seeds = list(range(first, last))
    batches: dict[int, list[int]] = defaultdict(list)
    for seed in seeds:
        batches[seed // BATCH_SEEDS].append(seed)
    for members in batches.values():
        compare_batch(members, tally)
    return tally


@cache
def compare_default_block(block: int) -> TreeTally:
    """Compare one block of the default cases; a second call returns the same tally."""
    return compare_block(CASES * block // BLOCKS, CASES * (block + 1) // BLOCKS)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_tree_patterns_agree_with_brute_force(block: int) -> None:
    compare_default_block(block).check()


def test_enough_random_tree_patterns_are_compared_and_have_results() -> None:
    check_shares([compare_default_block(block) for block in range(BLOCKS)])


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_tree_patterns_agree_with_brute_force_deep(block: int) -> None:
    tally = compare_block(DEEP_CASES * block // BLOCKS, DEEP_CASES * (block + 1) // BLOCKS)
    tally.check()
    check_shares([tally])


@pytest.mark.parametrize(
    ("kind", "fragment"),
    [
        ("attribute", "/@"),
        ("gap", "::"),
        ("either", " | "),
        ("last", "[last()]"),
        ("repetition", "{2,3}"),
        ("prefix", "//p:"),
        ("wildcard", "//*"),
    ],
)
def test_random_patterns_cover_the_language(kind: str, fragment: str) -> None:
    texts = [print_step(make_pattern(seed, ["a", "b", "c"])) for seed in range(500)]
    assert sum(fragment in text for text in texts) >= 5, kind


def test_random_patterns_exist_without_return_names() -> None:
    patterns = [make_pattern(seed, ["a", "b", "c"]) for seed in range(200)]
    assert any(all(step.name is None for step in steps_of(pattern)) for pattern in patterns)


@pytest.mark.parametrize("pattern", ["//a->x(/b->y)[/b->z]", "//a->x[/b->z](/b->y)"])
def test_result_of_a_predicate_comes_before_a_run_at_the_same_node(pattern: str) -> None:
    given = ps.documents([{"id": 1, "xml": "<a><b>1</b></a>"}], body="xml")
    (row,) = ps.xml.tree_patterns(pattern).match(given).to_pylist()
    assert [node["variable"] for node in row["nodes"]] == ["x", "z", None, "y"]


@pytest.mark.parametrize("between", ["", "<b/>"])
def test_optional_member_behind_a_gap_is_taken_rather_than_left_out(between: str) -> None:
    given = ps.documents([{"id": 1, "xml": f"<r><a/>{between}<c>1</c></r>"}], body="xml")
    (row,) = ps.xml.tree_patterns("//r(/a::/c->x?::/c->y?)").match(given).to_pylist()
    assert (row["x"], row["y"]) == (["1"], [])
