"""The results that SELECT constructs of a pair: worked by hand, and against the exhaustive oracle."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest

import perseid as ps
from perseid.engines.joins.selection import built
from perseid.lang.xscl import parse_subscription
from perseid.reference.subscriptions import Document, notifications, results
from perseid.semantics.documents import Element
from tests.semantics.join_documents import RandomSubscription, element, random_documents
from tests.semantics.tree_documents import Document as Parsed

BOOK = (
    "<book><authors><author>Danny Ayers</author><author>Andrew Watt</author></authors>"
    "<title>Beginning RSS and Atom Programming</title><category>Scripting &amp; Programming</category></book>"
)
BLOG = (
    "<blog><url>http://dannyayers.com/</url><author>Danny Ayers</author>"
    "<title>Beginning RSS and Atom Programming</title><category>Book Announcement</category></blog>"
)
Q1 = (
    "S//book->x1[.//author->x2][.//title->x3] FOLLOWED BY{x2=x5 AND x3=x6, 1 day} "
    "S//blog->x4[.//author->x5][.//title->x6]"
)


def root(text: str) -> Element:
    return Parsed.parse(text).root


def constructed(text: str, left: str, right: str, namespaces: dict[str, str] | None = None) -> list[str]:
    """Returns the oracle's results in the order of the nodes; asserts that the construction is equal."""
    subscription = parse_subscription(text)
    documents = [Document(0, 0, "S", root(left)), Document(1, 1_000_000, "S", root(right))]
    found = results({"q": subscription}, documents, namespaces)
    roots = {one.id: one.root for one in documents}
    for one, result in found.items():
        ElementTree.fromstring(result)
        assert built(subscription, roots[one.left], roots[one.right], one.nodes, namespaces) == result
    return [found[one] for one in sorted(found, key=lambda one: (one.left, one.right, one.nodes))]


def test_the_paper_s_first_query_by_default() -> None:
    """A new root, and the root element nodes of the two blocks its children (Section 2)."""
    assert constructed(Q1, BOOK, BLOG) == [f"<result>{BOOK}{BLOG}</result>"]
    assert constructed("SELECT * FROM " + Q1, BOOK, BLOG) == [f"<result>{BOOK}{BLOG}</result>"]


def test_the_paper_s_first_query_with_select() -> None:
    """x2 is the author that was equal, not the other author."""
    result = constructed('SELECT <hit by="{x5}"><of>{x2}</of>{x3}</hit> FROM ' + Q1, BOOK, BLOG)
    title = "<title>Beginning RSS and Atom Programming</title>"
    assert result == [f'<hit by="Danny Ayers"><of><author>Danny Ayers</author></of>{title}</hit>']


def test_variables_without_a_comparison_return_all_nodes() -> None:
    text = "S//i->a[/k->k][/p->p][/t->t] JOIN{{k = l AND {}, forever}} S//j->b[/k->l][/q->q]"
    left = "<r><i><k>1</k><p>3</p><p>7</p><t>a</t><t>b</t></i><i><k>2</k><p>1</p><t>c</t></i></r>"
    right = "<j><k>1</k><q>2</q><q>5</q></j>"
    select = "SELECT <m>{p}|{q}|{t}</m> FROM "
    assert constructed(select + text.format("p > 0"), left, right) == [
        "<m><p>3</p><p>7</p>|<q>2</q><q>5</q>|<t>a</t><t>b</t></m>"
    ]
    assert constructed(select + text.format("p > 5"), left, right) == [
        "<m><p>7</p>|<q>2</q><q>5</q>|<t>a</t><t>b</t></m>"
    ]
    assert constructed(select + text.format("p < q"), left, right) == ["<m><p>3</p>|<q>5</q>|<t>a</t><t>b</t></m>"]
    assert constructed(select + text.format("p < q AND p > 4"), left, right) == []


@pytest.mark.parametrize(
    ("select", "predicate", "result"),
    [
        ("SELECT <m>{p}{q}</m> FROM ", "x = y", "<m><y>2</y><y>3</y><y>4</y></m>"),
        ("SELECT <m>{p}</m> FROM ", "x = y AND p > 2", "<m><y>3</y></m>"),
        ('SELECT <m a="{p}">{x}</m> FROM ', "x = y", '<m a="2 3"><x>1</x></m>'),
        ("", "x = y", "<result><i><x>1</x><y>2</y><y>3</y></i><i><x>1</x><y>4</y></i></result>"),
    ],
)
def test_the_table_of_the_semantics(select: str, predicate: str, result: str) -> None:
    text = f"{select}S//i->a[/x->x][/y->p] FOLLOWED BY{{{predicate}, 1 hour}} S//i->b[/x->y][/y->q]"
    assert constructed(text, "<i><x>1</x><y>2</y><y>3</y></i>", "<i><x>1</x><y>4</y></i>") == [result]


