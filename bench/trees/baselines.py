"""Baselines for the queries: lxml's iterparse, XPath, Spark's XML source; and the limits of parsers and memory.

Each reads the file at a path to its end and counts the top-level results of a pattern: nodes and runs, or 1 for yes and
0 for no. Unlike ours, they may use knowledge of the documents: which elements contain which, and that records are not
nested. Each is the fastest form found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.parsers import expat

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from bench.trees.queries import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Node: TypeAlias = Any
"""An lxml element; lxml has no types."""
Bytes: TypeAlias = NDArray[np.uint8]

_READING = {
    "remove_blank_text": True,
    "remove_comments": True,
    "remove_pis": True,
    "collect_ids": False,
    "resolve_entities": False,
    "no_network": True,
    "huge_tree": True,
}
"""Without blank text and the table of ids, parsing is faster; comments and instructions would separate siblings."""
_RECORDS = {
    "dblp": ("article",),
    "treebank": ("EMPTY",),
    "xmark": ("person", "item", "open_auction", "closed_auction", "category", "edge"),
}
"""By document: elements that repeat without end and have small content. The list includes elements that no query reads,
because they must be released too. Nodes between DBLP's articles are released with them."""
_BATCH = 64
"""Records that are released together; one at a time is slower, and so are a thousand."""


# iterparse with Python code


def iterparse(name: str, path: Path, *, first: bool = False) -> int:
    """Count with handwritten code for each record. With ``first``, return at the first match and leave the rest
    unread."""
    query = QUERIES[name]
    tag, count = _BY_HAND[name]
    found = 0
    for record in _records(query.document, path):
        if record.tag != tag or (found and not query.returns):
            continue
        found += count(record)
        if found and first and not query.returns:
            break
    return found if query.returns else min(found, 1)


def _records(document: str, path: Path) -> Iterator[Node]:
    """Yield complete records. The tree may also contain some that follow the last one, because lxml parses ahead."""
    waiting = 0
    with path.open("rb") as file:
        for _, record in etree.iterparse(file, events=("end",), tag=_RECORDS[document], **_READING):
            yield record
            waiting += 1
            if waiting == _BATCH:
                waiting = 0
                _release_before(record)


def _release_before(record: Node) -> None:
    parent = record.getparent()
    del parent[: parent.index(record)]


def _has(node: Node, tag: str) -> bool:
    return next(node.iterchildren(tag), None) is not None


def _holds(node: Node, tag: str) -> bool:
    """Check for a descendant with this tag."""
    return next(node.iter(tag), None) is not None


def _is(node: Node | None, *tags: str) -> bool:
    return node is not None and node.tag in tags


def _q1_1(article: Node) -> bool:
    return _has(article, "author") and all(_holds(article, tag) for tag in ("title", "url", "ee", "year"))


def _q1_2(article: Node) -> int:
    authors, others = 0, set()
    for one in article.iterchildren("author", "title", "pages", "year"):
        tag = one.tag
        if tag == "author":
            authors += 1
        else:
            others.add(tag)
    return authors if len(others) == 3 else 0


def _q1_3(article: Node) -> int:
    found = 0
    for title in article.iterchildren("title"):
        if _is(title.getprevious(), "author") and _is(pages := title.getnext(), "pages"):
            found += _is(pages.getnext(), "year")
    return found


def _q1_4(article: Node) -> int:
    found = 0
    for title in article.iterchildren("title"):
        found += _is(title.getprevious(), "author") and _is(title.getnext(), "pages", "year")
    return found


def _q1_5(article: Node) -> int:
    found = 0
    for title in article.iterchildren("title"):
        if _is(title.getprevious(), "author"):
            behind = title.getnext()
            while _is(behind, "pages"):
                behind = behind.getnext()
            found += _is(behind, "year")
    return found


def _q2_1(sentence: Node) -> bool:
    """Check the rarest condition first: participles are few, and those in a noun phrase with a number fewer."""
    for participle in sentence.iter("VBN"):
        phrase = participle.getparent()
        if phrase.tag == "NP" and _holds(phrase, "CD"):
            for outer in phrase.iterancestors("PP"):
                verbs = outer.iterancestors("VP") if _has(outer, "IN") and _holds(outer, "NN") else ()
                if any(one.getparent().tag == "S" for one in verbs):
                    return True
    return False


