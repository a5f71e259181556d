"""Real documents for tree patterns: a part of DBLP, XMark at a scale factor of 0.01, and parsed sentences of IcePaHC.

The data is not part of the project: a test is skipped if its file is missing. Each document is XML in bytes, complete
or truncated to its first parts, which is still well-formed.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias
from xml.sax.saxutils import escape

import pytest
from lxml import etree

DATA = Path(os.environ.get("PERSEID_DATA") or Path(__file__).parents[3] / "shared" / "data")
"""Folder of the real data: next to the project, or the environment variable PERSEID_DATA."""


def real(name: str) -> Path:
    """Returns the path of a data file, or skips the test if it is missing."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no {name} in the folder of real data, which PERSEID_DATA names")
    return path


@cache
def dblp_document(articles: int | None = None) -> bytes:
    """DBLP, in ISO-8859-1; the sample has no articles, so its papers of proceedings are called that."""
    whole = re.sub(rb"(</?)inproceedings\b", rb"\1article", real("xml/dblp_sample.xml").read_bytes())
    ends = [found.end() for found in re.finditer(b"</article>", whole)]
    return whole if articles is None or articles >= len(ends) else whole[: ends[articles - 1]] + b"\n</dblp>\n"


@cache
def xmark_document(each: int | None = None, *, as_is: bool = False) -> bytes:
    """Returns XMark's auction site, with at most `each` items of each region, people, and so on.

    Q3.6 selects people with the zip code 6, an education and an age. XMark has none, so the codes 6 and 8 are swapped
    unless `as_is`.
    """
    whole = real("xml/xmark_sf0.01.xml").read_bytes()
    if not as_is:
        swapped = {b"6": b"8", b"8": b"6"}
        whole = re.sub(rb"(?<=<zipcode>)[68](?=</zipcode>)", lambda found: swapped[found[0]], whole)
    if each is None:
        return whole
    site = etree.fromstring(whole)
    for many in [*site.find("regions"), *site.iterchildren("categories", "catgraph", "people"), *site[-2:]]:
        del many[each:]
    return bytes(etree.tostring(site))


# IcePaHC: bracketed trees as the XML that Treebank has

Tree: TypeAlias = "list[str | Tree]"

TAGS = {
    # clauses and phrases
    "IP": "S", "CP": "SBAR", "WNP": "WHNP", "WPP": "WHPP", "WADVP": "WHADVP", "WADJP": "WHADJP", "INTJP": "INTJ",
    # words; how many is a number (NUM), one (ONE), or a quantity (Q)
    "N": "NN", "NS": "NNS", "NPR": "NNP", "NPRS": "NNPS", "PRO": "PRP", "D": "DT", "P": "IN", "C": "IN", "CONJ": "CC",
    "ADJ": "JJ", "ADJR": "JJR", "ADJS": "JJS", "ADV": "RB", "ADVR": "RBR", "ADVS": "RBS", "NEG": "RB", "WPRO": "WP",
    "WADV": "WRB", "WD": "WDT", "ES": "EX", "NUM": "CD", "ONE": "CD", "ONES": "CD", "Q": "CD", "QR": "CD", "QS": "CD",
    # punctuation, as Treebank's XML names it
    ".": "_PERIOD_", ",": "_COMMA_", '"': "_QUOTES_", "": "EMPTY",
}  # fmt: skip
VERBS = [
    (re.compile(r"MD.*"), "MD"),
    (re.compile(r"(BE|DO|HV|RD|VB)P[IS]"), "VBP"),
    (re.compile(r"(BE|DO|HV|RD|VB)D[IS]"), "VBD"),
    (re.compile(r"(BE|DO|HV|RD|VB)I?"), "VB"),
    (re.compile(r"(BE|DO|HV|RD|VB|.A)N"), "VBN"),
    (re.compile(r"(BE|DO|HV|RD|VB|.A)G"), "VBG"),
]
VERBAL = {"TO", "MD", "VB", "VBD", "VBG", "VBN", "VBP"}
CLOSING = {"_PERIOD_", "_COMMA_", "_QUOTES_"}


@cache
def icepahc_document(sentences: int | None = None) -> bytes:
    """Parsed sentences under the tags of Treebank, the newest text first.

    IcePaHC's clauses are flat: verbs, subjects and objects are siblings, and there is no verb phrase. Treebank's have
    one, so the first verb of a clause and all that comes after it, but for closing marks, are put into a VP.
    """
    out = ["<?xml version='1.0' encoding='UTF-8'?>\n<FILE>\n"]
    for number, sentence in enumerate(_sentences()):
        if number == sentences:
            break
        out += [*_xml(sentence), "\n"]
    return "".join([*out, "</FILE>\n"]).encode()


def _sentences() -> Iterator[Tree]:
    with tarfile.open(real("xml/icepahc_trees.tar.gz")) as texts:
        for member in sorted(texts.getmembers(), key=lambda one: one.name, reverse=True):
            opened = texts.extractfile(member) if member.isfile() else None
            if opened is None:
                continue
            waiting: list[Tree] = [[]]
            for token in re.findall(r"[()]|[^\s()]+", opened.read().decode()):
                if token == "(":
                    waiting.append([])
                elif token == ")":
                    tree = waiting.pop()
                    waiting[-1].append(tree)
                else:
                    waiting[-1].append(token)
            yield from (tree for tree in waiting[0] if isinstance(tree, list))


@cache
def _tag_of(label: str) -> str:
    base = re.split(r"(?<=.)[-=+\d]", label)[0]
    for form, tag in VERBS:
        if form.fullmatch(base):
            return tag
    return TAGS.get(base) or (base if re.fullmatch(r"[A-Z]+", base) else "X")


def _tag(tree: Tree) -> str:
    return _tag_of(tree[0] if isinstance(tree[0], str) else "")


def _xml(tree: Tree) -> Iterator[str]:
    """Yields the XML of a bracket, without the marks of the edition and the number of the sentence."""
    tag = _tag(tree)
    if tag in ("CODE", "ID"):
        return
    children = [one for one in tree if isinstance(one, list)]
    yield f"<{tag}>"
    if not children:
        yield escape(" ".join(_word(one) for one in tree[1:] if isinstance(one, str)))
    first, last = _verb_phrase(children) if tag == "S" else (-1, -1)
    for number, child in enumerate(children):
        yield "<VP>" if number == first else ""
        yield from _xml(child)
        yield "</VP>" if number == last else ""
    yield f"</{tag}>"


def _verb_phrase(children: list[Tree]) -> tuple[int, int]:
    tags = [_tag(one) for one in children]
    first = next((number for number, tag in enumerate(tags) if tag in VERBAL), -1)
    last = next((number for number in range(len(tags) - 1, -1, -1) if tags[number] not in CLOSING), -1)
    return first, last if first >= 0 else -1


def _word(text: str) -> str:
    """A word without its lemma; traces are as they are."""
    return text if text.startswith("*") else text.rpartition("-")[0] or text
