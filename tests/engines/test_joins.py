"""Subscriptions over documents: the engine against the naive evaluator, the paper's relations, and its templates."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.joins import alternatives as alternatives_module
from perseid.engines.joins import joiner as joiner_module
from perseid.engines.joins import layout as y
from perseid.engines.joins.construction import nodes_by_side
from perseid.engines.joins.entries import SubscriptionStore
from perseid.engines.joins.graph import TemplateEdge, TemplateRow, canonical_edges, rows_of
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import Joined, Joiner, Notified, merged_blocks, notified
from perseid.engines.joins.needles import Needles
from perseid.engines.joins.program import compile_chains
from perseid.engines.joins.reading import ChainReader
from perseid.engines.joins.register import IndexBuilder
from perseid.engines.joins.values import Values
from perseid.engines.trees.match_layout import ELEMENT_BITS
from perseid.lang.subscriptions import Subscription, print_subscription
from perseid.lang.xscl import parse_subscription
from perseid.reference.subscriptions import Document, Notification, notifications
from perseid.semantics.documents import ATTRIBUTE_BITS
from perseid.semantics.subscriptions import normal_forms
from tests.blocks import blocks
from tests.semantics.join_documents import element, random_documents, random_subscriptions, xml

VIEWS = {"no views": y.NO_VIEWS, "shared views": y.SHARED, "cached views": y.CACHED}
FAST = os.environ.get("PERSEID_NUMBA", "1") != "0"


def subscribed(given: Mapping[str, Subscription], by_text: bool = False) -> Subscriptions:
    made = Subscriptions(Values())
    if by_text:
        IndexBuilder(made).add({name: print_subscription(one) for name, one in given.items()})
        return made
    for name, one in given.items():
        made.add((name, row) for related in normal_forms(one) for row in rows_of(related))
    return made


def found(
    given: Mapping[str, Subscription],
    documents: Sequence[Document],
    views: int,
    cuts: Sequence[int] = (),
    by_text: bool = False,
    joiner: Joiner | None = None,
) -> Counter[Notification]:
    """Returns the notifications of the engine for documents that arrive in several calls."""
    joiner = joiner or Joiner(subscribed(given, by_text), views)
    subscriptions = joiner.subscriptions
    reader = ChainReader(compile_chains(list(subscriptions.chains)))
    received: Counter[Notification] = Counter()
    for begin, end in zip([0, *cuts], [*cuts, len(documents)], strict=True):
        some = documents[begin:end]
        bindings, refused = reader.read(
            pa.array([xml(one.root) for one in some], pa.string()), [one.stream for one in some]
        )
        assert not refused
        joined = joiner.add(np.array([one.time for one in some], np.int64), bindings)
        received.update(as_notification(documents, one) for one in notified(joined, subscriptions))
    return received


def as_notification(documents: Sequence[Document], one: Notified) -> Notification:
    pair = (documents[number].id for number in ((one.newer, one.older) if one.row.swapped else (one.older, one.newer)))
    return Notification(one.owner, *pair, nodes_by_side(one.row, one.nodes))


def check(seed: int) -> int:
    chance = random.Random(seed)
    given = random_subscriptions(chance)
    documents = random_documents(chance)
    cuts = sorted(chance.sample(range(len(documents) + 1), chance.randrange(3)))
    due = notifications(given, documents)
    received = found(given, documents, seed % len(VIEWS), cuts, by_text=seed % 2 == 1)
    assert set(received) == due, f"seed {seed}"
    assert all(many == 1 for many in received.values()), f"seed {seed}: emitted twice"
    return len(due)


def test_numbers_of_nodes_are_the_matcher_s() -> None:
    assert ATTRIBUTE_BITS == ELEMENT_BITS


@pytest.mark.parametrize("block", blocks(1, 5))
def test_random_subscriptions_and_documents(block: int) -> None:
    many = 100 if FAST else 5
    assert sum(check(seed) for seed in range(block * many, (block + 1) * many)) > (20 if FAST else -1)


@pytest.mark.deep
@pytest.mark.parametrize("block", range(60))
def test_random_subscriptions_and_documents_deep(block: int) -> None:
    assert sum(check(seed) for seed in range(10_000 + block * 500, 10_500 + block * 500)) > 200


def test_subscriptions_added_and_removed_between_documents() -> None:
    """An added subscription matches all retained documents; a removed one produces no more notifications."""
    chance = random.Random(4)
    given: dict[str, Subscription] = {}
    while len(given) < 60:
        more = random_subscriptions(chance, 80).values()
        given |= {f"s{len(given) + i}": one for i, one in enumerate(more)}
    documents = [one for _ in range(4) for one in random_documents(chance)]
    documents = [Document(i, i, one.stream, one.root) for i, one in enumerate(documents)]
    names = list(given)
    late, gone = names[::3], set(names[1::3])
    everything = subscribed(given)
    subscriptions = Subscriptions(Values())
    for chain in everything.chains:
        subscriptions.chain(chain)  # documents are read for all chains from the start
    reader, joiner = ChainReader(compile_chains(list(everything.chains))), Joiner(subscriptions)
    register = IndexBuilder(subscriptions)
    register.add({name: print_subscription(given[name]) for name in names if name not in late})
    received: set[Notification] = set()
    half = len(documents) // 2
    for begin, end in ((0, half), (half, len(documents))):
        some = documents[begin:end]
        bindings, _ = reader.read(pa.array([xml(one.root) for one in some]), [one.stream for one in some])
        joined = joiner.add(np.array([one.time for one in some], np.int64), bindings)
        received |= {as_notification(documents, one) for one in notified(joined, subscriptions)}
        if begin == 0:
            register.add({name: print_subscription(given[name]) for name in late})
            assert subscriptions.remove(gone) >= len(gone)
            assert subscriptions.remove(gone) == 0
            joiner.changed()
    due = {
        one
        for one in notifications(given, documents)
        if (one.subscription not in late or max(one.left, one.right) >= half)
        and (one.subscription not in gone or max(one.left, one.right) < half)
    }
    assert received == due
    assert {one.subscription for one in due} & set(late)
    assert {one.subscription for one in due} & gone


def test_documents_outside_all_windows_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.engines.joins.joiner.MIN_EVICTED_DOCUMENTS", 2)
    chance = random.Random(8)
    given: dict[str, Subscription] = {}
    while len(given) < 30:
        more = random_subscriptions(chance, 80).values()
        given |= {f"s{len(given) + i}": one for i, one in enumerate(more) if one.source.window == 5_000_000}
    documents = [one for _ in range(8) for one in random_documents(chance)]
    documents = [Document(i, i * 1_000_000, one.stream, one.root) for i, one in enumerate(documents)]
    received = found(given, documents, y.CACHED, cuts=range(1, len(documents), 2))
    assert set(received) == notifications(given, documents)
    assert max(one.left for one in received) > len(documents) // 2


def test_value_index_over_many_documents_is_built_on_first_lookup() -> None:
    """The index of a value is built at its first lookup, over more documents than there were indexes before."""
    given = {"q": parse_subscription("S//book/a->x FOLLOWED BY{x = y, forever} S//blog/a->y")}
    books = [Document(i, i, "S", element("book", element("a", "1"))) for i in range(1500)]
    wide = element("blog", *(element("a", str(i)) for i in range(1500)))
    received = found(given, [*books, Document(1500, 1500, "S", wide)], y.CACHED)
    assert len(received) == 1500
    assert not found(given, [Document(0, 0, "S", wide)], y.CACHED)


@pytest.mark.parametrize("view_bytes", [0, 12, 200, 1_000])
def test_cached_views_stay_within_the_byte_limit(view_bytes: int) -> None:
    dropped = 0
    for seed in range(40 if FAST else 2):
        chance = random.Random(seed)
        given, documents = random_subscriptions(chance), [one for _ in range(6) for one in random_documents(chance)]
        documents = [Document(i, i, one.stream, one.root) for i, one in enumerate(documents)]
        joiner = Joiner(subscribed(given), view_bytes=view_bytes)
        cuts = range(5, len(documents), 5)
        assert found(given, documents, y.CACHED, cuts, joiner=joiner) == found(given, documents, y.SHARED)
        assert joiner.view_bytes <= view_bytes
        dropped += joiner.views_dropped
    assert not FAST or (dropped > 0) == (view_bytes > 0)


@pytest.mark.parametrize("names", [["a", "b", "é\ud800", "", "b"], [3, -1, 2, 0, -1], ["a", 1, ("x", 2), 1.0, 1 << 70]])
def test_subscription_store_selects_entries_by_id(names: list[Any]) -> None:
    row, other = (subscribed_row(text) for text in TABLE_2.values() if "x3" in text or "x7" in text)
    entries = SubscriptionStore()
    assert list(entries) == []
    assert entries.are({"a"}).tolist() == []
    entries.extend(names[:2], [row, other])
    entries.extend([], [])
    entries.extend(names[2:], [row] * 3)
    assert len(entries) == 5
    assert list(entries) == [(name, other if i == 1 else row) for i, name in enumerate(names)]
    assert entries[1] == (names[1], other)
    with pytest.raises(IndexError):
        entries[5]
    for ids in ({names[1]}, set(names[2:]), {"no one", 7}, {1.0, *names[:1]}, set()):
        assert entries.are(ids).tolist() == [name in ids for name in names]
    entries.extend([("another", "kind")], [other])
    assert [name for name, _ in entries] == [*names, ("another", "kind")]


def subscribed_row(text: str) -> TemplateRow:
    ((_, row),) = subscribed({"one": parse_subscription(text)}).numbers
    return row


def test_needles_are_those_that_a_text_contains() -> None:
    chance = random.Random(2)
    for _ in range(200 if FAST else 10):
        needles = list(
            {"".join(chance.choices("abé", k=chance.randrange(1, 5))) for _ in range(chance.randrange(1, 12))}
        )
        texts = ["".join(chance.choices("abé", k=chance.randrange(0, 12))) for _ in range(chance.randrange(1, 9))]
        counts, found = Needles(needles).contained(texts)
        at = np.concatenate([[0], np.cumsum(counts)])
        for i, text in enumerate(texts):
            own = [needles[n] for n in found[at[i] : at[i + 1]]]
            assert sorted(own) == sorted(needle for needle in needles if needle in text)


def test_equivalent_subscriptions_share_one_template() -> None:
    texts = {
        "a": "S//i->a[/x->x][/y->y] FOLLOWED BY{x = p AND y = q, 1 day} S//i->b[/x->p][/y->q]",
        "b": "S//i->r[/y->s][/x->t] FOLLOWED BY{s = v AND t = u, 2 days} S//i->w[/x->u][/y->v]",
        "c": "S//i->r[/y->s][/x->t] FOLLOWED BY{v = s AND t = u, 2 days} S//i->w[/x->u][/y->v]",
    }
    made = Subscriptions(Values())
    IndexBuilder(made).add(texts)
    index = made.compiled()
    (group,) = np.flatnonzero(index.ends[:, 1] > index.ends[:, 0])
    assert [whose for whose, _ in made.subscriptions_of(group, 3, index)] == ["b", "c", "a"]


def test_forty_equalities_are_ordered_in_bounded_time() -> None:
    """Forty equalities have too many orders to enumerate: they still match, and equal texts share one template."""
    names = range(40)
    left, right = ("".join(f"[/l{i}->{side}{i}]" for i in names) for side in "xy")
    equal = " AND ".join(f"x{i} = y{i}" for i in names)
    text = f"S//i->a{left} FOLLOWED BY{{{equal}, 1 day}} S//i->b{right}"
    given = {"one": parse_subscription(text), "two": parse_subscription(text)}
    root = element("i", *(element(f"l{i}", str(i)) for i in names))
    received = found(given, [Document(0, 0, "S", root), Document(1, 1, "S", root)], y.CACHED)
    assert sorted(one.subscription for one in received) == ["one", "two"]
    assert len(subscribed(given).templates) == 1


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS)
def test_condition_that_holds_in_two_ways_notifies_once(views: int) -> None:
    given = {"q": parse_subscription("S//b->x JOIN{x = y AND z contains '1', forever} S//a->z//b->y")}
    nested = element("a", element("a", element("b", "1")))
    received = found(given, [Document(0, 0, "S", element("b", "1")), Document(1, 1, "S", nested)], views)
    assert list(received.values()) == [1]


# The paper's running example

D1 = element(
    "book",
    element("publisher"),
    element("author", "Danny Ayers"),
    element("author", "Andrew Watt"),
    element("title", "Beginning RSS and Atom Programming"),
    element("category", "Scripting & Programming"),
    element("category", "Web Site Development"),
)
D2 = element(
    "blog",
    element("url"),
    element("author", "Danny Ayers"),
    element("title", "Beginning RSS and Atom Programming"),
    element("category", "Book Announcement"),
    element("category", "Scripting & Programming"),
)
TABLE_2 = {
    "Q1": "S//book->x1[.//author->x2][.//title->x3] FOLLOWED BY{x2=x5 AND x3=x6, 1 day} "
    "S//blog->x4[.//author->x5][.//title->x6]",
    "Q2": "S//book->x1[.//author->x2][.//category->x7] FOLLOWED BY{x2=x5 AND x7=x8, 2 days} "
    "S//blog->x4[.//author->x5][.//category->x8]",
    "Q3": "S//blog->x4[.//author->x5][.//title->x6] FOLLOWED BY{x5=x5p AND x6=x6p, 3 days} "
    "S//blog->x4p[.//author->x5p][.//title->x6p]",
}
NAMES = {
    "//book->n0//author->n1": ("x1", "x2"),
    "//book->n0//title->n1": ("x1", "x3"),
    "//book->n0//category->n1": ("x1", "x7"),
    "//blog->n0//author->n1": ("x4", "x5"),
    "//blog->n0//title->n1": ("x4", "x6"),
    "//blog->n0//category->n1": ("x4", "x8"),
}


def test_table_4() -> None:
    """Every relation of the paper's Table 4, row by row: nodes are numbered from 0 there."""
    subscriptions = subscribed({name: parse_subscription(text) for name, text in TABLE_2.items()})
    assert len(subscriptions.templates) == 1
    reader, joiner = ChainReader(compile_chains(list(subscriptions.chains))), Joiner(subscriptions)
    variables = [NAMES[chain.tree] for chain in subscriptions.chains]

    # (a) RT
    rt = set()
    for name, row in subscriptions.numbers:
        chains = [
            (variables[subscriptions.chain(a.older)], variables[subscriptions.chain(a.newer)]) for a in row.edge_chains
        ]
        ((v1, v2), (v4, v5)), ((_, v3), (_, v6)) = chains
        rt.add((name, v1, v2, v3, v4, v5, v6, row.window // (24 * 3600 * 1_000_000)))
    assert rt == {
        ("Q1", "x1", "x2", "x3", "x4", "x5", "x6", 1),
        ("Q2", "x1", "x2", "x7", "x4", "x5", "x8", 2),
        ("Q3", "x4", "x5", "x6", "x4", "x5", "x6", 3),
    }

    def relations(document: int) -> tuple[set[tuple[object, ...]], set[tuple[object, ...]]]:
        texts = subscriptions.values.texts
        doc, bin_ = set(), set()
        begin, end = joiner.documents[document].tolist()
        for chain, value, at in joiner.rows[begin:end].tolist():
            above, node = ((int(n) >> ELEMENT_BITS) - 1 for n in joiner.nodes[at : at + 2])
            doc.add((node, texts[value]))
            bin_.add((*variables[chain], above, node))
        return doc, bin_

    for root, time in ((D1, 0), (D2, 3600_000_000)):
        bindings, _ = reader.read(pa.array([xml(root)]), ["S"])
        joined = joiner.add(np.array([time]), bindings)
    # (b) and (c): Rdoc and Rbin after d1, (d) and (e): RdocW and RbinW of d2. The root's own text is compared with nothing.
    assert relations(0) == (
        {
            (2, "Danny Ayers"),
            (3, "Andrew Watt"),
            (4, "Beginning RSS and Atom Programming"),
            (5, "Scripting & Programming"),
            (6, "Web Site Development"),
        },
        {("x1", "x2", 0, 2), ("x1", "x2", 0, 3), ("x1", "x3", 0, 4), ("x1", "x7", 0, 5), ("x1", "x7", 0, 6)},
    )
    assert relations(1) == (
        {
            (2, "Danny Ayers"),
            (3, "Beginning RSS and Atom Programming"),
            (4, "Book Announcement"),
            (5, "Scripting & Programming"),
        },
        {("x4", "x5", 0, 2), ("x4", "x6", 0, 3), ("x4", "x8", 0, 4), ("x4", "x8", 0, 5)},
    )
    # (f) RoutT
    out = {
        (one.owner, one.older, *((node >> ELEMENT_BITS) - 1 for node in one.nodes))
        for one in notified(joined, subscriptions)
    }
    assert out == {("Q1", 0, 0, 2, 4, 0, 2, 3), ("Q2", 0, 0, 2, 5, 0, 2, 5)}


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS)
def test_windows_decide(views: int) -> None:
    given = {name: parse_subscription(text) for name, text in TABLE_2.items()}
    day = 24 * 3600 * 1_000_000
    for apart, due in ((0, []), (1, ["Q1", "Q2"]), (day, ["Q1", "Q2"]), (day + 1, ["Q2"]), (2 * day + 1, [])):
        documents = [Document(0, 0, "S", D1), Document(1, apart, "S", D2)]
        assert sorted(one.subscription for one in found(given, documents, views)) == due


# Templates


def shapes(leaves: Sequence[int]) -> Iterator[frozenset[frozenset[int]]]:
    """Yields every tree over some leaves with at least two children per inner node, as the leaf sets of its inner
    nodes."""
    if len(leaves) == 1:
        yield frozenset()
        return
    whole = frozenset(leaves)
    for parts in partitions(list(leaves)):
        if len(parts) > 1:
            for below in product(*(list(shapes(part)) for part in parts)):
                yield frozenset({whole}).union(*below)


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, *rest = items
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            left = [one for one in rest if one not in others]
            for more in partitions(left):
                yield [[first, *others], *more]


def templates(joins: int, flat: bool) -> set[tuple[TemplateEdge, ...]]:
    """Every template of so many equalities: which share a leaf, and how the leaves of a side hang together."""
    made = set()
    for left, right in product(partitions(list(range(joins))), repeat=2):
        ends = [
            (next(i for i, part in enumerate(left) if e in part), next(i for i, part in enumerate(right) if e in part))
            for e in range(joins)
        ]
        if len(set(ends)) < joins:
            continue
        trees = []
        for part in (left, right):
            whole = frozenset(range(len(part)))
            root = frozenset({whole}) if len(part) > 1 else frozenset()
            trees.append([root] if flat else list(shapes(list(range(len(part))))))
        for shape in product(*trees):
            chains = [
                tuple(
                    (*(sorted((node for node in side if end in node), key=lambda node: -len(node))), frozenset({end}))
                    for end, side in zip(pair, shape, strict=True)
                )
                for pair in ends
            ]
            made.add(canonical_edges(chains))
    return made


@pytest.mark.parametrize(
    ("flat", "counts"), [(True, (1, 3, 6, 16)), (False, (1, 3, 16, 215))], ids=["flat schema", "any schema"]
)
def test_the_number_of_templates(flat: bool, counts: tuple[int, ...]) -> None:
    """The paper's Table 3, and Figure 6's sixteen; for four joins in any schema it says fewer than 230."""
    assert tuple(len(templates(joins, flat)) for joins in (1, 2, 3, 4)) == counts


# OR: one notification for what several alternatives find

OR_CASES = {
    "constants": (
        "S//book[/author->x] FOLLOWED BY{x = y AND (x = 'A' OR y = 'A'), 1 hour} S//blog[/author->y]",
        [element("book", element("author", "A")), element("blog", element("author", "A"))],
        1,
    ),
    "two names of one node": (
        "S//book[/author->x2][/author->x3] FOLLOWED BY{x2 = y OR x3 = y, 1 hour} S//blog[/author->y]",
        [element("book", element("author", "A")), element("blog", element("author", "A"))],
        1,
    ),
    "two nodes": (
        "S//book[/author->x2][/author->x3] FOLLOWED BY{x2 = y OR x3 = y, 1 hour} S//blog[/author->y]",
        [element("book", element("author", "A"), element("author", "A")), element("blog", element("author", "A"))],
        2,
    ),
    "the same constant twice": (
        "S//book[/author->x] FOLLOWED BY{x = y AND (x = 'A' OR x = 'A'), 1 hour} S//blog[/author->y]",
        [element("book", element("author", "A")), element("blog", element("author", "A"))],
        1,
    ),
    "nodes of different blocks with the same numbers": (
        "S//r[/a->a][/b->b] FOLLOWED BY{a = v AND b = w OR a = v AND a = w OR a = v, 1 hour} S//r[/a->v][/b->w]",
        [element("r", element("a", "A"), element("b", "A")), element("r", element("a", "A"), element("b", "A"))],
        3,
    ),
    "either order": (
        "S//book[/author->x] JOIN{x = y AND (x = 'A' OR y = 'A'), 1 hour} S//book[/author->y]",
        [element("book", element("author", "A")), element("book", element("author", "A"))],
        2,
    ),
}


@pytest.mark.parametrize("by_text", [False, True])
@pytest.mark.parametrize("case", OR_CASES)
def test_alternatives_that_find_the_same_nodes_are_one_notification(case: str, by_text: bool) -> None:
    text, roots, due = OR_CASES[case]
    documents = [Document(i, i, "S", root) for i, root in enumerate(roots)]
    given = {"q": parse_subscription(text)}
    received = found(given, documents, y.CACHED, by_text=by_text)
    assert set(received) == notifications(given, documents)
    assert sum(received.values()) == len(received) == due


BLOCKS_OR = "S//r[/a->x] JOIN{x = y AND (x = 'A' OR y = 'A'), 1 hour} S//r[/a->y]"
BLOCKS_PLAIN = "S//r[/a->x] FOLLOWED BY{x = y, 1 hour} S//r[/a->y]"


def blocks_documents(count: int) -> list[Document]:
    """Documents of which each pairs with all before it, by both alternatives of ``BLOCKS_OR``."""
    roots = [element("r", element("a", "A"), element("a", str(n % 2)), element("b", "A")) for n in range(count)]
    return [Document(n, n, "S", root) for n, root in enumerate(roots)]


def joined_at_once(texts: Mapping[str, str], documents: Sequence[Document]) -> tuple[Joined, Subscriptions]:
    subscriptions = subscribed({name: parse_subscription(text) for name, text in texts.items()})
    reader = ChainReader(compile_chains(list(subscriptions.chains)))
    bindings, _ = reader.read(pa.array([xml(one.root) for one in documents]), [one.stream for one in documents])
    return Joiner(subscriptions).add(np.array([one.time for one in documents], np.int64), bindings), subscriptions


@pytest.mark.parametrize("block", [1, 3, 10])
def test_alternatives_are_merged_across_blocks_of_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner_module, "BLOCK", block)
    documents = blocks_documents(7)
    given = {
        "or": parse_subscription(BLOCKS_OR),
        "plain": parse_subscription(BLOCKS_PLAIN),
        **{name: parse_subscription(text) for name, (text, _, _) in OR_CASES.items()},
    }
    received = found(given, documents, y.CACHED)
    assert set(received) == notifications(given, documents)
    assert sum(received.values()) == len(received) > 50