def test_paths_end_where_a_default_result_begins() -> None:
    text = "S//r/i->a[/k->k] JOIN{k = l, forever} S//j/@l->l"
    assert constructed(text, "<r>x<i><k>1</k></i></r>", '<j l="1"/>') == ["<result><i><k>1</k></i>1</result>"]


def test_attributes_and_runs() -> None:
    text = "SELECT <m a='{p}'>{p}{c}</m> FROM S//i->a[/k->k][//@p->p](/c->c+) JOIN{k = l, forever} S//j->l"
    left = '<i p="&lt;1"><k>1</k><c>&amp;</c><c p="2&quot;"/></i>'
    assert constructed(text, left, "<j>1</j>") == ['<m a="&lt;1 2&quot;">&lt;1 2"<c>&amp;</c><c p="2&quot;"/></m>']


def test_namespaces() -> None:
    text = (
        "SELECT <o:m xmlns:o='urn:o' o:k='1' xml:lang='en'><x>{i}</x></o:m> "
        "FROM S//f:i->i[/f:k->k] JOIN{k = l, forever} S//j->l"
    )
    left = '<f:i xmlns:f="urn:f" f:a="1" b="2"><f:k>1</f:k><p xmlns="urn:p"/><q/></f:i>'
    assert constructed(text, left, "<j>1</j>", {"f": "urn:f"}) == [
        '<m xmlns="urn:o" xmlns:n1="urn:o" n1:k="1" xml:lang="en"><x xmlns=""><i xmlns="urn:f" xmlns:n1="urn:f" n1:a="1" b="2">'
        '<k>1</k><p xmlns="urn:p"/><q xmlns=""/></i></x></m>'
    ]


def test_braces_and_white_space() -> None:
    text = 'SELECT <m a="x&#10;{l}">{{{ k }}} &#123;k}}\r\t</m> FROM S//i[/k->k] JOIN{k = l, forever} S//j->l'
    assert constructed(text, "<i><k>1</k></i>", "<j>1</j>") == ['<m a="x&#10;1">{<k>1</k>} {k}\n\t</m>']


def test_deep_documents_are_copied() -> None:
    deep = "<a>" * 200 + "1" + "</a>" * 200
    (result,) = constructed(
        "SELECT <m>{i}</m> FROM S/i->i[/k->k] JOIN{k = l, forever} S//j->l", f"<i><k>1</k>{deep}</i>", "<j>1</j>"
    )
    assert result == f"<m><i><k>1</k>{deep}</i></m>"


def test_results_have_an_end() -> None:
    one = element("a", "1" * 100_000)
    for _ in range(800):
        one = element("a", one)
    text = "SELECT <m>{c}</m> FROM S/a->a[//a->c] JOIN{a = b, forever} S//b->b"
    with pytest.raises(ps.errors.UnsupportedError, match="million characters"):
        built(parse_subscription(text), one, element("b", "1" * 100_000), ((1 << 14,), (1 << 14,)))


def check(seed: int) -> int:
    chance = random.Random(seed)
    random_one = RandomSubscription(chance)
    text = random_one.text()
    named = "".join(f"<{name}>{{{name}}}</{name}>" for name in random_one.names)
    select = chance.choice(["", f"SELECT <m>{named}</m> FROM "])
    try:
        subscription = parse_subscription(select + text)
        documents = random_documents(chance)[:5]
        found = results({"q": subscription}, documents)
    except ps.PerseidError:
        return 0
    assert set(found) == notifications({"q": subscription}, documents), f"seed {seed}"
    roots = {one.id: one.root for one in documents}
    for one, result in found.items():
        assert built(subscription, roots[one.left], roots[one.right], one.nodes) == result, f"seed {seed}"
    return len(found)


@pytest.mark.parametrize("block", range(4))
def test_random_subscriptions(block: int) -> None:
    assert sum(check(seed) for seed in range(block * 150, (block + 1) * 150)) > 15
