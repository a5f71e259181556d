"""XML templates of SELECT, in which ``{x}`` is a slot for the nodes of a variable, parsed into a frozen tree.

Slots are parsed in the text itself, so that their errors have spans; expat parses the rest. Output is serialized from
the tree, so it is well formed for any nodes. ``{{`` and ``}}`` are literal braces.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from xml.parsers import expat

from perseid.errors import LimitError, PatternSyntaxError
from perseid.lang import limits
from perseid.lang.expressions import Span

Name: TypeAlias = tuple[str, str]
"""Namespace URI, empty for none, and local name."""

_BRACES = re.compile(r"\{\{|\}\}|\{\s*([^\W\d]\w*)\s*\}|\{[^{}]*\}?|\}")
_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Slot:
    """Placeholder for the nodes of a variable."""

    variable: str


Piece: TypeAlias = str | Slot


@dataclass(frozen=True, slots=True)
class TemplateElement:
    """An element of the output."""

    name: Name
    attributes: tuple[tuple[Name, tuple[Piece, ...]], ...] = ()
    content: tuple[TemplateElement | Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """A template: its root element, and its slots with their offsets in the text."""

    root: TemplateElement
    slots: tuple[tuple[str, int, int], ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _, _ in self.slots))


def read_template(text: str, span: Callable[[int, int], Span] | None = None) -> Template:
    """Parse a template; ``span`` converts offsets to spans of an enclosing text."""
    try:
        return _read(text)
    except _WrongError as error:
        kind = LimitError if error.too_large else PatternSyntaxError
        raise kind(
            error.args[0],
            span=(span or _span_in(text))(error.start, error.end),
            hint=error.hint,
            source=None if span else text,
        ) from None


class _WrongError(Exception):
    """Error in a template, with its offsets."""

    def __init__(self, message: str, start: int, end: int, hint: str | None = None, too_large: bool = False) -> None:
        super().__init__(message)
        self.start, self.end, self.hint, self.too_large = start, end, hint, too_large


def _span_in(text: str) -> Callable[[int, int], Span]:
    return lambda start, end: Span(
        start, end, text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1) + 1
    )


@lru_cache(maxsize=1 << 10)
def _read(text: str) -> Template:
    odd = re.search(r"<[!?]", text)
    if odd is not None:
        raise _WrongError(
            "Unsupported markup in SELECT: expected elements, attributes and text.",
            *odd.span(),
            "Remove comments, CDATA, processing instructions and document types; write &lt; and &amp; for < and &.",
        )
    slots = [(found[1], *found.span()) for found in _BRACES.finditer(text) if found[1] is not None]
    begin, fill = _unused(text)
    try:
        root = _TemplateBuilder(_marked(text, begin, fill), begin, fill, [name for name, _, _ in slots]).read()
    except UnicodeEncodeError as error:
        raise _WrongError("Invalid character in SELECT.", error.start, error.end) from None
    return Template(root, tuple(slots))


def _marked(text: str, begin: str, fill: str) -> str:
    """Replace slots and doubled braces by marks of the same length, so that offsets stay valid."""

    def mark(found: re.Match[str]) -> str:
        sign = found.group()
        if found[1] is not None:
            return begin + fill * (len(sign) - 1)
        if sign in ("{{", "}}"):
            return sign[0] + fill
        raise _WrongError(
            "Expected the name of one variable between braces.",
            *found.span(),
            "Name the node in its block, //item->i[/title->t], and write {t}; write {{ and }} for literal braces.",
        )

    return _BRACES.sub(mark, text)


def _unused(text: str) -> tuple[str, str]:
    """Return two private-use characters that occur neither in the text nor in its character references."""
    used = set(text) | set(html.unescape(text))
    free = (chr(code) for code in range(0xE000, 0xF900) if chr(code) not in used)
    first, second = next(free, None), next(free, None)
    if first is None or second is None:
        raise _WrongError("SELECT has too many private-use characters.", 0, len(text), too_large=True)
    return first, second


class _TemplateBuilder:
    """Builds the element tree from expat events."""

    def __init__(self, text: str, begin: str, fill: str, variables: list[str]) -> None:
        self._text, self._begin, self._fill = text, begin, fill
        self._slot, self._variables = re.compile(f"{begin}{fill}*"), iter(variables)
        self._open: list[tuple[Name, tuple[tuple[Name, tuple[Piece, ...]], ...], list[TemplateElement | Piece]]] = []
        self._over: list[TemplateElement] = []
        self._data = text.encode()
        parser = expat.ParserCreate("utf-8", namespace_separator=_SEPARATOR)
        parser.ordered_attributes = parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parser.StartNamespaceDeclHandler = self._namespace
        self._parser = parser

    def read(self) -> TemplateElement:
        parser = self._parser
        try:
            parser.Parse(self._data, True)
        except expat.ExpatError as error:
            problem = expat.ErrorString(error.code)
            at = min(self._at(parser.ErrorByteIndex), max(len(self._text) - 1, 0))
            raise _WrongError(
                f"SELECT is not well-formed XML: {problem}.", at, at + 1, "Write one element: <alert>{a}{b}</alert>."
            ) from None
        return self._over[-1]

    def _at(self, place: int) -> int:
        return len(self._data[:place].decode(errors="ignore"))

    def _pieces(self, text: str) -> Iterator[Piece]:
        last = 0
        for found in self._slot.finditer(text):
            if plain := text[last : found.start()].replace(self._fill, ""):
                yield plain
            yield Slot(next(self._variables))
            last = found.end()
        if plain := text[last:].replace(self._fill, ""):
            yield plain

    def _start(self, name: str, attributes: list[str]) -> None:
        if len(self._open) >= limits.MAX_NESTING:
            at = self._at(self._parser.CurrentByteIndex)
            raise _WrongError(f"Elements are nested more than {limits.MAX_NESTING} deep.", at, at + 1, too_large=True)
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        self._open.append((_name(name), tuple((_name(one), (*self._pieces(text),)) for one, text in pairs), []))

    def _characters(self, text: str) -> None:
        self._open[-1][2].extend(self._pieces(text))

    def _end(self, _: str) -> None:
        name, attributes, content = self._open.pop()
        element = TemplateElement(name, attributes, tuple(content))
        if self._open:
            self._open[-1][2].append(element)
        else:
            self._over.append(element)

    def _namespace(self, prefix: str | None, uri: str | None) -> None:
        if self._begin in (uri or ""):
            at = self._at(self._parser.CurrentByteIndex)
            raise _WrongError("Unexpected variable in a namespace: it must be constant.", at, at + 1)


def _name(text: str) -> Name:
    uri, _, local = text.rpartition(_SEPARATOR)
    return uri, local
