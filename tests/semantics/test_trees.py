"""Semantics of tree patterns: hand-worked cases, and agreement with lxml's XPath for what XPath can express."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import perseid as ps
from perseid.lang import tree_patterns as tp
from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from perseid.semantics.documents import Element
from tests.semantics.tree_documents import (
    NAMESPACES,
    Document,
    RandomTrees,
    TreeCase,
    lines,
    nodes_of,
    parse_tree_cases,
    random_document,
    read_tree_cases,
)

HERE = Path(__file__).parent
SEMANTICS = HERE.parents[1] / "docs" / "semantics.md"


def _documented() -> list[TreeCase]:
    blocks = re.findall(r"```tree-case\n(.*?)```", SEMANTICS.read_text("utf-8"), re.DOTALL)
    return [case for block in blocks for case in parse_tree_cases(block)]


CASES = [*read_tree_cases(HERE / "tree_cases"), *_documented()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_hand_worked(case: TreeCase) -> None:
    pattern = parse_tree(case.pattern).pattern
    assert lines(find_trees(pattern, Document.parse(case.document).root, case.namespaces)) == case.gives


def test_there_are_enough() -> None:
    assert len(CASES) >= 50


def test_undeclared_prefix_is_rejected() -> None:
    root = Document.parse("<r xml:lang='is'/>").root
    with pytest.raises(ps.errors.UnknownNameError, match=r"'invoice' in invoice:a\.\n  = Did you mean 'invoices'"):
        find_trees(parse_tree("//r[invoice:a]").pattern, root, {"invoices": "u"})
    assert lines(find_trees(parse_tree("//@xml:lang->x").pattern, root)) == [
        "x @{http://www.w3.org/XML/1998/namespace}lang 'is'"
    ]


def test_a_deep_document() -> None:
    deep = 1_500  # more than Python lets functions call themselves
    root = Element(("", "a"), content=("1",))
    for _ in range(deep):
        root = Element(("", "a"), content=(root,))
    found = find_trees(parse_tree("//a[. = 1]/a->x").pattern, root)
    assert len(found or ()) == deep


@pytest.mark.parametrize("block", range(4))
def test_agrees_with_xpath(block: int) -> None:
    found = 0
    for seed in range(block * 500, block * 500 + 500):
        chance = random.Random(seed)
        document = Document.parse(random_document(chance))
        pattern = RandomTrees(chance, siblings=False).pattern()
        assert isinstance(pattern.root, tp.TreeNode)
        results = find_trees(pattern, document.root, NAMESPACES)
        tree = document.source.getroottree()
        said = f"seed {seed}: {tp.print_tree(pattern)}"
        assert (results is not None) == bool(tree.xpath(_xpath(pattern.root), namespaces=NAMESPACES)), said
        for name in tp.return_names(pattern):
            leading = _leading_to(pattern.root, name)
            assert leading is not None
            expected = document.of_lxml(tree.xpath(leading, namespaces=NAMESPACES))
            ours = set(nodes_of(results or (), name))
            assert ours == set(expected), f"{said}, {name}: {leading}"
            found += len(ours)
    assert found > 200


def _xpath(step: tp.TreeNode) -> str:
    """Translates a path to XPath, relative to its context node."""
    return _step(step) + ("" if step.next is None else _xpath(step.next))


def _step(step: tp.TreeNode, *more: str) -> str:
    # Positions count all that pass the test, so they come first.
    ordered = sorted(step.predicates, key=lambda one: not isinstance(one, tp.Position | tp.LastPosition))
    condition = [*map(_predicate, ordered), *more]
    test = ("@" if step.is_attribute else "") + tp.print_name(step.test)
    return step.axis.value + test + "".join(f"[{one}]" for one in condition)


def _predicate(predicate: tp.TreePredicate) -> str:
    match predicate:
        case tp.Exists(expr=tp.TreeNode() as path):
            return "." + _xpath(path)
        case tp.Comparison():
            path_text = "." if predicate.path is None else "." + _xpath(predicate.path)
            return f"{path_text} {_compared(predicate)}"
        case tp.Position():
            return str(predicate.index)
        case tp.LastPosition():
            return "last()"
    raise AssertionError(predicate)


def _compared(predicate: tp.Comparison) -> str:
    value = f"'{predicate.value}'" if isinstance(predicate.value, str) else str(predicate.value)
    return f"{predicate.op} {value}"


def _leading_to(step: tp.TreeNode, name: str, compared: str | None = None) -> str | None:
    """Returns the XPath to the nodes of a return name; ``compared`` applies to the end of the path."""
    at_end = [f". {compared}"] if compared is not None else []
    below = [] if step.next is None else ["." + _xpath(step.next) + (f" {compared}" if compared is not None else "")]
    here = _step(step, *(below or at_end))
    if step.returns == name:
        return here
    for predicate in step.predicates:
        path, condition = None, None
        if isinstance(predicate, tp.Exists) and isinstance(predicate.expr, tp.TreeNode):
            path = predicate.expr
        elif isinstance(predicate, tp.Comparison):
            path, condition = predicate.path, _compared(predicate)
        if path is not None and (found := _leading_to(path, name, condition)) is not None:
            return here + found
    if step.next is not None and (found := _leading_to(step.next, name, compared)) is not None:
        return _step(step) + found
    return None