def test_merged_block_has_no_more_rows_than_a_block_and_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner_module, "BLOCK", 8)
    joined, subscriptions = joined_at_once({"or": BLOCKS_OR, "plain": BLOCKS_PLAIN}, blocks_documents(12))
    blocks = [block.joined.rows for block in merged_blocks(joined, subscriptions)]
    assert np.array_equal(np.concatenate(blocks), joined.rows)
    of_document = Counter(joined.rows[:, y.O_NEWER].tolist())
    newer = [set(rows[:, y.O_NEWER].tolist()) for rows in blocks]
    assert len(blocks) > 3
    assert all(not one & other for one, other in combinations(newer, 2))
    assert all(len(rows) < 8 + max(of_document[one] for one in some) for rows, some in zip(blocks, newer, strict=True))


def test_nodes_are_compared_only_for_pairs_that_several_alternatives_find(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counted(row: TemplateRow, nodes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        compared.append(len(nodes))
        return nodes_by_side(row, nodes)

    monkeypatch.setattr(alternatives_module, "nodes_by_side", counted)
    text = "S//r[/a->x] FOLLOWED BY{x = y AND (x = 'A' OR x = 'B'), 1 hour} S//r[/a->y]"
    for roots, due, expected in (
        ([element("r", element("a", value)) for value in ("A", "B", "A", "B")], 2, 0),
        ([element("r", element("a", "A"), element("a", "B")) for _ in range(2)], 2, 2),
    ):
        documents = [Document(n, n, "S", root) for n, root in enumerate(roots)]
        joined, subscriptions = joined_at_once({"or": text}, documents)
        compared.clear()
        assert len(list(notified(joined, subscriptions))) == due
        assert len(compared) == expected
