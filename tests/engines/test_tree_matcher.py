"""The matcher of tree patterns against their semantics: same results, from any chunks, as early as possible."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.bounds import bounds_of
from perseid.engines.trees.collect import collect
from perseid.engines.trees.matcher import MatchRecord, TreeMatcher
from perseid.engines.trees.plan import tree_plan
from perseid.engines.trees.tokens import TokenBatch
from perseid.errors import DocumentError, LimitError, UnknownNameError, UnsupportedError
from perseid.lang import tree_patterns as tp
from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from perseid.semantics.documents import Element
from perseid.semantics.trees import number_of
from tests.blocks import blocks
from tests.engines.tree_matching import TreeResults, matched, matcher_of, shown
from tests.lang.test_tree_patterns import TABLE_6
from tests.semantics.real_trees import DATA, dblp_document, icepahc_document, xmark_document
from tests.semantics.tree_documents import (
    NAMESPACES,
    Document,
    RandomTrees,
    lines,
    random_document,
    random_siblings,
    read_tree_cases,
)

CASES = read_tree_cases(Path(__file__).parent.parent / "semantics" / "tree_cases")
PAIRS = 500


def one(pattern: str) -> tp.TreePattern:
    return parse_tree(pattern).pattern


def results_of(pattern: str, document: str | bytes, namespaces: dict[str, str] | None = None) -> TreeResults:
    data = document.encode() if isinstance(document, str) else document
    return matched(matcher_of([one(pattern)], namespaces), lambda: [data])[0][0]


def runnable(pattern: tp.TreePattern) -> bool:
    try:
        matcher_of([pattern], NAMESPACES)
    except UnsupportedError:
        return False
    return True


BEHIND = b"<!-- so much that the document is not at its end where its last tags are -->"


def random_pairs(seeds: range) -> Iterator[tuple[list[tp.TreePattern], str]]:
    """Returns some patterns, and a document that they often match; every fourth one has ambiguous runs."""
    for seed in seeds:
        chance = random.Random(seed)
        if seed % 4 == 3:
            yield [RandomTrees(chance).ambiguous_runs() for _ in range(3)], random_siblings(chance)
            continue
        patterns = [RandomTrees(chance).pattern() for _ in range(3)]
        yield patterns, random_document(chance, chance.choice([6, 14, 30]))


def agree(patterns: list[tp.TreePattern], text: str, chance: random.Random) -> int:
    """Asserts that the matcher equals the oracle, for random chunks and for the whole document; returns the number
    of patterns."""
    runnable_patterns = [pattern for pattern in patterns if runnable(pattern)]
    data, root = text.encode() + BEHIND, Document.parse(text).root
    wanted = [shown(find_trees(pattern, root, NAMESPACES)) for pattern in runnable_patterns]
    matcher = matcher_of(runnable_patterns, NAMESPACES)
    # Then whole, when all names are known: much of it is matched as it is scanned.
    for size in (chance.choice([1, 3, 17, 70]), len(data)):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        found, _ = matched(matcher, lambda pieces=pieces: pieces)  # type: ignore[misc]
        assert found == wanted, (text, size, [tp.print_tree(pattern) for pattern in runnable_patterns])
    return len(runnable_patterns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_cases(case: object) -> None:
    """Every hand-worked case of the semantics."""
    assert isinstance(case, type(CASES[0]))
    root = Document.parse(case.document).root
    found = results_of(case.pattern, case.document, case.namespaces)
    assert found == shown(find_trees(one(case.pattern), root, case.namespaces))
    assert lines(find_trees(one(case.pattern), root, case.namespaces)) == case.gives


def test_random_patterns() -> None:
    """Random patterns over random documents, in random pieces, several patterns in one pass."""
    chance, runnable_patterns = random.Random(5), 0
    for patterns, text in random_pairs(range(PAIRS)):
        runnable_patterns += agree(patterns, text, chance)
        if runnable_patterns >= PAIRS:
            return
    raise AssertionError("too few patterns can be run")


@pytest.mark.deep
@pytest.mark.parametrize("block", range(10))
def test_random_patterns_deep(block: int) -> None:
    """50,000 patterns in all, each over a document."""
    chance, runnable_patterns, seed = random.Random(block), 0, 10**6 * (block + 1)
    while runnable_patterns < 5000:
        for patterns, text in random_pairs(range(seed, seed + 100)):
            runnable_patterns += agree(patterns, text, chance)
        seed += 100


@pytest.mark.parametrize("name", sorted(TABLE_6))
def test_the_queries_of_the_paper_on_real_documents(name: str) -> None:
    """The queries equal the oracle and are never empty; all queries of a document run in one pass."""
    document, root = real_document(name[1])
    names = [one for one in sorted(TABLE_6) if one[1] == name[1]]
    found, _ = matched(matcher_of([one(TABLE_6[each]) for each in names]), lambda: [document])
    got = found[names.index(name)]
    assert got == shown(find_trees(one(TABLE_6[name]), root))
    assert got is not None
    assert got or not tp.return_names(one(TABLE_6[name]))


@cache
def real_document(family: str) -> tuple[bytes, Element]:
    made = {"1": lambda: dblp_document(1000), "2": lambda: icepahc_document(1500), "3": xmark_document}
    if not DATA.exists():
        pytest.skip("the real documents are not here")
    data = made[family]()
    return data, Document.parse(data).root


def test_results_do_not_depend_on_chunk_boundaries() -> None:
    """Splitting a document at any byte does not change the results."""
    text = "<r xmlns:p='u'><!-- - --><a k='1&amp;2'>é&#233;\r\n<![CDATA[]]x\r\ny]]></a><?pi ??><p:b/>2<a>2</a></r>"
    patterns = [one(text) for text in ("//a->x", "//a/@k->k", "//r(/a->x:/p:b->y)", "//*->x[last()]", "/r->x[/a = 2]")]
    data = text.encode()
    root = Document.parse(text).root
    wanted = [shown(find_trees(pattern, root, NAMESPACES)) for pattern in patterns]
    matcher = matcher_of(patterns, NAMESPACES)
    for cut in range(len(data) + 1):
        assert matched(matcher, lambda cut=cut: [data[:cut], data[cut:]])[0] == wanted  # type: ignore[misc]
    assert matched(matcher, lambda: [bytes([byte]) for byte in data])[0] == wanted


def test_matcher_is_reusable_for_other_documents() -> None:
    """No state of a previous document is left, even if it was abandoned midway."""
    chance = random.Random(3)
    patterns = [one(text) for text in ("//a->x[2]", "//b->x[last()]", "//*(/a->x:/b->y*)", "//c[//a]", "//@k->k")]
    matcher = matcher_of(patterns, NAMESPACES)
    for _ in range(60):
        text = random_document(chance, 20)
        data, root = text.encode(), Document.parse(text).root
        for cut in (data[: len(data) // 2], data.replace(b"</a>", b"</b>", 1)):
            with pytest.raises(DocumentError):
                for _ in matcher.read(lambda cut=cut: [cut]):  # type: ignore[misc]
                    pass
            break
        wanted = [shown(find_trees(pattern, root, NAMESPACES)) for pattern in patterns]
        assert matched(matcher, lambda data=data: [data])[0] == wanted  # type: ignore[misc]


def bytes_until_emitted(pattern: str, document: str, namespaces: dict[str, str] | None = None) -> list[int]:
    """Returns, for each result, the number of bytes read before it was emitted."""
    data, read, at = document.encode(), 0, []

    def pieces() -> Iterator[bytes]:
        nonlocal read
        for byte in data:
            read += 1
            yield bytes([byte])

    for emitted in matcher_of([one(pattern)], namespaces).read(pieces):
        if emitted is not None:
            at += [read for row in emitted.rows if row[y.O_LEVEL] == 0]
    return at


@pytest.mark.parametrize(
    ("pattern", "before", "after"),
    [
        ("//b", "<r><a/><b", "> </b></r>" + " " * 300),
        ("//b->x", "<r><b>1</b", "><c/></r>"),
        ("//a[/k]/b->x", "<r><a><b>1</b><c/><k/", "></a></r>"),
        ("//a[/k]/b->x", "<r><a><k/><b>1</b", "><c/></a></r>"),
        ("//a[/k = 1]/b->x", "<r><a><b/><k>1</k", "><c/></a></r>"),
        ("//r(/a->x:/b)", "<r><a>1</a><b></b", "><c/></r>"),
        ("//r(/a->x:/b*)", "<r><a>1</a><b/><b/><c></c", "><c/></r>"),
        ("//r(/a->x::/b)", "<r><a>1</a><c/><c/><b></b", "><b/></r>"),
        ("//a[last()]->x", "<r><q><a>1</a><a>2</a></q", "><a>3<b/></a></r>"),
    ],
)
def test_results_are_emitted_as_soon_as_decided(pattern: str, before: str, after: str) -> None:
    """The first result is emitted with the byte that decides it: the one after ``before``."""
    document = " " * 300  # a document is not begun before its declaration could have ended
    whole = before + after
    first = bytes_until_emitted(pattern, "<?xml version='1.0'?>" + document + whole)[0]
    assert first == len("<?xml version='1.0'?>" + document + before) + 1


def test_document_that_only_expat_can_parse_restarts() -> None:
    """A document that only expat can parse is read twice; results emitted before the restart are emitted again."""
    document = "<r><a>1</a><é/><a>2</a></r>".encode()
    starts, rows = 0, 0
    for emitted in matcher_of([one("//a->x")]).read(lambda: [document]):
        if emitted is None:
            starts, rows = starts + 1, 0
        else:
            rows += len(emitted.rows)
    assert (starts, rows) == (2, 2)


def test_runs_of_many_siblings_take_linear_time() -> None:
    """A run could begin at every child and fail at the last: the search goes backwards from the end in one pass."""
    count = 100_000
    data = ("<r>" + "<a/>" * count + "<z/><a/><b/></r>").encode()
    begun = time.process_time()
    found, _ = matched(
        matcher_of([one(text) for text in ("//r(/a->x|(/a*:/b:/y))", "//r(/a*:/b->x)", "//r((/a|/b)*:/q)")]),
        lambda: [data],
    )
    assert time.process_time() - begun < 10
    assert found[0] is not None
    assert len(found[0]) == count + 1
    assert found[1] == [(None, (("x", "<", ("", "b"), "", ()),))]
    assert found[2] is None


def test_deferred_evaluation_equals_the_oracle() -> None:
    """Patterns that are evaluated only at the end of the siblings equal the oracle."""
    chance = random.Random(11)
    texts = ("//r(/a->x|(/a*:/c->y))", "//r((/a->x|/b)*:/c->y)", "//r(/a->x:/b?:(/a*:/c)?)", "//r(/a->x{2}:/b->y?)")
    patterns = [one(text) for text in texts]
    matcher = matcher_of(patterns)
    for _ in range(20):
        letters = "".join(chance.choice("aaaaaaaaab") for _ in range(chance.randint(90, 150)))
        text = "<r>" + "".join(f"<{letter}/>" for letter in letters + chance.choice(["", "c", "bc"])) + "</r>"
        root = Document.parse(text).root
        found, _ = matched(matcher, lambda text=text: [text.encode()])  # type: ignore[misc]
        assert found == [shown(find_trees(pattern, root)) for pattern in patterns], text


def test_memory_does_not_grow_with_the_document() -> None:
    """Emitted results and failed candidates are released, also while a candidate is open all the time."""
    matcher = matcher_of(
        [
            one("//a->x[/k = 1]"),
            one("/r(/a->x:/b)"),
            one("/r(/a->x:/a->y:/c)"),
            one("/r[/first]//a[/k]/v->y"),
            one("/r[/a[2]]"),
        ]
    )
    piece = b"<a>some text<k>2</k><v>3</v></a><a><k>1</k></a><b/>" * 200

    def pieces(count: int) -> Iterator[bytes]:
        yield b"<r><first/>"
        for _ in range(count):
            yield piece
        yield b"</r>"

    def sizes() -> tuple[int, ...]:
        return tuple(len(part) for part in matcher.space)

    def read(count: int) -> int:
        return sum(len(emitted.rows) for emitted in matcher.read(lambda: pieces(count)) if emitted is not None)

    few = read(10)
    before = sizes()
    tracemalloc.start()
    many = read(200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sizes() == before
    assert peak < 4_000_000
    assert many > 15 * few


class Collecting(TreeMatcher):
    """Collects after every few bytes of a document."""

    def _matched(self, batch: TokenBatch) -> Iterator[MatchRecord]:
        yield from super()._matched(batch)
        collect(self.space)


@pytest.mark.parametrize("block", blocks(1, 3))
def test_garbage_collection_at_any_time_does_not_change_results(block: int) -> None:
    for patterns, text in random_pairs(range(7000 + block * 85, 7085 + block * 85)):
        runnable_patterns = [pattern for pattern in patterns if runnable(pattern)]
        data, root = text.encode(), Document.parse(text).root
        pieces = [data[at : at + 5] for at in range(0, len(data), 5)]
        found, _ = matched(Collecting(tree_plan(runnable_patterns, NAMESPACES)), lambda pieces=pieces: pieces)  # type: ignore[misc]
        assert found == [shown(find_trees(pattern, root, NAMESPACES)) for pattern in runnable_patterns], text


def test_memory_of_released_results_is_reused() -> None:
    """Memory of results without references is reused while other results are still referenced."""
    texts = ("/r(/a->x:/b)", "//a[/v->y]/k->z", "/r[/last]//q->q", "//a/@n->n", "//a->w[last()]", "/r(/a->x:/a->y:/b)")
    matcher = matcher_of([one(text) for text in texts])
    item = "<a n='{n}'>text of some length<k>{n}</k><v>&lt;{n}</v></a>"

    def document(count: int) -> bytes:
        items = "".join(item.format(n=n) + ("<b/>" if n % 1000 == 999 else "") for n in range(count))
        return f"<r><q>kept</q>{items}<q>also</q><last/></r>".encode()

    small, large = document(1500), document(12_000)
    for data in (small, large):
        pieces = [data[at : at + 5000] for at in range(0, len(data), 5000)]
        found, _ = matched(matcher, lambda pieces=pieces: pieces)  # type: ignore[misc]
        root = Document.parse(data).root
        for number in (0, 2, 3, 5) if data is large else range(len(texts)):
            assert found[number] == shown(find_trees(one(texts[number]), root)), texts[number]
    assert len(matcher.text) < 1 << 18
    assert len(matcher.cells) < 1 << 18


@pytest.mark.parametrize("value", [0, 1, 2, -7, 10**22, Decimal("0.1"), Decimal("1e-320"), Decimal("1.7976931348623157e308"), Decimal("1e400"), Decimal("-2.5"), 9007199254740993])  # fmt: skip
def test_numbers_are_compared_as_doubles(value: int | Decimal) -> None:
    """Texts of any length, on and next to the bounds where doubles round to a constant or no longer do."""
    low, high, closed = bounds_of(value)
    texts = ["0", "-0", ".", "", "1e5", " 1 ", "-1.", ".5", "007", "1.0", "- 1", "+1", "12345678901234567890.5", "0.1"]
    for bound in (low, high):
        digits = "".join(map(str, bound.digits))
        if abs(bound.sign) == 1:
            point = bound.point
            whole = digits.ljust(point, "0")[:point] if point > 0 else "0"
            rest = digits[point:] if point > 0 else "0" * -point + digits
            text = ("-" if bound.sign < 0 else "") + f"{whole}.{rest}"
            texts += [text, text + "1", text + "0", text[:-1], text[:-1] + chr(ord(text[-1]) - 1) + "9"]
    assert closed in (True, False)
    ops = ("=", "!=", "<", "<=", ">", ">=")
    patterns = [
        tp.TreePattern(tp.TreeNode(tp.Axis.CHILD, tp.NameTest("r"), predicates=(tp.Comparison(None, op, value),)))  # type: ignore[arg-type]
        for op in ops
    ]
    matcher = matcher_of(patterns)
    for text in texts:
        data = f"<r>{text}</r>".encode()
        root = Document.parse(data).root
        assert root.text == text
        found = matched(matcher, lambda data=data: [data])[0]  # type: ignore[misc]
        assert found == [shown(find_trees(pattern, root)) for pattern in patterns], (value, text, number_of(text))


def test_named_entities_need_no_declaration_that_is_read() -> None:
    """DBLP's, declared in a DTD that is named and never loaded; others are refused with their place."""
    document = '<!DOCTYPE dblp SYSTEM "dblp.dtd">\n<dblp><a k="&auml;">M&uuml;ller &amp; &Sigma;</a></dblp>'
    assert results_of("//a/@k->k", document) is not None
    found = results_of("//a->x", document)
    assert found == [("x", "<", ("", "a"), "Müller & Σ", ())]
    with pytest.raises(DocumentError, match="entity") as error:
        results_of("//a->x", '<!DOCTYPE dblp SYSTEM "dblp.dtd">\n<dblp><a>\n  x&nobody;</a></dblp>')
    assert error.value.line in (2, 3)


