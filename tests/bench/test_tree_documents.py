"""The generated documents of the tree benchmark are well formed, deterministic, and shaped like the real ones."""

from __future__ import annotations

import re
from collections import Counter

from bench.trees.dblp import dblp
from bench.trees.xmark import xmark
from perseid.engines.trees.judge import validate

# Element counts of the original XMark generator at a scale factor of 0.01.
AT_A_HUNDREDTH = {
    "person": 255, "item": 217, "open_auction": 120, "closed_auction": 97, "bidder": 708, "mail": 205, "text": 1025,
    "keyword": 676, "emph": 718, "bold": 687, "listitem": 576, "parlist": 200, "incategory": 800, "interest": 397,
    "profile": 138, "education": 77, "age": 77, "address": 125, "zipcode": 125, "watch": 488,
}  # fmt: skip


def test_xmark_has_the_element_counts_of_the_original() -> None:
    whole = b"".join(xmark(0.05))
    validate([whole])
    found = Counter(re.findall(r"<([a-z_]+)", whole.decode()))
    assert {name for name, count in AT_A_HUNDREDTH.items() if abs(found[name] / 5 - count) > 0.2 * count} == set()
    assert abs(len(whole) / 5 - 1_161_615) < 120_000
    # A profile follows an address directly if there is neither a homepage nor a credit card.
    assert re.search(r"</address>\n<profile", whole.decode())
    assert re.search(r"</address>\n<homepage", whole.decode())


def test_xmark_is_deterministic() -> None:
    assert list(xmark(0.002)) == list(xmark(0.002))
    assert list(xmark(0.002)) != list(xmark(0.002, seed=8))


def test_dblp_has_articles_and_papers_with_optional_pages() -> None:
    whole = b"".join(dblp(2_000))
    validate([whole])
    text = whole.decode()
    assert len(re.findall("<article ", text)) + len(re.findall("<inproceedings ", text)) == 2_000
    assert re.search(r"</author>\n<title>[^<]*</title>\n<pages>[^<]*</pages>\n<year>", text)
    assert re.search(r"</title>\n<year>", text)
