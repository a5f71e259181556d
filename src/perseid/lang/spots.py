"""Where a parser stopped, and a mistake that was recognised there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from lark import Token

from perseid.lang.first_look import LEXEME

_LOOK_BACK = 500


class Slip(NamedTuple):
    """A mistake that was recognised: what to write instead and, where the parser stopped elsewhere, where."""

    hint: str | None
    message: str | None = None
    start: int | None = None
    width: int = 1
    nearest: str | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the parser stopped, what it met there and what it could have taken."""

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
        """The pattern right before the spot; it looks back a little only, however long the text is."""
        end = len(self.before)
        return re.compile(f"(?:{pattern})\\Z", re.IGNORECASE).search(self.text[:end], max(0, end - _LOOK_BACK))

    def ahead(self, pattern: str) -> re.Match[str] | None:
        """The pattern from the spot on; it looks ahead a little only."""
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
