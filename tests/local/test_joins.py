"""Local evaluation of subscriptions over documents."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import perseid as ps
from perseid.engines.joins import local, shard
from perseid.engines.joins.engine import JOINS
from perseid.engines.joins.plan import JoinsPlan
from perseid.engines.trees import formats
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark

ITEM = "<item><by>{by}</by><t>{t}</t></item>"
SAME = "F//item->a[/by->x][/t->t] {}{{x = y{}, {}}} F//item->b[/by->y][/t->u]"


def documents(*rows: tuple[int, str, str], **words: object) -> ps.xml.Documents:
    data = [{"n": n, "ts": ts, "feed": "F", "xml": ITEM.format(by=by, t=t)} for n, (ts, by, t) in enumerate(rows)]
    return ps.documents(data, body="xml", type="feed", **{"time": "ts", **words})


def pairs(text: str, *rows: tuple[int, str, str]) -> list[tuple[int, int]]:
    found = ps.xscl.subscriptions(text).match(documents(*rows)).to_pylist()
    return sorted((row["left"]["n"], row["right"]["n"]) for row in found)


def test_order_and_windows() -> None:
    rows = [(5, "ann", "x"), (0, "ann", "x"), (5, "ann", "y"), (9, "bob", "x")]
    assert pairs(SAME.format("FOLLOWED BY", "", "forever"), *rows) == [(1, 0), (1, 2)]
    assert pairs(SAME.format("FOLLOWED BY", "", "4 seconds"), *rows) == []
    assert pairs(SAME.format("JOIN", "", "4 seconds"), *rows) == [(0, 2), (2, 0)]
    assert pairs(SAME.format("JOIN", " AND t = 'y'", "forever"), *rows) == [(2, 0), (2, 1)]
    assert pairs(SAME.format("JOIN", " AND u contains 'y' AND t < 'y'", "forever"), *rows) == [(0, 2), (1, 2)]


def test_one_row_lists_all_subscribers() -> None:
    texts = {f"reader {i}": SAME.format("FOLLOWED BY", "", f"{i} seconds") for i in range(1, 101)}
    found = ps.xscl.subscriptions(texts).match(documents((0, "ann", "x"), (40, "ann", "x"))).to_pylist()
    assert len(found) == 1
    assert sorted(found[0]["subscriptions"]) == sorted(f"reader {i}" for i in range(40, 101))
    each = ps.xscl.subscriptions(texts).match(documents((0, "ann", "x"), (40, "ann", "x")), expand=True).to_pylist()
    assert len(each) == 61
    assert dict(each[0]["values"]) == {"x": "ann", "y": "ann"}


def test_no_matches_are_an_empty_table() -> None:
    found = ps.xscl.subscriptions(SAME.format("JOIN", "", "forever")).match(documents((0, "ann", "x")))
    assert found.column_names == ["subscriptions", "left", "right"]
    assert found.num_rows == 0


def test_mistakes() -> None:
    one = SAME.format("JOIN", "", "forever")
    with pytest.raises(ps.errors.EventDataError, match=r"ps\.documents\(data, body='xml'"):
        ps.xscl.subscriptions(one).match([{"xml": "<item/>"}])
    with pytest.raises(ps.errors.EventDataError, match="no stream is declared"):
        ps.xscl.subscriptions(one).match(ps.documents([{"ts": 0, "xml": "<item/>"}], body="xml"))
    with pytest.raises(ps.errors.DocumentError, match="Row 2"):
        ps.xscl.subscriptions(one).match(
            ps.documents({"F": [{"ts": 0, "xml": "<a/>"}, {"ts": 0, "xml": "<a>"}]}, body="xml")
        )
    with pytest.raises(ps.errors.EventDataError, match="time"):
        ps.xscl.subscriptions(one).match(ps.documents([{"f": "F", "xml": "<item/>"}], body="xml", type="f"))
    with pytest.raises(ps.PerseidError, match="No subscription is given"):
        ps.xscl.subscriptions({})
    with pytest.raises(ps.errors.EventDataError, match="subscriptions has no parameter 'window'"):
        ps.xscl.subscriptions(one, window=3)  # type: ignore[call-arg]
    with pytest.raises(ps.errors.UnknownNameError, match="Unknown node 'z'") as unknown:
        ps.xscl.subscriptions({"good": f"SELECT <a>{{x}}</a> FROM {one}", "bad": f"SELECT <a>{{z}}</a> FROM {one}"})
    assert unknown.value.__notes__ == ["In the subscription 'bad'."]
    with pytest.raises(ps.errors.PatternSyntaxError) as raised:
        ps.xscl.subscriptions({"good": one, "bad": one.replace("forever", "for ever")})
    assert raised.value.__notes__ == ["In the subscription 'bad'."]
    for wrong, said in (
        ("F//a->a JOIN{a < b, forever} F//b->b", "at least one equality"),
        ("F//a->a JOIN{a = b AND a != b, forever} F//b->b", "!= between nodes of two documents is unsupported"),
        ("F//a->a[/c->c] JOIN{a = b AND a = c, forever} F//b->b", "two nodes of one document"),
        ("F//a->a(/c->c:/d) JOIN{c = b, forever} F//b->b", "run of siblings"),
        ("F//a->a JOIN{" + " AND ".join(["(a = b OR a = c)"] * 7) + ", forever} F//b->b[/c->c]", "128 alternatives"),
    ):
        with pytest.raises(ps.PerseidError, match=said):
            ps.xscl.subscriptions(wrong)


def test_streams_by_table() -> None:
    text = "Books//book->a[/isbn->x] JOIN{x = y, forever} Blogs//post->b[/isbn->y]"
    given = {
        "Books": [{"n": 1, "ts": 0, "xml": "<book><isbn>7</isbn></book>"}],
        "Blogs": [{"n": 2, "ts": 0, "xml": "<post><isbn>7</isbn></post>"}, {"n": 3, "ts": 1, "xml": "<post/>"}],
    }
    (row,) = ps.xscl.subscriptions(text).match(ps.documents(given, body="xml")).to_pylist()
    assert (row["left"]["n"], row["right"]["n"]) == (1, 2)


def test_explain_shows_shared_templates() -> None:
    explained = ps.xscl.subscriptions(
        [SAME.format("JOIN", f" AND t = '{i}'", "forever") for i in range(1000)]
    ).explain()
    assert "1,000 subscriptions, 2,000 directions" in explained
    assert "templates: 1 by equalities only, 2 by all comparisons" in explained
    assert "F//item->n0/by->n1" in explained


EITHER = {
    "constants": "F//item[/by->x] FOLLOWED BY{x = y AND (x = 'ann' OR y = 'ann'), forever} F//item[/by->y]",
    "names": "F//item[/by->x2][/by->x3] FOLLOWED BY{x2 = y OR x3 = y, forever} F//item[/by->y]",
    "plain": "F//item[/by->x] FOLLOWED BY{x = y, forever} F//item[/by->y]",
}


def test_or_notifies_once_per_pair() -> None:
    """Subscriptions with OR have separate rows, with all variables of the alternatives that hold."""
    both = documents((0, "ann", "x"), (5, "ann", "x"))
    rows = ps.xscl.subscriptions(EITHER).match(both).to_pylist()
    assert sorted(who for row in rows for who in row["subscriptions"]) == ["constants", "names", "plain"]
    assert all((row["left"]["n"], row["right"]["n"]) == (0, 1) for row in rows)
    each = ps.xscl.subscriptions(EITHER).match(both, expand=True).to_pylist()
    values = {row["subscription"]: dict(row["values"]) for row in each}
    assert len(each) == 3
    assert values["constants"] == {"x": "ann", "y": "ann"}
    assert values["names"] == {"x2": "ann", "x3": "ann", "y": "ann"}


def test_or_makes_one_result_of_a_pair() -> None:
    text = "SELECT <m>{x2}{x3}</m> FROM " + EITHER["names"]
    rows = ps.xscl.subscriptions(text).match(documents((0, "ann", "x"), (5, "ann", "x"))).to_pylist()
    assert [row["result"] for row in rows] == ["<m><by>ann</by><by>ann</by></m>"]


def test_subscribers_with_the_same_or_have_one_row() -> None:
    texts = {f"reader {i}": EITHER["constants"].replace("forever", f"{i} seconds") for i in range(1, 11)}
    (row,) = ps.xscl.subscriptions(texts).match(documents((0, "ann", "x"), (5, "ann", "x"))).to_pylist()
    assert sorted(row["subscriptions"]) == sorted(f"reader {i}" for i in range(5, 11))


def test_a_bad_document_stops_match_and_names_its_row() -> None:
    same = ps.xscl.subscriptions(EITHER["plain"])
    for body, what in ((None, "The document is null"), ("<item>", "No element found")):
        rows = [{"ts": 0, "feed": "F", "xml": "<item/>"}, {"ts": 1, "feed": "F", "xml": body}]
        with pytest.raises(ps.errors.DocumentError, match=f"Row 2: {what}") as found:
            same.match(ps.documents(rows, body="xml", type="feed", time="ts"))
        assert "ps.xml.tree_patterns(…).match(…)" in (found.value.hint or "")


def test_path_of_the_predicate_is_another_node_than_a_bracket_that_compares_the_same_path() -> None:
    rows = [
        {"n": 0, "ts": 0, "feed": "L", "xml": "<i><y>A</y></i>"},
        {"n": 1, "ts": 1, "feed": "R", "xml": "<i><x>1</x><x>A</x></i>"},
        {"n": 2, "ts": 2, "feed": "R", "xml": "<i><x>3</x><x>A</x></i>"},
    ]
    given = ps.documents(rows, body="xml", type="feed", time="ts")
    text = "L//i[/y->y] FOLLOWED BY{r/x = y AND y = r/x, forever} R//i->r[/x < 2]"
    found = ps.xscl.subscriptions(text).match(given).to_pylist()
    assert [(row["left"]["n"], row["right"]["n"]) for row in found] == [(0, 1)]


# One engine, local and on Spark


def test_local_rows_are_those_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is called once for all documents, which cross it as numbers."""
    calls: list[tuple[EventBatch, bytes | None, Watermark]] = []

    def step(plan: JoinsPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
        calls.append((rows, state, watermark))
        return JOINS.run_step(plan, rows, state, watermark)

    monkeypatch.setattr(local, "JOINS", replace(JOINS, step=step))
    given = documents((0, "ann", "x"), (5, "ann", "y"), (5, "eve", "y"))
    assert ps.xscl.subscriptions(SAME.format("FOLLOWED BY", "", "1 day")).match(given).num_rows == 1
    ((rows, state, watermark),) = calls
    assert (state, watermark) == (None, Watermark(ended=True))
    assert rows.columns["_document"].to_pylist() == rows.identity.tolist() == [0, 1, 2]


def test_equal_documents_are_separate() -> None:
    """A table may have a row several times; on Spark, its id decides whether it is one document."""
    data = [{"ts": 0, "feed": "F", "xml": ITEM.format(by="ann", t="x")}] * 3
    same = ps.documents(data, body="xml", type="feed", time="ts")
    text = SAME.format("JOIN", "", "1 day")
    assert ps.xscl.subscriptions(text).match(same).num_rows == 6


def test_pairs_do_not_depend_on_block_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    rows = [(chance.randrange(50), chance.choice(["ann", "bob"]), chance.choice("xy")) for _ in range(60)]
    text = SAME.format("JOIN", " AND t = u", "3 seconds")
    whole = pairs(text, *rows)
    monkeypatch.setattr(shard, "PART", 7)
    monkeypatch.setattr(formats, "PIECE", 200)
    assert pairs(text, *rows) == whole
    assert len(whole) > 50


def test_an_index_is_released_with_its_subscriptions() -> None:
    shard._SHARDS.clear()
    given = documents((0, "ann", "x"), (5, "ann", "x"))
    some = ps.xscl.subscriptions(SAME.format("FOLLOWED BY", "", "1 day"))
    assert some.match(given).num_rows == some.match(given, expand=True).num_rows == 1
    assert len(shard._SHARDS) == 2
    assert all(one.joined.num_rows == one.joiner.count == 0 for one in shard._SHARDS.values())
    del some
    assert not shard._SHARDS


def test_threads_match_the_same_subscriptions() -> None:
    some = ps.xscl.subscriptions(SAME.format("FOLLOWED BY", "", "1 day"))
    given = [documents(*((n, f"{n % many}", "x") for n in range(200))) for many in range(1, 9)]
    alone = [some.match(one).num_rows for one in given]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda one: some.match(one).num_rows, given)) == alone


