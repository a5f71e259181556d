"""The paper's queries on real documents: each one has matches, and their counts equal the counts here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from perseid.semantics.trees import Results, Run
from tests.lang.test_tree_patterns import TABLE_6
from tests.semantics.real_trees import dblp_document, icepahc_document, xmark_document
from tests.semantics.tree_documents import Document

LOADERS = {"Q1": dblp_document, "Q2": icepahc_document, "Q3": xmark_document}
PART = {"Q1": 1_000, "Q2": 1_500, "Q3": None}
"""Parts of each document in the ordinary run: articles and sentences; XMark's document is small."""
WHOLE = {"Q1": None, "Q2": None, "Q3": None}

Counts = dict[str, int]
IN_PART: dict[str, Counts] = {
    "Q1.1": {}, "Q1.2": {"A": 2394}, "Q1.3": {"run": 214, "A": 214}, "Q1.4": {"run": 977, "A": 977},
    "Q1.5": {"run": 280, "A": 280},
    "Q2.1": {}, "Q2.2": {"N": 2}, "Q2.3": {"run": 2, "N": 2}, "Q2.4": {"run": 2, "N": 2}, "Q2.5": {"run": 2, "N": 2},
    "Q3.1": {}, "Q3.2": {"A": 12}, "Q3.3": {"run": 3, "A": 3}, "Q3.4": {"run": 125, "A": 125},
    "Q3.5": {"run": 3, "A": 3}, "Q3.6": {"A": 2},
}  # fmt: skip
IN_WHOLE: dict[str, Counts] = {
    **IN_PART,
    "Q1.2": {"A": 19560}, "Q1.3": {"run": 4334, "A": 4334}, "Q1.4": {"run": 7543, "A": 7543},
    "Q1.5": {"run": 5337, "A": 5337},
    "Q2.2": {"N": 3}, "Q2.3": {"run": 3, "N": 3}, "Q2.4": {"run": 3, "N": 3}, "Q2.5": {"run": 3, "N": 3},
}  # fmt: skip
"""A query without return names only matches, and has no counts."""


@cache
def document(paper_set: str, size: int | None) -> Document:
    return Document.parse(LOADERS[paper_set](size))


def kinds(results: Results) -> Iterator[str]:
    for one in results:
        yield "run" if isinstance(one, Run) else one.name
        yield from kinds(one.inner)


def count(query: str, size: Mapping[str, int | None]) -> Counts | None:
    """Returns the number of runs and of nodes of each name in a query's results, or None if the document does not
    match."""
    found = find_trees(parse_tree(TABLE_6[query]).pattern, document(query[:2], size[query[:2]]).root)
    return None if found is None else dict(Counter(kinds(found)))


@pytest.mark.parametrize("query", TABLE_6)
def test_every_query_has_matches(query: str) -> None:
    assert count(query, PART) == IN_PART[query]


def test_one_query_has_no_match_in_the_unchanged_xmark() -> None:
    as_it_is = Document.parse(xmark_document(as_is=True)).root
    found = {name: find_trees(parse_tree(text).pattern, as_it_is) for name, text in TABLE_6.items() if name[1] == "3"}
    assert [name for name, results in found.items() if results is None] == ["Q3.6"]


def test_parts_are_documents() -> None:
    assert Document.parse(dblp_document(7)).source.xpath("count(/dblp/article)") == 7
    assert len(Document.parse(icepahc_document(7)).root.children) == 7
    site = Document.parse(xmark_document(3)).source
    assert site.xpath("count(//item)") == 18
    assert {site.xpath(f"count({one})") for one in ("//person", "//open_auction", "//closed_auction")} == {3}


def test_a_sentence_of_icepahc_is_under_the_tags_of_treebank() -> None:
    sentence = Document.parse(icepahc_document(1)).root.children[0]
    tags = [one.name[1] for one in sentence.walk()]
    assert tags[:12] == ["EMPTY", "S", "NP", "EX", "VP", "VBD", "ADVP", "RB", "S", "VP", "TO", "VB"]
    # Neither lemmas nor the number of the sentence.
    assert sentence.children[0].children[0].text == "Það"
    assert "ID" not in tags


@pytest.mark.deep
@pytest.mark.parametrize("query", TABLE_6)
def test_every_query_has_matches_in_the_complete_documents(query: str) -> None:
    assert count(query, WHOLE) == IN_WHOLE[query]
