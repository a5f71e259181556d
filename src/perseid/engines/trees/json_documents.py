"""JSON converted to XML, to be read like any document.

The root element is ``json``. A member of an object is an element of its name; an array is as many elements of the member's
name as it has items, and one in an array, or at the top, has its items as elements named ``item``. Strings are their text,
numbers and booleans their literal. A null has no element, except as the root. Nothing here recurses and numbers stay
text, so that depth and number of digits are no problem.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from perseid.engines.trees.limits import DEEPEST, GROWTH_ALLOWANCE_BYTES, MAX_GROWTH, MAX_JSON_GROWTH
from perseid.engines.trees.plain_xml import xml_name, xml_text
from perseid.errors import DocumentError

ROOT, ITEM = "json", "item"

_S = r"[ \t\n\r]*+"
_STRING = r'"((?:[^"\\\x00-\x1f]++|\\.)*+)"'
_LITERAL = r"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+|true|false)"
_VALUE = rf"{_S}(?:{_STRING}|{_LITERAL}|(null)|(\{{)|(\[))"
_TEXT, _LITERALLY, _NULL, _OBJECT, _ARRAY, _END = range(2, 8)
"""Groups of the next token; the first group is the name of a member."""
_TOP = re.compile(rf"(){_VALUE}")
_NEXT = {
    (is_object, is_first): re.compile(
        rf"{_S}(?:{'' if is_first else ','}{rf'{_S}{_STRING}{_S}:' if is_object else '()'}{_VALUE}|({end}))"
    )
    for is_object, end in ((True, r"\}"), (False, r"\]"))
    for is_first in (True, False)
}
_FIRST_MEMBER, _MEMBER, _FIRST_ITEM, _ITEM = (
    _NEXT[key] for key in ((True, True), (True, False), (False, True), (False, False))
)
_BLANK = re.compile(_S)
_WHOLE = re.compile(_STRING)
_NUMBER_WORD = re.compile(r"-?(?:NaN|Infinity)\b")
_HALF = re.compile("[\ud800-\udfff]")


def json_to_xml(body: str | bytes) -> bytes:
    """Convert a JSON document to XML; raise a :class:`DocumentError` with line and column if it is malformed."""
    text = (body if isinstance(body, str) else _decoded(body)).removeprefix("\ufeff")
    if half := _HALF.search(text):
        _refuse(text, half.start(), "Unpaired surrogate in the document")
    return _written(text, min(MAX_GROWTH * len(text), MAX_JSON_GROWTH * len(text) + GROWTH_ALLOWANCE_BYTES)).encode()


def _written(text: str, max_size: int) -> str:
    out: list[str] = []
    ends: list[str] = []  # by open bracket: the text to write at its end
    items: list[str | None] = []  # by open bracket: the name of items; members of an object have their own
    is_plain = "\\" not in text and xml_text(text) is text
    at = depth = size = 0
    name: str | None = ROOT
    expected = _TOP
    while True:
        token = expected.match(text, at)
        if token is None:
            _refuse_next(text, at, expected)
        kind = token.lastindex
        if kind == _END:
            items.pop()
            written = ends.pop()
            depth -= written != ""
        else:
            is_member = name is None
            tag = xml_name(token[1] if is_plain else _unescaped(text, token, 1)) if name is None else name
            is_list = kind == _ARRAY and is_member  # each of its items is an element, but the array is not
            if depth >= DEEPEST and kind != _NULL and not is_list:
                _refuse(text, at, f"Elements are nested deeper than {DEEPEST:,} levels")
            if kind == _TEXT:
                content = token[_TEXT] if is_plain else xml_text(_unescaped(text, token, _TEXT))
                written = f"<{tag}>{content}</{tag}>"
            elif kind == _LITERALLY:
                written = f"<{tag}>{token[_LITERALLY]}</{tag}>"
            elif kind == _NULL:
                written = "" if items else f"<{tag}/>"
            else:
                written = "" if is_list else f"<{tag}>"
                ends.append("" if is_list else f"</{tag}>")
                items.append(None if kind == _OBJECT else tag if is_list else ITEM)
                depth += not is_list
        at = token.end()
        out.append(written)
        size += len(written)
        if size > max_size:
            _refuse(
                text, at, f"As XML, the document has more than {max_size:,} characters: array items repeat a long name"
            )
        if not items:
            break
        name = items[-1]
        if kind in (_OBJECT, _ARRAY):
            expected = _FIRST_MEMBER if name is None else _FIRST_ITEM
        else:
            expected = _MEMBER if name is None else _ITEM
    if _after(text, at) < len(text):
        _refuse(text, at, "Unexpected content after the end of the document")
    return "".join(out)


def _unescaped(text: str, token: re.Match[str], group: int) -> str:
    """Return the string in a group of a match, with escapes decoded."""
    quoted = token[group]
    if "\\" not in quoted:
        return quoted
    try:
        decoded: str = json.loads(f'"{quoted}"')
    except json.JSONDecodeError as error:
        _refuse(text, token.start(group) + error.pos - 1, "Invalid escape sequence in a string")
    if _HALF.search(decoded) is not None:
        _refuse(text, token.start(group) - 1, "Unpaired surrogate in a string")
    return decoded


def _decoded(body: bytes) -> str:
    encoding = json.detect_encoding(body)
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        before = body[: error.start].decode(encoding, "replace")
        _refuse(before + "?", len(before), "Invalid bytes: JSON is encoded in UTF-8, UTF-16 or UTF-32")


def _after(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()


def _refuse_next(text: str, at: int, expected: re.Pattern[str]) -> NoReturn:
    """Raise an error for the first part of the expected token that is missing."""
    is_object, is_first = next((key for key, one in _NEXT.items() if one is expected), (False, True))
    at = _after(text, at)
    if not is_first:
        if not text.startswith(",", at):
            _refuse(text, at, f"Expected ',' or '{'}' if is_object else ']'}'")
        at = _after(text, at + 1)
    if is_object:
        name = _WHOLE.match(text, at)
        if name is None:
            _refuse(text, at, "Expected a name in quotes")
        at = _after(text, name.end())
        if not text.startswith(":", at):
            _refuse(text, at, "Expected ':'")
        at += 1
    _refuse(text, at, "Expected a value")


def _refuse(text: str, at: int, message: str) -> NoReturn:
    """Raise an error at a position, with a more specific message for a known mistake."""
    at = _after(text, at)
    if at >= len(text):
        message = "Unexpected end of document" if text.strip() else "The document is empty"
    elif text.startswith("<", at) and not text[:at].strip():
        message = "The document looks like XML, and is read as JSON: remove format='json'"
    elif word := _NUMBER_WORD.match(text, at):
        message = f"{word[0]} is not a JSON value"
    elif text.startswith('"', at) and message in ("Expected a value", "Expected a name in quotes"):
        message = "Unterminated string, or a control character in a string"
    raise DocumentError(message, line=text.count("\n", 0, at) + 1, column=at - text.rfind("\n", 0, at))
