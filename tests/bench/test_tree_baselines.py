"""The experiment of paper 1: every baseline counts the same results of a query of Table 6 as the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from xml.parsers import expat

import numpy as np
import pytest
from pyspark.sql import SparkSession

from bench.trees import baselines, figures
from bench.trees.dblp import dblp
from bench.trees.queries import KINDS, MEGABYTES, QUERIES, XMARK_SCALES
from bench.trees.treebank import treebank
from bench.trees.xmark import xmark
from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from tests.lang.test_tree_patterns import TABLE_6
from tests.semantics.tree_documents import Document
from tests.sessions import session

# Edge cases that generated documents lack: repeated children, other orders, and comments or processing instructions
# between siblings, which are not siblings.
EDGE_CASES = {
    "dblp": """<dblp>
<article><author>a</author><author>b</author><title>t</title><!-- c --><pages>1</pages><year>2</year></article>
<article><author>a</author><title>t</title><pages>1</pages><pages>2</pages><year>3</year><url/><ee/></article>
<article><title>t</title><author>a</author><pages>1</pages><year>2</year></article>
<article><author>a</author><title>t</title><year>2</year><author>b</author><title>u</title><pages>1</pages></article>
<article><author>a</author><title>t</title><journal>j</journal><year>2</year><pages>1</pages></article>
<inproceedings><author>a</author><title>t</title><pages>1</pages><year>2</year></inproceedings>
</dblp>""",
    "treebank": """<FILE>
<EMPTY><VP><PP><IN/><NP><CD/><VBN/><VBN/><CD/></NP><NP><VBN/><CD/></NP></PP></VP></EMPTY>
<EMPTY><S><NP><PP><IN/><NP><CD/><VBN/></NP><NN/></PP></NP></S></EMPTY>
<EMPTY><S><VP><VP><PP><NP><CD/><VBN/></NP><IN/><VP><PP><IN/><?p?><NP><VBN/><CD/><NN/></NP></PP></VP></PP></VP></VP></S></EMPTY>
</FILE>""",
    "xmark": """<site>