def test_texts_and_bytes_in_tables_of_one_stream_are_each_read_as_they_are() -> None:
    said = "<?xml version='1.0' encoding='iso-8859-1'?>" + ITEM.format(by="Jürgen", t="x")
    data = {
        "F": [{"n": 0, "ts": 0, "xml": said}],
        "G": [{"n": 1, "ts": 1, "xml": said.encode("latin-1")}],
    }
    text = SAME.format("FOLLOWED BY", "", "1 day").replace("F//item->b", "G//item->b")
    (row,) = ps.xscl.subscriptions(text).match(ps.documents(data, body="xml", time="ts"), expand=True).to_pylist()
    assert dict(row["values"]) == {"x": "Jürgen", "y": "Jürgen"}


def test_rows_of_bad_documents_are_counted_over_all_tables() -> None:
    text = SAME.format("FOLLOWED BY", "", "1 day").replace("F//item->b", "G//item->b")
    data = {"F": [{"ts": 0, "xml": "<item/>"}] * 2, "G": [{"ts": 0, "xml": "<item>"}]}
    with pytest.raises(ps.errors.DocumentError, match="Row 3: No element found"):
        ps.xscl.subscriptions(text).match(ps.documents(data, body="xml", time="ts"))


def test_names_of_owners_are_strings() -> None:
    text = SAME.format("FOLLOWED BY", "", "1 day")
    (row,) = ps.xscl.subscriptions({7: text}).match(documents((0, "ann", "x"), (5, "ann", "x"))).to_pylist()
    assert row["subscriptions"] == ["7"]
    with pytest.raises(ps.PerseidError, match=r"Two subscriptions have the name '1'\.") as found:
        ps.xscl.subscriptions({1: text, "1": text})
    assert found.value.hint == "Use names that differ as strings, unlike 1 and '1'."
    for names in ({"\ud800": text}, {"a": text.replace("1 day", "1 day} \ud800")}):
        with pytest.raises(ps.PerseidError, match="has a lone surrogate, which is no Unicode character"):
            ps.xscl.subscriptions(names)


def test_subscription_with_too_many_nodes_is_rejected(tmp_path: Path) -> None:
    """Each comparison has a separate node on the left, and these nodes need their common ancestor."""
    nodes = "".join(f"[/a{n}->x{n}]" for n in range(64))
    text = f"F//i{nodes} FOLLOWED BY{{{' AND '.join(f'x{n} = y' for n in range(64))}, 1 day}} F//i->y"
    with pytest.raises(ps.errors.LimitError, match="at most 64 nodes of a document and 128 comparisons"):
        ps.xscl.subscriptions(text)
    table = ps.xscl.subscription_table(tmp_path)
    with pytest.raises(ps.errors.LimitError, match="at most 64 nodes of a document and 128 comparisons"):
        table.add({"ann": text})
    assert table.current() == {}