def _counted_nouns(sentence: Node) -> Iterator[Node]:
    """Yield each noun phrase with a number and a participle that lies in a PP in a VP."""
    for participle in sentence.iter("VBN"):
        phrase = participle.getparent()
        if phrase.tag == "NP" and _has(phrase, "CD"):
            outer = phrase.getparent()
            if outer.tag == "PP" and outer.getparent().tag == "VP" and next(phrase.iterchildren("VBN")) is participle:
                yield phrase


def _q2_2(sentence: Node) -> int:
    return sum(_has(phrase.getparent(), "IN") for phrase in _counted_nouns(sentence))


def _q2_3(sentence: Node) -> int:
    return sum(_is(phrase.getprevious(), "IN") for phrase in _counted_nouns(sentence))


def _q2_4(sentence: Node) -> int:
    """Count prepositions as runs too, which return nothing."""
    return sum(1 for _ in _counted_nouns(sentence))


def _q3_1(item: Node) -> bool:
    return (
        _has(item, "location")
        and any(_holds(text, "keyword") for text in item.iterchildren("description"))
        and any(_holds(mail, "emph") for box in item.iter("mailbox") for mail in box.iterchildren("mail"))
    )


def _known(profile: Node) -> bool:
    return _has(profile, "education") and _holds(profile, "age")


def _q3_2(person: Node) -> int:
    return _q3_4(person) if any(map(_known, person.iterchildren("profile"))) else 0


def _q3_3(person: Node) -> int:
    found = 0
    for profile in person.iterchildren("profile"):
        before = profile.getprevious()
        found += _is(before, "address") and _has(before, "zipcode") and _known(profile)
    return found


def _q3_4(person: Node) -> int:
    """Count profiles as runs too, which return nothing."""
    return sum(_has(address, "zipcode") for address in person.iterchildren("address"))


_SIX = re.compile(r"[ \t\r\n]*0*6(?:\.0*)?[ \t\r\n]*")


def _q3_6(person: Node) -> int:
    if not any(map(_known, person.iterchildren("profile"))):
        return 0
    return sum(
        any(_SIX.fullmatch(code.text or "") for code in address.iterchildren("zipcode"))
        for address in person.iterchildren("address")
    )


_BY_HAND: Mapping[str, tuple[str, Callable[[Node], int]]] = {
    "Q1.1": ("article", _q1_1),
    "Q1.2": ("article", _q1_2),
    "Q1.3": ("article", _q1_3),
    "Q1.4": ("article", _q1_4),
    "Q1.5": ("article", _q1_5),
    "Q2.1": ("EMPTY", _q2_1),
    "Q2.2": ("EMPTY", _q2_2),
    "Q2.3": ("EMPTY", _q2_3),
    "Q2.4": ("EMPTY", _q2_4),
    "Q2.5": ("EMPTY", _q2_4),
    "Q3.1": ("item", _q3_1),
    "Q3.2": ("person", _q3_2),
    "Q3.3": ("person", _q3_3),
    "Q3.4": ("person", _q3_4),
    # A run with any address has one directly before the profile, so there are as many as Q3.3 finds.
    "Q3.5": ("person", _q3_3),
    "Q3.6": ("person", _q3_6),
}


# XPath, in the whole tree and by record


@dataclass(frozen=True)
class _Path:
    """An XPath to the returned or the deciding nodes, in two parts: to the records, and from a record on."""

    before: str
    rest: str

    def whole(self, returns: bool) -> str:
        """The result as a number. Yes and no uses a predicate, which need not order its nodes: several times as
        fast."""
        path = f"descendant::{self.before}{self.rest}"
        return f"count(/{path})" if returns else f"count(/self::node()[{path}])"

    def among_earlier(self, document: str, returns: bool) -> str:
        """The same among the records before one."""
        if document != "treebank":
            return f"count(preceding-sibling::{self.rest})"
        path = f"descendant::{self.rest}"
        return f"count(preceding-sibling::EMPTY/{path})" if returns else f"count(preceding-sibling::EMPTY[{path}])"