<regions><asia><item><location/><mailbox><mail><text><bold><emph/></bold></text></mail></mailbox>
<description><text/></description></item>
<item><location/><mailbox><mail/></mailbox><emph/><description><text><keyword/></text></description></item></asia></regions>
<people><person><address><zipcode> 6.0 </zipcode></address><!-- c --><profile><education/><age/></profile></person>
<person><address><zipcode>6</zipcode></address><address><zipcode>06</zipcode></address><profile><age/><education/></profile>
<address><zipcode>7</zipcode></address><profile><age/></profile></person>
<person><address/><profile><education/><x><age/></x></profile><address><zipcode>66</zipcode><zipcode>6</zipcode></address></person>
<person><address><zipcode>6</zipcode></address><homepage/><profile><education/><age/></profile></person></people>
</site>""",
}
GENERATED: dict[str, Callable[[], bytes]] = {
    "dblp": lambda: b"".join(dblp(300)),
    "treebank": lambda: b"".join(treebank(150_000)),
    "xmark": lambda: b"".join(xmark(0.004, seed=11)),
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Path, Document]]]:
    """Return the generated and the edge-case document of each kind, as a file and parsed for the oracle."""
    folder = tmp_path_factory.mktemp("documents")
    found: dict[str, list[tuple[Path, Document]]] = {}
    for kind, make in GENERATED.items():
        for name, body in (("generated", make()), ("edge", EDGE_CASES[kind].encode())):
            path = folder / f"{kind}-{name}.xml"
            path.write_bytes(body)
            found.setdefault(kind, []).append((path, Document.parse(body)))
    return found


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("warehouse")) as started:
        yield started


def count_by_oracle(name: str, document: Document) -> int:
    """Return the number of top-level results, or 1 for a match of a boolean query."""
    found = find_trees(parse_tree(QUERIES[name].text).pattern, document.root)
    return 0 if found is None else len(found) if QUERIES[name].returns else 1


def test_queries_are_those_of_table_6() -> None:
    assert {name: query.text for name, query in QUERIES.items()} == TABLE_6
    assert {query.kind for query in QUERIES.values()} == set(KINDS)
    assert {query.document for query in QUERIES.values()} == set(MEGABYTES) == set(GENERATED)
    assert len(XMARK_SCALES) == len(MEGABYTES["xmark"])
    assert [name for name, query in QUERIES.items() if not query.returns] == ["Q1.1", "Q2.1", "Q3.1"]


@pytest.mark.parametrize("name", QUERIES)
def test_lxml_counts_as_many_results_as_the_oracle(
    name: str, documents: dict[str, list[tuple[Path, Document]]]
) -> None:
    for path, document in documents[QUERIES[name].document]:
        expected = count_by_oracle(name, document)
        assert baselines.iterparse(name, path) == expected
        assert baselines.iterparse_xpath(name, path) == expected
        assert baselines.xpath(name, path) == expected
        assert baselines.iterparse(name, path, first=True) == expected
        assert baselines.iterparse_xpath(name, path, first=True) == expected
        assert expected > 0 or "edge" in path.name


def test_baselines_count_zero_without_a_match(tmp_path: Path) -> None:
    for name, query in QUERIES.items():
        path = tmp_path / "none.xml"
        path.write_text("<FILE><EMPTY/><article/><person/><item/></FILE>", encoding="utf-8")
        assert count_by_oracle(name, Document.parse(path.read_bytes())) == 0, query
        assert {
            baselines.iterparse(name, path),
            baselines.iterparse_xpath(name, path),
            baselines.xpath(name, path),
        } == {0}


def test_each_query_can_be_written_for_spark_or_not() -> None:
    assert {*baselines.BY_SPARK, *baselines.NOT_BY_SPARK} == set(QUERIES)
    assert not {*baselines.BY_SPARK} & {*baselines.NOT_BY_SPARK}
    assert set(baselines.NOT_BY_XPATH) < set(QUERIES)


def test_spark_counts_as_many_results_as_the_oracle(
    spark: SparkSession, documents: dict[str, list[tuple[Path, Document]]]
) -> None:
    for name in baselines.BY_SPARK:
        path, document = documents[QUERIES[name].document][0]
        assert baselines.spark_xml(spark, name, path) == count_by_oracle(name, document), name


def test_parser_and_memory_baselines(tmp_path: Path, documents: dict[str, list[tuple[Path, Document]]]) -> None:
    path, _ = documents["xmark"][0]
    baselines.bare_expat(path)
    cut = tmp_path / "cut.xml"
    cut.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(expat.ExpatError):
        baselines.bare_expat(cut)
    data = baselines.bytes_of(path)
    copy = np.zeros_like(data)
    baselines.memcpy(data, copy)
    assert (copy == data).all()
    assert baselines.byte_scan(data) == path.read_bytes().count(b"<")


# charts


def measurements() -> list[figures.Measurement]:
    found = [
        figures.Measurement(name, query.kind, query.document, size, engine, size / (100 + number), 7, 120.0)
        for number, (query, engine) in enumerate(product(QUERIES.values(), ("safe", "iterparse")))
        for name, sizes in ((query.name, MEGABYTES[query.document]),)
        for size in sizes
    ]
    return [
        *found,
        *(
            figures.Measurement("", "", document, size, "bare expat", size / 150, None, None)
            for document, sizes in MEGABYTES.items()
            for size in sizes
        ),
        figures.Measurement("Q3.1", "tree", "xmark", 118.6, "lxml XPath", 2.0, 1, None),
    ]


def test_table_has_every_query_engine_and_document() -> None:
    text = figures.table(measurements())
    for word in (*QUERIES, "safe", "iterparse", "lxml XPath", "bare expat", "DBLP, 133.9 MB", "XMark, 1,218.6 MB"):
        assert word in text
    line = next(one for one in text.splitlines() if one.startswith("Q1.1"))
    assert line.split()[:4] == ["Q1.1", "tree", "7", "100"]


def test_figure_1_has_one_document_of_each_kind() -> None:
    chart = figures.figure_1(measurements()).to_dict()
    values = chart["data"]["values"]
    assert {one["of"] for one in values} == {"DBLP, 133.9 MB", "Treebank, 86.1 MB", "XMark, 118.6 MB"}
    assert {one["query"] for one in values} == {*QUERIES, ""}


def test_figure_2_has_a_line_for_each_kind() -> None:
    chart = figures.figure_2(measurements(), "safe").to_dict()
    values = chart["data"]["values"]
    assert {one["kind"] for one in values} == set(KINDS)
    assert {one["megabytes"] for one in values} == set(MEGABYTES["xmark"])
    # The rate of a kind with two queries is the sum of their bytes divided by the sum of their times.
    of = {one.query: one.seconds for one in measurements() if one.engine == "safe" and one.megabytes == 11.9}
    tree = next(one for one in values if one["kind"] == "tree" and one["megabytes"] == 11.9)
    assert tree["rate"] == pytest.approx(2 * 11.9 / (of["Q3.1"] + of["Q3.2"]))


def test_charts_are_drawn(tmp_path: Path) -> None:
    paths = list(figures.draw(measurements(), tmp_path, "trees", ("safe", "trusted")))
    assert [path.name for path in paths] == ["trees-queries.svg", "trees-sizes-safe.svg"]
    assert all(path.read_text(encoding="utf-8").startswith("<svg") for path in paths)
