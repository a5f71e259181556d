"""explain() of tree patterns: a description in words, and on request the automaton rules."""

from __future__ import annotations

import pytest

from perseid.engines.trees.explain import explain_tree
from perseid.lang.tree_parser import parse_tree


@pytest.mark.parametrize(
    ("tree", "description"),
    [
        (
            "//order->order[/@no->no][/total > 100][. != 'x']",
            "any order (->order) that has an attribute no (->no) and has a child total > 100 and has text != 'x'",
        ),
        ("//a:entry/a:title->title", "any a:entry; in it, a child a:title (->title)"),
        ("/feed[2]//*[last()]", "the root feed that is number 2 of the siblings with its name; in it, a descendant that is the last of the siblings with its name"),
        ("//article[/year](/author->author+:/title)", "any article that has a child year and has children as /author->author+:/title"),
        ("//a[/b/c = 'x'][/d|/e]", "any a that has /b/c = 'x' and has children as /d|/e"),
        ("//*//@no", "any element; in it, an attribute no (of the element or a descendant)"),
        ("//@no->no", "any attribute no (->no)"),
        ("/a|/b", "the root as /a|/b"),
    ],
)  # fmt: skip
def test_tree_pattern_is_described_in_words(tree: str, description: str) -> None:
    explained = explain_tree("t", parse_tree(tree).pattern).splitlines()
    assert explained[:2] == ["tree t", f"  matches: {description}"]


def test_rules_are_shown_on_request() -> None:
    pattern = parse_tree("//a[/x->x](/b:/c*)").pattern
    short, long = explain_tree("t", pattern), explain_tree("t", pattern, rules=True)
    assert [line.split(":")[0].strip() for line in short.splitlines()[1:]] == ["matches", "engine", "emits", "state"]
    assert "emits: x of each result" in short
    assert long.startswith(short)
    for line in ("  rules:", "    q1: matches step 1", "fa1"):
        assert line in long
        assert line not in short
