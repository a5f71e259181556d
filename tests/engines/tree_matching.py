"""Results of the matcher and of the oracle in one comparable form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.matcher import TreeMatcher
from perseid.engines.trees.plan import tree_plan
from perseid.lang import tree_patterns as tp
from perseid.semantics.documents import Element, XmlAttribute
from perseid.semantics.trees import Result, Results, Run

Shown: TypeAlias = tuple[Any, ...]
"""A return name (None: a run), the kind, name and text of the node, and the inner results."""
TreeResults: TypeAlias = list[Shown] | None


def shown(results: Results | None) -> TreeResults:
    """Returns the comparable form of the oracle's results."""
    return None if results is None else [_shown(one) for one in results]


def _shown(one: Result) -> Shown:
    inner = tuple(_shown(below) for below in one.inner)
    if isinstance(one, Run):
        return (None, inner)
    kind = "@" if isinstance(one.node, XmlAttribute) else "<"
    assert isinstance(one.node, Element | XmlAttribute)
    return (one.name, kind, one.node.name, one.node.text, inner)


def matched(
    matcher: TreeMatcher, chunks: Callable[[], Iterable[bytes]], *, trusted: bool = False
) -> tuple[list[TreeResults], list[list[Shown]]]:
    """Returns the results of each pattern in document order (None if it does not match), and in the order of
    emission."""
    plan = matcher.plan
    found: list[list[tuple[tuple[int, int], Shown]]] = [[] for _ in plan.patterns]
    for output in matcher.read(chunks, trusted=trusted):
        if output is None:
            found = [[] for _ in plan.patterns]
            continue
        rows = output.rows
        at = 0
        while at < len(rows):
            pattern, _, step = (int(word) for word in rows[at][:3])
            if step < 0:
                assert rows[at][y.O_ORDINAL] == 0
                found[pattern].append(((0, 0), ()))
                at += 1
                continue
            key = (int(rows[at][y.O_ORDINAL]), step)
            one, at = _tree(matcher, output, at)
            found[pattern].append((key, one))
    gives = [bool(tp.return_names(one)) for one in plan.patterns]
    answers: list[TreeResults] = []
    for number, results in enumerate(found):
        decided = matcher.head[matcher.head[y.X_DECIDED] + number]
        if not decided:
            assert not results
            answers.append(None)
        else:
            assert gives[number] or len(results) == 1
            answers.append([one for _, one in sorted(results, key=lambda r: r[0])] if gives[number] else [])
    return answers, [[one for _, one in results] for results in found]


def _tree(matcher: TreeMatcher, output: Any, at: int) -> tuple[Shown, int]:
    _, level, number, name, begin, end, _ = (int(word) for word in output.rows[at])
    step = matcher.plan.steps[number]
    at += 1
    inner = []
    while at < len(output.rows) and output.rows[at][y.O_LEVEL] > level:
        one, at = _tree(matcher, output, at)
        inner.append(one)
    if step.returns is None:
        return (None, tuple(inner)), at
    kind = "@" if step.kind == y.ATTRIBUTE_STEP else "<"
    return (step.returns, kind, output.names(name), output.text[begin:end].decode(), tuple(inner)), at


def matcher_of(patterns: Sequence[tp.TreePattern], namespaces: Mapping[str, str] | None = None) -> TreeMatcher:
    return TreeMatcher(tree_plan(patterns, namespaces))
