"""Subscription shapes: texts that differ only in constants and window are parsed once.

A shape is the text with numbered marks in place of the constants after comparison operators. Extracting it takes one
regular expression over the text; parsing it takes a thousand times as long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import TypeVar, cast

from perseid.errors import PatternError
from perseid.lang import ast
from perseid.lang.expressions import Span
from perseid.lang.parser import parse_window
from perseid.lang.subscriptions import read_constant
from perseid.lang.tree_patterns import Constant

T = TypeVar("T")
_LITERAL = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"""
_COMPARED = re.compile(rf"((?:[=<>≤≥≠]|(?<!\w)contains(?!\w))\s*)({_LITERAL})|{_LITERAL}", re.IGNORECASE)
_WINDOW = re.compile(r",([^,{}'\"]*)\}")
_MARK, _NUMBER = "\ue000", 876_543_210_000_000
_MANY = 999
_LONGEST = 4_000
"""Longer texts are parsed directly: they are rare, and the regular expression should not run over them."""
_SAME_WINDOW = "1 second"


@dataclass(frozen=True)
class Shaped:
    """A subscription text as shape, constants and window."""

    shape: str
    constants: tuple[Constant, ...]
    window: int | None


def shaped(text: str) -> Shaped | None:
    """Split a text into shape, constants and window; None if the text must be parsed directly."""
    if not isinstance(text, str) or len(text) > _LONGEST or _MARK in text or str(_NUMBER)[:9] in text:
        return None
    constants: list[Constant] = []

    def mark(found: re.Match[str]) -> str:
        if found[2] is None:
            return found.group()
        constants.append(read_constant(found[2]))
        return found[1] + (
            f"'{_MARK}{len(constants) - 1}'" if found[2][0] in "'\"" else str(_NUMBER + len(constants) - 1)
        )

    shape = _COMPARED.sub(mark, text)
    windows = list(_WINDOW.finditer(shape))
    if len(windows) != 1 or len(constants) > _MANY or "" in constants:
        return None
    try:
        window = _window(windows[0][1].strip())
    except (PatternError, ValueError):
        return None
    begin, end = windows[0].span(1)
    return Shaped(f"{shape[:begin]} {_SAME_WINDOW}{shape[end:]}", tuple(constants), window)


def place_of(value: Constant | None) -> int | None:
    """Index of the constant that a mark replaces; None if the value is not a mark."""
    if isinstance(value, str):
        return int(value[1:]) if value.startswith(_MARK) else None
    if isinstance(value, int) and 0 <= value - _NUMBER <= _MANY:
        return value - _NUMBER
    return None


def fill_marks(value: T, constants: Sequence[Constant]) -> T:
    """Replace the marks in a parsed shape, or a part of one, by constants."""
    return cast("T", _filled(value, constants)) if constants else value


def _filled(value: object, constants: Sequence[Constant]) -> object:
    if isinstance(value, str | int):
        place = place_of(value)
        return value if place is None else constants[place]
    if isinstance(value, tuple):
        return tuple(_filled(one, constants) for one in value)
    if not is_dataclass(value) or isinstance(value, type | Span):
        return value
    parts = {part.name: getattr(value, part.name) for part in fields(value)}
    changed = {name: new for name, old in parts.items() if (new := _filled(old, constants)) is not old}
    return replace(value, **changed) if changed else value


@lru_cache(maxsize=1 << 12)
def _window(text: str) -> int | None:
    found = parse_window(text)
    if isinstance(found, ast.TimeWindow) and isinstance(found.duration, int):
        return found.duration
    if isinstance(found, ast.Forever):
        return None
    raise ValueError(text)
