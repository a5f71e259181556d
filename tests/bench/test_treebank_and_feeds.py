"""The generated sentences and feeds of the benchmarks are well formed, deterministic, and shaped like real ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO

import pytest
from lxml import etree

from bench.trees import feeds as made
from bench.trees.feeds import feeds, items
from bench.trees.treebank import treebank
from perseid.engines.trees.judge import validate
from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from tests.lang.test_tree_patterns import TABLE_6
from tests.semantics.tree_documents import Document

# Percentage of elements in the sentences of IcePaHC, by tag used in the queries.
SHARES = {
    "NP": 16.9, "S": 8.1, "IN": 7.3, "VP": 7.2, "PRP": 5.1, "PP": 5.0, "NN": 4.9, "VBD": 3.9, "ADVP": 3.3, "RB": 3.2,
    "SBAR": 2.9, "DT": 2.2, "VBP": 1.7, "JJ": 1.6, "CD": 1.5, "VB": 1.5, "VBN": 1.1, "CONJP": 1.1,
}  # fmt: skip


@cache
def sentences() -> bytes:
    return b"".join(treebank(600_000))


@cache
def bank() -> Document:
    return Document.parse(sentences())


def depths(document: bytes) -> Iterator[int]:
    depth = 0
    for event, _ in etree.iterparse(BytesIO(document), events=("start", "end"), huge_tree=True):
        depth += 1 if event == "start" else -1
        if event == "start":
            yield depth


def test_sentences_have_the_tag_shares_of_real_ones() -> None:
    root = bank().root
    found = Counter(one.name[1] for one in root.walk())
    shares = {tag: 100 * found[tag] / found.total() for tag in SHARES}
    assert {tag: share for tag, share in shares.items() if abs(share - SHARES[tag]) > 0.15 * SHARES[tag] + 0.4} == {}
    assert 18 < found.total() / found["EMPTY"] < 33  # 28.5 in a real sentence
    inner = [len(one.children) for one in root.walk() if one.children and one is not root]
    assert abs(sum(inner) / len(inner) - 2.08) < 0.2


def test_sentences_have_the_depth_of_real_ones_or_a_requested_depth() -> None:
    found = list(depths(sentences()))
    assert abs(sum(found) / len(found) - 1 - 6.6) < 0.7
    assert max(found) > 25
    deep = b"".join(treebank(200_000, deep=900))
    validate([deep])
    assert 900 < max(depths(deep)) < 1_000


@pytest.mark.parametrize("query", [name for name in TABLE_6 if name.startswith("Q2")])
def test_queries_on_sentences_have_matches(query: str) -> None:
    assert find_trees(parse_tree(TABLE_6[query]).pattern, bank().root) is not None


def test_sentences_are_deterministic_at_any_size() -> None:
    assert 600_000 <= len(sentences()) < 630_000
    # A large document begins with the same sentences, so its first part is available without generating the rest.
    first = next(treebank(86_000_000))
    assert sentences().startswith(first)
    assert next(treebank(86_000_000, seed=4)) != first


def test_items_have_five_leaves_and_zipf_distributed_channels() -> None:
    moments, channels, titles = [], Counter[str](), Counter[str]()
    for document in items(2_000):
        item = etree.fromstring(document)
        assert [leaf.tag for leaf in item] == ["item_url", "channel_url", "title", "timestamp", "description"]
        assert all(leaf.text for leaf in item)
        moments.append(item.findtext("timestamp"))
        channels[item.findtext("channel_url")] += 1
        titles[item.findtext("title")] += 1
    assert moments == sorted(moments)
    assert ("2006-06-01", "2006-10") < (moments[0][:10], moments[-1]) < ("2006-06-02", "2006-12")
    assert len(channels) > 0.85 * made.CHANNELS
    assert channels.most_common(1)[0][1] > 5 * 2_000 / made.CHANNELS
    assert 0.1 < 1 - len(titles) / 2_000 < 0.3  # titles that several channels share


def test_feeds_are_rss_and_atom_in_their_namespaces() -> None:
    names = {"atom": made.ATOM, "dc": made.DUBLIN_CORE, "content": made.CONTENT}
    kinds = Counter[str]()
    for document in feeds(200):
        validate([document])
        feed = etree.fromstring(document)
        kinds[feed.tag] += 1
        count = feed.xpath("count(channel/item) + count(atom:entry)", namespaces=names)
        assert 1 <= count <= 10
        if feed.tag == "rss":
            assert feed.xpath("count(channel/item[title and link and pubDate and description])") == count
            assert feed.xpath("count(channel/item/dc:creator)", namespaces=names) == count
            assert feed.xpath("string(//content:encoded)", namespaces=names).startswith("<p>")
        else:
            assert feed.xpath("count(atom:entry[atom:title and atom:updated]/atom:link)", namespaces=names) == count
    assert set(kinds) == {"rss", f"{{{made.ATOM}}}feed"}
    assert min(kinds.values()) > 40


@pytest.mark.parametrize("make", [items, feeds])
def test_feeds_are_deterministic(make: Callable[..., Iterator[bytes]]) -> None:
    assert list(make(50)) == list(make(50))
    assert list(make(50)) != list(make(50, seed=12))
