"""The position of a syntax error, and the diagnosis of a common mistake at it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from lark import Token

from perseid.lang.first_look import LEXEME

_LOOK_BACK = 500


class Slip(NamedTuple):
    """A diagnosed mistake: message, correction, and its position if the parser stopped elsewhere."""

    hint: str | None
    message: str | None = None
    start: int | None = None
    width: int = 1
    nearest: str | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """Position of a syntax error: the text, the offset, the token found and the terminals accepted there."""

    text: str
    at: int
    token: Token
    expected: frozenset[str]

    @property
    def at_end(self) -> bool:
        return self.token.type == "$END"

    @property
    def word(self) -> str:
        return "" if self.at_end else str(self.token).lower()

    @property
    def before(self) -> str:
        return self.text[: self.at].rstrip()

    def behind(self, pattern: str) -> re.Match[str] | None:
        """Match a pattern right before the position, at most ``_LOOK_BACK`` characters back."""
        end = len(self.before)
        return re.compile(f"(?:{pattern})\\Z", re.IGNORECASE).search(self.text[:end], max(0, end - _LOOK_BACK))

    def ahead(self, pattern: str) -> re.Match[str] | None:
        """Match a pattern from the position on, at most ``_LOOK_BACK`` characters ahead."""
        return re.compile(pattern, re.IGNORECASE).match(self.text[self.at : self.at + _LOOK_BACK])

    def opened(self) -> int | None:
        return unclosed(self.text[: self.at])


def unclosed(text: str) -> int | None:
    stack: list[int] = []
    for found in LEXEME.finditer(text):
        lexeme = found.group()
        if lexeme in "([{":
            stack.append(found.start())
        elif lexeme in ")]}" and stack:
            stack.pop()
    return stack[-1] if stack else None