_IN_DBLP, _IN_PEOPLE = "dblp/descendant::", "people/descendant::"
_KNOWN = "[education][descendant::age]"
_PATHS = {
    "Q1.1": _Path("dblp/", "article[author][descendant::title][descendant::url][descendant::ee][descendant::year]"),
    "Q1.2": _Path(_IN_DBLP, "article[title][pages][year]/author"),
    "Q1.3": _Path(
        _IN_DBLP,
        "article/pages[preceding-sibling::*[1][self::title]/preceding-sibling::*[1][self::author]]"
        "[following-sibling::*[1][self::year]]",
    ),
    "Q1.4": _Path(
        _IN_DBLP,
        "article/title[preceding-sibling::*[1][self::author]][following-sibling::*[1][self::pages or self::year]]",
    ),
    "Q1.5": _Path(
        _IN_DBLP,
        "article/title[preceding-sibling::*[1][self::author]][following-sibling::*[not(self::pages)][1][self::year]]",
    ),
    "Q2.1": _Path("", "S/VP/descendant::PP[IN][descendant::NN][descendant::NP[VBN][descendant::CD]]"),
    "Q2.2": _Path("", "VP/PP/NP[VBN][CD][../IN]"),
    "Q2.3": _Path("", "VP/PP/NP[VBN][CD][preceding-sibling::*[1][self::IN]]"),
    "Q2.4": _Path("", "VP/PP/NP[VBN][CD]"),
    "Q2.5": _Path("", "VP/PP/NP[VBN][CD]"),
    "Q3.1": _Path("", "item[location][description/descendant::keyword][descendant::mailbox/mail/descendant::emph]"),
    "Q3.2": _Path(_IN_PEOPLE, f"person[profile{_KNOWN}]/address[zipcode]"),
    "Q3.3": _Path(_IN_PEOPLE, f"person/profile{_KNOWN}[preceding-sibling::*[1][self::address][zipcode]]"),
    "Q3.4": _Path(_IN_PEOPLE, "person/address[zipcode]"),
    "Q3.5": _Path(_IN_PEOPLE, f"person/profile{_KNOWN}[preceding-sibling::*[1][self::address][zipcode]]"),
    "Q3.6": _Path(_IN_PEOPLE, f"person[profile{_KNOWN}]/address[zipcode=6]"),
}
NOT_BY_XPATH = {
    "Q1.3": "one run, one node: the node is found, that it is a run of its own is not said",
    "Q1.4": "as Q1.3",
    "Q1.5": "as Q1.3",
    "Q2.3": "as Q1.3",
    "Q2.4": "a match that returns nothing is not told from no match",
    "Q2.5": "as Q2.4",
    "Q3.3": "as Q1.3",
    "Q3.4": "as Q2.4",
    "Q3.5": "runs can be counted by their last member; which addresses are of one run cannot be said by a set of nodes",
}
"""XPath 1.0 can count the results of each query, and find them except for these; the text is the reason."""


def xpath(name: str, path: Path) -> int:
    """Parse the document into a tree, and evaluate the XPath once."""
    query = QUERIES[name]
    tree = etree.parse(str(path), etree.XMLParser(**_READING))
    return int(etree.XPath(_PATHS[name].whole(query.returns))(tree))


def iterparse_xpath(name: str, path: Path, *, first: bool = False) -> int:
    """Count by XPath among a few records at a time and release them: iterparse without Python code for each record."""
    query, asked = QUERIES[name], _PATHS[name]
    among_earlier = etree.XPath(asked.among_earlier(query.document, query.returns))
    waiting = found = 0
    with path.open("rb") as file:
        events = etree.iterparse(file, events=("end",), tag=_RECORDS[query.document], **_READING)
        for _, record in events:
            waiting += 1
            if waiting == _BATCH:
                waiting = 0
                if not found or query.returns:
                    found += int(among_earlier(record))
                if found and first and not query.returns:
                    return 1
                _release_before(record)
        # Records that were not released are still in the tree.
        found += int(etree.XPath(asked.whole(query.returns))(events.root))
    return found if query.returns else min(found, 1)