def test_unsupported_and_too_large_patterns_are_rejected() -> None:
    with pytest.raises(UnsupportedError, match="last"):
        matcher_of([one("//a(/b[last()]:/c)")])
    with pytest.raises(LimitError, match="62 distinct steps"):
        matcher_of([one("//a(" + "|".join(f"/b{k}" for k in range(70)) + ")")])
    with pytest.raises(LimitError, match="62 conditions"):
        matcher_of([one("//a" + "".join(f"[/b{k}]" for k in range(70)))])
    with pytest.raises(LimitError, match="too large"):
        matcher_of([one("//a(((/b|/c|/d){1,1000}:/e){1,1000})")])
    with pytest.raises(UnknownNameError):
        matcher_of([one("//q:a")])


def test_limits_of_results() -> None:
    """Results larger than the initial capacity, and many of them."""
    text = "<r>" + "<a>" + "x" * 300_000 + "<b>y</b>" * 5000 + "</a>" + "</r>"
    found = results_of("//a->x[//b->y]", text)
    assert found is not None
    assert (len(found[0][4]), len(found[0][3])) == (5000, 305_000)
    deep = "<a>" * 300 + "</a>" * 300
    found = results_of("//a->x//a->y", deep)
    assert found is not None
    assert len(found) == 299


def test_output_size_of_a_document_is_limited() -> None:
    """The text of thousands of nested nodes would be repeated for each of them, so its size is limited."""
    data = ("<a>" * 9000 + "x" * 1_000_000 + "</a>" * 9000).encode()
    with pytest.raises(DocumentError, match="more than"):
        for _ in matcher_of([one("//a->x")]).read(lambda: [data]):
            pass


def test_plain_python_agrees() -> None:
    """The same source without Numba."""
    code = (
        "import random\n"
        "from tests.engines.test_tree_matcher import agree, random_pairs\n"
        "print(sum(agree(patterns, text, random.Random(1)) for patterns, text in random_pairs(range(150))))\n"
    )
    environment = {**os.environ, "PERSEID_NUMBA": "0"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 300


def test_no_candidates_are_open_after_a_document() -> None:
    """After a document, the stack holds only the document node, and nothing is referenced."""
    for patterns, text in random_pairs(range(50)):
        matcher: TreeMatcher = matcher_of([pattern for pattern in patterns if runnable(pattern)], NAMESPACES)
        matched(matcher, lambda text=text: [text.encode()])  # type: ignore[misc]
        head = matcher.head
        assert head[y.X_HOLDERS] == head[y.X_PARKED] == head[y.X_TEXTERS] == head[y.X_BUFFERED] == 0
        assert head[y.X_TOP] <= 1 + y.CANDIDATE_WIDTH
