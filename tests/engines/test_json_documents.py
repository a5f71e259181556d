"""JSON to XML: the result is well-formed and has the same content; invalid JSON raises an error with its position."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from perseid.engines.trees.json_documents import json_to_xml
from perseid.engines.trees.limits import DEEPEST
from perseid.engines.trees.plain_xml import xml_name
from perseid.errors import DocumentError

Tree = tuple[str, str, tuple[Any, ...]]
"""A name, the text of a value, the elements in it."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)


def xml_text(text: str) -> str:
    """Returns the string with the characters that XML cannot represent replaced."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", text)


def trees(name: str, value: Any, is_member: bool) -> list[Tree]:
    """The elements of a value, by the rules as the guide has them."""
    if value is None:
        return []
    if isinstance(value, list) and is_member:
        return [tree for item in value for tree in trees(name, item, False)]
    if isinstance(value, list):
        return [(name, "", tuple(tree for item in value for tree in trees("item", item, False)))]
    if isinstance(value, dict):
        return [(name, "", tuple(tree for key, one in value.items() for tree in trees(xml_name(key), one, True)))]
    return [(name, xml_text(value) if isinstance(value, str) else json.dumps(value), ())]


def as_tree(element: Any) -> Tree:
    return element.tag, element.text or "", tuple(map(as_tree, element))


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
@settings(deadline=None)
def test_xml_of_json_has_the_same_content(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    xml = json_to_xml(text)
    assert json_to_xml(text.encode()) == xml
    expat.ParserCreate(None, "\x1f").Parse(xml, True)
    assert as_tree(etree.fromstring(xml)) == (*trees("json", value, False), ("json", "", ()))[0]


@given(VALUES, st.data())
@settings(deadline=None)
def test_json_is_rejected_if_and_only_if_python_rejects_it(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    sign = data.draw(st.sampled_from(['"', "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", " ", "\n", "\x00", "n", "\\u00e9"]))  # fmt: skip
    text = text[:at] + sign + text[at + data.draw(st.integers(0, 2)) :]

    def no_constant(_: str) -> None:
        raise ValueError

    try:
        read = json.loads(text, parse_constant=no_constant, parse_int=str)
        json.dumps(read, ensure_ascii=False).encode()
    except ValueError:
        with pytest.raises(DocumentError) as raised:
            json_to_xml(text)
        assert 1 <= raised.value.line <= text.count("\n") + 1
        assert raised.value.column >= 1
    else:
        etree.fromstring(json_to_xml(text))


@pytest.mark.parametrize(
    ("text", "xml"),
    [
        ('{"a": 1.50, "b": -0, "c": 1E+400, "d": 123456789012345678901234567890}', "<a>1.50</a><b>-0</b><c>1E+400</c><d>123456789012345678901234567890</d>"),
        ('{"a": [1, [2, [3]], {"b": []}, []]}', "<a>1</a><a><item>2</item><item><item>3</item></item></a><a></a><a></a>"),
        ('[true, "x", [false]]', "<item>true</item><item>x</item><item><item>false</item></item>"),
        ('{"a": null, "b": [null, 1], "c": ""}', "<b>1</b><c></c>"),
        ('{"a": 1, "a": {"b": 2}, "a": [3]}', "<a>1</a><a><b>2</b></a><a>3</a>"),
        (r'"<&>\r\n\t\u0000\u001f\ufffe\ud83d\ude00\/"', "&lt;&amp;&gt;&#13;\n\t\ufffd\ufffd\ufffd\U0001f600/"),
        ("\ufeff 5 ", "5"),
    ],
)  # fmt: skip
def test_the_rules(text: str, xml: str) -> None:
    assert json_to_xml(text).decode() == f"<json>{xml}</json>"
    assert json_to_xml("null") == b"<json/>"


def test_the_table_of_the_meaning() -> None:
    page = (Path(__file__).parents[2] / "docs" / "semantics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*)` \| `(<json.*)` \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for text, xml in rows:
        assert as_tree(etree.fromstring(json_to_xml(text))) == as_tree(etree.fromstring(xml))


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("total", "total"), ("a-b.c_1", "a-b.c_1"), ("a:b", "a_b"), ("", "_"), ("1x", "_1x"), ("-", "_-"), ("xml", "xml"), ("$ref", "_ref"),
        ("@id", "_id"), ("two words", "two_words"), ("größe", "größe"), ("日本", "日本"), ("·x", "_·x"), ("\x00", "_"), ("💥", "_"), ("a" * 101 + " ", "a" * 101 + "_"),
    ],
)  # fmt: skip
def test_names(name: str, element: str) -> None:
    assert xml_name(name) == element
    assert json_to_xml(json.dumps({name: 1})).decode() == f"<json><{element}>1</{element}></json>"


@pytest.mark.parametrize(
    ("body", "what", "line", "column"),
    [
        ('{"a": 1,\n "b": }', "Expected a value", 2, 7),
        ('{"a": 1,}', "Expected a name in quotes", 1, 9),
        ('{"a"; 1}', "Expected ':'", 1, 5),
        ("[1 2]", "Expected ',' or ']'", 1, 4),
        ('{"a": 1]', "Expected ',' or '}'", 1, 8),
        ('{"a": [1', "Unexpected end of document", 1, 9),
        (" \n", "The document is empty", 2, 1),
        ("{} {}", "Unexpected content after the end of the document", 1, 4),
        ("01", "Unexpected content after the end", 1, 2),
        ("[NaN]", "NaN is not a JSON value", 1, 2),
        ("-Infinity", "-Infinity is not a JSON value", 1, 1),
        ('["\\ud800"]', "Unpaired surrogate in a string", 1, 2),
        ('{"\\udc00": 1}', "Unpaired surrogate in a string", 1, 2),
        ("\ud800", "Unpaired surrogate in the document", 1, 1),
        ('["\\x41"]', "Invalid escape sequence", 1, 3),
        ('["a\nb"]', "Unterminated string, or a control character", 1, 2),
        ("\n <order/>", "looks like XML, and is read as JSON: remove format='json'", 2, 2),
        (b'{"a":\n "\xff"}', "Invalid bytes: JSON is encoded in UTF-8", 2, 3),
        (b"\xed\xa0\x80", "Invalid bytes: JSON is encoded in UTF-8", 1, 1),
    ],
)
def test_invalid_json_error_has_a_position(body: str | bytes, what: str, line: int, column: int) -> None:
    with pytest.raises(DocumentError, match=re.escape(what)) as raised:
        json_to_xml(body)
    assert (raised.value.line, raised.value.column) == (line, column)


def test_bytes_of_any_encoding_that_json_has() -> None:
    text = '{"a": "é"}'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        assert json_to_xml(text.encode(encoding)).decode() == "<json><a>é</a></json>"


def test_depth_is_that_of_elements() -> None:
    deep = "[" * (DEEPEST - 1) + "1" + "]" * (DEEPEST - 1)
    assert json_to_xml(deep).count(b"<item>") == DEEPEST - 1
    for opening in ("[", '{"a":', '{"a":['):
        with pytest.raises(DocumentError, match=f"nested deeper than {DEEPEST:,} levels"):
            json_to_xml(opening * 100_000)


def test_large_values_take_linear_time() -> None:
    begun = time.monotonic()
    assert len(json_to_xml('"' + "x" * 20_000_000 + '"')) > 20_000_000
    assert len(json_to_xml('"' + "\\n" * 5_000_000 + '"')) > 5_000_000
    assert len(json_to_xml("9" * 5_000_000)) > 5_000_000
    with pytest.raises(DocumentError, match="Unterminated string"):
        json_to_xml('"' + "\\n" * 5_000_000)
    with pytest.raises(DocumentError, match="As XML, the document has more than"):
        json_to_xml(json.dumps({"n" * 100_000: [1] * 100_000}))
    assert time.monotonic() - begun < 30