# Spark's XML source


@dataclass(frozen=True)
class _Rows:
    """A query over rows: the element of a row, its columns, the condition, and the count of a row."""

    tag: str
    columns: str
    where: str
    count: str = "1"


_PERSON = "address struct<zipcode: string>, profile struct<education: string, age: string>"
_KNOWN_ROW = "profile.education is not null and profile.age is not null"
_ROWS = {
    # A DBLP record is flat, so every descendant is a child.
    "Q1.1": _Rows(
        "article",
        "author string, title string, url string, ee string, year string",
        "author is not null and title is not null and url is not null and ee is not null and year is not null",
    ),
    "Q1.2": _Rows(
        "article",
        "author array<string>, title string, pages string, year string",
        "title is not null and pages is not null and year is not null",
        "size(author)",
    ),
    # Lists are nested, which no schema can express; an element read as a string is its XML, in which a tag can be
    # searched.
    "Q3.1": _Rows(
        "item",
        "location string, description string, mailbox struct<mail: array<string>>",
        "location is not null and contains(description, '<keyword>') and exists(mailbox.mail, m -> contains(m, '<emph>'))",
    ),
    # No person has two addresses or two profiles: no arrays, which are slower.
    "Q3.2": _Rows("person", _PERSON, f"address.zipcode is not null and {_KNOWN_ROW}"),
    "Q3.4": _Rows("person", "address struct<zipcode: string>", "address.zipcode is not null"),
    "Q3.6": _Rows("person", _PERSON, f"try_cast(address.zipcode as double) = 6 and {_KNOWN_ROW}"),
}
NOT_BY_SPARK = {
    **dict.fromkeys(
        ("Q1.3", "Q1.4", "Q1.5", "Q3.3", "Q3.5"), "children of different names lose their order: they are columns"
    ),
    **dict.fromkeys(
        ("Q2.1", "Q2.2", "Q2.3", "Q2.4", "Q2.5"),
        "phrases lie in each other: rows do not, and a schema has an end; nor is a row's parent known",
    ),
}
BY_SPARK = tuple(_ROWS)


def spark_xml(spark: SparkSession, name: str, path: Path) -> int:
    """Count rows. One task, so one core, reads a file with rows of several lines."""
    query, rows = QUERIES[name], _ROWS[name]
    # With a schema, the file is not read twice.
    source = spark.read.format("xml").option("rowTag", rows.tag).schema(rows.columns)
    counted = source.load(str(path)).where(rows.where).selectExpr(f"sum({rows.count})")
    found = int(counted.collect()[0][0] or 0)
    return found if query.returns else min(found, 1)


# Upper limits

_CHUNK = 1 << 18
"""Chunk size for expat in bytes: the fastest of 16 KB to 1 MB, and faster than ``ParseFile``."""
_BLOCK = 1 << 16
"""Bytes per block, small enough to stay in the cache."""


def bare_expat(path: Path) -> None:
    """Parse without handlers: checks only that the document is well formed."""
    parser = expat.ParserCreate()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk)
    parser.Parse(b"", True)


def bytes_of(path: Path) -> Bytes:
    """A file in memory, for sides that do not parse."""
    return np.fromfile(path, np.uint8)


def memcpy(data: Bytes, into: Bytes) -> None:
    """Copy all bytes; both arrays have been written before, so that no page is new."""
    np.copyto(into, data)


def byte_scan(data: Bytes) -> int:
    """Read each byte once: counts the tags that open or close, in text that has no other use for the character."""
    sign, found = np.uint8(ord("<")), 0
    hits = np.empty(_BLOCK, np.bool_)
    for at in range(0, len(data), _BLOCK):
        block = data[at : at + _BLOCK]
        found += int(np.count_nonzero(np.equal(block, sign, out=hits[: len(block)])))
    return found
