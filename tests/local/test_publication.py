"""Local results of subscriptions, and subscriptions over published results."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import perseid as ps
from perseid.engines.joins.construction import constructed, element_of
from perseid.lang.printer import print_pattern
from perseid.lang.subscriptions import Construction, Subscription, print_subscription
from perseid.lang.xscl import parse_subscription
from perseid.reference.subscriptions import results
from tests.blocks import blocks
from tests.lang.subscription_as_pattern import pattern_of
from tests.semantics.join_documents import random_documents, random_subscriptions, xml

ITEM = "<item><by>{}</by><t>{}</t></item>"
SAME = "F//item->a[/by->x][/t->t] FOLLOWED BY{{x = y{}, {}}} F//item->b[/by->y][/t->u]"


def documents(*rows: tuple[int, str, str], **words: object) -> ps.xml.Documents:
    data = [{"n": n, "ts": ts, "feed": "F", "xml": ITEM.format(by, t)} for n, (ts, by, t) in enumerate(rows)]
    return ps.documents(data, body="xml", type="feed", **{"time": "ts", **words})


def test_select_makes_a_column() -> None:
    text = "SELECT <hit by='{x}'>{t}{u}</hit> FROM " + SAME.format("", "1 hour")
    found = ps.xscl.subscriptions(text).match(documents((0, "ann", "x"), (5, "ann", "a<b".replace("<", "&lt;"))))
    assert found.column_names == ["subscriptions", "left", "right", "result"]
    assert found["result"].to_pylist() == ['<hit by="ann"><t>x</t><t>a&lt;b</t></hit>']


def test_equal_results_of_a_pair_share_a_row() -> None:
    """One row per pair and distinct result, with all its subscriptions; without a SELECT the result is null."""
    texts = {
        "one": "SELECT <a>{t}</a> FROM " + SAME.format("", "1 hour"),
        "two": "SELECT <a>{t}</a> FROM " + SAME.format("", "2 hours"),
        "other": "SELECT <a>{u}</a> FROM " + SAME.format("", "1 hour"),
        "named": "SELECT <a>{q}</a> FROM F//item->p[/by->s][/t->q] FOLLOWED BY{s = r, 1 day} F//item->o[/by->r][/t]",
        "plain": SAME.format("", "1 hour"),
    }
    given = documents((0, "ann", "x"), (5, "ann", "y"))
    matches = {
        tuple(sorted(row["subscriptions"])): row["result"]
        for row in ps.xscl.subscriptions(texts).match(given).to_pylist()
    }
    assert matches == {("named", "one", "two"): "<a><t>x</t></a>", ("other",): "<a><t>y</t></a>", ("plain",): None}
    each = ps.xscl.subscriptions(texts).match(given, expand=True).to_pylist()
    assert {row["subscription"]: row["result"] for row in each} == {
        "one": "<a><t>x</t></a>",
        "two": "<a><t>x</t></a>",
        "named": "<a><t>x</t></a>",
        "other": "<a><t>y</t></a>",
        "plain": None,
    }
    everything = ps.xscl.subscriptions(texts).match(given, results=True).to_pylist()
    default = f"<result>{ITEM.format('ann', 'x')}{ITEM.format('ann', 'y')}</result>"
    assert {tuple(row["subscriptions"]): row["result"] for row in everything}[("plain",)] == default
    nothing = ps.xscl.subscriptions(texts).match(given, results=False)
    assert nothing.column_names == ["subscriptions", "left", "right"]
    assert ps.xscl.subscriptions(texts["plain"]).match(given).column_names == ["subscriptions", "left", "right"]
    assert ps.xscl.subscriptions(texts["plain"]).match(given, results=True)["result"].to_pylist() == [default]


def test_constants_in_select_are_no_constants_of_the_subscription() -> None:
    texts = {
        f"r{i}": f"SELECT <a to='{i}' n='= 5'>{{t}}</a> FROM " + SAME.format(f" AND t = '{i}'", "1 hour")
        for i in range(3)
    }
    found = ps.xscl.subscriptions(texts).match(documents((0, "ann", "2"), (5, "ann", "y"))).to_pylist()
    assert [(row["subscriptions"], row["result"]) for row in found] == [(["r2"], '<a to="2" n="= 5"><t>2</t></a>')]


def test_bytes_and_encodings() -> None:
    """The encoding of bytes is the declared one; a string has none."""
    text = "SELECT <m>{t}</m> FROM " + SAME.format("", "1 hour")
    said = "<?xml version='1.0' encoding='iso-8859-1'?>" + ITEM.format("ann", "ä")
    for bodies in ([said, said], [said.encode("latin-1")] * 2):
        rows = [{"ts": i, "feed": "F", "xml": body} for i, body in enumerate(bodies)]
        found = ps.xscl.subscriptions(text).match(ps.documents(rows, body="xml", type="feed", time="ts"))
        assert found["result"].to_pylist() == ["<m><t>ä</t></m>"]


def test_namespaces() -> None:
    rows = [{"ts": i, "feed": "F", "xml": '<i xmlns:q="urn:1" q:a="3" k="1"/>'} for i in range(2)]
    text = "SELECT <m>{a}|{b}</m> FROM F//i[/@k->k][/@p:a->a] FOLLOWED BY{k = l, 1 hour} F//i[/@k->l][/@p:a->b]"
    given = ps.documents(rows, body="xml", type="feed", time="ts", namespaces={"p": "urn:1"})
    assert ps.xscl.subscriptions(text).match(given)["result"].to_pylist() == ["<m>3|3</m>"]


def test_construction_has_plain_arguments() -> None:
    text = "SELECT <m>{t}{u}</m> FROM " + SAME.format("", "1 hour")
    left, right = ITEM.format("ann", "x").encode(), ITEM.format("ann", "y")
    assert constructed(parse_subscription(text), left, right, [2 << 14], [2 << 14], {}) == "<m><t>x</t><t>y</t></m>"
    with pytest.raises(ps.errors.DocumentError, match="line 1, column 4"):
        element_of("<a>")
    with pytest.raises(ps.errors.DocumentError, match="with an internal subset"):
        element_of(b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    with pytest.raises(ps.errors.DocumentError, match="nonsense"):
        element_of(b"<?xml version='1.0' encoding='nonsense'?><a/>")
    (only,) = element_of("<a>1<!-- 2 -->3<?p q?>4</a>").content
    assert only == "134"


def check(seed: int) -> int:
    """Asserts that the pairs of the engine and their results equal the oracle; returns their number."""
    chance = random.Random(seed)
    given = {}
    for name, one in random_subscriptions(chance, 3).items():
        variables = (*one.source.left.variables, *one.source.right.variables)
        select = "<m>" + "".join(f"<{each}>{{{each}}}</{each}>" for each in variables) + "</m>"
        given[name] = Subscription(one.source, Construction(select))
    some = random_documents(chance)[:6]
    if not given:
        return 0
    due = Counter((one.subscription, one.left, one.right, text) for one, text in results(given, some).items())
    rows = [{"n": one.id, "ts": one.time // 1_000_000, "s": one.stream, "xml": xml(one.root)} for one in some]
    matches = ps.xscl.subscriptions({name: print_subscription(one) for name, one in given.items()}).match(
        ps.documents(rows, body="xml", type="s", time="ts"), expand=True
    )
    found = Counter(
        (row["subscription"], row["left"]["n"], row["right"]["n"], row["result"]) for row in matches.to_pylist()
    )
    assert set(found) == set(due), f"seed {seed}"
    return len(due)


@pytest.mark.parametrize("block", blocks(1, 3))
def test_random_subscriptions_and_documents(block: int) -> None:
    assert sum(map(check, range(block * 50, block * 50 + 50))) > 5


# published streams

PAIRS = "SELECT <pair><who>{x}</who>{t}{u}</pair> FROM " + SAME.format("", "1 hour") + " PUBLISH pairs"
AGAIN = "pairs//pair->p[/who->w] FOLLOWED BY{w = x, 1 hour} F//item->c[/by->x]"


def test_published_documents_match_other_subscriptions() -> None:
    given = documents((0, "ann", "x"), (5, "ann", "y"), (9, "bob", "z"), (20, "ann", "z"))
    found = ps.xscl.subscriptions({"pairs": PAIRS, "again": AGAIN}).match(given).to_pylist()
    pairs = [row for row in found if row["subscriptions"] == ["pairs"]]
    assert sorted((row["left"]["n"], row["right"]["n"]) for row in pairs) == [(0, 1), (0, 3), (1, 3)]
    (again,) = [row for row in found if row["subscriptions"] == ["again"]]
    text = "<pair><who><by>ann</by></who><t>x</t><t>y</t></pair>"
    assert again["left"] == {"n": None, "ts": 5, "feed": "pairs", "published": text}
    assert again["right"] == {"n": 3, "ts": 20, "feed": "F", "published": None}
    assert again["result"] is None


def test_stream_of_published_and_given_documents() -> None:
    """A stream may have given and published documents; publishers are separate; unread results are only output."""
    given = [
        {"n": 0, "ts": 0, "feed": "F", "xml": ITEM.format("ann", "x")},
        {"n": 1, "ts": 1, "feed": "F", "xml": ITEM.format("ann", "y")},
        {"n": 2, "ts": 2, "feed": "pairs", "xml": "<pair><who>ann</who></pair>"},
        {"n": 3, "ts": 3, "feed": "F", "xml": ITEM.format("ann", "z").replace("item", "end")},
    ]
    texts = {
        "one": PAIRS,
        "two": SAME.format("", "1 hour") + " PUBLISH pairs",
        "three": "pairs//*->p[//by->w] FOLLOWED BY{w = x, 1 hour} F//end->c[/by->x] PUBLISH unread",
        "four": "pairs//who->w FOLLOWED BY{w = x, 1 hour} F//end->c[/by->x]",
    }
    found = ps.xscl.subscriptions(texts).match(ps.documents(given, body="xml", type="feed", time="ts")).to_pylist()
    by = Counter((name, row["left"]["n"]) for row in found for name in row["subscriptions"])
    # The default result of "two" has two authors; "who" occurs in the results of "one" and in a given document.
    assert by == {("one", 0): 1, ("two", 0): 1, ("three", None): 3, ("four", None): 1, ("four", 2): 1}


def test_streams_by_table_and_chains_of_streams() -> None:
    texts = {
        "c": "b//result->p[//k->x] JOIN{x = y, forever} A//i->c[/k->y] PUBLISH c",
        "d": "c//result[/result->r]//k->x JOIN{x = y, forever} A//i->c[/k->y]",
        "b": "A//i->a[/k->x] FOLLOWED BY{x = y, forever} A//i->b[/k->y] PUBLISH b",
    }
    data = {"A": [{"n": 1, "ts": 0, "xml": "<i><k>1</k></i>"}, {"n": 2, "ts": 4, "xml": "<i><k>1</k></i>"}]}
    found = ps.xscl.subscriptions(texts).match(ps.documents(data, body="xml", time="ts"), expand=True, results=False)
    assert Counter(found["subscription"].to_pylist()) == {"b": 1, "c": 4, "d": 24}
    last = next(row for row in found.to_pylist() if row["subscription"] == "d")
    assert last["left"]["published"].startswith("<result><result><i>")
    assert set(last["left"]) == {"n", "ts", "published"}
    assert (
        "evaluated in order, since some read what others publish: 1, then 1, then 1"
        in ps.xscl.subscriptions(texts).explain()
    )


def test_an_or_publishes_a_pair_once() -> None:
    text = "F//item->a[/by->x] FOLLOWED BY{x = y OR (x = y AND x = 'ann'), 1 hour} F//item->b[/by->y] PUBLISH p"
    texts = {"p": text, "q": "p//result->r[//by->x] JOIN{x = y, forever} F//item[/t = 'x'][/by->y]"}
    found = ps.xscl.subscriptions(texts).match(documents((0, "ann", "x"), (1, "ann", "y")), expand=True)
    assert Counter(found["subscription"].to_pylist())["q"] == 2  # of one document, with two authors


def test_circles_are_refused() -> None:
    one = "{}//result->p[//k->x] JOIN{{x = y, forever}} A//i->c[/k->y] PUBLISH {}"
    with pytest.raises(ps.errors.SemanticError, match=r"in a cycle: (b -> c -> b|c -> b -> c)") as raised:
        ps.xscl.subscriptions({"x": one.format("b", "c"), "y": one.format("c", "b"), "z": one.format("A", "d")})
    assert not hasattr(raised.value, "__notes__")
    with pytest.raises(ps.errors.SemanticError, match="in a cycle: A -> A"):
        ps.xscl.subscriptions(one.format("b", "A"))


def test_a_column_of_ours() -> None:
    rows = [{"ts": 0, "feed": "F", "xml": "<a/>", "published": 1}]
    given = ps.documents(rows, body="xml", type="feed", time="ts")
    with pytest.raises(ps.errors.EventDataError, match="'published'"):
        ps.xscl.subscriptions([PAIRS, AGAIN]).match(given)
    assert ps.xscl.subscriptions(PAIRS).match(given).num_rows == 0


def test_three_blocks_by_publishing_two() -> None:
    """Follows the hint in the error for three blocks."""
    with pytest.raises(ps.errors.PatternSyntaxError, match="PUBLISH the first pair under a name"):
        ps.xscl.subscriptions("F//a->a JOIN{a = b, 1 day} F//b->b FOLLOWED BY{b = c, 1 day} F//c->c")
    texts = {
        "first": "F//a->a JOIN{a = b, 1 day} F//b->b PUBLISH pairs",
        "then": "pairs//result/b->b FOLLOWED BY{b = c, 1 day} F//c->c",
    }
    rows = [{"n": n, "ts": n, "feed": "F", "xml": text} for n, text in enumerate(["<b>1</b>", "<a>1</a>", "<c>1</c>"])]
    found = ps.xscl.subscriptions(texts).match(ps.documents(rows, body="xml", type="feed", time="ts")).to_pylist()
    (last,) = [row for row in found if row["subscriptions"] == ["then"]]
    assert (last["left"]["published"], last["right"]["n"]) == ("<result><a>1</a><b>1</b></result>", 2)


@pytest.mark.parametrize("relation", ["FOLLOWED BY", "JOIN"])
def test_pattern_of_a_subscription_returns_the_same_pairs(relation: str) -> None:
    """If no variable occurs twice in a document, the subscription as a pattern returns the same pairs."""
    text = f"F//item->i[/by->x][/t->t] {relation}{{x = y AND t < u, 5 seconds}} F//item->j[/by->y][/t->u]"
    chance = random.Random(7)
    given = documents(*((chance.randrange(20), chance.choice(["ann", "bob"]), chance.choice("123")) for _ in range(40)))
    pattern = print_pattern(pattern_of(parse_subscription(text)))
    pairs = [
        sorted((row["left"]["n"], row["right"]["n"]) for row in ps.xscl.subscriptions(each).match(given).to_pylist())
        for each in (text, pattern)
    ]
    matches = ps.pattern(pattern + "return a.n as l, b.n as r").match(given).to_dicts()
    assert pairs[0] == pairs[1] == sorted((row["l"], row["r"]) for row in matches)
    assert len(pairs[0]) > 10


@pytest.mark.parametrize("words", [{"results": False}, {"results": True}, {}])
def test_published_documents_do_not_depend_on_results(words: dict[str, bool]) -> None:
    """Without results, subscriptions of a pair have one row, although they publish different documents."""
    texts = {
        "one": PAIRS,
        "two": PAIRS.replace("{t}{u}", "{u}"),
        "plain": SAME.format("", "1 hour"),
        "again": AGAIN,
    }
    given = documents((0, "ann", "x"), (5, "ann", "y"), (20, "ann", "z"))
    rows = ps.xscl.subscriptions(texts).match(given, **words).to_pylist()
    assert Counter(who for row in rows for who in row["subscriptions"]) == {"one": 3, "two": 3, "plain": 3, "again": 2}
    if words == {"results": False}:
        assert sorted(len(row["subscriptions"]) for row in rows) == [1, 1, 3, 3, 3]


def test_results_published_from_json_documents_are_xml() -> None:
    rows = [{"ts": ts, "feed": "F", "body": f'{{"k": {k}}}'} for ts, k in enumerate([1, 1, 2, 1])]
    texts = {
        "pairs": "SELECT <p>{x}</p> FROM F/json->a[/k->x] FOLLOWED BY{x = y, 1 second} F/json->b[/k->y] PUBLISH pairs",
        "again": "pairs//p/k->w FOLLOWED BY{w = x, 1 hour} F/json->c[/k->x]",
    }
    given = ps.documents(rows, body="body", type="feed", time="ts", format="json")
    found = ps.xscl.subscriptions(texts).match(given).to_pylist()
    assert [(row["subscriptions"], row["left"]["ts"], row["right"]["ts"]) for row in found] == [
        (["pairs"], 0, 1),
        (["again"], 1, 3),
    ]
    assert found[1]["left"]["published"] == "<p><k>1</k></p>"
